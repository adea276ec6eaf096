"""One workflow, opened: its file parsed, its inputs observed, its graph expanded, its actions looked up.

Everything that can be wrong before a plan exists is found here, and reported together as far as one stage allows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from whyrun.artifacts.stat_cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.errors import Diagnostic, InvalidError, WhyrunError, error
from whyrun.graph.expand import expand
from whyrun.graph.graph import Graph
from whyrun.graph.known_part import known_part
from whyrun.log.runs import ProjectConfig, WorkflowState, project_dir_for, read_project_config, state_dir_for
from whyrun.snapshot.build import build_planning_snapshot
from whyrun.snapshot.history import History
from whyrun.snapshot.lookup import look_up_action
from whyrun.snapshot.observe import DiskObserver, InputObserver
from whyrun.snapshot.snapshot import ActionFacts, PlanningSnapshot
from whyrun.workflow.inputs import InputValue, known_inputs
from whyrun.workflow.model import JobDecl, Workflow
from whyrun.workflow.parse import Reading, load_reading

DEFAULT_FILE = "workflow.yaml"


@dataclass(eq=False)
class World:
    """A workflow file with its project, state and given inputs. Stages are computed once, when first needed."""

    file: Path
    inputs_file: Path | None = None
    sets: tuple[str, ...] = ()
    state_override: str | None = None
    given: Mapping[str, Any] | None = None  # values from Python

    @classmethod
    def open(
        cls,
        file: str | os.PathLike[str] | None = None,
        *,
        inputs: str | os.PathLike[str] | None = None,
        sets: Sequence[str] = (),
        state: str | os.PathLike[str] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> World:
        path = Path(file if file is not None else DEFAULT_FILE)
        if not path.is_file():
            what = f"`{path}` is a folder" if path.is_dir() else f"there is no workflow file `{path}`"
            raise error("FILE_MISSING", what, hint="name the file, or make one with `whyrun init`")
        state_override = os.fspath(state) if state is not None else None
        return cls(path, Path(inputs) if inputs is not None else None, tuple(sets), state_override, given)

    @cached_property
    def project(self) -> Path:
        return project_dir_for(self.file)

    @cached_property
    def config(self) -> ProjectConfig:
        return read_project_config(self.project)

    @cached_property
    def workflow(self) -> Workflow:
        if self.reading.workflow is None:
            raise InvalidError(self.problems)
        return self.reading.workflow

    @cached_property
    def reading(self) -> Reading:
        """The file and its imports, as far as they can be read."""
        return load_reading(self.file, shown=str(self.file))

    @cached_property
    def state(self) -> WorkflowState:
        return WorkflowState(state_dir_for(self.file, self.state_override, os.environ), self.workflow.name)

    @cached_property
    def store(self) -> Store:
        return Store(self.state.store)

    @cached_property
    def cache(self) -> StatCache:
        return StatCache.load(self.state.stat_cache)

    @cached_property
    def inputs(self) -> dict[str, InputValue]:
        values, problems = self._observed
        if problems:
            raise InvalidError(problems)
        return values

    @cached_property
    def _observed(self) -> tuple[dict[str, InputValue], list[Diagnostic]]:
        """The inputs that are there, and what is wrong with the others."""
        given, problems = known_inputs(self.workflow, self.inputs_file, self.sets, self.given)
        values, not_found = InputObserver(self.project, self.cache).look(self.workflow, given)
        return values, [*problems, *not_found]

    @cached_property
    def graph(self) -> Graph:
        try:
            return expand(self.workflow, self.inputs)
        except WhyrunError as wrong:
            raise InvalidError(self.problems or wrong.diagnostics) from None

    @cached_property
    def actions(self) -> dict[str, ActionFacts]:
        """By job: what is known of its action; or everything that is wrong with `uses:` and `with:` at once."""
        found: dict[str, ActionFacts] = {}
        problems: list[Diagnostic] = []
        for name, decl in sorted(_declared_jobs(self.workflow, ""), key=lambda job: job[0]):
            looked_up = look_up_action(decl, self.project)
            problems.extend(looked_up.problems)
            if looked_up.facts is not None:
                found[name] = looked_up.facts
        if problems:
            raise InvalidError(dict.fromkeys(problems))  # an import used twice would say everything twice
        return found

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """Everything that is wrong before a plan can be made, in reading order.

        A mistake of one kind hides none of another: actions are looked up for every job that could be read, and what
        does not depend on a missing input is expanded without it.
        """
        found = list(self.reading.problems)
        try:
            self.config  # noqa: B018
        except WhyrunError as wrong:
            found.extend(wrong.diagnostics)
        if self.reading.workflow is not None:
            values, of_inputs = self._observed
            found.extend(of_inputs)
            try:
                expand(known_part(self.workflow, values), values)
            except WhyrunError as wrong:
                found.extend(wrong.diagnostics)
        for flow in self.reading.files:
            for decl in flow.jobs.values():
                found.extend(look_up_action(decl, self.project).problems)
        files = list(dict.fromkeys(d.file for d in found))
        return tuple(sorted(dict.fromkeys(found), key=lambda d: (files.index(d.file), d.line or 0, d.column or 0)))

    def is_current(self, job: str) -> bool:
        """Does the code of a job's action still have the content that was planned with? Reads it again."""
        facts = look_up_action(dict(_declared_jobs(self.workflow, ""))[job], self.project).facts
        return facts is not None and facts.sha256 == self.actions[job].sha256

    def history(self, through: int | None = None) -> History:
        return History(self.state, self.store.read, through=through)

    def observer(self) -> DiskObserver:
        return DiskObserver(self.project, self.store, self.cache)

    def snapshot(self, history: History | None = None) -> PlanningSnapshot:
        """The state of things now."""
        log = history or self.history()
        memo = log.load_memo()
        before = dict(memo)
        snapshot = build_planning_snapshot(self.graph, log, self.observer(), self.actions, memo)
        if memo != before:
            log.save_memo(memo)
        self.save_cache()
        return snapshot

    def save_cache(self) -> None:
        """Keep what was hashed. A cache that cannot be written costs time and nothing else."""
        if not self.state.state_dir.is_dir():
            return  # planning alone leaves nothing behind in a project that never ran
        try:
            self.cache.save()
        except OSError:
            return  # no right to write, a read-only or a full disk


def _declared_jobs(workflow: Workflow, prefix: str) -> Iterator[tuple[str, JobDecl]]:
    """Every job by its name in the graph (`Intro/Script`), without expanding: `validate` works without inputs."""
    for name, decl in workflow.jobs.items():
        yield prefix + name, decl
    for name, imported in workflow.imports.items():
        yield from _declared_jobs(imported.workflow, f"{prefix}{name}/")
