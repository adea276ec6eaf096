"""The fingerprint of a job instance: what it would compute, by content alone. Pure.

It covers the action, each parameter and environment value, each binding's name with its content and the form in which
the action receives it, and the declared outputs. It does not cover source IDs, folders, conditions, needs, limits,
places, secrets, and the parameters that the action declares as not counted.

    fingerprint = sha256("whyrun/step/v1" ⏎ action ⏎ outputs ⏎ slot names (JSON) ⏎ token ⏎ token …)

A token is one letter for the form, 64 hex digits, and for files the suffix; tokens are in the order of the names. So a
preimage has only one meaning, and the letters distinguish a text value from a file with the same bytes.

`text` is the only file type that an action may receive other than as a path, and only where the job `opens_texts`: the
letter is `t` there, and `f` everywhere else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from whyrun.artifacts.hashing import canonical_json, value_sha256
from whyrun.graph.tables import JobTable, Slot
from whyrun.ids import Index, format_indices
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import FILE_TYPES, Opens

EMPTY_MAPPING = value_sha256({})  # `named(…)` without members
TAG = "whyrun/step/v1"
SECTION_SUFFIX = "§"
SUFFIX_OF_TYPE = {"image": ".png", "text": ".txt", "json": ".json"}  # of outputs that have no path
_NO_SUFFIX = "."  # for no suffix, where the type has a usual one
_SUFFIX = lazy_regex(r"[^/](\.[A-Za-z0-9_+-]{1,16})\Z")
_COMPRESSED = frozenset({".gz", ".bz2", ".xz", ".zst"})  # the suffix before one of these says what the file is


def form_of(type_: str, suffix: str, opens: Opens = Opens.NOWHERE) -> str:
    """The form in which an action receives this type: v(alue), d(irectory), f(ile) or t(ext), with the suffix.

    `opens`: where that action may receive the content of a text.
    """
    if type_ in FILE_TYPES:
        return f"t{suffix}" if opens and type_ == "text" else f"f{suffix}"
    return "d" if type_ == "directory" else "v"


def input_form(value: InputValue, opens: Opens = Opens.NOWHERE) -> str:
    if value.elements is not None:
        # The hash of an array covers the suffixes of its elements. Empty arrays of all types are the same.
        return "at" if opens.inside and value.type.base == "text" and value.elements else "a"
    if value.path is None:
        return form_of(value.type.base, "")  # not given: null for every type
    return form_of(value.type.base, suffix_of_path(value.path), opens)


def suffix_of_path(path: str) -> str:
    """`.png`, or `.nii.gz`: the last suffix, and the one before a suffix of compression."""
    last = _last_suffix(path)
    return _last_suffix(path[: -len(last)]) + last if last in _COMPRESSED else last


def _last_suffix(path: str) -> str:
    """`.png`, if it is a plain suffix: 1 to 16 letters, digits, `_`, `-` or `+` after the last dot."""
    dot = path.rfind(".")
    if dot > 0 and path[dot - 1] != "/" and path[dot + 1 :].isalnum() and path.isascii() and len(path) - dot <= 17:
        return path[dot:]  # nearly all paths: no need for the regular expression
    found = _SUFFIX.search(path)
    return found.group(1) if found is not None else ""


def artifact_form(table: JobTable, artifact: int, opens: Opens = Opens.NOWHERE) -> str:
    """`table` is the producer's, `opens` the consumer's."""
    spec = table.artifacts[artifact]
    return "v" if spec.is_leaf else form_of(spec.type, table.output_of(artifact).suffix, opens)


def recorded_suffix(table: JobTable, artifact: int) -> str:
    """The suffix of an artifact as the log records it: always for files; for values, JSON and folders only if it is
    not the usual one of their type. Consumers of those do not see it, but the step that writes them does.

    A section has a suffix of its own: its bytes are canonical JSON, and those of another JSON output need not be, so
    one cannot replace the other.
    """
    spec, output = table.artifacts[artifact], table.output_of(artifact)
    if spec.is_leaf:
        return ""
    if output.append:
        return SECTION_SUFFIX
    if spec.type in FILE_TYPES:
        return output.suffix
    return "" if output.suffix == SUFFIX_OF_TYPE.get(spec.type, "") else output.suffix or _NO_SUFFIX


def under(plain: str, key: Sequence[Index] | str) -> str:
    """The token of a member of `named(…)`: its key counts."""
    return f"{plain}@{key if isinstance(key, str) else format_indices(key)}" if key else plain


def recorded_token(entry: Mapping[str, Any]) -> str:
    """That of an entry which the log recorded."""
    return under(token(entry.get("as", "v"), entry["sha256"]), entry.get("under", ""))


def token(form: str, sha256: str) -> str:
    return f"{form[0]}{sha256}{form[1:]}"


def input_tokens(values: Sequence[InputValue], opens: Opens = Opens.NOWHERE) -> list[str]:
    """The tokens of many inputs. Files of one array mostly have the same suffix, so each suffix is computed once."""
    found: list[str] = []
    plain: dict[str, dict[str, str]] = {base: {} for base in FILE_TYPES}  # type → ending → form
    for value in values:
        path = value.path
        forms = plain.get(value.type.base)
        if path is None or value.elements is not None or forms is None:
            found.append(token(input_form(value, opens), value.sha256))
            continue
        name = path[path.rfind("/") + 1 :]
        ending = name[name.rfind(".", 1) :]  # of a name without a dot: its last letter, which is no suffix
        form = forms.get(ending)
        if form is None:
            form = input_form(value, opens)
            if form[1:] == ending and ending not in _COMPRESSED:
                forms[ending] = form
        found.append(f"{form[0]}{value.sha256}{form[1:]}")
    return found


def group_token(tokens: Sequence[str]) -> str:
    return "g" + hashlib.sha256(("whyrun/group/v1\n" + "\n".join(tokens)).encode()).hexdigest()


def array_sha256(elements: Sequence[InputValue]) -> str:
    """The hash of an array of files: over its elements with their suffixes. Arrays of values hash as values.

    Whether texts are opened depends on the consumer, so it is part of the form and not of the hash.
    """
    tokens = "\n".join(input_tokens(elements))
    return hashlib.sha256(f"whyrun/array/v1\n{tokens}".encode()).hexdigest()


def counts(name: str, uncounted: Collection[str]) -> bool:
    """Does the slot of this name (`wait`, `wait.every`, `.env.X`) count in the fingerprint?

    `uncounted`: the parameters that do not, as the action declares.
    """
    return not uncounted or re.split(r"[.\[]", name, maxsplit=1)[0] not in uncounted


def counted(table: JobTable, uncounted: Collection[str]) -> Sequence[Slot]:
    return [slot for slot in table.slots if counts(slot.name, uncounted)] if uncounted else table.slots


def prefix(table: JobTable, action_sha256: str, position: int = 0, uncounted: Collection[str] = ()) -> str:
    """The part of the preimage that all instances of a job share (unless a leaf's path uses the job's own loop)."""
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
