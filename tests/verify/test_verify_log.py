"""Damaged logs: each kind of damage is done to a copy of real runs, and is reported with its file and line."""

from __future__ import annotations

import json
import shutil

import pytest
from verify_lab import Tales, about, whyrun, without_counts

from whyrun.evidence.verify.report import MORE_AFTER_THE_END
from whyrun.log.journal import FIRST_CHAIN


def report(tales: Tales, *words: str) -> str:
    answer = tales.verify(*words)
    assert (answer.code, answer.err) == (3, "")
    return without_counts(answer.out)


def link(line: bytes) -> str:
    return str(json.loads(line)["chain"])


def test_a_changed_line_is_reported_once_with_its_number(tales: Tales) -> None:
    at = tales.event("r0001", "step_complete", "Job:Join")["seq"]
    line = tales.lines("r0001")[at - 1]
    altered = line.replace(b'"EXECUTES"', b'"IDENTICAL"')
    assert altered != line
    tales.rewrite("r0001", lambda lines: [*lines[: at - 1], altered, *lines[at:]])
    answer = tales.verify("--json")
    assert answer.code == 3
    expected = answer.json["problems"][0].pop("expected")
    assert len(expected) == 64
    assert answer.json["problem_count"] == 1
    told_once = {
        "kind": "log",
        "run": "r0001",
        "file": str(tales.log("r0001")),
        "line": at,
        "event": "step_complete",
        "subject": "Job:Join",
        "what": "the line, or the one before it, was changed (`chain`)",
        "found": link(line),
    }
    assert [{k: v for k, v in p.items() if k != "expected"} for p in answer.json["problems"]] == [told_once]
    assert report(tales) == (
        "tales is damaged: 1 problem\n"
        f"  .whyrun/tales/runs/r0001/events.jsonl:{at}: the line, or the one before it, was changed "
        "(`chain`) (step_complete Job:Join)\n"
        f"    expected  {expected}\n"
        f"    found     {link(line)}\n"
        f"last chain: {tales.chain()}\n"
    )


def test_a_removed_line_is_a_gap(tales: Tales) -> None:
    tales.rewrite("r0003", lambda lines: [*lines[:3], *lines[4:]])
    event = json.loads(tales.lines("r0003")[3])
    assert report(tales) == (
        "tales is damaged: 1 problem\n"
        "  .whyrun/tales/runs/r0003/events.jsonl:4: lines are lost, duplicated or moved: this one has an unexpected "
        f"`seq` ({about(event)})\n"
        "    expected  4\n"
        "    found     5\n"
        f"last chain: {tales.chain()}\n"
    )


def test_swapped_lines_are_reported_where_the_order_breaks(tales: Tales) -> None:
    tales.rewrite("r0003", lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]])
    found = tales.verify("--json").json
    places = [(p["line"], p["expected"], p["found"]) for p in found["problems"]]
    assert places == [(4, "4", "5"), (5, "6", "4"), (6, "5", "6")]


def test_a_duplicated_line_and_a_broken_one(tales: Tales) -> None:
    tales.rewrite("r0002", lambda lines: [*lines[:2], lines[1], *lines[2:]])
    tales.rewrite("r0003", lambda lines: [*lines[:2], b'{"seq":3,\n', *lines[3:]])
    found = tales.verify("--json").json
    assert [(p["run"], p["line"], p["what"]) for p in found["problems"]] == [
        ("r0002", 3, "lines are lost, duplicated or moved: this one has an unexpected `seq`"),
        ("r0003", 3, "the line is broken: Input data was truncated"),
    ]


def test_a_line_appended_after_the_end(tales: Tales) -> None:
    last = len(tales.lines("r0007"))
    tales.rewrite("r0007", lambda lines: [*lines, lines[-2]])
    event = json.loads(tales.lines("r0007")[-1])
    assert report(tales) == (
        "tales is damaged: 1 problem\n"
        f"  .whyrun/tales/runs/r0007/events.jsonl:{last + 1}: the line follows `run_complete`, the last "
        f"event of a run ({about(event)})\n"
        f"last chain: {event['chain']}\n"
    )


def test_half_a_line_appended_after_the_end(tales: Tales) -> None:
    last = len(tales.lines("r0007"))
    tales.rewrite("r0007", lambda lines: [*lines, b'{"seq":'])
    assert report(tales) == (
        "tales is damaged: 1 problem\n"
        f"  .whyrun/tales/runs/r0007/events.jsonl:{last + 1}: 7 bytes follow the last line, after `run_complete`, "
        "which a kill cannot cause\n"
        f"last chain: {tales.chain()}\n"
    )


MALFORMED = "JSON is malformed: invalid character (byte 0)"


@pytest.mark.parametrize(
    ("scraps", "said"),
    [
        ([b"\n"], ["the line is empty"]),
        (
            [b"garbage\n", b"\n"],
            [f"the line is broken: {MALFORMED}", "the line is empty"],
        ),
    ],
)
@pytest.mark.parametrize("run", ["r0002", "r0007"])
def test_lines_after_the_end_that_are_not_events_can_be_cut_off(
    tales: Tales, run: str, scraps: list[bytes], said: list[str]
) -> None:
    """As an editor leaves them: all that the run wrote is there, and the next one follows it."""
    chain, last = tales.chain(), len(tales.lines(run))
    tales.rewrite(run, lambda lines: [*lines, *scraps])
    answer = tales.verify()
    problems = [
        f"  .whyrun/tales/runs/{run}/events.jsonl:{last + number}: {what}; it follows `run_complete`"
        for number, what in enumerate(said, 1)
    ]
    counted = "1 problem" if len(said) == 1 else f"{len(said)} problems"
    assert answer.out.splitlines()[: len(said) + 1] == [f"tales is damaged: {counted}", *problems]
    assert [line for line in answer.out.splitlines() if line.startswith("hint: ")] == [f"hint: {MORE_AFTER_THE_END}"]
    assert answer.out.splitlines()[-1] == f"last chain: {chain}"
    tales.rewrite(run, lambda lines: lines[:last])  # the hint holds
    assert tales.verify().code == 0


def test_events_after_the_end_have_no_hint_to_cut_them_off(tales: Tales) -> None:
    tales.rewrite("r0007", lambda lines: [*lines, b"garbage\n", lines[-2]])
    assert MORE_AFTER_THE_END not in tales.verify().out


def test_a_removed_run_is_named(tales: Tales) -> None:
    shutil.rmtree(tales.runs / "r0002")
    assert report(tales) == (
        "tales is damaged: 1 problem\n"
        "  .whyrun/tales/runs/r0002: the run is missing, and was not pruned\n"
        f"last chain: {tales.chain()}\n"
    )


def test_a_run_that_was_replaced_by_another_does_not_follow(tales: Tales, killed: Tales) -> None:
    """Another first run of the same workflow, whole in itself."""
    first = link(tales.lines("r0001")[-1])
    shutil.rmtree(killed.root / ".whyrun")
    assert whyrun(killed.root, "run", "--quiet", "--target", "Job:Facts").code == 0
    shutil.rmtree(tales.runs / "r0001")
    shutil.copytree(killed.runs / "r0001", tales.runs / "r0001", symlinks=True)
    other = link(tales.lines("r0001")[-1])
    found = tales.verify("--json").json
    of_the_log = [p for p in found["problems"] if p["kind"] == "log"]
    follow = "the run does not follow r0001 (`previous_chain`): a run was removed, replaced or changed"
    assert [(p["run"], p["line"], p["what"], p["expected"], p["found"]) for p in of_the_log] == [
        ("r0002", 1, follow, other, first)
    ]


def test_a_missing_or_empty_log(tales: Tales) -> None:
    tales.log("r0002").unlink()
    tales.log("r0004").write_bytes(b"")
    found = tales.verify("--json").json
    assert [(p["run"], p["kind"], p["what"]) for p in found["problems"]] == [
        ("r0002", "run", "there is no log"),
        ("r0004", "run", "the log is empty, which a kill cannot cause"),
    ]


def test_the_end_of_an_earlier_log_cut_off(tales: Tales) -> None:
    lines = tales.lines("r0003")
    tales.rewrite("r0003", lambda lines: lines[:-1])
    left = len(lines) - 1
    found = tales.verify("--json").json
    assert [(p["run"], p["kind"], p.get("line"), p["what"]) for p in found["problems"]][:1] == [
        ("r0003", "log", left, "the log has no `run_complete`, although a later run began: its end was cut off")
    ]
    assert [(p["run"], p["kind"]) for p in found["problems"]] == [("r0003", "log"), ("r0004", "log")]
    follow = [p for p in found["problems"] if p["run"] == "r0004"]
    assert [(p["line"], p["expected"], p["found"]) for p in follow] == [(1, link(lines[-2]), link(lines[-1]))]


@pytest.mark.parametrize("says", ["what it said", "no status"])
def test_the_end_of_the_last_log_cut_off_beside_its_status(tales: Tales, says: str) -> None:
    """Nothing follows it in the chain; but only a run that has ended has a status. It is told once, and not as what a
    kill leaves."""
    tales.rewrite("r0007", lambda lines: lines[:-1])
    if says == "no status":
        (tales.runs / "r0007/status.json").write_text("{")
    left = len(tales.lines("r0007"))
    assert report(tales) == (
        "tales is damaged: 1 problem\n"
        f"  .whyrun/tales/runs/r0007/events.jsonl:{left}: the log has no `run_complete`, although `status.json`, which "
        "is written after it, exists: its end was cut off\n"
        f"last chain: {tales.chain()}\n"
    )


def test_one_run_is_checked_with_its_neighbours(tales: Tales) -> None:
    at = len(tales.lines("r0002")) - 1
    altered = tales.lines("r0002")[at].replace(b'"failed"', b'"interrupted"')
    tales.rewrite("r0002", lambda lines: [*lines[:at], altered, *lines[at + 1 :]])
    assert tales.verify("r0004").code == 0
    found = tales.verify("r0002", "--json").json
    assert [(p["run"], p["kind"]) for p in found["problems"]] == [("r0002", "log")]
    tales.rewrite("r0002", lambda lines: lines[:-1])
    found = tales.verify("r0002", "--json").json
    assert ("r0003", 1, "run_start") in [(p["run"], p.get("line"), p.get("event")) for p in found["problems"]]


def test_all_problems_are_reported_together(tales: Tales) -> None:
    shutil.rmtree(tales.runs / "r0005")
    tales.rewrite("r0003", lambda lines: [*lines[:2], *lines[3:]])
    sha = tales.event("r0001", "artifact_available", "Artifact:Shout.Loud[7]")["sha256"]
    tales.spoil(sha)
    found = tales.verify("--json").json
    assert [(p["kind"], p["run"]) for p in found["problems"]] == [
        ("artifact", "r0001"),
        ("log", "r0003"),
        ("run", "r0005"),
    ]


def test_a_log_whose_first_run_does_not_begin_at_the_beginning(tales: Tales) -> None:
    shutil.rmtree(tales.runs / "r0001")
    found = tales.verify("--json").json
    assert [(p["kind"], p["run"]) for p in found["problems"]][:1] == [("run", "r0001")]
    assert json.loads(tales.lines("r0002")[0])["previous_chain"] != FIRST_CHAIN


@pytest.mark.parametrize("damage", ["a byte 0", "cut off"])
def test_torn_or_missing_synced_lines_of_a_killed_run_are_damage(killed: Tales, damage: str) -> None:
    whole = [line for line in killed.lines("r0006") if line.endswith(b"\n")]
    said = {"pid": 1, "host": "", "started": "", "run": "r0006", "synced": {"run": "r0006", "seq": len(whole)}}
    (killed.runs.parent / "lock").write_text(json.dumps(said) + "\n")
    third = whole[2][:50] + b"\0" + whole[2][51:]
    left = b"".join([*whole[:2], third, *whole[3:]] if damage == "a byte 0" else whole[:2])
    killed.log("r0006").write_bytes(left)
    certain = f"was synced up to line {len(whole)}"
    told_so, line = f"the log has 2 lines, but {certain}: its end was cut off", 2
    if damage == "a byte 0":
        told_so, line = f"the line has a zero byte, but the log {certain}: its content is lost", 3
    assert report(killed) == (
        "tales is damaged: 1 problem\n"
        f"  .whyrun/tales/runs/r0006/events.jsonl:{line}: {told_so}\n"
        f"last chain: {link(whole[1])}\n"
    )
    for words in (("plan",), ("status",), ("run", "--quiet")):
        answer = whyrun(killed.root, *words)
        assert (answer.code, answer.out) == (3, ""), words
        assert told_so in answer.err, words
    assert killed.log("r0006").read_bytes() == left, "nothing is cut off, or written over"
