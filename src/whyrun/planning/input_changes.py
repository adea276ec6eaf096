"""INPUT_CHANGED: the differences between what a job would consume now and what its last success consumed. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec import UNSET

from whyrun.artifacts.hashing import canonical_json, value_sha256
from whyrun.errors import printable
from whyrun.graph.fingerprint import counts, recorded_token
from whyrun.graph.tables import Graph
from whyrun.ids import parse_id_of
from whyrun.planning.consume import Entry, Members, is_small
from whyrun.planning.reason_base import Case, ReasonBase
from whyrun.snapshot.reads import SHA256_DIGITS, package_changes, read_changes
from whyrun.snapshot.records import Attempt
from whyrun.snapshot.snapshot import NAMED_FILES

LONGEST = 80  # characters of a small value in a text
CONTEXT = 20  # characters of a long line before its first difference
DIFFERENCES = 3  # differences within a value that a text names
_NULL = value_sha256(None)
_ABSENT = object()
_FORM_CHANGES: dict[tuple[str | None, str | None], str] = {
    ("f", "t"): "given as text, not as a file",
    ("t", "f"): "given as a file, not as text",
    ("a", "at"): "given as texts, not as files",
    ("at", "a"): "given as files, not as texts",
}


class InputChanged(ReasonBase, frozen=True):
    """The job would consume something else than its last success. `old` is None for an addition, `new` for a removal.
    Small values are given with their hashes."""

    binding: str
    source: str | None = None
    old_source: str | None = None
    old: str | None = None
    new: str | None = None
    old_value: Any = None
    new_value: Any = None
    old_as: str | None = None  # only if the content is the same: the form it is given in (`f.csv`, `t.txt`, `v[]`)
    new_as: str | None = None
    problem: str | None = None  # why it cannot be computed
    files: tuple[str, ...] | None = None  # of an action: the files that changed, came or went
    versions: tuple[str, ...] | None = None  # of an action: `whyrun-text-actions 0.1.0 → 9.9`
    names: tuple[str, ...] | None = None  # of a folder that was listed: what came (`+x.csv`) or went (`-x.csv`)
    read: str | None = None  # not of a binding: what a step found undeclared at the path `source`, or `package`

    code = "INPUT_CHANGED"
    when = (
        "what it would consume now differs from what its last success consumed: the content of an input or element, a "
        "parameter, the action, a binding that was added, removed or got other content, a member of a fan-in, or a "
        "file that the step was seen to read without declaring it (`observed`)"
    )
    if_none = "nothing that is known differs from what its last success consumed"

    @classmethod
    def find(cls, case: Case) -> list[InputChanged]:
        consumption = case.consumption
        success = case.record.last_success() if case.record is not None else None
        if success is None:
            return []
        changes: list[InputChanged] = []
        if "if" in consumption.problems:
            changes.append(InputChanged("if", problem=consumption.problems["if"]))
        before = case.snapshot.consumed.get((success.run, success.seq))
        if before is None:
            # No suspect reaches it; it is judged only because it or a job upstream is forced. So everything that is
            # known of what it would consume is what it consumed.
            return changes
        changes.extend(changed_action(case, before.get(".action") or [{}]))
        now: dict[str, Entry | Members] = consumption.entries
        uncounted = case.snapshot.actions[case.table.name].uncounted
        for name in sorted({*before, *now, *consumption.problems} - {"if", ".action"}):
            if not counts(name, uncounted):
                continue
            if name in consumption.problems:
                changes.append(InputChanged(_without_dot(name), problem=consumption.problems[name]))
            elif name not in consumption.unknown:  # an unknown one is UPSTREAM_DIRTY
                changes.extend(compare_entries(_without_dot(name), before.get(name), now.get(name)))
        return [*changes, *changed_observations(case, success)]

    @classmethod
    def why_none(cls, case: Case) -> str:
        success = case.record.last_success() if case.record is not None else None
        return cls.if_none if success is not None else "there is no success to compare with"

    @property
    def outdates_result(self) -> bool:
        return True

    def producer(self, graph: Graph) -> int | None:
        at = graph.artifact_of.get(self.source) if self.source is not None else None
        return None if at is None else graph.node(at)

    def text(self, job: str) -> str:
        if self.read is not None:
            old = short_content(self.old, None) if self.old is not None else self.old_value
            new = short_content(self.new, None) if self.new is not None else self.new_value
            names = f" ({', '.join(self.names)})" if self.names else ""
            return printable(f"{self.binding} ← {self.source}  {old} → {new}{names}")
        if self.problem is not None:
            return printable(f"{self.binding} cannot be computed: {self.problem}")
        own = f"Input:{parse_id_of('Job', job).path}."  # IDs of parameters and of the action name the slot already

        def named(source: str) -> str:
            return source if source.startswith(own) else f"{self.binding} ← {source}"

        old, new = short_content(self.old, self.old_value), short_content(self.new, self.new_value)
        if self.source is None and self.old_source is None:
            if self.old is None:
                return f"{self.binding}  an empty list was added or removed"
            return f"{self.binding}  {old} → another list"
        if self.source is None:
            assert self.old_source is not None
            return f"{named(self.old_source)}  {old} (removed)"
        if self.old is None:
            return f"{named(self.source)}  {new} (added)"
        if self.old_source is not None and self.source.startswith(own) and self.new_value in ({}, []):
            return f"{named(self.old_source)}  {old} (removed), {new} (added)"  # the last member of a fan-in
        text = named(self.source)
        if self.old_source is not None and self.old_source != self.source:
            text += f" (was {self.old_source})"
        if self.old == self.new:
            return f"{text}  {_form_change(self.old_as, self.new_as)}"
        files = f"  ({', '.join(self.files)})" if self.files else ""
        if self.versions:
            return printable(f"{text}  {', '.join(self.versions)}{files}")
        inside = _differences(self.old_value, self.new_value)
        return printable(f"{text}  {inside or f'{old} → {new}'}{files}")


def changed_action(case: Case, before: Sequence[Mapping[str, Any]]) -> list[InputChanged]:
    action, then = case.snapshot.actions[case.table.name], before[0]
    if then.get("sha256") == action.sha256:
        return []
    files = None
    if len(action.files) <= NAMED_FILES:  # of longer lists, the log has no hash for each file
        was = then.get("files", {})
        now = {path: sha256[: len(next(iter(was.values()), sha256))] for path, sha256 in action.files.items()}
        files = tuple(sorted(path for path in {*was, *now} if was.get(path) != now.get(path)))
    return [
        InputChanged(
            "action",
            source=f"Input:{case.table.path(case.position)}.action",
            old=then.get("sha256"),
            new=action.sha256,
            files=files or None,
            versions=version_changes(then.get("versions", {}), action.versions),
        )
    ]


# What a path held, in words, where that is no hash.
NOT_KNOWN, MADE_ANEW, NOT_INSTALLED = "not known", "made anew", "not installed"


def changed_observations(case: Case, success: Attempt) -> Iterator[InputChanged]:
    """The undeclared reads of a success that find something else now; and packages, if their versions count."""
    for change in read_changes(case.snapshot, case.node, success, case.consumption.made_now):
        read, now = change.read, change.now
        is_hash = now is not None and len(now) == SHA256_DIGITS
        yield InputChanged(
            "observed",
            source=read.shown,
            old=read.sha256,
            new=now if is_hash else None,
            old_value=None if read.sha256 is not None else read.content or NOT_KNOWN,
            new_value=None if is_hash else now or MADE_ANEW,
            names=case.snapshot.reads.names.get(read.names_key) if read.kind == "folder" else None,
            read=read.kind,
        )
    if case.snapshot.reads.counts_packages:
        for package in package_changes(case.snapshot, case.node, success):
            yield InputChanged(
                "packages",
                source=package.name,
                old_value=package.old,
                new_value=package.new or NOT_INSTALLED,
                read="package",
            )


def version_changes(was: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...] | None:
    """The versions of an action and its package that changed; None if none changed, or none were recorded."""
    changed = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
    texts = [f"{name} {was.get(name) or 'none'} → {now.get(name) or 'none'}" for name in changed]
    return tuple(texts) if was and texts else None


def _without_dot(name: str) -> str:
    """`.env.NAME` is written without the dot that keeps it apart from `with:` entries."""
    return name.removeprefix(".")


# --- comparing one slot ------------------------------------------------------------------------------------------


def compare_entries(name: str, before: Any, now: Entry | Members | None) -> list[InputChanged]:
    """The differences of one slot by content. `before`: the entries that the log recorded."""
    if isinstance(before, dict):  # a wide list with unreadable members: only its digest is known
        members = now.recorded if isinstance(now, Members) else []
        return [] if before["digest"] == wide_digest(members) else [InputChanged(name, old=before["digest"])]
    new = [] if now is None else now if isinstance(now, list) else [now]
    old = [] if before is None else before
    if [recorded_token(entry) for entry in old] == [entry.token for entry in new]:
        if len(new) == 1:
            was_listed = old[0].get("listed", False)
            if was_listed == isinstance(now, list):
                return []
            return [_change(name, old[0], new[0], listed=isinstance(now, list))]
        if (before is None) == (now is None):
            return []
        # An empty fan-in was added or removed. Nothing was consumed, but the binding is another.
        return [InputChanged(name, old_source=None)]
    if len(old) == 1 and len(new) == 1:
        return [_change(name, old[0], new[0])]
    old_by_id = {entry["id"]: entry for entry in old}
    new_by_id = {entry.id: entry for entry in new}
    changes: list[InputChanged] = []
    for entry in new:
        then = old_by_id.get(entry.id)
        if then is None or recorded_token(then) != entry.token:
            changes.append(_change(name, then, entry))
    changes.extend(_change(name, then, None) for then in old if then["id"] not in new_by_id)
    # The same members in another order: name the first that moved.
    return changes or [_change(name, old[_first_moved(old, new)], new[_first_moved(old, new)])]


def wide_digest(members: Sequence[Mapping[str, Any]]) -> str:
    return sha256(canonical_json(list(members))).hexdigest()


def _first_moved(old: Sequence[Mapping[str, Any]], new: Sequence[Entry]) -> int:
    return next(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if recorded_token(a) != b.token)


def _change(name: str, then: Mapping[str, Any] | None, now: Entry | None, *, listed: bool = False) -> InputChanged:
    old_value = then.get("value") if then is not None else None
    new_value = None
    if now is not None and now.value is not UNSET and is_small(now.value):
        new_value = now.value
    moved = then is not None and now is not None and then["id"] != now.id
    old_as = new_as = None
    if then is not None and now is not None and then["sha256"] == now.sha256:
        # The same content in another form: with another suffix, as a text, alone or in a list.
        old_as = then.get("as", "v") + ("[]" if then.get("listed") else then.get("under", ""))
        new_as = now.form + ("[]" if listed else now.under)
    return InputChanged(
        name,
        source=now.id if now is not None else None,
        old_source=then["id"] if then is not None and (moved or now is None) else None,
        old=then["sha256"] if then is not None else None,
        new=now.sha256 if now is not None else None,
        old_value=old_value,
        new_value=new_value,
        old_as=old_as,
        new_as=new_as,
    )


# --- text --------------------------------------------------------------------------------------------------------


def short_content(sha256: str | None, value: Any) -> str:
    """A small value itself, else the beginning of its hash."""
    if value is not None or sha256 == _NULL:
        return short_value(value)
    return f"{sha256[:4]}…" if sha256 else ""


def short_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return printable(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def _form_change(old: str | None, new: str | None) -> str:
    """How the step receives the same content now. The text says only what a step notices: text or file."""
    return _FORM_CHANGES.get((_kind_of_form(old), _kind_of_form(new)), "the same content in another place or form")


def _kind_of_form(form: str | None) -> str | None:
    """`t` of `t.txt` and `t.txt[]`; `at` of an array of texts: see `graph.fingerprint`."""
    return form and (form.removesuffix("[]") if form.startswith("a") else form[0])


def _differences(old: Any, new: Any) -> str:
    """Where two texts, mappings or lists differ, if that is shorter than both side by side; else nothing."""
    if isinstance(old, str) and isinstance(new, str):
        return _text_difference(old, new)
    if type(old) is not type(new) or not isinstance(old, dict | list):
        return ""
    paths = list(_differing(old, new, ""))
    if not paths or len(json.dumps([old, new])) <= LONGEST:
        return ""
    more = f", … ({len(paths)} differences)" if len(paths) > DIFFERENCES else ""
    return ", ".join(f"{path} {_part(a)} → {_part(b)}" for path, a, b in paths[:DIFFERENCES]) + more


def _text_difference(old: str, new: str) -> str:
    """The lines that differ between two scripts or other long texts; nothing for short ones."""
    if "\n" not in old + new and max(len(old), len(new)) + 2 <= LONGEST:
        return ""
    before, after = old.split("\n"), new.split("\n")
    same = _common(before, after)
    end = _common(before[same:][::-1], after[same:][::-1])
    removed, added = before[same : len(before) - end], after[same : len(after) - end]
    number = same + 1
    if not removed or not added:
        lines = removed or added
        where = f"line {number}: {_line(lines[0])}" if len(lines) == 1 else f"lines {number}–{same + len(lines)}"
        return f"{where} ({'added' if added else 'removed'})"
    first = f"line {number}: {' → '.join(map(_line, _around(removed[0], added[0])))}"
    if len(removed) == len(added) == 1:
        return first
    return f"{first}, … ({len(removed)} lines → {len(added)})"


def _line(text: str) -> str:
    return f"`{text if len(text) <= LONGEST else f'{text[: LONGEST - 1]}…'}`"


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """The number of equal members at the start of both."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _around(old: str, new: str) -> tuple[str, str]:
    """Two lines, from shortly before their first difference if they are long: that must not be cut off."""
    start = _common(old, new) - CONTEXT
    if start <= 0 or max(len(old), len(new)) + 2 <= LONGEST:
        return old, new
    return f"…{old[start:]}", f"…{new[start:]}"


def _differing(old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _differing(old.get(key, _ABSENT), new.get(key, _ABSENT), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _differing(a, b, f"{path}[{i}]")
    elif old != new or type(old) is not type(new):
        yield path, old, new


def _part(value: Any) -> str:
    return "nothing" if value is _ABSENT else short_value(value)
