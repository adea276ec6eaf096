"""Code that is touched or edited during a run: valid results are kept, and no step starts whose result would not
count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from project_lab import Lab, Ran
from whyrun.actions.code.source_loader import version_of
from whyrun.errors import WhyrunError
from whyrun.execution.bundle.bundle import Bundle, bundle_project, packed_as_planned
from whyrun.execution.dispatch import code_guard
from whyrun.execution.dispatch.code_guard import CodeGuard, NamedCode
from whyrun.log.events import StepFailed, StepStart

Make = Callable[..., Lab]

WORKFLOW = """
    workflow: edited
    loops: {n: {count: 3}}
    jobs:
      Make:
        for: [n]
        uses: python
        retries: 2
        with: {call: "main:make", n: "${{ n }}", at: "%s"}
        outputs: {Text: {type: string}}
"""
MAIN = """\
import pathlib

def make(n, at):
    import helper
    pathlib.Path(at, 'begun').open('a').write(f"{n} ")
    if n == 0:
        %s
    return {"Text": helper.text(n)}
"""
HELPER = "def text(n):\n    return f'text {n}'\n"


def edited(project: Make, do: str) -> Lab:
    """The first of three steps does something to the project, one step at a time."""
    lab = project(WORKFLOW, {"main.py": MAIN % do, "helper.py": HELPER})
    lab.edit("workflow.yaml", "%s", str(lab.root))
    return lab


def failures(ran: Ran) -> dict[str, tuple[str, str]]:
    """By step: those that wait may fail before the first, should a look of the host fall between the two writes."""
    return {event.step_id: (event.error_type, event.error) for event in ran.of(StepFailed)}


@pytest.mark.parametrize(
    "do",
    [
        "pathlib.Path(at, 'helper.py').touch()",
        "pathlib.Path(at, 'main.py').open('a').write('# a comment')",
        "p = pathlib.Path(at, 'helper.py'); p.rename(p.with_name('h')); p.write_text(p.with_name('h').read_text())",
    ],
    ids=["touched", "a comment", "saved by an editor"],
)
def test_an_edit_that_does_not_count_costs_nothing(project: Make, do: str) -> None:
    lab = edited(project, do)
    ran = lab.run(jobs=1)
    assert (ran.exit_code, ran.executed) == (0, ["Job:Make[0]", "Job:Make[1]", "Job:Make[2]"])
    assert lab.plan().planned == []


SAID = "the code of `python` was edited since the plan was made (`helper.py`): "
EDIT = "pathlib.Path(at, 'helper.py').write_text('def text(n):\\n    return str(n)\\n')"


def test_after_an_edit_no_step_starts_and_the_running_one_does_not_count(project: Make) -> None:
    lab = edited(project, EDIT)
    ran = lab.run(jobs=1)
    attempts = {started.step_id: started.attempt for started in ran.of(StepStart)}
    failures = {failed.step_id: (attempts[failed.step_id], failed.error) for failed in ran.of(StepFailed)}
    assert failures == {
        "Job:Make[0]": (1, f"{SAID}the result does not count; run again"),
        "Job:Make[1]": (1, f"{SAID}it was not started; run again"),  # it waited at the backend
        "Job:Make[2]": (1, f"{SAID}it was not started; run again"),
    }
    assert {f.error_type for f in ran.of(StepFailed)} == {"InputChangedDuringRun"}
    assert (ran.exit_code, len(ran.of(StepFailed))) == (1, 3)  # no retries: they would not count
    assert lab.read("begun") == "0 "
    lab.edit("main.py", EDIT, "pass")
    assert lab.succeed().executed == ["Job:Make[0]", "Job:Make[1]", "Job:Make[2]"]


def test_an_edit_that_was_imported_and_reverted_is_detected(project: Make) -> None:
    """No look of the host falls between the two: the worker says what it read."""
    do = (
        "import sys; p = pathlib.Path(at, 'helper.py'); before = p.read_text(); del sys.modules['helper']; "
        "p.write_text(before.replace('text {n}', 'other')); import helper; p.write_text(before)"
    )
    lab = edited(project, do)
    ran = lab.run(jobs=1)
    message = f"{SAID}the result does not count; run again"
    assert failures(ran)["Job:Make[0]"] == ("InputChangedDuringRun", message)
    assert ran.executed == []


def test_the_same_in_a_process_of_its_own(project: Make) -> None:
    """Steps with `env` are executed in a process that ends with them."""
    do = (
        "p = pathlib.Path(at, 'helper.py'); before = p.read_text(); del __import__('sys').modules['helper']; "
        "p.write_text(before.replace('text {n}', 'other')); import helper; p.write_text(before)"
    )
    lab = edited(project, do)
    lab.edit("workflow.yaml", "uses: python", "uses: python\n    env: {A: x}")
    assert failures(lab.run(jobs=1))["Job:Make[0]"][0] == "InputChangedDuringRun"


SCRIPTS = """
    workflow: edited
    jobs:
      Edit: {uses: python, with: {call: "edit:script", at: "%s"}, outputs: {Done: {type: boolean}}}
      Make: {uses: python, with: {script: "make.py"}, outputs: {Text: {type: text}}}
"""
SCRIPT = "context.output('Text').write_text('one')\n"
# What it puts in place of the script does other work, and puts the script back before the host looks again.
EDITS = """\
import pathlib
def script(at):
    it = pathlib.Path(at, 'make.py')
    back = f"import pathlib; pathlib.Path({str(it)!r}).write_text({it.read_text()!r})\\n"
    it.write_text("context.output('Text').write_text('two')\\n" + back)
    return {'Done': True}
"""


def test_a_script_that_was_edited_when_it_was_read_is_detected(project: Make) -> None:
    lab = project(SCRIPTS, {"make.py": SCRIPT, "edit.py": EDITS})
    lab.edit("workflow.yaml", "%s", str(lab.root))
    ran = lab.run(jobs=1)
    assert (ran.executed, ran.failed) == (["Job:Edit"], {"Job:Make": ("FAILED", "InputChangedDuringRun")})
    lab.edit("edit.py", "    it.write_text", "    #")
    lab.write({"make.py": SCRIPT})
    assert lab.succeed().executed == ["Job:Edit", "Job:Make"]
    assert lab.content("Artifact:Make.Text") == "one"


# A package goes before a module of the same name. It is gone again when the host looks next.
PACKAGE = """\
import pathlib, shutil, sys

def make(n, at):
    folder = pathlib.Path(at, 'helper')
    if n == 0:
        folder.mkdir()
        (folder / '__init__.py').write_text("def text(n):\\n    return 'from a package'\\n")
    import helper
    shutil.rmtree(folder, ignore_errors=True)
    return {"Text": helper.text(n)}
"""


@pytest.mark.parametrize("stays", [False, True])
def test_a_module_that_appears_during_a_run_and_is_imported_is_detected(project: Make, stays: bool) -> None:
    code = PACKAGE.replace("    shutil.rmtree", "    stays or shutil.rmtree") + f"\nstays = {stays}\n"
    lab = project(WORKFLOW, {"main.py": code, "helper.py": HELPER})
    lab.edit("workflow.yaml", "%s", str(lab.root))
    ran = lab.run(jobs=1)
    assert ran.executed == []
    assert {f.error_type for f in ran.of(StepFailed)} == {"InputChangedDuringRun"}
    said = "the code of `python` was edited since the plan was made (`helper/__init__.py`): the result does not count"
    assert ran.of(StepFailed)[0].error == f"{said}; run again"
    assert ran.heard.notes == []  # the plan of now counts it, where it is still there
    if stays:  # and it is other code for the next plan
        lab.edit("main.py", "if n == 0:", "if False:")
        assert lab.succeed().executed == ["Job:Make[0]", "Job:Make[1]", "Job:Make[2]"]
        assert lab.content("Artifact:Make.Text[0]") == "from a package"


BY_NAME = """\
import importlib, pathlib

def make(n, at):
    name = "".join(["by", "_", "name"])  # that no reading finds
    return {"Text": importlib.import_module(name).text(n)}
"""


def test_a_module_imported_by_a_computed_name_is_allowed(project: Make) -> None:
    lab = project(WORKFLOW, {"main.py": BY_NAME, "by_name.py": HELPER})
    ran = lab.succeed()
    assert ran.executed == ["Job:Make[0]", "Job:Make[1]", "Job:Make[2]"]
    assert ran.heard.notes == []
    assert lab.plan().planned == []  # though it counts, since it was seen
    lab.edit("workflow.yaml", "uses: python", 'uses: python\n    code: ["by_name.py"]')
    named = lab.succeed()
    assert (named.executed, named.heard.notes) == (["Job:Make[0]", "Job:Make[1]", "Job:Make[2]"], [])


PROMPTS = """
    workflow: edited
    loops: {n: {count: 2}}
    jobs:
      Make:
        for: [n]
        uses: python
        code: ["prompt.txt"]
        with: {call: "main:make", n: "${{ n }}", at: "%s"}
        outputs: {Text: {type: string}}
"""
READS_A_PROMPT = """\
import pathlib

def make(n, at):
    prompt = pathlib.Path(at, 'prompt.txt')
    if n == 0:
        before = prompt.read_text()
        prompt.write_text('another')
        said = prompt.read_text()
        prompt.write_text(before)
        return {"Text": said}
    return {"Text": prompt.read_text()}
"""


def test_a_write_to_a_file_of_code_while_a_step_runs_counts_even_if_it_is_reverted(project: Make) -> None:
    """Nobody says when it was read. What starts later reads what was planned with."""
    lab = project(PROMPTS, {"main.py": READS_A_PROMPT, "prompt.txt": "the prompt"})
    lab.edit("workflow.yaml", "%s", str(lab.root))
    ran = lab.run(jobs=1)
    said = f"{SAID.replace('helper.py', 'prompt.txt')}the result does not count; run again"
    (failed,) = [event for event in ran.of(StepFailed) if event.step_id == "Job:Make[0]"]
    assert (failed.error_type, failed.error) == ("InputChangedDuringRun", said)


OTHERS = """
    workflow: edited
    loops: {n: {count: 3}}
    jobs:
      Make: {uses: python, with: {call: "main:make", n: 0, at: "%s"}, outputs: {Text: {type: string}}}
      Other:
        for: [n]
        uses: python
        with: {call: "other:make", n: "${{ n }}"}
        outputs: {Text: {type: string}}
"""


def test_queued_steps_whose_code_was_not_edited_go_on(project: Make) -> None:
    other = "def make(n):\n    return {'Text': str(n)}\n"
    lab = project(OTHERS, {"main.py": MAIN % EDIT, "helper.py": HELPER, "other.py": other})
    lab.edit("workflow.yaml", "%s", str(lab.root))
    ran = lab.run(jobs=1)
    assert sorted(ran.executed) == ["Job:Other[0]", "Job:Other[1]", "Job:Other[2]"]
    assert ran.failed == {"Job:Make": ("FAILED", "InputChangedDuringRun")}


PATTERN = """
    workflow: edited
    jobs:
      First: {uses: shell, with: {run: 'echo %s > "%s/prompts/b.txt"; echo 1 > "$out_T"'}, outputs: {T: {type: text}}}
      Second:
        needs: [First]
        uses: shell
        code: ["prompts/*.txt"]
        with: {at: "%s", run: 'cat "$at"/prompts/*.txt > "$out_T"'}
        outputs: {T: {type: text}}
"""


def test_a_file_that_starts_to_match_a_pattern_of_code_during_a_run_is_an_edit(project: Make) -> None:
    lab = project("workflow: x", {"prompts/a.txt": "the prompt\n"})
    lab.write({"workflow.yaml": PATTERN % ("stray", lab.root, lab.root)})
    ran = lab.run(jobs=1)
    assert ran.executed == ["Job:First"]
    (failed,) = ran.of(StepFailed)
    said = "the code of `shell` was edited since the plan was made (`prompts/b.txt`): it was not started; run again"
    assert (failed.step_id, failed.error_type, failed.error) == ("Job:Second", "InputChangedDuringRun", said)
    (lab.root / "prompts/b.txt").unlink()
    assert lab.plan().headlines() == {"Job:Second": "RETRY_PREVIOUS_FAILURE"}


READS_AT_IMPORT = """\
import pathlib, reader

def make(n, at):
    if n == 0 and {fails}:
        raise ValueError("a failure of its own")
    return {{"Text": reader.SAID}}
"""
READER = """\
import pathlib
prompt = pathlib.Path(__file__).with_name('prompt.txt')
before = prompt.read_text()
prompt.write_text('another')
SAID = prompt.read_text()
prompt.write_text(before)
"""


@pytest.mark.parametrize("fails", [False, True])
def test_a_worker_that_may_have_cached_a_written_file_makes_no_result_that_counts(project: Make, fails: bool) -> None:
    """It is in the memory of a process that goes on, whatever became of the step that read it."""
    workflow = PROMPTS.replace("count: 2", "count: 6")
    files = {"main.py": READS_AT_IMPORT.format(fails=fails), "reader.py": READER, "prompt.txt": "the prompt"}
    lab = project(workflow, files)
    lab.edit("workflow.yaml", "%s", str(lab.root))
    ran = lab.run(jobs=1)
    assert ran.executed == []
    kinds = {event.step_id: event.error_type for event in ran.of(StepFailed)}
    edited = {f"Job:Make[{n}]": "InputChangedDuringRun" for n in range(6)}
    assert kinds == (edited | {"Job:Make[0]": "ValueError"} if fails else edited)


# --- the guard alone ---


def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_current: Callable[[str], bool]) -> CodeGuard:
    monkeypatch.setattr(code_guard, "POLL_INTERVAL", 0.0)
    (tmp_path / "m.py").write_text("a = 1\n")
    return CodeGuard(str(tmp_path), {"Job": ["m.py"], "Other": []}, is_current)


def test_a_job_without_files_never_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = guard(tmp_path, monkeypatch, lambda job: job == "Job")
    assert (watched.edited_file("Other"), watched.edited_file("Job")) == (None, None)


def test_code_that_changed_before_the_run_is_found_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert guard(tmp_path, monkeypatch, lambda job: False).edited_file("Job") == "m.py"


def test_a_file_that_is_gone_is_changed_until_it_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = guard(tmp_path, monkeypatch, lambda job: True)
    (tmp_path / "m.py").rename(tmp_path / "n.py")
    watched.poll()
    assert watched.edited_file("Job") == "m.py"
    (tmp_path / "n.py").rename(tmp_path / "m.py")
    watched.refresh()
    assert watched.edited_file("Job") is None


def test_an_edit_that_was_seen_counts_after_it_was_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    current = True
    watched = guard(tmp_path, monkeypatch, lambda job: current)
    (tmp_path / "m.py").write_text("a = 22\n")
    current = False
    watched.poll()
    (tmp_path / "m.py").write_text("a = 1\n")
    current = True
    watched.refresh()
    assert watched.edited_file("Job") == "m.py"


def test_what_was_read_must_be_a_version_that_was_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = guard(tmp_path, monkeypatch, lambda job: True)
    first = version_of(str(tmp_path / "m.py"))
    (tmp_path / "m.py").write_text("a = 1 # why\n")
    second = version_of(str(tmp_path / "m.py"))
    watched.loaded({"m.py": first})
    watched.loaded({"m.py": second})
    assert watched.edited_file("Job") is None
    watched.loaded({"m.py": (1, 2, 3)})
    assert watched.edited_file("Job") == "m.py"


def test_a_file_that_no_plan_knows_must_stay_as_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    watched = guard(tmp_path, monkeypatch, lambda job: not asked.append(job))
    (tmp_path / "n.py").write_text("b = 1\n")
    watched.loaded({"n.py": version_of(str(tmp_path / "n.py"))})
    watched.refresh()
    assert (watched.edited_file("Job"), asked) == (None, ["Job", "Job"])  # it was asked once more, and once is enough
    watched.poll()
    assert asked == ["Job", "Job"]
    (tmp_path / "n.py").unlink()
    watched.poll()
    assert watched.edited_file("Job") == "n.py"


@pytest.mark.parametrize("version", [None, (1, 2, 3)])
def test_a_file_that_no_plan_knows_and_that_is_another_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int] | None
) -> None:
    watched = guard(tmp_path, monkeypatch, lambda job: True)
    (tmp_path / "n.py").write_text("b = 1\n")
    watched.loaded({"n.py": version})
    assert (watched.edited_file("Job"), watched.edited_file("Other")) == ("n.py", None)


def test_a_file_that_no_plan_knows_is_the_same_for_all_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = guard(tmp_path, monkeypatch, lambda job: True)
    for text in ("b = 1\n", "b = 22\n"):
        (tmp_path / "n.py").write_text(text)
        watched.loaded({"n.py": version_of(str(tmp_path / "n.py"))})
    assert watched.edited_file("Job") == "n.py"


def test_a_write_counts_for_what_was_handed_out_before_unless_a_worker_tells_what_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = guard(tmp_path, monkeypatch, lambda job: True)
    before = watched.versions("Job")
    (tmp_path / "m.py").write_text("a = 1\n")
    watched.refresh()
    assert watched.edited_while_running("Job", before) == "m.py"
    assert watched.edited_while_running("Job", watched.versions("Job")) is None
    watched.loaded({"m.py": version_of(str(tmp_path / "m.py"))})
    assert watched.edited_while_running("Job", before) is None
    assert watched.edited_file("Job") is None


def test_what_a_worker_tells_says_nothing_of_others_who_read_a_file_that_code_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was written to may be kept by a worker for all steps to come, of every job that names it."""
    monkeypatch.setattr(code_guard, "POLL_INTERVAL", 0.0)
    (tmp_path / "m.py").write_text("a = 1\n")
    files = {"Imports": ["m.py"], "Reads": ["m.py"], "Also": ["m.py"]}
    named = NamedCode(tmp_path, {"Imports": (), "Reads": ("*.py",), "Also": ("m.py",)})
    watched = CodeGuard(str(tmp_path), files, lambda job: True, named)
    watched.loaded({"m.py": version_of(str(tmp_path / "m.py"))})
    before = watched.versions("Reads")
    (tmp_path / "m.py").write_text("a = 1\n")
    watched.refresh()
    assert watched.edited_while_running("Imports", before) is None
    assert watched.edited_while_running("Reads", before) == "m.py"
    assert {job: watched.edited_file(job) for job in files} == {"Imports": None, "Reads": "m.py", "Also": "m.py"}
    assert watched.edits == 2


def test_a_file_that_comes_under_a_pattern_is_an_edit_of_its_jobs_also_when_it_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_guard, "POLL_INTERVAL", 0.0)
    for name in ("a.txt", "m.py"):
        (tmp_path / name).write_text("a = 1\n")
    files = {"Wild": ["a.txt"], "One": ["a.txt"], "None": ["m.py"]}
    named = NamedCode(tmp_path, {"Wild": ("*.txt",), "One": ("a.txt",), "None": ()})
    watched = CodeGuard(str(tmp_path), files, lambda job: True, named)
    assert {job: watched.edited_file(job) for job in files} == {"Wild": None, "One": None, "None": None}
    (tmp_path / "b.txt").write_text("b")
    watched.poll()
    (tmp_path / "b.txt").unlink()
    watched.refresh()
    assert {job: watched.edited_file(job) for job in files} == {"Wild": "b.txt", "One": None, "None": None}


def test_patterns_that_are_slow_to_follow_are_given_a_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("a")
    monkeypatch.setattr(code_guard, "SLOW_PATTERN", 0.0)
    monkeypatch.setattr(code_guard, "SLOW_PATTERN_PAUSE", 1e6)
    named = NamedCode(tmp_path, {"Job": ("*.txt",)})
    assert named.matches("Job") == {"a.txt"}
    (tmp_path / "b.txt").write_text("b")
    named.refresh()
    assert named.matches("Job") == {"a.txt"}
    monkeypatch.setattr(code_guard, "SLOW_PATTERN", 3600.0)
    named = NamedCode(tmp_path, {"Job": ("*.txt",)})
    assert named.matches("Job") == {"a.txt", "b.txt"}
    (tmp_path / "c.txt").write_text("c")
    assert named.matches("Job") == {"a.txt", "b.txt"}
    named.refresh()
    assert named.matches("Job") == {"a.txt", "b.txt", "c.txt"}


def test_a_file_of_many_jobs_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    (tmp_path / "m.py").write_text("a = 1\n")
    watched = CodeGuard(str(tmp_path), {str(n): ["m.py"] for n in range(50)}, lambda job: True)
    monkeypatch.setattr(code_guard, "POLL_INTERVAL", 0.0)
    monkeypatch.setattr(code_guard, "version_of", lambda path: (looked.append(path), version_of(path))[1])
    watched.poll()
    assert looked == [str(tmp_path / "m.py")]


def test_a_file_that_changed_while_it_was_read_is_not_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = guard(tmp_path, monkeypatch, lambda job: True)
    watched.loaded({"m.py": None})
    assert watched.edited_file("Job") == "m.py"


def test_a_file_that_is_edited_while_it_is_looked_at_is_looked_at_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version and its content are two looks: the version is right only if it was the same before and after."""
    asked: list[str] = []

    def is_current(job: str) -> bool:
        asked.append(job)
        if len(asked) == 2:
            (tmp_path / "m.py").write_text("a = 1  # written while it is read\n")
        return True

    watched = guard(tmp_path, monkeypatch, is_current)
    (tmp_path / "m.py").write_text("a = 1  # first\n")
    between = version_of(str(tmp_path / "m.py"))
    watched.poll()
    assert asked == ["Job", "Job", "Job"]
    watched.loaded({"m.py": between})
    assert watched.edited_file("Job") == "m.py"


# --- what goes elsewhere -----------------------------------------------------------------------------------------


def packing(lab: Lab, *edits: tuple[str, str]) -> tuple[Callable[[], Bundle], list[str]]:
    """Packs the project, and before each edits a module, as (what is packed, what is left there afterwards)."""
    packed: list[str] = []

    def pack() -> Bundle:
        while_packed, afterwards = edits[len(packed)] if len(packed) < len(edits) else (HELPER, HELPER)
        if (while_packed, afterwards) != (HELPER, HELPER):
            lab.write({"helper.py": while_packed})
        bundle = bundle_project(lab.root)
        packed.append(lab.read("helper.py"))
        if while_packed != afterwards:
            lab.write({"helper.py": afterwards})
        return bundle

    return pack, packed


EDITED = HELPER.replace("return ", "return 'edited' or ")


def test_what_goes_elsewhere_is_what_was_planned_with_also_where_an_edit_was_taken_back(project: Make) -> None:
    lab = project(WORKFLOW % "here", {"main.py": MAIN % "pass", "helper.py": HELPER})
    opened = lab.opened()
    assert sorted(opened.actions["Make"].files) == ["helper.py", "main.py"]
    pack, packed = packing(lab, (EDITED, HELPER))
    bundle = packed_as_planned(opened, pack)
    assert packed == [EDITED, HELPER]
    assert bundle.sha256 == bundle_project(lab.root).sha256


def test_code_that_was_edited_since_the_plan_goes_nowhere(project: Make) -> None:
    lab = project(WORKFLOW % "here", {"main.py": MAIN % "pass", "helper.py": HELPER})
    opened = lab.opened()
    assert opened.actions["Make"].files
    pack, _ = packing(lab, (EDITED, EDITED), (EDITED, EDITED), (EDITED, EDITED), (EDITED, EDITED), (EDITED, EDITED))
    with pytest.raises(WhyrunError) as refused:
        packed_as_planned(opened, pack)
    assert str(refused.value).splitlines()[0] == (
        "error[PLAN_STALE]: the code of `Make` was edited while the run was prepared"
    )


def test_code_that_is_written_to_without_end_goes_nowhere(project: Make) -> None:
    lab = project(WORKFLOW % "here", {"main.py": MAIN % "pass", "helper.py": HELPER})
    opened = lab.opened()
    assert opened.actions["Make"].files
    pack, packed = packing(lab, *[(EDITED, HELPER)] * 9)
    with pytest.raises(WhyrunError) as refused:
        packed_as_planned(opened, pack)
    assert str(refused.value).splitlines()[0] == (
        "error[PLAN_STALE]: code of the project was written to again and again while the run was prepared"
    )
    assert packed == [EDITED] * 5
