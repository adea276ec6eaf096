"""Makes the virtual environment of a lock with `uv`: one folder for each lock, interpreter and machine.

    environments/<digest>-cpython-311-x86_64/        the environment; it can be moved with its project
    environments/<digest>-cpython-311-x86_64/whyrun.json    what it was made from; written last

It is built under another name, synced and renamed, so a folder that has its name is complete. It can be made again at
any time, so it is no part of the state that crash tests look at.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from whyrun import disk
from whyrun.environments.locks import Lock, read_lock
from whyrun.errors import WhyrunError, error, to_install

FACTS = "whyrun.json"
PART = "part-"
_LOCK = "lock"
_TO_INSTALL = f"install uv: {to_install('env')}, or see https://docs.astral.sh/uv"
_SHOWN = 40  # lines of what uv says


class Made(msgspec.Struct, frozen=True):
    """An environment, as its `whyrun.json` tells of it."""

    lock: str
    sha256: str
    packages: dict[str, str]
    made: float  # time stamp
    seconds: float


def environment_folder(environments: str | os.PathLike[str], sha256: str) -> Path:
    """The folder for a lock. The interpreter is the one that runs Whyrun, so it is part of the name."""
    return Path(environments) / f"{sha256[:24]}-{sys.implementation.cache_tag}-{platform.machine()}"


def is_made(folder: Path) -> bool:
    return (folder / FACTS).is_file()


def site_packages(folder: Path) -> Path:
    major, minor = sys.version_info[:2]
    return folder / "lib" / f"python{major}.{minor}" / "site-packages"


def make_environment(environments: Path, project: Path, lock: Lock) -> Path:
    """The folder of this lock's environment, made if it is not there. Raises an error with uv's own words."""
    folder = environment_folder(environments, lock.sha256)
    if is_made(folder):
        return folder
    environments.mkdir(parents=True, exist_ok=True)
    with alone(environments):
        if not is_made(folder):
            shutil.rmtree(folder, ignore_errors=True)  # without `whyrun.json`: somebody emptied it
            part = environments / f"{PART}{folder.name}"
            shutil.rmtree(part, ignore_errors=True)  # what a killed process left
            try:
                _build(part, project, lock)
                _sync(part)
                os.rename(part, folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return folder


def _build(folder: Path, project: Path, lock: Lock) -> None:
    began = time.monotonic()
    python = folder / "bin" / "python"
    _uv(["venv", "--quiet", "--relocatable", "--no-project", "--python", sys.executable, str(folder)], project, lock)
    requirements = project / lock.path
    if lock.is_uv:
        requirements = folder / "requirements.txt"
        of_project = ["--no-emit-project", "--no-dev", "--project", str((project / lock.path).parent)]
        _uv(["export", "--quiet", "--frozen", *of_project, "-o", str(requirements)], project, lock)
    # Exactly what is locked: without `--no-deps` uv would choose versions that no file names. `check` finds the gaps.
    # Compiled now, because programs of steps write no byte code.
    exactly = ["--no-deps", "--compile-bytecode", "-r", str(requirements)]
    _uv(["pip", "install", "--quiet", "--python", str(python), *exactly], project, lock)
    _uv(["pip", "check", "--quiet", "--python", str(python)], project, lock)
    listed = _uv(["pip", "list", "--quiet", "--format", "json", "--python", str(python)], project, lock)
    packages = {one["name"]: one["version"] for one in msgspec.json.decode(listed, type=list[dict[str, str]])}
    made = Made(lock.path, lock.sha256, packages, time.time(), round(time.monotonic() - began, 3))
    (folder / FACTS).write_bytes(msgspec.json.encode(made))


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        disk.syncfs(descriptor)
    finally:
        os.close(descriptor)


def uv_program() -> str:
    """That of the installed package `uv`, or the one on PATH."""
    try:
        from uv import find_uv_bin  # imported late: an extra

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        raise error("ENVIRONMENT_FAILED", "`uv`, which makes environments, is not installed", hint=_TO_INSTALL)
    return found


def _uv(words: list[str], project: Path, lock: Lock) -> bytes:
    done = subprocess.run(
        [uv_program(), *words],
        cwd=project,
        env=_variables(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode == 0:
        return done.stdout
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    told = "".join(f"\n   {line}" for line in said[:_SHOWN])
    hint = "correct the file, or the network and index that uv uses; then run again"
    if words[:2] == ["pip", "check"]:
        hint = f"name these packages in `{lock.path}`, too: `uv pip compile` writes all that is needed"
    raise error("ENVIRONMENT_FAILED", f"the environment of `{lock.path}` could not be made; uv says:{told}", hint=hint)


def _variables() -> Mapping[str, str]:
    """Of this process, without those of an environment that is active around it."""
    return {
        name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")
    }


@contextmanager
def alone(environments: Path) -> Iterator[None]:
    """One process at a time makes or removes environments."""
    descriptor = os.open(environments / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# --- the environments that a project has, and those among them that nothing locks any more ----------------------------


class Present(msgspec.Struct, frozen=True):
    folder: Path
    made: Made | None  # None: its `whyrun.json` is gone, or cannot be read

    @property
    def bytes(self) -> int:
        """On disk. Files that uv shares with its cache count here, too."""
        return sum(os.lstat(f"{parent}/{name}").st_size for parent, _, files in os.walk(self.folder) for name in files)


def present_environments(environments: Path) -> list[Present]:
    if not environments.is_dir():
        return []
    folders = sorted(entry.path for entry in os.scandir(environments) if entry.is_dir(follow_symlinks=False))
    return [Present(Path(folder), _facts(Path(folder))) for folder in folders]


def _facts(folder: Path) -> Made | None:
    try:
        return msgspec.json.decode((folder / FACTS).read_bytes(), type=Made)
    except (OSError, msgspec.MsgspecError):
        return None


def unused_environments(environments: Path, project: Path) -> list[Present]:
    """Those whose lock file is gone, or locks something else now, and those that another Python made."""
    locked: dict[str, str | None] = {}
    unused = []
    for one in present_environments(environments):
        if one.made is None or one.folder.name.startswith(PART):
            unused.append(one)
            continue
        if one.made.lock not in locked:
            try:
                locked[one.made.lock] = read_lock(project, one.made.lock).sha256
            except WhyrunError:
                locked[one.made.lock] = None
        sha256 = locked[one.made.lock]
        if sha256 is None or environment_folder(environments, sha256) != one.folder:
            unused.append(one)
    return unused


def remove_environments(environments: Path, unused: list[Present]) -> None:
    with alone(environments):
        for one in unused:
            # First under the name of an unfinished one: nobody enters what is half removed.
            part = environments / f"{PART}{one.folder.name.removeprefix(PART)}"
            shutil.rmtree(part, ignore_errors=part != one.folder)
            if part != one.folder:
                os.rename(one.folder, part)
                shutil.rmtree(part)
