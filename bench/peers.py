"""The tools that whyrun is measured beside, installed by the bench into a virtual environment of its own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("ninja", "doit", "snakemake")


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

    def versions(self) -> dict[str, str]:
        found = {}
        for name in PACKAGES:
            answer = subprocess.run([self.bin / name, "--version"], capture_output=True, text=True, check=True)
            found[name] = answer.stdout.split()[0]
        return found


def install(root: Path) -> Peers:
    venv = root / "venv"
    peers = Peers(venv / "bin")
    if not all((peers.bin / name).exists() for name in PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip: list[str | Path] = [peers.bin / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True)
    return peers
