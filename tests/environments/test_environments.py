"""Steps with `environment:` run with the packages that a file locks, wherever they run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from environment_lab import WHEELS, locked, why_no_uv
from project_lab import Lab, reasons
from whyrun.errors import WhyrunError
from whyrun.execution.backends.sandbox.backend import sandbox_backend, why_unavailable

pytestmark = pytest.mark.skipif(why_no_uv() is not None, reason=str(why_no_uv()))

WORKFLOW = """
workflow: two-versions
defaults:
  environment: {python: new.txt}
jobs:
  Old:
    uses: python
    environment: {python: old.txt}
    with: {call: "story:versions"}
    outputs: {Seen: {type: json}}
  New:
    uses: python
    with: {call: "story:versions"}
    outputs: {Seen: {type: json}}
  Own:
    uses: own
    outputs: {Seen: {type: string}}
  Script:
    uses: shell
    with: {run: 'python -c "import tinylib; print(tinylib.VERSION)" > "$out_Seen"; test -d "$VIRTUAL_ENV"'}
    outputs: {Seen: {type: text}}
"""
STORY = """
import subprocess
import sys
from importlib.metadata import version

import helper
import tinylib


def versions():
    child = [sys.executable, "-c", "import tinylib; print(tinylib.VERSION)"]
    named = ["python", *child[1:]]
    children = [subprocess.run(words, capture_output=True, text=True).stdout.strip() for words in (child, named)]
    try:
        import click  # beside Whyrun, and not locked
    except ModuleNotFoundError:
        click = None
    return {"Seen": [tinylib.VERSION, version("tinylib"), *children, helper.WORD, click is None]}
"""
OWN = """
from whyrun import action


@action("own", outputs={"Seen": "string"})
def own():
    import tinylib

    return {"Seen": tinylib.VERSION}
"""
FILES = {
    **WHEELS,
    "workflow.yaml": WORKFLOW,
    "story.py": STORY,
    "helper.py": "WORD = 'of the project'\n",
    "actions/own.py": OWN,
    "old.txt": locked("tinylib==1.0"),
    "new.txt": locked("tinylib==2.0"),
}


def seen(lab: Lab) -> dict[str, object]:
    return {name: lab.content(f"Artifact:{name}.Seen") for name in ("Old", "New", "Own", "Script")}


EXPECTED = {
    "Old": ["1.0", "1.0", "1.0", "1.0", "of the project", True],
    "New": ["2.0", "2.0", "2.0", "2.0", "of the project", True],
    "Own": "2.0",
    "Script": "2.0\n",
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Two environments, which the tests of this module share."""
    lab = Lab(tmp_path_factory.mktemp("environments")).write(FILES)
    lab.first = lab.succeed()  # type: ignore[attr-defined]
    return lab


def test_two_versions_of_a_library_run_side_by_side(lab: Lab) -> None:
    assert seen(lab) == EXPECTED


def test_the_user_is_told_and_the_evidence_names_what_was_locked(lab: Lab) -> None:
    first = lab.first  # type: ignore[attr-defined]
    making = [note for note in first.heard.notes if note.startswith("making")]
    assert making == [
        "making the environment of `new.txt` (1 package) for New, Own, Script …",
        "making the environment of `old.txt` (1 package) for Old …",
    ]
    manifest = json.loads((first.folder / "manifest.yaml").read_bytes())
    assert {lock: one["packages"] for lock, one in manifest["environments"].items()} == {
        "new.txt": {"tinylib": "2.0"},
        "old.txt": {"tinylib": "1.0"},
    }
    assert first.cfg("Old")["environment"] == {
        "lock": "old.txt",
        "sha256": manifest["environments"]["old.txt"]["sha256"],
    }


def test_a_new_version_runs_its_jobs_again_and_the_reason_names_it(lab: Lab) -> None:
    lab.write({"old.txt": "# a comment\n" + locked("tinylib==1.0")})
    assert lab.plan().planned == []
    lab.write({"old.txt": locked("tinylib==2.0")})
    (reason,) = reasons(lab.plan())["Job:Old"]
    assert (reason["code"], reason["source"]) == ("INPUT_CHANGED", "Input:Old.action")
    assert (reason["files"], reason["versions"]) == (["old.txt"], ["tinylib 1.0 → 2.0"])
    assert list(reasons(lab.plan())) == ["Job:Old"]
    again = lab.succeed()
    assert [note for note in again.heard.notes if "environment" in note] == []  # it is that of `new.txt`
    assert seen(lab)["Old"] == EXPECTED["New"]
    lab.write({"old.txt": locked("tinylib==1.0")})
    assert lab.succeed().reused == {"Job:Old": "r0001"}


@pytest.mark.skipif(why_unavailable() is not None, reason="bubblewrap cannot be used here")
def test_in_a_sandbox_it_is_the_same(lab: Lab) -> None:
    lab.succeed(backend=sandbox_backend(), force=["Job:*"])
    assert seen(lab) == EXPECTED


def test_an_environment_that_cannot_be_made_fails_with_the_words_of_uv_and_nothing_ran(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write({**FILES, "old.txt": locked("tinylib==3.0")})
    with pytest.raises(WhyrunError) as raised:
        lab.run()
    (one,) = raised.value.diagnostics
    assert one.code == "ENVIRONMENT_FAILED"
    assert "could not be made; uv says:" in one.message
    assert "tinylib==3.0" in one.message
    assert lab.runs() == []


def test_a_package_that_nothing_locks_is_refused_not_chosen(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write({**FILES, "new.txt": locked("needy==1.0")})
    with pytest.raises(WhyrunError) as raised:
        lab.run(targets=["Job:New"])
    (one,) = raised.value.diagnostics
    assert "needy" in one.message
    assert "tinylib" in one.message
    assert one.hint == "name these packages in `new.txt`, too: `uv pip compile` writes all that is needed"
