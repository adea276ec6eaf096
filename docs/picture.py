"""Draws docs/img/explain.svg: what the commands of the example print, as a terminal shows it.

    python docs/picture.py          run the example in a scratch folder and write the picture

The picture contains the plain text as its description, so that a test can check that it is current.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from html import escape, unescape
from io import StringIO
from pathlib import Path

from whyrun.console.paint import Paint

DOCS = Path(__file__).resolve().parent
PICTURE = DOCS / "img" / "explain.svg"
EXAMPLE = DOCS.parent / "examples" / "then-and-now"
WIDTH = 122
BEFORE = ["whyrun run --quiet", "printf 'not a photo' > photos/ben.png", "whyrun run --quiet"]
SHOWN = ["cp spare/ben-rescanned.png photos/ben.png", "whyrun explain", "whyrun run"]
FONT = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"


def transcript() -> str:
    """The commands and what they print, in a fresh copy of the example."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "then-and-now"
        shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns(".whyrun", "out"))
        for command in BEFORE:
            _run(command, project)
        return "".join(f"$ {command}\n{_run(command, project)}" for command in SHOWN)


def _run(command: str, project: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "HOME": str(project)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=project, env=environment, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.stdout


def painted(text: str) -> str:
    """In the colours of the command itself."""
    paint = Paint(True)
    parts = []
    for part in re.split(r"^(?=\$ )", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        parts.append(paint.styled(command, "bold"))
        if command == "$ whyrun explain":
            output = paint.explained(output)
        lines = output.rstrip("\n").split("\n") if output.strip() else []
        for line in lines:
            found = re.match(r"\S+ \S+ \[[^]]*\] (\w+) ", line)
            parts.append(paint.status_line(line, found[1]) if found else line)
    return "\n".join(parts)


def draw(text: str) -> str:
    shown = "\n".join(line if len(line) <= 4 * WIDTH else line[:WIDTH] for line in painted(text).split("\n"))
    return svg(shown, text, "whyrun explain", WIDTH)


def svg(coloured: str, text: str, title: str, width: int) -> str:
    """A picture of a terminal with this text; without its colours, it is the description."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=width, file=StringIO())
    console.print(Text.from_ansi(coloured), overflow="ellipsis", no_wrap=True, crop=True)
    drawn = console.export_svg(title=title, unique_id="whyrun")
    # The picture loads no fonts from other servers.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r"font-family: (Fira Code|arial)[^;]*;", f"font-family: {FONT};", drawn)
    return drawn.replace("<!-- Generated with Rich https://www.textualize.io -->", f"<desc>{escape(text)}</desc>")


def described(picture: Path = PICTURE) -> str:
    """The transcript that the picture shows."""
    found = re.search(r"<desc>(.*?)</desc>", picture.read_text(encoding="utf-8"), re.DOTALL)
    assert found, "the picture has no description"
    return unescape(found[1])


if __name__ == "__main__":
    PICTURE.write_text(draw(transcript()), encoding="utf-8")
