"""Sent by value to the workers of a Dask cluster, which need not have Whyrun: unpacks the bundle that holds it.

Only the standard library and `distributed`, and no import of Whyrun that is not in a function: what stands here is
pickled with its code.
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

REFUSAL = "the Dask worker that had it died, and it is not executed again unasked"


class WhyrunSite(WorkerPlugin):
    """On every worker, also on one that joins later or was started again: a folder with the bundle, and an agent."""

    def __init__(self, key: str, bundle: bytes, sha256: str, unpacker: str, facts: dict[str, Any]) -> None:
        self.key = key
        self.name = f"whyrun-{key}"
        self._bundle = bundle
        self._sha256 = sha256
        self._unpacker = unpacker  # the source of `unpack.py`
        self._facts = facts
        self._folder = ""

    async def setup(self, worker: Worker) -> None:
        """In a thread: the worker's event loop goes on meanwhile, or nothing would be heard of what else it does."""
        await asyncio.to_thread(self._set_up, worker)

    async def teardown(self, worker: Worker) -> None:
        """While the worker itself goes on, the run is over. Where it ends, its host may have died: then what steps left
        is evidence, if it lies with the host, who looks for it."""
        over = worker.status == Status.running
        await asyncio.to_thread(self._tear_down, over or self._facts["sites"] is None)

    def _set_up(self, worker: Worker) -> None:
        folder = self._facts["sites"] or worker.local_directory
        self._folder = os.path.join(folder, f"whyrun-{self.key}-{os.getpid()}")
        os.makedirs(self._folder, exist_ok=True)
        if hashlib.sha256(self._bundle).hexdigest() != self._sha256:
            raise RuntimeError("the bundle did not arrive as it was sent")
        names: dict[str, Any] = {"__name__": "whyrun_unpack"}
        exec(compile(self._unpacker, "unpack.py", "exec"), names)
        names["unpack"](self._bundle, os.path.join(self._folder, "bundle"), self._sha256)
        self._bundle = b""
        package = os.path.join(self._folder, "bundle", "package")
        if "whyrun" not in sys.modules and importlib.util.find_spec("whyrun") is None:
            sys.path.append(package)
        site = importlib.import_module("whyrun.execution.backends.dask_site")
        site.open_agent(self.key, self._folder, package, self._facts, worker)

    def _tear_down(self, remove: bool) -> None:
        site = sys.modules.get("whyrun.execution.backends.dask_site")
        if site is not None:
            site.close_agent(self.key, remove)
        if remove:
            shutil.rmtree(self._folder, ignore_errors=True)


def run_batch(key: str, number: int, payloads: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Dask computes a task again whose worker died, or died with the result, and not every scheduler can be told not
    to. So a task claims its number first: a second execution has to be an attempt that the host knows of."""
    worker: Any = get_worker()
    claim = claim_of(key, number)
    if sync(worker.loop, worker.scheduler.event_is_set, name=claim):
        raise RuntimeError(REFUSAL)
    sync(worker.loop, worker.scheduler.event_set, name=claim)
    site: Any = sys.modules["whyrun.execution.backends.dask_site"]
    results: dict[str, dict[str, Any]] = site.run_batch(key, number, payloads)
    return results


def claim_of(key: str, number: int) -> str:
    return f"whyrun-{key}-{number}"


def forget_claims(dask_scheduler: Any, key: str, numbers: int) -> None:
    """At the end of a run, on the scheduler."""
    for number in range(1, numbers + 1):
        dask_scheduler.extensions["events"].event_clear(name=claim_of(key, number))


async def order(key: str, name: str, *words: Any) -> Any:
    """A word from the host to the agent here, while steps run: secrets, an acknowledgement, a signal. In a thread: the
    event loop of the worker must not wait for a step."""
    site = sys.modules.get("whyrun.execution.backends.dask_site")
    return await asyncio.to_thread(site.order, key, name, *words) if site is not None else None
