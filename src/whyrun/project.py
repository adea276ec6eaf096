"""One opened workflow: its file parsed, its inputs observed, its graph expanded, its actions looked up.

All problems that can be found before a plan exists are found here and reported together: `Project.problems`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from whyrun.actions.code.code_cache import CodeCache
from whyrun.actions.description import ActionInfo
from whyrun.actions.inspection.inspector import Inspector
from whyrun.artifacts.publishing.sections import SharedFiles
from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.errors import Diagnostic, InvalidError, WhyrunError, error
from whyrun.graph.expand import expand
from whyrun.graph.paths import Pattern
from whyrun.graph.publishing.conflicts import ReservedFolder, path_problems, sections_without_file
from whyrun.graph.ragged import Recorded, nothing_recorded
from whyrun.graph.slots import declared_jobs
from whyrun.graph.tables import Graph
from whyrun.log.runs import ACTIONS_CACHE, STAT_CACHE, STORE_LOCK, WorkflowState, project_dir_for, state_dir_for
from whyrun.project_config import ProjectConfig, read_project_config, shared_store_for
from whyrun.snapshot.actions.connections import connect
from whyrun.snapshot.actions.known_inputs import reader_of_snapshot, with_estimates
from whyrun.snapshot.actions.lookup import LookedUp, look_up_action, look_up_actions, may_read_json_as_files
from whyrun.snapshot.build import build_planning_snapshot
from whyrun.snapshot.history.reader import History
from whyrun.snapshot.observing.disk import DiskObserver
from whyrun.snapshot.observing.observe import InputObserver
from whyrun.snapshot.observing.paths import RealPaths, own_files, path_conflicts, patterns_of, reserved_folder
from whyrun.snapshot.results import is_over_results, recorded_results
from whyrun.snapshot.snapshot import ActionFacts, Observer, PlanningSnapshot
from whyrun.workflow.inputs import InputValue, files_of, given_by, is_dataset_plan, known_inputs
from whyrun.workflow.model import JobDecl, Workflow
from whyrun.workflow.parsing.parse import Reading, load_reading, missing_file

if TYPE_CHECKING:
    from whyrun.connections.resolve import Connections
    from whyrun.snapshot.actions.parameter_checks import Misfit

DEFAULT_FILE = "workflow.yaml"
ROUNDS = 20  # how often the rest of an invalid workflow is expanded again to find more problems


class Project(msgspec.Struct, eq=False, dict=True):
    """A workflow file with its project, state and given inputs. Each stage is computed once, when first needed."""

    file: Path
    inputs_file: Path | None = None
    sets: tuple[str, ...] = ()
    state_override: str | None = None
    given: Mapping[str, Any] | None = None  # values from Python
    manifest_file: Path | None = None  # of a dataset plan

    @classmethod
    def open(
        cls,
        file: str | os.PathLike[str] | None = None,
        *,
        inputs: str | os.PathLike[str] | None = None,
        sets: Sequence[str] = (),
        state: str | os.PathLike[str] | None = None,
        given: Mapping[str, Any] | None = None,
        manifest: str | os.PathLike[str] | None = None,
    ) -> Project:
        path = Path(file if file is not None else DEFAULT_FILE)
        if not path.is_file():
            raise missing_file(path, DEFAULT_FILE)
        if manifest is not None and not is_dataset_plan(path):
            hint = "the inputs of a workflow file are given with `--inputs` and `--set`"
            raise error("USAGE", f"`{path}` is not a dataset plan, so it takes no inputs manifest", hint=hint)
        state_override = os.fspath(state) if state is not None else None
        inputs_file, manifest_file = (Path(name) if name is not None else None for name in (inputs, manifest))
        return cls(path, inputs_file, tuple(sets), state_override, given, manifest_file)

    @cached_property
    def folder(self) -> Path:
        return project_dir_for(self.file)

    @cached_property
    def config(self) -> ProjectConfig:
        config, problems = self._read_config
        if problems:
            raise InvalidError(self.problems)
        return config

    @cached_property
    def _read_config(self) -> tuple[ProjectConfig, Sequence[Diagnostic]]:
        """`whyrun.toml`, or the defaults and the problems with it."""
        try:
            return read_project_config(self.folder), ()
        except WhyrunError as wrong:
            return ProjectConfig(), wrong.diagnostics

    @cached_property
    def workflow(self) -> Workflow:
        """The parsed file. It needs no inputs: some commands use only its name."""
        if self.reading.workflow is None:
            of_inputs = {(problem.code, problem.message) for problem in self._observed[1]}
            raise InvalidError(problem for problem in self.problems if (problem.code, problem.message) not in of_inputs)
        return self.reading.workflow

    @cached_property
    def reading(self) -> Reading:
        """The file and its imports, or the dataset plan and its manifest, as far as they can be read."""
        if is_dataset_plan(self.file):
            from whyrun.workflow.composition.plan_file.dataset_plan import load_plan

            return load_plan(self.file, self.manifest_file, self.folder, shown=str(self.file))
        return load_reading(self.file, shown=str(self.file))

    @cached_property
    def state_dir(self) -> Path:
        return state_dir_for(self.file, self.state_override, os.environ)

    @cached_property
    def state(self) -> WorkflowState:
        return WorkflowState(self.state_dir, self.workflow.name)

    @cached_property
    def store(self) -> Store:
        return Store(self.state.store)

    @property
    def shared_store(self) -> str | None:
        """The URL or folder of the shared store, if the project has one."""
        return shared_store_for(self.config, os.environ)

    def _reserved_folders(self, paths: RealPaths) -> list[ReservedFolder]:
        files = (STAT_CACHE, ACTIONS_CACHE, STORE_LOCK)
        elsewhere = "keep the state elsewhere: `--state DIR`"
        reserved = [reserved_folder(self.state_dir, "the state", elsewhere, files, paths)]
        shared = None
        if (store := shared_store_for(self._read_config[0], os.environ)) is not None:
            from whyrun.artifacts.shared.storage import folder_of  # imported late: few projects share a store

            with suppress(RuntimeError):  # `~user` of an unknown user; whoever opens the store reports it
                shared = folder_of(store, self.folder)
        if shared is not None:
            elsewhere = "choose another folder for `store` in `whyrun.toml`"
            reserved.append(reserved_folder(shared, "the shared store", elsewhere, (), paths))
        return reserved

    @cached_property
    def cache(self) -> StatCache:
        return StatCache.load(self.state_dir / STAT_CACHE)  # one for all workflows of the project

    @cached_property
    def shared(self) -> SharedFiles:
        return SharedFiles(str(self.folder), self.cache, str(self.state.index_dir / "sections"))

    @cached_property
    def inputs(self) -> dict[str, InputValue]:
        values, problems = self._observed
        if problems:
            raise InvalidError(self.problems)
        return values

    @cached_property
    def _input_observer(self) -> InputObserver:
        return InputObserver(self.folder, self.cache)

    @cached_property
    def _observed(self) -> tuple[dict[str, InputValue], list[Diagnostic]]:
        """The observed inputs, and the problems of the others."""
        part = self.reading.part
        if part is None:
            return {}, []
        given, problems = known_inputs(part, self.inputs_file, self.sets, self.given)
        if part.composition is None:
            values, missing = self._input_observer.look(part, given)
            return values, [*problems, *missing]
        from whyrun.snapshot.composition import dataset_file_problems, dataset_fingerprint_problems

        folder = (self.manifest_file or self.file).parent
        of_files = dataset_file_problems(part.composition, self.folder, folder, given)
        present = {name: value for name, value in given.items() if name not in of_files}
        values, missing = self._input_observer.look(part, present)
        of_fingerprints = dataset_fingerprint_problems(part.composition, values)
        return values, [*problems, *of_files.values(), *missing, *of_fingerprints]

    @cached_property
    def graph(self) -> Graph:
        """That of the latest snapshot. Before the first one, no loop over a result is known."""
        return self._graph_with(nothing_recorded)

    def _graph_with(self, recorded: Recorded) -> Graph:
        try:
            graph = self.expand(self.workflow, self.inputs, recorded)
            if shape_problems := _composition_problems(graph):
                raise InvalidError(shape_problems)
            return self.with_asked_outputs(graph)
        except WhyrunError as wrong:
            raise InvalidError(self.problems or wrong.diagnostics) from None

    def expand(
        self, workflow: Workflow, inputs: Mapping[str, InputValue], recorded: Recorded = nothing_recorded
    ) -> Graph:
        """The graph with these inputs, or InvalidError with its problems and those of its output paths together."""
        return expand(workflow, inputs, path_problems, recorded=recorded)

    def with_asked_outputs(self, graph: Graph) -> Graph:
        """The graph with its connections, and with the paths that output hooks of actions return."""
        graph, problems = self._connect(graph)
        if not problems:
            graph, problems = self._ask_outputs(graph)
        problems = problems or self._path_conflicts(graph)
        if problems:
            raise InvalidError(problems)
        return graph

    def own_files(self, graph: Graph, paths: RealPaths) -> dict[str, str]:
        """The files that this workflow is read from: path → what it is, for messages."""
        others = [self.inputs_file] if self.inputs_file is not None else []  # a manifest is a source already
        return own_files(self.file, graph.workflow, others, self.looked_up, self.folder, paths)

    def patterns(self, graph: Graph, paths: RealPaths) -> list[Pattern]:
        """The patterns of inputs and of `code:`."""
        return patterns_of(graph, self._input_observer.patterns, paths)

    def _path_conflicts(self, graph: Graph) -> list[Diagnostic]:
        """Conflicts of output paths that show only on disk; `expand` has checked the others."""
        paths = RealPaths(self.folder)
        own, patterns = self.own_files(graph, paths), self.patterns(graph, paths)
        return path_conflicts(graph, own, patterns, self._reserved_folders(paths), paths)

    @cached_property
    def connections(self) -> Connections:
        """`connections.yaml`, read once, so that a run uses what was planned."""
        from whyrun.connections.resolve import load_connections

        return load_connections(self.folder)

    def _connect(self, graph: Graph) -> tuple[Graph, list[Diagnostic]]:
        return connect(graph, self.infos, lambda: self.connections)

    @cached_property
    def inspector(self) -> Inspector:
        """Runs code of actions to answer questions about them."""
        return Inspector(self.folder, self.state_dir / ACTIONS_CACHE)

    @cached_property
    def looked_up(self) -> dict[str, LookedUp]:
        """By job that could be parsed: its action, or the problems of its `uses:` and `with:`."""
        return look_up_actions(self._jobs, self.folder, self.inspector, self.state_dir)

    def declared_actions(self) -> dict[str, tuple[str, LookedUp]]:
        """By job that could be parsed: its `uses:`, and the result of looking it up."""
        return {name: (self._jobs[name].uses, found) for name, found in self.looked_up.items()}

    @cached_property
    def actions(self) -> dict[str, ActionFacts]:
        """By job: the facts of its action; or InvalidError with all problems."""
        self.workflow  # noqa: B018  # raises if the file is invalid
        if any(found.problems for found in self.looked_up.values()):
            raise InvalidError(self.problems)  # all problems, not only those of actions
        return {name: found.facts for name, found in self.looked_up.items() if found.facts is not None}

    @cached_property
    def infos(self) -> dict[str, ActionInfo]:
        """By job: its action, if there is one of that name."""
        return {name: found.info for name, found in self.looked_up.items() if found.info is not None}

    def parameter_misfits(self, graph: Graph) -> list[Misfit]:
        """Known values, and types of bindings, that do not fit typed parameters."""
        askable = self._askable(graph)
        if not any(info.typed for info in askable.values()) and not may_read_json_as_files(self._jobs):
            return []  # most workflows: nothing is imported
        from whyrun.snapshot.actions.parameter_checks import instance_misfits

        return list(instance_misfits(graph, askable, self.inspector, self._given_by))

    def parameter_problems(self, graph: Graph) -> list[Diagnostic]:
        return [misfit.diagnostic() for misfit in self.parameter_misfits(graph)]

    def _data_job_problems(self, graph: Graph) -> Sequence[Diagnostic]:
        """Problems of `data/` jobs: missing key columns, unknown diagnostics, wrong outputs."""
        if not any(decl.uses.startswith("data/") or "merge" in decl.places for decl in self._jobs.values()):
            return ()  # most workflows: nothing is imported
        from whyrun.snapshot.composition import data_job_problems

        return data_job_problems(graph, self.folder)

    def _given_by(self) -> dict[str, str]:
        return given_by(self.reading.part, self.inputs_file, self.sets, self.given or ())

    def _ask_outputs(self, graph: Graph) -> tuple[Graph, list[Diagnostic]]:
        """The graph with the paths that output hooks return. Only hooks of jobs whose parameters fit can be called."""
        askable = self._askable(graph)
        if not any(info.hooks for info in askable.values()):
            return graph, sections_without_file(graph, askable)  # most workflows: nothing is imported
        from whyrun.snapshot.actions.output_hooks import ask_outputs

        wrong = {misfit.table.name for misfit in self.parameter_misfits(graph)}
        fitting = {name: i for name, i in askable.items() if name not in wrong and not self.looked_up[name].misfits}
        return ask_outputs(graph, fitting, self.inspector, self.folder)

    def _askable(self, graph: Graph) -> dict[str, ActionInfo]:
        """The actions of complete jobs: where an entry was left out, a parameter would seem to be missing."""
        return {
            table.name: self.infos[table.name]
            for table in graph.tables
            if table.name in self.infos
            and "with" not in table.decl.broken
            and table.decl.with_.keys() == self._jobs[table.name].with_.keys()
        }

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """All problems that prevent a plan, in the order of the files.

        A problem of one kind hides none of another: the action of every parsed job is looked up, and everything that
        does not depend on an invalid part is expanded without that part.
        """
        found = list(self.reading.problems)
        found += [*self._read_config[1], *self._observed[1]]
        found.extend(self._graph_problems())
        code_cache = CodeCache(self.folder, self.state_dir)
        for flow in self.reading.files:
            for decl in flow.jobs.values():
                found.extend(look_up_action(decl, self.folder, self.inspector, code_cache).problems)
        computed = {name: decl for name, decl in self._jobs.items() if decl.uses_by is not None}
        for lookup in look_up_actions(computed, self.folder, self.inspector, self.state_dir).values():
            found.extend(lookup.problems)
        files = list(dict.fromkeys(d.file for d in found))
        found = sorted(dict.fromkeys(found), key=lambda d: (files.index(d.file), d.line or 0, d.column or 0))
        if not found or not is_dataset_plan(self.file):
            return tuple(found)
        from whyrun.workflow.composition.plan_file.pointers import with_pointers  # imported late: only for mistakes

        return tuple(with_pointers(found, (self.file, self.manifest_file)))

    def _graph_problems(self) -> Iterator[Diagnostic]:
        """Problems of loops, references and paths; and of values, as far as there is a graph.

        Jobs with problems are left out and the rest is expanded again, so that one cycle does not hide another.
        """
        from whyrun.graph.problems.partial import known_part, without_jobs_at  # imported late: only for mistakes

        values, _ = self._observed
        workflow = self.reading.part
        whole = self.reading.workflow is not None and not self._observed[1]
        for _ in range(ROUNDS if workflow is not None else 0):
            assert workflow is not None
            part, of_loops = known_part(workflow, values)
            yield from of_loops
            try:
                graph = self.expand(part, values)
                if whole:  # a part of the workflow has another shape
                    yield from _composition_problems(graph)
                yield from self._data_job_problems(graph)
                graph, of_connections = self._connect(graph)
                yield from of_connections
                yield from self.parameter_problems(graph)
                graph, of_hooks = self._ask_outputs(graph)
                yield from of_hooks
                yield from self._path_conflicts(graph)
                return
            except WhyrunError as wrong:
                yield from wrong.diagnostics
                whole = False
                workflow = without_jobs_at(workflow, wrong.diagnostics)

    @cached_property
    def _jobs(self) -> dict[str, JobDecl]:
        """Every job that could be parsed, by its name in the graph."""
        part = self.reading.part
        return dict(declared_jobs(part, self._observed[0], [])) if part is not None else {}

    def is_current(self, job: str) -> bool:
        """Is the code of a job's action still the planned one? Reads it again."""
        code = CodeCache(self.folder, self.state_dir)
        now = look_up_action(self._jobs[job], self.folder, self.inspector, code).facts
        return now is not None and now.sha256 == self.actions[job].sha256

    def history(self, through: int | None = None) -> History:
        return History(self.state, self.store.read, through=through)

    def observer(self) -> DiskObserver:
        return DiskObserver(self.folder, self.store, self.cache, self.shared, self._read_config[0].counts_packages)

    def snapshot(
        self, history: History | None = None, force: Sequence[str] = (), observer: Observer | None = None
    ) -> PlanningSnapshot:
        """The current state. A loop over a result that `--force` makes anew is not known."""
        with self.cache.with_parallel_stat():
            self.graph  # noqa: B018  # before the log: problems of the graph are reported first
            log, look = history or self.history(), observer or self.observer()
            if not is_over_results(self.workflow):
                return self._snapshot_of(log, look)
            from whyrun.planning.settling import settled  # imported late: few workflows have such loops

            return settled(lambda known: self._snapshot_of(log, look, recorded_results(log, known)), force)

    def settled_graph(self) -> Graph:
        """The graph that IDs of commands mean: with the instances of those loops over results that are known now."""
        return self.snapshot().dependency_graph if is_over_results(self.workflow) else self.graph

    def _snapshot_of(self, log: History, look: Observer, recorded: Recorded | None = None) -> PlanningSnapshot:
        if recorded is not None:
            self.__dict__["graph"] = self._graph_with(recorded)
        memo = log.load_memo()
        before = dict(memo)
        if self.parameter_problems(self.graph) or self._data_job_problems(self.graph):
            raise InvalidError(self.problems)
        snapshot = build_planning_snapshot(self.graph, log, look, self.actions, memo, self.ask_about_files, log.running)
        if memo != before:
            log.save_memo(memo)
        self.save_cache()
        return with_estimates(snapshot, self.folder, self.store.path, self.infos, self.inspector)

    def ask_about_files(self, snapshot: PlanningSnapshot) -> dict[str, str]:
        """Published files in which an action does not find its part: site → "disowned"."""
        if not any(info.hooks for info in self.infos.values()):
            return {}
        from whyrun.snapshot.actions.output_hooks import disowned_sites

        reader = reader_of_snapshot(snapshot, self.folder, self.store.path)
        return disowned_sites(snapshot, self.infos, self.inspector, reader)

    def save_cache(self) -> None:
        """Save the caches. If they cannot be written, the next command is only slower."""
        if not self.state.state_dir.is_dir():
            return  # planning writes nothing into a project without runs
        try:
            self.cache.save()
            self.shared.save()
            self.inspector.save()
        except OSError:
            return  # no permission, or a read-only or full disk


def _composition_problems(graph: Graph) -> Sequence[Diagnostic]:
    if all(flow.composition is None for flow in files_of(graph.workflow)):
        return ()
    from whyrun.graph.problems.composition import composition_problems

    return composition_problems(graph)
