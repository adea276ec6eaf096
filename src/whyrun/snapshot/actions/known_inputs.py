"""The arguments that an action would receive, as far as planning knows them, and the hooks that get them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from whyrun.actions.base import Named
from whyrun.actions.inspection.messages import WithBlock, encode_value
from whyrun.graph.tables import ArtifactAt, Graph, Group, InputAt, JobTable, Known, Source, Term
from whyrun.ids import split_site
from whyrun.snapshot.snapshot import PlanningSnapshot, Pricer
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import VALUE_TYPES

if TYPE_CHECKING:
    from whyrun.actions.description import ActionInfo
    from whyrun.actions.inspection.inspector import Inspector

UNKNOWN = object()


class KnownInputs(msgspec.Struct, frozen=True):
    given: dict[str, Any]  # entries of `with:`, files as `Path`
    missing: tuple[str, ...]  # entries that are not known yet


class InputReader(msgspec.Struct, frozen=True):
    """`artifact` returns what an action would receive for an artifact: a value, a path, or UNKNOWN."""

    project: Path
    artifact: Callable[[ArtifactAt], Any]

    def inputs(self, table: JobTable, position: int) -> KnownInputs:
        given: dict[str, Any] = {}
        missing: dict[str, None] = {}
        for slot in table.slots:
            if slot.area != "with":
                continue
            value = self._term(slot.column.at(position))
            if value is UNKNOWN:
                missing[str(slot.path[0])] = None
            else:
                put(given, slot.path, value)
        return KnownInputs({name: v for name, v in given.items() if name not in missing}, tuple(missing))

    def _term(self, term: Term) -> Any:
        if isinstance(term, Known):
            return UNKNOWN if has_secret(term.value) else term.value
        if isinstance(term, InputAt | ArtifactAt):
            return self._source(term)
        if isinstance(term, Group):
            if any(isinstance(each, ArtifactAt) and each.element is not None for each in term.members):
                return UNKNOWN  # how many elements there are
            members = [self._source(member) for member in term.members]
            if any(member is UNKNOWN for member in members):
                return UNKNOWN
            return members if term.keys is None else Named.of(term.keys, members)
        return UNKNOWN  # it depends on results of a run: an expression, `first`

    def _source(self, source: Source) -> Any:
        if isinstance(source, InputAt):
            return self._input(source.value)
        return UNKNOWN if source.element is not None else self.artifact(source)

    def _input(self, value: InputValue) -> Any:
        if value.elements is not None:
            return [self._input(item) for item in value.elements]
        return value.value if value.path is None else self.project / value.path


def reader_of_snapshot(snapshot: PlanningSnapshot, project: Path, blob: Callable[[str], str]) -> InputReader:
    """Available artifacts are known. `blob`: sha256 → the path of the stored bytes."""

    def artifact(at: ArtifactAt) -> Any:
        table = snapshot.dependency_graph.tables[at.table]
        spec = table.artifacts[at.artifact]
        sha256 = snapshot.shas[at.table][at.artifact][at.position]
        if sha256 is None:
            return UNKNOWN
        if spec.is_leaf or spec.type in VALUE_TYPES:
            return snapshot.value(at)
        sites = table.output_of(at.artifact).paths
        site = None if sites is None else sites[at.position]
        if spec.type == "json":
            return _json_of(Path(blob(sha256)), project, site)
        return Path(blob(sha256)) if site is None else project / site

    return InputReader(project, artifact)


def _json_of(blob: Path, project: Path, site: str | None) -> Any:
    """A JSON document from the store; if its blob is lost, from the published file, which is as recorded."""
    try:
        return msgspec.json.decode(blob.read_bytes())
    except ValueError:
        return UNKNOWN
    except OSError:
        if site is None:
            return UNKNOWN
    path, section = split_site(site)
    try:
        found = msgspec.json.decode((project / path).read_bytes())
        return found if section is None else found[section]
    except (OSError, ValueError, LookupError, TypeError):  # it was removed or changed since it was observed
        return UNKNOWN


def reader_of_graph(graph: Graph, project: Path) -> InputReader:
    """Only what is the same in every plan with these inputs: an artifact is known by the path where it is published."""

    def artifact(at: ArtifactAt) -> Any:
        table = graph.tables[at.table]
        spec = table.artifacts[at.artifact]
        sites = table.output_of(at.artifact).paths
        if sites is None or spec.type in VALUE_TYPES or spec.type == "json":
            return UNKNOWN  # also for leaves, which have one of these types
        return project / sites[at.position]

    return InputReader(project, artifact)


def has_secret(value: Any) -> bool:
    """Does a value hold a secret or a connection? Those are resolved when a run begins."""
    if isinstance(value, dict):
        return "$secret" in value or "$connection" in value or any(map(has_secret, value.values()))
    return isinstance(value, list) and any(map(has_secret, value))


def put(target: dict[str, Any], path: tuple[str | int, ...], value: Any) -> None:
    """Set a nested value. Lists grow in order, because the slots of one list come without gaps."""
    here: Any = target
    for key, following in pairwise(path):
        here = _child(here, key, [] if isinstance(following, int) else {})
    key = path[-1]
    if isinstance(key, int):
        here.extend([None] * (key + 1 - len(here)))
    here[key] = value


def _child(here: Any, key: str | int, fresh: Any) -> Any:
    if isinstance(key, int):
        here.extend([None] * (key + 1 - len(here)))
        if here[key] is None:
            here[key] = fresh
        return here[key]
    return here.setdefault(key, fresh)


# Runtime estimates of actions, for instances without a duration in the log. They are not part of a plan.


METHOD = "estimate_runtime"
PATIENCE = 10.0  # seconds: an estimate that takes longer is not worth waiting for
ASKED = 1000  # different `with:` blocks of one job; the other instances get the mean


class RuntimeEstimates(msgspec.Struct, eq=False):
    """Asks when it is called, once an instance; an action that cannot say has no estimate."""

    graph: Graph
    reader: InputReader
    infos: Mapping[str, ActionInfo]  # by job
    inspector: Inspector
    _known: dict[int, float | None] = msgspec.field(default_factory=dict)

    def __call__(self, nodes: Sequence[int]) -> dict[int, float]:
        """Seconds by node, for instances whose action gives an estimate."""
        graph = self.graph
        asked: dict[int, list[int]] = {}
        for node in nodes:
            table, position = graph.table_at(node)
            info = self.infos.get(table.name)
            if node not in self._known and info is not None and info.origin != "builtin" and METHOD in info.hooks:
                asked.setdefault(table.number, []).append(position)
        for number, positions in asked.items():
            self._ask(graph.tables[number], positions)
        return {node: seconds for node in nodes if (seconds := self._known.get(node)) is not None}

    def _ask(self, table: JobTable, positions: Sequence[int]) -> None:
        found = ask_instances(self, METHOD, table, positions)
        known_seconds = [seconds for seconds in found.values() if seconds is not None]
        mean = sum(known_seconds) / len(known_seconds) if known_seconds else None
        for position in positions:
            self._known[table.base + position] = found.get(position, mean)


def ask_instances(
    about: RuntimeEstimates, method: str, table: JobTable, positions: Sequence[int], problems: list[str] | None = None
) -> dict[int, Any]:
    """By instance: what its action answers, or None. Of very many different instances, only the first are in it.

    `problems` gets what went wrong where all parameters are known: without one, an action may well not know."""
    blocks: dict[bytes, WithBlock] = {}
    of_position: dict[int, bytes] = {}
    for position in positions:
        known = about.reader.inputs(table, position)
        block = WithBlock(encode_value(known.given), missing=list(known.missing))
        key = of_position[position] = msgspec.json.encode(block)
        if len(blocks) < ASKED:
            blocks[key] = block
    answers = about.inspector.call(about.infos[table.name], method, list(blocks.values()), timeout=PATIENCE)
    if problems is not None:
        problems += [
            answer["error"]
            for block, answer in zip(blocks.values(), answers, strict=True)
            if "error" in answer and not block.missing
        ]
    found = {key: answer.get("value") for key, answer in zip(blocks, answers, strict=True)}
    return {position: found[key] for position, key in of_position.items() if key in found}


def with_estimates(
    snapshot: PlanningSnapshot,
    project: Path,
    blob: Callable[[str], str],
    infos: Mapping[str, ActionInfo],
    inspector: Inspector,
) -> PlanningSnapshot:
    """The snapshot with what actions estimate, asked when it is needed. `blob`: as for `reader_of_snapshot`."""

    @cache
    def pricer() -> Pricer:
        from whyrun.snapshot.actions.prices import KnownPrices  # imported late: decimals take time to import

        return KnownPrices(runtimes, project)

    reader = reader_of_snapshot(snapshot, project, blob)
    runtimes = RuntimeEstimates(snapshot.dependency_graph, reader, infos, inspector)
    return snapshot.with_estimates(runtimes, pricer)
