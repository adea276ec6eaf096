"""What to write instead of an index that an input does not have. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whyrun.ids import Index, format_index
from whyrun.workflow.inputs import IndexProblem, InputValue
from whyrun.workflow.model import At, InputRef, Loop


def hint_for_loop(
    ref: InputRef,
    selector: Loop,
    problem: IndexProblem,
    whole: InputValue,
    indices: Sequence[Any],
    inputs: Mapping[str, InputValue],
) -> str | None:
    """For `inputs.Names[c]`, where the loop does not go over the elements of the array."""
    above = ref.selectors[: problem.depth]
    if not all(isinstance(s, At) for s in above):
        return problem.hint
    loop = f"`{selector.loop}: {{each: {InputRef(ref.name, above, ref.place)}}}`"
    if problem.code == "INDEX_OUT_OF_RANGE":
        index = indices[problem.depth]
        row = f"`{format_index(index)}`"
        if whole.keys is not None and whole.path is not None:
            return f"add the row {row} to `{whole.path}`, or declare the loop as {loop}"
        file, sheet = _file_for(whole, index), _sheet_with(index, inputs)
        if file is not None and sheet is not None:  # the loop goes over the sheet: that is what a file is missing for
            return f"add the file `{file}`, or delete the row {row} of `{sheet}`"
        return f"declare the loop as {loop}, or give the array more elements"
    return f"a loop over the positions is declared as {loop}; the value itself is `${{{{ {selector.loop} }}}}`"


def _file_for(whole: InputValue, index: Index) -> str | None:
    """The path that a file with this key would have, if it were named like the first one."""
    if whole.keys is None or not whole.elements or whole.elements[0].path is None:
        return None
    folder, slash, name = whole.elements[0].path.rpartition("/")
    key = str(whole.indices[0])
    return f"{folder}{slash}{name.replace(key, str(index), 1)}" if key in name else None


def _sheet_with(index: Index, inputs: Mapping[str, InputValue]) -> str | None:
    """The file of the only sheet that has this row."""
    sheets = [each.path for each in inputs.values() if each.path and each.keys is not None and index in each.indices]
    return sheets[0] if len(sheets) == 1 else None
