"""A project, a run folder and a local backend in a temporary folder. Steps are written by hand and really run."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from whyrun.artifacts.hashing import bytes_sha256, canonical_json, tree_manifest
from whyrun.artifacts.store import Store
from whyrun.execution.backends.base import Backend, Session
from whyrun.execution.backends.local.backend import LocalBackend
from whyrun.execution.backends.remote.process import ProcessTransport
from whyrun.execution.backends.remote.remote_worker import RemoteWorker
from whyrun.execution.backends.remote.threaded import ThreadedBackend
from whyrun.execution.protocol.messages import (
    ExecStep,
    InputSource,
    InputSpec,
    Message,
    OutputSpec,
    RequestRemembered,
    StepBegan,
    StepCfg,
    StepFinished,
    StepLost,
)
from whyrun.ids import file_name

Spec = InputSpec | list[InputSpec]
# On the host's own folders, and at a site of its own: the same worker, the same answers.
BACKENDS = ("local", "process")
PATIENCE = 300.0  # seconds after which a test gives up on what must come, on any machine


class Lab:
    def __init__(self, root: Path, workers: int = 1, backend: str = "local") -> None:
        self.backend_name = backend
        self.project = root / "project"
        self.run_dir = self.project / ".whyrun" / "w" / "runs" / "r0001"
        (self.run_dir / "cfg").mkdir(parents=True)
        self.session = Session(
            run="r0001",
            run_dir=self.run_dir,
            project=self.project,
            store=self.project / ".whyrun" / "store",
            tmp=self.project / ".whyrun" / "tmp",
            workers=workers,
        )
        self.store = Store(self.session.store)
        self.backend: Backend = LocalBackend() if backend == "local" else process_backend()
        self.backend.open(self.session)
        self.heard: list[Message] = []

    def file(self, name: str, text: str | bytes) -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def command(
        self,
        uses: str,
        with_: dict[str, Any],
        outputs: dict[str, Any] | None = None,
        inputs: Mapping[str, Spec] | None = None,
        step_id: str = "Job:S",
        attempt: int = 1,
        recalled: dict[str, Any] | None = None,
        shared: bool = False,
        **more: Any,
    ) -> ExecStep:
        specs = {
            name: spec if isinstance(spec, OutputSpec) else OutputSpec(type=spec)
            for name, spec in (outputs or {}).items()
        }
        cfg = StepCfg(
            step_id=step_id,
            action=uses,
            action_sha256="0" * 64,
            with_=with_,
            inputs=dict(inputs or {}),
            outputs=specs,
            **more,
        )
        data = canonical_json(msgspec.to_builtins(cfg))
        path = f"cfg/{file_name(step_id.partition(':')[2])}.json"
        (self.run_dir / path).write_bytes(data)
        return ExecStep(
            step_id=step_id,
            driver=uses,
            cfg_path=path,
            cfg_sha256=hashlib.sha256(data).hexdigest(),
            attempt=attempt,
            inputs={name: sources_of(spec) for name, spec in (inputs or {}).items()},
            recalled=recalled or {},
            shared=shared,
        )

    def call(self, function: str, outputs: dict[str, Any] | None = None, **more: Any) -> ExecStep:
        parameters = more.pop("with_", {})
        return self.command("python", {"call": function, **parameters}, outputs, **more)

    def run(self, *commands: ExecStep, secrets: dict[str, str] | None = None) -> list[StepFinished | StepLost]:
        """Submit, and wait for the last word on each, in the order of submission."""
        for command in commands:
            self.backend.submit(command, secrets)
        return [self.end_of(command.step_id) for command in commands]

    def one(self, command: ExecStep, secrets: dict[str, str] | None = None) -> StepFinished:
        (word,) = self.run(command, secrets=secrets)
        assert isinstance(word, StepFinished), word
        return word

    def failure(self, command: ExecStep, secrets: dict[str, str] | None = None) -> tuple[str | None, str]:
        word = self.one(command, secrets)
        assert word.outputs == []
        return word.error_type, word.error

    def end_of(self, step_id: str, seconds: float = PATIENCE) -> StepFinished | StepLost:
        word = self.wait_for(step_id, (StepFinished, StepLost), seconds)
        assert isinstance(word, (StepFinished, StepLost))
        return word

    def began(self, step_id: str = "Job:S") -> StepBegan:
        word = self.wait_for(step_id, (StepBegan,))
        assert isinstance(word, StepBegan)
        return word

    def remembered(self, step_id: str = "Job:S") -> RequestRemembered:
        word = self.wait_for(step_id, (RequestRemembered,))
        assert isinstance(word, RequestRemembered)
        return word

    def wait_for(self, step_id: str, kinds: tuple[type, ...], seconds: float = PATIENCE) -> Message:
        deadline = time.monotonic() + seconds
        while True:
            for position, message in enumerate(self.heard):
                if message.step_id == step_id and isinstance(message, kinds):
                    return self.heard.pop(position)
            assert time.monotonic() < deadline, f"no word on {step_id}: {self.heard}"
            self.heard += self.backend.messages(0.2)

    def bytes_of(self, word: StepFinished, key: str) -> bytes:
        (output,) = [o for o in word.outputs if o.key == key]
        data = self.store.read(output.sha256)
        assert len(data) == output.size or output.type == "directory"
        return data

    def evidence(self) -> dict[str, str]:
        """Every file below `steps/`, with its text."""
        steps = self.run_dir / "steps"
        return {
            path.relative_to(steps).as_posix(): path.read_text() for path in sorted(steps.rglob("*")) if path.is_file()
        }

    def artifact(self, data: bytes, type: str, suffix: str = "", id: str = "Artifact:A.X") -> InputSpec:
        return InputSpec(id=id, sha256=self.store.put_bytes(data), type=type, suffix=suffix)

    def project_input(self, name: str, text: str | bytes, type: str = "file") -> InputSpec:
        data = self.file(name, text).read_bytes()
        suffix = Path(name).suffix
        return InputSpec(id="Input:X", sha256=hashlib.sha256(data).hexdigest(), type=type, suffix=suffix, path=name)

    def project_folder(self, name: str, text: str) -> InputSpec:
        """A folder with one file."""
        folder = self.file(f"{name}/one.txt", text).parent
        return InputSpec(id="Input:X", sha256=bytes_sha256(tree_manifest(folder)), type="directory", path=name)


def process_backend() -> ThreadedBackend:
    """Worker processes that share no folder with the host but that of the project's code."""
    numbers = count(1)

    def post(session: Session) -> RemoteWorker:
        site = session.tmp / f"{session.run}-site-{next(numbers)}"
        return RemoteWorker(session, ProcessTransport(site, session.project))

    return ThreadedBackend("process", post)


def sources_of(spec: Spec) -> InputSource | list[InputSource]:
    if isinstance(spec, list):
        return [InputSource(id=member.id, sha256=member.sha256, path=member.path) for member in spec]
    return InputSource(id=spec.id, sha256=spec.sha256, path=spec.path)
