"""One workflow, opened: its file parsed, its inputs observed, its graph expanded, its actions looked up.

Everything that can be wrong before a plan exists is found here, and reported together: `World.problems`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.actions.asking import Asker
from whyrun.actions.registry import ActionInfo
from whyrun.actions.seen_code import SeenCode
from whyrun.artifacts.sections import SharedFiles
from whyrun.artifacts.shelf_address import folder_of
from whyrun.artifacts.stat_cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.errors import Diagnostic, InvalidError, WhyrunError, error
from whyrun.graph.expand import expand
from whyrun.graph.graph import Graph
from whyrun.graph.known_part import known_part, without_jobs_at
from whyrun.graph.own_files import own_file_problems
from whyrun.graph.published import check_paths
from whyrun.log.runs import ACTIONS_CACHE, STAT_CACHE, STORE_LOCK, WorkflowState, project_dir_for, state_dir_for
from whyrun.log.settings import ProjectConfig, read_project_config, shared_store_for
from whyrun.snapshot.asked_outputs import ask_outputs, disowned_sites
from whyrun.snapshot.build import build_planning_snapshot
from whyrun.snapshot.caught import Pattern, caught_outputs, kept_in_patterns, outputs_in_kept, patterns_of
from whyrun.snapshot.connected import connect
from whyrun.snapshot.estimates import RuntimeEstimates
from whyrun.snapshot.history import History
from whyrun.snapshot.known_inputs import reader_of_snapshot
from whyrun.snapshot.linked import Kept, RealPaths, kept_in_input, links_of
from whyrun.snapshot.lookup import LookedUp, look_up_action
from whyrun.snapshot.observe import DiskObserver, InputObserver
from whyrun.snapshot.own_files import own_files
from whyrun.snapshot.snapshot import ActionFacts, PlanningSnapshot
from whyrun.snapshot.typed import Misfit, instance_misfits
from whyrun.workflow.inputs import InputValue, known_inputs
from whyrun.workflow.model import JobDecl, Workflow
from whyrun.workflow.parse import Reading, load_reading

if TYPE_CHECKING:
    from whyrun.connections.file import Connections

DEFAULT_FILE = "workflow.yaml"
ROUNDS = 20  # how often the rest of a wrong workflow is looked at again


@dataclass(eq=False)
class World:
    """A workflow file with its project, state and given inputs. Stages are computed once, when first needed."""

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
    ) -> World:
        path = Path(file if file is not None else DEFAULT_FILE)
        if not path.is_file():
            what = f"`{path}` is a folder" if path.is_dir() else f"there is no workflow file `{path}`"
            raise error("FILE_MISSING", what, hint="name the file, or make one with `whyrun init`")
        if manifest is not None and not _is_dataset_plan(path):
            hint = "the inputs of a workflow file are given with `--inputs` and `--set`"
            raise error("USAGE", f"`{path}` is no dataset plan, so it takes no inputs manifest", hint=hint)
        state_override = os.fspath(state) if state is not None else None
        inputs_file, manifest_file = (Path(name) if name is not None else None for name in (inputs, manifest))
        return cls(path, inputs_file, tuple(sets), state_override, given, manifest_file)

    @cached_property
    def project(self) -> Path:
        return project_dir_for(self.file)

    @cached_property
    def config(self) -> ProjectConfig:
        try:
            return read_project_config(self.project)
        except WhyrunError:
            raise InvalidError(self.problems) from None

    @cached_property
    def workflow(self) -> Workflow:
        """The file, whatever is given to it: who asks for no more than its name needs no inputs."""
        if self.reading.workflow is None:
            of_inputs = set(self._observed[1])
            raise InvalidError(problem for problem in self.problems if problem not in of_inputs)
        return self.reading.workflow

    @cached_property
    def reading(self) -> Reading:
        """The file and its imports, or the plan and its manifest, as far as they can be read."""
        if _is_dataset_plan(self.file):
            from whyrun.workflow.composition.load import load_plan

            return load_plan(self.file, self.manifest_file, self.project, shown=str(self.file))
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
        """The URL or folder where results are shared with others, if the project has one."""
        return shared_store_for(self.config, os.environ)

    @cached_property
    def _kept(self) -> list[Kept]:
        files = (STAT_CACHE, ACTIONS_CACHE, STORE_LOCK)
        found = [Kept(self.state_dir, "the state", "keep the state elsewhere: `--state DIR`", files)]
        try:
            shared = folder_of(self.shared_store, self.project) if self.shared_store is not None else None
        except RuntimeError:
            shared = None  # of nobody: who opens it is told
        if shared is not None:
            elsewhere = "choose another folder for `store` in `whyrun.toml`"
            found.append(Kept(shared, "the shared store", elsewhere, ()))
        return found

    @cached_property
    def cache(self) -> StatCache:
        return StatCache.load(self.state_dir / STAT_CACHE)  # of all workflows: it needs no name

    @cached_property
    def shared(self) -> SharedFiles:
        return SharedFiles(str(self.project), self.cache, str(self.state.index_dir / "sections"))

    @cached_property
    def inputs(self) -> dict[str, InputValue]:
        values, problems = self._observed
        if problems:
            raise InvalidError(self.problems)
        return values

    @cached_property
    def _eyes(self) -> InputObserver:
        return InputObserver(self.project, self.cache)

    @cached_property
    def _observed(self) -> tuple[dict[str, InputValue], list[Diagnostic]]:
        """The inputs that are there, and what is wrong with the others."""
        part = self.reading.part
        if part is None:
            return {}, []
        given, problems = known_inputs(part, self.inputs_file, self.sets, self.given)
        composed = part.composition is not None
        if composed:
            from whyrun.snapshot import datasets
        folder = (self.manifest_file or self.file).parent
        of_files = datasets.file_problems(part.composition, self.project, folder, given) if composed else {}
        there = {name: value for name, value in given.items() if name not in of_files}
        values, not_found = self._eyes.look(part, there)
        others = datasets.fingerprint_problems(part.composition, values) if composed else []
        return values, [*problems, *of_files.values(), *not_found, *others]

    @cached_property
    def graph(self) -> Graph:
        try:
            graph = expand(self.workflow, self.inputs)
            if misshapen := _composition_problems(graph):
                raise InvalidError(misshapen)
            return self.with_asked_outputs(graph)
        except WhyrunError as wrong:
            raise InvalidError(self.problems or wrong.diagnostics) from None

    def with_asked_outputs(self, graph: Graph) -> Graph:
        """The graph with its connections, and with what actions say of where they publish."""
        problems = self._connect(graph) or ask_outputs(graph, self._fitting(graph), self.asker, self.project)
        problems = problems or self._replaced_files(graph)
        if problems:
            raise InvalidError(problems)
        return graph

    def own_files(self, graph: Graph, paths: RealPaths) -> dict[str, str]:
        """Path → what it is: what this workflow is read from."""
        others = [self.inputs_file] if self.inputs_file is not None else []  # a manifest is one of the sources
        return own_files(self.file, graph.workflow, others, self.looked_up, self.project, paths)

    def patterns(self, graph: Graph, paths: RealPaths) -> list[Pattern]:
        """Those of inputs and of `code:`."""
        return patterns_of(graph, self._eyes.patterns, paths)

    def _replaced_files(self, graph: Graph) -> list[Diagnostic]:
        """Outputs on top of what the workflow is read from; through links, also of inputs and each other. Not a matter
        of `expand`: it knows no project folder."""
        paths = RealPaths(self.project)
        own = self.own_files(graph, paths)
        links = links_of(graph, paths)
        patterns = self.patterns(graph, paths)
        problems = [*kept_in_input(graph, paths, self._kept), *own_file_problems(graph, own, links)]
        if links:  # without them `expand` has looked already
            check_paths(graph, problems, links)
        return problems or [
            *outputs_in_kept(graph, self._kept, paths, links),
            *kept_in_patterns(patterns, self._kept, paths),
            *caught_outputs(graph, patterns, links),
        ]

    @cached_property
    def connections(self) -> Connections:
        """`connections.yaml`, read once: what is planned with is what runs."""
        from whyrun.connections.file import load_connections

        return load_connections(self.project)

    def _connect(self, graph: Graph) -> list[Diagnostic]:
        return connect(graph, self.infos, lambda: self.connections)

    @cached_property
    def asker(self) -> Asker:
        """Who answers about actions what only running code can tell."""
        return Asker(self.project, self.state_dir / ACTIONS_CACHE)

    @cached_property
    def looked_up(self) -> dict[str, LookedUp]:
        """By job that could be read: its action, or what is wrong with `uses:` and `with:`."""
        seen = SeenCode(self.project)
        jobs = sorted(self._jobs.items())
        return {name: look_up_action(decl, self.project, self.asker, seen) for name, decl in jobs}

    def declared_actions(self) -> dict[str, tuple[str, LookedUp]]:
        """By job, as far as the file could be read: what it uses, and what came of looking it up."""
        return {name: (self._jobs[name].uses, found) for name, found in self.looked_up.items()}

    @cached_property
    def actions(self) -> dict[str, ActionFacts]:
        """By job: what is known of its action; or everything that is wrong with `uses:` and `with:` at once."""
        self.workflow  # noqa: B018  # one that is wrong has no plan, so what is known of its actions helps nobody
        if any(found.problems for found in self.looked_up.values()):
            raise InvalidError(self.problems)  # all that is wrong, and in reading order
        return {name: found.facts for name, found in self.looked_up.items() if found.facts is not None}

    @cached_property
    def infos(self) -> dict[str, ActionInfo]:
        """By job: its action, where there is one of that name."""
        return {name: found.info for name, found in self.looked_up.items() if found.info is not None}

    def parameter_misfits(self, graph: Graph) -> list[Misfit]:
        """Values that are known with the graph, and types of what is bound, that do not fit typed parameters."""
        return list(instance_misfits(graph, self._askable(graph), self.asker, self._given_by))

    def parameter_problems(self, graph: Graph) -> list[Diagnostic]:
        return [misfit.diagnostic() for misfit in self.parameter_misfits(graph)]

    def _key_problems(self, graph: Graph) -> Sequence[Diagnostic]:
        """Key columns that the files do not have, and diagnostics that nobody computes."""
        if not any(decl.uses.startswith("data/") or "merge" in decl.places for decl in self._jobs.values()):
            return ()  # most workflows: nothing is imported for them
        from whyrun.snapshot.data_outputs import output_problems
        from whyrun.snapshot.headers import key_problems
        from whyrun.snapshot.leaves import leaf_problems

        return [*key_problems(graph, self.project), *leaf_problems(graph), *output_problems(graph)]

    def _given_by(self) -> dict[str, str]:
        """How the inputs came to their values, where they are not those of the workflow file."""
        part = self.reading.part
        values = known_inputs(part, self.inputs_file, ())[0] if part is not None else {}
        other = {name for name, value in values.items() if part is not None and value != part.inputs[name].default}
        return {
            **dict.fromkeys(other, f"given in `{self.inputs_file}`"),
            **dict.fromkeys(self.given or (), "given by the caller"),
            **{entry.partition("=")[0]: "given by `--set`" for entry in self.sets},
        }

    def _fitting(self, graph: Graph) -> dict[str, ActionInfo]:
        """The actions of jobs whose parameters fit: the others cannot be asked anything."""
        askable = self._askable(graph)
        if not any(info.hooks for info in askable.values()):
            return askable
        wrong = {misfit.table.name for misfit in self.parameter_misfits(graph)}
        return {name: i for name, i in askable.items() if name not in wrong and not self.looked_up[name].misfits}

    def _askable(self, graph: Graph) -> dict[str, ActionInfo]:
        """The actions of jobs that are whole: where an entry was left out, a parameter would seem to be missing."""
        return {
            table.name: self.infos[table.name]
            for table in graph.tables
            if table.name in self.infos
            and "with" not in table.decl.broken
            and table.decl.with_.keys() == self._jobs[table.name].with_.keys()
        }

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """Everything that is wrong before a plan can be made, in reading order.

        A mistake of one kind hides none of another: actions are looked up for every job that could be read, and what
        does not depend on something unreadable, missing or wrong is expanded without it.
        """
        found = list(self.reading.problems)
        try:
            read_project_config(self.project)
        except WhyrunError as wrong:
            found.extend(wrong.diagnostics)
        found.extend(self._observed[1])
        found.extend(self._graph_problems())
        seen = SeenCode(self.project)
        for flow in self.reading.files:
            for decl in flow.jobs.values():
                found.extend(look_up_action(decl, self.project, self.asker, seen).problems)
        if _is_dataset_plan(self.file):
            from whyrun.workflow.composition.wording import in_words_of_plans

            found = [in_words_of_plans(problem) for problem in found]
        files = list(dict.fromkeys(d.file for d in found))
        return tuple(sorted(dict.fromkeys(found), key=lambda d: (files.index(d.file), d.line or 0, d.column or 0)))

    def _graph_problems(self) -> Iterator[Diagnostic]:
        """What is wrong with loops, references and paths; and with values, as far as the graph can be had at all.

        What is at fault is set aside and the rest expanded again, so that a circle hides no second one.
        """
        values, _ = self._observed
        workflow = self.reading.part
        whole = self.reading.workflow is not None and not self._observed[1]
        for _ in range(ROUNDS if workflow is not None else 0):
            assert workflow is not None
            part, of_loops = known_part(workflow, values)
            yield from of_loops
            try:
                graph = expand(part, values)
                if whole:  # a part has another shape
                    yield from _composition_problems(graph)
                yield from self._key_problems(graph)
                yield from self._connect(graph)
                yield from self.parameter_problems(graph)
                yield from ask_outputs(graph, self._fitting(graph), self.asker, self.project)
                yield from self._replaced_files(graph)
                return
            except WhyrunError as wrong:
                yield from wrong.diagnostics
                whole = False
                workflow = without_jobs_at(workflow, wrong.diagnostics)

    @cached_property
    def _jobs(self) -> dict[str, JobDecl]:
        """By name in the graph, every job that could be read."""
        return dict(_declared_jobs(self.reading.part, "")) if self.reading.part is not None else {}

    def is_current(self, job: str) -> bool:
        """Does the code of a job's action still have the content that was planned with? Reads it again."""
        facts = look_up_action(self._jobs[job], self.project, self.asker).facts
        return facts is not None and facts.sha256 == self.actions[job].sha256

    def history(self, through: int | None = None) -> History:
        return History(self.state, self.store.read, through=through)

    def observer(self) -> DiskObserver:
        return DiskObserver(self.project, self.store, self.cache, self.shared)

    def snapshot(self, history: History | None = None) -> PlanningSnapshot:
        """The state of things now."""
        with self.cache.with_second_look():
            return self._snapshot(history)

    def _snapshot(self, history: History | None) -> PlanningSnapshot:
        self.graph  # noqa: B018  # before the log, which needs no more than the workflow and would say less
        log = history or self.history()
        memo = log.load_memo()
        before = dict(memo)
        if self.parameter_problems(self.graph) or self._key_problems(self.graph):
            raise InvalidError(self.problems)
        snapshot = build_planning_snapshot(self.graph, log, self.observer(), self.actions, memo, self.ask_about_files)
        if memo != before:
            log.save_memo(memo)
        reader = reader_of_snapshot(snapshot, self.project, self.store.path)
        snapshot.estimator = RuntimeEstimates(self.graph, reader, self.infos, self.asker)
        self.save_cache()
        return snapshot

    def ask_about_files(self, snapshot: PlanningSnapshot) -> dict[str, str]:
        """What actions say of published files in which they should find their part."""
        reader = reader_of_snapshot(snapshot, self.project, self.store.path)
        return disowned_sites(snapshot, self.infos, self.asker, reader)

    def save_cache(self) -> None:
        """Keep what was hashed. A cache that cannot be written costs time and nothing else."""
        if not self.state.state_dir.is_dir():
            return  # planning alone leaves nothing behind in a project that never ran
        try:
            self.cache.save()
            self.shared.save()
            self.asker.save()
        except OSError:
            return  # no right to write, a read-only or a full disk


def _is_dataset_plan(file: Path) -> bool:
    if file.suffix.lower() != ".json":
        return False  # nearly always, and then nothing of dataset plans is imported
    from whyrun.workflow.composition.load import is_dataset_plan

    return is_dataset_plan(file)


def _declared_jobs(workflow: Workflow, prefix: str) -> Iterator[tuple[str, JobDecl]]:
    """Every job by its name in the graph (`Intro/Script`), without expanding: `validate` works without inputs."""
    for name, decl in workflow.jobs.items():
        yield prefix + name, decl
    for name, imported in workflow.imports.items():
        yield from _declared_jobs(imported.workflow, f"{prefix}{name}/")


def _composition_problems(graph: Graph) -> Sequence[Diagnostic]:
    if not _composes(graph.workflow):
        return ()
    from whyrun.graph.composition import composition_problems

    return composition_problems(graph)


def _composes(workflow: Workflow) -> bool:
    return workflow.composition is not None or any(_composes(i.workflow) for i in workflow.imports.values())
