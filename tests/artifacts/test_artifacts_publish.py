from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import pytest

from whyrun.artifacts.publishing.publish import Displaced, publish
from whyrun.artifacts.store import Store
from whyrun.errors import InvalidError, StateError


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "project" / ".whyrun" / "store")


@pytest.fixture
def project(tmp_path, store):
    return tmp_path / "project"


def nothing_is_ours(_sha):
    return False


def visible(project):
    """Everything in the project outside the state folder."""
    return sorted(
        str(p.relative_to(project)) for p in project.rglob("*") if ".whyrun" not in p.relative_to(project).parts[0]
    )


def no_leftovers(store):
    return os.listdir(store.root / "tmp") == []


def test_an_output_appears_at_its_path(store, project):
    name = store.put_bytes(b"picture")
    result = publish(store, project, "out/deep/a.png", name, nothing_is_ours)
    assert (result.written, result.displaced) == (True, ())
    assert (project / "out/deep/a.png").read_bytes() == b"picture"
    assert visible(project) == ["out", "out/deep", "out/deep/a.png"]
    assert no_leftovers(store)


def test_the_same_content_is_not_written_again(store, project):
    name = store.put_bytes(b"picture")
    publish(store, project, "a.png", name, nothing_is_ours)
    before = (project / "a.png").stat()
    result = publish(store, project, "a.png", name, nothing_is_ours)
    assert (result.written, result.displaced, result.file) == (False, (), None)
    assert (project / "a.png").stat() == before


def test_lesson_35_editing_a_published_file_never_harms_the_blob(store, project):
    name = store.put_bytes(b"picture")
    publish(store, project, "a.png", name, nothing_is_ours)
    assert (project / "a.png").stat().st_nlink == 1
    with open(project / "a.png", "r+b") as file:
        file.write(b"PIC")
    assert store.read(name) == b"picture"


def test_our_own_older_version_is_replaced_without_a_word(store, project):
    old, new = store.put_bytes(b"old"), store.put_bytes(b"new")
    publish(store, project, "a", old, nothing_is_ours)
    result = publish(store, project, "a", new, lambda found: found == old)
    assert (result.written, result.displaced) == (True, ())
    assert (project / "a").read_bytes() == b"new"


def test_lesson_8_a_file_that_is_not_ours_goes_into_the_store_first(store, project):
    (project / "out").mkdir(parents=True)
    (project / "out" / "a").write_bytes(b"my own work")
    name = store.put_bytes(b"new")
    result = publish(store, project, "out/a", name, lambda found: found == sha(b"old"))
    assert result.displaced == (Displaced("out/a", sha(b"my own work")),)
    assert result.displaced[-1].sha256 == sha(b"my own work")
    assert store.read(sha(b"my own work")) == b"my own work"
    assert (project / "out" / "a").read_bytes() == b"new"
    assert no_leftovers(store)


def test_a_damaged_blob_is_not_published_and_what_stands_there_stays(store, project):
    name = store.put_bytes(b"new")
    os.chmod(store.path(name), 0o644)
    with open(store.path(name), "wb") as file:
        file.write(b"bad")
    (project / "a").write_bytes(b"mine")
    with pytest.raises(StateError, match="STORE_DAMAGED"):
        publish(Store(store.root), project, "a", name, nothing_is_ours)
    assert (project / "a").read_bytes() == b"mine"
    assert no_leftovers(store)


# --- folders -----------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(store, tmp_path):
    def make(**files):
        top = tmp_path / f"made-{sha(repr(files).encode())[:8]}"
        top.mkdir()
        for name, text in files.items():
            (top / name).write_text(text)
        return store.put_tree(top)[0]

    return make


def files_in(folder):
    return {p.name: p.read_text() for p in folder.iterdir()}


def test_a_folder_is_published_replaced_and_displaced_like_a_file(store, project, tree):
    first, second = tree(a="1", b="2"), tree(a="1", c="3")
    assert publish(store, project, "out/d", first, nothing_is_ours, "directory").written
    assert files_in(project / "out" / "d") == {"a": "1", "b": "2"}
    assert not publish(store, project, "out/d", first, nothing_is_ours, "directory").written

    result = publish(store, project, "out/d", second, lambda found: found == first, "directory")
    assert result.displaced == ()
    assert files_in(project / "out" / "d") == {"a": "1", "c": "3"}

    (project / "out" / "d" / "mine").write_text("work")
    result = publish(store, project, "out/d", first, lambda found: found == second, "directory")
    (displaced,) = result.displaced
    assert displaced == Displaced("out/d", tree(a="1", c="3", mine="work"))
    assert store.has_tree(displaced.sha256)
    assert files_in(project / "out" / "d") == {"a": "1", "b": "2"}
    assert visible(project) == ["out", "out/d", "out/d/a", "out/d/b"]
    assert no_leftovers(store)


def test_a_folder_where_a_file_is_due_is_displaced_and_the_reverse(store, project, tree):
    (project / "x").mkdir(parents=True)
    (project / "x" / "mine").write_text("work")
    name = store.put_bytes(b"file")
    result = publish(store, project, "x", name, nothing_is_ours)
    assert result.displaced == (Displaced("x", tree(mine="work")),)
    assert (project / "x").read_bytes() == b"file"

    folder = tree(a="1")
    result = publish(store, project, "x", folder, nothing_is_ours, "directory")
    assert result.displaced == (Displaced("x", name),)
    assert files_in(project / "x") == {"a": "1"}
    assert no_leftovers(store)


def test_a_file_where_a_parent_folder_is_due_is_displaced(store, project):
    project.mkdir()
    (project / "out").write_bytes(b"mine")
    name = store.put_bytes(b"new")
    result = publish(store, project, "out/sub/a", name, lambda found: True)
    assert result.displaced == (Displaced("out", sha(b"mine")),)
    assert store.read(sha(b"mine")) == b"mine"
    assert (project / "out" / "sub" / "a").read_bytes() == b"new"


def test_a_folder_that_cannot_be_saved_is_not_written_over(store, project):
    (project / "x").mkdir(parents=True)
    (project / "x" / "link").symlink_to("/etc")
    name = store.put_bytes(b"new")
    with pytest.raises(InvalidError, match="PATH_OUTSIDE"):
        publish(store, project, "x", name, nothing_is_ours)
    assert str((project / "x" / "link").readlink()) == "/etc"


# --- links and paths ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", ".", "/etc/x", "../x", "a/../../x", ".whyrun/store/x", "a\0b"])
def test_paths_outside_the_project_are_refused(store, project, path):
    name = store.put_bytes(b"new")
    with pytest.raises(InvalidError, match="PATH_OUTSIDE"):
        publish(store, project, path, name, nothing_is_ours)


@pytest.mark.parametrize("target", ["../elsewhere", "/tmp", "../project-2", "nowhere"])
def test_a_link_out_of_the_project_is_not_followed(store, project, tmp_path, target):
    name = store.put_bytes(b"new")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project-2").mkdir()
    (project / "out").symlink_to(target)
    with pytest.raises(InvalidError, match="PATH_OUTSIDE"):
        publish(store, project, "out/a/b", name, nothing_is_ours)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_inside_the_project_is_followed(store, project):
    name = store.put_bytes(b"new")
    (project / "real").mkdir()
    (project / "out").symlink_to("real")
    publish(store, project, "out/a", name, nothing_is_ours)
    assert (project / "real" / "a").read_bytes() == b"new"


@pytest.mark.parametrize("content", [b"new", b"precious"])
def test_a_link_at_the_path_itself_is_replaced_not_written_through(store, project, tmp_path, content):
    name = store.put_bytes(b"new")
    (tmp_path / "precious").write_bytes(content)
    (project / "a").symlink_to("../precious")
    result = publish(store, project, "a", name, lambda found: True)
    assert (tmp_path / "precious").read_bytes() == content
    assert not (project / "a").is_symlink()
    assert (project / "a").read_bytes() == b"new"
    assert store.read(result.displaced[-1].sha256) == b"../precious"


def test_a_link_to_the_blob_is_replaced_by_a_copy(store, project):
    name = store.put_bytes(b"new")
    (project / "a").symlink_to(store.path(name))
    publish(store, project, "a", name, nothing_is_ours)
    (project / "a").write_bytes(b"edited")
    assert store.read(name) == b"new"


def test_a_store_on_another_file_system_publishes_as_well(project, tmp_path):
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs two file systems")
    with tempfile.TemporaryDirectory(dir=shm) as other:
        store = Store(Path(other) / "store")
        (tmp_path / "made").mkdir()
        (tmp_path / "made" / "a").write_bytes(b"A")
        folder, file = store.put_tree(tmp_path / "made")[0], store.put_bytes(b"file")
        assert publish(store, project, "out/f", file, nothing_is_ours).written
        assert publish(store, project, "out/d", folder, nothing_is_ours, "directory").written
        (project / "out" / "d" / "mine").write_bytes(b"work")
        assert publish(store, project, "out/d", folder, nothing_is_ours, "directory").displaced
        assert publish(store, project, "out/f", folder, nothing_is_ours, "directory").displaced[-1].sha256 == file
        assert visible(project) == ["out", "out/d", "out/d/a", "out/f", "out/f/a"]
        assert no_leftovers(store)
        scratch = project / "scratch"
        scratch.write_bytes(b"moved")
        assert store.put_file(scratch, move=True) == (sha(b"moved"), 5)
        assert not scratch.exists()
