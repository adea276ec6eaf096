"""A fork server for the Python programs that tests start: workers, commands and drivers.

A worker needs 0.2 s of CPU to start Python and to import, and the suite starts thousands. `install` replaces
`subprocess.Popen` by a subclass. It asks a warm process for a fork where a program of `_KINDS` is to start, and starts
everything else as usual. The fork is the program in all that it and others can see: its number, its descriptors, its
command line and environment in /proc, its `__main__`, its exit status. Only its parent is another process.

Tests about the start itself have the marker `real_start`: then nothing is forked.
`python fork_server.py KIND FD …` is the server.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib.util
import inspect
import io
import json
import os
import resource
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).parent
COMMAND = [sys.executable, "-m", "whyrun.cli.main"]
WORKER = [sys.executable, "-P", "-m", "whyrun.execution.worker.main"]
INSPECTOR = [sys.executable, "-P", "-m", "whyrun.actions.inspection.inspector_main"]
DASK = [sys.executable, "-m", "dask"]
SCRIPTS = [
    str(HERE / "command_driver.py"),
    str(HERE / "run_in_process.py"),
    str(Path(sys.executable).with_name("whyrun")),
]

_LARGEST = 1 << 17  # bytes of a request
_ROOM = 1 << 15  # bytes for the command line and for the environment of a fork, as /proc shows them
_MOST_DESCRIPTORS = 32
_READ_AT_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_", "GLIBC_", "DASK_")  # a fork cannot read them again
_ORDINARY = frozenset({"LANG", "LC_ALL", "LC_CTYPE", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"})
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
_COMMAND_MODULES = (
    "whyrun.execution.backends.local.backend", "whyrun.planning.answers.why",
    "whyrun.execution.compare.compare", "whyrun.execution.adopt.adopt",
    "whyrun.evidence.verify.verify", "whyrun.console.logger",
)  # fmt: skip

# Programs that Whyrun itself starts: kind → module.
_PROGRAMS = {"worker": WORKER[3], "inspector": INSPECTOR[3]}

# A scheduler or worker of a test's own cluster. It need not have Whyrun.
_DASK_MODULES = ("dask.cli", "distributed.cli.dask_scheduler", "distributed.cli.dask_worker")

# The variables of a worker of Dask's own cluster, as its nanny sets them before it spawns one.
_OF_NANNIES = {"MALLOC_TRIM_THRESHOLD_": "65536", "PYTHONHASHSEED": "6640"}

# What a step with a data action imports: for `with_imported`.
DATA_LIBRARIES = ("duckdb", "pyarrow.dataset", "pymysql", "adbc_driver_postgresql.dbapi")

# What a command imports for a backend, and takes longer than all else that it imports.
_BACKEND_MODULES = {"e2b": "e2b", "dask": "distributed"}


def run_command(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[bytes]:
    """`whyrun WORDS` with an empty stdin."""
    return subprocess.run(
        [*COMMAND, *words],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
        check=False,
    )


# --- the client -----------------------------------------------------------------------------------------------------


class Client:
    """One connection to the server at this address; opened anew in a process that was forked meanwhile."""

    def __init__(self, address: str, session: int) -> None:
        self.address = address
        self.session = session  # of the server
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._owner = 0

    def ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> Any:
        data = json.dumps(request).encode()
        with self._lock:
            if self._socket is None or self._owner != os.getpid():
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._socket.connect(self.address)
                self._owner = os.getpid()
            if descriptors:
                socket.send_fds(self._socket, [data], list(descriptors))
            else:
                self._socket.send(data)
            answer = self._socket.recv(_LARGEST)
        if not answer:
            raise ConnectionError(f"the fork server of the tests has ended: it did not answer {request}")
        return json.loads(answer)


def read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


_clients: dict[str, Client] = {}  # by kind and start-up variables
_servers: list[tuple[subprocess.Popen[bytes], socket.socket]] = []
_imported: tuple[str, ...] = ()  # what workers have already
_with_modules: dict[tuple[str, ...], dict[str, Client]] = {}  # of `with_imported`
_first_variables: dict[str, str] | None = None  # None where no server may start
_paused = False
_lock = threading.RLock()
_RealPopen = subprocess.Popen
_EXECUTE_CHILD = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]


def _kind(command: Sequence[str]) -> str | None:
    if list(command[:4]) == WORKER and len(command) == 5:
        return "worker"
    if list(command[:4]) == INSPECTOR and len(command) == 6:
        return "inspector"
    if list(command[:3]) == DASK:
        return "dask"
    if list(command[:3]) == COMMAND or (command[0] == sys.executable and command[1:2] and command[1] in SCRIPTS):
        for backend in _BACKEND_MODULES:
            if backend in command:
                return f"command {backend}"
        return "command"
    return None


class Popen(subprocess.Popen):  # type: ignore[type-arg]
    """`subprocess.Popen`, which asks the fork server where it can."""

    _client: Client | None = None
    _pidfd = -1

    def _execute_child(self, *arguments: Any, **named: Any) -> None:
        given = _EXECUTE_CHILD.bind(self, *arguments, **named).arguments
        if not self._fork(given):
            super()._execute_child(*arguments, **named)  # type: ignore[misc]

    def _fork(self, given: dict[str, Any]) -> bool:
        args = given["args"]
        if _paused or isinstance(args, str | bytes | os.PathLike) or not all(isinstance(word, str) for word in args):
            return False
        kind = _kind(args)
        unusual = [given[name] for name in ("executable", "preexec_fn", "shell", "gid", "gids", "uid")]
        if kind is None or any(unusual) or not given["close_fds"]:
            return False
        if given["umask"] != -1 or given["process_group"] != -1:
            return False
        variables = os.environ if given["env"] is None else given["env"]
        environment = {os.fsdecode(name): os.fsdecode(value) for name, value in variables.items()}
        client = _client_for(kind, environment)
        streams = [
            given[name] if given[name] != -1 else number
            for number, name in enumerate(("p2cread", "c2pwrite", "errwrite"))
        ]
        cwd = os.path.realpath(given["cwd"] or os.curdir)
        if client is None or not os.path.isdir(cwd) or any(os.isatty(stream) for stream in streams):
            return False
        if not given["start_new_session"] and os.getsid(0) != client.session:
            return False
        request = {
            "args": args, "cwd": cwd, "env": environment, "targets": [0, 1, 2, *given["pass_fds"]],
            "group": None if given["start_new_session"] else os.getpgrp(), "umask": _umask(),
            "limits": [(number, resource.getrlimit(number)) for number in _LIMITS],
        }  # fmt: skip
        if len(b"\0".join(_environment_bytes(environment))) + 1 > _ROOM or len("\0".join(args).encode()) + 1 > _ROOM:
            return False
        self.pid = client.ask(request, [*streams, *given["pass_fds"]])
        self._client, self._pidfd = client, os.pidfd_open(self.pid)
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[name] for name in pipes))  # type: ignore[attr-defined]
        return True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._client is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc, no-any-return]
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(0 if wait_flags & os.WNOHANG else None):
            return 0, 0
        status = self._client.ask({"reap": self.pid})
        os.close(self._pidfd)
        return self.pid, status

    def _internal_poll(self, _deadstate: int | None = None, *arguments: Any, **named: Any) -> int | None:
        if self._client is None:
            return super()._internal_poll(_deadstate, *arguments, **named)  # type: ignore[misc, no-any-return]
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid == self.pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            except OSError:  # the server is gone
                self.returncode = _deadstate
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def _client_for(kind: str, environment: Mapping[str, str]) -> Client | None:
    """There is a server for each kind and each set of start-up variables, as long as these are ordinary."""
    variables = read_at_start(environment)
    key = _key(kind, variables)
    with _lock:
        if key not in _clients and _first_variables is not None:
            ordinary = variables == _first_variables or _ORDINARY.issuperset(variables)
            if kind in _PROGRAMS or kind == "dask" or ordinary:
                _start_server(kind, key, environment)
        return _clients.get(key)


def _key(kind: str, variables: Mapping[str, str]) -> str:
    return f"{kind} {json.dumps(variables, sort_keys=True)}"


def _umask() -> int:
    with open("/proc/self/status") as file:  # asking for it otherwise would change it, also for other threads
        return int(next(line for line in file if line.startswith("Umask:")).split()[1], 8)


def _environment_bytes(environment: Mapping[str, str]) -> list[bytes]:
    return [os.fsencode(f"{name}={value}") for name, value in environment.items()]


def install() -> None:
    """In the process that runs tests: from now on programs are forked where that is possible."""
    global _first_variables
    _first_variables = read_at_start(os.environ)
    subprocess.Popen = Popen  # type: ignore[misc]
    atexit.register(stop)


@contextmanager
def real_start() -> Iterator[None]:
    """Every program starts as usual, also those that a command starts."""
    global _paused
    before, _paused = _paused, True
    try:
        yield
    finally:
        _paused = before


@contextmanager
def with_imported(*modules: str) -> Iterator[None]:
    """Workers have these modules already, as far as they are installed. A step would need up to a second for them."""
    global _clients, _imported
    before = _clients, _imported
    # Their servers stay until the end, for the next module that asks for the same, and because a process of theirs may
    # be waited for by whoever collects the garbage.
    _clients, _imported = _with_modules.setdefault(modules, {}), modules
    try:
        yield
    finally:
        _clients, _imported = before


def _start_server(kind: str, key: str, environment: Mapping[str, str]) -> None:
    facts: dict[str, Any] = {"kind": kind, "servers": [], "imported": _imported if kind == "worker" else ()}
    if kind.startswith("command"):  # which starts them
        from whyrun.execution.backends.base import step_environment

        variables = step_environment("/", "/")
        for program in _PROGRAMS:
            program_key = _key(program, read_at_start(variables))
            if program_key not in _clients:
                _start_server(program, program_key, variables)
            facts["servers"].append([program_key, _clients[program_key].address, _clients[program_key].session])
        if kind == "command dask" and (workers := _client_for("dask", {**environment, **_OF_NANNIES})) is not None:
            variables = read_at_start({**environment, **_OF_NANNIES})
            facts["servers"].append([_key("dask", variables), workers.address, workers.session])
    address = f"\0whyrun-tests-{os.getpid()}-{os.urandom(6).hex()}"
    life, its_life = socket.socketpair()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, its_life:
        listener.bind(address)
        listener.listen(100)
        facts |= {"listener": listener.fileno(), "life": its_life.fileno()}
        flags = ["-P"] if kind in _PROGRAMS else []
        server = _RealPopen(
            [sys.executable, *flags, __file__, json.dumps(facts), " " * _ROOM],
            # Not the HOME of the first worker: a repair ends all processes that have it.
            env={**environment, "HOME": "/", "ROOM": " " * _ROOM},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno(), its_life.fileno()],
        )
    _servers.append((server, life))
    _clients[key] = Client(address, os.getsid(0))


def stop() -> None:
    for server, life in _servers:
        life.close()
        server.kill()
        server.wait()
    _servers.clear()
    _clients.clear()


# --- processes that `multiprocessing` spawns -------------------------------------------------------------------------


def fork_what_is_spawned() -> None:
    """In a command: the workers of its own Dask cluster are forked, too. Each would import Dask for 0.6 s."""
    # Imported here: in the process of a step, these modules are a sign that it may start programs.
    from multiprocessing import popen_spawn_posix, util

    spawning = threading.Lock()
    really = util.spawnv_passfds

    class Spawned(popen_spawn_posix.Popen):
        _client: Client | None = None

        def _launch(self, process: Any) -> None:
            with spawning:
                util.spawnv_passfds = self._start
                try:
                    super()._launch(process)  # type: ignore[misc]
                finally:
                    util.spawnv_passfds = really

        def _start(self, path: bytes, args: Sequence[Any], descriptors: Iterable[int]) -> int:
            words, variables = [os.fsdecode(word) for word in args], dict(os.environ)
            client = _clients.get(_key("dask", read_at_start(variables)))
            of_a_process = words[1] == "-c" and "spawn_main" in words[2]
            if client is None or not of_a_process or _paused or os.getsid(0) != client.session:
                return int(really(path, args, descriptors))
            passed = [0, 1, 2, *sorted({int(descriptor) for descriptor in descriptors})]
            request = {
                "args": words, "cwd": os.getcwd(), "env": variables, "targets": passed,
                "group": os.getpgrp(), "umask": _umask(),
                "limits": [(number, resource.getrlimit(number)) for number in _LIMITS],
                "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
            }  # fmt: skip
            pid = int(client.ask(request, passed))
            self._client, self._pidfd, self._reaping = client, os.pidfd_open(pid), threading.Lock()
            return pid

        def poll(self, flag: int = os.WNOHANG) -> int | None:
            if self._client is None:
                return super().poll(flag)  # type: ignore[misc, no-any-return]
            if self.returncode is None:
                ended = select.poll()
                ended.register(self._pidfd, select.POLLIN)
                if not ended.poll(0 if flag & os.WNOHANG else None):
                    return None
                with self._reaping:
                    if self.returncode is None:
                        self.returncode = os.waitstatus_to_exitcode(self._client.ask({"reap": self.pid}))
            return self.returncode

    popen_spawn_posix.Popen = Spawned


# --- commands that a shell starts -----------------------------------------------------------------------------------

_SHIM = """\
#!{python} -IS
import _signal, _socket, json, os, select, sys
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
server.connect({address!r})
request = {{
    "args": [{python!r}, {script!r}, *sys.argv[1:]], "cwd": os.getcwd(), "env": dict(os.environ), "targets": [0, 1, 2],
    "group": os.getpgrp(), "umask": {umask}, "limits": [], "ends_with_asker": True,
}}
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
server.sendmsg([json.dumps(request).encode()], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
pid = int(server.recv(100))
for number in (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGINT):
    _signal.signal(number, lambda number, frame: os.kill(pid, number))
poll = select.poll()
poll.register(os.pidfd_open(pid), select.POLLIN)
poll.poll()
server.send(json.dumps({{"reap": pid}}).encode())
status = os.waitstatus_to_exitcode(int(server.recv(100)))
if status < 0:
    if -status != _signal.SIGKILL:
        _signal.signal(-status, _signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


def shell_environment(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """For shells: these variables, and a PATH whose `whyrun` is `folder/whyrun`, which forks the command."""
    environment = {"PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}", **variables}
    script = Path(sys.executable).with_name("whyrun")
    client = _client_for("command", environment)
    folder.mkdir(parents=True)
    if client is None or _paused:
        (folder / "whyrun").symlink_to(script)
        return environment
    text = _SHIM.format(python=sys.executable, address=client.address, script=str(script), umask=_umask())
    (folder / "whyrun").write_text(text)
    (folder / "whyrun").chmod(0o755)
    return environment


# --- the server -----------------------------------------------------------------------------------------------------


class Server:
    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(fileno=facts["listener"])
        self._life = socket.socket(fileno=facts["life"])  # it ends with the process that runs the tests
        self._started: dict[socket.socket, set[int]] = {}  # and not yet reaped
        self._mortal: set[int] = set()  # those that end with whoever asked for them
        for descriptor in (self._listener, self._life):
            os.set_inheritable(descriptor.fileno(), False)
            self._selector.register(descriptor, selectors.EVENT_READ)

    def serve(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is for pytest
        gc.collect()
        gc.freeze()  # so that no fork copies these pages
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._life:
                    return
                if key.fileobj is self._listener:
                    connection, _ = self._listener.accept()
                    self._started[connection] = set()
                    self._selector.register(connection, selectors.EVENT_READ)
                elif isinstance(key.fileobj, socket.socket):
                    self._answer(key.fileobj)
                else:
                    self._reap_orphan(key.fd, key.data)

    def _answer(self, connection: socket.socket) -> None:
        data, descriptors = b"", []
        with suppress(ConnectionError):
            data, descriptors, _, _ = socket.recv_fds(connection, _LARGEST, _MOST_DESCRIPTORS)
        if not data:
            self._forget(connection)
            return
        request = json.loads(data)
        if "reap" in request:
            pid, status = os.waitpid(request["reap"], 0)
            self._started[connection].discard(pid)
            self._mortal.discard(pid)
            answer = status
        else:
            ready, ready_end = os.pipe()
            answer = os.fork()
            if answer == 0:
                become(request, descriptors, ready_end, self._facts)
            self._started[connection].add(answer)
            if request.get("ends_with_asker"):
                self._mortal.add(answer)
            for descriptor in (*descriptors, ready_end):
                os.close(descriptor)
            os.read(ready, 1)  # from here on it has its own process group, as after `exec`
            os.close(ready)
        with suppress(BrokenPipeError, ConnectionError):
            connection.send(json.dumps(answer).encode())

    def _forget(self, connection: socket.socket) -> None:
        """Its process has ended. What that had started lives on, as it would with init as its parent; but where it only
        stood for a command, it was the command that was killed."""
        self._selector.unregister(connection)
        for pid in self._started.pop(connection):
            if pid in self._mortal:
                self._mortal.discard(pid)
                os.kill(pid, signal.SIGKILL)
            self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)
        connection.close()

    def _reap_orphan(self, pidfd: int, pid: int) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
        os.waitpid(pid, 0)


def become(request: dict[str, Any], descriptors: list[int], ready: int, facts: dict[str, Any]) -> NoReturn:
    """In the fork: the program that was asked for, to its end."""
    status = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid() if request["group"] is None else os.setpgid(0, request["group"])
        os.chdir(request["cwd"])
        os.umask(request["umask"])
        for number, limit in request["limits"]:
            resource.setrlimit(number, tuple(limit))
        os.environ.clear()
        os.environ.update(request["env"])
        _show_in_proc(request["args"], _environment_bytes(request["env"]))
        os.write(ready, b".")
        _take_descriptors(descriptors, request["targets"])
        _make_streams()
        for key, address, session in facts["servers"]:
            _clients[key] = Client(address, session)
            subprocess.Popen = Popen  # type: ignore[misc]
        signal.pthread_sigmask(signal.SIG_SETMASK, request.get("blocked", ()))
        if facts["kind"] == "command dask":
            fork_what_is_spawned()
        status = exit_status(request["args"][1:])
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, ValueError):  # the program has replaced or closed it
                stream.flush()
    except BaseException:  # the forked program must not go on as a second server
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _take_descriptors(received: list[int], targets: list[int]) -> None:
    above = max(*targets, *received) + 1
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, above) for descriptor in received]
    os.closerange(3, above)
    for source, target in zip(moved, targets, strict=True):
        os.dup2(source, target)
    os.closerange(above, max(moved) + 1)


def _show_in_proc(args: list[str], environment: list[bytes]) -> None:
    """Write over this process's first command line and environment, which the kernel shows of it."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    arguments_at, arguments_end, environment_at, environment_end = map(int, fields[45:49])
    for words, at, end in (
        ([os.fsencode(word) for word in args], arguments_at, arguments_end),
        (environment, environment_at, environment_end),
    ):
        ctypes.memset(at, 0, end - at)
        data = b"\0".join(words)
        ctypes.memmove(at, data, min(len(data), end - at - 1))


def _make_streams() -> None:
    """As Python makes them at its start; those of the server were for other files."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
        raw.name = f"<{name}>"  # type: ignore[misc]
        unbuffered = isinstance(old.buffer, io.FileIO)  # PYTHONUNBUFFERED
        buffer = raw if unbuffered else io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
        new = io.TextIOWrapper(
            buffer,
            encoding=old.encoding,
            errors=old.errors,
            newline=None if number == 0 else "\n",
            line_buffering=number == 2,
            write_through=old.write_through,
        )
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def exit_status(words: list[str]) -> int:
    """Of the program `python WORDS`, run here; as the interpreter would have it."""
    try:
        sys.modules["__main__"] = types.ModuleType("__main__")
        if words[0] == "-c":
            sys.path.insert(0, "")
            sys.argv = ["-c", *words[2:]]
            sys.modules["__main__"].__dict__["__builtins__"] = __builtins__
            exec(compile(words[1], "<string>", "exec"), sys.modules["__main__"].__dict__)
        elif "-m" in words[:2]:
            at = words.index("-m")
            if "-P" not in words[:at]:
                sys.path.insert(0, os.getcwd())
            sys.argv = ["-m", *words[at + 2 :]]
            sys.modules["__main__"].__dict__["__builtins__"] = __builtins__
            runpy._run_module_as_main(words[at + 1])  # type: ignore[attr-defined]
        else:
            sys.path.insert(0, os.path.dirname(words[0]))
            sys.argv = list(words)
            with open(words[0], "rb") as file:
                code = compile(file.read(), words[0], "exec")
            namespace = sys.modules["__main__"].__dict__
            namespace.update(__file__=words[0], __builtins__=__builtins__)
            exec(code, namespace)
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            return (ending.code or 0) & 0xFF
        print(ending.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _import_for(kind: str) -> None:
    """What the program imports at its start, but not the program itself, which runs as `__main__`."""
    if kind in _PROGRAMS:
        package, _, name = _PROGRAMS[kind].rpartition(".")
        importlib.import_module(_PROGRAMS[kind])
        del sys.modules[_PROGRAMS[kind]]
        delattr(sys.modules[package], name)
        return
    if kind == "dask":
        _import_all(_DASK_MODULES)
        return
    _import_all(_COMMAND_MODULES)
    from whyrun.cli.main import COMMANDS

    _import_all(f"whyrun.cli.commands.{module}" for module, _ in COMMANDS.values())
    del sys.modules["whyrun.cli.main"]
    del sys.modules["whyrun.cli"].main
    backend = kind.removeprefix("command").strip()
    if backend and importlib.util.find_spec(_BACKEND_MODULES[backend]) is not None:
        _import_all([_BACKEND_MODULES[backend]])


def _import_all(names: Iterable[str]) -> None:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy would start threads, which no fork would have
    for name in names:
        importlib.import_module(name)


if __name__ == "__main__":
    facts = json.loads(sys.argv[1])
    if facts["kind"] not in _PROGRAMS:
        sys.path.pop(0)  # this folder, which no program has by itself
    _import_for(facts["kind"])
    with suppress(ModuleNotFoundError):
        _import_all(facts["imported"])
    Server(facts).serve()
