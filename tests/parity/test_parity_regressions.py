"""Two lessons of earlier systems: executors that drifted apart, and parity tests that could not fail."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from parity_lab import BACKENDS, Talks, parity_of, run

import whyrun
from whyrun.log import events as ev
from whyrun.log.journal import read_events

PACKAGE = Path(whyrun.__file__).parent


def imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_lesson_25_one_module_executes_steps_and_no_backend_does() -> None:
    """Two executors (local, remote) that drifted apart."""
    all_imports = {file.relative_to(PACKAGE).as_posix(): imports(file) for file in PACKAGE.rglob("*.py")}
    executing = [name for name, found in all_imports.items() if "whyrun.execution.worker.step_runner" in found]
    assert executing == ["execution/worker/main.py"]
    backends = {name: found for name, found in all_imports.items() if name.startswith("execution/backends/")}
    assert len(backends) > 10
    # `editable` finds the package itself and the project's modules for a process that a backend starts.
    editable = "whyrun.actions.code.editable"
    reaching = {
        name: [module for module in found if module.startswith("whyrun.actions.") and not module.startswith(editable)]
        for name, found in backends.items()
    }
    assert {name: found for name, found in reaching.items() if found} == {}


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_lesson_40_each_side_is_a_run_on_its_own_backend(made: Callable[[str, str, int], Path], backend: str) -> None:
    """Parity tests that set `remote = local`."""
    starts = {}
    for other in dict.fromkeys((backend, "local")):
        first = next(iter(read_events(made(other, "success", 1) / "events.jsonl")))
        assert isinstance(first, ev.RunStart)
        assert first.backend == other
        starts[other] = first.chain
    again = next(iter(read_events(made("local", "success", 2) / "events.jsonl")))
    assert again.chain not in starts.values()
    assert len(set(starts.values())) == len(starts)


def test_lesson_40_a_run_is_not_compared_with_itself_or_its_copy(talks: Talks) -> None:
    """Parity tests that set `remote = local`, or wrote both trees themselves."""
    lab = talks.project()
    lab.succeed()
    shutil.copytree(lab.root / ".whyrun", lab.root / "copy", symlinks=True)
    for other in ("r0001", ".whyrun/talk/runs/r0001", "copy/talk/runs/r0001"):
        done = run(lab.root, "parity", "r0001", other)
        assert (done.returncode, done.stdout) == (2, "")
        assert "comparing them proves nothing" in done.stderr


def test_lesson_40_what_finds_runs_equal_can_find_them_different(talks: Talks) -> None:
    """Parity tests that asserted `equal or not equal`."""
    same, other = talks.run(), talks.run(size=3)
    assert parity_of(same, talks.run()).equal
    assert not parity_of(same, other).equal
    assert parity_of(other, talks.run(size=3)).equal
