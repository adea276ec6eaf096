"""Issue 17, number 9: `parity` and `verify` could be fooled. A forger changes one thing in a run folder, and makes the
chain of the log right again.

Whatever he changes, the two commands name it, or docs/parity.md says that nobody judges it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from parity_lab import parity

from forging import forge_events
from whyrun.errors import WhyrunError
from whyrun.evidence.verify.consistency import RecordedCommand
from whyrun.evidence.verify.verify import verify
from whyrun.execution.protocol.messages import ExecStep
from whyrun.log.runs import WorkflowState

Made = Callable[[str, str, int], Path]
Events = list[dict[str, Any]]
# The same list stands in docs/parity.md, under "What nobody judges".
NOT_JUDGED = {"ts", "host", "pid", "duration", "traced"}  # fields of events
NOT_JUDGED_FILES = {"whyrun.log", "debug.log", "stdout.log", "stderr.log"}


class Forger:
    """Two real runs of the ten steps, in which one step fails; the second is forged, looked at, and put back."""

    def __init__(self, honest: Path, forged: Path) -> None:
        self.honest, self.run, self.log = honest, forged, forged / "events.jsonl"

    @contextmanager
    def restored(self, path: Path) -> Iterator[Path]:
        """The path as it was, afterwards."""
        link = os.readlink(path) if path.is_symlink() else None
        data = path.read_bytes() if link is None and path.is_file() else None
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)
            if link is not None:
                path.symlink_to(link)
            elif data is not None:
                path.write_bytes(data)

    @contextmanager
    def forged(self, change: Callable[[Events], Any]) -> Iterator[None]:
        with self.restored(self.log):
            forge_events(self.log, lambda events: change(events) or events)
            yield

    @contextmanager
    def written(self, path: str, data: bytes | None) -> Iterator[None]:
        """With this content, as a file; None: without the file."""
        with self.restored(self.run / path) as file:
            file.unlink(missing_ok=True)
            if data is not None:
                file.write_bytes(data)
            yield

    def forge(self, change: Callable[[Events], Any]) -> tuple[str, str]:
        with self.forged(change):
            return self.judged()

    def write(self, path: str, data: bytes | None) -> tuple[str, str]:
        with self.written(path, data):
            return self.judged()

    def judged(self) -> tuple[str, str]:
        """What `verify` and `parity` say."""
        return self.verified(), self.compared()

    def verified(self) -> str:
        state = WorkflowState(self.run.parents[2], self.run.parents[1].name)
        found = verify(state, state.state_dir.parent, lambda run: None)
        return "sound" if found.sound else found.problems[0].what

    def compared(self) -> str:
        try:
            found = parity(self.honest, self.run)
        except WhyrunError as refused:
            return refused.diagnostics[0].message
        return "equal" if found.headline is None else f"{found.headline.name} {found.headline.field}".rstrip()

    def events(self) -> Events:
        return [json.loads(line) for line in self.log.read_bytes().splitlines()]

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.run)) for path in self.run.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def forger(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Forger:
    copies = []
    for number in (1, 2):
        run = made("local", "failure", number)
        copies.append(tmp_path_factory.mktemp("forged") / ".whyrun")
        shutil.copytree(run.parents[2], copies[-1], symlinks=True)
    return Forger(*(copy / "ten-steps/runs/r0001" for copy in copies))


def at(events: Events, kind: str, about: str = "") -> int:
    return next(i for i, e in enumerate(events) if e["event"] == kind and about in ("", e.get("step_id")))


def other(value: Any) -> Any:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value[:-1] + ("1" if value[-1] == "0" else "0") if len(value) == 64 else value + "x"
        case list():
            return value[:-1] if value else ["x"]
        case dict():
            return {**value, "more": 1}
        case _:
            return "x"


def test_the_honest_runs_are_sound_and_equal(forger: Forger) -> None:
    assert forger.judged() == ("sound", "equal")


# --- the log -----------------------------------------------------------------------------------------------------


def test_every_field_of_every_event_is_judged_or_documented(forger: Forger) -> None:
    unnamed, seen = set(), set()
    for i, event in enumerate(forger.events()):
        is_value = "value" in event
        for field in event.keys() - {"seq", "event", "chain", "session"}:  # `verify` and the reader judge these
            if (event["event"], field, is_value) in seen:
                continue
            seen.add((event["event"], field, is_value))

            def change(events: Events, i: int = i, field: str = field) -> None:
                events[i][field] = other(events[i][field])

            with forger.forged(change):
                if forger.compared() == "equal":
                    unnamed.add(field)
    assert len({kind for kind, _, _ in seen}) == 14
    assert unnamed == NOT_JUDGED


SIZES = {
    "artifact_available": "`size` is not the size of the artifact",
    "cfg_materialized": "`size` is not the size of `cfg/Clean.json`",
    "manifest_materialized": "`size` is not the size of `manifest.yaml`",
}


@pytest.mark.parametrize("kind", SIZES)
def test_falsified_sizes_are_named_by_both(forger: Forger, kind: str) -> None:
    def change(events: Events) -> None:
        events[at(events, kind)]["size"] += 1

    verified, compared = forger.forge(change)
    assert verified == SIZES[kind]
    assert compared.startswith(SIZES[kind])


def moved(kind: str, before: str, step: str = "", after: int = 0) -> Callable[[Events], None]:
    def change(events: Events) -> None:
        event = events.pop(at(events, kind, step))
        events.insert(at(events, before, step) + after, event)

    return change


def swapped(events: Events) -> None:
    """`Merge` and `Check`: every event of the first after every event of the second."""
    of_merge = [event for event in events if event.get("step_id") == "Job:Merge"]
    rest = [event for event in events if event.get("step_id") != "Job:Merge"]
    last = max(i for i, event in enumerate(rest) if event.get("step_id") == "Job:Check")
    events[:] = [*rest[: last + 1], *of_merge, *rest[last + 1 :]]


ORDERS = {
    "complete before start": (
        moved("step_complete", "step_start", "Job:Clean"),
        "`Job:Clean` completed without a `step_start`",
    ),
    "a task before the start": (
        moved("task", "step_start", "Job:Count"),
        "the step is not running: its attempt has not begun, or has ended",
    ),
    "an artifact before the start": (
        moved("artifact_available", "step_start", "Job:Clean"),
        "`Artifact:Clean.Letters[a]` has no `step_start` of its step before it",
    ),
    "a condition after its step": (
        moved("condition_evaluated", "step_skipped", "Job:ShortTale", after=1),
        "the condition of a step that has begun or ended already",
    ),
    "a cfg after the start": (
        moved("cfg_materialized", "step_start", after=1),
        "the step began before its `cfg_materialized`",
    ),
    "a plan after the steps": (
        moved("plan_computed", "step_start", after=1),
        "no `plan_computed` comes before the steps",
    ),
}


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_that_cannot_be_is_named_by_both(forger: Forger, order: str) -> None:
    change, what = ORDERS[order]
    verified, compared = forger.forge(change)
    assert verified == what
    assert compared.startswith(what)


def test_the_order_between_steps_is_free_as_the_docs_say(forger: Forger) -> None:
    assert forger.forge(swapped) == ("sound", "equal")


def test_every_event_is_missed_and_no_second_one_passes(forger: Forger) -> None:
    passed = []
    for kind in sorted({event["event"] for event in forger.events()}):
        for name, change in {
            "removed": lambda events, kind=kind: events.pop(at(events, kind)) and None,
            "doubled": lambda events, kind=kind: events.insert(at(events, kind), dict(events[at(events, kind)])),
        }.items():
            with forger.forged(change):
                if forger.compared() == "equal":
                    passed.append((kind, name))
    assert passed == []


# --- files -------------------------------------------------------------------------------------------------------


def test_every_file_is_judged_or_documented(forger: Forger) -> None:
    """With other content, and as an ordinary file in place of a link."""
    unnamed = set()
    for path in forger.files():
        if path != "events.jsonl":
            with forger.written(path, (forger.run / path).read_bytes() + b"\nx"):
                if forger.compared() == "equal":
                    unnamed.add(Path(path).name)
    assert unnamed == NOT_JUDGED_FILES


def test_every_file_is_missed_and_no_other_one_passes(forger: Forger) -> None:
    passed = []
    for path in forger.files():
        if path != "events.jsonl":
            with forger.written(path, None):
                if forger.compared() == "equal":
                    passed.append(path)
    assert passed == []
    more = ["more.txt", "cfg/More.json", "steps/Clean/query.sql", "artifacts/Clean/More.csv", "source/more.yaml"]
    for path in more:
        with forger.written(path, b"x"):
            assert forger.compared() == path


REPLACED = {
    "steps/Clean/script.sh": ("sound", "steps/Clean/script.sh sha256"),
    "steps/Risky/scratch/work/half.txt": ("sound", "steps/Risky/scratch/work/half.txt sha256"),
    "artifacts/Regional%5Bnorth%5D/Table.csv": ("the link points elsewhere", "the link points elsewhere"),
    "source/workflow.yaml": ("the file is not the one in the run's snapshot",) * 2,
    "plan.json": ("the file is not the plan that line 7 of the log names",) * 2,
}


@pytest.mark.parametrize("path", REPLACED)
def test_a_replaced_file_is_named(forger: Forger, path: str) -> None:
    said = forger.write(path, b"echo forged\n")
    assert (said[0], said[1][: len(REPLACED[path][1])]) == REPLACED[path]


def edited(forger: Forger, path: str, old: str, new: str) -> tuple[str, str]:
    data = (forger.run / path).read_text()
    assert re.search(old, data) is not None
    return forger.write(path, re.sub(old, new, data, count=1).encode())


COMMANDS = {
    "an inline configuration": (
        '"attempt":1', '"attempt":1,"config":{"a":1}',
        "this line is not a command: Object contains unknown field `config`",
    ),
    "another cfg": ('"cfg_sha256":"[0-9a-f]{4}', '"cfg_sha256":"0000', "`cfg_sha256` is not that of `cfg/Clean.json`"),
    "the cfg of another step": ("cfg/Clean.json", "cfg/Merge.json", "`cfg_sha256` is not that of `cfg/Merge.json`"),
    "another driver": ('"driver":"shell"', '"driver":"python"', "`driver` is not that of Job:Clean (attempt 1)"),
    "another input": ('"sha256":"[0-9a-f]{4}', '"sha256":"0000', "`inputs` are not those of `cfg/Clean.json`"),
}  # fmt: skip


@pytest.mark.parametrize("what", COMMANDS)
def test_a_forged_command_is_named_by_both(forger: Forger, what: str) -> None:
    old, new, problem = COMMANDS[what]
    verified, compared = edited(forger, "commands.jsonl", old, new)
    assert verified == problem
    assert compared.startswith(problem)


def test_commands_and_metrics_that_are_gone(forger: Forger) -> None:
    """To `verify` it is what a power cut may leave; to `parity` it is a difference."""
    assert forger.write("commands.jsonl", b"") == ("sound", "Job:Clean (attempt 1)")
    lines = (forger.run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    without = b"".join(line for line in lines if b"step_duration_ms" not in line)
    assert forger.write("metrics.jsonl", without) == ("sound", "step_duration_ms Job:Clean times")
    without = b"".join(line for line in lines if b"max_rss_bytes" not in line)
    assert forger.write("metrics.jsonl", without) == ("sound", "max_rss_bytes Job:Clean times")


def test_a_duration_that_is_not_that_of_the_log(forger: Forger) -> None:
    what = r"no `step_duration_ms` of Job:Clean \(attempt 1\) is its duration in line \d+ of the log"
    said = edited(forger, "metrics.jsonl", r'"step_duration_ms","value":', '"step_duration_ms","value":1')
    assert all(re.match(what, one) for one in said)


def test_two_runs_that_lost_the_same_are_not_equal(forger: Forger) -> None:
    runs = forger.honest, forger.run
    with ExitStack() as stack:
        for file in [stack.enter_context(forger.restored(run / "metrics.jsonl")) for run in runs]:
            lines = file.read_bytes().splitlines(keepends=True)
            file.write_bytes(b"".join(line for line in lines if b"step_duration_ms" not in line))
        found = parity(*runs)
    missing = [d.name for d in found.differences if d.kind == "metric"]
    assert missing[0] == "step_duration_ms Job:Clean"
    assert {d.details for d in found.differences} == {("every success has it, and neither run has it",)}


# --- what this stands on -----------------------------------------------------------------------------------------


def test_a_command_in_the_evidence_has_the_fields_of_a_command() -> None:
    """`evidence` may not import `execution`, so it has the record a second time."""
    mine, theirs = (
        [(f.name, f.required) for f in msgspec.structs.fields(type_)] for type_ in (RecordedCommand, ExecStep)
    )
    assert mine == theirs


def test_the_docs_list_what_nobody_judges() -> None:
    docs = (Path(__file__).parents[2] / "docs/parity.md").read_text()
    section = docs.split("### What nobody judges\n")[1].split("\n#")[0]
    assert {*NOT_JUDGED, *NOT_JUDGED_FILES} <= set(re.findall(r"`([^`]+)`", section))
