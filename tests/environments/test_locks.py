"""What a file locks, and what is refused because it does not say exact versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from environment_lab import wheel
from whyrun.environments.locks import Lock, read_lock
from whyrun.errors import WhyrunError


def lock(folder: Path, text: str, name: str = "requirements.txt") -> Lock:
    (folder / name).write_text(text)
    return read_lock(folder, name)


def refused(folder: Path, path: str) -> tuple[str, str, str | None]:
    with pytest.raises(WhyrunError) as raised:
        read_lock(folder, path)
    (one,) = raised.value.diagnostics
    return one.code, one.message, one.hint


def test_a_compiled_file_with_hashes_and_markers_is_read(tmp_path: Path) -> None:
    text = """
# this file was made by uv
--index-url https://index.example/simple
numpy==2.1.0 ; python_version >= "3.11" \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via pandas
Python_Dateutil [extra] == 2.9.0.post0
six===1.16
mine @ https://example.org/mine-1.0-py3-none-any.whl
"""
    found = lock(tmp_path, text)
    assert found.packages == {
        "mine": "https://example.org/mine-1.0-py3-none-any.whl",
        "numpy": "2.1.0",
        "python-dateutil": "2.9.0.post0",
        "six": "1.16",
    }


def test_comments_and_order_do_not_count_and_versions_and_hashes_do(tmp_path: Path) -> None:
    first = lock(tmp_path, "a==1\nb==2\n").sha256
    assert lock(tmp_path, "# new\nb==2   # why\n\na==1\n").sha256 == first
    others = {lock(tmp_path, text).sha256 for text in ("a==1\nb==3\n", "a==1\n", "a==1 --hash=sha256:aa\nb==2\n")}
    assert len(others) == 3
    assert first not in others


def test_files_that_are_included_count(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "common.txt").write_text("a==1\n")
    first = lock(tmp_path, "-r base/common.txt\nb==2\n")
    assert (list(first.files), first.packages) == (["requirements.txt", "base/common.txt"], {"a": "1", "b": "2"})
    (tmp_path / "base" / "common.txt").write_text("a==2\n")
    second = lock(tmp_path, "-r base/common.txt\nb==2\n")
    assert second.sha256 != first.sha256
    changed = [path for path, sha256 in second.files.items() if first.files[path] != sha256]
    assert changed == ["base/common.txt"]


def test_the_bytes_of_a_wheel_in_the_project_count(tmp_path: Path) -> None:
    (tmp_path / "mine-1.0-py3-none-any.whl").write_bytes(wheel("mine", "1.0"))
    first = lock(tmp_path, "./mine-1.0-py3-none-any.whl\n")
    assert first.packages == {"mine": "1.0"}
    (tmp_path / "mine-1.0-py3-none-any.whl").write_bytes(wheel("mine", "1.0", ["other"]))
    assert lock(tmp_path, "./mine-1.0-py3-none-any.whl\n").sha256 != first.sha256


@pytest.mark.parametrize(
    "line",
    [
        "pandas",
        "pandas>=2",
        "pandas==2.*",
        "pandas==2.0,<3",
        "-e .",
        "-c limits.txt",
        "git+https://x.org/a@main",
        "./src",
    ],
)
def test_a_line_without_an_exact_version_is_refused_with_the_way_to_pin_it(tmp_path: Path, line: str) -> None:
    (tmp_path / "needs.txt").write_text(f"six==1\n{line}\n")
    assert refused(tmp_path, "needs.txt") == (
        "ENVIRONMENT_INVALID",
        f"`needs.txt` does not say the exact version (`name==1.2.3`) of `{line}` (needs.txt:2)",
        "move these lines to `requirements.in`, and write all exact versions with "
        "`uv pip compile requirements.in -o needs.txt`",
    )


def test_a_lock_of_uv_is_read_also_for_its_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\nversion = "1"\ndependencies = ["six"]\n')
    assert refused(tmp_path, "pyproject.toml") == (
        "ENVIRONMENT_INVALID",
        "`pyproject.toml` has no `uv.lock` beside it",
        "run `uv lock` in its folder, which writes `uv.lock`",
    )
    (tmp_path / "uv.lock").write_text(
        'version = 1\n[[package]]\nname = "mine"\nsource = { virtual = "." }\n'
        '[[package]]\nname = "six"\nversion = "1.16"\n'
    )
    found = read_lock(tmp_path, "pyproject.toml")
    assert found == read_lock(tmp_path, "uv.lock")
    assert (found.path, found.packages) == ("uv.lock", {"six": "1.16"})
    (tmp_path / "uv.lock").write_text("version = ")
    assert refused(tmp_path, "uv.lock")[0] == "ENVIRONMENT_INVALID"


def test_a_package_in_a_folder_is_refused_because_the_lock_has_no_hash_of_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\nversion = "1"\ndependencies = ["lib"]\n')
    (tmp_path / "uv.lock").write_text(
        'version = 1\n[[package]]\nname = "lib"\nversion = "0.1"\nsource = { editable = "libs/lib" }\n'
        '[[package]]\nname = "mine"\nversion = "1"\nsource = { editable = "." }\n'
    )
    assert refused(tmp_path, "uv.lock") == (
        "ENVIRONMENT_INVALID",
        "`uv.lock` installs `lib` from the folder `libs/lib`",
        "lock a wheel of it (`uv build`), or declare its modules under `code:` of the jobs that import them",
    )


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert refused(tmp_path, "needs.txt") == (
        "FILE_MISSING",
        "`needs.txt`, which locks the packages, cannot be read: No such file or directory",
        "paths are relative to the project folder",
    )


def test_a_file_outside_the_project_is_not_included(tmp_path: Path) -> None:
    (tmp_path / "needs.txt").write_text("-r ../other.txt\n")
    assert refused(tmp_path, "needs.txt")[0] == "PATH_OUTSIDE"
