"""Shared JSON files: members of the user stay as they are, our sections are replaced, invalid files are left alone."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.artifacts.publishing.merge import Merged, SectionMerger
from whyrun.artifacts.publishing.publish import Displaced
from whyrun.artifacts.publishing.sections import (
    Member,
    NotSections,
    SharedFiles,
    read_members,
    section_bytes,
    section_member,
    section_sha256,
    written_members,
)
from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.errors import WhyrunError
from whyrun.ids import site_of, split_site

FILE = "results/metadata.json"


class Desk:
    """A project folder with a store, and one who merges into its files."""

    def __init__(self, root: Path) -> None:
        self.project, self.store = root / "project", Store(root / "project" / ".whyrun" / "store")
        self.project.mkdir()
        self.merger = SectionMerger(self.store, str(self.project))
        self.ours: set[tuple[str, str]] = set()
        self.put_back: list[Displaced] = []
        self.path = self.project / FILE

    def merge(self, sections: Mapping[str, object], path: str = FILE) -> Merged:
        hashes = {key: self.store.put_bytes(canonical_json(value)) for key, value in sections.items()}
        result = self.merger.merge(
            path, hashes, lambda key, sha: (key, sha) in self.ours, on_put_back=self.put_back.append
        )
        self.ours |= set(hashes.items())
        return result

    def write(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(text)

    def shared(self, index: Path | None = None) -> SharedFiles:
        cache = StatCache.load(self.project / ".whyrun" / "stat-cache")
        return SharedFiles(str(self.project), cache, None if index is None else str(index))


def untouched(path: Path) -> tuple[int, ...]:
    """What changes with every write. (The time of access moves when it is read.)"""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# --- sites -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "section"), [("a/b.json", None), ("a/b.json", "learn[asia][7]"), ("a.json", "x § y")])
def test_a_site_is_taken_apart_as_it_was_put_together(path: str, section: str | None) -> None:
    assert split_site(site_of(path, section)) == (path, section)


# --- members -----------------------------------------------------------------------------------------------------


def test_members_are_kept_as_they_are_written() -> None:
    text = ' {"a" : 1.10 ,\n"\\u00e9":{"x": [1,2 ],"x":3},  "b":"}" }\n\n'
    members = read_members(text)
    assert members == {
        "a": Member('"a"', "1.10"),
        "é": Member('"\\u00e9"', '{"x": [1,2 ],"x":3}'),
        "b": Member('"b"', '"}"'),
    }
    again = written_members(members.values())
    assert again == '{\n  "a": 1.10,\n  "\\u00e9": {"x": [1,2 ],"x":3},\n  "b": "}"\n}\n'
    assert read_members(again) == members


def test_an_object_without_members_is_one() -> None:
    assert read_members("{ }\n") == {}
    assert written_members([]) == "{}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ("[1]", "it is not a JSON object"),
        ('{"a": 1', "`,` or `}` is expected at line 1, column 8"),
        ('{"a" 1}', "`:` is expected at line 1, column 6"),
        ('{"a": 1,}', "a key is expected at line 1, column 9"),
        ('{"a": NaN}', "`NaN` is not JSON"),
        ('{"a": 1} {}', "something follows the object at line 1, column 10"),
        ('{"a": 1, "\\u0061": 2}', 'it has the key "\\u0061" twice'),
        ('{"a": }', "expecting value at line 1, column 7"),
        ('{\n  "a": 1\n  "b": 2\n}', "`,` or `}` is expected at line 3, column 3"),
        ('{"a": 1,\n}', "a key is expected at line 2, column 1"),
        ('{"a": ' + "[" * 100_000, "it nests too deeply"),
    ],
)
def test_what_is_no_object_is_told(text: str, why: str) -> None:
    with pytest.raises(NotSections) as told:
        read_members(text)
    assert str(told.value) == why


def test_a_section_is_indented_for_readers_and_hashed_by_its_value() -> None:
    value = {"b": "two\nlines", "a": [1, {"é": 1.0}], "none": {}}
    member = section_member("learn[asia]", canonical_json(value))
    text = written_members([member])
    assert text == (
        '{\n  "learn[asia]": {\n    "a": [\n      1,\n      {\n        "é": 1.0\n      }\n    ],\n'
        '    "b": "two\\nlines",\n    "none": {}\n  }\n}\n'
    )
    assert json.loads(text) == {"learn[asia]": value}
    sha = bytes_sha256(canonical_json(value))
    assert section_sha256(member.text) == section_sha256(json.dumps(value)) == sha
    assert section_bytes(b' {"b": 1, "a": 2} ') == b'{"a":2,"b":1}'
    assert section_sha256('"\\ud800"') != section_sha256('"\\ud801"')  # has no canonical form, and is never ours


def test_a_section_that_would_spoil_the_file_for_others_is_refused() -> None:
    deepest = b"[" * 201 + b"]" * 201
    assert section_bytes(deepest) == deepest
    text = written_members([section_member("a", deepest)])
    assert section_sha256(read_members(text)["a"].text) == bytes_sha256(deepest)
    with pytest.raises(ValueError, match="it nests deeper than 200"):
        section_bytes(b"[" * 202 + b"]" * 202)
    with pytest.raises(ValueError, match="`NaN` is not JSON"):
        section_bytes(b"[NaN]")


# --- merging -----------------------------------------------------------------------------------------------------


def test_the_first_section_makes_the_file_and_the_next_is_appended(desk: Desk) -> None:
    assert desk.merge({"b": {"n": 1}}) == Merged((), {})
    assert desk.path.read_text() == '{\n  "b": {\n    "n": 1\n  }\n}\n'
    assert desk.merge({"a": 2, "c": []}) == Merged((), {})
    assert desk.path.read_text() == '{\n  "b": {\n    "n": 1\n  },\n  "a": 2,\n  "c": []\n}\n'
    assert sorted(os.listdir(desk.path.parent)) == ["metadata.json"]
    assert os.listdir(desk.project / ".whyrun" / "store" / "tmp") == []


def test_an_equal_section_is_left_as_it_is_written_and_the_file_untouched(desk: Desk) -> None:
    desk.write('{"a":{"y": 1,"x":2}}')
    before = untouched(desk.path)
    assert desk.merge({"a": {"x": 2, "y": 1}}) == Merged((), {})
    assert untouched(desk.path) == before


def test_a_section_of_ours_is_replaced_in_its_place_and_others_stay(desk: Desk) -> None:
    desk.merge({"a": 1, "b": 2})
    desk.write('{"mine": 1.10, "a": 1, "b":2, "notes": {"k": 1, "k": 2}}')
    desk.merge({"a": 3})
    assert desk.path.read_text() == '{\n  "mine": 1.10,\n  "a": 3,\n  "b": 2,\n  "notes": {"k": 1, "k": 2}\n}\n'


def test_what_stands_under_our_key_and_is_not_ours_is_saved_first(desk: Desk) -> None:
    desk.write('{"a": {"by": "hand"}, "b": 1}')
    result = desk.merge({"a": 1})
    saved = bytes_sha256(b'{"by": "hand"}\n')
    assert result == Merged((Displaced("results/metadata.json § a", saved),), {})
    assert desk.store.read(saved) == b'{"by": "hand"}\n'
    assert json.loads(desk.path.read_text()) == {"a": 1, "b": 1}


def test_a_section_of_ours_that_the_store_has_lost_is_put_back_before_it_is_replaced(desk: Desk) -> None:
    desk.merge({"a": {"k": [1, 2]}, "b": 2})
    lost = bytes_sha256(b'{"k":[1,2]}')
    os.unlink(desk.store.path(lost))
    assert desk.merge({"a": 3, "b": 4}) == Merged((), {})
    assert desk.put_back == [Displaced("results/metadata.json § a", lost)]
    assert desk.store.read(lost) == b'{"k":[1,2]}'
    assert json.loads(desk.path.read_text()) == {"a": 3, "b": 4}


@pytest.mark.parametrize("text", ["", "[1, 2]", '{"a": 1', '{"a": 1, "a": 2}', "{'a': 1}", "\ufeff{}"])
def test_an_invalid_file_is_left_alone(desk: Desk, text: str) -> None:
    desk.write(text)
    before = untouched(desk.path)
    with pytest.raises(WhyrunError) as told:
        desk.merge({"a": 1})
    (diagnostic,) = told.value.diagnostics
    assert diagnostic.code == "SECTION_FILE_INVALID"
    assert diagnostic.message.startswith("`results/metadata.json` cannot take a section: it ") or (
        "expected at line 1, column " in diagnostic.message
    )
    assert desk.path.read_text() == text
    assert untouched(desk.path) == before


def test_bytes_that_are_no_text_are_left_alone(desk: Desk) -> None:
    desk.write("")
    desk.path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(WhyrunError, match="it is not UTF-8"):
        desk.merge({"b": 1})
    assert desk.path.read_bytes() == b'{"a": "\xff"}'


def test_a_folder_and_a_link_are_left_alone(desk: Desk) -> None:
    desk.path.mkdir(parents=True)
    with pytest.raises(WhyrunError, match="it is a folder"):
        desk.merge({"a": 1})
    link = desk.project / "link.json"
    (desk.project / "real.json").write_text('{"b": 1}')
    link.symlink_to("real.json")
    with pytest.raises(WhyrunError, match="it is a link"):
        desk.merge({"a": 1}, "link.json")
    assert link.is_symlink()
    assert (desk.project / "real.json").read_text() == '{"b": 1}'


def test_the_mode_of_the_file_stays(desk: Desk) -> None:
    desk.write("{}")
    desk.path.chmod(0o640)
    desk.merge({"a": 1})
    assert stat.S_IMODE(desk.path.stat().st_mode) == 0o640


def test_an_edit_between_two_merges_is_seen_even_if_the_size_is_the_same(desk: Desk) -> None:
    desk.merge({"a": 1})
    desk.write(desk.path.read_text().replace('"a": 1', '"b": 2'))
    desk.merge({"c": 3})
    assert json.loads(desk.path.read_text()) == {"b": 2, "c": 3}


def test_a_section_whose_bytes_are_gone_fails_alone(desk: Desk) -> None:
    lost = desk.store.put_bytes(b"1")
    kept = desk.store.put_bytes(b"2")
    os.unlink(desk.store.path(lost))
    result = desk.merger.merge(FILE, {"a": lost, "b": kept}, lambda key, sha: False)
    assert {key: problem.diagnostics[0].code for key, problem in result.failed.items()} == {"a": "STORE_DAMAGED"}
    assert json.loads(desk.path.read_text()) == {"b": 2}


def test_a_store_on_another_file_system_does_as_well(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system")
    with tempfile.TemporaryDirectory(dir=memory) as elsewhere:
        store = Store(Path(elsewhere) / "store")
        merger = SectionMerger(store, str(tmp_path))
        for key in ("a", "b"):
            merger.merge(FILE, {key: store.put_bytes(b"1")}, lambda key, sha: False)
    assert json.loads((tmp_path / FILE).read_text()) == {"a": 1, "b": 1}
    assert os.listdir(tmp_path / "results") == ["metadata.json"]


def test_whoever_holds_the_folder_is_waited_for(desk: Desk) -> None:
    desk.merge({"a": 1})
    holder = os.open(desk.path.parent, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    waiting = threading.Thread(target=desk.merge, args=({"b": 2},))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    assert json.loads(desk.path.read_text()) == {"a": 1}
    os.close(holder)
    waiting.join(300.0)
    assert json.loads(desk.path.read_text()) == {"a": 1, "b": 2}


def test_a_path_outside_of_the_project_is_refused(desk: Desk) -> None:
    with pytest.raises(WhyrunError) as told:
        desk.merge({"a": 1}, "../out.json")
    assert told.value.diagnostics[0].code == "PATH_OUTSIDE"


# --- looking -----------------------------------------------------------------------------------------------------


def test_sections_are_found_by_their_hashes(desk: Desk) -> None:
    assert desk.shared().sections(FILE) is None
    desk.write('{"a": {"y": 1, "x": 2}, "b": 1.0}')
    assert desk.shared().sections(FILE) == {
        "a": bytes_sha256(b'{"x":2,"y":1}'),
        "b": bytes_sha256(b"1.0"),
    }
    assert desk.shared().sha256_of(site_of(FILE, "b")) == bytes_sha256(b"1.0")
    assert desk.shared().sha256_of(site_of(FILE, "c")) is None
    assert desk.shared().data(site_of(FILE, "a")) == b'{"x":2,"y":1}'
    assert desk.shared().data(site_of(FILE, "c")) is None


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1'])
def test_a_file_that_is_no_object_has_no_sections(desk: Desk, text: str) -> None:
    desk.write(text)
    assert desk.shared().sections(FILE) == {}
    assert desk.shared().data(site_of(FILE, "a")) is None


def test_a_folder_has_no_sections(desk: Desk) -> None:
    desk.path.mkdir(parents=True)
    assert desk.shared().sections(FILE) == {}


def test_what_was_found_is_kept_by_content_and_may_be_deleted_or_damaged(desk: Desk, tmp_path: Path) -> None:
    index = tmp_path / "sections"
    desk.write('{"a": 1}')
    first = desk.shared(index)
    expected = {"a": bytes_sha256(b"1")}
    assert first.sections(FILE) == expected
    first.save()
    kept = index.read_bytes()
    second = desk.shared(index)
    assert second.sections(FILE) == expected
    second.save()
    assert index.read_bytes() == kept
    index.write_bytes(kept[:-1])
    assert desk.shared(index).sections(FILE) == expected
    desk.write('{"a": 2}')
    assert desk.shared(index).sections(FILE) == {"a": bytes_sha256(b"2")}


def test_a_lost_blob_is_put_back_from_its_section_and_from_no_other(desk: Desk) -> None:
    sha = bytes_sha256(b'{"x":1}')
    desk.write('{"a": {"x": 2}}')
    assert not desk.shared().restore(site_of(FILE, "a"), sha, desk.store)
    desk.write('{"a": { "x": 1 }}')
    assert desk.shared().restore(site_of(FILE, "a"), sha, desk.store)
    assert desk.store.read(sha) == b'{"x":1}'
