"""Which blobs gc removes and keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gc_lab import Past

from project_lab import Lab
from whyrun.artifacts.hashing import bytes_sha256, decode_tree
from whyrun.errors import StateError
from whyrun.evidence.retention.gc import Blobs, GcReport, WorkflowNeeds, collect, collectable
from whyrun.evidence.retention.prune import Selection, prune
from whyrun.evidence.verify.verify import verify
from whyrun.log import events as ev
from whyrun.log.journal import utc_now


def state_of(lab: Lab) -> Path:
    return lab.root / ".whyrun"


def cleared(lab: Lab) -> GcReport:
    return collect(state_of(lab), utc_now)


def size(blobs: dict[str, bytes]) -> int:
    return sum(map(len, blobs.values()))


def needed_by(past: Past, *runs: str) -> set[str]:
    """What these runs made and were planned from; of folders what is in them."""
    found = {past.snapshot_of(run) for run in runs}
    for run in runs:
        for artifact, sha in past.made(run).items():
            found.add(sha)
            if artifact == "Artifact:Bind.Book":
                found |= {file.sha256 for file in decode_tree(past.blob(sha).read_bytes()).files}
    return found


def test_gc_removes_nothing_while_all_runs_are_kept(past: Past) -> None:
    before = past.blobs()
    found = cleared(past)
    assert found == GcReport(
        removed=Blobs(0, 0),
        kept=Blobs(len(before), size(before)),
        workflows=(WorkflowNeeds("past", 5, 0, len(before)),),
        displaced=0,
        running=(),
        deleted=True,
    )
    assert past.blobs() == before


def test_gc_removes_only_the_results_of_pruned_runs(past: Past) -> None:
    before, needed = past.blobs(), needed_by(past, "r0004", "r0005")
    plan = past.plan().to_bytes()
    prune(past.opened(), Selection(keep=1), utc_now)
    assert past.blobs() == before, "pruning alone takes nothing out of the store"
    going = {sha: data for sha, data in before.items() if sha not in needed}
    assert {b"one\n", b"two\n", b"three\n"} <= set(going.values())
    found = collectable(state_of(past))
    assert (found.removed, found.deleted) == (Blobs(len(going), size(going)), False)
    assert past.blobs() == before, "a look takes nothing out of the store"
    done = cleared(past)
    assert (done.removed, done.kept) == (found.removed, Blobs(len(needed), size(past.blobs())))
    assert set(past.blobs()) == needed
    assert past.plan().to_bytes() == plan
    assert verify(past.opened().state, past.root, lambda run: None).problems == ()
    assert cleared(past).removed == Blobs(0, 0)


def test_the_inputs_of_a_kept_run_are_kept(project: Callable[..., Lab]) -> None:
    """r0003 is kept and has read what r0002 made; r0002 is gone, and that version is no job's latest."""
    lab = project(
        """
        workflow: chain
        inputs: {Word: {type: string, default: one}, Mark: {type: string, default: "!"}}
        jobs:
          A:
            uses: shell
            with: {word: "${{ inputs.Word }}", run: 'mkdir "$out_Dir"; echo "$word" > "$out_Dir/in.txt"'}
            outputs: {Dir: {type: directory}}
          B:
            uses: shell
            with: {dir: "${{ jobs.A.outputs.Dir }}", mark: "${{ inputs.Mark }}", run: 'cat "$dir/in.txt" > "$out_Text"'}
            outputs: {Text: {type: text}}
        """
    )
    for sets in (["Word=one"], ["Word=two"], ["Word=two", "Mark=?"], ["Word=three", "Mark=?"]):
        lab.succeed(sets=sets)
    found = prune(lab.opened(["Word=three", "Mark=?"]), Selection(names=("r0001", "r0002")), utc_now)
    assert [run.run for run in found.pruned] == ["r0001", "r0002"]
    cleared(lab)
    (start,) = [e for e in lab.events("r0003") if isinstance(e, ev.StepStart)]
    assert start.bindings is not None
    (read,) = start.bindings["dir"]
    assert isinstance(read, dict)
    tree = decode_tree(lab.blob(read["sha256"]).read_bytes())
    assert [lab.blob(file.sha256).read_bytes() for file in tree.files] == [b"two\n"]
    assert not lab.blob(bytes_sha256(b"one\n")).exists()


def test_long_lists_and_their_members_are_kept(project: Callable[..., Lab]) -> None:
    lab = project(
        """
        workflow: wide
        inputs: {Mark: {type: string, default: "!"}}
        loops: {i: {count: 66}}
        jobs:
          Each:
            for: [i]
            uses: python
            with: {call: "each:each", i: "${{ i }}"}
            outputs: {Text: {type: text}}
          All:
            uses: python
            with: {call: "each:join", parts: "${{ jobs.Each.outputs.Text[:] }}", mark: "${{ inputs.Mark }}"}
            outputs: {Text: {type: text}}
        """,
        {
            "each.py": """
                def each(context, i):
                    context.output("Text").write_text(f"part {i}")

                def join(context, parts, mark):
                    context.output("Text").write_text(mark.join(part.read_text() for part in parts))
            """
        },
    )
    lab.succeed()
    lab.succeed(sets=["Mark=?"])
    before = {path for path in lab.store.rglob("*") if path.is_file()}
    (lab.store / "0f").mkdir(exist_ok=True)
    (lab.store / "0f" / ("0" * 62)).write_text("left by a kill")
    found = cleared(lab)
    assert found.removed == Blobs(1, 14)
    assert {path for path in lab.store.rglob("*") if path.is_file()} == before
    assert verify(lab.opened().state, lab.root, lambda run: None).problems == ()


def test_a_displaced_user_file_is_kept_forever(past: Past) -> None:
    """It was saved before it was written over; the run that did so is pruned, and nobody else speaks of it."""
    past.write({"out/word.txt": "my own words\n"})
    past.word("five").succeed()
    saved = bytes_sha256(b"my own words\n")
    assert past.blob(saved).read_text() == "my own words\n"
    past.word("six").succeed()
    past.word("seven").succeed()
    found = prune(past.opened(), Selection(keep=1), utc_now)
    assert "r0006" in [run.run for run in found.pruned]
    (stone,) = [stone for stone in past.opened().state.tombstones() if stone.displaced]
    assert (stone.run, [(d.path, d.sha256) for d in stone.displaced]) == ("r0006", [("out/word.txt", saved)])
    done = cleared(past)
    assert done.displaced == 1
    assert past.blob(saved).read_text() == "my own words\n"
    assert verify(past.opened().state, past.root, lambda run: None).problems == ()
    past.blob(saved).unlink()
    (problem,) = verify(past.opened().state, past.root, lambda run: None).problems
    assert problem.what == "a file that was saved before it was overwritten is not in the store"


def test_other_workflows_of_the_same_store_keep_their_own(past: Past) -> None:
    other = past.read("workflow.yaml").replace("workflow: past", "workflow: other").replace("out/", "other/")
    past.write({"other.yaml": other})
    twin = Past(past.root)
    twin.file = past.root / "other.yaml"
    twin.succeed()
    prune(past.opened(), Selection(keep=1), utc_now)
    done = cleared(past)
    assert [(one.workflow, one.runs, one.pruned) for one in done.workflows] == [("other", 1, 0), ("past", 2, 3)]
    assert done.removed.count > 0
    for lab in (past, twin):
        assert lab.plan().headlines() == {}
        assert verify(lab.opened().state, lab.root, lambda run: None).problems == ()


def test_removed_blobs_are_listed(past: Past) -> None:
    prune(past.opened(), Selection(keep=1), utc_now)
    before = past.blobs()
    looked = collectable(state_of(past)).to_json()
    told = cleared(past).to_json()
    gone = {sha: data for sha, data in before.items() if sha not in past.blobs()}
    assert told["blobs"] == [{"sha256": sha, "size": len(data)} for sha, data in sorted(gone.items())]
    assert told["removed"] == {"count": len(gone), "bytes": size(gone)}
    assert looked == {**told, "deleted": False}


def test_temporary_files_are_removed_and_other_files_are_left_alone(past: Past) -> None:
    (past.store / "tmp").mkdir(exist_ok=True)
    (past.store / "tmp" / "tmp-1-dead-0").write_text("half")
    (past.store / "README").write_text("mine")
    (past.store / "ab").mkdir(exist_ok=True)
    (past.store / "ab" / "notes.txt").write_text("mine")
    cleared(past)
    assert not (past.store / "tmp" / "tmp-1-dead-0").exists()
    assert (past.store / "README").read_text() == "mine"
    assert (past.store / "ab" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("damage", ["line", "run", "log", "tombstones"])
def test_gc_removes_nothing_if_a_log_is_unreadable(past: Past, damage: str) -> None:
    prune(past.opened(), Selection(keep=1), utc_now)
    log = past.opened().state.run("r0004").events_path
    if damage == "line":
        log.write_bytes(log.read_bytes().replace(b'{"seq":3,', b'{"seq":,', 1))
    elif damage == "run":
        log.parent.rename(past.root / "moved")
    elif damage == "log":
        log.unlink()
    else:
        past.opened().state.tombstones_path.write_text("{}\n")
    before = past.blobs()
    with pytest.raises(StateError) as refused:
        cleared(past)
    assert refused.value.diagnostics[0].code in ("LOG_DAMAGED", "LOG_INCOMPLETE")
    assert past.blobs() == before


def test_a_project_without_state_has_nothing_to_remove(tmp_path: Path) -> None:
    nothing = GcReport(Blobs(), Blobs(), (), 0, (), False)
    assert collectable(tmp_path / ".whyrun") == nothing
    assert collect(tmp_path / ".whyrun", utc_now) == nothing
    assert not (tmp_path / ".whyrun").exists()
