"""Runs on the workers of a Dask cluster: executes the steps of a task with the local backend, and returns results.

Its folders have the same layout as the host's, so the local backend can run the worker processes here. Only the cluster
carries data between this machine and the host.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from whyrun import __version__
from whyrun.artifacts.store import Store
from whyrun.errors import WhyrunError
from whyrun.execution.backends.base import PrepareFailed, Session
from whyrun.execution.backends.dask.payload import WorkerInputs
from whyrun.execution.backends.local.backend import LocalBackend
from whyrun.execution.backends.remote.site import blobs, decode_cfg
from whyrun.execution.files.safe_files import parts
from whyrun.execution.files.scratch import step_folder
from whyrun.execution.files.tree_removal import remove
from whyrun.execution.protocol.framing import decode_command, encode
from whyrun.execution.protocol.messages import ExecStep, StepFinished, StepLost

TOPIC = "whyrun-{}"
LEASE = 60.0  # seconds that steps continue without a message from their host
_BEAT = 5.0  # seconds between two checks of the lease
SECRETS = 60.0  # seconds for the secrets of a step to arrive
_TURN = 0.5  # seconds to wait for messages before orders are checked
_ANSWER = 2.0  # seconds for a thread to answer `withdraw`
_HELD = 0.3  # seconds that a result waits for the other steps of its task
_LARGE = 1 << 22  # bytes: the host fetches larger files of a step in pieces, to save memory
_PIECE = 1 << 20  # bytes
_SAID = 1 << 20  # bytes of a step's messages that its result repeats, for a host that missed some

_agents: dict[str, Agent] = {}


class Agent:
    """The agent of one run on one Dask worker. It has a local backend for each thread that executes tasks."""

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
            environments=root / "environments",
            inputs=root / "inputs",  # not among the code: a step finds only its own inputs there
        )
        self.inputs = WorkerInputs(root / "inputs")
        self.large = root / "large"  # large files that the host will fetch
        for made in (self.session.run_dir, self.session.store, self.session.tmp, self.large, root / "inputs"):
            made.mkdir(parents=True, exist_ok=True)
        self.store = Store(self.session.store)
        self.lock = threading.Lock()
        self.withdrawn: set[str] = set()  # steps that must not begin, if they still arrive
        self.batches: list[_Batch] = []  # running tasks, one for each thread
        self.secrets: dict[str, dict[str, str]] = {}
        self.secrets_came = threading.Condition(self.lock)
        self._backends: dict[int, LocalBackend] = {}
        self.problem: str | None = None
        self.closed = False
        self.last_order = time.monotonic()  # when the host's last order arrived
        threading.Thread(target=self._watch, daemon=True, name="whyrun-lease").start()
        if self.session.prepare is not None:
            try:
                self.backend().prepare(lambda: False)
            except PrepareFailed as problem:
                self.problem = str(problem)

    def backend(self) -> LocalBackend:
        mine = threading.get_ident()
        backend = self._backends.get(mine)
        if backend is None:
            backend = self._backends[mine] = LocalBackend()
            backend.open(self.session)
        return backend

    def _watch(self) -> None:
        """End all steps when the host has been silent for too long: it has died."""
        while not self.closed:
            time.sleep(_BEAT)
            if time.monotonic() > self.last_order + LEASE:
                with self.lock:
                    batches = list(self.batches)
                for batch in batches:
                    batch.withdraw()
                    for step in list(batch.open):
                        batch.add_order("signal", step, signal.SIGKILL)

    def send(self, task: int, lines: bytes) -> None:
        """Send lines to the host. `task`: lets the host drop lines of a task that it has given up."""
        self.worker.log_event(self.topic, {"worker": self.worker.address, "task": task, "lines": lines})

    def wait_for_secrets(self, step: str) -> dict[str, str]:
        with self.secrets_came:
            self.secrets_came.wait_for(lambda: step in self.secrets, SECRETS)
            return self.secrets.pop(step, {})

    def close(self, remove: bool) -> None:
        """Without `remove`, files stay, and the worker processes end with this one."""
        self.closed = True
        for backend in self._backends.values() if remove else ():
            backend.close()


class _MessageCopy:
    """The messages of a step, repeated in its result; empty if they are too long."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._size = 0

    def add(self, line: bytes) -> None:
        self._size += len(line)
        if self._size > _SAID:
            self._lines.clear()
        else:
            self._lines.append(line)

    def all_lines(self) -> bytes:
        return b"\n".join(self._lines)


class _Batch:
    """The steps of a task, executed by one thread. Other threads only queue orders; `withdraw` waits for the answer."""

    def __init__(self, task: int, backend: LocalBackend, steps: list[str]) -> None:
        self.task = task  # its number
        self.backend = backend
        self.waiting = deque(steps)  # not yet given to the backend
        self.open = set(steps)  # not yet ended
        self.results: dict[str, dict[str, Any]] = {}
        self._ready: list[tuple[float, str]] = []  # time and ID of ended steps that the host does not know of
        self.orders: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()

    def add_order(self, *order: Any) -> None:
        self.orders.put(order)
        wakeup = self.backend.wakeup_fd()
        if wakeup is not None:
            with suppress(BlockingIOError):  # a wake-up is pending already
                os.write(wakeup, b"\0")

    def withdraw(self) -> list[str]:
        """Called by another thread. Returns the steps that were taken back."""
        answer: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        self.add_order("withdraw", answer)
        try:
            return answer.get(timeout=_ANSWER)
        except queue.Empty:  # the task has just ended, so none of its steps waits
            return []

    def ended(self, step: str, result: dict[str, Any]) -> None:
        self.results[step] = result
        self.open.discard(step)
        self._ready.append((time.monotonic(), step))

    def overdue(self) -> list[str]:
        """Steps whose results have waited long enough for the other steps, which may take any time."""
        if not self._ready or time.monotonic() < self._ready[0][0] + _HELD:
            return []
        ready, self._ready = self._ready, []
        return [step for _, step in ready]

    def execute_orders(self) -> None:
        """Called in the task's own thread."""
        while not self.orders.empty():
            name, *arguments = self.orders.get()
            if name == "withdraw":
                taken = [*self.waiting, *(command.step_id for command in self.backend.withdraw())]
                self.waiting.clear()
                self.open.difference_update(taken)
                arguments[0].put(taken)
            elif name == "signal":
                self.backend.signal(arguments[0], arguments[1])
            elif name == "acknowledge":
                self.backend.acknowledge(arguments[0], arguments[1])


def open_agent(key: str, folder: str, package: str, facts: dict[str, Any], worker: Any) -> None:
    if facts["version"] != __version__:
        raise RuntimeError(f"whyrun {__version__} is installed there, and the host is {facts['version']}")
    _agents[key] = Agent(key, folder, facts, worker)


def close_agent(key: str, remove: bool) -> None:
    agent = _agents.pop(key, None)
    if agent is not None:
        agent.close(remove)


def order(key: str, name: str, *arguments: Any) -> Any:
    agent = _agents.get(key)
    if agent is None:
        return None
    agent.last_order = time.monotonic()
    if name == "alive":
        return None
    if name == "problem":
        return agent.problem
    if name == "withdraw":
        return _withdraw(agent, arguments[0])
    if name == "piece":
        with open(agent.large / arguments[0], "rb") as file:
            for start, end in parts(file.fileno(), arguments[1]):
                return start, os.pread(file.fileno(), min(_PIECE, end - start), start)
            return os.fstat(file.fileno()).st_size, b""  # only a hole follows
    if name == "forget":
        (agent.large / arguments[0]).unlink()
        return None
    if name in ("give_back", "results"):
        with agent.lock:
            batches = list(agent.batches)
        if name == "give_back":  # steps that wait behind a long one; unlike withdrawn ones they may come back
            return [step for batch in batches if not batch.open.isdisjoint(arguments[0]) for step in batch.withdraw()]
        return {step: batch.results[step] for batch in batches for step in arguments[0] if step in batch.results}
    if name == "secrets":
        with agent.secrets_came:
            agent.secrets[arguments[0]] = arguments[1]
            agent.secrets_came.notify_all()
        return None
    with agent.lock:
        batches = [batch for batch in agent.batches if arguments[0] in batch.open]
    for batch in batches:
        batch.add_order(name, *arguments)
    return None


def _withdraw(agent: Agent, steps: list[str]) -> list[str]:
    """The steps that have begun here. None of the others begins any more."""
    with agent.lock:
        batches = list(agent.batches)
        here = {step for batch in batches for step in batch.open}
        agent.withdrawn.update(step for step in steps if step not in here)
    taken = {step for batch in batches for step in batch.withdraw()}
    return [step for step in steps if step in here and step not in taken]


def run_batch(key: str, task: int, payloads: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Execute the steps of a task. Returns the results by step ID, without withdrawn steps."""
    agent = _agents[key]
    if agent.problem is not None:  # this worker joined later, and its `prepare` failed
        raise RuntimeError(agent.problem)
    commands = {}
    for payload in payloads:
        command = decode_command(payload["command"])
        assert isinstance(command, ExecStep)
        commands[command.step_id] = (command, payload)
    with agent.lock:
        steps = [step for step in commands if step not in agent.withdrawn]
        agent.withdrawn.difference_update(commands)
        batch = _Batch(task, agent.backend(), steps)
        agent.batches.append(batch)
    copies = {step: _MessageCopy() for step in steps}
    try:
        while batch.open and not agent.closed:
            while batch.waiting and batch.backend.room() > 0:
                command, payload = commands[batch.waiting.popleft()]
                _write_files(agent, payload)
                _make_environment(agent, payload)
                batch.backend.submit(command, _secrets(agent, task, payload, command.step_id))
            for end in _listen(agent, batch, copies):
                batch.ended(end.step_id, _result(agent, commands[end.step_id][1], end, copies.pop(end.step_id)))
            overdue = batch.overdue() if batch.open else []
            if overdue:
                agent.send(task, encode({"ended": overdue}))
    finally:
        with agent.lock:
            agent.batches.remove(batch)
        batch.execute_orders()  # answer the orders that came last
    if agent.closed:  # a result would be lost with this worker, and Dask would repeat the task
        raise RuntimeError("the Dask worker was ended while the step ran")
    return batch.results


def _secrets(agent: Agent, task: int, payload: dict[str, Any], step: str) -> dict[str, str]:
    if not payload["secrets"]:
        return {}
    agent.send(task, encode({"wants": step}))
    return agent.wait_for_secrets(step)


def _write_files(agent: Agent, payload: dict[str, Any]) -> None:
    for sha256, data in payload["blobs"].items():
        if not agent.store.has(sha256):
            agent.store.put_bytes(data)
    for path, sent in payload["inputs"].items():
        agent.inputs.write(path, sent["version"], sent["packed"])
    cfg = agent.session.run_dir / payload["cfg_path"]
    cfg.parent.mkdir(parents=True, exist_ok=True)
    temp = cfg.with_name(f".{cfg.name}.{threading.get_ident()}")
    temp.write_bytes(payload["cfg"])
    os.replace(temp, cfg)


def _make_environment(agent: Agent, payload: dict[str, Any]) -> None:
    """Make the step's environment, if it has one. This process has the settings of its machine (index, proxy, cache),
    which steps do not get."""
    environment = decode_cfg(payload["cfg"]).environment
    if environment is not None and agent.session.environments is not None:
        from whyrun.environments.locks import read_lock  # imported late: most steps have no environment
        from whyrun.environments.making import make_environment

        with suppress(WhyrunError):  # the step tries it again, and fails with the reason
            make_environment(
                agent.session.environments, agent.session.project, read_lock(agent.session.project, environment.lock)
            )


def _listen(agent: Agent, batch: _Batch, copies: dict[str, _MessageCopy]) -> list[StepFinished | StepLost]:
    batch.execute_orders()
    messages = list(batch.backend.messages(_TURN))
    ends = [message for message in messages if isinstance(message, StepFinished | StepLost)]
    lines: list[bytes] = []
    for message in messages:
        if not isinstance(message, StepFinished | StepLost):
            line = encode(message)
            copies[message.step_id].add(line)
            lines.append(line)
    if lines:
        agent.send(batch.task, b"\n".join(lines))
    return ends


def _result(agent: Agent, payload: dict[str, Any], end: StepFinished | StepLost, copy: _MessageCopy) -> dict[str, Any]:
    outputs: dict[str, bytes] = {}
    if isinstance(end, StepFinished) and end.error_type is None:
        cfg = decode_cfg(payload["cfg"])
        for output in end.outputs:
            if cfg.has_bytes(output.key):
                for sha256 in blobs(agent.store, output.sha256, output.type):
                    outputs[sha256] = agent.store.read(sha256)
    folder = step_folder(agent.session.run_dir, end.step_id)
    files: dict[str, Any] = {}
    if folder.is_dir():
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                files[name] = os.readlink(path)
            elif path.is_file() and path.stat().st_size > _LARGE:
                kept = f"{time.monotonic_ns()}-{threading.get_ident()}"
                files[name] = {"kept": kept, "size": path.stat().st_size}
                os.replace(path, agent.large / kept)
            elif path.is_file():
                files[name] = path.read_bytes()
        remove(str(folder))
    return {
        "said": copy.all_lines(),
        "end": encode(end),
        "outputs": outputs,
        "files": files,
    }
