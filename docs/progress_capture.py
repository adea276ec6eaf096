"""Draws docs/img/progress.svg: the progress of a run, as a terminal really showed it.

    python docs/progress_capture.py          run the workflow of docs/statuses.md in tmux and write the picture

tmux is the terminal: the command is typed into it, and its screen is read while the bar is there. The picture
contains the plain text of the screen as its description.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

import picture

DOCS = Path(__file__).resolve().parent
PICTURE = DOCS / "img" / "progress.svg"
COMMAND = "whyrun run --jobs 2 --force 'Job:Draw[*]'"
BAR = r"(?m)^r0002 {ended}/11 [━╸╺]+ \d:\d\d:\d\d ~\d+ s left +Job:Draw\[\d\].*$"
COLUMNS, ROWS = 110, 24


class Terminal:
    """A tmux server of its own, with one shell in the given folder."""

    def __init__(self, folder: Path, columns: int = COLUMNS, rows: int = ROWS) -> None:
        self._scratch = tempfile.TemporaryDirectory()
        self._tmux = ["tmux", "-u", "-f", "/dev/null", "-S", f"{self._scratch.name}/socket"]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {
            "PATH": path,
            "HOME": self._scratch.name,
            "HISTFILE": "/dev/null",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "PS1": "$ ",
        }
        shell = ["bash", "--noprofile", "--norc"]
        self._folder = folder
        self._call("new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(folder), *shell)
        try:
            self.wait_for(r"^\$")
        except TimeoutError:
            self.close()
            raise

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._call("kill-server")
        self._scratch.cleanup()

    def type(self, text: str) -> None:
        self._call("send-keys", "-l", text)
        self._call("send-keys", "Enter")

    def press(self, key: str) -> None:
        self._call("send-keys", key)

    def resize(self, columns: int) -> None:
        self._call("resize-window", "-x", str(columns))

    def screen(self, *, colour: bool = False) -> str:
        """What it shows, with wrapped lines joined."""
        return self._call("capture-pane", "-p", "-J", *(["-e"] if colour else [])).rstrip()

    def wait_for(self, pattern: str, seconds: float = 60.0) -> str:
        """The screen, as soon as the pattern is on it."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, shown := self.screen()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{pattern!r} did not come; the terminal shows\n{shown}")
            time.sleep(0.05)
        return shown

    def _call(self, *words: str) -> str:
        done = subprocess.run(
            [*self._tmux, *words], cwd=self._folder, env=self._environment, capture_output=True, text=True, check=True
        )
        return done.stdout


def workflow() -> str:
    """That of the page, so that picture and page are about the same."""
    page = (DOCS / "statuses.md").read_text(encoding="utf-8")
    found = re.search(r"^```yaml\n(workflow: portraits\n.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert found, "docs/statuses.md has no workflow `portraits`"
    return found[1]


def capture() -> tuple[str, str]:
    """The screen in the middle of a run whose durations are known: plain, and with its colours."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch)
        (project / "workflow.yaml").write_text(workflow(), encoding="utf-8")
        with Terminal(project) as terminal:
            terminal.type("whyrun run --quiet; clear")
            terminal.wait_for(r"\A\$ *\Z")
            terminal.type(COMMAND)
            terminal.wait_for(BAR.format(ended="[5-7]"))
            coloured = terminal.screen(colour=True)
            terminal.wait_for(r"(?m)^evidence: .*\n\$")
    return re.sub(r"\x1b\[[\d;]*m|\x0f", "", coloured), coloured.replace("\x0f", "")


if __name__ == "__main__":
    plain, coloured = capture()
    assert re.search(BAR.format(ended=r"\d+"), plain), plain
    PICTURE.write_text(picture.svg(coloured, plain, "whyrun run", COLUMNS), encoding="utf-8")
