"""Check that what a run records twice agrees: its events among each other, and `cfg/`, commands and metrics with them.

A chain proves nothing about a log that was forged as a whole. But such a log must also agree with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from whyrun.errors import printable
from whyrun.evidence.run_directory import Metric
from whyrun.evidence.verify.lines import described
from whyrun.evidence.verify.report import COMMANDS_GONE, KEPT, METRICS_GONE, Findings, VerifyProblem
from whyrun.ids import file_name
from whyrun.log import events as ev
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE
from whyrun.log.outcomes import RunOutcome

COMMANDS_FILE, METRICS_FILE = "commands.jsonl", "metrics.jsonl"
_HINTS = {COMMANDS_FILE: COMMANDS_GONE, METRICS_FILE: METRICS_GONE}
_Line = TypeVar("_Line")
DURATION = "step_duration_ms"
_Problem = tuple[str, str | None, str | None]  # what, expected, found


# --- events ------------------------------------------------------------------------------------------------------


class _Attempt(msgspec.Struct, gc=False):
    """The latest attempt of a step. `line`: of its start."""

    number: int
    driver: str
    line: int
    open: bool = True


class Completed(msgspec.Struct, frozen=True, gc=False):
    """A successful attempt."""

    step: str
    number: int
    driver: str
    duration: float
    line: int

    @property
    def key(self) -> tuple[str, int]:
        return self.step, self.number


class EventConsistency:
    """Feed it the events of one run in order. `workflow`: the name of the folder in which the run lies."""

    def __init__(self, run: str, file: str, workflow: str, outcome: RunOutcome) -> None:
        """`outcome`: of the events before the one that is fed."""
        self.problems: list[VerifyProblem] = []  # the first `KEPT`: a forged log may contradict itself in every line
        self.completed: list[Completed] = []
        self.attempts: dict[tuple[str, int], str] = {}  # step and attempt → driver
        self.kept: list[ev.ResultKept] = []
        self._run, self._file, self._workflow, self._outcome = run, file, workflow, outcome
        self._latest: dict[str, _Attempt] = {}
        self._cfg: dict[str, int] = {}  # path → line
        self._made: dict[str, int] = {}  # artifact → the line of the attempt that made it
        self._once: set[type[ev.Event]] = set()
        self._stages = 0
        self._mode = "run"
        self._compared: dict[str, int] = {}  # in a comparison: how many steps had which result

    def add(self, event: ev.AnyEvent, line: int) -> None:
        for what, expected, found in self._problems(event, line):
            name, subject = described(event)
            problem = VerifyProblem("log", self._run, self._file, what, line, name, subject, expected, found)
            if len(self.problems) < KEPT:
                self.problems.append(problem)

    def _problems(self, event: ev.AnyEvent, line: int) -> Iterator[_Problem]:
        match event:
            case ev.ArtifactAvailable():
                attempt = self._latest.get(event.step_id)
                since = attempt.line if attempt is not None else 0
                if self._made.get(event.artifact, -1) == since:
                    yield "the artifact is recorded twice", None, None
                self._made[event.artifact] = since
            case ev.ResultKept():
                self.kept.append(event)
            case ev.CfgMaterialized():
                self._cfg.setdefault(event.path, line)
            case ev.Task() | ev.RequestRecorded() | ev.CostRecorded():
                attempt = self._latest.get(event.step_id)
                if attempt is None or not attempt.open:
                    yield "the step is not running: its attempt has not begun, or has ended", None, None
            case ev.StepStart():
                yield from self._begins(event, line)
            case ev.StepComplete():
                yield from self._completes(event, line)
            case ev.StepFailed():
                yield from self._ends(event)
            case ev.StepSkipped() | ev.StepBlocked():
                yield from self._needs_plan()
                if event.step_id in self._outcome.steps:
                    yield "the step has begun or ended already", None, None
            case ev.ConditionEvaluated():
                if event.step_id in self._outcome.steps:
                    yield "the condition of a step that has begun or ended already", None, None
            case ev.PlanComputed() if event.stage is not None:
                yield from self._stage(event.stage, event.source)
            case ev.PlanComputed() | ev.ManifestMaterialized():
                if type(event) in self._once:
                    yield "a run records this once", None, None
                self._once.add(type(event))
            case ev.RunStart():
                self._mode = event.mode
                if event.mode == "compare":
                    self._compared = {"identical": 0, "different": 0}
                if event.workflow != self._workflow:
                    yield "the run is of another workflow", self._workflow, event.workflow
            case ev.RunComplete():
                counts = {**self._outcome.counts(), **self._compared}
                if {**self._compared, **event.counts} != counts:  # a comparison that broke counts no results
                    yield "`counts` does not match the events", _text(counts), _text(event.counts)
            case _:
                pass

    def _stage(self, number: int, source: str | None) -> Iterator[_Problem]:
        self._stages += 1
        if number != self._stages:
            yield "the stages of a run are numbered from 1", str(self._stages), str(number)
        if self._outcome.steps.get(source or "") not in ("completed", "skipped"):
            yield "a stage is planned once its source has made a result", None, None

    def _begins(self, event: ev.StepStart, line: int) -> Iterator[_Problem]:
        yield from self._needs_plan()
        before = self._latest.get(event.step_id)
        number = 1 if before is None else before.number + 1
        if event.attempt != number:
            yield "the attempts of a step are numbered from 1", str(number), str(event.attempt)
        self._latest[event.step_id] = _Attempt(event.attempt, event.driver, line)
        self.attempts[event.step_id, event.attempt] = event.driver

    def _completes(self, event: ev.StepComplete, line: int) -> Iterator[_Problem]:
        attempt = self._latest.get(event.step_id)
        yield from self._ends(event)
        if attempt is None:
            return  # reported by the fold
        self.completed.append(Completed(event.step_id, attempt.number, attempt.driver, event.duration, line))
        name = file_name(event.step_id.removeprefix("Job:"))
        if event.output_dir != f"artifacts/{name}":
            yield "`output_dir` is not the folder of the step", f"artifacts/{name}", event.output_dir
        result = event.status.lower()
        if result in self._compared:
            self._compared[result] += 1
        elif event.status != "EXECUTES":
            yield "`status` is one of a comparison", "EXECUTES", event.status
        if self._cfg.get(f"cfg/{name}.json", line) > attempt.line:
            yield "the step began before its `cfg_materialized`", None, None

    def _ends(self, event: ev.StepComplete | ev.StepFailed) -> Iterator[_Problem]:
        attempt = self._latest.get(event.step_id)
        if attempt is None:
            return  # a result that was taken from an earlier run and could not be published; else see the fold
        attempt.open = False
        if event.driver != attempt.driver:
            yield "`driver` is not that of the step's start", attempt.driver, event.driver

    def _needs_plan(self) -> Iterator[_Problem]:
        needed: list[type[ev.Event]] = [ev.ManifestMaterialized]
        if self._mode == "run":
            needed.append(ev.PlanComputed)
        for type_ in needed:
            if type_ not in self._once:
                self._once.add(type_)  # reported once
                yield f"no `{type_.__struct_config__.tag}` comes before the steps", None, None


def kept_notes(run: str, kept: Sequence[ev.ResultKept]) -> list[str]:
    """One note for all results that the user kept with one command."""
    if not kept:
        return []
    more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
    why = printable(f"{kept[0].by}: {kept[0].because}")
    return [f"{run} kept the result of {kept[0].step_id}{more} without running, by {why}"]


# --- commands and metrics ----------------------------------------------------------------------------------------


class _Source(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where an input comes from; as in `execution.protocol.messages`, which this package may not import."""

    id: str
    sha256: str
    from_step: str | None = None
    key: str | None = None
    from_run: str | None = None
    path: str | None = None


class _Version(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    id: str
    sha256: str
    type: str
    from_run: str
    gone: bool = False


class RecordedCommand(msgspec.Struct, tag_field="cmd", tag="exec_step", forbid_unknown_fields=True, frozen=True):
    """A line of `commands.jsonl`. A command names files: any other field would be a configuration inside it."""

    step_id: str
    driver: str
    cfg_path: str
    cfg_sha256: str
    attempt: int
    inputs: dict[str, _Source | list[_Source]]
    recalled: dict[str, Any] = {}
    recalled_elsewhere: dict[str, Any] = {}
    compare: dict[str, _Version] = {}
    shared: bool = False
    trace: bool = False


class _InCfg(msgspec.Struct, frozen=True):
    id: str
    sha256: str


class _Cfg(msgspec.Struct, frozen=True):
    step_id: str
    action: str
    inputs: dict[str, _InCfg | list[_InCfg]] = {}


_decode_command = msgspec.json.Decoder(RecordedCommand).decode
_decode_metric = msgspec.json.Decoder(Metric).decode
_decode_cfg = msgspec.json.Decoder(_Cfg).decode


class FileConsistency:
    """Checks `commands.jsonl` and `metrics.jsonl` of one run against its events and `cfg/`.

    `whole`: neither a kill nor a repair could leave half a line.
    """

    def __init__(self, folder: Path, events: EventConsistency, findings: Findings, *, whole: bool) -> None:
        self._folder, self._run, self._events = folder, folder.name, events
        self._findings, self._whole = findings, whole

    def commands(self, cfg: Mapping[str, str]) -> None:
        """`cfg`: path → hash of each file that is as the log says."""
        given: set[tuple[str, int]] = set()
        for number, command in self._read(COMMANDS_FILE, _decode_command, "a command"):
            given.add((command.step_id, command.attempt))
            attempt = _attempt(command.step_id, command.attempt)
            driver = self._events.attempts.get((command.step_id, command.attempt), command.driver)
            self._equal(COMMANDS_FILE, f"`driver` is not that of {attempt}", number, driver, command.driver)
            sha256 = cfg.get(command.cfg_path)
            if sha256 is None:
                continue  # not in the log, or another file than the log says, which is reported
            what = f"`cfg_sha256` is not that of `{command.cfg_path}`"
            self._equal(COMMANDS_FILE, what, number, sha256, command.cfg_sha256)
            contradiction = _contradiction(command, self._folder / command.cfg_path)
            if contradiction is not None:
                self._add(COMMANDS_FILE, contradiction, number)
        self._lacking(COMMANDS_FILE, "the command", [done for done in self._events.completed if done.key not in given])

    def metrics(self) -> None:
        """Each line is of a step of this run, and each success has its duration."""
        started = {step for step, _ in self._events.attempts}
        unknown: dict[str, int] = {}  # step → line
        durations: dict[str, list[float]] = {}
        for number, metric in self._read(METRICS_FILE, _decode_metric, "a metric"):
            self._equal(METRICS_FILE, "the line belongs to another run", number, self._run, metric.session)
            if metric.step_id not in started:
                unknown.setdefault(metric.step_id, number)
            if metric.metric == DURATION:
                durations.setdefault(metric.step_id, []).append(metric.value)
        self._not_started(unknown)
        lacking = []
        for done in self._events.completed:
            recorded, milliseconds = durations.get(done.step, []), round(done.duration * 1000, 3)
            if any(abs(value - milliseconds) < 0.01 for value in recorded):
                continue
            if len(recorded) < done.number:  # attempts that failed have durations, too
                lacking.append(done)
                continue
            what = f"no `{DURATION}` of {_attempt(*done.key)} is its duration in line {done.line} of the log"
            self._add(METRICS_FILE, what, None, str(milliseconds), ", ".join(map(str, recorded)))
        self._lacking(METRICS_FILE, "the duration", lacking)

    def _not_started(self, unknown: Mapping[str, int]) -> None:
        """After a repair not a problem: a power cut may take the start of a step from the log, and keep its metrics.

        `unknown`: step → its first line.
        """
        if self._whole:
            for step, line in unknown.items():
                self._add(METRICS_FILE, f"`{step}` is no step that the run started", line)
        elif unknown:
            step, line = next(iter(unknown.items()))
            which = f"`{step}`, which" if len(unknown) == 1 else f"{len(unknown)} steps that"
            text = f"`{METRICS_FILE}` of {self._run} has metrics of {which} the run did not start (line {line})"
            self._findings.note(text)

    def _lacking(self, name: str, what: str, lacking: list[Completed]) -> None:
        """Not a problem: a power cut may take the end of this file, and where the file is lost, the next run makes an
        empty one. `parity` counts it as a difference."""
        if lacking and (self._folder / name).is_file():
            which = "1 success" if len(lacking) == 1 else f"{len(lacking)} successes"
            self._findings.note(f"`{name}` of {self._run} lacks {what} of {which}, first {_attempt(*lacking[0].key)}")

    def _read(self, name: str, decode: Callable[[bytes], _Line], noun: str) -> Iterator[tuple[int, _Line]]:
        path = self._folder / name
        if not path.is_file():
            return  # reported as a missing file
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    if self._whole:
                        self._add(name, "the line has no end", number)
                    return
                try:
                    yield number, decoded(decode, line[:-1])
                except UNREADABLE as wrong:
                    self._add(name, f"this line is not {noun}: {wrong}", number)

    def _equal(self, name: str, what: str, line: int, expected: str, found: str) -> None:
        if expected != found:
            self._add(name, what, line, expected, found)

    def _add(
        self, name: str, what: str, line: int | None = None, expected: str | None = None, found: str | None = None
    ) -> None:
        file, hint = str(self._folder / name), _HINTS[name]
        self._findings.add(VerifyProblem("file", self._run, file, what, line, None, None, expected, found, hint=hint))


def _contradiction(command: RecordedCommand, cfg_file: Path) -> str | None:
    """What in a command is not what the cfg file of its step says."""
    try:
        cfg = decoded(_decode_cfg, cfg_file.read_bytes())
    except (OSError, *UNREADABLE):
        return None  # of another version
    if (command.step_id, command.driver) != (cfg.step_id, cfg.action):
        return f"`{command.cfg_path}` is the configuration of another step"
    if _contents(command.inputs) != _contents(cfg.inputs):
        return f"`inputs` are not those of `{command.cfg_path}`"
    return None


def _contents(inputs: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    lists = {name: given if isinstance(given, list) else [given] for name, given in inputs.items()}
    return {name: [(source.id, source.sha256) for source in given] for name, given in lists.items()}


def _attempt(step: str, number: int) -> str:
    return f"{step} (attempt {number})"


def _text(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
