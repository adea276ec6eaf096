"""Read-only views of large inputs (`inputs = "view"`): a step can neither write through them nor see their names.

Issue 17, numbers 17 and 27.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from project_lab import Lab
from whyrun.errors import InvalidError
from whyrun.execution.backends.local import backend as local
from whyrun.execution.files import input_views
from whyrun.execution.files.input_views import (
    LARGEST_FILE,
    PrivateCopies,
    ReadOnlyViews,
    enter_namespace,
    why_impossible,
)

REFUSED = why_impossible(Path(tempfile.gettempdir()))
needs_views = pytest.mark.skipif(REFUSED is not None, reason=f"this machine allows no views: {REFUSED}")
LARGE = "raw\n" * (LARGEST_FILE // 4 + 1)
NOBODY, PR_SET_DUMPABLE = 65534, 4

FLOW = """
    workflow: w
    inputs:
      Raw: {type: file, default: raw.csv}
      Folder: {type: directory, default: folder}
    jobs:
      Make:
        uses: shell
        with: {raw: "${{ inputs.Raw }}", run: 'cp "$raw" "$out_T"'}
        outputs: {T: {type: file}}
      Spoil:
        uses: shell
        with:
          raw: "${{ inputs.Raw }}"
          folder: "${{ inputs.Folder }}"
          made: "${{ jobs.Make.outputs.T }}"
          run: |
            for file in "$raw" "$folder/large" "$folder/small" "$made"; do
              { echo mine > "$file"; } 2> /dev/null && echo "wrote $(basename "$file")"
            done > "$out_T"
            realpath --relative-to=.. "$raw" "$folder/large" "$made" >> "$out_T"
        outputs: {T: {type: text, path: spoil.txt}}
      Give:
        uses: python
        with: {call: "give:back", raw: "${{ inputs.Raw }}", made: "${{ jobs.Make.outputs.T }}"}
        outputs: {A: {type: file, path: a.csv}, B: {type: file, path: b.csv}}
    """
GIVE = """
    def back(raw, made):
        assert raw.resolve().parent == made.resolve().parent
        return {"A": raw, "B": made}
    """


@needs_views
def test_a_large_input_cannot_be_written_to_and_shows_no_name(project: Callable[..., Lab]) -> None:
    folder = {"folder/large": LARGE, "folder/small": "s\n"}
    lab = project(FLOW, {"whyrun.toml": 'inputs = "view"\n', "raw.csv": LARGE, "give.py": GIVE, **folder})
    ran = lab.succeed(jobs=1)  # one worker after the other step: nothing of it is left
    assert ran.heard.notes == []
    assert lab.read("spoil.txt") == "wrote small\ninputs/raw.csv\ninputs/folder/large\ninputs/made\n"
    assert [lab.read(path) for path in ("raw.csv", "folder/large", "folder/small")] == [LARGE, LARGE, "s\n"]
    assert [lab.read(path) for path in ("a.csv", "b.csv")] == [LARGE, LARGE]
    (lab.root / "raw.csv").rename(lab.root / "other.csv")
    lab.edit("workflow.yaml", "default: raw.csv", "default: other.csv")
    assert lab.plan().headlines() == {}, "no step can have seen the name"


def test_without_views_the_user_is_told_and_gets_links(
    project: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "why_impossible", lambda folder: "Operation not permitted")
    flow = """
        workflow: w
        inputs: {Raw: {type: file, default: raw.csv}}
        jobs:
          A:
            uses: shell
            with: {raw: "${{ inputs.Raw }}", run: 'basename "$(readlink "$raw")" > "$out_T"'}
            outputs: {T: {type: text, path: t.txt}}
        """
    lab = project(flow, {"whyrun.toml": 'inputs = "view"\n', "raw.csv": LARGE})
    told = "no read-only views of inputs on this machine (Operation not permitted): large inputs are links"
    assert lab.succeed().heard.notes == [told]
    assert lab.read("t.txt") == "raw.csv\n"


def test_the_setting_is_one_of_two_words(project: Callable[..., Lab]) -> None:
    lab = project(FLOW, {"whyrun.toml": 'inputs = "copy"\n', "raw.csv": "", "folder/x": "", "give.py": GIVE})
    with pytest.raises(InvalidError, match='`inputs` is "link" or "view"') as refused:
        lab.opened().config  # noqa: B018
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.line, problem.hint) == ("WRONG_TYPE", 1, 'inputs = "view"')


def test_why_there_are_no_views_is_told(tmp_path: Path) -> None:
    assert why_impossible(tmp_path / "none") == "No such file or directory"


# --- in a process of its own, also as an ordinary user ------------------------------------------------------------


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder in which any user may write; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def in_fork(user: int, check: Callable[[], None]) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.geteuid() == 0 and user:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
                ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)  # as after `exec`: else /proc/self is root's
            check()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def refusal(path: Path) -> int | None:
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError as problem:
        return problem.errno
    return None


@needs_views
@pytest.mark.parametrize("user", [0, NOBODY], ids=["root", "ordinary"])
def test_a_folder_beyond_the_limit_is_a_view_as_a_whole(
    user: int, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_views, "LARGEST_STEP", 2 * 4096)
    source, target = open_folder / "source", open_folder / "target"

    def check() -> None:
        (source / "deep").mkdir(parents=True)
        for name in "abc":
            (source / "deep" / name).write_text(name)
        (source / "link").symlink_to("deep/a")
        own = open_folder / "own"
        own.write_text("read-only")
        own.chmod(0o400)
        enter_namespace()
        copies = PrivateCopies(ReadOnlyViews())
        copies.put(str(source), str(target))
        assert (target / "link").read_text() == "a"
        assert not target.is_symlink()
        assert refusal(target / "deep/b") == errno.EROFS
        if os.geteuid() != 0:
            assert refusal(own) == errno.EACCES, "a user namespace gives no right to write to read-only files"
        copies.end()
        assert list(target.iterdir()) == []

    in_fork(user, check)
    assert list(target.iterdir()) == [], "nobody else saw it"
