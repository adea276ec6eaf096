"""One worker process of the local backend, seen from the host: its channels, its commands, and its end."""

from __future__ import annotations

import array
import fcntl
import os
import select
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from whyrun import disk
from whyrun.artifacts.durable import write_all
from whyrun.artifacts.stat_cache.rows import Signature
from whyrun.connections.redact import Redactor
from whyrun.disk import Area
from whyrun.execution.backends.base import PrepareFailed, Session, engine_settings, step_environment, worker_command
from whyrun.execution.files.scratch import Scratch, step_folder
from whyrun.execution.protocol.framing import (
    INLINE_LIMIT,
    TICKET,
    Acknowledged,
    Assignment,
    WorkerStart,
    decode_message,
    decode_messages,
    describe_exit,
    encode,
    secret_bytes,
    timestamp,
)
from whyrun.execution.protocol.messages import (
    ExecStep,
    Message,
    Pong,
    Prepare,
    Prepared,
    StepBegan,
    StepFinished,
    StepLost,
    WorkerMessage,
)
from whyrun.execution.worker.processes import descendants, end_group, processes_with
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE

_CHUNK = 1 << 20
_TICKETS = 512 * TICKET.size
_LONGEST_LINE = 1 << 26
_PIPE = 1 << 18  # bytes: the messages of some hundred short steps
_POLL = 0.1  # seconds between two checks whether the run was stopped


class Job(msgspec.Struct, frozen=True):
    command: ExecStep
    secrets: dict[str, str]
    known: dict[str, Signature] = {}


class LocalWorker:
    def __init__(self, session: Session, scratch: Path) -> None:
        self.jobs: deque[Job] = deque()  # sent and not finished, in the order in which the worker takes them
        self.current: Job | None = None
        self.worked = False  # it has begun a step at least once
        self.last_turn = time.monotonic()  # when it last began or ended a step, as far as its messages say
        self._session = session
        self._began = 0.0
        self._rest = b""
        self._complaint = ""
        self._used: dict[str, float] = {}  # metrics of a step that was killed
        self._prepared: Prepared | None = None
        self._given = 0
        self._ended: set[str] = set()  # IDs of finished steps
        self._numbers: deque[int] = deque()  # of `jobs`
        self._scratch = Scratch(scratch)
        self._scratch.make()
        self._commands, self._commands_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._commands.setblocking(False)
        # The host keeps the read end open too: a ticket that it reads itself is a command taken back from the worker.
        self._tickets_end, self._tickets = os.pipe()
        os.set_blocking(self._tickets_end, False)
        control, self._control = os.pipe()
        self.messages_fd, messages = os.pipe()
        os.set_blocking(self.messages_fd, False)
        with suppress(OSError):  # the user may have reached the limit for pipe memory
            fcntl.fcntl(messages, fcntl.F_SETPIPE_SZ, _PIPE)  # so that the worker seldom waits for the host
        project, store = str(session.project), str(session.store)
        start = WorkerStart(
            run_dir=str(session.run_dir),
            project=project,
            inputs=project if session.inputs is None else str(session.inputs),
            sources=store,
            store=store,
            scratch=str(scratch),
            commands_fd=self._commands_end.fileno(),
            tickets_fd=self._tickets_end,
            control_fd=control,
            messages_fd=messages,
            environments=str(session.environments or ""),
            engine=engine_settings(),
            live=session.host is not None,
            views=session.views,
        )
        self._process = _start_worker(start, self._scratch)
        os.close(control)
        os.close(messages)
        self._commands_end.close()
        self.pid = self._process.pid
        self.pidfd = os.pidfd_open(self.pid)

    # --- sending commands and taking them back ------------------------------------------------------------------

    def give(self, jobs: Sequence[Job]) -> int:
        """Send as many of these commands as fit into one datagram. Returns how many; 0 if the channel is full.

        A command with secrets is sent alone, to an idle worker, and nothing follows before its step has ended: no other
        step may run in a process that has them in memory, not even after the command was taken back."""
        if self.jobs and self.jobs[-1].secrets:
            return 0
        parts: list[bytes] = []
        size = 0
        for number, job in enumerate(jobs, self._given + 1):
            if job.secrets and (parts or self.jobs):
                break
            secrets = secret_bytes(job.secrets) if job.secrets else {}
            data = encode(Assignment(number, job.command, secrets=secrets, known=job.known))
            size += len(data) + 1
            if size > INLINE_LIMIT:
                if not parts:
                    return self._sent(jobs[:1], *self._long(number, job.command, encode(secrets)))
                break
            parts.append(data)
            if job.secrets:
                break
        return self._sent(jobs[: len(parts)], b"[%b]" % b",".join(parts)) if parts else 0

    def _long(self, number: int, command: ExecStep, secrets: bytes) -> tuple[bytes, int]:
        """Write a long command to a file, and its secrets, which may be in no file, to anonymous memory."""
        path = self._scratch.root / f"command-{number}.json"
        path.write_bytes(encode(command))
        descriptor = os.memfd_create("whyrun-secrets")
        write_all(descriptor, secrets)
        return encode([Assignment(number, file=str(path), secrets_beside=True)]), descriptor

    def _sent(self, jobs: Sequence[Job], data: bytes, beside: int | None = None) -> int:
        numbers = range(self._given + 1, self._given + 1 + len(jobs))
        rights = [] if beside is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [beside]))]
        try:
            self._commands.sendmsg([data], rights)
        except (BlockingIOError, ConnectionError):
            return 0  # full, or the worker has just died, which the backend will notice; the commands stay in the queue
        finally:
            if beside is not None:
                os.close(beside)
        os.write(self._tickets, b"".join(map(TICKET.pack, numbers)))  # after the commands that they stand for
        if not self.jobs:
            self.last_turn = time.monotonic()
        self._given += len(jobs)
        self._numbers.extend(numbers)
        self.jobs.extend(jobs)
        return len(jobs)

    def take_back(self) -> list[Job]:
        """Take back every command that the worker has not taken yet, in order."""
        taken_back: set[int] = set()
        while True:
            try:
                data = os.read(self._tickets_end, _TICKETS)
            except BlockingIOError:
                break
            if not data:
                break
            # By number: the worker may take a ticket between two of ours.
            taken_back.update(number for (number,) in TICKET.iter_unpack(data))
        if not taken_back:
            return []
        numbered = list(zip(self._numbers, self.jobs, strict=True))
        self._numbers = deque(number for number, _ in numbered if number not in taken_back)
        self.jobs = deque(job for number, job in numbered if number not in taken_back)
        return [job for number, job in numbered if number in taken_back]

    def waiting(self) -> bool:
        return len(self.jobs) > 1

    def acknowledge(self, step_id: str, key: str) -> None:
        os.write(self._control, encode(Acknowledged(step_id, key)) + b"\n")

    def signal(self, signum: int) -> None:
        if signum == signal.SIGKILL:
            processes = descendants(self.pid)
            self._used = used_by(processes)  # afterwards nobody knows
            self._kill(processes)
        else:
            os.killpg(self.pid, signum)

    def _kill(self, processes: list[int]) -> None:
        """`processes`: its descendants."""
        if self._scratch.has_container:
            # The keeper of the container, which is not in the group, must live until the engine has removed it.
            end_group(self.pid, [])
            self._scratch.end_container()
        end_group(self.pid, processes)

    def prepare(self, command: str, stopped: Callable[[], bool]) -> None:
        """Run the `prepare` command before the first step. Returns early if the run is stopped."""
        self._commands.send(encode([Assignment(0, Prepare(command))]))
        os.write(self._tickets, TICKET.pack(0))
        poll = select.poll()
        for descriptor in (self.messages_fd, self.pidfd):
            poll.register(descriptor, select.POLLIN)
        while self._prepared is None and not stopped():
            ready = [descriptor for descriptor, _ in poll.poll(_POLL * 1000)]
            self.receive()
            if self._prepared is None and self.pidfd in ready:
                raise PrepareFailed("the worker died while it prepared")
        if self._prepared is not None and self._prepared.error:
            raise PrepareFailed(self._prepared.error)

    # --- receiving messages -------------------------------------------------------------------------------------

    def receive(self) -> list[Message]:
        chunks = [self._rest]
        while True:
            try:
                data = os.read(self.messages_fd, _CHUNK)
            except BlockingIOError:
                break
            if not data:
                break
            chunks.append(data)
            if len(data) < _CHUNK // 16:
                break  # the pipe is empty, so another read is not needed
        lines, newline, self._rest = b"".join(chunks).rpartition(b"\n")
        if self._complaint:
            return []  # the worker is being killed for an invalid message; nothing after that message counts
        accepted = self._accepted(lines) if newline else []
        if len(self._rest) > _LONGEST_LINE:
            self._distrust("it sent a line without end")
        return accepted

    def _accepted(self, lines: bytes) -> list[Message]:
        try:
            return self._until_distrust(decoded(decode_messages, lines))
        except UNREADABLE:
            pass  # rare; decode line by line, so that all messages before the bad one count
        accepted: list[Message] = []
        for line in lines.split(b"\n"):
            try:
                accepted += self._until_distrust([decoded(decode_message, line)])
            except UNREADABLE as problem:
                if self.current is not None:  # between two steps a process that a step left running may have written it
                    self._distrust(f"it sent an invalid message: {problem}")
            if self._complaint:
                break
        return accepted

    def _until_distrust(self, messages: list[WorkerMessage]) -> list[Message]:
        accepted: list[Message] = []
        for message in messages:
            if isinstance(message, Pong | Prepared):
                self._prepared = message if isinstance(message, Prepared) else self._prepared
            elif self._accept(message):
                accepted.append(message)
            elif self._complaint:
                break  # a later `finished` must not end this step, or the next one would be blamed
        return accepted

    def _accept(self, message: Message) -> bool:
        """Whether to pass the message on. A worker may only send messages of the step that it runs."""
        if isinstance(message, StepBegan):
            if self.current is None and self.jobs and self.jobs[0].command.step_id == message.step_id:
                self.current, self.worked = self.jobs[0], True
                self._began = self.last_turn = time.monotonic()
                return True
        elif self.current is not None and self.current.command.step_id == message.step_id:
            if isinstance(message, StepFinished | StepLost):
                self.jobs.popleft()
                self._numbers.popleft()
                self._ended.add(self.current.command.step_id)
                self.current = None
                self.last_turn = time.monotonic()
            return True
        elif message.step_id in self._ended:
            return False  # from a process that an earlier step left running; ignored
        self._distrust(f"it sent a message of `{message.step_id}`, which it does not run")
        return False

    def _distrust(self, complaint: str) -> None:
        """Kill the worker: it has broken the protocol."""
        self._complaint = self._complaint or complaint
        self._rest = b""
        self._kill(descendants(self.pid))

    # --- the end ------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Send no more commands: the worker ends after its current step."""
        if self._tickets >= 0:
            tickets, self._tickets = self._tickets, -1
            os.close(tickets)

    def end(self, patience: float = 0.0) -> list[Job]:
        """Reap the process and close the channels. Returns the commands that it took and did not finish."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        if not poll.poll(patience * 1000):
            self._kill(descendants(self.pid))
        # Before the leader is reaped no other process group can get its number.
        end_group(self.pid, [])
        self._process.wait()
        if self.jobs:
            self._scratch.end_container()
            end_group(self.pid, processes_with(f"HOME={self._scratch.home}".encode()))
        self.finish()
        for descriptor in (self.pidfd, self.messages_fd, self._control, self._tickets_end):
            os.close(descriptor)
        self._commands.close()
        return list(self.jobs)

    def lost(self, job: Job) -> StepLost:
        """The last message of a step whose worker died. Keeps its logs and scratch files as evidence."""
        redactor = Redactor(job.secrets)
        stderr = self._scratch.tail("stderr", redactor)
        reason = self._reason()
        try:
            self._scratch.keep_all(step_folder(self._session.run_dir, job.command.step_id), redactor)
        except OSError as problem:  # a full disk must not hide the loss itself
            reason += f" (and its files could not be kept: {problem})"
        duration = time.monotonic() - self._began if self._began else 0.0
        step, attempt, reason = job.command.step_id, job.command.attempt, redactor.text(reason)
        return StepLost(step, attempt, timestamp(), reason, stderr, duration, metrics=self._used)

    def _reason(self) -> str:
        if self._complaint:
            return f"the worker was ended: {self._complaint}"
        return describe_exit(self._process.returncode)

    def remove_scratch(self) -> None:
        self._scratch.remove()


def _start_worker(start: WorkerStart, scratch: Scratch) -> subprocess.Popen[bytes]:
    with open(scratch.stdout, "ab") as stdout, open(scratch.stderr, "ab") as stderr:
        assert start.commands_fd is not None
        assert start.tickets_fd is not None
        return disk.start(
            Area.WORKER,
            worker_command(start),
            env=step_environment(str(scratch.home), str(scratch.tmp)),
            cwd=scratch.work,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(start.commands_fd, start.tickets_fd, start.control_fd, start.messages_fd),
            start_new_session=True,  # Ctrl-C on the host's terminal does not reach it
        )


def used_by(processes: Sequence[int]) -> dict[str, float]:
    """The metrics of processes that still run: their processor time with that of their ended children, and the most
    memory that one of them held. Empty if they are gone."""
    ticks, peak = 0, 0
    for pid in processes:
        with suppress(OSError, ValueError), open(f"/proc/{pid}/status", "rb") as status:
            peak = max([peak, *(int(line.split()[1]) * 1024 for line in status if line.startswith(b"VmHWM:"))])
            with open(f"/proc/{pid}/stat", "rb") as stat:
                ticks += sum(map(int, stat.read().rpartition(b")")[2].split()[11:15]))
    if not peak:
        return {}
    return {"cpu_seconds": ticks / os.sysconf("SC_CLK_TCK"), "max_rss_bytes": float(peak)}
