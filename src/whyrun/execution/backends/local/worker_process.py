"""One worker process, seen from the host: its channels, what it was given, and its end."""

from __future__ import annotations

import array
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from whyrun import disk
from whyrun.artifacts.durable import write_all
from whyrun.artifacts.stat_rows import Signature
from whyrun.disk import Area
from whyrun.execution.backends.process import ending, step_environment
from whyrun.execution.commands import (
    ExecStep,
    Message,
    Pong,
    Prepare,
    Prepared,
    PrepareFailed,
    Session,
    StepBegan,
    StepFinished,
    StepLost,
    Word,
)
from whyrun.execution.isolation import descendants, end_group, processes_with
from whyrun.execution.scratch import Scratch, step_folder
from whyrun.execution.secrets import Redactor
from whyrun.execution.wire import (
    INLINE_LIMIT,
    TICKET,
    Acknowledged,
    Assignment,
    WorkerStart,
    decode_message,
    decode_messages,
    encode,
    secret_bytes,
    timestamp,
)
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE

_CHUNK = 1 << 20
_TICKETS = 512 * TICKET.size
_LONGEST_LINE = 1 << 26
_PIPE = 1 << 18  # bytes: the words of some hundred short steps
_LOOK = 0.1  # seconds between two looks at whether to go on


class Job(msgspec.Struct, frozen=True):
    command: ExecStep
    secrets: dict[str, str]
    known: dict[str, Signature] = {}


class LocalWorker:
    def __init__(self, session: Session, scratch: Path) -> None:
        self.jobs: deque[Job] = deque()  # given and not finished, in order; the worker takes them in this order
        self.current: Job | None = None
        self.worked = False
        self.last_turn = time.monotonic()  # when it last began or ended a step, as far as we heard
        self._session = session
        self._began = 0.0
        self._rest = b""
        self._complaint = ""
        self._prepared: Prepared | None = None
        self._given = 0
        self._ended: set[str] = set()  # steps
        self._numbers: deque[int] = deque()  # of `jobs`
        self._scratch = Scratch(scratch)
        self._scratch.make()
        self._commands, self._commands_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._commands.setblocking(False)
        # The host keeps the worker's end as well: the tickets that it reads from there, the worker can no longer take.
        self._tickets_end, self._tickets = os.pipe()
        os.set_blocking(self._tickets_end, False)
        control, self._control = os.pipe()
        self.messages_fd, messages = os.pipe()
        os.set_blocking(self.messages_fd, False)
        with suppress(OSError):  # a user may have only so much of it
            fcntl.fcntl(messages, fcntl.F_SETPIPE_SZ, _PIPE)  # so that it seldom waits for us
        given = (self._commands_end.fileno(), self._tickets_end)
        start = WorkerStart.of(session, scratch, *given, control, messages)
        with open(self._scratch.stdout, "ab") as stdout, open(self._scratch.stderr, "ab") as stderr:
            self._process = disk.start(
                Area.WORKER,
                [sys.executable, "-P", "-m", "whyrun.execution.worker", encode(start).decode()],
                env=step_environment(str(self._scratch.home), str(self._scratch.tmp)),
                cwd=self._scratch.work,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(*given, control, messages),
                start_new_session=True,  # Ctrl-C on the host's terminal does not reach it
            )
        os.close(control)
        os.close(messages)
        self.pid = self._process.pid
        self.pidfd = os.pidfd_open(self.pid)

    # --- giving and taking back ----------------------------------------------------------------------------------

    def give(self, jobs: Sequence[Job]) -> int:
        """Send the first of these commands, as many as go into one message; how many. 0: the channel is full.

        One with secrets goes alone, to a worker that has nothing else to do, and nothing follows before it has ended:
        no other step runs where they lie in memory, also not after the command was taken back."""
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
        """The command as a file; its secrets, which stand in none, as anonymous memory."""
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
            return 0  # full; or it just died: that is noticed in a moment, and the commands stay in the queue
        finally:
            if beside is not None:
                os.close(beside)
        os.write(self._tickets, b"".join(map(TICKET.pack, numbers)))  # after what they stand for
        if not self.jobs:
            self.last_turn = time.monotonic()
        self._given += len(jobs)
        self._numbers.extend(numbers)
        self.jobs.extend(jobs)
        return len(jobs)

    def take_back(self) -> list[Job]:
        """Everything that the worker has not taken, in order. A command is taken by exactly one side."""
        taken_back: set[int] = set()
        while True:
            try:
                data = os.read(self._tickets_end, _TICKETS)
            except BlockingIOError:
                break
            if not data:
                break
            # By number: while we read, the worker may take one in between.
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
            end_group(self.pid, descendants(self.pid))
        else:
            os.killpg(self.pid, signum)

    def prepare(self, command: str, stopped: Callable[[], bool]) -> None:
        """Before its first step. Where it is stopped meanwhile, nothing is to start any more."""
        self._commands.send(encode([Assignment(0, Prepare(command))]))
        os.write(self._tickets, TICKET.pack(0))
        poll = select.poll()
        for descriptor in (self.messages_fd, self.pidfd):
            poll.register(descriptor, select.POLLIN)
        while self._prepared is None and not stopped():
            ready = [descriptor for descriptor, _ in poll.poll(_LOOK * 1000)]
            self.hear()
            if self._prepared is None and self.pidfd in ready:
                raise PrepareFailed("the worker died while it prepared")
        if self._prepared is not None and self._prepared.error:
            raise PrepareFailed(self._prepared.error)

    # --- hearing -------------------------------------------------------------------------------------------------

    def hear(self) -> list[Message]:
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
                break  # the pipe is empty; another read would only say so
        lines, newline, self._rest = b"".join(chunks).rpartition(b"\n")
        if self._complaint:
            return []  # it is being ended; what it still said came after what it should not have said
        heard = self._accepted(lines) if newline else []
        if len(self._rest) > _LONGEST_LINE:
            self._distrust("it sent a line without end")
        return heard

    def _accepted(self, lines: bytes) -> list[Message]:
        try:
            return self._until_distrust(decoded(decode_messages, lines))
        except UNREADABLE:
            pass  # rare: line by line, so that all before the bad one count
        heard: list[Message] = []
        for line in lines.split(b"\n"):
            try:
                heard += self._until_distrust([decoded(decode_message, line)])
            except UNREADABLE as problem:
                if self.current is not None:  # else nobody's: a process that a step left behind, between two steps
                    self._distrust(f"it sent what is no message: {problem}")
            if self._complaint:
                break
        return heard

    def _until_distrust(self, messages: list[Word]) -> list[Message]:
        heard: list[Message] = []
        for message in messages:
            if isinstance(message, Pong | Prepared):
                self._prepared = message if isinstance(message, Prepared) else self._prepared
            elif self._accept(message):
                heard.append(message)
            elif self._complaint:
                break  # what follows must not end the step that spoke badly, or the next one would be blamed
        return heard

    def _accept(self, message: Message) -> bool:
        """A worker speaks only for the step that it runs."""
        if isinstance(message, StepBegan):
            if self.current is None and self.jobs and self.jobs[0].command.step_id == message.step_id:
                self.current, self.worked = self.jobs[0], True
                self._began = self.last_turn = time.monotonic()
                return True
        elif self.current is not None and self.current.command.step_id == message.step_id:
            if isinstance(message, StepFinished):
                self.jobs.popleft()
                self._numbers.popleft()
                self._ended.add(self.current.command.step_id)
                self.current = None
                self.last_turn = time.monotonic()
            return not isinstance(message, StepLost)
        elif message.step_id in self._ended:
            return False  # a process that the step left behind: too late to be heard, and no fault of the next step
        self._distrust(f"it spoke for `{message.step_id}`, which it does not run")
        return False

    def _distrust(self, complaint: str) -> None:
        self._complaint = self._complaint or complaint
        self._rest = b""
        end_group(self.pid, descendants(self.pid))

    # --- the end -------------------------------------------------------------------------------------------------

    def let_go(self) -> None:
        """No more commands: the worker ends when its step does."""
        self._close_tickets()

    def _close_tickets(self) -> None:
        if self._tickets >= 0:
            tickets, self._tickets = self._tickets, -1
            os.close(tickets)

    def end(self, patience: float = 0.0) -> list[Job]:
        """Reap the process and close the channels. Returns what it had taken without finishing it."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        if not poll.poll(patience * 1000):
            end_group(self.pid, descendants(self.pid))
        # The group still exists as long as its dead leader is not reaped: no other group can have its number.
        end_group(self.pid, [])
        self._process.wait()
        if self.jobs:
            end_group(self.pid, processes_with(f"HOME={self._scratch.home}".encode()))
        self._close_tickets()
        for descriptor in (self.pidfd, self.messages_fd, self._control, self._tickets_end):
            os.close(descriptor)
        self._commands.close()
        self._commands_end.close()
        return list(self.jobs)

    def lost(self, job: Job) -> StepLost:
        """The word on a step that its worker can no longer give; its logs and scratch files become evidence."""
        redactor = Redactor(job.secrets)
        stderr = self._scratch.tail("stderr", redactor)
        reason = self._reason()
        try:
            self._scratch.keep_all(step_folder(self._session.run_dir, job.command.step_id), redactor)
        except OSError as problem:  # the loss itself is what counts; a full disk must not hide it
            reason += f" (and its files could not be kept: {problem})"
        duration = time.monotonic() - self._began if self._began else 0.0
        return StepLost(job.command.step_id, job.command.attempt, timestamp(), redactor.text(reason), stderr, duration)

    def _reason(self) -> str:
        if self._complaint:
            return f"the worker was ended: {self._complaint}"
        return ending(self._process.returncode)

    def remove_scratch(self) -> None:
        self._scratch.remove()
