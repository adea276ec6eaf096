"""Which earlier result is reused: the latest settled one with the fingerprint, if it is complete."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from project_lab import Heard, Lab
from whyrun.artifacts.shared.result import SharedOutput, SharedResult
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.graph.fingerprint import prefix
from whyrun.log.events import NOT_PUBLISHED, ArtifactAvailable
from whyrun.planning.judge import Judge
from whyrun.planning.reuse import Reuse, attempts_by_fingerprint, is_undone, latest_of_others, reusable
from whyrun.snapshot.records import Attempt, Output, StepRecord

Make = Callable[..., Lab]
FLOW = """
    workflow: w
    inputs: {Two: {type: "integer[]", default: [1, 2]}}
    loops: {i: {each: inputs.Two}}
    jobs:
      Job: {for: [i], uses: python, with: {call: "acts:one", i: "${{ i }}"},
            outputs: {N: {type: integer}, F: {type: text}}}
"""
N0, F0 = (
    Output("Artifact:Job.N[0]", "aa", 1, "integer", None, (7,)),
    Output("Artifact:Job.F[0]", "ff", 3, "text", suffix=".txt"),
)
MINE = Output("Artifact:Job.F[0]", "mine", 4, "text", suffix=".txt")


@pytest.fixture
def table(project: Make) -> Any:
    graph = project(FLOW, {"acts.py": "def one(i):\n    return {'N': 1, 'F': 'x'}\n"}).opened().graph
    return graph.table_at(graph.node_of["Job:Job[0]"])[0]


def attempt(run: int, fingerprint: str = "same", seq: int = 1, **fields: Any) -> Attempt:
    return Attempt(run, seq, 1, fingerprint, **{"ok": True, "outputs": (N0, F0), **fields})


FAILED = {"ok": False, "status": "FAILED", "error_type": "ValueError", "outputs": ()}


def take(table: Any, record: StepRecord | None, others: Any = None, lost: Any = (), position: int = 0) -> Reuse | None:
    return reusable(table, position, record, "same", others or {}, lost)


def test_the_latest_attempt_with_the_fingerprint_is_taken_whole(table: Any) -> None:
    whole = Reuse("r0003", "Job:Job[0]", {"N": N0, "F": F0})
    assert take(table, StepRecord(attempt(3))) == whole
    reused = Reuse("r0003", "Job:Job[0]", {"N": N0, "F": F0}, recorded_in="r0005")
    assert take(table, StepRecord(attempt(5, made=3))) == reused, "the run that made it is named"
    assert take(table, StepRecord(attempt(4, "other"), settled=[attempt(3), attempt(4, "other")])) == whole
    assert take(table, StepRecord(attempt(4, "other"))) is None
    assert take(table, None) is None


def test_a_failed_result_is_not_taken_and_hides_results_of_other_instances(table: Any) -> None:
    others = {"same": [("Job:Job[1]", attempt(2, outputs=other_outputs()))]}
    assert take(table, StepRecord(attempt(3, **FAILED)), others) is None
    assert take(table, None, others) == Reuse("r0002", "Job:Job[1]", dict(zip("NF", other_outputs(), strict=True)))
    unpublished = {"ok": False, "status": "FAILED", "error_type": NOT_PUBLISHED}
    assert take(table, StepRecord(attempt(3, **unpublished))) == Reuse("r0003", "Job:Job[0]", {"N": N0, "F": F0})


def other_outputs() -> tuple[Output, Output]:
    return Output("Artifact:Job.N[1]", "aa", 1, "integer", None, (7,)), Output(
        "Artifact:Job.F[1]", "ff", 3, "text", suffix=".txt"
    )


def test_a_result_that_is_not_whole_is_not_taken_but_that_of_another_may_be(table: Any) -> None:
    others = {"same": [("Job:Job[1]", attempt(2, outputs=other_outputs()))]}
    taken = Reuse("r0002", "Job:Job[1]", dict(zip("NF", other_outputs(), strict=True)))
    for outputs in (
        (N0,),
        (N0, Output("Artifact:Job.F[0]", "ff", 3, "json")),
        (N0, Output("Artifact:Job.F[0]", "ff", 3, "text", suffix=".md")),
    ):
        assert take(table, StepRecord(attempt(3, outputs=outputs))) is None
        assert take(table, StepRecord(attempt(3, outputs=outputs)), others) == taken
    assert take(table, StepRecord(attempt(3)), {}, {"ff"}) is None, "its bytes are gone"
    assert take(table, StepRecord(attempt(3)), {}, {"aa"}) is not None, "a value needs no bytes"
    kept = Output("Artifact:Job.F[0]", "ff", 3, "text", "out/f.txt", suffix=".txt")
    assert take(table, StepRecord(attempt(3, outputs=(N0, kept))), {}, {"ff"}) is not None, "they are at its path"
    assert take(table, StepRecord(attempt(3, outputs=(N0, kept))), {}, {"ff out/f.txt"}) is None


def test_of_many_with_one_fingerprint_the_latest_counts_whoever_made_it() -> None:
    first, second = attempt(1, seq=5), attempt(1, seq=9)
    steps = {"Job:Job[1]": StepRecord(first), "Job:Job[0]": StepRecord(second)}
    assert latest(steps) == ("Job:Job[0]", second)
    later = attempt(2, seq=1)
    assert latest({**steps, "Job:Job[2]": StepRecord(later)}) == ("Job:Job[2]", later)
    failed = attempt(2, **FAILED)
    assert latest({**steps, "Job:Job[2]": StepRecord(failed)}) is None
    interrupted = attempt(2, **{**FAILED, "status": "INTERRUPTED"})
    assert latest({**steps, "Job:Job[2]": StepRecord(interrupted)}) == ("Job:Job[0]", second)


def test_of_many_only_those_count_that_would_read_the_same_now() -> None:
    """Undeclared reads of the later attempts find something else."""
    first, second, failed = attempt(1, reads=7), attempt(2, reads=8), attempt(3, reads=9, **FAILED)
    steps = {f"Job:Job[{n}]": StepRecord(one) for n, one in enumerate([first, second, failed])}
    assert latest(steps, lambda one: one.reads == 7) == ("Job:Job[0]", first)
    assert latest(steps, lambda one: one.reads == 9) is None


def latest(
    steps: dict[str, StepRecord], holds: Callable[[Attempt], bool] = lambda _: True
) -> tuple[str, Attempt] | None:
    return latest_of_others(attempts_by_fingerprint(steps), "same", holds)


def test_adopted_results_are_good_for_their_own_instance_only() -> None:
    adopted = attempt(3, origin="adopted")
    other = attempt(2, "other")
    record = StepRecord(other, settled=[adopted, other])
    assert attempts_by_fingerprint({"Job:Job[0]": record}) == {"other": [("Job:Job[0]", other)]}


def test_a_result_that_an_adoption_replaced_is_for_other_instances_only(table: Any) -> None:
    executed, adopted = attempt(2), attempt(3, origin="adopted", outputs=(N0, MINE))
    record = StepRecord(adopted, unadopted=[executed])
    others = attempts_by_fingerprint({"Job:Job[0]": record})
    assert others == {"same": [("Job:Job[0]", executed)]}
    assert take(table, None, others, position=1) == Reuse("r0002", "Job:Job[0]", {"N": N0, "F": F0})
    assert take(table, record, others) == Reuse("r0003", "Job:Job[0]", {"N": N0, "F": MINE})
    assert take(table, record, others, {MINE.sha256}) is None, (
        "what was adopted is gone, and nobody asked for the other"
    )
    failed = attempt(2, **FAILED)
    assert latest({"Job:Job[0]": StepRecord(adopted, unadopted=[failed])}) is None


@pytest.mark.parametrize("lost", [False, True])
def test_an_adoption_costs_other_instances_nothing(project: Make, lost: bool) -> None:
    lab = project(
        SAY, {"acts.py": "def say(word):\n    return {'Parts': {'Said': word}}\n", "mine.json": '{"Said": "I"}'}
    )
    lab.succeed(sets=['Words=["a"]'])
    adopt_file(lab.opened(['Words=["a"]']), "Artifact:Say.Parts[0]", lab.root / "mine.json", Heard())
    (made,) = [e for e in lab.events("r0001") if isinstance(e, ArtifactAvailable) and e.type == "json"]
    if lost:
        lab.blob(made.sha256).unlink()
    both = ['Words=["a", "a"]']
    (planned,) = lab.plan(sets=both).planned
    found = planned.reuse and (planned.reuse.run, planned.reuse.step)
    assert (planned.id, found) == ("Job:Say[1]", None if lost else ("r0001", "Job:Say[0]"))
    ended = lab.succeed(sets=both)
    assert (ended.executed, ended.reused) == ((["Job:Say[1]"], {}) if lost else ([], {"Job:Say[1]": "r0001"}))
    said = {id_: record.sha256 for id_, record in lab.snapshot(both).available_artifacts.items()}
    assert said["Artifact:Say.Parts[1]"] == made.sha256
    assert said["Artifact:Say.Parts[0]"] != made.sha256, "what was adopted stands"
    assert lab.plan(sets=both).headlines() == {}


def test_two_results_at_one_log_position_are_ordered_by_name() -> None:
    both = {"Job:B": StepRecord(attempt(1)), "Job:A": StepRecord(attempt(1))}
    assert attempts_by_fingerprint(both)["same"][0][0] == "Job:A"


def test_an_effect_is_undone_by_whatever_was_done_since(table: Any) -> None:
    action = SimpleNamespace(effectful=True)

    def undone(record: StepRecord | None, holds: bool = True) -> bool:
        snapshot: Any = SimpleNamespace(actions={"Job": action})
        return is_undone(snapshot, table, record, "same", lambda _: holds)

    assert undone(StepRecord(attempt(3))) is False
    assert undone(StepRecord(attempt(3, "other"), settled=[attempt(2), attempt(3, "other")])) is True
    assert undone(None) is True
    assert undone(StepRecord(attempt(3)), holds=False) is True, "it had the effect of another undeclared file"
    action.effectful = False
    assert undone(StepRecord(attempt(3, "other"))) is False


SAY = """
    workflow: w
    inputs: {Words: {type: "string[]", default: [a, b]}}
    loops: {i: {each: inputs.Words}}
    jobs:
      Say: {for: [i], uses: python, deterministic: true, with: {call: "acts:say", word: "${{ inputs.Words[i] }}"},
            outputs: {Parts: {type: json, leaves: {Said: string}}}}
"""


@pytest.mark.parametrize("scope", ["deterministic: true", "reuse: anywhere", "reuse: job", "reuse: instance"])
def test_whose_results_an_instance_takes(project: Make, scope: str) -> None:
    flow = SAY.replace("deterministic: true", scope)
    any_, moves = scope in ("deterministic: true", "reuse: anywhere"), scope != "reuse: instance"
    lab = project(flow, {"acts.py": "def say(word):\n    return {'Parts': {'Said': word}}\n"})
    lab.succeed()
    plan = lab.plan(sets=['Words=["b", "a", "b", "c"]'])
    taken = {job.id: job.reuse and (job.reuse.run, job.reuse.step, sorted(job.reuse.outputs)) for job in plan.planned}
    keys = ["Parts", "Parts.Said"]
    assert taken == {
        "Job:Say[0]": ("r0001", "Job:Say[1]", keys) if moves else None,
        "Job:Say[1]": ("r0001", "Job:Say[0]", keys) if moves else None,
        "Job:Say[2]": ("r0001", "Job:Say[1]", keys) if any_ else None,  # else it is taken already
        "Job:Say[3]": None,
    }
    assert plan.totals["reused"] == (3 if any_ else 2 if moves else 0)


def test_instances_with_different_leaves_have_different_fingerprints(project: Make) -> None:
    flow = SAY.replace("leaves: {Said: string}", "leaves: {'Said[i]': string}")
    snapshot = project(flow, {"acts.py": "def say(word):\n    return {}\n"}).snapshot()
    judge, action = Judge(snapshot, {}), snapshot.actions["Say"]
    (table,) = snapshot.dependency_graph.tables
    own = [prefix(table, action.sha256, position, action.uncounted) for position in range(2)]
    assert own[0] != own[1]
    assert [judge.prefix(table, position) for position in range(2)] == own


N_SHARED, F_SHARED = SharedOutput("N", "aa", 1, "integer", value=7), SharedOutput("F", "ff", 3, "text", suffix=".txt")


@pytest.mark.parametrize(
    ("outputs", "taken"),
    [
        ((N_SHARED, F_SHARED), True),
        ((N_SHARED,), False),
        ((N_SHARED, SharedOutput("F", "ff", 3, "json", suffix=".txt")), False),
        ((N_SHARED, SharedOutput("F", "ff", 3, "text", suffix=".md")), False),
        ((SharedOutput("N", "aa", 1, "integer"), F_SHARED), False),
    ],
)
def test_a_result_of_others_is_taken_whole_or_not(table: Any, outputs: tuple[SharedOutput, ...], taken: bool) -> None:
    result = SharedResult(1, "same", "python", "", outputs)
    found = reusable(table, 0, None, "same", {}, (), {"same": result})
    assert found == (Reuse("shared store", "", {"N": N0, "F": F0}, result) if taken else None)
    assert reusable(table, 0, None, "other", {}, (), {"same": result}) is None


@pytest.mark.parametrize(
    ("leaf", "taken"),
    [
        (SharedOutput("S.Deep", "dd", 2, "json", value={}), True),
        (SharedOutput("S.Deep", "dd", 2, "json"), False),
    ],
)
def test_of_a_leaf_the_value_is_taken_whatever_its_type(project: Make, leaf: SharedOutput, taken: bool) -> None:
    flow = SAY.replace("{Parts: {type: json, leaves: {Said: string}}}", "{S: {type: json, leaves: {Deep: json}}}")
    (table,) = project(flow, {"acts.py": "def say(word):\n    return {}\n"}).opened().graph.tables
    whole = SharedOutput("S", "ff", 3, "json")
    result = SharedResult(1, "same", "python", "", (whole, leaf))
    found = reusable(table, 0, None, "same", {}, (), {"same": result})
    kept = {
        "S": Output("Artifact:Say.S[0]", "ff", 3, "json"),
        "S.Deep": Output("Artifact:Say.S[0].Deep", "dd", 2, "json", None, ({},)),
    }
    assert found == (Reuse("shared store", "", kept, result) if taken else None)


def test_own_results_come_before_shared_ones(table: Any) -> None:
    shared = {"same": SharedResult(1, "same", "python", "", (N_SHARED, F_SHARED))}
    own = reusable(table, 0, StepRecord(attempt(3)), "same", {}, (), shared)
    assert own is not None
    assert (own.run, own.describe("Job:Job[0]"), own.describe("Job:Other")) == ("r0003", "r0003", "r0003 (Job:Job[0])")
    lost = reusable(table, 0, StepRecord(attempt(3)), "same", {}, {"ff"}, shared)
    assert lost is not None
    assert (lost.run, lost.describe("Job:Job[0]")) == ("shared store", "shared store")
    assert reusable(table, 0, StepRecord(attempt(3, **FAILED)), "same", {}, (), shared) is None
