"""gc and prune in real processes: beside runs and readers, and killed at every point."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from gc_lab import Past, copy_of

from command_lab import until
from whyrun.evidence.retention.gc import collectable
from whyrun.evidence.verify.verify import verify

TWIN = "other.yaml"


def add_twin(past: Past) -> None:
    """Another workflow over the same store, which has never run."""
    text = past.read("workflow.yaml").replace("workflow: past", "workflow: other").replace("out/", "other/")
    past.write({TWIN: text})


def test_runs_are_refused_during_gc_and_the_message_names_it(past: Past, tmp_path: Path) -> None:
    """`gc` has begun to remove. A run could have decided to reuse what goes next, so none begins: not even of a
    workflow whose lock nobody could know of."""
    add_twin(past)
    past.whyrun("runs", "prune", "--keep", "1", "--delete")
    before = past.state_files()
    gate = tmp_path / "gate"
    collector = past.start_gated(gate, "gc.unlink", "gc", "--delete")
    past.word("one")  # what was pruned is in the store still: were the run older, it would reuse it
    for words in (("run",), ("run", TWIN), ("gc", "--delete")):
        answer = past.whyrun(*words)
        assert answer.code == 3, (words, answer)
        assert "error[LOCKED]" in answer.err
        if words[0] == "run":
            assert (
                f"the store is being cleared by process {collector.pid} on {os.uname().nodename} (since" in answer.err
            )
    # Readers go on.
    for words in (("plan",), ("status",), ("runs",), ("verify",), ("gc",)):
        answer = past.whyrun(*words)
        assert answer.code == 0, (words, answer)
    assert past.state_files() == before
    gate.touch()
    ended = collector.ended()
    assert ended.code == 0, ended.err
    assert collectable(past.root / ".whyrun").removed.count == 0
    for words in (("run", "--quiet"), ("run", TWIN, "--quiet")):
        answer = past.whyrun(*words)
        assert answer.code == 0, answer.err
    assert past.read("out/word.txt") == "one\n"
    assert past.read("other/word.txt") == "four\n"


def test_gc_removes_nothing_while_a_run_of_any_workflow_goes_on(past: Past, tmp_path: Path) -> None:
    """A run has stored its first output and has not recorded it: for all that the log says, nobody needs it."""
    add_twin(past)
    past.whyrun("runs", "prune", "--keep", "1", "--delete")
    gate = tmp_path / "gate"
    past.edit(TWIN, 'echo "$word" >', f'touch {gate}.step; until test -e {gate}; do sleep 0.02; done; echo "$word" >')
    runner = past.start("run", TWIN, "--quiet")
    until(lambda: Path(f"{gate}.step").exists())
    look = past.whyrun("gc", "--json")
    assert (look.code, look.json["running"], look.json["deleted"]) == (0, ["other"], False)
    assert look.json["removed"]["count"] > 0
    before = past.blobs()
    refused = past.whyrun("gc", "--delete", "--json")
    assert refused.code == 3
    assert f"`other` (r0001) is being run by process {runner.pid} on {os.uname().nodename} (since" in refused.err
    assert refused.json["diagnostics"][0]["code"] == "LOCKED"
    assert past.blobs().items() >= before.items()
    # Pruning is a matter of one workflow: the one that runs is refused, the other is not.
    refused = past.whyrun("runs", "prune", TWIN, "--keep", "1", "--delete")
    assert refused.code == 3
    assert f"this workflow is being run by process {runner.pid}" in refused.err
    assert past.whyrun("runs", "prune", "--keep", "1", "--delete").code == 0
    gate.touch()
    ended = runner.ended()
    assert ended.code == 0, ended.err
    assert past.whyrun("gc", "--delete").code == 0
    assert past.whyrun("verify", TWIN).code == 0
    assert past.read("other/word.txt") == "four\n"


def test_readers_see_a_run_or_its_tombstone_never_half_a_run(past: Past, tmp_path: Path) -> None:
    def answers() -> list[object]:
        found = [past.whyrun(*words) for words in (("plan", "--json"), ("status", "--json"), ("why", "Job:Write"))]
        assert [answer.code for answer in found] == [0, 0, 0]
        return [answer.out for answer in found]

    before = answers()
    # Right before the tombstones count; before the first folder goes out of sight; before what is left is removed.
    for point, listed in (("prune.sync", 5), ("prune.mkdir", 2), ("prune.remove", 2)):
        copy = copy_of(past, tmp_path / point)
        gate = tmp_path / f"{point}.gate"
        command = copy.start_gated(gate, point, "runs", "prune", "--keep", "1", "--delete")
        found = copy.whyrun("runs", "--json").json
        assert (len(found["runs"]), len(found.get("pruned", []))) == (listed, 5 - listed)
        assert copy.whyrun("plan", "--json").out == before[0]
        assert copy.whyrun("verify").code == 0
        gate.touch()
        ended = command.ended()
        assert ended.code == 0, ended.err
        assert copy.runs() == ["r0004", "r0005"]
    assert answers() == before


def test_a_kill_at_any_point_leaves_a_sound_state_and_the_next_command_ends_the_work(
    past: Past, tmp_path: Path
) -> None:
    plan = past.plan().to_bytes()
    words = ("runs", "prune", "--keep", "1", "--delete")
    counted = copy_of(past, tmp_path / "counted").whyrun(*words, KILL_AT="0", KILL_AREAS="prune")
    points = int(counted.err.split()[-1])
    assert points >= 11
    nexts = [("runs", "prune", "--keep", "1", "--delete"), ("run", "--quiet"), ("gc", "--delete")]
    for at in range(1, points + 1):
        copy = copy_of(past, tmp_path / f"cut-{at}")
        killed = copy.whyrun(*words, KILL_AT=str(at), KILL_AREAS="prune")
        assert killed.code == -signal.SIGKILL, killed.err
        assert copy.plan().to_bytes() == plan, at
        assert copy.runs() in (past.runs(), ["r0004", "r0005"]), "all of them, or none"
        assert verify(copy.opened().state, copy.root, lambda run: None).problems == ()
        pruned = len(copy.opened().state.tombstones())
        then = copy.whyrun(*nexts[at % 3])
        assert then.code == 0, then.err
        left = [path.name for path in copy.opened().state.runs_dir.iterdir()]
        if pruned or at % 3 == 0:
            assert sorted(left) == ["r0004", "r0005"]
            assert list((copy.root / ".whyrun/tmp").glob("*.pruned")) == []
            assert list((copy.root / ".whyrun/past").glob(".*")) == []
        assert copy.plan().to_bytes() == plan


def test_a_kill_in_the_middle_of_gc_loses_nothing_that_is_needed(past: Past, tmp_path: Path) -> None:
    past.whyrun("runs", "prune", "--keep", "1", "--delete")
    plan = past.plan().to_bytes()
    going = collectable(past.root / ".whyrun").removed.count
    for at in (1, 2, going):
        copy = copy_of(past, tmp_path / f"cut-{at}")
        killed = copy.whyrun("gc", "--delete", KILL_AT=str(at), KILL_AREAS="gc")
        assert killed.code == -signal.SIGKILL, killed.err
        assert collectable(copy.root / ".whyrun").removed.count == going - at + 1
        assert copy.plan().to_bytes() == plan
        assert verify(copy.opened().state, copy.root, lambda run: None).problems == ()
        assert copy.whyrun("gc", "--delete").code == 0
        assert collectable(copy.root / ".whyrun").removed.count == 0
