"""`whyrun keep`: results stand after a harmless change, and the log says who said so; what cannot stand is refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fork_server import run_command
from project_lab import Heard, Lab, codes
from whyrun.errors import WhyrunError
from whyrun.evidence.queries.history import job_history
from whyrun.evidence.run_directory import RunDirectory
from whyrun.evidence.verify.verify import verify
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.execution.adopt.keep import KeepResult, keep_results
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.compare.compare import CompareOptions, compare_workflow
from whyrun.log import events as ev
from whyrun.log.journal import check_chain
from whyrun.planning.answers.why import PlanView, why_job
from whyrun.planning.plan import compute_execution_plan

Make = Callable[..., Lab]

CHAIN = """
    workflow: chain
    inputs:
      Word: {type: string, default: one}
      Page: {type: text, default: page.txt}
    jobs:
      Say:
        uses: shell
        with: {word: "say ${{ inputs.Word }}", run: 'echo "$word" > "$out_Text"; echo "$word" | wc -c > "$out_Size"'}
        outputs: {Text: {type: text, path: out/text.txt}, Size: {type: integer}}
      Upper:
        uses: shell
        with: {text: "${{ jobs.Say.outputs.Text }}", run: 'tr a-z A-Z < "$text" > "$out_Loud"'}
        outputs: {Loud: {type: text, path: out/loud.txt}}
      Count:
        uses: shell
        with: {page: "${{ inputs.Page }}", run: 'wc -l < "$page" > "$out_Lines"'}
        outputs: {Lines: {type: integer}}
"""
PAGE = {"page.txt": "a\nb\n"}
SAY, SAID = 'echo "$word" > "$out_Text"', 'echo "${word}" > "$out_Text"'
UPPER, UPPED = 'tr a-z A-Z < "$text"', 'cat "$text" | tr a-z A-Z'


def keep(lab: Lab, *ids: str, because: str = "a new spelling", sets: Sequence[str] = ()) -> KeepResult:
    return keep_results(lab.opened(sets), ids, because, Heard())


def refusals(lab: Lab, *ids: str, sets: Sequence[str] = (), because: str = "so") -> list[tuple[str, str, str | None]]:
    before = lab.runs()
    with pytest.raises(WhyrunError) as caught:
        keep(lab, *ids, sets=sets, because=because)
    assert int(caught.value.exit) == 2
    assert lab.runs() == before, "a refused command records nothing"
    return [(found.code, found.message, found.hint) for found in caught.value.diagnostics]


def kept_and_why(lab: Lab, job: str) -> dict[str, Any]:
    snapshot = lab.snapshot()
    view = PlanView(snapshot, compute_execution_plan(snapshot))
    success = why_job(view, snapshot.dependency_graph.node_of[job]).jobs[0].last_success
    assert success is not None
    return success.to_json()


def test_a_kept_result_is_up_to_date_and_the_log_says_who_and_why(project: Make) -> None:
    lab = project(CHAIN, PAGE)
    lab.succeed()
    lab.edit("workflow.yaml", SAY, SAID)
    assert lab.plan().headlines() == {"Job:Say": "INPUT_CHANGED", "Job:Upper": "UPSTREAM_DIRTY"}
    result = keep(lab, "Job:Say", because="  braces only ")
    assert (result.run, result.because, [job.id for job in result.kept], result.clean) == (
        "r0002", "braces only", ["Job:Say"], (),
    )  # fmt: skip
    assert lab.plan().headlines() == {}

    first = next(e for e in lab.events("r0001") if isinstance(e, ev.StepStart) and e.step_id == "Job:Say")
    events = lab.events("r0002")
    assert [type(e) for e in events] == [
        ev.RunStart, ev.ManifestMaterialized, ev.ArtifactAvailable, ev.ArtifactAvailable, ev.ResultKept, ev.RunComplete,
    ]  # fmt: skip
    start, kept, end = events[0], events[4], events[5]
    assert isinstance(start, ev.RunStart)
    assert isinstance(kept, ev.ResultKept)
    assert isinstance(end, ev.RunComplete)
    assert (start.mode, start.options) == ("decide", {"keep": ["Job:Say"], "because": "braces only"})
    assert (kept.step_id, kept.because, kept.by, kept.from_run) == ("Job:Say", "braces only", result.by, "r0001")
    assert (kept.old_fingerprint, kept.fingerprint) == (first.fingerprint, result.kept[0].fingerprint)
    assert kept.fingerprint != kept.old_fingerprint
    assert kept.bindings is not None
    assert kept.bindings["run"][0]["value"].startswith(SAID)
    assert [(e.artifact, e.reused_from) for e in events if isinstance(e, ev.ArtifactAvailable)] == [
        ("Artifact:Say.Size", "r0001"), ("Artifact:Say.Text", "r0001"),
    ]  # fmt: skip
    assert (end.state, end.counts["completed"]) == ("succeeded", 1)

    folder = lab.run_folder("r0002")
    assert RunDirectory(folder).missing_files("decide") == []
    assert json.loads((folder / "status.json").read_bytes())["steps_total"] == 1
    assert (folder / "artifacts/Say/Text.txt").read_text() == "say one\n"
    check_chain([lab.run_folder(run) / "events.jsonl" for run in lab.runs()])
    said = {"run": "r0002", "how": "kept", "by": result.by, "because": "braces only"}
    assert kept_and_why(lab, "Job:Say") == {**said, "attempt": 0}
    entries = list(job_history(lab.opened().state.runs(), lambda step: step == "Job:Say", None))
    assert [entry.status for entry in entries] == ["EXECUTES", "KEPT"]
    found = entries[1].to_json()
    assert (found["kept_from"], found["by"], found["why"], found["mode"]) == (
        "r0001",
        result.by,
        "braces only",
        "decide",
    )
    assert [version["artifact"] for version in found["outputs"]] == ["Artifact:Say.Size", "Artifact:Say.Text"]
    assert (found["old_fingerprint"], found["fingerprint"]) == (kept.old_fingerprint, kept.fingerprint)


def test_a_chain_is_kept_in_the_order_of_the_graph_and_alone_only_from_its_start(project: Make) -> None:
    lab = project(CHAIN, PAGE)
    lab.succeed()
    lab.edit("workflow.yaml", SAY, SAID).edit("workflow.yaml", UPPER, UPPED)
    assert refusals(lab, "Job:Upper") == [
        (
            "NOT_KEEPABLE",
            "the result of `Job:Upper` cannot be kept: what it reads is not known, because `Job:Say` is still to run",
            "keep or run that one first; together: `whyrun keep Job:Say Job:Upper`",
        )
    ]
    result = keep(lab, "Job:Upper", "Job:Say", "Job:Count")
    assert [job.id for job in result.kept] == ["Job:Say", "Job:Upper"]
    assert result.clean == ("Job:Count",)
    assert lab.plan().headlines() == {}
    assert refusals(lab, "Job:*") == [
        (
            "NOT_KEEPABLE",
            "there is nothing to keep: Job:Count and 2 more would not run anyway",
            "`whyrun explain` lists the jobs that would run",
        )
    ]


def test_changed_content_is_refused_and_another_name_for_it_is_not(project: Make) -> None:
    lab = project(CHAIN, PAGE)
    lab.succeed()
    lab.edit("workflow.yaml", 'page: "${{', 'sheet: "${{').edit("workflow.yaml", '"$page"', '"$sheet"')
    assert [job.id for job in keep(lab, "Job:Count").kept] == ["Job:Count"]
    lab.write({"page.txt": "a\nb\nc\n"})
    (found,) = refusals(lab, "Job:Count")
    assert found[0] == "NOT_KEEPABLE"
    assert found[1].startswith(
        "the result of `Job:Count` cannot be kept: the content of what it reads has changed: sheet ← Input:Page  "
    )
    assert found[2] == "run it: `whyrun run --target Job:Count`"
    # A text that is computed from an input is its content, too; a parameter that is written out is not.
    (found,) = refusals(lab, "Job:Say", sets=["Word=two"])
    assert found[1].endswith('has changed: Input:Say.with.word  "say one" → "say two"')
    lab.edit("workflow.yaml", "say ${{ inputs.Word }}", "tell ${{ inputs.Word }}")
    assert [job.id for job in keep(lab, "Job:Say").kept] == ["Job:Say"]


def test_content_that_moved_on_upstream_is_refused(project: Make) -> None:
    lab = project(CHAIN, PAGE)
    lab.succeed()
    lab.succeed(sets=["Word=two"], targets=["Job:Say"])
    lab.edit("workflow.yaml", UPPER, UPPED)
    (found,) = refusals(lab, "Job:Upper", sets=["Word=two"])
    assert "the content of what it reads has changed: text ← Artifact:Say.Text" in found[1]


def test_what_is_missing_failed_or_never_made_is_refused_and_says_what_to_do(project: Make) -> None:
    lab = project(CHAIN, PAGE)
    assert refusals(lab, "Job:Say") == [
        (
            "NOT_KEEPABLE",
            "the result of `Job:Say` cannot be kept: it has no result yet",
            "run it: `whyrun run --target Job:Say`",
        )
    ]
    lab.succeed()
    lab.edit("workflow.yaml", SAY, SAID)
    lab.write({"out/text.txt": None})
    # Of the two that are refused, the one that waits names the other.
    assert [(message, hint) for _, message, hint in refusals(lab, "Job:*")] == [
        (
            "the result of `Job:Say` cannot be kept: an output is missing: Artifact:Say.Text  out/text.txt (deleted)",
            "run it: `whyrun run --target Job:Say`",
        ),
        (
            "the result of `Job:Upper` cannot be kept: what it reads is not known, because `Job:Say` is still to run",
            "see what is said of `Job:Say`",
        ),
    ]
    lab.write({"out/text.txt": "mine\n"})
    (found,) = refusals(lab, "Job:Say")
    assert found[1:] == (
        "the result of `Job:Say` cannot be kept: an output is missing: Artifact:Say.Text  out/text.txt (changed)",
        "adopt your version, or run it: `whyrun run --target Job:Say`",
    )
    lab.edit("workflow.yaml", 'run: \'echo "${word}"', 'run: \'exit 3; echo "${word}"')
    assert lab.run().exit_code == 1
    lab.edit("workflow.yaml", "exit 3; ", "")
    (found,) = refusals(lab, "Job:Say")
    assert found[1] == "the result of `Job:Say` cannot be kept: its latest attempt failed in r0002"


@pytest.mark.parametrize(
    ("ids", "because", "message"),
    [
        (["Job:Say"], " \n", "the reason is empty"),
        (["Job:Say"], "x" * 1001, "the reason has 1001 characters, more than 1000"),
        ([], "so", "no job is named"),
    ],
)
def test_a_reason_and_a_job_are_needed(project: Make, ids: list[str], because: str, message: str) -> None:
    (found,) = refusals(project(CHAIN, PAGE), *ids, because=because)
    assert found[:2] == ("USAGE", message)


def test_a_kept_result_is_reused_by_its_own_job_only_and_stays_kept(project: Make) -> None:
    """No run made it from what it stands for: so no other instance takes it, and none gets it from the shared store."""
    lab = project(
        """
        workflow: w
        loops: {n: {count: 2}}
        jobs:
          Say:
            for: [n]
            uses: shell
            deterministic: true
            with: {word: "${{ n }}", run: 'echo "$word" > "$out_Text"'}
            outputs: {Text: {type: text, path: "out/${{ n }}.txt"}}
        """
    )
    lab.succeed()
    lab.edit("workflow.yaml", 'word: "${{ n }}"', "word: same")
    assert [job.id for job in keep(lab, "Job:Say[0]").kept] == ["Job:Say[0]"]
    ran = lab.succeed()
    assert (ran.executed, ran.reused) == (["Job:Say[1]"], {})
    assert (lab.read("out/0.txt"), lab.read("out/1.txt")) == ("0\n", "same\n")
    lab.write({"out/0.txt": None})
    assert lab.succeed().reused == {"Job:Say[0]": "r0001"}
    record = lab.snapshot().records.steps["Job:Say[0]"]
    assert record.latest.own_sources == {"Artifact:Say.Text[0]": (2, "kept")}
    assert record.for_others() == [attempt for attempt in record.attempts() if attempt.run == 1]
    # What it was made from is still known: with the old parameter its own result is there.
    lab.edit("workflow.yaml", "word: same", 'word: "${{ n }}"')
    assert lab.succeed().executed == []
    assert lab.plan().headlines() == {}


def test_adopted_bytes_stay_adopted_when_they_are_kept(project: Make) -> None:
    lab = project(CHAIN, PAGE)
    lab.succeed()
    lab.write({"out/text.txt": "mine\n"})
    adopt_file(lab.opened(), "Artifact:Say.Text", lab.root / "out/text.txt", Heard())
    lab.edit("workflow.yaml", SAY, SAID)
    keep(lab, "Job:Say")
    record = lab.snapshot().records.steps["Job:Say"]
    assert record.latest.own_sources == {"Artifact:Say.Text": (2, "adopted"), "Artifact:Say.Size": (3, "kept")}
    assert lab.succeed().executed == ["Job:Upper"]
    assert lab.read("out/loud.txt") == "MINE\n"


def test_a_comparison_proves_or_refutes_a_kept_result(project: Make) -> None:
    lab = project(CHAIN, PAGE)
    lab.succeed()
    lab.edit("workflow.yaml", SAY, SAID).edit("workflow.yaml", UPPER, UPPER.replace("A-Z", "b-za"))
    keep(lab, "Job:Say", "Job:Upper")
    result = compare_workflow(lab.opened(), CompareOptions(("Job:Say", "Job:Upper")), RunOptions(jobs=2), Heard())
    found = {e.artifact: (e.status, e.against, e.kept) for e in lab.events("r0003") if isinstance(e, ev.Comparison)}
    assert found == {
        "Artifact:Say.Size": ("IDENTICAL", "r0002", True),
        "Artifact:Say.Text": ("IDENTICAL", "r0002", True),
        "Artifact:Upper.Loud": ("DIFFERENT", "r0002", True),
    }
    assert result.exit_code == 1
    assert lab.plan().headlines() == {}  # the user decides what follows


def test_a_keep_cut_at_any_line_holds_whole_or_not_at_all(project: Make) -> None:
    lab = project(CHAIN, PAGE)
    lab.succeed()
    lab.edit("workflow.yaml", SAY, SAID)
    before = codes(lab.plan())
    keep(lab, "Job:Say")
    log = lab.run_folder("r0002") / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    (log.parent / "status.json").unlink()
    shutil.rmtree(log.parent / "artifacts")
    assert b'"result_kept"' in lines[4]
    for count in range(1, len(lines)):
        log.write_bytes(b"".join(lines[:count]))
        assert codes(lab.plan()) == (before if count < 5 else {})
    log.write_bytes(b"".join(lines[:4]))
    ran = lab.succeed()  # repairs it
    assert ran.executed == ["Job:Say"]
    assert not (log.parent / "artifacts").exists()
    state = lab.opened().state
    assert list(job_history(state.runs()[1:2], lambda step: True, None)) == []
    assert verify(state, lab.root, lambda run: None).sound


def test_pruned_runs_and_collected_bytes_leave_a_kept_result_in_force(project: Make) -> None:
    lab = project(CHAIN, PAGE)
    lab.succeed()
    lab.edit("workflow.yaml", SAY, SAID)
    keep(lab, "Job:Say")
    lab.succeed(force=["Job:Count"])
    lab.succeed(force=["Job:Count"])
    for command in (["runs", "prune", "--keep", "1", "--delete"], ["gc", "--delete"]):
        assert run_command(command, cwd=lab.root, env=dict(os.environ), timeout=300).returncode == 0
    assert lab.runs() == ["r0001", "r0002", "r0004"]
    assert lab.plan().headlines() == {}
    lab.write({"out/text.txt": None})
    assert lab.succeed().reused == {"Job:Say": "r0001"}
    assert lab.read("out/text.txt") == "say one\n"
