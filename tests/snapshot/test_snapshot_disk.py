"""Whether artifacts are still where they were: published files, sections of shared files, bytes in the store."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from project_lab import Lab
from whyrun.artifacts.hashing import canonical_json
from whyrun.snapshot.observing.disk import DiskObserver
from whyrun.snapshot.snapshot import BlobCheck

Make = Callable[..., Lab]
FLOW = "workflow: w\njobs: {}\n"
SECTION = "all.json § Make"


@pytest.fixture
def lab(project: Make) -> Lab:
    """A text, a folder and a section of a shared file, published and stored."""
    files = {"out.txt": "text", "all.json": '{"Make": {"n": 1}}', "tree/a.txt": "in a", "tree/b/c": "in b"}
    return project(FLOW, files)


def hashes(lab: Lab) -> dict[str, str]:
    store = lab.opened().store
    tree, _ = store.put_tree(lab.root / "tree")
    return {"Text": store.put_bytes(b"text"), "Part": store.put_bytes(canonical_json({"n": 1})), "Tree": tree}


def eyes(lab: Lab) -> DiskObserver:
    return lab.opened().observer()


def test_only_files_that_are_other_than_recorded_are_told(lab: Lab) -> None:
    text = hashes(lab)["Text"]
    lab.write({"same.txt": "text", "other.txt": "other"})
    os.mkfifo(lab.root / "pipe")
    paths = ["out.txt", "same.txt", "other.txt", "gone.txt", "pipe"]
    assert eyes(lab).changed_files(paths, [text] * 5) == {
        "other.txt": "changed",
        "gone.txt": "deleted",
        "pipe": "changed",
    }
    assert eyes(lab).changed_files(["out.txt", "same.txt"], [text, text]) == {}


def test_only_sections_that_are_other_than_recorded_are_told(lab: Lab) -> None:
    part = hashes(lab)["Part"]
    lab.write({"broken.json": "{", "list.json": "[]", "two.json": '{"Make": {"n": 1}, "Other": 2}'})
    sites = [SECTION, "all.json § Gone", "two.json § Make", "two.json § Other", "none.json § A", "broken.json § A",
             "list.json § Make"]  # fmt: skip
    assert eyes(lab).changed_sections(sites, [part] * len(sites)) == {
        "all.json § Gone": "deleted",
        "two.json § Other": "changed",
        "none.json § A": "deleted",
        "broken.json § A": "unreadable",
        "list.json § Make": "unreadable",
    }


def lost(lab: Lab, *checks: BlobCheck) -> list[str]:
    return list(eyes(lab).lost_blobs(checks))


def test_bytes_are_lost_where_neither_the_store_nor_the_published_file_has_them(lab: Lab) -> None:
    found = hashes(lab)
    text, part = found["Text"], found["Part"]
    stored = BlobCheck(text, 4, "text", None, "stored")
    assert lost(lab, stored, BlobCheck(text, -1, "text", None, "of any size")) == []
    assert lost(lab, BlobCheck(text, 3, "text", None, "of another size"), stored) == ["of another size"]
    assert lost(lab, BlobCheck(text, 0, "text", None, "empty")) == ["empty"]
    lab.blob(text).unlink()
    lab.blob(part).unlink()
    lab.write({"other.txt": "other"})
    checks = [
        stored,
        BlobCheck(text, 4, "text", "out.txt", "published"),
        BlobCheck(text, 4, "text", "other.txt", "changed"),
        BlobCheck(text, 4, "text", "gone.txt", "gone"),
        BlobCheck(part, 7, "json", SECTION, "section"),
        BlobCheck(part, 7, "json", "all.json § Other", "no section"),
    ]
    assert lost(lab, *checks) == ["stored", "changed", "gone", "no section"]


@pytest.mark.parametrize("name", ["in a", "in b", "manifest"])
def test_a_folder_is_lost_with_any_of_its_files(lab: Lab, name: str) -> None:
    tree = hashes(lab)["Tree"]
    check = BlobCheck(tree, 1, "directory", None, "tree")
    assert lost(lab, check) == [], "its size is not that of one file"
    if name == "manifest":
        lab.blob(tree).unlink()
    else:
        (blob,) = (path for path in lab.store.glob("??/*") if path.read_text() == name)
        blob.unlink()
    assert lost(lab, check) == ["tree"]


def test_what_stands_at_a_place_and_what_it_holds(lab: Lab) -> None:
    found = hashes(lab)
    (lab.root / "nowhere").symlink_to("nothing")
    os.mkfifo(lab.root / "pipe")
    look = eyes(lab)
    sites = ["out.txt", "gone.txt", "nowhere", SECTION, "all.json § Other", "none.json § Make", "pipe"]
    assert [look.stands(site) for site in sites] == [True, False, True, True, False, False, True]
    assert [look.published(site) for site in sites[:2]] == [found["Text"], None]
    assert [look.published(site) for site in sites[3:]] == [found["Part"], None, None, "special"]


def test_a_project_is_found_from_anywhere(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    look, text = eyes(lab), hashes(lab)["Text"]
    monkeypatch.chdir(tmp_path)
    assert look.stands("out.txt")
    assert look.published("out.txt") == text
