"""Paths as the user sees them: from the working folder, where they lie below it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from whyrun.console.files import relative


def test_a_path_is_shown_from_the_working_folder_where_it_lies_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert relative(here / "runs" / "r0001") == os.path.join("runs", "r0001")
    assert relative(here) == "."
    assert relative(here / "..runs" / "r0001") == os.path.join("..runs", "r0001")
    assert relative(here / "..foo") == "..foo"
    assert relative(tmp_path) == str(tmp_path)
    assert relative(tmp_path / "there") == str(tmp_path / "there")
