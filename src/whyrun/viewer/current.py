"""The state that the page shows: one workflow opened, planned, and planned again while somebody looks at it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from whyrun.errors import WhyrunError, error
from whyrun.facts.subjects import command_arguments
from whyrun.log.runs import WorkflowState

if TYPE_CHECKING:
    from whyrun.errors import Diagnostic
    from whyrun.evidence.queries.history import HistoryEntry, Unfinished
    from whyrun.facts.plans import Planned
    from whyrun.graph.tables import Graph, JobTable
    from whyrun.planning.answers.why import PlanView
    from whyrun.planning.plan import PlannedJob
    from whyrun.project import Project
    from whyrun.snapshot.history.reader import History
    from whyrun.snapshot.records import Records, StepRecord
    from whyrun.viewer.why import Failures


# --- the parameters of a view, from its address. What is missing or no number is an error that says what to give ------


LARGEST = 10**9


class Params:
    """Names with one or more values."""

    def __init__(self, values: Mapping[str, Iterable[str]]) -> None:
        self._values = {name: tuple(given) for name, given in values.items()}

    @classmethod
    def of(cls, **values: str) -> Params:
        return cls({name: (value,) for name, value in values.items()})

    def names(self) -> Iterable[str]:
        return self._values

    def many(self, name: str) -> tuple[str, ...]:
        return self._values.get(name, ())

    def maybe(self, name: str) -> str | None:
        given = self.many(name)
        if len(given) > 1:
            raise error("USAGE", f"`{name}` is given {len(given)} times", hint=f"give `{name}` once")
        return given[0] if given else None

    def one(self, name: str) -> str:
        value = self.maybe(name)
        if value is None:
            raise error("USAGE", f"this view needs `{name}`", hint=f"add `?{name}=…` to its address")
        return value

    def number(self, name: str, default: int) -> int:
        value = self.maybe(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and int(value[:12]) <= LARGEST):
            raise error("USAGE", f"`{name}={value[:20]}` is not a whole number from 0", hint=f"write `{name}=1`")
        return int(value)

    def query(self) -> str:
        """In alphabetic order, as the page asks for it."""
        return urlencode([(name, value) for name in sorted(self._values) for value in self._values[name]])


# --- the state of the page --------------------------------------------------------------------------------------------


# One letter an instance, for grids of many. A state that the page does not know is shown by its name.
STATE_LETTERS = {
    "clean": "c", "planned": "p", "reused": "r", "deferred": "d", "inactive": "i", "open": "o", "pinned": "n",
}  # fmt: skip
OUTCOME_LETTERS = {"succeeded": "s", "failed": "f", "running": "r", "never": "n"}
STATE_OF = {letter: state for state, letter in STATE_LETTERS.items()}
OUTCOME_OF = {letter: outcome for outcome, letter in OUTCOME_LETTERS.items()}
QUIETEST = 2.0  # seconds between two plans at least
_WORKFLOW_LINE = re.compile(r"^workflow:\s*[\"']?([^\s\"'#]+)", re.MULTILINE)
BREATH = 10  # and this many times what the last plan cost


class CurrentState:
    """One consistent state: all views that are made from it agree with each other. `at`: of a report of that run."""

    def __init__(
        self,
        project: Project,
        found: Planned,
        unfinished: Unfinished | None,
        at: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.project, self.found, self.unfinished, self.at, self.notes = project, found, unfinished, at, notes
        self.number = 0  # counts the plans of one server that differ
        self.histories: dict[str, list[HistoryEntry]] = {}
        self.ended_runs: dict[tuple[str, int], dict[str, Any]] = {}  # by run and size of its log: what was told of it
        self.failures: dict[str, Failures] = {}  # by run, as far as they were asked for
        self.position = _position(project, at)

    @property
    def graph(self) -> Graph:
        return self.found.snapshot.dependency_graph

    @property
    def version(self) -> str:
        """Changes with the log and with the plan."""
        return f"{self.position or 'r0000:0'}.{self.number}"

    @cached_property
    def known(self) -> PlanView:
        from whyrun.planning.answers.why import PlanView

        return PlanView(self.found.snapshot, self.found.plan)

    @cached_property
    def layers(self) -> Sequence[int]:
        from whyrun.graph.layers import compute_layers

        return compute_layers(self.graph)

    @cached_property
    def tables(self) -> dict[str, JobTable]:
        return {table.name: table for table in self.graph.tables}

    @cached_property
    def records(self) -> Records:
        """What the log says: in a report of an earlier run, as it was at the end of that run."""
        if self.at is None:
            return self.found.snapshot.records
        return self.project.history(through=int(self.at[1:])).records

    @cached_property
    def log(self) -> History:
        """The log that the plan was made from, read once."""
        return self.project.history(through=int(self.at[1:]) - 1 if self.at else None)

    def read_histories(self, artifacts: Sequence[str]) -> None:
        """For a report, which shows many: the log is read once for all of them."""
        from whyrun.facts.history import find_histories

        self.histories = find_histories(self.project, artifacts)

    def history_of(self, artifact: str) -> list[HistoryEntry]:
        """Every version of an artifact that the log has."""
        from whyrun.facts.history import find_history

        found = self.histories.get(artifact)
        return find_history(self.project, artifact) if found is None else found

    def record(self, node: int) -> StepRecord | None:
        if self.at is None:
            return self.found.snapshot.record(node)
        return self.records.steps.get(self.graph.job_id(node))

    def job(self, node: int) -> PlannedJob | None:
        """What the plan says of an instance; None: it is clean."""
        return self.known.jobs.get(node)

    @cached_property
    def states(self) -> str:
        """One letter a node: its state in the plan."""
        from whyrun.evidence.queries.current import job_states

        letters = bytearray(b"c") * self.graph.size
        for node, state in job_states(self.found.plan).items():
            letters[node] = ord(STATE_LETTERS[state])
        return letters.decode()

    @cached_property
    def outcomes(self) -> str:
        """One letter a node: how its last attempt ended."""
        letters = bytearray(b"s") * self.graph.size
        # Every instance that the snapshot does not suspect has succeeded.
        nodes: Iterator[int] = iter(self.found.snapshot.suspects) if self.at is None else iter(range(self.graph.size))
        for node in nodes:
            record = self.record(node)
            if record is None:
                letters[node] = ord("n")
            elif not record.latest.ok:
                letters[node] = ord("f")
        node_of = self.graph.node_of
        for step in self.running:
            if step in node_of:
                letters[node_of[step]] = ord("r")
        return letters.decode()

    @cached_property
    def running(self) -> list[str]:
        """The open steps of a run in progress."""
        return [] if self.at else sorted(self.found.snapshot.running_steps)

    def slice_of(self, letters: str, table: JobTable) -> str:
        return letters[table.base : table.base + len(table)]

    def command(self, *words: str, inputs: bool = True, json: bool = True) -> str:
        """The command line that gives the same answer, from the folder where the viewer was started."""
        import shlex

        line = shlex.join(["whyrun", *words]) + command_arguments(self.project, with_inputs=inputs)
        return f"{line} --json" if json else line

    def command_now(self, *words: str) -> str | None:
        """The same for commands that answer for the present only: None in a report of an earlier run."""
        return self.command(*words) if self.at is None else None


def _position(project: Project, at: str | None) -> str | None:
    """How far the log goes: `r0002:44`."""
    runs = project.state.runs()
    if at is not None:
        runs = [run for run in runs if run.name == at]
    return None if not runs else f"{runs[-1].name}:{last_seq(runs[-1].events_path)}"


def last_seq(path: Any) -> int:
    from whyrun.log.journal import last_event

    try:
        event = last_event(path)
    except FileNotFoundError:
        return 0
    return 0 if event is None else event.seq


class InvalidState:
    """Nothing can be planned: what is wrong with the workflow, its inputs or its log."""

    def __init__(self, project: Project, problems: Sequence[Diagnostic]) -> None:
        self.project, self.problems = project, problems
        self.number = 0
        self.ended_runs: dict[tuple[str, int], dict[str, Any]] = {}
        # The name is all that the history needs; it may be readable where the rest of the file is not.
        project.__dict__.setdefault("state", WorkflowState(project.state_dir, name_of(project)))

    @property
    def version(self) -> str:
        return f"invalid.{self.number}"


State = CurrentState | InvalidState


def name_of(project: Project) -> str:
    """The name of the workflow, also of an invalid file."""
    part = project.reading.part
    if part is not None:
        return part.name
    name = workflow_name(project.file)
    return name if name is not None else project.file.stem


def workflow_name(file: Path) -> str | None:
    """What a YAML file calls its workflow; None if it is none."""
    with file.open(encoding="utf-8", errors="replace") as text:
        name = _WORKFLOW_LINE.search(text.read(4096))
    return name.group(1) if name is not None else None


class StateSource:
    """Gives the current state to all requests, one computation at a time. Only `refresh` plans again."""

    def __init__(self, open_project: Callable[[], Project], *, title: str = "whyrun", at: str | None = None) -> None:
        self.open_project, self.title, self.at = open_project, title, at
        self._lock = threading.Lock()
        self._state: State | None = None
        self._cost = 0.0
        self._ended = 0.0

    def state(self) -> State:
        """The state as it was last looked at."""
        return self._state if self._state is not None else self.refresh()

    def refresh(self, *, now: bool = False) -> State:
        """The state now. It is planned again at most every two seconds, or ten times what the last plan took.

        While another request plans, this one gets the last state.
        """
        if not self._lock.acquire(blocking=now or self._state is None):
            assert self._state is not None, "only the first state is waited for"
            return self._state
        try:
            if self._state is None or now or time.monotonic() - self._ended >= max(QUIETEST, BREATH * self._cost):
                began = time.monotonic()
                self._state = self._after(self._state)
                self._ended = time.monotonic()
                self._cost = self._ended - began
            return self._state
        finally:
            self._lock.release()

    def _after(self, before: State | None) -> State:
        state = self._open()
        if before is None:
            return state
        state.number = before.number + (0 if _same(before, state) else 1)
        return before if before.version == state.version else state

    def _open(self) -> State:
        project = self.open_project()
        try:
            return load_state(project, self.at)
        except WhyrunError as wrong:
            return InvalidState(project, wrong.diagnostics)


def reopened(project: Project) -> Project:
    """The same workflow, to be read anew."""
    return type(project)(
        project.file, project.inputs_file, project.sets, project.state_override, project.given, project.manifest_file
    )


def load_state(project: Project, at: str | None = None) -> CurrentState:
    from whyrun.evidence.queries.history import unfinished_run
    from whyrun.facts.plans import planned
    from whyrun.planning.plan import PlanOptions

    notes: list[str] = []
    with project.cache.with_parallel_stat():  # check the input files while the workflow is parsed
        project.config, project.graph, project.actions  # noqa: B018  # report all problems together
        unfinished = None if at else unfinished_run(project.state)  # before the log is read: it may end in between
        found = planned(project, PlanOptions(), at=at, tell=notes.append)
    return CurrentState(project, found, unfinished, at, notes)


def _same(old: State, new: State) -> bool:
    if isinstance(old, InvalidState) or isinstance(new, InvalidState):
        return isinstance(old, InvalidState) and isinstance(new, InvalidState) and old.problems == new.problems
    # A run that is over, or was killed, may say so by its lock alone, after the last line of its log was read.
    return (
        old.found.plan.jobs == new.found.plan.jobs
        and old.graph.inputs == new.graph.inputs
        and old.unfinished == new.unfinished
        and old.running == new.running
    )
