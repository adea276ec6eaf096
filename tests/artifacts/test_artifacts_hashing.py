from __future__ import annotations

import hashlib
import json
import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrun.artifacts.hashing import (
    canonical_json,
    decode_tree,
    digest,
    file_sha256,
    iter_parents,
    tree_manifest,
    value_sha256,
)
from whyrun.errors import InvalidError

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=12)


def typed(value):
    """Equal only for values that are the same JSON: 1, 1.0 and True differ, as do 0.0 and -0.0."""
    if isinstance(value, dict):
        return {key: typed(member) for key, member in value.items()}
    if isinstance(value, list):
        return [typed(member) for member in value]
    return (type(value).__name__, repr(value))


@given(values)
def test_canonical_json_reads_back_as_the_same_value(value):
    assert typed(json.loads(canonical_json(value))) == typed(value)


@given(values, values)
def test_two_values_share_a_spelling_only_if_they_are_the_same(a, b):
    assert (canonical_json(a) == canonical_json(b)) == (typed(a) == typed(b))


@given(st.dictionaries(texts, values))
def test_the_order_in_which_keys_were_given_does_not_matter(value):
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


def test_canonical_json_is_pinned():
    value = {"b": [1, 1.0, True, None, 1e16, 1e-5], "a": "é\u2028\n\x7f🎈", "A": {}, "é": -0.0}
    assert canonical_json(value) == (
        '{"A":{},"a":"é\u2028\\n\x7f🎈","b":[1,1.0,true,null,1e+16,1e-05],"é":-0.0}'.encode()
    )
    assert value_sha256(1) == hashlib.sha256(b"1").hexdigest()
    assert len({value_sha256(v) for v in (1, 1.0, True, "1", [1], None)}) == 6


@pytest.mark.parametrize(
    "value",
    [float("nan"), [float("inf")], {"a": -float("inf")}, {1: 2}, [{None: 1}], {"a": {True: 1}}, "\ud800", b"x", {1, 2}],
)
def test_what_json_does_not_have_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        canonical_json(value)


parts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3) | st.binary(max_size=3), max_size=4)


@given(texts, parts, texts, parts)
def test_digests_are_equal_only_for_equal_tags_and_parts(tag_a, a, tag_b, b):
    same = (tag_a, a) == (tag_b, b)
    assert (digest(tag_a, *a) == digest(tag_b, *b)) == same


@given(texts, st.binary(min_size=1), st.data())
def test_moving_a_boundary_changes_the_digest(tag, data, draw):
    cut = draw.draw(st.integers(0, len(data)))
    assert digest(tag, data[:cut], data[cut:]) != digest(tag, data)


def test_digests_are_pinned():
    assert digest("job/v1") == hashlib.sha256(b"whyrun" + b"s" + (6).to_bytes(8, "big") + b"job/v1").hexdigest()
    assert digest("job/v1", "a", b"b") == "4f59f7dcd64952db3d7cc3c3c9879c879e4502cfd5e2660f96dd0ff8f23f9a91"
    assert digest("job/v1", "a") != digest("job/v1", b"a")


def test_files_hash_by_content(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 3_000_001)
    assert file_sha256(tmp_path / "a") == hashlib.sha256(b"x" * 3_000_001).hexdigest()


# --- folders -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    top = tmp_path / "folder"
    (top / "sub" / "empty").mkdir(parents=True)
    (top / "Z.txt").write_bytes(b"z")
    (top / "a.txt").write_bytes(b"a")
    (top / "é.sh").write_bytes(b"#!")
    (top / "é.sh").chmod(0o755)
    (top / "sub" / "b").write_bytes(b"")
    return top


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_folder_is_its_sorted_paths_contents_and_executable_bits(folder):
    assert json.loads(tree_manifest(folder)) == {
        "tree": "whyrun/tree/v1",
        "files": [
            ["Z.txt", sha(b"z"), 1, False],
            ["a.txt", sha(b"a"), 1, False],
            ["sub/b", sha(b""), 0, False],
            ["é.sh", sha(b"#!"), 2, True],
        ],
        "empty_dirs": ["sub/empty"],
    }
    assert decode_tree(tree_manifest(folder)).size == 4


def test_times_and_other_permissions_are_not_content(folder):
    before = tree_manifest(folder)
    os.utime(folder / "a.txt", (1, 1))
    (folder / "a.txt").chmod(0o600)
    assert tree_manifest(folder) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda top: (top / "a.txt").write_bytes(b"b"),
        lambda top: (top / "a.txt").rename(top / "b.txt"),
        lambda top: (top / "a.txt").chmod(0o755),
        lambda top: (top / "sub" / "empty").rmdir(),
        lambda top: (top / "new").mkdir(),
    ],
)
def test_every_change_of_content_shows(folder, change):
    before = tree_manifest(folder)
    change(folder)
    assert tree_manifest(folder) != before


def test_links_inside_a_folder_count_as_what_they_lead_to(folder):
    (folder / "link").symlink_to("sub/b")
    (folder / "dir-link").symlink_to(folder / "sub")
    paths = [file.path for file in decode_tree(tree_manifest(folder)).files]
    assert paths == ["Z.txt", "a.txt", "dir-link/b", "link", "sub/b", "é.sh"]


@pytest.mark.parametrize(
    ("target", "code"),
    [("../outside", "PATH_OUTSIDE"), ("/etc/hostname", "PATH_OUTSIDE"), ("../folder-2/x", "PATH_OUTSIDE"),
     ("nowhere", "FILE_MISSING"), (".", "CYCLE"), ("sub/loop", "FILE_MISSING")],
)  # fmt: skip
def test_links_out_of_a_folder_into_nothing_or_in_circles_are_refused(folder, target, code):
    (folder.parent / "outside").write_bytes(b"secret")
    (folder.parent / "folder-2").mkdir()
    (folder.parent / "folder-2" / "x").write_bytes(b"x")
    (folder / "link").symlink_to(target)
    with pytest.raises(InvalidError, match=code):
        tree_manifest(folder)


def test_a_link_from_below_to_a_folder_above_is_a_circle(folder):
    (folder / "sub" / "up").symlink_to("..")
    with pytest.raises(InvalidError, match="CYCLE"):
        tree_manifest(folder)


def test_a_folder_given_as_a_link_counts_as_what_it_leads_to(folder):
    before = tree_manifest(folder)
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert tree_manifest(link) == before


def test_things_without_content_are_refused(folder):
    os.mkfifo(folder / "pipe")
    with pytest.raises(InvalidError, match="INPUT_TYPE"):
        tree_manifest(folder)
    (folder / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(folder / "s"))
        with pytest.raises(InvalidError, match="INPUT_TYPE"):
            tree_manifest(folder)


def test_names_that_are_not_utf_8_are_refused(folder):
    with open(os.fsencode(folder) + b"/\xff", "wb"):
        pass
    with pytest.raises(InvalidError, match="NAME_INVALID"):
        tree_manifest(folder)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x"])
def test_a_manifest_that_leads_out_is_refused(path):
    manifest = canonical_json({"tree": "whyrun/tree/v1", "files": [[path, sha(b""), 0, False]], "empty_dirs": []})
    with pytest.raises(ValueError, match="outside"):
        decode_tree(manifest)


def test_parents_of_a_path():
    assert list(iter_parents("a/b/c")) == ["a", "a/b"]
    assert list(iter_parents("a")) == []
