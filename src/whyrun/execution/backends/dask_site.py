"""On a worker of a Dask cluster: takes a step, lets the one worker execute it here, and gives back all that came of it.

Its folders are to the worker what the host's are on the host's machine, so it is the local backend that keeps the
worker processes here. Nothing is shared with the host but what the cluster carries.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from whyrun import __version__
from whyrun.artifacts.store import Store
from whyrun.execution.backends.local import LocalBackend
from whyrun.execution.backends.site import blobs, decode_cfg
from whyrun.execution.commands import ExecStep, Message, PrepareFailed, Session, StepFinished, StepLost
from whyrun.execution.scratch import remove, step_folder
from whyrun.execution.wire import decode_command, encode

TOPIC = "whyrun-{}"
SECRETS = 60.0  # seconds for the secrets of a step to come
_TURN = 0.5  # seconds
_SAID = 1 << 20  # bytes: so much of what a step said goes with its result once more, for a host that missed some

_agents: dict[str, Agent] = {}


class Agent:
    """Of one run on one Dask worker. A backend for each thread, since each is used by one thread alone."""

    def __init__(self, key: str, folder: str, facts: dict[str, Any], worker: Any) -> None:
        root = Path(folder)
        self.worker = worker
        self.topic = TOPIC.format(key)
        self.session = Session(
            run=facts["run"],
            run_dir=root / "run",
            project=root / "bundle" / "project",
            store=root / "store",
            tmp=root / "tmp",
            workers=1,
            prepare=facts["prepare"],
        )
        for made in (self.session.run_dir, self.session.store, self.session.tmp):
            made.mkdir(parents=True, exist_ok=True)
        self.store = Store(self.session.store)
        self.lock = threading.Lock()
        self.withdrawn: set[str] = set()
        self.running: dict[str, _Running] = {}
        self.secrets: dict[str, dict[str, str]] = {}
        self.secrets_came = threading.Condition(self.lock)
        self._backends: dict[int, LocalBackend] = {}
        self.problem: str | None = None
        if self.session.prepare is not None:
            try:
                self.backend().prepare(lambda: False)
            except PrepareFailed as problem:
                self.problem = str(problem)

    def backend(self) -> LocalBackend:
        mine = threading.get_ident()
        found = self._backends.get(mine)
        if found is None:
            found = self._backends[mine] = LocalBackend()
            found.open(self.session)
        return found

    def say(self, lines: bytes) -> None:
        self.worker.log_event(self.topic, {"worker": self.worker.address, "lines": lines})

    def wait_for_secrets(self, step: str) -> dict[str, str]:
        with self.secrets_came:
            self.secrets_came.wait_for(lambda: step in self.secrets, SECRETS)
            return self.secrets.pop(step, {})

    def close(self) -> None:
        for backend in self._backends.values():
            backend.close()


class _Running:
    """One step, in the thread that executes it. Others only leave it a word."""

    def __init__(self, backend: LocalBackend) -> None:
        self.backend = backend
        self.orders: list[tuple[str, Any]] = []
        self.wakeup = backend.wakeup_fd()


def open_agent(key: str, folder: str, package: str, facts: dict[str, Any], worker: Any) -> None:
    if facts["version"] != __version__:
        raise RuntimeError(f"whyrun {__version__} is installed there, and the host is {facts['version']}")
    _agents[key] = Agent(key, folder, facts, worker)


def close_agent(key: str) -> None:
    agent = _agents.pop(key, None)
    if agent is not None:
        agent.close()


def order(key: str, name: str, *words: Any) -> Any:
    agent = _agents.get(key)
    if agent is None:
        return None
    with agent.lock:
        if name == "problem":
            return agent.problem
        if name == "withdraw":
            begun = [step for step in words[0] if step in agent.running]
            agent.withdrawn.update(step for step in words[0] if step not in agent.running)
            return begun
        step = words[0]
        if name == "secrets":
            agent.secrets[step] = words[1]
            agent.secrets_came.notify_all()
            return None
        running = agent.running.get(step)
        if running is not None:
            running.orders.append((name, words))
            if running.wakeup is not None:
                os.write(running.wakeup, b"\0")
    return None


def run_step(key: str, payload: dict[str, Any]) -> dict[str, Any]:
    agent = _agents[key]
    command = decode_command(payload["command"])
    assert isinstance(command, ExecStep)
    step = command.step_id
    with agent.lock:
        if step in agent.withdrawn:
            agent.withdrawn.discard(step)
            return {"withdrawn": True}
        backend = agent.backend()
        running = agent.running[step] = _Running(backend)
    try:
        _place_files(agent, payload)
        secrets = {}
        if payload["secrets"]:
            agent.say(encode({"wants": step}))
            secrets = agent.wait_for_secrets(step)
        backend.submit(command, secrets)
        said: list[bytes] = []
        end = _listen(agent, backend, running, step, said)
        return _result(agent, payload, step, end, said)
    finally:
        with agent.lock:
            agent.running.pop(step, None)


def _place_files(agent: Agent, payload: dict[str, Any]) -> None:
    for sha256, data in payload["blobs"].items():
        if not agent.store.has(sha256):
            agent.store.put_bytes(data)
    for path in payload["folders"]:
        (agent.session.project / path).mkdir(parents=True, exist_ok=True)
    for path, data in payload["files"].items():
        target = (agent.session.run_dir if path == payload["cfg_path"] else agent.session.project) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (target.is_file() and target.read_bytes() == data):
            temp = target.with_name(f".{target.name}.{threading.get_ident()}")
            temp.write_bytes(data)
            os.replace(temp, target)


def _listen(
    agent: Agent, backend: LocalBackend, running: _Running, step: str, said: list[bytes]
) -> StepFinished | StepLost:
    while True:
        with agent.lock:
            orders, running.orders = running.orders, []
        for name, words in orders:
            if name == "signal":
                backend.signal(step, words[1])
            elif name == "acknowledge":
                backend.acknowledge(step, words[1])
        messages: list[Message] = list(backend.messages(_TURN))
        lines = [encode(message) for message in messages if not isinstance(message, StepFinished | StepLost)]
        if lines:
            said += lines
            agent.say(b"\n".join(lines))
        for message in messages:
            if isinstance(message, StepFinished | StepLost):
                return message


def _result(
    agent: Agent, payload: dict[str, Any], step: str, end: StepFinished | StepLost, said: list[bytes]
) -> dict[str, Any]:
    outputs: dict[str, bytes] = {}
    if isinstance(end, StepFinished) and end.error_type is None:
        cfg = decode_cfg(payload["files"][payload["cfg_path"]])
        for output in end.outputs:
            if output.key in cfg.outputs:
                for sha256 in blobs(agent.store, output.sha256, output.type):
                    outputs[sha256] = agent.store.read(sha256)
    folder = step_folder(agent.session.run_dir, step)
    files: dict[str, bytes | str] = {}
    if folder.is_dir():
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                files[name] = os.readlink(path)
            elif path.is_file():
                files[name] = path.read_bytes()
        remove(str(folder))
    small = sum(map(len, said)) <= _SAID
    return {
        "withdrawn": False,
        "said": b"\n".join(said) if small else b"",
        "end": encode(end),
        "outputs": outputs,
        "files": files,
    }
