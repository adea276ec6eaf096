"""Runs that are compared. Each is really made, in a project folder and state of its own; none is derived from another.

`BACKENDS` is the list of backends whose evidence has to be the same; a new one is a line there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

from project_lab import Lab, Ran
from whyrun.evidence.parity.fields import ABSENT, Parity
from whyrun.evidence.parity.parity import compare_runs, describe_difference
from whyrun.evidence.parity.reading import read_evidence, run_at

TEN_STEPS = Path(__file__).parent / "ten-steps"
COMMAND = [sys.executable, "-m", "whyrun.cli.main"]
# Of the tests' own environment nothing may decide.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("WHYRUN_STATE", "NO_COLOR", "FORCE_COLOR")}


# --- backends ----------------------------------------------------------------------------------------------------


Environment = AbstractContextManager[dict[str, str]]


def no_environment() -> Environment:
    return nullcontext({})


@contextmanager
def loopback_e2b() -> Iterator[dict[str, str]]:
    """The server of tests/e2b, which speaks the protocol of E2B to the real SDK."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "e2b"))
    try:
        from loopback.faults import Faults
        from loopback.server import Loopback
    finally:
        sys.path.pop(0)
    # Lines and characters are cut anywhere, and two connections break.
    faults = Faults(chunk=61, drop_streams_after=[700, 5000])
    with tempfile.TemporaryDirectory(prefix="whyrun-e2b-") as folder, Loopback(Path(folder), faults) as server:
        yield server.environment()


@dataclass(frozen=True)
class BackendSetup:
    """A backend: the words that ask for it; what has to be there around it (a server, for one), as a context manager
    that gives the variables by which it is found; and the command or module without which there is no such backend."""

    words: tuple[str, ...]
    environment: Callable[[], Environment] = no_environment
    command: str | None = None
    module: str | None = None

    @property
    def lacks(self) -> str | None:
        if self.command is not None and shutil.which(self.command) is None:
            return f"{self.command} is not installed"
        if self.module is not None and find_spec(self.module) is None:
            return f"{self.module} is not installed"
        return None


BACKENDS: dict[str, BackendSetup] = {
    "local": BackendSetup(("--backend", "local")),
    "sandbox": BackendSetup(("--backend", "sandbox"), command="bwrap"),
    # The base template lacks the packages of the data actions, which the ten steps use.
    "e2b": BackendSetup(("--backend", "e2b", "--e2b-template", "data"), loopback_e2b, module="e2b"),
    "dask": BackendSetup(("--backend", "dask"), module="distributed"),
}


@dataclass(frozen=True)
class Ending:
    """One way in which the ten steps end: the words that lead there, and the exit status."""

    words: tuple[str, ...]
    exit_code: int


SETTINGS = 'prepare = "echo ready"\n'  # whyrun.toml
ENDINGS: dict[str, Ending] = {
    "success": Ending((), 0),
    "failure": Ending(("--set", "Break=step"), 1),
    "time-out": Ending(("--set", "Break=time"), 1),
    "death": Ending(("--set", "Break=death"), 1),
}


def ten_steps(folder: Path, backend: str, ending: str) -> Path:
    """Run the ten steps on a backend, from an empty state; the run's folder."""
    shutil.copytree(TEN_STEPS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "whyrun.toml").write_text(SETTINGS)
    with BACKENDS[backend].environment() as variables:
        done = run(folder, "run", "--quiet", *BACKENDS[backend].words, *ENDINGS[ending].words, env=variables)
    assert done.returncode == ENDINGS[ending].exit_code, done.stdout + done.stderr
    (made,) = (folder / ".whyrun" / "ten-steps" / "runs").iterdir()
    return made


def run(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The real command."""
    return subprocess.run(
        [*COMMAND, *words],
        cwd=folder,
        env={**ENVIRONMENT, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


# --- comparing ---------------------------------------------------------------------------------------------------


def parity(old: Path, new: Path) -> Parity:
    ours, theirs = (read_evidence(name, run_at(str(folder))) for name, folder in (("old", old), ("new", new)))
    return compare_runs(ours, theirs, describe_difference)


def parity_of(old: Ran, new: Ran) -> Parity:
    assert old.folder is not None
    assert new.folder is not None
    return parity(old.folder, new.folder)


def differences(found: Parity) -> list[tuple[Any, ...]]:
    """Every difference: kind, name, field, and both sides, unless they are hashes."""
    return [(d.kind, d.name, d.field, *_sides(d.field, d.old, d.new)) for d in found.differences]


def named(found: Parity) -> list[str]:
    """Every difference in short: `event step_failed Job:Talk error`."""
    return [" ".join(filter(None, (d.kind, d.name, d.field, _only(d.old, d.new)))) for d in found.differences]


def _sides(field: str, old: Any, new: Any) -> tuple[Any, ...]:
    return () if field.endswith(("sha256", "fingerprint")) else (old, new)


def _only(old: Any, new: Any) -> str:
    return "-" if new is ABSENT and old is not ABSENT else "+" if old is ABSENT and new is not ABSENT else ""


# --- a small project that does as the folder around it says ------------------------------------------------------

# `mood.json` is declared nowhere: it stands for whatever is other on another backend, and no plan knows of it. Where
# steps are not traced, parity does not compare what they read.
TALK = """
    workflow: talk
    inputs: {Name: {type: string, default: ann}}
    jobs:
      Talk:
        uses: python
        with: {call: "talk:talk", name: "${{ inputs.Name }}"}
        outputs:
          Table: {type: dataset, path: out/table.csv}
          Facts: {type: json, leaves: {size: integer}}
"""

TALK_CODE = """
    import json
    import sys
    from pathlib import Path

    MOOD = json.loads((Path(__file__).parent / "mood.json").read_text())

    def talk(name, context):
        for word in ["hello", *MOOD.get("tasks", [])]:
            context.task("EXECUTES", f"{word} {name}", {"letters": len(word)})
        context.metric("rows_written", MOOD.get("rows", 2), "rows")
        context.metric("share", MOOD.get("share", 0.5))
        context.metric("waited", MOOD.get("waited", 1), "s")
        print(MOOD.get("print", "said"))
        for extra in MOOD.get("streams", []):
            print("more", file=getattr(sys, extra))
        if "fail" in MOOD:
            raise ValueError(MOOD["fail"])
        context.output("Table").write_text(MOOD.get("table", "id,word\\n1,a\\n2,b\\n"))
        return {"Facts": {"size": MOOD.get("size", 2), "name": name}}
"""


@dataclass(frozen=True)
class Talks:
    """`talks.run(tasks=["bye"])`: the small project, in a folder of its own, in this mood."""

    make: Callable[..., Lab]
    trace: str = "never"

    def run(self, workflow: str = TALK, sets: tuple[str, ...] = (), **mood: Any) -> Ran:
        return self.project(workflow, **mood).run(sets=sets)

    def project(self, workflow: str = TALK, **mood: Any) -> Lab:
        files = {"talk.py": TALK_CODE, "mood.json": json.dumps(mood), "whyrun.toml": f'trace = "{self.trace}"\n'}
        return self.make(workflow, files)


def pairs(names: list[str]) -> Iterator[tuple[str, str]]:
    """The first with itself, which is two runs, and each with every other."""
    yield names[0], names[0]
    yield from combinations(names, 2)
