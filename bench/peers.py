"""The tools that whyrun is measured beside, installed by the bench into a virtual environment of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("ninja", "doit", "snakemake")
APART = ("dvc",)  # what they need does not go together with what the others need


@dataclass(frozen=True, slots=True)
class Peers:
    """Where they are. `ninja` is the binary itself: the wheel's command is no Python script."""

    bin: Path

    @property
    def ninja(self) -> Path:
        return self.bin / "ninja"

    @property
    def doit(self) -> Path:
        return self.bin / "doit"

    @property
    def snakemake(self) -> Path:
        return self.bin / "snakemake"

    @property
    def dvc(self) -> Path:
        return self.bin.parent.parent / "dvc" / "bin" / "dvc"

    @property
    def make(self) -> str | None:
        """The one of the system, where there is one."""
        return shutil.which("make")

    def versions(self) -> dict[str, str]:
        found = {}
        for name in PACKAGES:
            found[name] = _printed(self.bin / name, "--version").split()[0]
        found["dvc"] = _printed(self.dvc, "--version").split()[0]
        if self.make is not None:
            found["make"] = _printed(self.make, "--version").split("\n")[0].split()[-1]
        return found


def _printed(*words: str | Path) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def install(root: Path) -> Peers:
    peers = Peers(root / "venv" / "bin")
    _install(root / "venv", PACKAGES)
    for package in APART:
        _install(root / package, (package,))
    return peers


def _install(venv: Path, packages: tuple[str, ...]) -> None:
    if not all((venv / "bin" / name).exists() for name in packages):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        python = venv / "bin" / "python"
        pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *packages], check=True)
