"""Which job instances are dirty, inactive or clean, and why: the reason is recorded in the branch that decides. Pure.

`judge` looks at one instance, when everything upstream has been judged. It starts from the snapshot's suspects and
follows the edges downstream of every verdict that is not clean; who is never reached is clean.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from whyrun.artifacts.hashing import canonical_json
from whyrun.graph.fingerprint import counted, counts, prefix, recorded_suffix, token
from whyrun.graph.graph import ArtifactAt, Graph, JobTable
from whyrun.planning.consume import (
    Consumer,
    Consumption,
    Entry,
    GroupState,
    Look,
    Members,
    Pending,
    Seen,
    is_small,
)
from whyrun.planning.reasons import (
    LISTED,
    Forced,
    InputChanged,
    MissingOutput,
    Reason,
    RetryPreviousFailure,
    UpstreamDirty,
    UpstreamFailed,
    bounded,
    listed_reasons,
    version_changes,
)
from whyrun.planning.reuse import Reuse, is_undone, reusable, successes_by_fingerprint
from whyrun.snapshot.records import Attempt, StepRecord, run_name
from whyrun.snapshot.snapshot import NAMED_FILES, PlanningSnapshot
from whyrun.workflow.model import VALUE_TYPES

NOTHING: Mapping[str, Any] = MappingProxyType({})  # one for all: a plan may have a million jobs


class Verdict(msgspec.Struct, frozen=True):
    state: Literal["clean", "dirty", "inactive"]
    reasons: tuple[Reason, ...] = ()
    reuse: Reuse | None = None
    conditional: bool = False  # whether it is active will be known only during the run
    maybe: bool = False  # it may turn out to be inactive, by its own condition or a source's
    bindings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    # inactive: the condition's values or the source
    because: Mapping[str, Any] = msgspec.field(default_factory=lambda: NOTHING)


CLEAN = Verdict("clean")


def judge_all(snapshot: PlanningSnapshot, layers: Sequence[int], forced: Mapping[int, str]) -> dict[int, Verdict]:
    """The verdict on every instance that is not trivially clean. `forced`: node → the option that names it."""
    judge = Judge(snapshot, forced)
    graph = snapshot.dependency_graph
    waiting = {*snapshot.suspects, *forced}
    queue: dict[int, list[int]] = {}  # by layer, which is judged as a whole: dependents stand in later ones
    for node in waiting:
        queue.setdefault(layers[node], []).append(node)
    ahead = list(queue)
    heapq.heapify(ahead)
    followed: set[int] = set()  # lists of dependents that a whole fan-in shares
    while ahead:
        for node in sorted(queue.pop(heapq.heappop(ahead))):
            verdict = judge.verdicts[node] = judge.judge(node)
            if verdict.state == "clean":
                continue
            for base, rows in graph.dependent_rows(node):
                if len(rows) > 1:
                    if id(rows) in followed:
                        continue
                    followed.add(id(rows))
                for dependent in (base + row for row in rows):
                    if dependent not in waiting:
                        waiting.add(dependent)
                        if layers[dependent] not in queue:
                            heapq.heappush(ahead, layers[dependent])
                        queue.setdefault(layers[dependent], []).append(dependent)
    return judge.verdicts


Place = tuple[int, int, int]  # an artifact by table, row and output: in the order of the graph, [9] before [10]


def _place(at: ArtifactAt) -> Place:
    return at.table, at.position, at.artifact


def _artifact_at(graph: Graph, place: Place) -> str:
    table, position, artifact = place
    return graph.artifact_id(ArtifactAt(table, artifact, position))


class _Shared(NamedTuple):
    """The pending nodes and failed artifacts of some fan-ins."""

    nodes: list[int]
    node_set: set[int]
    failed: list[Place]
    failed_set: set[Place]


class Judge:
    def __init__(self, snapshot: PlanningSnapshot, forced: Mapping[int, str]) -> None:
        self.snapshot = snapshot
        self.graph = snapshot.dependency_graph
        self.forced = forced
        self.verdicts: dict[int, Verdict] = {}
        self.consumer = Consumer(self.graph, self.look)
        self._prefixes: dict[int, str] = {}
        self._shared: dict[tuple[int, ...], _Shared] = {}
        self._any_success: dict[str, tuple[str, Attempt]] | None = None

    def look(self, at: ArtifactAt) -> Look:
        """What is known of an artifact once its producer has been judged."""
        verdict = self.verdicts.get(self.graph.node(at), CLEAN)
        if verdict.state == "inactive":
            return None
        if verdict.state == "clean":
            sha = self.snapshot.shas[at.table][at.artifact][at.position]
            assert sha is not None, "a clean instance has all its outputs"
            spec = self.graph.tables[at.table].artifacts[at.artifact]
            return Seen(sha, self.snapshot.output(at).value if spec.is_leaf or spec.type in VALUE_TYPES else UNSET)
        if verdict.reuse is not None:
            output = verdict.reuse.outputs[self.graph.tables[at.table].artifacts[at.artifact].key_at(at.position)]
            return Seen(output.sha256, output.value)
        return Pending(verdict.maybe)

    def judge(self, node: int) -> Verdict:
        table, position = self.graph.table_at(node)
        found = self.consumer.consume(table, position)
        if found.inactive_by is not None:
            return Verdict("inactive", because={"source": found.inactive_by})
        if found.decision is not None and not found.decision.result:
            assert table.condition is not None
            because = {"condition": table.condition.expression.text, "inputs": found.decision.inputs}
            return Verdict("inactive", because=because)
        record = self.snapshot.record(node)
        reasons = self.reasons(node, found)
        if node in self.forced:
            reasons.append(Forced(self.forced[node]))
        if not reasons:
            return CLEAN
        reuse = None
        if found.known and not found.maybe and node not in self.forced:
            reuse = self.reusable(table, position, record, found)
        return Verdict("dirty", tuple(reasons), reuse, found.undecided, found.maybe, found.shown)

    # -- the reasons, in their order --

    def reasons(self, node: int, found: Consumption, most: int | None = LISTED) -> list[Reason]:
        """All but FORCED, of each code so many particulars (None: all of them) and a count."""
        table, position = self.graph.table_at(node)
        record = self.snapshot.record(node)
        return [
            *self.retry(record),
            *bounded(self.missing_outputs(table, position, record), most),
            *bounded(self.changed_inputs(table, position, record, found), most),
            *self.upstream(found, most),
        ]

    def retry(self, record: StepRecord | None) -> list[Reason]:
        if record is None or record.latest.ok:
            return []
        latest = record.latest
        return [RetryPreviousFailure(run_name(latest.run), latest.number, latest.error_type, latest.error)]

    def missing_outputs(self, table: JobTable, position: int, record: StepRecord | None) -> list[Reason]:
        found: list[Reason] = []
        shas = self.snapshot.shas[table.number]
        for a, spec in enumerate(table.artifacts):
            if shas[a][position] is not None:
                continue
            id_ = table.artifact_id(a, position)
            change, path = None, None
            latest = record.latest if record is not None and record.latest.ok else None
            made = next((o for o in latest.outputs if o.id == id_), None) if latest is not None else None
            if made is not None:  # it was made, and is not there any more, or is not what is declared now
                paths = table.output_of(a).paths
                path = None if paths is None or spec.is_leaf else paths[position]
                if (made.type, made.suffix) != (spec.type, recorded_suffix(table, a)):
                    change = "retyped"
                else:
                    change = "lost" if path is None else self.snapshot.files.get(path, "lost")
                    if change == "deleted" and made.path != path:
                        change = "unpublished"  # the path is new: nobody has taken anything away
            found.append(MissingOutput(id_, change, path))
        if not found and (record is None or record.last_success() is None):
            found.append(MissingOutput())
        return found

    def changed_inputs(
        self, table: JobTable, position: int, record: StepRecord | None, found: Consumption
    ) -> list[Reason]:
        success = record.last_success() if record is not None else None
        if success is None:
            return []
        changes: list[Reason] = []
        if "if" in found.problems:
            changes.append(InputChanged("if", problem=found.problems["if"]))
        before = self.snapshot.consumed.get((success.run, success.seq))
        if before is None:
            # Out of the suspects' reach, and looked at only because it or something upstream is forced: what it would
            # consume is, as far as it is known, what it consumed.
            return changes
        now: dict[str, Entry | Members] = found.entries
        changes.extend(self.changed_action(table, position, before.get(".action") or [{}]))
        uncounted = self.snapshot.actions[table.name].uncounted
        for name in sorted({*before, *now, *found.problems} - {"if", ".action"}):
            if not counts(name, uncounted):
                continue
            if name in found.problems:
                changes.append(InputChanged(_plain(name), problem=found.problems[name]))
            elif name in found.unknown:
                continue  # what it will be is not known yet: that is UPSTREAM_DIRTY
            else:
                changes.extend(compare_entries(_plain(name), before.get(name), now.get(name)))
        return changes

    def changed_action(self, table: JobTable, position: int, before: Sequence[Mapping[str, Any]]) -> list[Reason]:
        action, then = self.snapshot.actions[table.name], before[0]
        if then.get("sha256") == action.sha256:
            return []
        files = None
        if len(action.files) <= NAMED_FILES:  # of more it is not recorded what each of them was
            was = then.get("files", {})
            now = {path: sha256[: len(next(iter(was.values()), sha256))] for path, sha256 in action.files.items()}
            files = tuple(sorted(path for path in {*was, *now} if was.get(path) != now.get(path)))
        return [
            InputChanged(
                "action",
                source=f"Input:{table.path(position)}.action",
                old=then.get("sha256"),
                new=action.sha256,
                files=files or None,
                versions=version_changes(then.get("versions", {}), action.versions),
            )
        ]

    def upstream(self, found: Consumption, most: int | None = LISTED) -> list[Reason]:
        """UPSTREAM_FAILED and UPSTREAM_DIRTY. What many consumers share of fan-ins is worked out once."""
        if not found.waits:
            return []
        shared = self._of_groups(found.groups)
        nodes = {self.graph.node(at) for at in found.singles} - shared.node_set
        failed = {_place(at) for at in found.singles if self.is_failed(self.graph.node(at))} - shared.failed_set
        graph = self.graph
        return [
            *listed_reasons(
                "UPSTREAM_FAILED",
                shared.failed,
                sorted(failed),
                lambda at: UpstreamFailed(_artifact_at(graph, at)),
                most,
            ),
            *listed_reasons(
                "UPSTREAM_DIRTY", shared.nodes, sorted(nodes), lambda node: UpstreamDirty(graph.job_id(node)), most
            ),
        ]

    def is_failed(self, node: int) -> bool:
        record = self.snapshot.record(node)
        return record is not None and not record.latest.ok

    def _of_groups(self, groups: Sequence[GroupState]) -> _Shared:
        key = tuple(map(id, groups))  # states are kept by the consumer, so their ids stay theirs
        found = self._shared.get(key)
        if found is None:
            pending = {at for group in groups for at in group.pending}
            nodes = {self.graph.node(at) for at in pending}
            failed = {_place(at) for at in pending if self.is_failed(self.graph.node(at))}
            found = self._shared[key] = _Shared(sorted(nodes), nodes, sorted(failed), failed)
        return found

    # -- reuse --

    def prefix(self, table: JobTable, position: int) -> str:
        action = self.snapshot.actions[table.name]
        if any(spec.leaf_by_row is not None for spec in table.artifacts):
            return prefix(table, action.sha256, position, action.uncounted)
        if table.number not in self._prefixes:
            self._prefixes[table.number] = prefix(table, action.sha256, 0, action.uncounted)
        return self._prefixes[table.number]

    def fingerprint(self, table: JobTable, position: int, found: Consumption) -> str:
        """Of an instance whose consumption is known."""
        slots = counted(table, self.snapshot.actions[table.name].uncounted)
        return found.fingerprint(self.prefix(table, position), slots)

    def reusable(self, table: JobTable, position: int, record: StepRecord | None, found: Consumption) -> Reuse | None:
        others = self.any_success() if self.snapshot.actions[table.name].deterministic else {}
        if record is None and not others and not self.snapshot.shared:
            return None  # nobody has made anything that could be taken
        print_ = self.fingerprint(table, position, found)
        if is_undone(self.snapshot, table, record, print_):
            return None
        return reusable(table, position, record, print_, others, self.snapshot.lost, self.snapshot.shared)

    def any_success(self) -> dict[str, tuple[str, Attempt]]:
        """Fingerprint → the latest success of any instance; adopted results are good for their own instance only."""
        if self._any_success is None:
            self._any_success = successes_by_fingerprint(self.snapshot.records.steps)
        return self._any_success


# --- comparing what was consumed with what would be --------------------------------------------------------------


def compare_entries(name: str, before: Any, now: Entry | Members | None) -> list[Reason]:
    """The differences of one slot, by content: old entries as recorded, new ones as they would be consumed."""
    if isinstance(before, dict):  # a wide list whose members cannot be read any more: only its digest is known
        members = now.recorded if isinstance(now, Members) else []
        return [] if before["digest"] == wide_digest(members) else [InputChanged(name, old=before["digest"])]
    new = [] if now is None else now if isinstance(now, list) else [now]
    old = [] if before is None else before
    if [_token(e) for e in old] == [e.token for e in new]:
        if len(new) == 1:
            was_listed = old[0].get("listed", False)
            if was_listed == isinstance(now, list):
                return []
            return [_change(name, old[0], new[0], listed=isinstance(now, list))]
        if (before is None) == (now is None):
            return []
        # An empty fan-in that was added or taken away: nothing was consumed, and still the binding is another.
        return [InputChanged(name, old_source=None)]
    if len(old) == 1 and len(new) == 1:
        return [_change(name, old[0], new[0])]
    old_by_id = {e["id"]: e for e in old}
    new_by_id = {e.id: e for e in new}
    changes: list[Reason] = []
    for entry in new:
        then = old_by_id.get(entry.id)
        if then is None or _token(then) != entry.token:
            changes.append(_change(name, then, entry))
    changes.extend(_change(name, then, None) for then in old if then["id"] not in new_by_id)
    # The same members in another order: name the first that moved.
    return changes or [_change(name, old[_moved(old, new)], new[_moved(old, new)])]


def wide_digest(members: Sequence[Mapping[str, Any]]) -> str:
    from hashlib import sha256

    return sha256(canonical_json(list(members))).hexdigest()


def _moved(old: Sequence[Mapping[str, Any]], new: Sequence[Entry]) -> int:
    return next(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if _token(a) != b.token)


def _token(entry: Mapping[str, Any]) -> str:
    return token(entry.get("as", "v"), entry["sha256"])


def _change(name: str, then: Mapping[str, Any] | None, now: Entry | None, *, listed: bool = False) -> InputChanged:
    old_value = then.get("value") if then is not None else None
    new_value = None
    if now is not None and now.value is not UNSET and is_small(now.value):
        new_value = now.value
    moved = then is not None and now is not None and then["id"] != now.id
    old_as = new_as = None
    if then is not None and now is not None and then["sha256"] == now.sha256:
        # The same content, handed over in another form: with another suffix, as a text, alone or in a list.
        old_as = then.get("as", "v") + ("[]" if then.get("listed") else "")
        new_as = now.form + ("[]" if listed else "")
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


def _plain(name: str) -> str:
    """`.action` and `.env.NAME` are written without the dot that keeps them apart from `with:` entries."""
    return name.removeprefix(".")
