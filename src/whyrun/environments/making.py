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
from whyrun.environments.locks import Lock
from whyrun.errors import error, to_install

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
