"""Words on the command line that no file system or text can hold: a message and exit 2, never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([b"plan", b"x" * 300 + b".yaml"], "error[FILE_MISSING]: `" + "x" * 60 + "…`: File name too long"),
        ([b"plan", b"--set", b"Topic=\xff"], "error[USAGE]: 'Topic=\\udcff' is not UTF-8 text"),
        ([b"explan"], "error[USAGE]"),
    ],
)
def test_words_that_cannot_be_are_refused(tmp_path: Path, words: list[bytes], message: str) -> None:
    command = [sys.executable.encode(), b"-m", b"whyrun.cli.main", *words]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert ended.returncode == 2
    assert ended.stdout == b""
    assert ended.stderr.decode().startswith(message)
    assert "Traceback" not in ended.stderr.decode()
