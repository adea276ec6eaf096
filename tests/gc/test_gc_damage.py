"""gc removes nothing if a log or a blob that refers to others is damaged; and it works on a full disk."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gc_lab import Past

from project_lab import Lab
from whyrun import disk
from whyrun.artifacts.hashing import bytes_sha256
from whyrun.errors import StateError
from whyrun.evidence.referenced_blobs import UNKNOWN_REFERENCES_HINT, stored_blobs
from whyrun.evidence.retention.gc import collect, collectable
from whyrun.evidence.retention.prune import Selection, prune
from whyrun.evidence.verify.report import MORE_AFTER_THE_END
from whyrun.evidence.verify.verify import verify
from whyrun.log import events as ev
from whyrun.log.events import DAMAGE_HINT
from whyrun.log.journal import utc_now
from whyrun.log.outcomes import LOST_END_HINT
from whyrun.snapshot.history.reader import History

Lines = list[bytes]


def line_of(lines: Lines, kind: str) -> int:
    return next(at for at, line in enumerate(lines) if json.loads(line)["event"] == kind)


def without_the_artifact(lines: Lines) -> Lines:
    at = line_of(lines, "artifact_available")
    return [*lines[:at], *lines[at + 1 :]]


def with_another_hash(lines: Lines) -> Lines:
    at = line_of(lines, "artifact_available")
    sha = json.loads(lines[at])["sha256"].encode()
    return [*lines[:at], lines[at].replace(sha, sha[::-1]), *lines[at + 1 :]]


def without_its_end(lines: Lines) -> Lines:
    return lines[: line_of(lines, "artifact_available")]


def with_more_after_its_end(lines: Lines) -> Lines:
    return [*lines, b'{"seq":']


def hint_for(damage: Callable[[Lines], Lines], run: str) -> str:
    """What `verify` says, too: some damage costs less than the runs from there on."""
    if damage is with_more_after_its_end:
        return MORE_AFTER_THE_END
    return LOST_END_HINT if damage is without_its_end and run == "r0005" else DAMAGE_HINT


DAMAGES: list[Callable[[Lines], Lines]] = [
    without_the_artifact, with_another_hash, without_its_end, with_more_after_its_end,
]  # fmt: skip


@pytest.mark.parametrize("run", ["r0004", "r0005"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_gc_removes_nothing_if_verify_reports_a_damaged_log(
    past: Past, run: str, damage: Callable[[Lines], Lines]
) -> None:
    """Also where each line that is left can be read; and where the end of the last run is gone, which a kill leaves so,
    but not beside a status that tells of the end."""
    prune(past.opened(), Selection(keep=2), utc_now)
    log = past.opened().state.run(run).events_path
    log.write_bytes(b"".join(damage(log.read_bytes().splitlines(keepends=True))))
    before = past.blobs()
    assert not verify(past.opened().state, past.root, lambda run: None).sound
    for attempt in (lambda state: collect(state, utc_now), collectable):
        with pytest.raises(StateError) as refused:
            attempt(past.root / ".whyrun")
        (told,) = refused.value.diagnostics
        assert (told.code, told.file, told.hint) == ("LOG_DAMAGED", str(log), hint_for(damage, run))
    assert past.blobs() == before


def test_a_tombstone_that_does_not_follow_keeps_everything(past: Past, tmp_path: Path) -> None:
    """The tombstones of another past are each as they were written, and are not of this one."""
    other = Past(tmp_path / "other")
    shutil.copytree(past.root, other.root, symlinks=True)
    shutil.rmtree(other.root / ".whyrun")
    for word in ("five", "six", "seven", "eight"):
        other.word(word).succeed()
    prune(other.opened(), Selection(keep=1), utc_now)
    prune(past.opened(), Selection(keep=2), utc_now)
    state = past.opened().state
    shutil.copy(other.opened().state.tombstones_path, state.tombstones_path)
    before = past.blobs()
    with pytest.raises(StateError) as refused:
        collect(past.root / ".whyrun", utc_now)
    assert refused.value.diagnostics[0].message.startswith("the run does not follow r0003 (`previous_chain`)")
    assert past.blobs() == before


def test_the_traces_of_a_kill_are_not_damage(past: Past) -> None:
    """A last run without an end and without a status: what it did not record goes, and nothing else."""
    run = past.opened().state.run("r0005")
    lines = run.events_path.read_bytes().splitlines(keepends=True)
    run.events_path.write_bytes(b"".join(lines[:-1]) + lines[-1][:9])
    (run.path / "status.json").unlink()
    before = past.blobs()
    assert collect(past.root / ".whyrun", utc_now).removed.count == 0
    assert past.blobs() == before


# --- a run that is missing ---------------------------------------------------------------------------------------


def test_a_missing_run_in_the_middle_has_the_same_message_everywhere(past: Past) -> None:
    past.run_folder("r0002").rename(past.root / "moved")
    place = past.run_folder("r0002")
    words = f"error[LOG_DAMAGED] {place}: `r0002` of `past` is missing, and was not pruned\n   hint: {DAMAGE_HINT}\n"
    for command in ("plan", "run", "status", "gc --delete", "runs prune --keep 1"):
        found = past.whyrun(*command.split())
        assert (found.code, found.out, found.err) == (3, "", words)
    told = past.whyrun("verify", "--json").json["problems"][0]
    assert (told["run"], told["what"]) == ("r0002", "the run is missing, and was not pruned")
    (past.root / "moved").rename(past.run_folder("r0002"))
    assert past.whyrun("plan").code == 0


def test_lost_tombstones_count_as_missing_runs(past: Past) -> None:
    prune(past.opened(), Selection(keep=1), utc_now)
    past.opened().state.tombstones_path.unlink()
    with pytest.raises(StateError) as refused:
        past.plan()
    assert refused.value.diagnostics[0].message == "`r0001` of `past` is missing, and was not pruned"


def test_the_index_hides_no_missing_run(past: Past) -> None:
    opened = past.opened()
    long_ago = time.time() - 3600  # a log that was written just now is not indexed yet
    for run in opened.state.runs():
        os.utime(run.events_path, (long_ago, long_ago))
    _ = History(opened.state, opened.store.read, worth_indexing=1).records
    past.run_folder("r0001").rename(past.root / "moved")
    with pytest.raises(StateError) as refused:
        past.plan()
    assert refused.value.diagnostics[0].message == "`r0001` of `past` is missing, and was not pruned"


# --- blobs that name others --------------------------------------------------------------------------------------


def other_start(data: bytes) -> bytes:
    return b"?" + data[1:]


def other_end(data: bytes) -> bytes:
    return data[:-1] + b"?"


def nothing_left(data: bytes) -> bytes:
    return b""


def damaged_blob(lab: Lab, sha256: str, damage: Callable[[bytes], bytes]) -> Path:
    blob = lab.blob(sha256)
    blob.chmod(0o644)
    blob.write_bytes(damage(blob.read_bytes()))
    return blob


def stored(lab: Lab) -> dict[str, bytes]:
    return {sha: Path(path).read_bytes() for sha, path, _ in stored_blobs(lab.store)}


def check_refused(lab: Lab, blob: Path, found: str) -> None:
    """`collect` and `collectable` tell of this blob in the same words, and nothing goes."""
    before = stored(lab)
    state = lab.root / ".whyrun"
    told: set[str] = set()
    for attempt in (lambda: collect(state, utc_now), lambda: collectable(state)):
        with pytest.raises(StateError) as refused:
            attempt()
        (one,) = refused.value.diagnostics
        assert (one.code, one.file, one.hint) == ("STORE_DAMAGED", str(blob), UNKNOWN_REFERENCES_HINT)
        told.add(one.message)
    assert stored(lab) == before
    sha256 = blob.parent.name + blob.name
    assert told == {f"the stored blob {sha256} {found}, and it may refer to other blobs that are needed"}


def has_other_bytes(blob: Path) -> str:
    return f"has other bytes (sha256 {bytes_sha256(blob.read_bytes())})"


@pytest.mark.parametrize("damage", [other_start, other_end, nothing_left])
def test_a_damaged_folder_manifest_keeps_the_files_of_the_folder_until_it_is_restored(
    past: Past, damage: Callable[[bytes], bytes]
) -> None:
    manifest = past.made("r0005")["Artifact:Bind.Book"]
    copy, before = past.blob(manifest).read_bytes(), past.blobs()
    blob = damaged_blob(past, manifest, damage)
    check_refused(past, blob, has_other_bytes(blob))
    blob.write_bytes(copy)
    assert collect(past.root / ".whyrun", utc_now).removed.count == 0
    assert past.blobs() == before
    assert b"never\n" in before.values(), "only the manifest speaks of it"


def test_both_commands_report_a_damaged_manifest_with_a_code(past: Past) -> None:
    manifest = past.made("r0005")["Artifact:Bind.Book"]
    blob = damaged_blob(past, manifest, other_end)
    before = past.blobs()
    for words in (("gc",), ("gc", "--delete")):
        answer = past.whyrun(*words)
        assert (answer.code, answer.out) == (3, "")
        assert answer.err == (
            f"error[STORE_DAMAGED] {blob}: the stored blob {manifest} {has_other_bytes(blob)}, "
            f"and it may refer to other blobs that are needed\n   hint: {UNKNOWN_REFERENCES_HINT}\n"
        )
    assert past.blobs() == before
    blob.unlink()
    assert past.whyrun("gc", "--delete").code == 0, "there is no copy: the user has said so"
    assert b"never\n" not in past.blobs().values()


def test_a_manifest_that_cannot_be_read_keeps_everything(past: Past) -> None:
    blob = past.blob(past.made("r0005")["Artifact:Bind.Book"])
    blob.unlink()
    blob.mkdir()
    check_refused(past, blob, "cannot be read: Is a directory")


def test_a_damaged_manifest_that_only_a_consumer_refers_to_keeps_everything(past: Past) -> None:
    """The run that made the folder is pruned; what has read it says that it was one."""
    past.write({"workflow.yaml": CONSUMED})
    for sets in (["Word=one"], ["Word=two"], ["Word=two", "Mark=?"], ["Word=three", "Mark=?"]):
        past.succeed(sets=sets)
    names = past.runs()
    prune(past.opened(["Word=three", "Mark=?"]), Selection(names=tuple(names[:2])), utc_now)
    assert past.runs() == names[2:]
    (start,) = [e for e in past.events(names[2]) if isinstance(e, ev.StepStart)]
    (read,) = (start.bindings or {})["dir"]
    blob = damaged_blob(past, read["sha256"], other_start)
    check_refused(past, blob, has_other_bytes(blob))


CONSUMED = """\
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


@pytest.mark.parametrize("pruned", [False, True])
def test_a_damaged_manifest_of_a_saved_user_folder_keeps_everything(past: Past, pruned: bool) -> None:
    """It was saved before it was written over, and nothing says that it was a folder."""
    text = past.read("workflow.yaml").replace("{Book: {type: directory}}", "{Book: {type: directory, path: out/book}}")
    past.write({"workflow.yaml": text, "out/book/mine.txt": "my own words\n"})
    past.word("five").succeed()
    (saved,) = [event for event in past.events("r0006") if isinstance(event, ev.FileDisplaced)]
    if pruned:
        past.word("six").succeed()
        past.word("seven").succeed()
        prune(past.opened(), Selection(keep=1), utc_now)
        assert "r0006" not in past.runs()
    assert b"my own words\n" in past.blobs().values()
    blob = damaged_blob(past, saved.sha256, other_start)
    check_refused(past, blob, has_other_bytes(blob))


def test_a_damaged_long_list_keeps_everything(past: Past) -> None:
    past.write({"workflow.yaml": WIDE})
    past.succeed()
    (start,) = [e for e in past.events(past.runs()[-1]) if isinstance(e, ev.StepStart) and e.step_id == "Job:All"]
    members = (start.bindings or {})["parts"]
    assert isinstance(members, dict)
    blob = damaged_blob(past, members["blob"], other_end)
    check_refused(past, blob, has_other_bytes(blob))


WIDE = """\
workflow: wide
loops: {i: {count: 65}}
jobs:
  Each:
    for: [i]
    uses: shell
    with: {i: "${{ i }}", run: 'echo "$i" > "$out_Text"'}
    outputs: {Text: {type: text}}
  All:
    uses: shell
    with: {parts: "${{ jobs.Each.outputs.Text[:] }}", run: 'echo all > "$out_Text"'}
    outputs: {Text: {type: text}}
"""


@pytest.mark.parametrize("content", [b'{"empty_dirs":', b'{"empty_dirs":[],"files":[],"tree":"another"}'])
def test_an_undamaged_file_that_starts_like_a_manifest_is_no_problem(past: Past, content: bytes) -> None:
    past.write({"given.txt": content, "workflow.yaml": COPIED})
    past.succeed()
    assert content in past.blobs().values()
    assert collect(past.root / ".whyrun", utc_now).removed.count == 0
    assert content in past.blobs().values()


COPIED = """\
workflow: copied
inputs: {Given: {type: file, default: given.txt}}
jobs:
  Copy:
    uses: shell
    with: {given: "${{ inputs.Given }}", run: 'cp "$given" "$out_Same"'}
    outputs: {Same: {type: file}}
"""


def test_a_damaged_plain_file_does_not_stop_gc(past: Past) -> None:
    """They name nothing: what is not needed can be told without them."""
    blob = damaged_blob(past, past.made("r0004")["Artifact:Write.Text"], other_end)
    assert collect(past.root / ".whyrun", utc_now).removed.count == 0
    assert blob.exists()


# --- a full disk -------------------------------------------------------------------------------------------------


@pytest.fixture
def full_disk() -> Iterator[None]:
    def refuse(point: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if point.endswith((".write", ".clone")):
            raise OSError(errno.ENOSPC, "No space left on device")
        return call(*arguments, **named)

    disk.hook = refuse
    yield
    disk.hook = None


def test_gc_and_prune_work_on_a_full_disk(past: Past, request: pytest.FixtureRequest) -> None:
    prune(past.opened(), Selection(keep=1), utc_now)
    state = past.root / ".whyrun"
    going = collectable(state).removed
    assert going.count > 0
    request.getfixturevalue("full_disk")
    assert collect(state, utc_now).removed == going
    assert collectable(state).removed.count == 0


def test_a_failed_prune_on_a_full_disk_changes_nothing(past: Past, request: pytest.FixtureRequest) -> None:
    """Its tombstones need a little room. It is they that are told of, not the lock."""
    before = past.state_files()
    opened = past.opened()
    request.getfixturevalue("full_disk")
    with pytest.raises(OSError, match="No space left") as refused:
        prune(opened, Selection(keep=1), utc_now)
    assert "lock" not in str(refused.value.filename)
    disk.hook = None
    assert past.state_files() == before
    assert len(prune(past.opened(), Selection(keep=1), utc_now).pruned) == 3


@pytest.mark.parametrize("name", ["past.bak", "Past", "past old", "_past"])
def test_runs_in_a_folder_with_an_invalid_workflow_name_keep_their_blobs(past: Past, name: str) -> None:
    state = past.opened().state.state_dir
    before = collectable(state)
    (state / "past").rename(state / name)
    found = collect(state, utc_now)
    assert (found.blobs, found.kept) == (before.blobs, before.kept)
    assert [(one.workflow, one.runs) for one in found.workflows] == [(name, 5)]
    (state / name).rename(state / "past")
    assert verify(past.opened().state, past.root, lambda run: None).problems == ()


@pytest.mark.parametrize(
    ("what", "where"),
    [
        ("past", "old/of monday/past"),
        ("past", "tmp/past.bak"),
        ("past/runs", "past/runs.bak"),
        ("past/runs/r0001", "past/runs/aside/r0001"),
        ("past/runs/r0005", "past/runs/r0005.bak"),
        ("past/runs/r0001", "past/index/r0001"),
        ("past/runs/r0001", "r0001"),
    ],
)
def test_runs_elsewhere_in_the_state_folder_stop_gc(past: Past, what: str, where: str) -> None:
    """What only they need, such as a file of the user's that was written over, has no other copy."""
    state = past.opened().state.state_dir
    blobs = set(stored_blobs(state / "store"))
    (state / where).parent.mkdir(parents=True, exist_ok=True)
    (state / what).rename(state / where)
    for look in (lambda: collectable(state), lambda: collect(state, utc_now)):
        with pytest.raises(StateError) as refused:
            look()
        (told,) = refused.value.diagnostics
        assert told.code == "LOG_DAMAGED"
        assert told.message.endswith(" is a run folder outside every workflow; it may need any blob")
        assert told.file is not None
        assert told.file.startswith(f"{state}/{where}")
    assert set(stored_blobs(state / "store")) == blobs
    (state / where).rename(state / what)
    collect(state, utc_now)  # a folder without runs is in nobody's way


def test_scratch_folders_and_temporary_runs_do_not_stop_gc(past: Past) -> None:
    """Whatever a step calls its files."""
    state = past.opened().state.state_dir
    for place in ("tmp/past.scratch/1", "tmp/past-r0006", "tmp/past.pruned/r0001", "past/runs/r0001/steps/A/scratch"):
        (state / place).mkdir(parents=True, exist_ok=True)
        (state / place / "events.jsonl").touch()
    before = collectable(state)
    assert collect(state, utc_now).removed == before.removed


def test_runs_behind_a_symlink_stop_gc_too(past: Past, tmp_path: Path) -> None:
    state = past.opened().state.state_dir
    blobs = set(stored_blobs(state / "store"))
    (state / "past").rename(tmp_path / "moved")
    (tmp_path / "archive").mkdir()
    (tmp_path / "moved").rename(tmp_path / "archive" / "past")
    (state / "archive").symlink_to(tmp_path / "archive")
    (tmp_path / "archive" / "back").symlink_to(state)  # which ends, all the same
    with pytest.raises(StateError) as refused:
        collect(state, utc_now)
    assert refused.value.diagnostics[0].message.startswith("`archive/past/runs/r000")
    assert set(stored_blobs(state / "store")) == blobs


def test_gc_removes_nothing_if_a_folder_is_unreadable(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    state = past.opened().state.state_dir
    blobs = set(stored_blobs(state / "store"))
    closed = state / "past" / "closed"
    closed.mkdir()
    look = os.scandir

    def refuse(place: str) -> Any:
        if str(place) == str(closed):
            raise PermissionError(errno.EACCES, "Permission denied", str(closed))
        return look(place)

    monkeypatch.setattr(os, "scandir", refuse)  # root may look anywhere
    with pytest.raises(PermissionError):
        collect(state, utc_now)
    monkeypatch.undo()
    assert set(stored_blobs(state / "store")) == blobs
