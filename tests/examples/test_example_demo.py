"""`make demo` holds: its script checks exit statuses and key lines itself, and needs no terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "then-and-now"


def run_demo(scratch: Path, example: Path = EXAMPLE) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", example / "demo.sh", scratch],
        env={"PATH": path, "HOME": str(scratch), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_demo_holds_from_the_first_plan_to_the_explained_retry(tmp_path: Path) -> None:
    done = run_demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    told = [line for line in done.stdout.splitlines() if line.startswith(("# ", "(exit"))]
    assert len(told) == 12
    assert told[5] == "(exit status 1)", "the failing job is shown to fail"
    made = tmp_path / "then-and-now"
    assert told[-1] == f"# The report:  {made / 'report.html'}"
    assert (made / "report.html").is_file()
    assert sorted(file.name for file in (made / "out").iterdir()) == [
        "frame-0.png",
        "frame-2.png",
        "montage.png",
        "story.json",
    ]


def test_the_demo_fails_where_it_would_lie(tmp_path: Path) -> None:
    """In a copy whose montage reads no portraits, the claim of one print and the montage does not hold."""
    example = tmp_path / "example"
    subprocess.run(["cp", "-r", EXAMPLE, example], check=True)
    workflow = example / "workflow.yaml"
    text = workflow.read_text(encoding="utf-8")
    workflow.write_text(text.replace("jobs.ThenImage.outputs.Image[:]", "inputs.ThenImages"), encoding="utf-8")
    done = run_demo(tmp_path / "scratch", example)
    assert done.returncode == 1
    assert "the demo failed" in done.stderr


def test_the_example_ships_small_photos_and_no_results() -> None:
    photos = sorted(file.relative_to(EXAMPLE).as_posix() for file in EXAMPLE.rglob("*.png"))
    assert photos == [
        "photos/ada.png",
        "photos/ben.png",
        "photos/cleo.png",
        "spare/ben-rescanned.png",
        "spare/cleo-later.png",
    ]
    assert all((EXAMPLE / photo).stat().st_size < 15_000 for photo in photos)
    assert not (EXAMPLE / ".whyrun").exists()
