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

from whyrun.actions.fingerprint import action_fingerprint
from whyrun.actions.registry import NOT_LITERAL, check_parameters, resolve_action
from whyrun.artifacts.stat_cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.errors import Diagnostic, InvalidError, WhyrunError, error
from whyrun.graph.expand import expand
from whyrun.graph.graph import Graph
from whyrun.graph.template import expressions_in
from whyrun.log.runs import ProjectConfig, WorkflowState, project_dir_for, read_project_config, state_dir_for
from whyrun.snapshot.build import build_planning_snapshot
from whyrun.snapshot.history import History
from whyrun.snapshot.observe import DiskObserver, InputObserver
from whyrun.snapshot.snapshot import ActionFacts, PlanningSnapshot
from whyrun.workflow.inputs import InputValue, collect_inputs
from whyrun.workflow.model import JobDecl, Workflow
from whyrun.workflow.parse import load_workflow

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
        return load_workflow(self.file, shown=str(self.file))

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
        given = collect_inputs(self.workflow, self.inputs_file, self.sets, self.given)
        return InputObserver(self.project, self.cache).observe(self.workflow, given)

    @cached_property
    def graph(self) -> Graph:
        return expand(self.workflow, self.inputs)

    @cached_property
    def actions(self) -> dict[str, ActionFacts]:
        """By job: what is known of its action; or everything that is wrong with `uses:` and `with:` at once."""
        found: dict[str, ActionFacts] = {}
        problems: list[Diagnostic] = []
        for name, decl in sorted(_declared_jobs(self.workflow, ""), key=lambda job: job[0]):
            try:
                found[name] = self._action(decl)
            except WhyrunError as wrong:
                problems.extend(wrong.diagnostics)
        if problems:
            raise InvalidError(problems)
        return found

    def _action(self, decl: JobDecl) -> ActionFacts:
        place = decl.places.get("uses", decl.place)
        try:
            info = resolve_action(decl.uses, self.project)
        except WhyrunError as wrong:
            raise InvalidError(place.diagnostic(d.code, d.message, d.hint) for d in wrong.diagnostics) from None
        literals = {key: _literal(value) for key, value in decl.with_.items()}
        outputs = {name: output.type for name, output in decl.outputs.items()}
        problems = check_parameters(info, literals, outputs, self.project)
        if problems:
            raise InvalidError(
                decl.places.get(_place_key(p.entry), place).diagnostic(p.code, p.message, p.hint) for p in problems
            )
        try:
            sha256, facts = action_fingerprint(decl.uses, literals, self.project, decl.code)
        except WhyrunError as wrong:
            raise InvalidError(place.diagnostic(d.code, d.message, d.hint) for d in wrong.diagnostics) from None
        deterministic = info.deterministic if decl.deterministic is None else decl.deterministic
        return ActionFacts(decl.uses, sha256, deterministic, {**facts.get("source", {}), **facts.get("code", {})})

    def is_current(self, job: str) -> bool:
        """Does the code of a job's action still have the content that was planned with? Reads it again."""
        decl = dict(_declared_jobs(self.workflow, ""))[job]
        try:
            return self._action(decl).sha256 == self.actions[job].sha256
        except WhyrunError:
            return False  # it cannot even be read any more

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


def _literal(template: Any) -> Any:
    return NOT_LITERAL if any(True for _ in expressions_in(template)) else template


def _place_key(entry: str | None) -> str:
    if entry is None:
        return "uses"
    return entry if entry.startswith("outputs.") else f"with.{entry}"
