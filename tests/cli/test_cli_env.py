"""`whyrun env`: the environments of a workflow's jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from environment_lab import WHEELS, wheel, why_no_uv
from project_lab import Lab
from whyrun.cli.main import main

pytestmark = pytest.mark.skipif(why_no_uv() is not None, reason=str(why_no_uv()))

WHEEL = "wheels/tinylib-1.0-py3-none-any.whl"
WORKFLOW = """
workflow: two-files
jobs:
  Old: {uses: shell, environment: {python: old.txt}, with: {run: "true"}}
  New: {uses: shell, environment: {python: new.txt}, with: {run: "true"}}
"""


def test_whyrun_env_lists_makes_and_collects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(tmp_path).write({**WHEELS, "workflow.yaml": WORKFLOW, "old.txt": f"{WHEEL}\n", "new.txt": f"{WHEEL}\n"})
    monkeypatch.chdir(lab.root)

    def whyrun(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*words])
        assert ended.value.code in (0, None)
        return capsys.readouterr().out

    rows = [line.split() for line in whyrun("env").splitlines()]
    assert rows == [["new.txt", "1", "package", "not", "made", "New,", "Old"]]  # one content, one environment
    (one,) = json.loads(whyrun("env", "sync", "--json"))["environments"]
    assert (one["lock"], one["packages"], one["jobs"]) == ("new.txt", {"tinylib": "1.0"}, ["New", "Old"])
    folder = lab.root / ".whyrun" / "environments" / one["folder"]
    assert folder.is_dir()
    assert whyrun("env", "gc") == "nothing to remove: every environment is that of its file\n"
    lab.write({WHEEL: wheel("tinylib", "1.0", ["six"])})
    assert whyrun("env", "gc").startswith("1 environment (")
    assert folder.is_dir()
    assert [entry["folder"] for entry in json.loads(whyrun("env", "gc", "--delete", "--json"))["unused"]] == [
        folder.name
    ]
    assert not folder.exists()
