"""What is no file at all at a published path: seen, told, and never read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from project_lab import Lab

WORKFLOW = """
    workflow: demo
    jobs:
      A:
        uses: shell
        with: {run: 'echo one > "$out_T"'}
        outputs: {T: {type: text, path: out/t.txt}}
    """


def test_a_pipe_at_a_published_path_is_a_changed_output(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write({"workflow.yaml": WORKFLOW})
    lab.succeed()
    (tmp_path / "out/t.txt").unlink()
    os.mkfifo(tmp_path / "out/t.txt")
    plan = lab.plan()
    assert plan.headlines() == {"Job:A": "MISSING_OUTPUT"}
    assert getattr(plan.planned[0].reasons[0], "change", None) == "changed"
    ran = lab.run()
    if ran.exit_code == 0:
        assert lab.read("out/t.txt") == "one\n"
    else:  # it is not ours to take away: said so, and the result is kept
        assert [error for _, error in ran.failed.values()] == ["NotPublished"]
        assert stat.S_ISFIFO((tmp_path / "out/t.txt").stat().st_mode)
