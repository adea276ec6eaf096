"""Whyrun given what it should refuse: in a process of its own, with little memory, and what came of it."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ADDRESS_SPACE = 4 << 30  # bytes: what would eat all memory of a machine ends here instead
DEADLINE = 600.0  # seconds: only ends what would never end
MODEST = 400 << 20  # bytes of memory that no refusal needs

# `VmHWM` is of this process image alone; what `wait4` says counts in the memory of whoever started it.
_PROGRAM = f"""
import atexit, re, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({ADDRESS_SPACE}, {ADDRESS_SPACE}))
told = sys.argv.pop(1)

def tell():
    with open("/proc/self/status") as status, open(told, "w") as file:
        file.write(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1])

atexit.register(tell)
from whyrun.cli.main import main
main()
"""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str
    peak: int  # bytes of memory that it had at most

    @property
    def codes(self) -> list[str]:
        """The codes of the errors that were told, each once, in their order."""
        return list(dict.fromkeys(re.findall(r"^error\[([A-Z_]+)\]", self.err, re.MULTILINE)))


def put(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def confined(folder: Path, *arguments: str) -> Ended:
    """`whyrun ARGUMENTS` in the folder. Told through files: a pipe that nobody reads would hold it up."""
    with tempfile.TemporaryDirectory() as aside:
        out, err, peak = (Path(aside) / name for name in ("out", "err", "peak"))
        with out.open("wb") as to_out, err.open("wb") as to_err:
            command = [sys.executable, "-c", _PROGRAM, str(peak), *arguments]
            ended = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=to_err,
                timeout=DEADLINE,
                check=False,
            )
        texts = [file.read_bytes().decode("utf-8", "backslashreplace") for file in (out, err)]
        assert peak.exists(), f"it ended without a word: {ended.returncode}\n{texts[1][-2000:]}"
        return Ended(ended.returncode, texts[0], texts[1], int(peak.read_text()) * 1024)


def check_refused(ended: Ended, *codes: str, exit_code: int = 2) -> None:
    """Refused with these codes, in a message that a person can read, and without much memory."""
    assert (ended.code, ended.codes) == (exit_code, list(codes)), ended.err[:2000]
    assert "Traceback" not in ended.err
    assert len(ended.err) < 1 << 20
    assert ended.peak < MODEST
