"""A Dask scheduler and its workers as processes of their own, in folders that the project knows nothing of."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 60.0  # seconds after which a test gives up on what must come


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

    def add_worker(self, *words: str) -> subprocess.Popen[bytes]:
        number = len(self._processes)
        local = self.folder / f"local-{number}"
        return self._start(
            f"worker-{number}", "worker", "--scheduler-file", str(self._known), "--nworkers", "1", "--nthreads", "1",
            "--no-nanny", "--no-dashboard", "--local-directory", str(local), *words,
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


def wait_until(seen: object) -> None:
    assert callable(seen)
    deadline = time.monotonic() + PATIENCE
    while not seen():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
