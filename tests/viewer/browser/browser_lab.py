"""Two real projects, each with the server that users start: `whyrun view`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from command_lab import DRIVER, ENVIRONMENT, CommandLab

KEPT_ADDRESS = Path(__file__).with_name("kept_address.py")
EXAMPLE = Path(__file__).parents[3] / "examples" / "then-and-now"
# Text that would run where somebody takes it for markup.
HOSTILE = "<img src=x onerror=\"document.title='hacked'\"><script>alert('hacked')</script>"
HOSTILE_WORKFLOW = """
    workflow: hostile
    description: "<script>alert('description')</script>"
    loops: {name: {values: ["a/b", "x%2Fy", "<b>ü</b> &", "#/?=", "..", "%"]}}
    jobs:
      Odd:
        for: [name]
        uses: shell
        with: {name: "${{ name }}", run: 'echo "$name" > "$out_T"'}
        outputs: {T: {type: text}}
      Page:
        uses: python
        with: {call: "code:page"}
        outputs:
          Html: {type: file, path: out/page.html}
          Svg: {type: image, path: out/drawing.svg}
          Json: {type: json, path: out/data.json, leaves: {Name: string}}
          Sound: {type: file, path: out/tone.wav}
      Broken:
        uses: python
        with: {call: "code:broken", page: "${{ jobs.Page.outputs.Json.Name }}"}
        outputs: {Out: {type: json}}
"""
HOSTILE_CODE = f"""
    import sys
    import wave
    from pathlib import Path

    BAD = {HOSTILE!r}

    def page():
        with wave.open("c.wav", "wb") as sound:
            sound.setparams((1, 2, 8000, 0, "NONE", ""))
            sound.writeframes(bytes(8000))
        Path("a.html").write_text("<!doctype html><script>parent.document.title='hacked';alert(1)</script>" + BAD)
        svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="alert(2)">'
        Path("b.svg").write_text(svg + "<script>alert(3)</script></svg>")
        return {{"Html": Path("a.html"), "Svg": Path("b.svg"), "Sound": Path("c.wav"),
                "Json": {{"Name": BAD, BAD: [BAD]}}}}

    def broken(page):
        print(BAD, file=sys.stderr)
        raise ValueError(BAD)
"""


class Served:
    """A project and its `whyrun view`, as users start it."""

    def __init__(self, lab: CommandLab, *words: str | Path) -> None:
        self.lab = lab
        self.start(*(words or (DRIVER, "view", "--port", "0", "--no-open")))

    def start(self, *words: str | Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *words], cwd=self.lab.root, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()  # the first line is the address, token included

    def kill(self) -> None:
        self.process.kill()
        self.ended()

    def stop(self) -> None:
        self.process.terminate()
        self.ended()

    def ended(self) -> None:
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def example(root: Path) -> CommandLab:
    """The example after three runs, the last of which failed; then the photo that it stumbled over is put right.

    Another photo is again what it was at first, so that an earlier result is reused.
    """
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns(".whyrun", "out", "__pycache__"))
    lab = CommandLab(root)
    lab.succeed()
    shutil.copy(root / "spare/cleo-later.png", root / "photos/cleo.png")
    lab.succeed()
    lab.write({"photos/ben.png": "not a photo\n"})
    assert lab.run().exit_code == 1
    shutil.copy(root / "spare/ben-rescanned.png", root / "photos/ben.png")
    shutil.copy(EXAMPLE / "photos/cleo.png", root / "photos/cleo.png")
    return lab


def hostile_project(root: Path) -> CommandLab:
    root.mkdir()
    lab = CommandLab(root)
    lab.write({"workflow.yaml": HOSTILE_WORKFLOW, "code.py": HOSTILE_CODE})
    assert lab.run().exit_code == 1
    return lab
