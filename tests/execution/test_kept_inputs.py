"""Small input files are kept when they are recorded, so that the old content can be shown beside the new."""

from __future__ import annotations

from typing import Any

import pytest

from whyrun.execution.run import session
from whyrun.log import events as ev

WORKFLOW = """
    workflow: kept
    inputs:
      Photos: {type: "file[]", default: photos/*.txt}
      Folder: {type: directory, default: folder}
      Topic: {type: string, default: a}
    loops: {photo: {each: inputs.Photos}}
    jobs:
      Take:
        for: [photo]
        uses: shell
        with: {source: "${{ inputs.Photos[photo] }}", run: 'wc -c < "$source" > "$out_Text"'}
        outputs: {Text: {type: text}}
      Look:
        uses: shell
        with: {folder: "${{ inputs.Folder }}", run: 'ls "$folder" > "$out_Text"'}
        outputs: {Text: {type: text}}
"""
FILES = {"photos/a.txt": "Ada", "photos/b.txt": "Ben", "folder/c.txt": "Cleo"}


def recorded(lab: Any, run: str) -> dict[str, str]:
    return {e.id: e.sha256 for e in lab.events(run) if isinstance(e, ev.InputRecorded)}


def kept(lab: Any, run: str) -> set[str]:
    return {id_ for id_, sha256 in recorded(lab, run).items() if lab.blob(sha256).is_file()}


def test_each_version_of_a_file_is_kept(project: Any) -> None:
    lab = project(WORKFLOW, FILES)
    lab.succeed()
    lab.write({"photos/a.txt": "Ada, later"})
    lab.succeed()
    first, second = recorded(lab, "r0001"), recorded(lab, "r0002")
    assert kept(lab, "r0001") == {"Input:Photos[0]", "Input:Photos[1]"}, "files, and no folders and values"
    assert lab.blob(first["Input:Photos[0]"]).read_text() == "Ada"
    assert lab.blob(second["Input:Photos[0]"]).read_text() == "Ada, later"


def test_gc_keeps_them_and_verify_checks_them(project: Any) -> None:
    from whyrun.evidence.referenced_blobs import referenced_hashes

    lab = project(WORKFLOW, FILES)
    lab.succeed()
    state = lab.opened()
    named = set(referenced_hashes([lab.run_folder("r0001")], state.store))
    assert set(recorded(lab, "r0001").values()) <= named


@pytest.mark.parametrize(("limit", "expected"), [("KEPT_INPUT", 0), ("KEPT_INPUTS", 1), ("KEPT_FILES", 1)])
def test_the_limits(project: Any, monkeypatch: pytest.MonkeyPatch, limit: str, expected: int) -> None:
    monkeypatch.setattr(session, limit, {"KEPT_INPUT": 2, "KEPT_INPUTS": 5, "KEPT_FILES": 1}[limit])
    lab = project(WORKFLOW, FILES)
    lab.succeed()
    assert len(recorded(lab, "r0001")) == 4
    assert len(kept(lab, "r0001")) == expected


def test_it_can_be_turned_off(project: Any) -> None:
    lab = project(WORKFLOW, {**FILES, "whyrun.toml": "keep_inputs = false\n"})
    lab.succeed()
    assert kept(lab, "r0001") == set()
    lab.write({"whyrun.toml": "keep_inputs = 3\n"})
    with pytest.raises(Exception, match="`keep_inputs` is true or false"):
        lab.opened().config  # noqa: B018
