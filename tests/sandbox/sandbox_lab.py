"""Sandboxes as root and as an ordinary user, for tests. Root creates the ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyrun.execution.files.tree_removal import remove

ORDINARY = 54321  # a number that nobody has
DRIVER = Path(__file__).parent / "sandbox_driver.py"
PLANTED = "planted-in-the-environment-of-the-host"


def why_not(who: str) -> str | None:
    """Why this machine cannot test sandboxes of this kind of user."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    if who == "root" and os.geteuid() != 0:
        return "only root can test what root does"
    return None


def as_ordinary(argv: list[str]) -> list[str]:
    """The same command as a user without rights, for whom an interpreter in root's home is put where he can read it."""
    if os.geteuid() != 0:
        return argv
    home = os.path.realpath(os.path.expanduser("~"))
    wrapped = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--dev-bind", "/", "/"]
    needed = [os.path.realpath(path) for path in (sys.base_prefix, sys.prefix, str(Path(__file__).parents[2]))]
    hidden = [path for path in needed if path.startswith(f"{home}/")]
    if hidden:
        wrapped += ["--perms", "0755", "--tmpfs", home]
        above = {str(folder) for path in hidden for folder in Path(path).parents if str(folder).startswith(f"{home}/")}
        for folder in sorted(above):
            wrapped += ["--dir", folder]
        for path in sorted(hidden, key=len):
            wrapped += ["--ro-bind", path, path]
    rights = ["--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
    return [
        *wrapped,
        "--",
        shutil.which("setpriv") or "setpriv",
        f"--reuid={ORDINARY}",
        f"--regid={ORDINARY}",
        *rights,
        "--",
        *argv,
    ]


def command_for(who: str, argv: list[str]) -> list[str]:
    return argv if who == "root" else as_ordinary(argv)


def give(folder: Path, who: str) -> Path:
    """Let this kind of user work in the folder."""
    folder.chmod(0o755)
    if who == "user" and os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, ORDINARY, ORDINARY, follow_symlinks=False)
    return folder


@dataclass(frozen=True)
class Outcome:
    status: int | None
    stdout: str
    stderr: str
    real: dict[str, list[str]]  # with `look`: of its process, as the host sees it


class SandboxLab:
    def __init__(self, who: str, folder: Path, *pythons: str) -> None:
        self.who = who
        self.folder = give(folder, who)
        self._driver = subprocess.Popen(
            command_for(who, [sys.executable, str(DRIVER), str(folder), *pythons]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PLANTED": PLANTED},
            text=True,
        )

    @property
    def pid(self) -> int:
        """Of the driver, whatever it was started through."""
        (driver,) = (pid for pid in running(str(self.folder)) if _program(pid) == sys.executable)
        return driver

    def run(self, *command: str, **options: Any) -> Outcome:
        self.ask(*command, **options)
        return self.heard()

    def ask(self, *command: str, **options: Any) -> None:
        assert self._driver.stdin is not None
        self._driver.stdin.write(json.dumps({"command": command, **options}) + "\n")
        self._driver.stdin.flush()

    def heard(self) -> Outcome:
        assert self._driver.stdout is not None
        line = self._driver.stdout.readline()
        assert line, "the driver is gone"
        return Outcome(**json.loads(line))

    def shell(self, script: str, **options: Any) -> Outcome:
        return self.run("/bin/sh", "-c", script, **options)

    def python(self, script: str, **options: Any) -> Outcome:
        return self.run(sys.executable, "-I", "-c", script, **options)

    def clear(self) -> None:
        """Remove what commands wrote."""
        for entry in self.folder.iterdir():
            remove(str(entry))

    def close(self) -> None:
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        with suppress(BrokenPipeError):  # it was killed
            self._driver.stdin.close()
        self._driver.wait()
        self._driver.stdout.close()


class SandboxProject:
    """A real project of root or of an ordinary user, and real runs of the command."""

    def __init__(self, who: str, folder: Path, files: dict[str, str]) -> None:
        self.who, self.folder = who, folder
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(content))
        give(folder, who)

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        whyrun = Path(sys.executable).parent / "whyrun"
        return subprocess.Popen(
            command_for(self.who, [sys.executable, str(whyrun), *words]),
            cwd=self.folder,
            env={**os.environ, "PLANTED": PLANTED, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def command(self, *words: str, **variables: str) -> tuple[int, str]:
        """Its exit status, and all that it said."""
        process = self.start(*words, **variables)
        stdout, stderr = process.communicate()
        return process.returncode, stdout + stderr

    def run(self, *words: str, **variables: str) -> tuple[int, str]:
        return self.command("run", "--backend", "sandbox", *words, **variables)

    @property
    def last_run(self) -> Path:
        return sorted(self.folder.glob(".whyrun/*/runs/r*"))[-1]

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = (self.last_run / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def failed(self) -> dict[str, tuple[str, str, str]]:
        """Step → status, error type and error."""
        return {e["step_id"]: (e["status"], e["error_type"], e["error"]) for e in self.events("step_failed")}

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.last_run / "status.json").read_bytes())
        return found

    def evidence(self) -> dict[str, str]:
        """Every file of the last run by its path, but not those behind links."""
        return {
            str(path.relative_to(self.last_run)): path.read_text(errors="replace")
            for path in sorted(self.last_run.rglob("*"))
            if path.is_file() and not path.is_symlink()
        }

    def left_over(self) -> list[str]:
        return [str(path) for path in self.folder.glob(".whyrun/tmp/*/*")]


def running(word: str) -> list[int]:
    """The processes of this machine whose command line has this word."""
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [pid for pid in pids if word in _words(pid)]


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:  # it has ended meanwhile
        return []


def _program(pid: int) -> str:
    return (_words(pid) or [""])[0]
