"""A Dask scheduler and its workers as separate processes, in folders outside the project."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

PATIENCE = 300.0  # seconds after which a test gives up on what must come


class Cluster:
    def __init__(self, folder: Path, allowed_failures: int = 0) -> None:
        self.folder = folder
        self._allowed = str(allowed_failures)
        self._known = folder / "scheduler.json"
        self._processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start(
            "scheduler", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-jupyter",
            "--scheduler-file", str(self._known),
        )  # fmt: skip
        wait_until(lambda: self._known.exists() and self._known.read_text().endswith("}"))  # not half written
        self.address: str = json.loads(self._known.read_text())["address"]

    def add_worker(self, *words: str, nanny: bool = False, scheduler: str | None = None) -> subprocess.Popen[bytes]:
        number = len(self._processes)
        local = self.folder / f"local-{number}"
        return self._start(
            f"worker-{number}", "worker", scheduler or self.address, "--nworkers", "1", "--nthreads", "1",
            "--nanny" if nanny else "--no-nanny", "--no-dashboard", "--local-directory", str(local), *words,
        )  # fmt: skip

    def add_worker_behind(self, network: Network) -> subprocess.Popen[bytes]:
        """All that it and the scheduler say to each other goes through the network."""
        (port,) = free_ports(1)
        contact = network.way_to(port)
        return self.add_worker(
            "--listen-address", f"tcp://127.0.0.1:{port}",
            "--contact-address", f"tcp://127.0.0.1:{contact}",
            scheduler=f"tcp://127.0.0.1:{network.way_to(int(self.address.rpartition(':')[2]))}",
        )  # fmt: skip

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        folder = self.folder / name
        folder.mkdir(parents=True)
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *words],
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": self._allowed,
                    "PYTHONWARNINGS": "ignore",
                },
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def close(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Network:
    """Forwards connections until it is cut. Then nothing arrives, and nothing is closed or refused either."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def way_to(self, port: int) -> int:
        """The port that leads there."""
        listener = socket.create_server(("127.0.0.1", 0))
        self._sockets.append(listener)
        self._in_thread(self._accept, listener, port)
        return int(listener.getsockname()[1])

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    def close(self) -> None:
        """After those who talk through it."""
        self.mend()
        for one in self._sockets:
            with suppress(OSError):  # it is not connected any more
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()

    def _in_thread(self, function: Callable[..., None], *words: object) -> None:
        self._threads.append(threading.Thread(target=function, args=words, daemon=True))
        self._threads[-1].start()

    def _accept(self, listener: socket.socket, port: int) -> None:
        with suppress(OSError):  # it was closed
            while True:
                one, _ = listener.accept()
                self._sockets.append(one)
                self._open.wait()
                other = socket.create_connection(("127.0.0.1", port))
                self._sockets.append(other)
                self._in_thread(self._forward, one, other)
                self._in_thread(self._forward, other, one)

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # the other direction has ended first
            while data := source.recv(1 << 16):
                self._open.wait()
                target.sendall(data)
            self._open.wait()
            target.shutdown(socket.SHUT_WR)


def wait_until(seen: object) -> None:
    assert callable(seen)
    deadline = time.monotonic() + PATIENCE
    while not seen():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


# --- another user of the machine -------------------------------------------------------------------------------------

FOREIGN = Path(__file__).with_name("foreign_client.py")


def foreign_attempts(addresses: list[str], seconds: float = 3) -> dict[str, str]:
    """What another user gets from each of these addresses, each tried for so many seconds; see `foreign_client.py`."""
    command = [sys.executable, str(FOREIGN), str(seconds), *addresses]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stderr
    got = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert set(got) == set(addresses)
    return got


def ways(ports: Iterable[str]) -> list[str]:
    return [f"{way}://{port}" for port in sorted(set(ports)) for way in ("tcp", "tls", "http")]


def listening(processes: Iterable[int]) -> list[str]:
    """All TCP ports on which these processes listen, as `HOST:PORT`."""
    sockets = set[str]()
    for pid in processes:
        with suppress(OSError):  # it has ended meanwhile
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    sockets.add(os.readlink(descriptor))
    ports = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        local, state, inode = (line.split()[column] for column in (1, 3, 9))
        if state == "0A" and f"socket:[{inode}]" in sockets:
            host, _, port = local.partition(":")
            address = socket.inet_ntoa(bytes.fromhex(host)[::-1])
            ports.append(f"{'127.0.0.1' if address == '0.0.0.0' else address}:{int(port, 16)}")
    return ports


def free_ports(count: int) -> list[int]:
    """Below the ports that the system gives to connections: one of those may be taken before somebody listens there."""
    with ExitStack() as held:
        found: list[int] = []
        while len(found) < count:
            port = random.randrange(15_000, 30_000)
            with suppress(OSError):  # somebody has it
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
                found.append(port)
        return found
