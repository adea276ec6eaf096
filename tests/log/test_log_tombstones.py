"""What is left of a pruned run: its line in `pruned.jsonl`, to the byte, and its folder, which goes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from whyrun import disk
from whyrun.errors import StateError
from whyrun.log.events import RunStart
from whyrun.log.journal import FIRST_CHAIN, Clock, Journal
from whyrun.log.runs import RunRef, WorkflowState, create_run, log_without_start, run_pruned
from whyrun.log.tombstones import (
    Adopted,
    CarriedInput,
    Displaced,
    PublishedSite,
    Tombstone,
    add_tombstones,
    read_tombstones,
    remove_pruned_folders,
)


def stone(number: int, **fields: Any) -> Tombstone:
    plain: dict[str, Any] = {
        "run": f"r{number:04d}", "mode": "run", "state": "succeeded", "started": "2026-01-01T00:00:00.000000Z",
        "ended": "2026-01-01T00:00:01.000000Z", "events": 7, "previous_chain": FIRST_CHAIN,
        "chain": f"{number:064x}", "pruned": "2026-02-03T04:05:06.000007Z",
    }  # fmt: skip
    return Tombstone(**{**plain, **fields})


def damage(path: Path) -> tuple[str, str, str | None, int | None]:
    with pytest.raises(StateError) as caught:
        read_tombstones(path)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.hint is not None
    assert diagnostic.hint.startswith("restore the file from a copy")
    return diagnostic.code, diagnostic.message, diagnostic.file, diagnostic.line


def test_the_bytes_of_a_tombstone_and_its_digest_are_pinned(tmp_path: Path) -> None:
    path = tmp_path / "pruned.jsonl"
    full = stone(
        3,
        inputs=[CarriedInput("Input:A", "a" * 64), CarriedInput("Input:B", "b" * 64, 2, 7)],
        displaced=[Displaced("out/x", "c" * 64), Displaced("out/y", "d" * 64, "part")],
        published=[PublishedSite("Artifact:A.B", "out/z", "e" * 64)],
        adopted=[Adopted("Artifact:A.C", "f" * 64, "directory")],
    )
    add_tombstones(path, [full])
    body = (
        b'{"run":"r0003","mode":"run","state":"succeeded","started":"2026-01-01T00:00:00.000000Z",'
        b'"ended":"2026-01-01T00:00:01.000000Z","events":7,"previous_chain":"%b","chain":"%b",'
        b'"pruned":"2026-02-03T04:05:06.000007Z","inputs":[{"id":"Input:A","sha256":"%b"},'
        b'{"id":"Input:B","sha256":"%b","size":2,"value":7}],"displaced":[{"path":"out/x","sha256":"%b"},'
        b'{"path":"out/y","sha256":"%b","section":"part"}],'
        b'"published":[{"artifact":"Artifact:A.B","site":"out/z","sha256":"%b"}],'
        b'"adopted":[{"artifact":"Artifact:A.C","sha256":"%b","type":"directory"}]'
    ) % (b"0" * 64, b"0" * 63 + b"3", *(letter * 64 for letter in (b"a", b"b", b"c", b"d", b"e", b"f")))
    digest = hashlib.sha256(b"tombstone/v1\n" + body).hexdigest().encode()
    assert path.read_bytes() == body + b',"digest":"' + digest + b'"}\n'
    assert read_tombstones(path) == [full]
    assert full.number == 3
    assert full.of_the_user == {"c" * 64, "d" * 64, "f" * 64}


def test_what_an_adoption_published_is_the_users_also_where_an_old_tombstone_does_not_say_so(tmp_path: Path) -> None:
    path = tmp_path / "pruned.jsonl"
    adoption = stone(1, mode="adopt", published=[PublishedSite("Artifact:A.B", "out/z", "e" * 64)])
    body = msgspec.json.encode(adoption)[:-1].removesuffix(b',"adopted":[]')
    assert b"adopted" not in body
    digest = hashlib.sha256(b"tombstone/v1\n" + body).hexdigest().encode()
    path.write_bytes(body + b',"digest":"' + digest + b'"}\n')
    (read,) = read_tombstones(path)
    assert (read, read.of_the_user) == (adoption, {"e" * 64})
    assert msgspec.structs.replace(read, mode="run").of_the_user == set()


def test_tombstones_stand_in_the_order_of_their_runs_and_old_lines_stay_to_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "pruned.jsonl"
    assert read_tombstones(path) == []
    add_tombstones(path, [stone(10), stone(2)])
    body = b'{"novelty":1,' + msgspec.json.encode(stone(9))[1:-1]
    digest = hashlib.sha256(b"tombstone/v1\n" + body).hexdigest().encode()
    newer = body + b',"digest":"' + digest + b'"}\n'
    first, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + newer + last)
    add_tombstones(path, [stone(10000), stone(1), stone(10, events=8)])
    lines = path.read_bytes().splitlines(keepends=True)
    assert lines[1:3] == [first, newer]
    assert read_tombstones(path) == [stone(1), stone(2), stone(9), stone(10, events=8), stone(10000)]


def test_they_are_synced_before_they_get_their_name(tmp_path: Path) -> None:
    points: list[str] = []

    def hook(point: str, call: Any, *given: Any) -> Any:
        points.append(point)
        return call(*given)

    disk.hook = hook
    try:
        add_tombstones(tmp_path / "pruned.jsonl", [stone(1)])
    finally:
        disk.hook = None
    assert points == ["prune.open", "prune.write", "prune.sync", "prune.rename", "prune.sync_folder"]


def test_a_tombstone_that_was_changed_or_moved_is_damage_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "pruned.jsonl"
    add_tombstones(path, [stone(1), stone(2), stone(3)])
    lines = path.read_bytes().splitlines(keepends=True)
    changed = lines[1].replace(b'"events":7', b'"events":8')
    misplaced = "is out of order"
    for damaged, line, says in [
        ([lines[0], changed, lines[2]], 2, "the tombstone of `r0002` was changed (`digest`)"),
        ([lines[0], lines[2][:-2] + b"\n"], 2, "this line is not a tombstone: "),
        ([lines[0], b'{"run":"r0002"}\n'], 2, "this line is not a tombstone: "),
        ([lines[0], b"\xff\n"], 2, "this line is not a tombstone: "),
        ([lines[0], b"[" * 100_000 + b"\n"], 2, "this line is not a tombstone: "),
        ([lines[0], lines[0]], 2, f"the tombstone of `r0001` {misplaced}"),
        ([lines[0], lines[2], lines[1]], 3, f"the tombstone of `r0002` {misplaced}"),
        ([lines[0], lines[1][:-1]], 2, "the tombstone of `r0002` was changed (`digest`)"),
    ]:
        path.write_bytes(b"".join(damaged))
        code, message, file, at = damage(path)
        assert (code, file, at) == ("LOG_DAMAGED", str(path), line)
        assert message.startswith(says)


@pytest.mark.parametrize("name", ["r1", "r0000", "x0001", "r0001x", "", "r" + "9" * 255])
def test_a_tombstone_of_what_no_run_is_called_is_damage(tmp_path: Path, name: str) -> None:
    path = tmp_path / "pruned.jsonl"
    body = msgspec.json.encode(stone(1, run=name))[:-1]
    digest = hashlib.sha256(b"tombstone/v1\n" + body).hexdigest().encode()
    path.write_bytes(body + b',"digest":"' + digest + b'"}\n')
    assert damage(path) == (
        "LOG_DAMAGED", f"the tombstone of `{name[:40]}` is out of order", str(path), 1
    )  # fmt: skip


def test_of_a_long_name_the_beginning_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pruned.jsonl"
    add_tombstones(path, [stone(int("9" * 60))])
    path.write_bytes(path.read_bytes().replace(b'"events":7', b'"events":8'))
    told = "the tombstone of `r" + "9" * 39 + "` was changed (`digest`)"
    assert damage(path) == ("LOG_DAMAGED", told, str(path), 1)


def test_the_longest_number_of_a_run_is_that_of_the_longest_folder(tmp_path: Path) -> None:
    path = tmp_path / "pruned.jsonl"
    longest = stone(int("9" * 254))
    assert len(longest.run) == 255
    add_tombstones(path, [longest])
    assert read_tombstones(path) == [longest]


def test_who_asks_for_a_pruned_run_is_told_when_it_went() -> None:
    (told,) = run_pruned(stone(4, state="failed", events=12)).diagnostics
    assert (told.code, told.message, told.hint) == (
        "RUN_PRUNED",
        "`r0004` was pruned on 2026-02-03 (it had failed; 12 events)",
        "only its number, chain and recorded inputs are left; `whyrun runs` lists the runs that are kept",
    )
    (told,) = run_pruned(stone(4, mode="compare", state="failed", events=12)).diagnostics
    assert told.message == (
        "`r0004` was pruned on 2026-02-03 (it was a comparison that found differences, or failed; 12 events)"
    )
    (told,) = run_pruned(stone(4, mode="compare", state="succeeded", events=12)).diagnostics
    assert told.message == "`r0004` was pruned on 2026-02-03 (it had succeeded; 12 events)"


# --- a workflow of which some runs were pruned -------------------------------------------------------------------


def with_runs(state: WorkflowState, *names: str) -> None:
    for name in names:
        (state.runs_dir / name / "deep").mkdir(parents=True)
        (state.runs_dir / name / "deep" / "file").write_text(name)


def test_pruned_runs_are_passed_over_and_keep_their_numbers(state: WorkflowState) -> None:
    with_runs(state, "r0002", "r0004")
    stones = [stone(1), stone(2), stone(3)]
    add_tombstones(state.tombstones_path, stones)
    four = RunRef("r0004", f"{state.runs_dir}/r0004", 4)
    assert state.runs_and_tombstones() == ([four], stones)
    assert (state.runs(), state.tombstones()) == ([four], stones)
    assert state.checked_runs_and_tombstones() == ([four], stones)
    assert state.folders_of_pruned() == ["r0002"]
    assert state.next_run_name() == "r0005"
    assert state.run("r0004") == four
    with pytest.raises(StateError, match=r"RUN_PRUNED\]: `r0002` was pruned"):
        state.run("r0002")
    with pytest.raises(StateError, match=r"RUN_UNKNOWN\]: there is no run `r0009` of `then-and-now`(.|\n)*`r0004`"):
        state.run("r0009")
    add_tombstones(state.tombstones_path, [stone(4), stone(6)])
    assert state.next_run_name() == "r0007"
    assert state.last_chain() == f"{6:064x}"
    with pytest.raises(StateError, match=r"LOG_DAMAGED\](.|\n)*`r0005` of `then-and-now` is missing"):
        state.checked_runs_and_tombstones()


@pytest.mark.parametrize(
    ("kept", "pruned", "last"),
    [
        ([3, 4], [1, 2], 4),
        ([4, 5], [1, 2, 6], 6),
        ([3, 4, 6], [1, 2, 5], 6),
        ([1, 2], [3], 3),
        ([3], [1, 2], 3),
        ([], [1], 1),
        ([], [9999, 10000], 10000),
    ],
)
def test_the_next_run_continues_the_last_one_pruned_or_not(
    state: WorkflowState, clock: Clock, run_start: RunStart, kept: list[int], pruned: list[int], last: int
) -> None:
    state.folder.mkdir(parents=True)
    chains = {number: f"{number:064x}" for number in pruned}
    for number in kept:
        folder = state.runs_dir / f"r{number:04d}"
        folder.mkdir(parents=True)
        journal = Journal.create(folder, folder.name, FIRST_CHAIN, clock)
        journal.append(run_start)
        journal.close()
        chains[number] = journal.chain
    add_tombstones(state.tombstones_path, map(stone, pruned))
    assert state.last_chain() == chains[last]
    assert state.next_run_name() == f"r{last + 1:04d}"
    run, journal = create_run(state, run_start, clock)
    journal.close()
    assert run == RunRef(f"r{last + 1:04d}", f"{state.runs_dir}/r{last + 1:04d}", last + 1)
    (first,) = run.events()
    assert isinstance(first, RunStart)
    assert first.previous_chain == chains[last]


def test_all_runs_may_have_been_pruned_with_their_folder(state: WorkflowState) -> None:
    state.folder.mkdir(parents=True)
    add_tombstones(state.tombstones_path, [stone(1)])
    assert state.folders_of_pruned() == []
    assert remove_pruned_folders(state) == 0


def test_a_run_that_was_pruned_after_it_was_listed_is_said_to_be_pruned(state: WorkflowState) -> None:
    with_runs(state, "r0001", "r0002")
    first, second = state.runs()
    assert first.tombstone() is None
    add_tombstones(state.tombstones_path, [stone(1), stone(2, events=9)])
    assert (first.tombstone(), second.tombstone()) == (stone(1), stone(2, events=9))
    assert str(log_without_start(second)) == str(run_pruned(stone(2, events=9)))


def test_folders_of_pruned_runs_go_and_no_others(state: WorkflowState) -> None:
    assert state.folders_of_pruned() == []
    assert remove_pruned_folders(state) == 0
    assert not state.state_dir.exists()
    with_runs(state, "r0001", "r0002", "r0003")
    assert remove_pruned_folders(state) == 0
    add_tombstones(state.tombstones_path, [stone(1), stone(2)])
    (state.folder / ".tmp-half").write_text("half a tombstone")
    state.pruned_folders.mkdir(parents=True)
    (state.pruned_folders / "r0009").mkdir()  # of a prune that was killed
    assert remove_pruned_folders(state) == 2
    assert sorted(os.listdir(state.runs_dir)) == ["r0003"]
    assert sorted(os.listdir(state.folder)) == ["pruned.jsonl", "runs"]
    assert list(state.tmp.iterdir()) == []
    assert remove_pruned_folders(state) == 0
    (state.pruned_folders / "r0002" / "deep").mkdir(parents=True)  # killed after the last was out of sight
    assert remove_pruned_folders(state) == 0
    assert list(state.tmp.iterdir()) == []


def test_folders_of_pruned_runs_go_out_of_sight_before_they_are_taken_apart(state: WorkflowState) -> None:
    with_runs(state, "r0001", "r0002")
    add_tombstones(state.tombstones_path, [stone(1), stone(2)])
    seen: list[tuple[str, list[str]]] = []

    def hook(point: str, call: Any, *given: Any) -> Any:
        seen.append((point, sorted(os.listdir(state.runs_dir))))
        return call(*given)

    disk.hook = hook
    try:
        remove_pruned_folders(state)
    finally:
        disk.hook = None
    assert [each for each in seen if each[0] != "prune.mkdir"] == [
        ("prune.rename", ["r0001", "r0002"]),
        ("prune.rename", ["r0002"]),
        ("prune.sync_folder", []),
        ("prune.remove", []),
    ]


def test_what_forbids_to_be_looked_into_is_removed_all_the_same(
    state: WorkflowState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may always look: whom the system would refuse is asked of the modes."""
    with_runs(state, "r0001")
    add_tombstones(state.tombstones_path, [stone(1)])
    away = tmp_path / "away"
    away.mkdir()
    away.chmod(0o500)
    inside = state.runs_dir / "r0001" / "deep"
    (inside / "open").mkdir()
    (inside / "link").symlink_to(away)
    for name, mode in (("dark", 0o000), ("readable", 0o500), ("writable", 0o300), ("listed", 0o600)):
        (inside / name).mkdir()
        (inside / name).chmod(mode)
    monkeypatch.setattr(os, "access", lambda path, mode: (os.stat(path).st_mode >> 6) & mode == mode)
    changed: list[str] = []
    chmod = os.chmod

    def note(path: str, mode: int) -> None:
        changed.append(f"{os.path.basename(path)} {mode:o}")
        chmod(path, mode)

    monkeypatch.setattr(os, "chmod", note)
    remove_pruned_folders(state)
    assert sorted(changed) == ["dark 700", "listed 700", "readable 700", "writable 700"]
    assert away.stat().st_mode & 0o777 == 0o500
    assert os.listdir(state.runs_dir) == []
