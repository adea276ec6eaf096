"""The fingerprint of a job instance: what it would compute, by content alone. Pure.

In it: the action, each parameter and environment value, each binding's name with its content and the form it is
handed over in, the declared outputs. Not in it: source IDs, folders, conditions, needs, limits, places, secrets, and
the parameters that the action declares not to count.

    fingerprint = sha256("whyrun/step/v1" ⏎ action ⏎ outputs ⏎ slot names (JSON) ⏎ token ⏎ token …)

A token is one letter for the form, 64 hex digits, and for files the suffix; tokens stand in the order of the names.
So the preimage can be read back in only one way, and the letters keep a text value apart from a file with its bytes.

Of the types of files, `text` alone may be handed over otherwise than as a path, and only where the job `opens_texts`:
its letter is `t` there, and `f` everywhere else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence

from whyrun.artifacts.hashing import canonical_json
from whyrun.graph.graph import JobTable, Opens, Slot
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import FILE_TYPES

TAG = "whyrun/step/v1"
SECTION_SUFFIX = "§"
SUFFIX_OF_TYPE = {"image": ".png", "text": ".txt", "json": ".json"}  # of outputs that have no path
_NO_SUFFIX = "."  # where the usual one of the type is another
_SUFFIX = re.compile(r"[^/](\.[A-Za-z0-9_+-]{1,16})\Z")


def form_of(type_: str, suffix: str, opens: Opens = Opens.NOWHERE) -> str:
    """How a thing of this type is handed to an action: v(alue), d(irectory), f(ile) or t(ext), with its suffix.

    `opens`: where that action may be given a text's content.
    """
    if type_ in FILE_TYPES:
        return f"t{suffix}" if opens and type_ == "text" else f"f{suffix}"
    return "d" if type_ == "directory" else "v"


def input_form(value: InputValue, opens: Opens = Opens.NOWHERE) -> str:
    if value.elements is not None:
        # An array: its own hash covers the suffixes of its elements. An empty one is the same whatever its type.
        return "at" if opens.inside and value.type.base == "text" and value.elements else "a"
    if value.path is None:
        return form_of(value.type.base, "")  # not given: null, whatever its type
    return form_of(value.type.base, suffix_of_path(value.path), opens)


def suffix_of_path(path: str) -> str:
    """`.png`, if it is a plain one: a last part of the name with 1 to 16 letters, digits, `_`, `-` or `+`."""
    dot = path.rfind(".")
    if dot > 0 and path[dot - 1] != "/" and path[dot + 1 :].isalnum() and path.isascii() and len(path) - dot <= 17:
        return path[dot:]  # nearly all: no need to search
    found = _SUFFIX.search(path)
    return found.group(1) if found is not None else ""


def artifact_form(table: JobTable, artifact: int, opens: Opens = Opens.NOWHERE) -> str:
    """`table` is that of its producer, `opens` is about its consumer."""
    spec = table.artifacts[artifact]
    return "v" if spec.is_leaf else form_of(spec.type, table.output_of(artifact).suffix, opens)


def recorded_suffix(table: JobTable, artifact: int) -> str:
    """The suffix that belongs to an artifact, as the log tells it: of files always; of values, JSON and folders where
    it is not the usual one of their type. Whoever consumes these does not see it, but the step that writes them does.

    A section has one of its own: its bytes are canonical, and those of another JSON output need not be, so that such
    a one cannot stand for it.
    """
    spec, output = table.artifacts[artifact], table.output_of(artifact)
    if spec.is_leaf:
        return ""
    if output.append:
        return SECTION_SUFFIX
    if spec.type in FILE_TYPES:
        return output.suffix
    return "" if output.suffix == SUFFIX_OF_TYPE.get(spec.type, "") else output.suffix or _NO_SUFFIX


def token(form: str, sha256: str) -> str:
    return f"{form[0]}{sha256}{form[1:]}"


def input_tokens(values: Sequence[InputValue], opens: Opens = Opens.NOWHERE) -> list[str]:
    """The tokens of many. Files of one array mostly end alike, so that an ending is looked at once."""
    found: list[str] = []
    plain: dict[str, dict[str, str]] = {base: {} for base in FILE_TYPES}  # type → ending → form
    for value in values:
        path = value.path
        forms = plain.get(value.type.base)
        if path is None or value.elements is not None or forms is None:
            found.append(token(input_form(value, opens), value.sha256))
            continue
        name = path[path.rfind("/") + 1 :]
        ending = name[name.rfind(".", 1) :]  # nothing of a name without a dot but its last letter, which is no ending
        form = forms.get(ending)
        if form is None:
            form = input_form(value, opens)
            if form[1:] == ending:
                forms[ending] = form
        found.append(f"{form[0]}{value.sha256}{form[1:]}")
    return found


def group_token(tokens: Sequence[str]) -> str:
    return "g" + hashlib.sha256(("whyrun/group/v1\n" + "\n".join(tokens)).encode()).hexdigest()


def array_sha256(elements: Sequence[InputValue]) -> str:
    """The hash of an array of files: that of its elements with their suffixes. Arrays of values hash as values.

    Whether texts are opened depends on who consumes them: the form of the array says so, and not its hash.
    """
    tokens = "\n".join(input_tokens(elements))
    return hashlib.sha256(f"whyrun/array/v1\n{tokens}".encode()).hexdigest()


def counts(name: str, uncounted: Collection[str]) -> bool:
    """Does the slot of this name (`wait`, `wait.every`, `.env.X`) say what is computed, and not only how?

    `uncounted`: the parameters of which the action says that they do not.
    """
    return not uncounted or re.split(r"[.\[]", name, maxsplit=1)[0] not in uncounted


def counted(table: JobTable, uncounted: Collection[str]) -> Sequence[Slot]:
    return [slot for slot in table.slots if counts(slot.name, uncounted)] if uncounted else table.slots


def prefix(table: JobTable, action_sha256: str, position: int = 0, uncounted: Collection[str] = ()) -> str:
    """The part of the preimage that a job's instances share (unless a leaf's path follows the job's own loop)."""
    outputs = [[o.name, o.type, o.suffix] for o in table.outputs]
    leaves = [[s.key_at(position), s.type] for s in table.artifacts if s.is_leaf]
    declared = canonical_json([outputs, sorted(leaves)])
    names = canonical_json([slot.name for slot in counted(table, uncounted)]).decode()
    return f"{TAG}\n{action_sha256}\n{hashlib.sha256(declared).hexdigest()}\n{names}\n"


def prefixes(table: JobTable, action_sha256: str, uncounted: Collection[str] = ()) -> list[str]:
    if any(spec.leaf_by_row is not None for spec in table.artifacts):
        return [prefix(table, action_sha256, p, uncounted) for p in range(len(table))]
    return [prefix(table, action_sha256, 0, uncounted)] * len(table)


def fingerprint(prefix_: str, tokens: Sequence[str]) -> str:
    return hashlib.sha256((prefix_ + "\n".join(tokens)).encode()).hexdigest()
