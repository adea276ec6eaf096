"""Whyrun from Python: `load`, `plan`, `explain`, `run`, `compare`, `validate`. The commands use the same functions.

import whyrun

flow = whyrun.load("then-now.yaml", inputs={"Topic": "theatre"})
flow.plan(up=1).headlines()     # {"Job:ThenImage[0]": "MISSING_OUTPUT", …}
print(flow.explain())
result = flow.run()             # result.exit_code, result.counts, result.run
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from whyrun.errors import Diagnostic, WhyrunError, check_type, error
from whyrun.facts.plans import open_project, planned
from whyrun.planning.answers.explain import render_explain
from whyrun.planning.plan import Plan, PlanOptions
from whyrun.project import DEFAULT_FILE, Project
from whyrun.snapshot.snapshot import PlanningSnapshot

if TYPE_CHECKING:
    from typing import Unpack

    from whyrun.console.logger import WorkflowLogger
    from whyrun.execution.adopt.keep import KeepResult
    from whyrun.execution.backends.registry import RunOptions
    from whyrun.execution.compare.compare import CompareResult
    from whyrun.execution.run.session import RunResult
    from whyrun.results import Artifact, Table

PathLike = str | os.PathLike[str]
Inputs = Mapping[str, Any] | str | os.PathLike[str] | None
Ids = str | Sequence[str]


class BackendKeywords(TypedDict, total=False):
    """Options of backends that may also be given as keywords, because scripts did so before `backend_options`.

    A new option needs no line here: it is given in `backend_options`.
    """

    dask_address: str | None


if TYPE_CHECKING:  # only annotations name these; a plan need not make them

    class PlanArguments(TypedDict, total=False):
        """The keywords of `LoadedWorkflow.plan` and `explain`."""

        up: int | None
        targets: Ids
        force: Ids
        assume: Ids
        at: str | None

    class ExecutionArguments(BackendKeywords, total=False):
        """The keywords that `run` and `compare` share."""

        jobs: int
        fail_fast: bool
        limits: Mapping[str, float] | None
        backend: str
        backend_options: Mapping[str, str] | None
        logger: WorkflowLogger | None

    class RunArguments(ExecutionArguments, total=False):
        """The keywords of `LoadedWorkflow.run`."""

        budget: str | None
        up: int | None
        targets: Ids
        force: Ids

    class CompareArguments(ExecutionArguments, total=False):
        """The keywords of `LoadedWorkflow.compare`."""

        against: str | None
        accept: bool


class LoadedWorkflow(msgspec.Struct, frozen=True):
    """A workflow file and its inputs. It has no state: each call reads the files and the log again."""

    file: PathLike
    inputs: Inputs = None
    state: PathLike | None = None
    manifest: PathLike | None = None

    def __post_init__(self) -> None:
        check_type("file", self.file, (str, os.PathLike), "a path")
        for name, path in (("state", self.state), ("manifest", self.manifest)):
            check_type(name, path, (str, os.PathLike, type(None)), "a path")
        words = "values by name, or the path of a YAML file"
        check_type("inputs", self.inputs, (Mapping, str, os.PathLike, type(None)), words)
        for name in self.inputs if isinstance(self.inputs, Mapping) else ():
            check_type("inputs", name, str, words)

    def project(self) -> Project:
        """Open the workflow: parse the file and observe the inputs."""
        if self.inputs is None or isinstance(self.inputs, Mapping):
            return open_project(self.file, given=self.inputs, state=self.state, manifest=self.manifest)
        return open_project(self.file, inputs=self.inputs, state=self.state, manifest=self.manifest)

    @property
    def name(self) -> str:
        return self.project().workflow.name

    def snapshot(self) -> PlanningSnapshot:
        return self.project().snapshot()

    def plan(
        self, *, up: int | None = None, targets: Ids = (), force: Ids = (), assume: Ids = (), at: str | None = None
    ) -> Plan:
        """What would run, with every reason.

        `assume=["Input:X=changed"]`: the plan if that input changed. `at="r0002"`: the plan of that run.
        """
        return planned(self.project(), plan_options(up, targets, force), assume=_as_tuple(assume, "assume"), at=at).plan

    def explain(
        self, *, up: int | None = None, targets: Ids = (), force: Ids = (), assume: Ids = (), at: str | None = None
    ) -> str:
        """What would run, with every reason, as text."""
        found = planned(self.project(), plan_options(up, targets, force), assume=_as_tuple(assume, "assume"), at=at)
        return render_explain(found.plan, estimate=found.estimate(), prices=found.prices())

    def run(
        self,
        *,
        up: int | None = None,
        targets: Ids = (),
        force: Ids = (),
        jobs: int = 0,
        fail_fast: bool = False,
        limits: Mapping[str, float] | None = None,
        budget: str | None = None,
        backend: str = "local",
        backend_options: Mapping[str, str] | None = None,
        logger: WorkflowLogger | None = None,
        **own: Unpack[BackendKeywords],
    ) -> RunResult:
        """Run the jobs of the plan. If a job fails, the result has `exit_code` 1; that is no exception.

        `jobs`: how many steps run at a time; 0: one per core. `budget`: what the run may spend at most, such as "5"
        (US dollars) or "5 EUR". `backend_options`: options of the backend itself, by
        name. `logger` reports progress, for example `WorkflowLogger()`. Without one the run is silent; in a notebook it
        shows a progress bar.
        """
        from whyrun.execution.run.session import run_workflow

        options = _run_options(jobs, fail_fast, limits, backend, backend_options, own, budget)
        reporter = _reporter(logger)
        try:
            return run_workflow(self.project(), plan_options(up, targets, force), options, reporter)
        finally:
            reporter.finish()

    def compare(
        self,
        ids: Ids = (),
        *,
        against: str | None = None,
        accept: bool = False,
        jobs: int = 0,
        fail_fast: bool = False,
        limits: Mapping[str, float] | None = None,
        backend: str = "local",
        backend_options: Mapping[str, str] | None = None,
        logger: WorkflowLogger | None = None,
        **own: Unpack[BackendKeywords],
    ) -> CompareResult:
        """Execute jobs again on their recorded inputs, and compare. If something differs, `exit_code` is 1.

        `ids`: jobs or artifacts; by default all jobs that have a result. `against="r0002"`: compare with the results
        after that run. `accept`: record the new results as the latest and publish them.
        """
        from whyrun.execution.compare.compare import CompareOptions, compare_workflow

        check_type("against", against, (str, type(None)), "the name of a run, such as 'r0002'")
        check_type("accept", accept, bool, "True or False")
        options = _run_options(jobs, fail_fast, limits, backend, backend_options, own)
        reporter = _reporter(logger)
        try:
            return compare_workflow(
                self.project(), CompareOptions(_as_tuple(ids, "ids"), against, accept), options, reporter
            )
        finally:
            reporter.finish()

    def keep(self, ids: Ids, *, because: str) -> KeepResult:
        """Let the present results of jobs stand after a harmless change, without executing them.

        `ids`: jobs, or patterns such as `"Job:Fit[*]"`. `because`: why the results still hold; the log records it.
        """
        from whyrun.console.logger import WorkflowLogger
        from whyrun.execution.adopt.keep import keep_results

        check_type("because", because, str, "a text that says why the results still hold")
        return keep_results(self.project(), _as_tuple(ids, "ids"), because, WorkflowLogger(quiet=True))

    def artifact(self, id: str) -> Artifact:
        """One artifact as it is now: `value`, `path`, `bytes`, `pandas()`, `polars()`."""
        from whyrun.results import find_artifact

        return find_artifact(self.project(), id)

    def table(self, *patterns: str) -> Table:
        """Values over loops: a row for each instance, a column for each value. `*` stands for any name or index."""
        from whyrun.results import find_table

        return find_table(self.project(), patterns)

    def _repr_html_(self) -> str:
        from whyrun.exports.graph_pictures import svg
        from whyrun.facts.graph import graph_facts
        from whyrun.notebook import workflow_html
        from whyrun.planning.answers.explain import headline

        project = self.project()
        found = planned(project, PlanOptions())
        workflow = project.workflow
        picture = svg(graph_facts(found.snapshot.dependency_graph, found.plan), workflow.name)
        return workflow_html(workflow.name, workflow.description, headline(found.plan), picture)

    def __repr__(self) -> str:
        return f"<whyrun workflow {os.fspath(self.file)!r}>"


def load(
    file: PathLike | None = None,
    *,
    inputs: Inputs = None,
    state: PathLike | None = None,
    manifest: PathLike | None = None,
) -> LoadedWorkflow:
    """Load and check a workflow file, by default `workflow.yaml`. `inputs`: values by name, or a YAML file.

    Paths in `inputs` are relative to the project folder. `state` is the folder of the runs, instead of `.whyrun`.
    A dataset plan (`plan.json`) needs the `manifest` of its datasets.
    """
    given = LoadedWorkflow(DEFAULT_FILE if file is None else file, inputs, state, manifest)
    # An absolute path stays valid when a notebook changes its working folder.
    if not (inputs is None or isinstance(inputs, Mapping)):
        inputs = os.path.abspath(inputs)
    state, manifest = (None if path is None else os.path.abspath(path) for path in (state, manifest))
    loaded = LoadedWorkflow(os.path.abspath(given.file), inputs, state, manifest)
    loaded.project().workflow  # noqa: B018  # an invalid file is an error here, not at the first use
    return loaded


def plan(
    file: PathLike | None = None,
    *,
    inputs: Inputs = None,
    state: PathLike | None = None,
    manifest: PathLike | None = None,
    **options: Unpack[PlanArguments],
) -> Plan:
    """`load` the file, then `LoadedWorkflow.plan`."""
    return load(file, inputs=inputs, state=state, manifest=manifest).plan(**options)


def explain(
    file: PathLike | None = None,
    *,
    inputs: Inputs = None,
    state: PathLike | None = None,
    manifest: PathLike | None = None,
    **options: Unpack[PlanArguments],
) -> str:
    """`load` the file, then `LoadedWorkflow.explain`."""
    return load(file, inputs=inputs, state=state, manifest=manifest).explain(**options)


def run(
    file: PathLike | None = None,
    *,
    inputs: Inputs = None,
    state: PathLike | None = None,
    manifest: PathLike | None = None,
    **options: Unpack[RunArguments],
) -> RunResult:
    """`load` the file, then `LoadedWorkflow.run`."""
    return load(file, inputs=inputs, state=state, manifest=manifest).run(**options)


def compare(
    file: PathLike | None = None,
    ids: Ids = (),
    *,
    inputs: Inputs = None,
    state: PathLike | None = None,
    manifest: PathLike | None = None,
    **options: Unpack[CompareArguments],
) -> CompareResult:
    """`load` the file, then `LoadedWorkflow.compare`."""
    return load(file, inputs=inputs, state=state, manifest=manifest).compare(ids, **options)


def validate(
    file: PathLike | None = None,
    *,
    inputs: Inputs = None,
    state: PathLike | None = None,
    manifest: PathLike | None = None,
) -> tuple[Diagnostic, ...]:
    """All problems of a workflow, its inputs and its actions; an empty tuple if there are none."""
    flow = LoadedWorkflow(DEFAULT_FILE if file is None else file, inputs, state, manifest)
    try:
        return flow.project().problems
    except WhyrunError as problem:  # for example, there is no such file
        return problem.diagnostics


# --- arguments --------------------------------------------------------------------------------------------------------


def plan_options(up: int | None = None, targets: Ids = (), force: Ids = ()) -> PlanOptions:
    check_type("up", up, (int, type(None)), "a whole number of layers")
    return PlanOptions(up, _as_tuple(targets, "targets"), _as_tuple(force, "force"))


def _as_tuple(texts: Ids, name: str) -> tuple[str, ...]:
    """One ID or several as a tuple. A string is one ID."""
    if not isinstance(texts, str):
        found = tuple(texts) if isinstance(texts, Iterable) else (texts,)
        for text in found:
            example = "'Input:X=changed'" if name == "assume" else "an ID such as 'Job:Name[1]'"
            check_type(name, text, str, f"{example}, or a list of them")
        return found
    return (texts,)


def _run_options(
    jobs: int,
    fail_fast: bool,
    limits: Mapping[str, float] | None,
    backend: str,
    options: Any,
    own: Mapping[str, Any],
    budget: str | None = None,
) -> RunOptions:
    """`own`: options of the backend that were given as keywords."""
    from whyrun.execution.backends.registry import RunOptions, check_options

    check_type("backend_options", options, (Mapping, type(None)), "texts by name, as the backend declares them")
    given = dict(options or {})
    for name, value in own.items():
        if name not in BackendKeywords.__annotations__:  # a slip such as `job=2`; `**` hides it from Python
            raise TypeError(f"got an unexpected keyword argument '{name}'")
        if value is not None and given.setdefault(name, value) != value:
            raise error("USAGE", f"`{name}` is given twice", hint="give it in `backend_options` only")
    run_options = RunOptions(jobs, fail_fast, limits, backend, given, budget)
    check_options(backend, given)
    return run_options


def _reporter(logger: WorkflowLogger | None) -> WorkflowLogger:
    from whyrun.console.logger import WorkflowLogger

    check_type("logger", logger, (WorkflowLogger, type(None)), "a WorkflowLogger")
    if logger is not None:
        return logger
    from whyrun.console.logger import notebook_logger

    return notebook_logger() or WorkflowLogger(terminal=False)
