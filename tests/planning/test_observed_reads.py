"""What steps were seen to read without declaring it: a change of it is a reason, and reuse wants it as it was."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from forging import forge_events
from observed_lab import absent, file, folder, saw
from project_lab import Heard, Lab, codes, reasons
from whyrun.errors import WhyrunError
from whyrun.evidence.verify.verify import verify
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.execution.adopt.keep import keep_results
from whyrun.execution.dispatch.watch import jobs_to_trace
from whyrun.facts.plans import plan_of_run
from whyrun.log import events as ev
from whyrun.log.reads import Read, folder_sha256, name_changes
from whyrun.planning.plan import Plan, compute_execution_plan
from whyrun.snapshot.history.reader import History
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob
from whyrun.snapshot.reads import package_changes
from whyrun.workflow.model import EnvironmentDecl

Make = Callable[..., Lab]

FLOW = """
    workflow: w
    inputs: {Two: {type: "integer[]", default: [0, 1]}}
    loops: {i: {each: inputs.Two}}
    jobs:
      Fit:
        for: [i]
        uses: shell
        with: {i: "${{ i }}", run: 'echo "$i" > "$out_Text"'}
        outputs: {Text: {type: text, path: "out/fit-${{ i }}.txt"}}
      Sum:
        uses: shell
        with: {texts: "${{ jobs.Fit.outputs.Text[:] }}", run: 'echo sum > "$out_All"'}
        outputs: {All: {type: text}}
"""
FILES = {"helper.py": "1", "data/a.csv": "a"}
A_CSV, HELPER, OTHER = "data/a.csv", "helper.py", "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"


def observed(plan: Plan) -> dict[str, list[str]]:
    """Job → the texts of its reasons that are about undeclared reads or packages."""
    found: dict[str, list[str]] = {}
    for job in plan.jobs:
        texts = [reason.text(job.id) for reason in job.reasons if getattr(reason, "read", None) is not None]
        if texts:
            found[job.id] = texts
    return found


@pytest.fixture
def fitted(project: Make) -> Lab:
    """`Fit[0]` read the helper, `Fit[1]` the folder with data, too, and looked for a configuration."""
    lab = project(FLOW, FILES)
    lab.succeed()
    more = [file(lab, HELPER), folder(lab, "data"), absent("conf.json")]
    return saw(lab, {"Job:Fit[0]": [file(lab, HELPER)], "Job:Fit[1]": more})


def test_nothing_has_changed(fitted: Lab) -> None:
    assert codes(fitted.plan()) == {}


def test_a_changed_helper_runs_exactly_the_jobs_that_read_it_and_the_reason_names_it(fitted: Lab) -> None:
    fitted.write({HELPER: "2"})
    plan = fitted.plan()
    assert codes(plan) == {
        "Job:Fit[0]": ["INPUT_CHANGED"], "Job:Fit[1]": ["INPUT_CHANGED"], "Job:Sum": ["UPSTREAM_DIRTY"] * 2,
    }  # fmt: skip
    new = file(fitted, HELPER).sha256
    reason = {
        "code": "INPUT_CHANGED",
        "binding": "observed",
        "source": HELPER,
        "old": OTHER,
        "new": new,
        "read": "file",
    }
    assert reasons(plan)["Job:Fit[0]"] == [reason]
    assert observed(plan)["Job:Fit[1]"] == [f"observed ← helper.py  6b86… → {new[:4] if new else ''}…"]


def test_a_file_that_was_looked_for_counts_when_it_appears(fitted: Lab) -> None:
    fitted.write({"conf.json": "{}"})
    (text,) = observed(fitted.plan())["Job:Fit[1]"]
    assert text.startswith("observed ← conf.json  absent → ")
    fitted.write({"conf.json": None, "conf.json/deep/file": "x"})
    assert observed(fitted.plan()) == {"Job:Fit[1]": ["observed ← conf.json  absent → a folder"]}


def test_a_listed_folder_counts_by_its_names(fitted: Lab) -> None:
    fitted.write({A_CSV: "another content"})
    assert observed(fitted.plan()) == {}
    fitted.write({"data/b.csv": "b"})
    (text,) = observed(fitted.plan())["Job:Fit[1]"]
    before, after = (folder_sha256(names)[:4] for names in (["a.csv"], ["a.csv", "b.csv"]))
    assert text == f"observed ← data/  {before}… → {after}… (+b.csv)"
    fitted.write({"data": None})
    (text,) = observed(fitted.plan())["Job:Fit[1]"]
    assert text.endswith(" → absent")


def test_a_changed_folder_names_what_came_or_went_if_that_can_be_known(project: Make) -> None:
    lab = project(FLOW, {f"data/{name}.csv": name for name in "abcd"})
    lab.succeed()
    saw(lab, {"Job:Fit[0]": [folder(lab, "data"), file(lab, A_CSV)]})

    def names() -> list[str] | None:
        (reason,) = reasons(lab.plan())["Job:Fit[0]"]
        found: list[str] | None = reason.get("names")
        return found

    lab.write({A_CSV: None})
    reasons_of_two = [reason.text("") for reason in lab.plan().jobs[0].reasons]
    assert [text.rpartition(" ")[2] for text in reasons_of_two] == ["(-a.csv)", "absent"], "a step had read that file"
    lab.write({A_CSV: "a", "data/0.csv": "0", "data/1.csv": "1", "data/.hidden": ""})
    assert names() == ["+0.csv", "+1.csv"]
    lab.write({"data/0.csv": None, "data/1.csv": None, "data/d.csv": None})
    assert names() is None, "nobody knows a file that no step has read"
    assert folder_names(["a", "b", "new"], ["old", "b"]) == ()
    assert folder_names(["c", "a", "b"], ["b", "c"]) == ("+a",), "not the newest of them"
    many = [f"{n}" for n in range(2000)]
    assert folder_names(many, many[1:]) == ()


def folder_names(now: list[str], before: list[str]) -> tuple[str, ...]:
    return name_changes(folder_sha256(before), now, ["elsewhere"])


def test_what_the_job_itself_publishes_does_not_count_in_a_folder(project: Make) -> None:
    lab = project(FLOW, FILES)
    lab.succeed()
    own = ["fit-0.txt", "fit-1.txt"]
    saw(lab, {"Job:Fit[0]": [folder(lab, "out", own)]})
    assert codes(lab.plan()) == {}
    assert list(codes(lab.plan(sets=["Two=[0, 1, 2]"]))) == ["Job:Fit[2]", "Job:Sum"]
    lab.write({"out/notes.txt": "mine"})
    assert list(observed(lab.plan())) == ["Job:Fit[0]"]


def test_a_deleted_file_and_one_that_nobody_knows(fitted: Lab) -> None:
    fitted.write({HELPER: None})
    assert observed(fitted.plan())["Job:Fit[0]"] == ["observed ← helper.py  6b86… → absent"]
    saw(fitted, {"Job:Fit[0]": [Read(HELPER, "unknown")]})
    fitted.write({HELPER: "1"})
    assert observed(fitted.plan()) == {"Job:Fit[0]": ["observed ← helper.py  not known → 6b86…"]}


def test_a_helper_that_is_set_back_is_not_paid_again(fitted: Lab) -> None:
    fitted.write({HELPER: "2"})
    fitted.succeed()
    saw(fitted, {f"Job:Fit[{i}]": [file(fitted, HELPER)] for i in (0, 1)})
    assert codes(fitted.plan()) == {}
    fitted.write({HELPER: "1"})
    plan = fitted.plan()
    assert {job.id: job.reuse.run for job in plan.planned if job.reuse} == {
        "Job:Fit[0]": "r0001", "Job:Fit[1]": "r0001",
    }  # fmt: skip
    ran = fitted.succeed()
    assert (ran.executed, set(ran.reused)) == ([], {"Job:Fit[0]", "Job:Fit[1]"})
    assert codes(fitted.plan()) == {}, "the reused results stand for what their steps read"
    fitted.write({HELPER: "2"})
    assert {job.reuse.run for job in fitted.plan().planned if job.reuse} == {"r0002"}


def test_a_failure_with_a_broken_helper_does_not_hide_the_result_with_the_good_one(fitted: Lab) -> None:
    fitted.write({HELPER: "broken"})
    fitted.edit("workflow.yaml", 'echo "$i" >', 'test "$i" = x && echo "$i" >')
    fitted.run()
    saw(fitted, {f"Job:Fit[{i}]": [file(fitted, HELPER)] for i in (0, 1)})
    fitted.edit("workflow.yaml", 'test "$i" = x && echo "$i" >', 'echo "$i" >')
    fitted.write({HELPER: "1"})
    plan = fitted.plan()
    assert codes(plan)["Job:Fit[0]"][0] == "RETRY_PREVIOUS_FAILURE"
    assert {job.id: job.reuse.run for job in plan.planned if job.reuse} == {
        "Job:Fit[0]": "r0001", "Job:Fit[1]": "r0001",
    }  # fmt: skip


def test_what_only_strace_saw_counts_for_all_instances(project: Make) -> None:
    lab = project(FLOW, FILES)
    lab.succeed()
    saw(lab, {"Job:Fit[0]": [file(lab, HELPER, "strace")], "Job:Fit[1]": [file(lab, A_CSV)]}, traced=["Job:Fit[0]"])
    reads = lab.snapshot().reads
    assert (reads.known_reads("Fit"), reads.known_reads("Sum")) == ((file(lab, HELPER, "strace"),), ())
    assert (reads.is_traced("Fit"), reads.is_traced("Sum")) == (True, False)
    lab.write({HELPER: "2"})
    assert list(observed(lab.plan())) == ["Job:Fit[0]", "Job:Fit[1]"]
    lab.write({HELPER: "1", A_CSV: "b"})
    assert list(observed(lab.plan())) == ["Job:Fit[1]"], "what Python saw is that instance's own"


def test_more_reads_than_fit_into_an_event(project: Make) -> None:
    lab = project(FLOW, {f"lib/m{n:02}.py": "1" for n in range(70)})
    lab.succeed()
    saw(lab, {"Job:Fit[0]": [file(lab, f"lib/m{n:02}.py") for n in range(70)]})
    assert codes(lab.plan()) == {}
    lab.write({f"lib/m{n:02}.py": "2" for n in range(30)})
    texts = [reason.text("Job:Fit[0]") for reason in lab.plan().planned[0].reasons]
    assert (len(texts), texts[0][:25], texts[-1]) == (21, "observed ← lib/m00.py  6b", "… and 10 more")
    (event,) = [e for e in lab.events("r0001") if getattr(e, "observed", None)]
    lab.blob(event.observed.blob).unlink()  # type: ignore[union-attr]
    assert observed(lab.plan()) == {"Job:Fit[0]": ["observed ← (a list that the store has lost)  not known → absent"]}


@pytest.mark.parametrize(
    "reads", [{"path": "x"}, [{"path": "../x", "kind": "absent"}], [{"path": "x", "kind": "file"}]]
)
def test_a_log_with_wrong_reads_is_damaged(fitted: Lab, reads: Any) -> None:
    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for event in events:
            if event["event"] == "step_complete":
                event["observed"] = reads
                event["chain"] = event.pop("chain")
        return events

    forge_events(fitted.run_folder("r0001") / "events.jsonl", change)
    with pytest.raises(WhyrunError) as caught:
        fitted.plan()
    assert caught.value.diagnostics[0].code == "LOG_DAMAGED"


def test_index_and_replay_agree_with_the_log(fitted: Lab) -> None:
    fitted.write({HELPER: "2", "data/b.csv": "b"})
    project = fitted.opened()
    os.utime(project.state.runs_dir / "r0001" / "events.jsonl", (1, 1))
    first = project.snapshot(History(project.state, project.store.read, worth_indexing=0))
    blob = snapshot_blob(first)
    again = fitted.opened()
    assert (again.state.index_dir / "fold").exists()
    indexed = again.snapshot()
    assert snapshot_blob(indexed) == blob
    replayed = replay_snapshot(blob, again.history())
    plans = {compute_execution_plan(one).to_bytes() for one in (first, indexed, replayed)}
    assert plans == {fitted.plan().to_bytes()}
    fitted.succeed()
    opened = fitted.opened()

    def replay(run: str) -> None:
        plan_of_run(opened, run)

    checked = verify(opened.state, opened.folder, replay, replayed=fitted.runs())
    assert checked.sound, checked.to_json()


def test_keep_and_adopt_stand_for_the_present_reads(fitted: Lab) -> None:
    fitted.write({HELPER: "2"})
    keep_results(fitted.opened(), ["Job:Fit[0]"], "a comment only", Heard())
    assert list(observed(fitted.plan())) == ["Job:Fit[1]"]
    fitted.write({"mine.txt": "mine"})
    adopt_file(fitted.opened(), "Artifact:Fit.Text[1]", fitted.root / "mine.txt", Heard())
    assert observed(fitted.plan()) == {}
    fitted.write({HELPER: "3"})
    assert list(observed(fitted.plan())) == ["Job:Fit[0]", "Job:Fit[1]"]
    fitted.write({HELPER: "1"})
    plan = fitted.plan()
    assert {job.id: job.reuse.run for job in plan.planned if job.reuse} == {
        "Job:Fit[0]": "r0001", "Job:Fit[1]": "r0001",
    }  # fmt: skip


def test_a_reuse_after_a_keep_stands_for_the_reads_of_the_result_that_it_took(fitted: Lab) -> None:
    fitted.write({HELPER: "2"})
    keep_results(fitted.opened(), ["Job:Fit[0]", "Job:Fit[1]"], "a comment only", Heard())
    for content in ("1", "2", "1"):  # undone, done again, undone again: nothing executes
        fitted.write({HELPER: content})
        fitted.succeed()
        events = fitted.events(fitted.runs()[-1])
        skipped = [(e.step_id, e.why, e.from_run) for e in events if isinstance(e, ev.StepSkipped)]
        assert skipped == [("Job:Fit[0]", "reused", "r0001"), ("Job:Fit[1]", "reused", "r0001")]
        assert codes(fitted.plan()) == {}


# --- reads of what other jobs publish ----------------------------------------------------------------------------

PAIR = """
    workflow: w
    inputs: {Word: {type: string, default: one}}
    jobs:
      Say:
        uses: shell
        with: {word: "${{ inputs.Word }}", run: 'echo said > "$out_Text"; test "$word" = two && echo > "$out_Text"; :'}
        outputs: {Text: {type: text, path: out/said.txt}}
      Count:
        uses: shell
        with: {run: 'echo 1 > "$out_Lines"'}
        outputs: {Lines: {type: text, path: out/lines.txt}}
"""
SAID = "out/said.txt"


@pytest.fixture
def pair(project: Make) -> Lab:
    lab = project(PAIR)
    lab.succeed()
    return saw(lab, {"Job:Count": [file(lab, SAID)]})


def test_a_read_of_what_another_job_makes_is_an_edge_from_the_next_plan_on(pair: Lab) -> None:
    assert codes(pair.plan()) == {}
    plan = pair.plan(sets=["Word=two"])
    assert reasons(plan)["Job:Count"] == [{"code": "UPSTREAM_DIRTY", "job": "Job:Say"}]
    assert [job.layer for job in plan.planned] == [0, 1]
    assert codes(pair.plan(targets=["Job:Count"], sets=["Word=two"])) == codes(plan), "a target needs it, too"


def test_it_waits_and_is_reused_if_the_file_comes_out_as_it_was(pair: Lab) -> None:
    ran = pair.succeed(sets=["Word=three"])
    assert (ran.executed, list(ran.reused)) == (["Job:Say"], ["Job:Count"])
    ran = pair.succeed(sets=["Word=two"])
    assert [step for step, _ in ran.starts] == ["Job:Say", "Job:Count"]


def test_an_output_that_comes_back_for_certain_is_known(pair: Lab) -> None:
    pair.write({SAID: None})
    plan = pair.plan()
    assert {job.id: (job.headline, job.reuse.run if job.reuse else None) for job in plan.planned} == {
        "Job:Say": ("MISSING_OUTPUT", "r0001")
    }


def test_a_failed_producer_blocks_the_reader(pair: Lab) -> None:
    pair.edit("workflow.yaml", 'echo said > "$out_Text"; test', 'test "$word" = one && exit 3; test')
    ran = pair.run()
    assert (list(ran.failed), list(ran.blocked)) == (["Job:Say"], ["Job:Count"])
    assert codes(pair.plan())["Job:Count"] == ["UPSTREAM_FAILED", "UPSTREAM_DIRTY"]


def test_a_circle_is_an_error_that_names_the_file_until_the_reader_changes(pair: Lab) -> None:
    saw(pair, {"Job:Count": [file(pair, SAID)], "Job:Say": [file(pair, "out/lines.txt")]})
    with pytest.raises(WhyrunError) as caught:
        pair.plan()
    (circle,) = caught.value.diagnostics
    assert circle.code == "CYCLE"
    assert circle.message.endswith("Job:Count read `out/said.txt`, which Job:Say makes")
    pair.edit("workflow.yaml", "echo said >", "echo again >")
    pair.edit("workflow.yaml", "echo 1 >", "echo 2 >")
    assert codes(pair.plan()) == {"Job:Say": ["INPUT_CHANGED"], "Job:Count": ["INPUT_CHANGED"]}


def test_a_listed_folder_is_an_edge_unless_that_closes_a_circle(pair: Lab) -> None:
    saw(pair, {"Job:Count": [folder(pair, "out", ["lines.txt"])]})
    assert codes(pair.plan(sets=["Word=two"]))["Job:Count"] == ["UPSTREAM_DIRTY"]
    saw(pair, {"Job:Count": [folder(pair, "out", ["lines.txt"])], "Job:Say": [folder(pair, "out", ["said.txt"])]})
    assert codes(pair.plan()) == {}
    assert codes(pair.plan(sets=["Word=two"])) == {"Job:Say": ["INPUT_CHANGED"]}


def test_a_file_in_a_folder_that_another_job_makes(project: Make) -> None:
    lab = project(
        PAIR.replace("echo said >", "mkdir")
        .replace("type: text, path: out/said.txt", "type: directory, path: out/said")
        .replace('echo > "$out_Text"', 'echo > "$out_Text/x"')
        .replace('mkdir "$out_Text"', 'mkdir -p "$out_Text"; echo 1 > "$out_Text/x"')
    )
    lab.succeed()
    saw(lab, {"Job:Count": [file(lab, "out/said/x")]})
    assert codes(lab.plan()) == {}
    assert codes(lab.plan(sets=["Word=two"]))["Job:Count"] == ["UPSTREAM_DIRTY"]
    assert [step for step, _ in lab.succeed(sets=["Word=two"]).starts] == ["Job:Say", "Job:Count"]


def test_what_a_job_itself_made_before_is_not_read(project: Make) -> None:
    lab = project(PAIR)
    lab.succeed()
    saw(lab, {"Job:Say": [file(lab, SAID)]})
    lab.succeed(sets=["Word=two"])
    assert codes(lab.plan(sets=["Word=two"])) == {}


REAL = """
    workflow: w
    inputs: {Word: {type: string, default: one}}
    jobs:
      Say:
        uses: python
        with: {call: "acts:say", word: "${{ inputs.Word }}"}
        outputs: {Text: {type: text, path: out/said.txt}}
      Hear:
        uses: python
        with: {call: "acts:hear"}
        outputs: {Heard: {type: string}}
"""
ACTS = """
import os
from pathlib import Path

def say(word):
    return {"Text": word}

def hear():
    try:
        with open(os.environ["WHYRUN_PROJECT"] + "/out/said.txt") as said:
            return {"Heard": said.read()}
    except FileNotFoundError:
        return {"Heard": "nothing"}
"""


def test_real_steps_read_what_others_make_in_order_and_are_up_to_date_after_one_run(project: Make) -> None:
    lab = project(REAL, {"acts.py": ACTS})
    lab.succeed(jobs=1, force=["Job:Hear"], targets=["Job:Hear"])
    assert lab.content("Artifact:Hear.Heard") == "nothing"
    assert reasons(lab.plan())["Job:Hear"] == [{"code": "UPSTREAM_DIRTY", "job": "Job:Say"}], "the log knows it now"
    for word in ("one", "two"):
        ran = lab.succeed(sets=[f"Word={word}"])
        assert [step for step, _ in ran.starts] == ["Job:Say", "Job:Hear"]
        assert lab.content("Artifact:Hear.Heard") == word
        assert codes(lab.plan(sets=[f"Word={word}"])) == {}, "although the file was made just before it was read"


# --- packages ----------------------------------------------------------------------------------------------------


def test_another_version_of_a_package_runs_nothing_unless_the_project_says_so(fitted: Lab) -> None:
    saw(fitted, {}, packages={"Job:Fit[0]": {"msgspec": "0.0.1"}, "Job:Fit[1]": {"no-such-package": "1"}})
    assert codes(fitted.plan()) == {}
    fitted.write({"whyrun.toml": 'packages = "count"'})
    now = importlib.metadata.version("msgspec")
    assert observed(fitted.plan()) == {
        "Job:Fit[0]": [f"packages ← msgspec  0.0.1 → {now}"],
        "Job:Fit[1]": ["packages ← no-such-package  1 → not installed"],
    }
    keep_results(fitted.opened(), ["Job:Fit[0]"], "a patch release", Heard())
    assert list(observed(fitted.plan())) == ["Job:Fit[1]"]
    saw(fitted, {})
    plan_of_run(fitted.opened(), "r0001")


def test_packages_of_an_environment_are_not_those_that_are_installed_here(fitted: Lab) -> None:
    saw(fitted, {}, packages={"Job:Fit[0]": {"msgspec": "0.0.1"}})
    snapshot = fitted.snapshot()
    graph = snapshot.dependency_graph
    node, record = graph.node_of["Job:Fit[0]"], snapshot.record(graph.node_of["Job:Fit[0]"])
    assert record is not None
    assert [change.name for change in package_changes(snapshot, node, record.latest)] == ["msgspec"]
    tables = [replace(one, decl=replace(one.decl, environment=EnvironmentDecl("lock.txt"))) for one in graph.tables]
    elsewhere = replace(snapshot, dependency_graph=replace(graph, tables=tuple(tables)))
    assert package_changes(elsewhere, node, record.latest) == []


# --- which jobs are traced ---------------------------------------------------------------------------------------


def traced(lab: Lab, **options: Any) -> set[str]:
    snapshot = lab.snapshot(options.get("sets", ()))
    return set(jobs_to_trace(snapshot, compute_execution_plan(snapshot).planned))


def test_a_job_is_traced_once_and_again_after_its_script_or_an_undeclared_read_has_changed(project: Make) -> None:
    lab = project(FLOW, FILES)
    assert traced(lab) == {"Fit", "Sum"}
    lab.succeed()
    reads = {"Job:Fit[0]": [file(lab, HELPER, "strace")]}
    saw(lab, reads, traced=["Job:Fit[0]"])
    assert traced(lab, sets=["Two=[0, 1, 5]"]) == {"Sum"}, "a new instance of a traced job; the other was never traced"
    lab.write({HELPER: "2"})
    assert traced(lab) == {"Fit", "Sum"}
    lab.write({HELPER: "1"}).edit("workflow.yaml", 'echo "$i" >', 'printf "$i" >')
    assert traced(lab) == {"Fit", "Sum"}, "its script has changed"
    lab.edit("workflow.yaml", 'printf "$i" >', 'echo "$i" >')
    saw(lab, reads, traced=["Job:Fit[0]"], packages={"Job:Fit[1]": {"msgspec": "0.0.1"}})
    lab.write({"out/fit-1.txt": "edited"})
    assert traced(lab) == set(), "its own result comes back"
    lab.blob(lab.snapshot().available_artifacts["Artifact:Fit.Text[0]"].sha256).unlink()
    lab.write({"out/fit-0.txt": "edited"})
    assert traced(lab) == {"Sum"}
    saw(lab, reads, traced=["Job:Fit[0]"], packages={"Job:Fit[0]": {"msgspec": "0.0.1"}})
    assert traced(lab) == {"Fit", "Sum"}, "another version of a package is installed"
