"""Questions to the asked process: real files, real processes; and what happens when they misbehave."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from project_lab import wait_until
from whyrun.actions.description import ActionInfo, Description, ParameterInfo
from whyrun.actions.inspection.inspector import Inspector
from whyrun.actions.inspection.messages import WithBlock, encode_value
from whyrun.actions.problem import Bound
from whyrun.actions.registry.registry import find_action

LEARN = """
    import os, sys
    from typing import Annotated
    from whyrun import Action, File, Meta, Parameters

    print("chatter", flush=True)
    os.write(1, b'{"description": {}}' + bytes([10]))
    sys.stderr.write("more chatter")
    with open("TRACE", "a") as file:
        file.write("imported ")

    class Learn(Action):
        '''Learn a graph.'''
        name, version = "learn", "1.2"
        outputs = {"graph": "file"}
        class Params(Parameters):
            data: File
            alpha: Annotated[float, Meta(gt=0, description="how sure")] = 0.5
        def run(self, inputs): ...
        def estimate_runtime(self, inputs):
            return inputs["alpha"] * 2
"""


# The process is started for real, as a child of this one.
pytestmark = pytest.mark.real_start

Make = Callable[..., Inspector]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "actions").mkdir(parents=True)
    return folder


@pytest.fixture
def inspector(project: Path) -> Iterator[Make]:
    made: list[Inspector] = []

    def make(cache: Path | None = None, timeout: float = 60.0) -> Inspector:
        made.append(Inspector(project, cache, timeout))
        return made[-1]

    yield make
    for one in made:
        one.close()


def action(project: Path, text: str, name: str = "learn") -> ActionInfo:
    (project / "actions" / "mine.py").write_text(source(project, text))
    return find_action(name, project)


def source(project: Path, text: str) -> str:
    """What an import leaves behind shows that there was one."""
    return dedent(text).replace("TRACE", str(project / "trace"))


def imports(project: Path) -> int:
    trace = project / "trace"
    return len(trace.read_text().split()) if trace.exists() else 0


def test_an_action_describes_itself_whatever_it_prints(project: Path, inspector: Make) -> None:
    assert inspector().describe(action(project, LEARN)) == Description(
        version="1.2",
        outputs={"graph": "file"},
        summary="Learn a graph.",
        parameters=[
            ParameterInfo("data", "a file", required=True),
            ParameterInfo("alpha", "a number > 0", default="0.5", description="how sure"),
        ],
        typed=True,
        hooks=["estimate_runtime"],
    )


def test_one_process_answers_many_questions_and_ends_when_nobody_asks_any_more(project: Path, inspector: Make) -> None:
    one, info = inspector(), action(project, LEARN)
    assert one.check(info, {"data": Bound("file"), "alpha": 1}) == []
    assert [p.message for p in one.check(info, {"alpha": "x"})] == [
        "the action `learn` needs the parameter `data`",
        '`alpha` is "x"; it takes a number > 0',
    ]
    blocks = [
        WithBlock({"alpha": 3}, missing=["data"]),
        WithBlock({}, missing=["data"]),
        WithBlock(encode_value({"data": Path(__file__), "alpha": -1})),
    ]
    refused = "InvalidParameter: `alpha` is -1; it takes a number > 0"
    assert one.call(info, "estimate_runtime", blocks) == [{"value": 6.0}, {"value": 1.0}, {"error": refused}]
    assert imports(project) == 1
    assert [line.split()[3] for line in children() if str(project) in line] == [
        "whyrun.actions.inspection.inspector_main"
    ]
    one.close()
    assert not [line for line in children() if str(project) in line]


def test_one_that_went_is_replaced(project: Path, inspector: Make) -> None:
    one, info = inspector(), action(project, LEARN)
    block = [WithBlock({}, missing=["data"])]
    assert one.call(info, "estimate_runtime", block) == [{"value": 1.0}]
    (gone,) = [pid for pid, line in processes() if str(project) in line]
    os.kill(gone, 9)
    os.waitid(os.P_PID, gone, os.WEXITED | os.WNOWAIT)  # until it is dead; whose child it is, is still to hear of it
    assert one.call(info, "estimate_runtime", block) == [{"value": 1.0}]
    assert imports(project) == 2


def children() -> list[str]:
    return [line for _, line in processes()]


def processes() -> list[tuple[int, str]]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == os.getpid():
                    found.append((int(folder.name), (folder / "cmdline").read_text().replace("\0", " ")))
            except OSError:
                continue  # it has ended meanwhile
    return found


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("import nowhere\n", "ModuleNotFoundError: No module named 'nowhere' (actions/mine.py:1)"),
        ("\n\n1 / 0\n", "ZeroDivisionError: division by zero (actions/mine.py:3)"),
        ("raise SystemExit(3)\n", "SystemExit: 3 (actions/mine.py:1)"),
        (
            "import os\nprint('on my way', flush=True)\nos._exit(7)\n",
            "the process that imported it ended with exit status 7 after: …on my way",
        ),
        ("import os, signal\nos.kill(os.getpid(), 9)\n", "the process that imported it ended with signal 9"),
    ],
)
def test_code_that_cannot_be_imported_gives_a_reason(project: Path, inspector: Make, text: str, answer: str) -> None:
    info = action(project, LEARN)
    (project / "actions" / "mine.py").write_text(text)
    one = inspector()
    assert one.describe(info) == answer
    assert isinstance(one.describe(other_action(project)), Description), "the next question gets a process of its own"


def other_action(project: Path) -> ActionInfo:
    (project / "actions" / "other.py").write_text(source(project, LEARN))
    return ActionInfo("learn", "1.2", "project", "actions/other.py", "Learn")


def test_code_that_takes_too_long_to_import_is_not_waited_for(project: Path, inspector: Make) -> None:
    info = action(project, LEARN)
    (project / "actions" / "mine.py").write_text("import time\ntime.sleep(600)\n")
    one = inspector(timeout=1.0)
    assert one.describe(info) == "it did not answer within 1 s"
    # The next question gets a process of its own; on a slow machine that one takes too long as well at first.
    wait_until(lambda: isinstance(one.describe(other_action(project)), Description))


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ("class Learn(Action):\n    name = 'learn'\n", "`Learn` has no `run` method"),
        (
            "class Learn(Action):\n    name = 'learn'\n    class Params: pass\n    def run(self, inputs): ...\n",
            "`Learn.Params` is not a subclass of `whyrun.Parameters`",
        ),
        (
            "class Learn(Action):\n    name = 'learn'\n    outputs = {'g': 'grph'}\n    def run(self, inputs): ...\n",
            "its output `g` has the type 'grph'; the types are boolean, integer, number, string, json, file, "
            "directory, image, text, dataset",
        ),
        (
            "class Learn(Action):\n    name = 'learn'\n    version = 3\n    def run(self, inputs): ...\n",
            "`Learn.version` must be a text, not int",
        ),
        (
            "from whyrun import Parameters\nclass Learn(Action):\n    name = 'learn'\n    class Params(Parameters):\n"
            "        x: 'Nothing'\n    def run(self, inputs): ...\n",
            "`Learn.Params` has a type that cannot be checked: name 'Nothing' is not defined",
        ),
    ],
)
def test_a_class_that_does_not_fit_is_told_why(project: Path, inspector: Make, body: str, answer: str) -> None:
    assert inspector().describe(action(project, f"from whyrun import Action\n{body}")) == answer


def test_answers_are_kept_as_long_as_the_code_is_the_same(project: Path, inspector: Make, tmp_path: Path) -> None:
    cache = tmp_path / "state" / "answers"
    given = {"data": Bound("file"), "alpha": -1}

    def ask() -> list[str]:
        one = inspector(cache)
        info = find_action("learn", project)
        assert isinstance(one.describe(info), Description)
        found = [problem.message for problem in one.check(info, given)]
        one.save()
        one.close()
        return found

    action(project, LEARN)
    assert ask() == ["`alpha` is -1; it takes a number > 0"]
    assert not cache.exists(), "no state folder is made for it"
    cache.parent.mkdir()
    assert ask() == ["`alpha` is -1; it takes a number > 0"]
    assert imports(project) == 2
    assert ask() == ["`alpha` is -1; it takes a number > 0"]
    assert imports(project) == 2, "kept"
    file = project / "actions" / "mine.py"
    file.write_text(file.read_text() + "# a comment\n")
    assert ask() == ["`alpha` is -1; it takes a number > 0"]
    assert imports(project) == 2, "a comment changes nothing"
    file.write_text(file.read_text().replace("gt=0", "gt=-5"))
    assert ask() == []
    assert imports(project) == 3
    given["alpha"] = -7
    assert ask() == ["`alpha` is -7; it takes a number > -5"]
    assert imports(project) == 4
    for damage in (b"", b"nonsense", cache.read_bytes()[:-1]):
        cache.write_bytes(damage)
        assert ask() == ["`alpha` is -7; it takes a number > -5"]


def test_an_answer_lasts_no_longer_than_the_modules_that_only_running_the_code_names(
    project: Path, inspector: Make, tmp_path: Path
) -> None:
    info = action(project, LEARN)
    file = project / "actions" / "mine.py"
    named = "import importlib\nLIMIT = importlib.import_module('lim' + 'it').LIMIT\n"
    file.write_text(named + file.read_text().replace("gt=0", "gt=LIMIT"))
    helper = project / "limit.py"

    def ask() -> list[str]:
        one = inspector(tmp_path / "answers")
        found = [problem.message for problem in one.check(info, {"data": Bound("file"), "alpha": 3})]
        one.save()
        one.close()
        return found

    helper.write_text("LIMIT = 5\n")
    assert ask() == ask() == ["`alpha` is 3; it takes a number > 5"]
    assert imports(project) == 1, "kept"
    helper.write_text("LIMIT = 2\n")
    assert ask() == []
    assert imports(project) == 2


def test_a_failure_is_asked_again(project: Path, inspector: Make, tmp_path: Path) -> None:
    info = action(project, LEARN)
    (project / "actions" / "mine.py").write_text(
        f"import sys\nsys.path.append({str(tmp_path)!r})\nimport late\n" + source(project, LEARN)
    )
    one = inspector(tmp_path / "answers")
    assert str(one.describe(info)).startswith("ModuleNotFoundError: No module named 'late'")
    one.save()
    (tmp_path / "late.py").write_text("")
    assert isinstance(inspector(tmp_path / "answers").describe(info), Description)


def test_nothing_of_the_hosts_environment_is_seen(project: Path, inspector: Make) -> None:
    text = """
        import os, sys
        from whyrun import Action
        class Learn(Action):
            name = "learn"
            example = ",".join(sorted(os.environ)) + " " + os.getcwd().rpartition("/")[2][:17] + " " + str(sys.argv)
            def run(self, inputs): ...
            def estimate_runtime(self, inputs): return 1
    """
    os.environ["A_SECRET_OF_THE_HOST"] = "x"
    try:
        described = inspector().describe(action(project, text))
    finally:
        del os.environ["A_SECRET_OF_THE_HOST"]
    assert isinstance(described, Description)
    names, folder, argv = described.example.split(" ", 2)
    assert set(names.split(",")) <= {"HOME", "LANG", "LC_CTYPE", "PATH", "TMPDIR"}
    assert (folder, argv) == ("whyrun-inspector-", "['whyrun-inspector']")
    assert "late" not in sys.modules
