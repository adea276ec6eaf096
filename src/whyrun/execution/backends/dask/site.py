"""On a worker of a Dask cluster: takes a step, lets the one worker execute it here, and gives back all that came of it.

Its folders are to the worker what the host's are on the host's machine, so it is the local backend that keeps the
worker processes here. Nothing is shared with the host but what the cluster carries.
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
from whyrun.execution.backends.copying import parts
from whyrun.execution.backends.dask_inputs import Placed
from whyrun.execution.backends.local import LocalBackend
from whyrun.execution.backends.site import blobs, decode_cfg
from whyrun.execution.commands import ExecStep, PrepareFailed, Session, StepFinished, StepLost
from whyrun.execution.scratch import step_folder
from whyrun.execution.trees import remove
from whyrun.execution.wire import decode_command, encode

TOPIC = "whyrun-{}"
LEASE = 60.0  # seconds that steps go on without a word from their host
_BEAT = 5.0  # seconds
SECRETS = 60.0  # seconds for the secrets of a step to come
_TURN = 0.5  # seconds
_ANSWER = 2.0  # seconds for a thread to say what it gives back
_HELD = 0.3  # seconds for which the result of a step waits for the steps that were sent with it
_LARGE = 1 << 22  # bytes: files of a step that are larger than this are fetched in pieces, and do not fill memory
_PIECE = 1 << 20  # bytes
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
            inputs=root / "inputs",  # apart from the code: a step finds there only what it is bound to
        )
        self.placed = Placed(root / "inputs")
        self.large = root / "large"  # files that the host fetches
        for made in (self.session.run_dir, self.session.store, self.session.tmp, self.large, root / "inputs"):
            made.mkdir(parents=True, exist_ok=True)
        self.store = Store(self.session.store)
        self.lock = threading.Lock()
        self.withdrawn: set[str] = set()  # steps that must not begin, should they still come
        self.batches: list[_Batch] = []  # those that are being executed, one for each thread
        self.secrets: dict[str, dict[str, str]] = {}
        self.secrets_came = threading.Condition(self.lock)
        self._backends: dict[int, LocalBackend] = {}
        self.problem: str | None = None
        self.closed = False
        self.heard = time.monotonic()  # when the host last spoke
        threading.Thread(target=self._watch, daemon=True, name="whyrun-lease").start()
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

    def _watch(self) -> None:
        """A host that is not heard of any more has died: its steps end here as they would with it."""
        while not self.closed:
            time.sleep(_BEAT)
            if time.monotonic() > self.heard + LEASE:
                with self.lock:
                    batches = list(self.batches)
                for batch in batches:
                    batch.withdraw()
                    for step in list(batch.open):
                        batch.tell("signal", step, signal.SIGKILL)

    def say(self, task: int, lines: bytes) -> None:
        """`task` tells it from what another task says of the same step, should this worker have been given up."""
        self.worker.log_event(self.topic, {"worker": self.worker.address, "task": task, "lines": lines})

    def wait_for_secrets(self, step: str) -> dict[str, str]:
        with self.secrets_came:
            self.secrets_came.wait_for(lambda: step in self.secrets, SECRETS)
            return self.secrets.pop(step, {})

    def close(self, remove: bool) -> None:
        """What is not removed stays as it is; the workers of steps end with this process."""
        self.closed = True
        for backend in self._backends.values() if remove else ():
            backend.close()


class _Said:
    """What a step said, for its result; nothing where that is much."""

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
    """Steps that one thread executes. Others only leave it a word; `withdraw` waits for the answer."""

    def __init__(self, task: int, backend: LocalBackend, steps: list[str]) -> None:
        self.task = task  # its number
        self.backend = backend
        self.waiting = deque(steps)  # not yet given to the backend
        self.open = set(steps)  # not yet ended
        self.results: dict[str, dict[str, Any]] = {}
        self._ready: list[tuple[float, str]] = []  # results that the host does not know of
        self.orders: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()

    def tell(self, *order: Any) -> None:
        self.orders.put(order)
        wakeup = self.backend.wakeup_fd()
        if wakeup is not None:
            with suppress(BlockingIOError):  # full of wake-ups already
                os.write(wakeup, b"\0")

    def withdraw(self) -> list[str]:
        """Called by another thread: what was taken back."""
        answer: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        self.tell("withdraw", answer)
        try:
            return answer.get(timeout=_ANSWER)
        except queue.Empty:  # it has just ended: then nothing of it waits any more
            return []

    def ended(self, step: str, result: dict[str, Any]) -> None:
        self.results[step] = result
        self.open.discard(step)
        self._ready.append((time.monotonic(), step))

    def overdue(self) -> list[str]:
        """Steps whose results have waited long enough for the others: those may take any time."""
        if not self._ready or time.monotonic() < self._ready[0][0] + _HELD:
            return []
        ready, self._ready = self._ready, []
        return [step for _, step in ready]

    def obey(self) -> None:
        """In the thread of its own."""
        while not self.orders.empty():
            name, *words = self.orders.get()
            if name == "withdraw":
                taken = [*self.waiting, *(command.step_id for command in self.backend.withdraw())]
                self.waiting.clear()
                self.open.difference_update(taken)
                words[0].put(taken)
            elif name == "signal":
                self.backend.signal(words[0], words[1])
            elif name == "acknowledge":
                self.backend.acknowledge(words[0], words[1])


def open_agent(key: str, folder: str, package: str, facts: dict[str, Any], worker: Any) -> None:
    if facts["version"] != __version__:
        raise RuntimeError(f"whyrun {__version__} is installed there, and the host is {facts['version']}")
    _agents[key] = Agent(key, folder, facts, worker)


def close_agent(key: str, remove: bool) -> None:
    agent = _agents.pop(key, None)
    if agent is not None:
        agent.close(remove)


def order(key: str, name: str, *words: Any) -> Any:
    agent = _agents.get(key)
    if agent is None:
        return None
    agent.heard = time.monotonic()
    if name == "alive":
        return None
    if name == "problem":
        return agent.problem
    if name == "withdraw":
        return _withdraw(agent, words[0])
    if name == "piece":
        with open(agent.large / words[0], "rb") as file:
            for start, end in parts(file.fileno(), words[1]):
                return start, os.pread(file.fileno(), min(_PIECE, end - start), start)
            return os.fstat(file.fileno()).st_size, b""  # only a hole is left
    if name == "forget":
        (agent.large / words[0]).unlink()
        return None
    if name in ("give_back", "results"):
        with agent.lock:
            batches = list(agent.batches)
        if name == "give_back":  # what waits there behind a step that takes long; it may come here once more
            return [step for batch in batches if not batch.open.isdisjoint(words[0]) for step in batch.withdraw()]
        return {step: batch.results[step] for batch in batches for step in words[0] if step in batch.results}
    if name == "secrets":
        with agent.secrets_came:
            agent.secrets[words[0]] = words[1]
            agent.secrets_came.notify_all()
        return None
    with agent.lock:
        batches = [batch for batch in agent.batches if words[0] in batch.open]
    for batch in batches:
        batch.tell(name, *words)
    return None


def _withdraw(agent: Agent, steps: list[str]) -> list[str]:
    """Those that have begun here. No other of them begins any more."""
    with agent.lock:
        batches = list(agent.batches)
        here = {step for batch in batches for step in batch.open}
        agent.withdrawn.update(step for step in steps if step not in here)
    taken = {step for batch in batches for step in batch.withdraw()}
    return [step for step in steps if step in here and step not in taken]


def run_batch(key: str, task: int, payloads: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Every step of it, by its ID; what was withdrawn is not there."""
    agent = _agents[key]
    if agent.problem is not None:  # it joined after the others were made ready
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
    said = {step: _Said() for step in steps}
    try:
        while batch.open and not agent.closed:
            while batch.waiting and batch.backend.room() > 0:
                command, payload = commands[batch.waiting.popleft()]
                _place_files(agent, payload)
                batch.backend.submit(command, _secrets(agent, task, payload, command.step_id))
            for end in _listen(agent, batch, said):
                batch.ended(end.step_id, _result(agent, commands[end.step_id][1], end, said.pop(end.step_id)))
            overdue = batch.overdue() if batch.open else []
            if overdue:
                agent.say(task, encode({"ended": overdue}))
    finally:
        with agent.lock:
            agent.batches.remove(batch)
        batch.obey()  # whoever still waits for an answer gets one
    if agent.closed:  # a result would be lost with this worker, and Dask would then execute the steps once more
        raise RuntimeError("the Dask worker was ended while the step ran")
    return batch.results


def _secrets(agent: Agent, task: int, payload: dict[str, Any], step: str) -> dict[str, str]:
    if not payload["secrets"]:
        return {}
    agent.say(task, encode({"wants": step}))
    return agent.wait_for_secrets(step)


def _place_files(agent: Agent, payload: dict[str, Any]) -> None:
    for sha256, data in payload["blobs"].items():
        if not agent.store.has(sha256):
            agent.store.put_bytes(data)
    for path, given in payload["inputs"].items():
        agent.placed.place(path, given["version"], given["parcel"])
    cfg = agent.session.run_dir / payload["cfg_path"]
    cfg.parent.mkdir(parents=True, exist_ok=True)
    temp = cfg.with_name(f".{cfg.name}.{threading.get_ident()}")
    temp.write_bytes(payload["cfg"])
    os.replace(temp, cfg)


def _listen(agent: Agent, batch: _Batch, said: dict[str, _Said]) -> list[StepFinished | StepLost]:
    batch.obey()
    messages = list(batch.backend.messages(_TURN))
    ends = [message for message in messages if isinstance(message, StepFinished | StepLost)]
    told: list[bytes] = []
    for message in messages:
        if not isinstance(message, StepFinished | StepLost):
            line = encode(message)
            said[message.step_id].add(line)
            told.append(line)
    if told:
        agent.say(batch.task, b"\n".join(told))
    return ends


def _result(agent: Agent, payload: dict[str, Any], end: StepFinished | StepLost, said: _Said) -> dict[str, Any]:
    outputs: dict[str, bytes] = {}
    if isinstance(end, StepFinished) and end.error_type is None:
        cfg = decode_cfg(payload["cfg"])
        for output in end.outputs:
            if output.key in cfg.outputs:
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
        "said": said.all_lines(),
        "end": encode(end),
        "outputs": outputs,
        "files": files,
    }
