"""A run result in a notebook is one short line."""

from __future__ import annotations

import re
from pathlib import Path

from cli_lab import pairs

import whyrun


def test_a_result_is_one_short_line(tmp_path: Path) -> None:
    flow = whyrun.load(pairs(tmp_path) / "workflow.yaml")
    first = repr(flow.run())
    assert re.sub(r"\d+\.\d+s", "T", first) == "<whyrun r0001 succeeded in T: 3 completed>"
    assert repr(flow.run()) == "<whyrun: nothing to do, 3 of 3 jobs up to date>"
    (tmp_path / "words/a.txt").write_text("broken\n")
    assert re.sub(r"\d+\.\d+s", "T", repr(flow.run())) == "<whyrun r0002 failed in T: 1 failed, 1 blocked>"
