"""References to results of imports, as people write them before they know how: what was meant. Pure."""

from __future__ import annotations

from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.scope import JobShape, Names

_LOOSE = lazy_regex(r"\s*(jobs|imports)((?:[./][A-Za-z_][A-Za-z0-9_]*(?:\[[^\[\]]*\])*)+)\s*")
_PART = lazy_regex(r"([./])([A-Za-z_][A-Za-z0-9_]*)((?:\[[^\[\]]*\])*)")
_SELECTOR = lazy_regex(r"\[([^\[\]]*)\]")


def meant_reference(text: str, names: Names) -> str | None:
    """`jobs.Video.Clip.outputs.Frame[:, :]` for `jobs.Video/Clip.outputs.Frame[:, :]`, `jobs.Video[:].Clip.…`,
    `imports.Video.…` and `jobs.Video.outputs.Frame`. None for a text that is written like a reference."""
    found = _LOOSE.fullmatch(text)
    if found is None:
        return None
    parts = _PART.findall(found[2])
    inner = names
    path: list[str] = []
    before: list[str] = []  # selectors of imports and of the job, where only the output has some
    is_wrong = found[1] == "imports"
    while parts and (imported := inner.imports.get(parts[0][1])) is not None:
        inner = imported
        _take(parts, path, before)
    if not path or not parts:
        return None
    if parts[0][1] == "outputs":
        is_wrong = True
        path += _jobs_with(inner, parts[1][1]) if len(parts) > 1 else []
    else:
        _take(parts, path, before)
    shape: JobShape | None = inner.jobs.get(path[-1])
    if shape is None or not shape.outputs or shape.loops is None or not (is_wrong or before or "/" in found[2]):
        return None
    if len(parts) < 2 or parts[0][1] != "outputs" or parts[1][1] not in shape.outputs:
        return None
    written = [each.strip() for one in (*before, *_SELECTOR.findall(parts[1][2])) for each in one.split(",")]
    written += [":"] * (len(shape.loops) - len(written))
    indices = f"[{', '.join(written)}]" if written else ""
    leaf = "".join(f".{name}{selectors}" for _, name, selectors in parts[2:])
    return f"jobs.{'.'.join(path)}.outputs.{parts[1][1]}{indices}{leaf}"


def _take(parts: list[tuple[str, str, str]], path: list[str], before: list[str]) -> None:
    _, name, selectors = parts.pop(0)
    path.append(name)
    before += _SELECTOR.findall(selectors)


def _jobs_with(names: Names, output: str) -> list[str]:
    """The job of an import that has this output, if it is the only one."""
    having = [name for name, shape in names.jobs.items() if shape.outputs and output in shape.outputs]
    return having if len(having) == 1 else []
