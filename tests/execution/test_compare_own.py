"""Actions that bring their own comparer; it is user code, and runs where the action runs."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from compare_lab import compare

from project_lab import Lab
from whyrun.log import events as ev

Project = Callable[..., Lab]

WORKFLOW = """
    workflow: w
    jobs:
      J: {uses: my/thing, outputs: {T: {type: text, path: out/t.txt}, U: {type: text}}}
"""

FUNCTION = """
    import os
    from pathlib import Path

    from whyrun import Comparison, action

    WORD = "one"


    def compare(output, old_path, new_path):
        Path(os.environ["HOME"]).joinpath("x").write_text("it may write where a step may")
        old, new = old_path.read_text(), new_path.read_text()
        old_path.write_text("harmless: it is a copy")
        ANSWER


    @action("my/thing", outputs={"T": "text", "U": "text"}, compare=compare)
    def thing():
        return {"T": WORD, "U": "always"}
"""

CLASS = """
    from whyrun import Action, Comparison


    class Thing(Action):
        name = "my/thing"
        outputs = {"T": "text", "U": "text"}
        word = "one"

        def run(self, inputs, mode="run", context=None, logger=None):
            return {"T": self.word, "U": "always"}

        def compare(self, output, old_path, new_path):
            old, new = old_path.read_text(), new_path.read_text()
            ANSWER
"""


def changed(project: Project, code: str, answer: str) -> Lab:
    """After a run, with an action that says another word."""
    lab = project(WORKFLOW, {"actions/thing.py": code.replace("ANSWER", answer)})
    lab.succeed()
    lab.edit("actions/thing.py", '"one"', '"two"')
    return lab


@pytest.mark.parametrize("code", [FUNCTION, CLASS], ids=["function", "class"])
@pytest.mark.parametrize(
    ("answer", "status", "summary", "details"),
    [
        ("return f'{output}: {old} became {new}'", "DIFFERENT", "T: one became two", []),
        ("return ''", "IDENTICAL", "unchanged", []),
        ("return None", "DIFFERENT", "1 line changed", ["line 1: `one` → `two`"]),
        ("return Comparison(False, '2 words', ('one', 'two'))", "DIFFERENT", "2 words", ["one", "two"]),
        ("return Comparison(True, details=('near enough',))", "IDENTICAL", "unchanged", ["near enough"]),
        ("return old_path.name + new_path.name", "DIFFERENT", "T.txtT.txt", []),
    ],
)
def test_valid_answers_of_a_comparer(
    project: Project, code: str, answer: str, status: str, summary: str, details: list[str]
) -> None:
    lab = changed(project, code, answer)
    found = compare(lab)
    by_artifact = {e.artifact: e for e in found.of(ev.Comparison)}
    told = by_artifact["Artifact:J.T"]
    assert (told.status, told.summary, told.details) == (status, summary, details)
    # The other output is the same, byte for byte: nobody is asked.
    assert (by_artifact["Artifact:J.U"].status, by_artifact["Artifact:J.U"].summary) == ("IDENTICAL", "unchanged")
    assert found.result.exit_code == (status == "DIFFERENT")
    assert lab.content("Artifact:J.T") == "one"


def test_a_comparer_that_raises_fails_the_step(project: Project) -> None:
    found = compare(changed(project, FUNCTION, "raise KeyError('no such graph')"))
    (failed,) = found.of(ev.StepFailed)
    assert (failed.error_type, failed.error) == ("KeyError", "'no such graph'")
    assert "in compare" in failed.traceback
    assert (found.result.exit_code, found.comparisons) == (1, {})


def test_a_comparer_with_an_invalid_answer_fails_the_step(project: Project) -> None:
    found = compare(changed(project, FUNCTION, "return old == new"))
    (failed,) = found.of(ev.StepFailed)
    assert (failed.error_type, failed.error) == (
        "WrongComparison",
        "the comparer of the action returned bool for `T`: return a Comparison, a text, or None",
    )


def test_an_endless_answer_is_bounded(project: Project) -> None:
    answer = "return Comparison(False, 'x' * 1000000, tuple('y' * 1000 for _ in range(1000)))"
    (told,) = [
        e
        for e in compare(changed(project, FUNCTION, answer)).of(ev.Comparison)
        if e.artifact == "Artifact:J.T"
    ]  # fmt: skip
    assert (len(told.summary), len(told.details), told.more) == (200, 20, 980)
    assert {len(detail) for detail in told.details} == {200}


def test_a_comparer_runs_in_the_process_of_the_step(project: Project) -> None:
    lab = changed(project, FUNCTION, "return str(os.getpid())")
    (told,) = [e for e in compare(lab).of(ev.Comparison) if e.artifact == "Artifact:J.T"]
    assert told.summary.isdecimal()
    assert int(told.summary) != os.getpid()


def test_a_comparer_leaks_no_secret(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "open-sesame-12345")
    uses = 'uses: my/thing, secrets: [TOKEN], env: {TOKEN: "${{ secrets.TOKEN }}"},'
    workflow = WORKFLOW.replace("uses: my/thing,", uses)
    code = FUNCTION.replace("ANSWER", "return 'it is ' + os.environ['TOKEN']")
    lab = project(workflow, {"actions/thing.py": code})
    lab.succeed()
    lab.edit("actions/thing.py", '"one"', '"two"')
    found = compare(lab)
    assert found.folder is not None
    written = b"".join(path.read_bytes() for path in found.folder.rglob("*") if path.is_file())
    assert b"open-sesame" not in written
    (told,) = [e for e in found.of(ev.Comparison) if e.artifact == "Artifact:J.T"]
    assert told.summary == "it is ***"


def test_the_comparer_belongs_to_the_code_of_the_action(project: Project) -> None:
    """A result does not depend on it; but nobody can tell which code of a module a result depends on."""
    lab = project(WORKFLOW, {"actions/thing.py": FUNCTION.replace("ANSWER", "return None")})
    lab.succeed()
    lab.edit("actions/thing.py", "return None", "return ''")
    assert lab.plan().headlines() == {"Job:J": "INPUT_CHANGED"}
