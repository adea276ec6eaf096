"""Code that is pickled by value and sent to Dask workers, which need not have Whyrun: unpacks the bundle with it.

So this module imports only the standard library and `distributed`, and imports Whyrun only inside functions.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import os
import shutil
import sys
from typing import Any

from distributed import Status, WorkerPlugin, get_worker
from distributed.utils import sync
from distributed.worker import Worker

REFUSAL = "the Dask worker that had it died, and Whyrun does not execute it again by itself"


class WhyrunSite(WorkerPlugin):
    """Installs the bundle and an agent on every worker, including workers that join or restart later."""

    def __init__(self, key: str, bundle: bytes, sha256: str, unpacker: str, facts: dict[str, Any]) -> None:
        self.key = key
        self.name = f"whyrun-{key}"
        self._bundle = bundle
        self._sha256 = sha256
        self._unpacker = unpacker  # the source of `unpack.py`
        self._facts = facts
        self._folder = ""

    async def setup(self, worker: Worker) -> None:
        """Runs in a thread, so that the worker's event loop, and with it the heartbeat, continues."""
        await asyncio.to_thread(self._set_up, worker)

    async def teardown(self, worker: Worker) -> None:
        """If the worker continues, the run is over. If the worker ends, the host may have died: then the files of steps
        are evidence, provided that they lie on the host's machine, where the next run looks for them."""
        over = worker.status == Status.running
        await asyncio.to_thread(self._tear_down, over or self._facts["sites"] is None)

    def _set_up(self, worker: Worker) -> None:
        folder = self._facts["sites"] or worker.local_directory
        self._folder = os.path.join(folder, f"whyrun-{self.key}-{os.getpid()}")
        os.makedirs(self._folder, exist_ok=True)
        if hashlib.sha256(self._bundle).hexdigest() != self._sha256:
            raise RuntimeError("the bundle was damaged in transfer")
        names: dict[str, Any] = {"__name__": "whyrun_unpack"}
        exec(compile(self._unpacker, "unpack.py", "exec"), names)
        names["unpack"](self._bundle, os.path.join(self._folder, "bundle"), self._sha256)
        self._bundle = b""
        package = os.path.join(self._folder, "bundle", "package")
        if "whyrun" not in sys.modules and importlib.util.find_spec("whyrun") is None:
            sys.path.append(package)
        site = importlib.import_module("whyrun.execution.backends.dask.site")
        site.open_agent(self.key, self._folder, package, self._facts, worker)

    def _tear_down(self, remove: bool) -> None:
        site = sys.modules.get("whyrun.execution.backends.dask.site")
        if site is not None:
            site.close_agent(self.key, remove)
        if remove:
            shutil.rmtree(self._folder, ignore_errors=True)


def run_batch(key: str, number: int, payloads: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Execute the steps of a task. Dask repeats a task whose worker died, and not every scheduler can be configured
    otherwise. So a task first claims its number, and a repeated one is refused: the host decides about attempts."""
    worker: Any = get_worker()
    claim = claim_of(key, number)
    if sync(worker.loop, worker.scheduler.event_is_set, name=claim):
        raise RuntimeError(REFUSAL)
    sync(worker.loop, worker.scheduler.event_set, name=claim)
    site: Any = sys.modules["whyrun.execution.backends.dask.site"]
    results: dict[str, dict[str, Any]] = site.run_batch(key, number, payloads)
    return results


def claim_of(key: str, number: int) -> str:
    return f"whyrun-{key}-{number}"


def forget_claims(key: str, numbers: int, dask_scheduler: Any) -> None:
    """Runs on the scheduler at the end of a run. Dask passes the scheduler by name."""
    for number in range(1, numbers + 1):
        dask_scheduler.extensions["events"].event_clear(name=claim_of(key, number))


async def order(key: str, name: str, *arguments: Any) -> Any:
    """Pass an order of the host to the agent on this worker while steps run: secrets, an acknowledgement, a signal.
    Runs in a thread, because the worker's event loop must not wait for a step."""
    site = sys.modules.get("whyrun.execution.backends.dask.site")
    return await asyncio.to_thread(site.order, key, name, *arguments) if site is not None else None
