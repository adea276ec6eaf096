"""Which runs prune removes, which it keeps and why, and what is left of removed runs."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gc_lab import Past, copy_of

from project_lab import Heard, Lab
from whyrun import disk
from whyrun.errors import StateError
from whyrun.evidence.retention.prune import KeptRun, PruneReport, Selection, prunable, prune
from whyrun.evidence.verify.verify import verify
from whyrun.execution.adopt.adopt import adopt_file, restore_version
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.compare.compare import CompareOptions, compare_workflow
from whyrun.log import events as ev
from whyrun.log.journal import utc_now
from whyrun.log.lock import RunLock
from whyrun.log.tombstones import CarriedInput, Tombstone, add_tombstones
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.reader import History

LATEST = KeptRun("r0005", "the latest run")


def pruned(lab: Lab, *names: str, keep: int | None = None, older_than: float | None = None) -> PruneReport:
    return prune(lab.opened(), Selection(names, keep, older_than), utc_now)


def names(found: PruneReport) -> list[str]:
    return [run.run for run in found.pruned]


def whys(found: PruneReport) -> dict[str, str]:
    return {run.run: run.why for run in found.kept}


def check_sound(lab: Lab) -> None:
    def replayed(run: str) -> None:
        raise AssertionError(f"nobody asked for the plan of {run}")

    found = verify(lab.opened().state, lab.root, replayed)
    assert found.problems == ()


def test_a_pruned_run_leaves_a_tombstone_and_no_plan_changes(past: Past) -> None:
    state = past.opened().state
    events = {run: past.events(run) for run in past.runs()}
    before = past.plan().to_bytes()
    found = pruned(past, keep=1)
    assert names(found) == ["r0001", "r0002", "r0003"]
    assert found.kept == (KeptRun("r0004", "has the latest attempt of Job:Write"),)
    assert past.runs() == ["r0004", "r0005"]
    assert sorted(path.name for path in state.runs_dir.iterdir()) == ["r0004", "r0005"]
    stones = state.tombstones()
    assert [stone.run for stone in stones] == ["r0001", "r0002", "r0003"]
    for stone in stones:
        start, *_, end = events[stone.run]
        assert isinstance(start, ev.RunStart)
        recorded = [e for e in events[stone.run] if isinstance(e, ev.InputRecorded)]
        assert stone == Tombstone(
            run=stone.run,
            mode="run",
            state="succeeded",
            started=start.ts,
            ended=end.ts,
            events=len(events[stone.run]),
            previous_chain=start.previous_chain,
            chain=end.chain,
            pruned=stone.pruned,
            inputs=[CarriedInput(e.id, e.sha256, e.size, e.value) for e in recorded],
        )
    assert [len(stone.inputs) for stone in stones] == [2, 1, 1]
    assert past.plan().to_bytes() == before
    check_sound(past)
    # The next run goes on from there, and records what changed since the last one only.
    ran = past.word("five").succeed()
    assert ran.result.run == "r0006"
    assert [e.id for e in ran.of(ev.InputRecorded)] == ["Input:Word"]
    check_sound(past)
    again = pruned(past, keep=1)
    assert names(again) == ["r0004", "r0005"]
    assert [stone.run for stone in state.tombstones()] == ["r0001", "r0002", "r0003", "r0004", "r0005"]
    check_sound(past)


def test_a_preview_writes_nothing(past: Past) -> None:
    past.plan()
    before = past.state_files()
    found = prunable(past.opened(), Selection(keep=1), utc_now)
    assert (names(found), found.deleted, found.runs) == (["r0001", "r0002", "r0003"], False, 5)
    assert past.state_files() == before


def test_runs_are_chosen_by_name_number_and_age(past: Past) -> None:
    def chosen(selection: Selection, now: datetime) -> list[str]:
        return names(prunable(past.opened(), selection, lambda: now))

    now = utc_now()
    third = past.events("r0003")[-1].ts
    just_after_third = datetime.fromisoformat(third).astimezone(UTC) + timedelta(microseconds=1)
    assert chosen(Selection(names=("r0002",)), now) == ["r0002"]
    assert chosen(Selection(keep=3), now) == ["r0001", "r0002"]
    assert chosen(Selection(keep=99), now) == []
    assert chosen(Selection(older_than=3600.0), now) == []
    assert chosen(Selection(older_than=3600.0), now + timedelta(hours=2)) == ["r0001", "r0002", "r0003"]
    assert chosen(Selection(older_than=0.0), just_after_third) == ["r0001", "r0002", "r0003"]
    assert chosen(Selection(older_than=0.0), just_after_third - timedelta(microseconds=2)) == ["r0001", "r0002"]
    assert chosen(Selection(keep=4, older_than=0.0), just_after_third) == ["r0001"]
    assert chosen(Selection(), now) == ["r0001", "r0002", "r0003"]


def test_the_latest_run_is_always_kept(past: Past) -> None:
    found = pruned(past, "r0005")
    assert (names(found), found.kept) == ([], (LATEST,))
    assert past.opened().state.tombstones() == []


def test_a_run_that_is_unknown_or_pruned_cannot_be_named(past: Past) -> None:
    with pytest.raises(StateError, match="RUN_UNKNOWN"):
        pruned(past, "r0009")
    pruned(past, "r0001")
    with pytest.raises(StateError, match=r"RUN_PRUNED.*`r0001` was pruned"):
        pruned(past, "r0001")


# --- what stays, and why -----------------------------------------------------------------------------------------


JOBS = """
    workflow: needs
    inputs: {Word: {type: string, default: one}, Other: {type: string, default: x}}
    jobs:
      A:
        uses: shell
        with: {word: "${{ inputs.Word }}", run: 'test "$word" != broken; echo "$word" > "$out_Text"'}
        outputs: {Text: {type: text}}
      B:
        uses: shell
        with: {other: "${{ inputs.Other }}", run: 'echo "$other" > "$out_Text"'}
        outputs: {Text: {type: text, path: out/b.txt}}
    """
LOOP = """
    workflow: needs
    inputs: {Words: {type: "string[]", default: [a]}, Other: {type: string, default: x}}
    loops: {i: {each: inputs.Words}}
    jobs:
      A:
        for: [i]
        uses: shell
        deterministic: true
        with: {word: "${{ inputs.Words[i] }}", run: 'echo "$word" > "$out_Text"'}
        outputs: {Text: {type: text}}
      B:
        uses: shell
        with: {other: "${{ inputs.Other }}", run: 'echo "$other" > "$out_Text"'}
        outputs: {Text: {type: text}}
    """


def test_the_latest_success_is_kept_despite_later_failures(project: Callable[..., Lab]) -> None:
    lab = project(JOBS)
    lab.succeed()
    lab.run(sets=["Word=broken", "Other=y"])
    lab.run(sets=["Word=broken", "Other=z"])
    lab.run(sets=["Word=broken", "Other=w"])
    opened = lab.opened(["Word=broken", "Other=w"])
    before = compute_execution_plan(opened.snapshot(), PlanOptions()).to_bytes()
    found = prune(opened, Selection(keep=1), utc_now)
    assert names(found) == ["r0002", "r0003"]
    assert whys(found) == {"r0001": "has the latest success of Job:A"}
    assert compute_execution_plan(opened.snapshot(), PlanOptions()).to_bytes() == before
    assert lab.plan(sets=["Word=one", "Other=w"]).to_json()["jobs"][0]["reuse"] == "r0001"


def test_a_current_adoption_and_the_source_of_a_reused_result_are_kept(project: Callable[..., Lab]) -> None:
    lab = Past(project(JOBS).root)
    lab.succeed()
    lab.adopt("Artifact:A.Text", "my own\n")
    lab.succeed(sets=["Word=two"])
    lab.succeed(sets=["Word=one"])  # reuses what was adopted
    lab.succeed(sets=["Word=one", "Other=y"])
    assert [e.from_run for e in lab.events("r0004") if isinstance(e, ev.StepSkipped)] == ["r0002"]
    opened = lab.opened(["Word=one", "Other=y"])
    before = compute_execution_plan(opened.snapshot(), PlanOptions()).to_bytes()
    found = prune(opened, Selection(keep=1), utc_now)
    assert names(found) == ["r0001", "r0003"]
    assert whys(found) == {
        "r0002": "has the adoption of Artifact:A.Text",
        "r0004": "has the latest attempt of Job:A",
    }
    assert compute_execution_plan(opened.snapshot(), PlanOptions()).to_bytes() == before
    assert lab.content("Artifact:A.Text") == "my own\n"
    check_sound(lab)


def test_a_run_whose_result_another_instance_takes_stays_though_its_own_has_an_adopted_one(
    project: Callable[..., Lab],
) -> None:
    lab = Past(project(LOOP).root)
    alone, both = ['Words=["a"]'], ['Words=["a", "a"]']
    lab.succeed(sets=alone)
    (lab.root / "own.txt").write_text("my own\n")
    adopt_file(lab.opened(alone), "Artifact:A.Text[0]", lab.root / "own.txt", Heard())
    lab.succeed(sets=[*alone, "Other=y"])
    opened = lab.opened([*both, "Other=y"])
    before = compute_execution_plan(opened.snapshot(), PlanOptions())
    assert {job.id: job.reuse and job.reuse.run for job in before.planned} == {"Job:A[1]": "r0001"}
    found = prune(opened, Selection(keep=1), utc_now)
    assert (names(found), whys(found)) == (
        [],
        {"r0001": "the current plan reuses its result of Job:A[0]", "r0002": "has the latest attempt of Job:A[0]"},
    )
    assert compute_execution_plan(opened.snapshot(), PlanOptions()).to_bytes() == before.to_bytes()
    found = prune(lab.opened([*alone, "Other=y"]), Selection(keep=1), utc_now)
    assert names(found) == ["r0001"], "nobody takes it any more"
    check_sound(lab)


def test_the_run_that_made_a_reused_result_is_kept(project: Callable[..., Lab]) -> None:
    lab = project(JOBS)
    lab.succeed()
    lab.succeed(sets=["Word=two"])
    lab.succeed(sets=["Word=one"])
    lab.succeed(sets=["Word=one", "Other=y"])
    found = prune(lab.opened(["Word=one", "Other=y"]), Selection(keep=1), utc_now)
    assert names(found) == ["r0002"]
    assert whys(found) == {
        "r0001": "made the result of Job:A that later runs reuse",
        "r0003": "has the latest attempt of Job:A",
    }


def test_a_result_that_the_current_plan_reuses_is_kept(project: Callable[..., Lab]) -> None:
    lab = project(JOBS)
    lab.succeed()
    lab.succeed(sets=["Word=two", "Other=y"])
    now = lab.opened(["Word=one", "Other=y"])
    before = compute_execution_plan(now.snapshot(), PlanOptions())
    assert [job.reuse.run for job in before.planned if job.reuse is not None] == ["r0001"]
    found = prunable(now, Selection(names=("r0001",)), utc_now)
    assert whys(found) == {"r0001": "the current plan reuses its result of Job:A"}
    # With the inputs that it was last run with, nobody needs it.
    assert names(prunable(lab.opened(["Word=two", "Other=y"]), Selection(names=("r0001",)), utc_now)) == ["r0001"]


def test_a_failure_that_superseded_a_kept_result_is_kept(project: Callable[..., Lab], tmp_path: Path) -> None:
    """Else the older result would be reused, although what failed last is to be tried again."""
    lab, flag = project(JOBS), tmp_path / "flag"  # outside of the project, where nobody sees that the step reads it
    flag.write_text("good")
    lab.edit("workflow.yaml", 'test "$word" != broken', f"grep -q good {flag}")
    lab.succeed()  # A succeeds with `one`, B with `x`
    flag.write_text("bad")
    lab.run(force=["Job:A"])  # the same fingerprint fails
    flag.write_text("good")
    lab.succeed(sets=["Word=two"])
    lab.succeed(sets=["Word=three"])
    opened = lab.opened(["Word=three"])
    found = prune(opened, Selection(keep=1), utc_now)
    assert names(found) == ["r0003"]
    assert whys(found) == {
        "r0001": "has the latest attempt of Job:B",
        "r0002": "without it an older result of Job:A would count again",
    }
    assert "reuse" not in lab.plan(sets=["Word=one"]).to_json()["jobs"][0]


REMEMBERS = """
    def ask(context, word, other):
        from pathlib import Path
        if context.recall("request") is None:
            context.remember("request", "q-1")
        if (Path(__file__).parent / "open").exists():
            return {"Text": f"{context.recall('request')} {word}"}
        raise OSError("not ready")
"""


def test_a_run_with_an_open_paid_request_is_kept(project: Callable[..., Lab]) -> None:
    lab = project(
        """
        workflow: asks
        inputs: {Word: {type: string, default: one}, Other: {type: string, default: x}}
        jobs:
          Ask:
            uses: python
            with: {call: "asking:ask", word: "${{ inputs.Word }}", other: 1}
            outputs: {Text: {type: string}}
        """,
        {"asking.py": REMEMBERS},
    )
    for _ in range(3):
        assert lab.run().exit_code == 1
    found = pruned(lab, keep=1)
    assert names(found) == ["r0002"]
    assert whys(found) == {"r0001": "recorded a request that the next attempt of Job:Ask resumes"}
    lab.write({"open": ""})
    lab.succeed()
    assert lab.content("Artifact:Ask.Text") == "q-1 one"


def test_where_a_pruned_run_published_is_still_known(project: Callable[..., Lab]) -> None:
    """`status` lists a file that no job stands for any more; a file of ours at its path is not taken for the user's."""
    from whyrun.evidence.queries.current import stale_files

    lab = project(JOBS)
    lab.succeed()
    lab.edit("workflow.yaml", "out/b.txt", "out/moved.txt")
    lab.succeed(sets=["Word=two", "Other=y"])
    opened = lab.opened(["Word=two", "Other=y"])

    def stale() -> list[tuple[str, str, str]]:
        snapshot = opened.snapshot()
        plan = compute_execution_plan(snapshot, PlanOptions())
        runs, stones = opened.state.runs_and_tombstones()
        found = stale_files(snapshot, plan, runs, opened.observer().published, stones)
        return [(one.path, one.artifact, one.run) for one in found]

    before = stale()
    assert before == [("out/b.txt", "Artifact:B.Text", "r0001")]
    assert names(prune(opened, Selection(keep=1), utc_now)) == ["r0001"]
    assert stale() == before


def test_comparisons_can_be_pruned_unless_their_results_were_accepted(project: Callable[..., Lab]) -> None:
    lab = project(JOBS.replace('echo "$word" >', "date +%N >"))  # another text each time
    lab.succeed()
    assert [compare_workflow(lab.opened(), CompareOptions(), RunOptions(), Heard()).run] == ["r0002"]
    accepted = compare_workflow(lab.opened(), CompareOptions(ids=("Job:A",), accept=True), RunOptions(), Heard())
    assert accepted.run == "r0003"
    lab.succeed(sets=["Other=y"])
    opened = lab.opened(["Other=y"])
    before = compute_execution_plan(opened.snapshot(), PlanOptions()).to_bytes()
    found = prune(opened, Selection(keep=1), utc_now)
    assert [(run.run, run.mode) for run in found.pruned] == [("r0001", "run"), ("r0002", "compare")]
    assert whys(found) == {"r0003": "has the latest attempt of Job:A"}
    assert compute_execution_plan(opened.snapshot(), PlanOptions()).to_bytes() == before
    check_sound(lab)


# --- the log without them ----------------------------------------------------------------------------------------


def test_a_past_state_says_what_pruning_made_unknown(past: Past) -> None:
    """After r0005 the text was that of r0004. Were r0004 gone, an older one would seem to be it."""
    past.word("five").succeed()
    assert names(pruned(past, "r0004", "r0002")) == ["r0002", "r0004"]
    with pytest.raises(StateError) as refused:
        restore_version(past.opened(), "Artifact:Write.Text", "r0005", Heard())
    (told,) = refused.value.diagnostics
    assert told.code == "RUN_PRUNED"
    assert "what `Job:Write` had made by r0005 is not known" in told.message
    restore_version(past.opened(), "Artifact:Write.Text", "r0003", Heard())
    assert past.read("out/word.txt") == "three\n"


def test_a_run_pruned_between_listing_and_reading_is_not_damage(past: Past) -> None:
    """Runs are listed, then read. What was pruned in between is no damage."""
    from whyrun.evidence.queries.history import job_history, summarize_run

    state = past.opened().state
    history = past.opened().history()
    runs = state.runs()
    before = list(job_history(runs, lambda step: True, None))
    records = past.opened().history().records
    pruned(past, keep=1)
    assert history.records.inputs == records.inputs
    assert {step: record.latest for step, record in history.records.steps.items()} == {
        step: record.latest for step, record in records.steps.items()
    }
    assert [run.name for run in history.runs] == ["r0004", "r0005"]
    left = list(job_history(runs, lambda step: True, None))
    assert left == [entry for entry in before if entry.run in ("r0004", "r0005")]
    with pytest.raises(StateError, match="RUN_PRUNED"):
        summarize_run(runs[0], False)


def test_an_index_from_before_the_prune_is_not_used(past: Past) -> None:
    opened = past.opened()

    def plan(index: int) -> bytes:
        history = History(opened.state, opened.store.read, worth_indexing=index)
        return compute_execution_plan(past.opened().snapshot(history), PlanOptions()).to_bytes()

    for path in opened.state.runs_dir.glob("*/events.jsonl"):  # old enough to be indexed
        os.utime(path, ns=(1, 1))
    before = plan(1)
    assert (opened.state.index_dir / "fold").exists()
    covered = (opened.state.index_dir / "fold").read_bytes()
    pruned(past, keep=1)
    assert plan(1) == before
    assert (opened.state.index_dir / "fold").read_bytes() != covered
    # One that covers the time after is not believed once a tombstone is lost, either.
    records = History(opened.state, opened.store.read).records
    assert set(records.inputs) == {"Input:Word", "Input:Same"}
    lines = opened.state.tombstones_path.read_text().splitlines(keepends=True)
    opened.state.tombstones_path.write_text("".join(lines[1:]))
    (opened.state.runs_dir / "r0001").mkdir()  # not read, but there: no run is missing
    with pytest.raises(StateError, match="r0001"):
        plan(1)


def test_a_tombstone_that_was_changed_is_damage(past: Past) -> None:
    pruned(past, keep=1)
    path = past.opened().state.tombstones_path
    whole = path.read_bytes()
    for other in (
        whole.replace(b'"value":"one"', b'"value":"two"'),
        whole.replace(b'"mode":"run"', b'"mode":"ran"', 1),
        whole[:-1],
        b"".join(whole.splitlines(keepends=True)[::-1]),
        whole + b"{}\n",
    ):
        path.write_bytes(other)
        with pytest.raises(StateError) as refused:
            past.plan()
        assert refused.value.diagnostics[0].code == "LOG_DAMAGED"
        assert refused.value.diagnostics[0].file == str(path)
    first = whole.splitlines()[0]
    assert signed(first[: first.index(b',"digest"')]) == first
    for name in (b"x0001", b"r0000", b"r" + b"9" * 5000):
        path.write_bytes(signed(first[: first.index(b',"digest"')].replace(b"r0001", name, 1)) + b"\n")
        with pytest.raises(StateError, match="is out of order"):
            past.plan()
    path.write_bytes(whole)
    past.plan()


def signed(body: bytes) -> bytes:
    return body + b',"digest":"' + hashlib.sha256(b"tombstone/v1\n" + body).hexdigest().encode() + b'"}'


def test_the_chain_goes_through_tombstones(past: Past) -> None:
    pruned(past, keep=1)
    path = past.opened().state.tombstones_path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    found = verify(past.opened().state, past.root, lambda run: None)
    assert [(problem.run, problem.what) for problem in found.problems] == [
        ("r0003", "the run is missing, and was not pruned")
    ]
    path.write_bytes(b"".join((lines[0], lines[2])))
    found = verify(past.opened().state, past.root, lambda run: None)
    assert [problem.run for problem in found.problems] == ["r0002"]


@pytest.mark.parametrize("only", [None, "r0004"])
def test_a_run_must_follow_the_tombstone_before_it(past: Past, only: str | None) -> None:
    pruned(past, keep=1)
    state = past.opened().state
    stones = state.tombstones()
    assert verify(state, past.root, lambda run: None, only).problems == ()
    state.tombstones_path.unlink()
    forged = msgspec.structs.replace(stones[2], chain="f" * 64)
    add_tombstones(state.tombstones_path, [*stones[:2], forged])
    found = verify(state, past.root, lambda run: None, only).problems
    assert {problem.run for problem in found} == {"r0004"}
    assert found[0].expected == "f" * 64
    # And the other way round: the tombstone follows what was before it.
    state.tombstones_path.unlink()
    forged = msgspec.structs.replace(stones[1], previous_chain="f" * 64)
    add_tombstones(state.tombstones_path, [stones[0], forged, stones[2]])
    found = verify(state, past.root, lambda run: None).problems
    assert [(problem.run, problem.line, problem.expected, problem.found) for problem in found] == [
        ("r0002", 2, stones[0].chain, "f" * 64)
    ]


def test_what_the_lock_says_of_a_killed_run_is_left_for_its_repair(past: Past) -> None:
    """How far the log was synced, which only the killed run knew. A prune holds the lock and repairs nothing."""
    state = past.opened().state
    state.lock_path.write_text('{"pid":1,"host":"h","started":"","run":"r0005","synced":{"run":"r0005","seq":7}}')
    assert names(pruned(past, keep=1)) == ["r0001", "r0002", "r0003"]
    with RunLock.of(state, utc_now) as lock:
        assert lock.synced_of("r0005") == 7


def test_a_damaged_log_is_not_pruned(past: Past) -> None:
    log = past.opened().state.run("r0002").events_path
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b'"backend":"local"', b'"backend":"other"', 1))
    with pytest.raises(StateError, match="LOG_DAMAGED"):
        pruned(past, keep=1)
    assert past.runs() == ["r0001", "r0002", "r0003", "r0004", "r0005"]
    assert past.opened().state.tombstones() == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failed_system_call_leaves_a_run_or_its_tombstone(original: Past, tmp_path: Path, number: int) -> None:
    """Each call of a prune fails once. It is told, what is there is sound, and the next prune ends the work."""
    plan = original.plan().to_bytes()
    calls = 0
    for at in range(1, 100):
        past = copy_of(original, tmp_path / f"call-{at}")
        calls = 0

        def failing(point: str, call: Callable[..., Any], *arguments: Any, at: int = at, **named: Any) -> Any:
            nonlocal calls
            if point.startswith("prune."):
                calls += 1
                if calls == at:
                    raise OSError(number, os.strerror(number))
            return call(*arguments, **named)

        failed = None
        disk.hook = failing
        try:
            done = pruned(past, keep=1)
        except OSError as refused:
            failed = refused.errno
        finally:
            disk.hook = None
        if failed is None:
            break  # it has fewer calls than that
        assert failed == number
        assert past.runs() in (original.runs(), ["r0004", "r0005"])
        assert past.plan().to_bytes() == plan
        check_sound(past)
        pruned(past, keep=1)
        assert sorted(path.name for path in past.opened().state.runs_dir.iterdir()) == ["r0004", "r0005"]
        assert [path.name for path in past.opened().state.tmp.iterdir() if path.suffix == ".pruned"] == []
        shutil.rmtree(past.root)
    assert names(done) == ["r0001", "r0002", "r0003"]
    assert calls >= 11


def test_what_cannot_be_planned_is_not_pruned(past: Past) -> None:
    from whyrun.errors import InvalidError

    past.edit("workflow.yaml", "uses: shell\n    with: {word", "uses: no-such\n    with: {word")
    with pytest.raises(InvalidError, match="INVALID_USES"):
        pruned(past, keep=1)
    assert len(past.runs()) == 5


def test_a_very_large_age_is_valid(past: Past) -> None:
    for age in (800_000 * 86_400, 1e30, float("inf")):
        found = prunable(past.opened(), Selection(older_than=age), utc_now)
        assert (names(found), found.kept) == ([], ())


def test_a_damaged_run_is_not_listed_as_prunable(past: Past) -> None:
    """As it would not be removed."""
    log = past.run_folder("r0002") / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"status":"EXECUTES"', b'"status":"EXECUTEZ"', 1))
    for look in (prunable, prune):
        with pytest.raises(StateError) as refused:
            look(past.opened(), Selection(keep=1), utc_now)
        assert refused.value.diagnostics[0].code == "LOG_DAMAGED"
    assert past.runs() == ["r0001", "r0002", "r0003", "r0004", "r0005"]


TWO = """
    workflow: two
    inputs: {P: {type: integer, default: 1}, Q: {type: integer, default: 1}}
    jobs:
      A: {uses: shell, with: {p: "${{ inputs.P }}", run: 'echo "$p" > "$out_T"'}, outputs: {T: {type: text}}}
      B:
        uses: shell
        with: {t: "${{ jobs.A.outputs.T }}", q: "${{ inputs.Q }}", run: 'cat "$t" > "$out_T"; echo "$q" >> "$out_T"'}
        outputs: {T: {type: text}}
"""


def test_of_a_repeatedly_reused_result_only_the_source_run_is_kept(project: Callable[..., Lab]) -> None:
    lab = project(TWO)
    for sets in ([], ["Q=2"], ["P=2", "Q=3"], ["P=3", "Q=3"], ["Q=2"], ["Q=9"]):
        lab.succeed(sets=sets)
    opened = lab.opened(["Q=9"])
    assert (before := prunable(opened, Selection(keep=1), utc_now)).pruned
    assert names(before) == ["r0003", "r0004"]
    assert whys(before)["r0002"] == "made the result of Job:B that later runs reuse"
    assert names(prune(lab.opened(["Q=9"]), Selection(keep=1), utc_now)) == ["r0003", "r0004"]
    check_sound(lab)
