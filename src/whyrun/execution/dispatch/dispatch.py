"""How a step is given to the backend: its cfg written, its command recorded, its bindings kept for its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.json import Encoder

from whyrun.artifacts.hashing import bytes_sha256
from whyrun.execution.commands import Backend, EarlierVersion, ExecStep
from whyrun.execution.earlier import EarlierResults
from whyrun.execution.endings import Active, Endings
from whyrun.execution.prepare import FromRun, input_sources, step_cfg, step_needs
from whyrun.execution.recorder import Recorder
from whyrun.execution.run_secrets import RunSecrets
from whyrun.graph.graph import JobTable
from whyrun.log import events as ev
from whyrun.planning.consume import Consumption
from whyrun.snapshot.snapshot import PlanningSnapshot

_encode_cfg = Encoder(order="sorted").encode  # canonical, and ten times as quick as `canonical_json`


class Recalled(Struct, frozen=True):
    """What earlier attempts of a step remembered: with its own parameters, and with others."""

    own: dict[str, Any] = {}
    elsewhere: dict[str, Any] = {}


class Requests:
    """What steps asked of others and may pick up again: remembered before this run, or within it."""

    def __init__(self, snapshot: PlanningSnapshot, forced: set[int]) -> None:
        self.snapshot, self.forced = snapshot, forced
        self._remembered: dict[tuple[str, str], dict[str, Any]] = {}

    def remember(self, step: str, fingerprint: str, key: str, value: Any) -> None:
        self._remembered.setdefault((step, fingerprint), {})[key] = value

    def recalled(self, node: int, step: str, fingerprint: str) -> Recalled:
        """A forced step asks anew, but its retries do not. `elsewhere` is for steps that ask for it
        (`any_parameters`)."""
        record = None if node in self.forced else self.snapshot.record(node)
        newer = self._remembered.get((step, fingerprint), {})
        own, elsewhere = dict(newer), {}
        if record is not None and record.requests:
            own = {**record.requests.get(fingerprint, {}), **newer}
        if record is not None and record.remembered_by:
            before = record.remembered_elsewhere(fingerprint)
            elsewhere = {key: value for key, value in before.items() if key not in newer}
        return Recalled(own, elsewhere)


class Handing:
    def __init__(
        self,
        snapshot: PlanningSnapshot,
        backend: Backend,
        recorder: Recorder,
        earlier: EarlierResults,
        secrets: RunSecrets,
        from_run: FromRun,
    ) -> None:
        self.snapshot, self.graph = snapshot, snapshot.dependency_graph
        self.backend, self.recorder, self.earlier = backend, recorder, earlier
        self.secrets, self.from_run = secrets, from_run

    def hand(
        self,
        step: str,
        table: JobTable,
        position: int,
        found: Consumption,
        fingerprint: str,
        attempt: int,
        endings: Endings,
        recalled: Recalled,
        compare: Mapping[str, EarlierVersion],
    ) -> Active:
        action = self.snapshot.actions[table.name]
        self.earlier.put_back(found)
        cfg = step_cfg(self.graph, table, position, found, action, self.secrets)
        data = _encode_cfg(cfg)
        path = self.recorder.directory.write_cfg(table.path(position), data)
        sha256 = bytes_sha256(data)
        if attempt == 1:
            self.recorder.event(ev.CfgMaterialized(path=path, size=len(data), sha256=sha256))
        command = ExecStep(
            step_id=step,
            driver=action.name,
            cfg_path=path,
            cfg_sha256=sha256,
            attempt=attempt,
            inputs=input_sources(self.graph, table, found, self.from_run),
            recalled=recalled.own,
            recalled_elsewhere=recalled.elsewhere,
            compare=dict(compare),
        )
        self.recorder.command(command)
        bindings = endings.bindings(table, position, found)
        self.backend.submit(command, self.secrets.of_step(cfg.secrets), step_needs(table.decl))
        node = table.base + position
        timeout = table.decl.timeout
        return Active(step, node, table, position, attempt, fingerprint, bindings, action.name, timeout, found)
