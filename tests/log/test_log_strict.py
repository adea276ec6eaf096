"""Real logs with single lines cut or edited: a half reuse costs nothing, and what is malformed is named by its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from project_lab import Heard, Lab, codes
from whyrun.cli.main import cli
from whyrun.errors import Exit, StateError
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.log import events as ev
from whyrun.planning.reasons import reason_json
from whyrun.snapshot.records import run_name

Make = Callable[..., Lab]

TWO = """
    workflow: two
    inputs: {Topic: {type: string, default: cats}}
    jobs:
      Page:
        uses: python
        with: {call: "page:write", topic: "${{ inputs.Topic }}"}
        outputs: {Text: {type: text, path: page.txt}, Note: {type: text}}
"""

TWINS = """
    workflow: twins
    inputs: {Left: {type: string, default: cats}, Right: {type: string, default: dogs}}
    jobs:
      A:
        uses: python
        deterministic: true
        with: {call: "page:write", topic: "${{ inputs.Left }}"}
        outputs: {Text: {type: text}, Note: {type: text}}
      B:
        uses: python
        deterministic: true
        with: {call: "page:write", topic: "${{ inputs.Right }}"}
        outputs: {Text: {type: text}, Note: {type: text}}
"""

PAGE = """
    from pathlib import Path

    def write(topic):
        with (Path(__file__).parent / "paid").open("a") as file:
            file.write(topic + chr(10))
        return {"Text": "about " + topic, "Note": "end"}
"""


def log_of(lab: Lab, run: str) -> Path:
    return lab.run_folder(run) / "events.jsonl"


def lines_of(lab: Lab, run: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_of(lab, run).read_bytes().splitlines()]


def cut_after(lab: Lab, run: str, line: int) -> None:
    """The log as a kill leaves it that comes after this line."""
    path = log_of(lab, run)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:line]))
    (lab.run_folder(run) / "status.json").unlink()


def edit_line(lab: Lab, run: str, kind: str, /, **fields: Any) -> int:
    """Change fields of the first event of this kind, and return its line."""
    path = log_of(lab, run)
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        found = json.loads(line)
        if found["event"] == kind:
            lines[number - 1] = json.dumps({**found, **fields}).encode() + b"\n"
            path.write_bytes(b"".join(lines))
            return number
    raise AssertionError(f"{run} has no {kind}")


def replaced(lab: Lab, run: str, event: str, **fields: Any) -> int:
    """Another event in the place of `cfg_materialized`, which planning does not read; its line."""
    line = edit_line(lab, run, "cfg_materialized", event=event, **fields)
    kept = lines_of(lab, run)[line - 1]
    assert (kept["event"], kept["seq"]) == (event, line)
    return line


def refused(lab: Lab, code: str, line: int, run: str = "r0001") -> str:
    with pytest.raises(StateError) as stopped:
        lab.plan()
    (diagnostic,) = stopped.value.diagnostics
    assert stopped.value.exit is Exit.STATE
    assert (diagnostic.code, diagnostic.file, diagnostic.line) == (code, str(log_of(lab, run)), line)
    assert diagnostic.hint
    return diagnostic.message


def refused_command(lab: Lab, *command: str) -> tuple[str, int | None]:
    """The code and line of the error that the command ends with."""
    stopped = CliRunner().invoke(cli, [*command, str(lab.file)]).exception
    assert isinstance(stopped, StateError), stopped
    (diagnostic,) = stopped.diagnostics
    assert diagnostic.file == str(log_of(lab, "r0001"))
    return diagnostic.code, diagnostic.line


# --- a run killed within a reuse ---------------------------------------------------------------------------------


def killed_in_reuse(lab: Lab, recorded: int, step: str) -> None:
    """The last run reused this step; end its log after that many of the step's outputs."""
    run = lab.runs()[-1]
    (skipped,) = [e for e in lab.events(run) if isinstance(e, ev.StepSkipped) and e.step_id == step]
    assert skipped.why == "reused"
    following = lines_of(lab, run)[skipped.seq : skipped.seq + recorded]
    assert [(e["event"], e["step_id"]) for e in following] == [("artifact_available", step)] * recorded
    cut_after(lab, run, skipped.seq + recorded)


@pytest.mark.parametrize("recorded", [0, 1])
def test_a_run_killed_within_a_reuse_pays_nothing_and_keeps_adopted_bytes(project: Make, recorded: int) -> None:
    lab = project(TWO, {"page.py": PAGE, "mine.txt": "my own words"})
    lab.succeed()
    adopt_file(lab.opened(), "Artifact:Page.Text", lab.root / "mine.txt", Heard())
    lab.succeed(sets=["Topic=dogs"])
    back = lab.succeed()
    assert back.reused == {"Job:Page": "r0002"}
    killed_in_reuse(lab, recorded, "Job:Page")

    before = lab.plan()
    missing = ["Artifact:Page.Note", "Artifact:Page.Text"][recorded:]
    (job,) = before.planned
    assert [reason_json(reason) for reason in job.reasons] == [
        {"code": "MISSING_OUTPUT", "artifact": artifact} for artifact in missing
    ]
    assert job.reuse is not None
    assert job.reuse.run == "r0002"
    again = lab.succeed()  # repairs first
    assert again.plan.digest == before.digest
    assert (again.executed, again.reused) == ([], {"Job:Page": "r0002"})
    assert lab.content("Artifact:Page.Text") == "my own words"
    assert lab.read("page.txt") == "my own words"
    assert lab.read("paid").splitlines() == ["cats", "dogs"]
    assert codes(lab.plan()) == {}


def test_the_whole_reuse_takes_the_place_of_what_it_reused(project: Make) -> None:
    lab = project(TWO, {"page.py": PAGE})
    lab.succeed()
    lab.succeed(sets=["Topic=dogs"])
    lab.succeed()
    killed_in_reuse(lab, 2, "Job:Page")
    record = lab.opened().history().records.steps["Job:Page"]
    (cats,) = {a.fingerprint: a for a in record.attempts() if a.fingerprint == record.latest.fingerprint}.values()
    assert cats is record.latest
    assert (run_name(cats.run), run_name(cats.made_in), cats.origin) == ("r0003", "r0001", "reused")
    assert [o.id for o in cats.outputs] == ["Artifact:Page.Note", "Artifact:Page.Text"]


@pytest.mark.parametrize("recorded", [0, 1])
def test_a_half_reuse_of_another_instance_does_not_hide_that_one(project: Make, recorded: int) -> None:
    lab = project(TWINS, {"page.py": PAGE})
    lab.succeed(targets=["Job:A"])
    taken = lab.succeed(sets=["Right=cats"])
    assert taken.reused == {"Job:B": "r0001"}
    killed_in_reuse(lab, recorded, "Job:B")

    before = lab.plan(sets=["Right=cats"])
    again = lab.succeed(sets=["Right=cats"])
    assert again.plan.digest == before.digest
    assert (again.executed, again.reused) == ([], {"Job:B": "r0001"})
    assert lab.read("paid").splitlines() == ["cats"]


# --- IDs ---------------------------------------------------------------------------------------------------------


BROKEN_IDS = [
    ("step_skipped", {"step_id": "Page", "why": "condition_false"}, "`Page`"),
    ("step_skipped", {"step_id": "Artifact:Page.Text", "why": "condition_false"}, "is not an ID of kind `Job`"),
    ("step_blocked", {"step_id": "Job:", "because": ["Job:A"]}, "`Job:`"),
    ("step_blocked", {"step_id": "Job:B", "because": ["Job:A", "a"]}, "`a`"),
    ("condition_evaluated", {"step_id": "Job:Page[", "expression": "x", "inputs": {}, "result": True}, "`Job:Page[`"),
    (
        "condition_evaluated",
        {"step_id": "Job:Page", "expression": "x", "inputs": {"Topic": 1}, "result": True},
        "`Topic`",
    ),
    ("task", {"step_id": "job:Page", "status": "", "message": ""}, "`job:Page`"),
    ("request_recorded", {"step_id": "Job:Page[01]", "fingerprint": "f", "key": "k", "value": 1}, "not canonical"),
    ("status_contract_violation", {"step_id": "", "reason": "", "last_stderr": ""}, "has no kind"),
    ("log_repaired", {"cut_bytes": 0, "cut_sha256": "", "interrupted": ["Page"]}, "`Page`"),
    (
        "comparison",
        {"artifact": "Job:Page", "status": "", "against": "r0001", "summary": ""},
        "is not an ID of kind `Artifact`",
    ),
    ("input_recorded", {"id": "Topic", "sha256": "0" * 64}, "`Topic`"),
]


@pytest.mark.parametrize(("event", "fields", "named"), BROKEN_IDS, ids=[f"{e}-{n}" for e, _, n in BROKEN_IDS])
def test_an_id_that_does_not_parse(project: Make, event: str, fields: dict[str, Any], named: str) -> None:
    lab = project(TWO, {"page.py": PAGE})
    lab.succeed()
    line = replaced(lab, "r0001", event, **fields)
    assert named in refused(lab, "LOG_DAMAGED", line)


@pytest.mark.parametrize(
    ("event", "fields", "named"),
    [
        ("artifact_available", {"artifact": "Page.Text"}, "`Page.Text`"),
        ("artifact_available", {"artifact": "Artifact:Page.Text[0][0]"}, "not an artifact of `Job:Page`"),
        ("artifact_available", {"artifact": "Artifact:Cover.Text"}, "not an artifact of `Job:Page`"),
        ("artifact_available", {"artifact": "Artifact:Page"}, "not an artifact of `Job:Page`"),
        ("step_failed", {"step_id": "Page"}, "`Page`"),
    ],
)
def test_an_event_for_something_else(project: Make, event: str, fields: dict[str, Any], named: str) -> None:
    lab = project(TWO, {"page.py": PAGE + "\n        raise OSError\n" if event == "step_failed" else PAGE})
    if event == "step_failed":
        lab.edit("page.py", '    return {"Text": "about " + topic, "Note": "end"}\n', "")
        assert lab.run().exit_code == 1
    else:
        lab.succeed()
    assert named in refused(lab, "LOG_DAMAGED", edit_line(lab, "r0001", event, **fields))


@pytest.mark.parametrize("artifact", ["Artifact:Cover.Text", "Artifact:Page.Text[0][0]", "Page.Text"])
def test_an_adopted_artifact_of_another_step(project: Make, artifact: str) -> None:
    lab = project(TWO, {"page.py": PAGE, "mine.txt": "my own words"})
    lab.succeed()
    adopt_file(lab.opened(), "Artifact:Page.Text", lab.root / "mine.txt", Heard())
    line = edit_line(lab, "r0002", "artifact_adopted", artifact=artifact)
    assert artifact in refused(lab, "LOG_DAMAGED", line, "r0002")


def test_indices_of_every_spelling_belong_to_their_steps(project: Make) -> None:
    """Words, numbers, quoted texts and leaves: what the engine writes is never refused."""
    lab = project(
        """
        workflow: spellings
        loops: {name: {values: [plain, "7", "a/b", infinity, nano, 1.5, -3, "x y"]}, n: {count: 2}}
        jobs:
          Page:
            for: [name, n]
            uses: python
            with: {call: "page:write", topic: "${{ str(name) }}"}
            outputs: {Story: {type: json, leaves: {"Parts[n].Title": string}}}
        """,
        {"page.py": "def write(topic):\n    return {'Story': {'Parts': [{'Title': topic}, {'Title': topic}]}}\n"},
    )
    assert len(lab.succeed().executed) == 16
    assert codes(lab.plan()) == {}


# --- bindings ----------------------------------------------------------------------------------------------------


MEMBER = {"id": "Input:Topic", "sha256": "0" * 64}
MALFORMED: list[tuple[Any, str]] = [
    ([1, 2], "not an object"),
    ("text", "not an object"),
    (7, "not an object"),
    ({"topic": "y"}, "`$.bindings[...]`"),
    ({"topic": [1]}, "`$.bindings[...][0]`"),
    ({"topic": [{"sha256": "0" * 64}]}, "`id`"),
    ({"topic": [{"id": "Input:Topic"}]}, "`sha256`"),
    ({"topic": [{**MEMBER, "as": 3}]}, "`$.bindings[...][0].as`"),
    ({"topic": [{**MEMBER, "id": "Topic"}]}, "`Topic`"),
    ({"topic": {"count": 70, "blob": "0" * 64}}, "`digest`"),
    ({"topic": {"count": 70, "blob": "../../secret", "digest": "0" * 64}}, "`$.bindings[...].blob`"),
    ({".action": {"count": 70, "blob": "0" * 64, "digest": "0" * 64}}, "`.action`"),
]


@pytest.mark.parametrize(("bindings", "named"), MALFORMED, ids=[json.dumps(b)[:40] for b, _ in MALFORMED])
def test_malformed_bindings(project: Make, bindings: Any, named: str) -> None:
    lab = project(TWO, {"page.py": PAGE})
    lab.succeed()
    line = edit_line(lab, "r0001", "step_start", bindings=bindings)
    lab.edit("workflow.yaml", "default: cats", "default: dogs")
    assert named in refused(lab, "LOG_DAMAGED", line)
    assert refused_command(lab, "why", "Job:Page") == ("LOG_DAMAGED", line)


@pytest.mark.parametrize("bindings", [None, {}])
def test_no_bindings(project: Make, bindings: Any) -> None:
    lab = project(TWO, {"page.py": PAGE})
    lab.succeed()
    line = edit_line(lab, "r0001", "step_start", bindings=bindings)
    assert refused(lab, "LOG_INCOMPLETE", line) == "the `step_start` of `Job:Page` has no bindings"


@pytest.mark.parametrize(
    ("blob", "named"),
    [(b"not a list", "holds no list"), (b'[{"id": "Page"}]', "holds no list"), (None, "`Page`")],
)
def test_a_long_list_that_is_none(project: Make, blob: bytes | None, named: str) -> None:
    lab = project(TWO, {"page.py": PAGE})
    lab.succeed()
    members = json.dumps([{"id": "Page", "sha256": "0" * 64}] * 70).encode()
    sha = lab.opened().store.put_bytes(members if blob is None else blob)
    line = edit_line(lab, "r0001", "step_start", bindings={"topic": {"count": 70, "digest": sha, "blob": sha}})
    lab.edit("workflow.yaml", "default: cats", "default: dogs")
    assert named in refused(lab, "LOG_DAMAGED", line)


# --- runs --------------------------------------------------------------------------------------------------------


def test_a_mode_that_there_is_not(project: Make) -> None:
    lab = project(TWO, {"page.py": PAGE})
    lab.succeed()
    assert "mode" in refused(lab, "LOG_DAMAGED", edit_line(lab, "r0001", "run_start", mode="dream"))


def test_a_run_that_compares_is_read_as_strictly(project: Make) -> None:
    lab = project(TWO, {"page.py": PAGE})
    lab.succeed()
    edit_line(lab, "r0001", "run_start", mode="compare")
    assert codes(lab.plan()) == {"Job:Page": ["MISSING_OUTPUT", "MISSING_OUTPUT"]}, "it changes nothing"
    start = next(e for e in lines_of(lab, "r0001") if e["event"] == "step_start")
    line = edit_line(lab, "r0001", "step_complete", **{k: v for k, v in start.items() if k not in ("seq", "chain")})
    assert "starts again" in refused(lab, "LOG_INCOMPLETE", line)


@pytest.mark.parametrize("left", [b"", None], ids=["emptied", "deleted"])
@pytest.mark.parametrize("command", [["runs"], ["history", "Job:Page"], ["plan"], ["status"]], ids=lambda c: c[0])
def test_a_log_without_a_line(project: Make, left: bytes | None, command: list[str]) -> None:
    lab = project(TWO, {"page.py": PAGE})
    lab.succeed()
    if left is None:
        log_of(lab, "r0001").unlink()
    else:
        log_of(lab, "r0001").write_bytes(left)
    assert refused_command(lab, *command) == ("LOG_INCOMPLETE", None)


@pytest.mark.parametrize("command", [["plan"], ["explain"], ["status"]], ids=lambda c: c[0])
def test_the_end_of_a_log_was_cut_off_and_a_later_run_began(project: Make, command: list[str]) -> None:
    """That run would have repaired what a kill left. Nothing is planned from half a log, nor paid for again."""
    lab = project(TWO, {"page.py": PAGE})
    lab.succeed()
    lab.succeed(force=["Job:Page"])
    log = log_of(lab, "r0001")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:4]))
    assert refused_command(lab, *command) == ("LOG_DAMAGED", 4)
    with pytest.raises(StateError) as refused:
        lab.plan()
    (told,) = refused.value.diagnostics
    assert (told.message, told.hint) == (
        "the log has no `run_complete`, although a later run began: its end was cut off",
        ev.DAMAGE_HINT,
    )
    log.write_bytes(b"".join(lines))
    assert lab.plan().planned == []
    assert lab.opened().history(through=1).records.run == 1  # the log as it was then, too
