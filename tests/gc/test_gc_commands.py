"""The output of `whyrun gc` and `whyrun runs prune`, and the messages of all commands for a pruned run."""

from __future__ import annotations

import re

import pytest
from gc_lab import Past


def timeless(text: str) -> str:
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\d", "DAY", text)
    return re.sub(r"\d+(\.\d+)?(B|KB)", "SIZE", text)


def test_preview_and_removal_print_what_is_removed_and_kept(past: Past) -> None:
    look = past.whyrun("runs", "prune")
    assert (look.code, timeless(look.out)) == (
        0,
        """\
past: 3 runs of 5 can be pruned (SIZE)
  r0001  succeeded  run  TIME  14 events  SIZE
  r0002  succeeded  run  TIME  13 events  SIZE
  r0003  succeeded  run  TIME  13 events  SIZE
kept
  r0004  has the latest attempt of Job:Write
  r0005  the latest run
no longer available to reuse, restore or compare: their results of Job:Bind, Job:Write
hint: `--keep 1 --delete` removes them; their artifacts stay in the store until `whyrun gc --delete`
""",
    )
    done = past.whyrun("runs", "prune", "--keep", "1", "--delete")
    assert (done.code, timeless(done.out)) == (
        0,
        """\
past: 3 runs of 5 pruned (SIZE)
  r0001  succeeded  run  TIME  14 events  SIZE
  r0002  succeeded  run  TIME  13 events  SIZE
  r0003  succeeded  run  TIME  13 events  SIZE
kept
  r0004  has the latest attempt of Job:Write
no longer available to reuse, restore or compare: their results of Job:Bind, Job:Write
hint: `whyrun gc` shows what the store no longer needs
""",
    )
    again = past.whyrun("runs", "prune", "--keep", "1", "--delete")
    assert again.out == "past: none of 2 runs can be pruned\nkept\n  r0004  has the latest attempt of Job:Write\n"
    listed = re.sub(r"\d+\.\d+s", "T", timeless(past.whyrun("runs").out))
    assert [re.split(r"  +", line) for line in listed.splitlines()] == [
        ["run", "state", "mode", "started", "took", "steps"],
        ["r0005", "succeeded", "run", "TIME", "T", "1 planned, 1 completed"],
        ["r0004", "succeeded", "run", "TIME", "T", "2 planned, 2 completed"],
        ["r0001–r0003", "pruned", "TIME"],
    ]
    look = past.whyrun("gc")
    assert timeless(look.out) == (
        "9 blobs (SIZE) can be removed; 7 blobs (SIZE) kept\nkept\n  past  7 blobs of 2 runs\n"
        "hint: `--delete` removes them\n"
    )
    done = past.whyrun("gc", "--delete")
    assert timeless(done.out) == ("removed 9 blobs (SIZE); 7 blobs (SIZE) kept\nkept\n  past  7 blobs of 2 runs\n")
    assert timeless(past.whyrun("gc").out) == (
        "nothing to remove: 7 blobs (SIZE) needed\nkept\n  past  7 blobs of 2 runs\n"
    )


def test_the_same_as_json(past: Past) -> None:
    found = past.whyrun("runs", "prune", "r0001", "r0004", "--delete", "--json").json
    (gone,) = found["pruned"]
    assert {**gone, "started": "", "bytes": 0} == {
        "run": "r0001", "mode": "run", "state": "succeeded", "events": 14, "started": "", "bytes": 0,
        "outcome": "succeeded",
    }  # fmt: skip
    assert gone["bytes"] == found["bytes"] > 0
    assert {name: value for name, value in found.items() if name not in ("pruned", "bytes")} == {
        "workflow": "past",
        "runs": 5,
        "kept": [{"run": "r0004", "why": "has the latest attempt of Job:Write"}],
        "deleted": True,
        "jobs": ["Job:Bind", "Job:Write"],
    }
    (left,) = past.whyrun("runs", "--json").json["pruned"]
    (stone,) = past.opened().state.tombstones()
    assert left == {
        "run": "r0001", "mode": "run", "state": "succeeded", "started": stone.started, "ended": stone.ended,
        "events": 14, "chain": stone.chain, "pruned": stone.pruned,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--delete",), "`--delete` needs to know which runs to remove"),
        (("r0001", "--keep", "1"), "runs are named, and also chosen by number or age"),
        (("--older-than", "soon"), "`soon` is not a duration"),
        (("--keep", "0"), "invalid value for `--keep`"),
        (("no-such.yaml",), "there is no workflow file `no-such.yaml`"),
    ],
)
def test_invalid_options_are_refused(past: Past, words: tuple[str, ...], message: str) -> None:
    answer = past.whyrun("runs", "prune", *words)
    assert answer.code == 2
    assert message in answer.err
    assert len(past.runs()) == 5


def test_every_command_names_a_pruned_run(past: Past) -> None:
    past.whyrun("runs", "prune", "--keep", "1", "--delete")
    for words in (
        ("show", "r0002"),
        ("log", "r0002"),
        ("diff", "r0002", "r0005"),
        ("diff", "r0005", "r0002"),
        ("plan", "--at", "r0002"),
        ("why", "Job:Write", "--at", "r0002"),
        ("verify", "r0002"),
        ("restore", "Artifact:Write.Text", "--from", "r0002"),
        ("compare", "--against", "r0002"),
        ("runs", "prune", "r0002"),
    ):
        answer = past.whyrun(*words)
        assert answer.code == 3, (words, answer)
        assert timeless(answer.err).startswith(
            "error[RUN_PRUNED]: `r0002` was pruned on DAY (it had succeeded; 13 events)\n   hint: only its number"
        ), (words, answer)
    history = past.whyrun("history", "Job:Write")
    assert [line.split()[0] for line in history.out.splitlines()] == ["r0004"]
    assert history.err == "note: 3 runs from r0001 to r0003 were pruned and are not listed\n"
    assert past.whyrun("history", "Job:Write", "--json").json["pruned"] == ["r0001", "r0002", "r0003"]
    shown = past.whyrun("show", "r0005", "--json").json
    assert [(one["id"], one["run"]) for one in shown["inputs"]] == [("Input:Same", "r0005"), ("Input:Word", "r0004")]


def test_plans_made_from_pruned_runs_are_not_reported_as_damage(past: Past) -> None:
    past.whyrun("runs", "prune", "--keep", "1", "--delete")
    found = past.whyrun("verify", "--replay", "all")
    assert found.code == 0
    assert "past is sound: 2 runs and 3 pruned, " in found.out
    assert ", 1 plan computed again" in found.out
    assert "note: the plan of r0004 is not computed again: made from the log of runs that were pruned" in found.out
    at = past.whyrun("plan", "--at", "r0004")
    assert at.code == 3
    assert "error[RUN_PRUNED]" in at.err
    assert (
        "the plan of r0004 cannot be computed again: it depends on runs that were pruned (3 from r0001 to r0003)"
        in at.err
    )
    assert past.whyrun("plan", "--at", "r0005").code == 0
