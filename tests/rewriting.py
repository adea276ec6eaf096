"""Where there is no bytecode yet, as in a fresh clone, the processes of pytest-xdist share the work of making it.

pytest rewrites the assertions of each test module before it imports it, and keeps the result. The processes collect the
same tests in the same order at the same time, so each of them would rewrite everything: 10 s of CPU each.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from _pytest.assertion.rewrite import assertstate_key

NAMES = ("test_*.py", "conftest.py")


def rewrite_a_share(config: pytest.Config) -> None:
    """Of the modules in the folders that are asked for; the others are the share of the other processes."""
    process: dict[str, object] = getattr(config, "workerinput", {})
    if not process:
        return
    number, processes = int(str(process["workerid"]).removeprefix("gw")), int(str(process["workercount"]))
    folders = [path for path in map(Path, config.args) if path.is_dir()]
    modules = sorted(chain.from_iterable(folder.rglob(name) for folder in folders for name in NAMES))
    for module in modules[number::processes]:
        _rewrite(module.absolute(), config)


def _rewrite(module: Path, config: pytest.Config) -> None:
    """As pytest's `AssertionRewritingHook.exec_module` does, but without importing it."""
    folder = rewrite.get_cache_dir(module)
    kept = folder / f"{module.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(module, kept) is None and rewrite.try_makedirs(folder):
        found, code = rewrite._rewrite_test(module, config)
        rewrite._write_pyc(config.stash[assertstate_key], code, found, kept)
