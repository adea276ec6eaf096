"""Runs the script of a `shell` step in a container, and ends the container with the step.

Scratch and inputs have the same paths inside as outside, so nothing in the step changes. An engine's own process may be
killed without its container. So its name is noted in the scratch folder while it runs, and whoever finds the note
removes the container: the worker, the backend if the worker died, or the next run if the host died as well.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from whyrun.environments.engines import (
    ENGINES,
    Bind,
    Engine,
    Inside,
    bindable,
    command_line,
    engine_for,
    engine_variables,
)

NOTE = "container"  # file in a scratch folder; `execution.files.scratch` knows its name, too
_WRITABLE = ("work", "out", "tmp", "home")
_MOST_BINDS = 100
_OF_ENGINE = 125  # from this exit status on the engine may tell of itself
_AT_ONCE = {"podman": ("--ignore", "--time", "0")}  # docker does not wait anyway
_TRIES = 2  # podman gives up once on a container whose keeper is gone
_PATIENCE = 60.0  # seconds for an engine to remove a container
# The first process of a container gets no signals that it does not handle, and nobody reaps for it. This one hands an
# order to stop to all others, and waits for the script.
_FIRST = (
    'trap "kill -TERM -1 2>/dev/null" TERM INT; exec 3<&0; "$@" <&3 3<&- & child=$!; '
    'while :; do wait "$child"; status=$?; kill -0 "$child" 2>/dev/null || break; done; exit "$status"'
)


class Container:
    """The container of one step, to be started once."""

    def __init__(self, scratch: Path, engine: str | None, image: str, network: bool) -> None:
        self._scratch = scratch
        self.engine: Engine = engine_for(engine)
        self._name = f"whyrun-{uuid.uuid4().hex[:16]}"
        self._image, self._network = image, network

    def command(
        self, command: Sequence[str], folder: Path, given: Any, values: Mapping[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        """The command line and environment of the engine. `given`: the parameters, whose files are bound; `values`:
        the variables of the step."""
        settings = {"HOME": str(self._scratch / "home"), "TMPDIR": str(self._scratch / "tmp"), "LANG": "C.UTF-8"}
        # The engine itself needs its own PATH, and must not get that of the step.
        settings |= {name: value for name, value in values.items() if name in ("PATH", *settings)}
        others = {name: value for name, value in values.items() if name not in settings}
        binds = [Bind(str(self._scratch / name), writable=True) for name in _WRITABLE]
        binds += [Bind(path) for path in bindable(self._inputs(given), _MOST_BINDS)]
        binds += [Bind(str(path)) for path in (self._scratch / "inputs", self._scratch / "script.sh") if path.exists()]
        first = ["sh", "-c", _FIRST, "whyrun", *command]
        inside = Inside(self._name, self._image, binds, settings, tuple(others), str(folder), self._network, first)
        return command_line(self.engine, inside, others)

    def _inputs(self, given: Any) -> Iterator[str]:
        """The real files and folders behind the inputs; what lies in the scratch folder is bound with it."""
        for path in _paths(given):
            yield from self._outside(path)
        for folder, folders, files in os.walk(self._scratch / "inputs"):
            for name in (*folders, *files):
                if os.path.islink(f"{folder}/{name}"):
                    yield from self._outside(f"{folder}/{name}")

    def _outside(self, path: str) -> Iterator[str]:
        real = os.path.realpath(path)
        for one in {path, real}:
            if not one.startswith(f"{self._scratch}/") and os.path.exists(one):
                yield one

    def __enter__(self) -> Container:
        if self.engine.removes:
            (self._scratch / NOTE).write_bytes(msgspec.json.encode([self.engine.name, self._name]))
        return self

    def ended(self, status: int) -> int:
        """The engine has ended with this status. Where it tells that of the script, it has removed the container."""
        if 0 <= status < _OF_ENGINE:
            (self._scratch / NOTE).unlink(missing_ok=True)
        return status

    def __exit__(self, *problem: object) -> None:
        end_container(self._scratch)


def _paths(value: Any) -> Iterator[str]:
    if isinstance(value, Path):
        yield os.path.abspath(value)
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _paths(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _paths(member)


def end_container(scratch: Path) -> None:
    """Remove the container that a scratch folder notes, if there is one: it may still run, or lie there stopped."""
    note = scratch / NOTE
    try:
        engine, name = msgspec.json.decode(note.read_bytes(), type=tuple[str, str])
    except FileNotFoundError:
        return
    except msgspec.MsgspecError:  # a kill came between its creation and its content, so before the container
        note.unlink(missing_ok=True)
        return
    if engine in ENGINES and name.startswith("whyrun-"):
        for _ in range(_TRIES):
            removed = subprocess.run(
                [engine, "rm", "--force", *_AT_ONCE.get(engine, ()), name],
                env=engine_variables(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE,
                check=False,
            )
            if removed.returncode == 0:
                break
    note.unlink(missing_ok=True)
