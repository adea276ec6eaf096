"""Dispatch: write a step's cfg, record its command, and submit both to the backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.json import Encoder

from whyrun.actions.code.source_loader import Versions
from whyrun.artifacts.hashing import bytes_sha256
from whyrun.execution.backends.base import Backend
from whyrun.execution.dispatch.reusable_results import ReusableResults
from whyrun.execution.dispatch.run_secrets import RunSecrets
from whyrun.execution.dispatch.step_builder import FromRun, input_sources, recorded_bindings, step_cfg, step_needs
from whyrun.execution.protocol.messages import EarlierVersion, ExecStep
from whyrun.execution.recording.observed import NOTHING_OBSERVED, ObservedFields
from whyrun.graph.tables import JobTable
from whyrun.log import events as ev
from whyrun.planning.consume import Consumption
from whyrun.snapshot.snapshot import PlanningSnapshot

if TYPE_CHECKING:
    from whyrun.execution.dispatch.watch import Watch

_encode_cfg = Encoder(order="sorted").encode  # canonical, and ten times as fast as `canonical_json`


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """A step whose sources have ended, with what it consumes and the fingerprint of that."""

    id: str
    node: int
    table: JobTable
    position: int
    consumed: Consumption
    fingerprint: str


@dataclass(slots=True)
class ActiveStep:
    """One attempt of a step, from its submission until the backend reports its end."""

    step: PreparedStep
    attempt: int
    bindings: dict[str, Any]
    action: str
    timeout: float | None
    code: Versions | None = None  # file versions of its action at submission, where the worker reads them in place
    began: float | None = None  # monotonic
    began_at: str = ""  # the timestamp of its worker
    killed_for: ev.FailureStatus | None = None  # why we sent it a signal
    trace: bool = False
    observed: ObservedFields = NOTHING_OBSERVED  # once it has ended

    @property
    def id(self) -> str:
        return self.step.id

    @property
    def node(self) -> int:
        return self.step.node

    @property
    def table(self) -> JobTable:
        return self.step.table

    @property
    def position(self) -> int:
        return self.step.position


class Recalled(Struct, frozen=True):
    """What earlier attempts of a step remembered: with the same fingerprint (`own`), and with others."""

    own: dict[str, Any] = {}
    elsewhere: dict[str, Any] = {}


class RememberedRequests:
    """Requests to services that steps remembered, before this run or in it, so that a later attempt can resume them."""

    def __init__(self, snapshot: PlanningSnapshot, forced: set[int]) -> None:
        self._snapshot, self._forced = snapshot, forced
        self._remembered: dict[tuple[str, str], dict[str, Any]] = {}  # in this run

    def look_at(self, snapshot: PlanningSnapshot, forced: set[int]) -> None:
        """More instances are known from now on, and nodes have other numbers."""
        self._snapshot, self._forced = snapshot, forced

    def remember(self, step: str, fingerprint: str, key: str, value: Any) -> None:
        self._remembered.setdefault((step, fingerprint), {})[key] = value

    def recall(self, step: PreparedStep) -> Recalled:
        """A forced step sends its requests again, but its retries resume them. `elsewhere` serves steps that opt in
        with `any_parameters`."""
        record = None if step.node in self._forced else self._snapshot.record(step.node)
        newer = self._remembered.get((step.id, step.fingerprint), {})
        own, elsewhere = dict(newer), {}
        if record is not None and record.requests:
            own = {**record.requests.get(step.fingerprint, {}), **newer}
        if record is not None and record.remembered_by:
            before = record.remembered_elsewhere(step.fingerprint)
            elsewhere = {key: value for key, value in before.items() if key not in newer}
        return Recalled(own, elsewhere)


class Dispatcher:
    def __init__(
        self,
        snapshot: PlanningSnapshot,
        backend: Backend,
        reusable: ReusableResults,
        secrets: RunSecrets,
        from_run: FromRun,
        watch: Watch,
    ) -> None:
        self._snapshot, self._backend, self._reusable = snapshot, backend, reusable
        self._recorder, self._put_blob = reusable.publisher.recorder, reusable.store.put_bytes
        self._secrets, self._from_run = secrets, from_run
        self._watch = watch

    def look_at(self, snapshot: PlanningSnapshot) -> None:
        """More instances are known from now on."""
        self._snapshot = snapshot

    def dispatch(
        self, step: PreparedStep, attempt: int, recalled: Recalled, compare: Mapping[str, EarlierVersion]
    ) -> ActiveStep:
        """Submit one attempt. `compare`: by output, the recorded version that the worker compares the new one with."""
        table, position, consumed = step.table, step.position, step.consumed
        graph, action = self._snapshot.dependency_graph, self._snapshot.actions[table.name]
        self._reusable.restore_inputs(consumed)
        cfg = step_cfg(graph, table, position, consumed, action, self._secrets)
        data = _encode_cfg(cfg)
        path = self._recorder.directory.write_cfg(table.path(position), data)
        sha256 = bytes_sha256(data)
        if attempt == 1:
            self._recorder.event(ev.CfgMaterialized(path=path, size=len(data), sha256=sha256))
        trace = self._watch.traces(table.name)
        command = ExecStep(
            step_id=step.id,
            driver=action.name,
            cfg_path=path,
            cfg_sha256=sha256,
            attempt=attempt,
            inputs=input_sources(graph, table, consumed, self._from_run),
            recalled=recalled.own,
            recalled_elsewhere=recalled.elsewhere,
            compare=dict(compare),
            shared=table.decl.isolation == "shared",
            trace=trace,
        )
        self._recorder.command(command)
        bindings = recorded_bindings(table, position, consumed, action, self._put_blob)
        self._backend.submit(command, self._secrets.of_step(cfg.secrets), step_needs(table.decl))
        return ActiveStep(step, attempt, bindings, action.name, table.decl.timeout, trace=trace)
