"""Options that several commands share: the project, the plan, how steps execute, and what is printed.

Each decorator adds its options to a command, collects their values and passes them on as one argument.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from whyrun.console.logger import WorkflowLogger
    from whyrun.execution.backends.registry import RunOptions
    from whyrun.project import Project
    from whyrun.snapshot.actions.parameter_checks import Misfit
    from whyrun.snapshot.observing.paths import RealPaths

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]

LOG_LEVELS = ("none", "progress", "summary", "all", "debug")


def _decorate(function: Any, options: list[Decorator]) -> Any:
    """Apply decorators so that `--help` lists the options in the order of the list."""
    for option in reversed(options):
        function = option(function)
    return function


# --- the project -------------------------------------------------------------------------------------------------

FILE_ARGUMENT = click.argument("file", required=False, type=click.Path())
STATE_OPTION = click.option("--state", metavar="DIR", help="The state folder, instead of .whyrun.")
_INPUT_OPTIONS: list[Decorator] = [
    click.option("--manifest", metavar="FILE.json", help="The inputs manifest of a dataset plan."),
    click.option("--inputs", metavar="FILE.yaml", help="Read input values from this file."),
    click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Set one input. Repeatable."),
    STATE_OPTION,
]


def project_options(function: Function) -> Function:
    """FILE, --manifest, --inputs, --set, --state. The command gets `project`, an opened Project."""

    @wraps(function)
    def with_project(
        file: str | None,
        manifest: str | None,
        inputs: str | None,
        sets: tuple[str, ...],
        state: str | None,
        **rest: Any,
    ) -> Any:
        from whyrun.facts.plans import open_project

        project = open_project(file, inputs=inputs, sets=sets, state=state, manifest=manifest)
        return function(project=project, **rest)

    decorated: Function = project_arguments(with_project)
    return decorated


def project_arguments(function: Any) -> Any:
    """The options of `project_options` as they are, for a command that opens the project itself."""
    return _decorate(function, [FILE_ARGUMENT, *_INPUT_OPTIONS])


def names_and_project(is_name: Callable[[str], bool], metavar: str) -> Callable[[Function], Function]:
    """For commands with optional names before or after an optional FILE: `status [ID]... [FILE]`, `log [RUN] [FILE]`.

    The command gets `names` and `project`. An argument that `is_name` rejects is the file; there is at most one.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def with_project(
            names: tuple[str, ...],
            manifest: str | None,
            inputs: str | None,
            sets: tuple[str, ...],
            state: str | None,
            **rest: Any,
        ) -> Any:
            from whyrun.errors import error
            from whyrun.facts.plans import open_project

            own = [word for word in names if is_name(word) or _is_short_run_name(word, is_name)]
            files = [word for word in names if word not in own]
            if len(files) > 1:
                raise error("USAGE", f"`{files[1]}` is one argument too many", hint=f"the arguments are {metavar}")
            file = files[0] if files else None
            if file is not None and not os.path.exists(file):
                _check_no_name(file, is_name)
            project = open_project(file, inputs=inputs, sets=sets, state=state, manifest=manifest)
            return function(project=project, names=tuple(own), **rest)

        decorated: Function = _decorate(
            with_project, [click.argument("names", nargs=-1, metavar=metavar), *_INPUT_OPTIONS]
        )
        return decorated

    return decorate


def _check_no_name(word: str, is_name: Callable[[str], bool]) -> None:
    """Refuse `Fit` for a command that takes IDs, where there is no such file, but a job of that name."""
    import shlex

    from whyrun.errors import error
    from whyrun.project import DEFAULT_FILE
    from whyrun.workflow.parsing.parse import id_at

    id_ = id_at(Path(word), Path(DEFAULT_FILE))
    if id_ is not None and is_name(id_):
        raise error("USAGE", f"`{word}` is neither a file nor an ID", hint=f"write `{shlex.quote(id_)}`")


def _is_short_run_name(word: str, is_name: Callable[[str], bool]) -> bool:
    """Whether the word is `r2` instead of `r0002`. Treat it as a run: the error then names the right one."""
    from whyrun.log.runs import run_in_short

    run = run_in_short(word)
    return run is not None and is_name(run) and not os.path.exists(word)


# --- the plan ----------------------------------------------------------------------------------------------------


def plan_options(function: Function) -> Function:
    """--up, --target, --force. The command gets `options`, a PlanOptions."""

    @wraps(function)
    def collect(up: int | None, targets: tuple[str, ...], force: tuple[str, ...], **rest: Any) -> Any:
        from whyrun.planning.plan import PlanOptions

        return function(options=PlanOptions(up, targets, force), **rest)

    decorated: Function = _decorate(
        collect,
        [
            click.option("--up", type=int, metavar="N", help="Only the first N layers that have a job to run."),
            click.option(
                "--target", "targets", multiple=True, metavar="ID", help="Only this and what it depends on. Repeatable."
            ),
            click.option(
                "--force", multiple=True, metavar="ID|layer:N|all", help="Run it even if it is up to date. Repeatable."
            ),
        ],
    )
    return decorated


# --- a span of time ----------------------------------------------------------------------------------------------


class TimeSpan(NamedTuple):
    """Times as the log writes them, in UTC: texts that sort by time."""

    since: str = ""
    until: str = "~"  # after every digit


def time_options(function: Function) -> Function:
    """--since, --until. The command gets `span`, a TimeSpan."""

    @wraps(function)
    def collect(since: str | None, until: str | None, **rest: Any) -> Any:
        first = "" if since is None else parse_time("--since", since)
        last = "~" if until is None else parse_time("--until", until)
        if first > last:
            from whyrun.errors import error

            raise error("USAGE", f"`--since {since}` is later than `--until {until}`", hint="swap the two")
        return function(span=TimeSpan(first, last), **rest)

    hint = "a date or time (in your time zone if it names none), or so long ago: 90m, 12h, 7d"
    decorated: Function = _decorate(
        collect,
        [
            click.option("--since", metavar="TIME", help=f"Only from then on: {hint}."),
            click.option("--until", metavar="TIME", help="Only until then."),
        ],
    )
    return decorated


def parse_time(option: str, text: str) -> str:
    """`2026-11-20`, `2026-11-20 08:30`, `2026-11-20T08:30:00Z`, `12h` → as the log writes times."""
    import re
    from datetime import datetime, timedelta

    from whyrun.errors import error
    from whyrun.log.journal import timestamp, utc_now

    ago = re.fullmatch(r"([0-9]{1,6})([smhdw])", text.strip())
    try:
        if ago is not None:
            units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
            return timestamp(utc_now() - timedelta(**{units[ago[2]]: int(ago[1])}))
        return timestamp(datetime.fromisoformat(text.strip()).astimezone())
    except (ValueError, OverflowError):
        hint = "write `2026-11-20`, `2026-11-20T08:30`, or `12h` for twelve hours ago"
        raise error("USAGE", f"`{option} {text}` is not a time", hint=hint) from None


# --- execution ---------------------------------------------------------------------------------------------------


def execution_options(function: Function) -> Function:
    """--jobs, --backend and the backends' own options, --fail-fast, --limit. The command gets a RunOptions."""
    from whyrun.execution.backends.registry import BACKENDS, DEFAULT, all_options, check_options

    of_backends = all_options()

    @wraps(function)
    def collect(jobs: int, backend: str, fail_fast: bool, limits: tuple[str, ...], **rest: Any) -> Any:
        from whyrun.execution.backends.registry import RunOptions

        given = {option.name: rest.pop(option.name) for option in of_backends}
        backend_options = {name: value for name, value in given.items() if value is not None}
        check_options(backend, backend_options)  # here, so that a dry run refuses what the run would refuse
        run_options = RunOptions(
            jobs=jobs,
            fail_fast=fail_fast,
            limits=parse_limits(limits),
            backend=backend,
            backend_options=backend_options,
        )
        return function(run_options=run_options, **rest)

    decorated: Function = _decorate(
        collect,
        [
            click.option(
                "--jobs", "-j", type=click.IntRange(min=0), default=0, metavar="N",
                help="How many steps run at a time; 0: one per core.",
            ),
            click.option(
                "--backend", type=BackendChoice(list(BACKENDS)), default=DEFAULT, help="Where steps execute.",
                show_default=True,
            ),
            *(click.option(option.flag, option.name, metavar=option.metavar, help=option.help)
              for option in of_backends),
            click.option("--fail-fast", is_flag=True, help="Stop everything at the first failure."),
            click.option(
                "--limit", "limits", multiple=True, metavar="NAME=N",
                help="How much of a resource is available. Repeatable.",
            ),
        ],
    )  # fmt: skip
    return decorated


class BackendChoice(click.Choice[str]):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            from whyrun.cli.foreign_words import backend_hint
            from whyrun.errors import did_you_mean, error

            hint = backend_hint(str(value)) or did_you_mean(str(value), list(self.choices))
            raise error("USAGE", f"there is no backend `{value}`", hint=hint)
        return super().convert(value, param, ctx)


def backend_arguments(options: RunOptions) -> list[str]:
    """The words of a command line that chooses this backend."""
    from whyrun.execution.backends.registry import DEFAULT, all_options

    words = [] if options.backend == DEFAULT else ["--backend", options.backend]
    for option in all_options():
        if option.name in options.backend_options:
            words += [option.flag, options.backend_options[option.name]]
    return words


def parse_limits(texts: tuple[str, ...]) -> dict[str, float]:
    """`gpu=1` → {"gpu": 1.0}."""
    from whyrun.errors import error

    limits: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not equals or not name or not 0 <= value < float("inf"):
            raise error("USAGE", f"`--limit {text}` is not NAME=N with N at least 0", hint="write `--limit gpu=1`")
        if name in limits:
            raise error("USAGE", f"`--limit {name}=…` is given twice", hint="give one limit for each resource")
        limits[name] = value
    return limits


# --- progress output ---------------------------------------------------------------------------------------------


class OutputOptions(NamedTuple):
    """How much a run prints, and where."""

    level: str
    log_file: str | None
    quiet: bool

    def logger(self, stream: IO[str]) -> WorkflowLogger:
        from whyrun.console.lines import LogLevel
        from whyrun.console.logger import WorkflowLogger

        return WorkflowLogger(True, self.log_file, LogLevel.named(self.level), quiet=self.quiet, stream=stream)


def output_options(function: Function) -> Function:
    """--quiet, --log-level, --log-file. The command gets `output`, an OutputOptions."""

    @wraps(function)
    def collect(quiet: bool, log_level: str, log_file: str | None, **rest: Any) -> Any:
        return function(output=OutputOptions(log_level, log_file, quiet), **rest)

    decorated: Function = _decorate(
        collect,
        [
            click.option("--quiet", "-q", is_flag=True, help="Print only failures and notes on the terminal."),
            click.option(
                "--log-level",
                type=click.Choice(LOG_LEVELS),
                default="summary",
                show_default=True,
                help="progress: no line for each job; all: also up-to-date jobs and tasks; debug: also tracebacks.",
            ),
            click.option("--log-file", metavar="FILE", help="Append the lines to this file as well."),
        ],
    )
    return decorated


@contextmanager
def report_misfits(project: Project, output: OutputOptions) -> Iterator[None]:
    """If a workflow is refused, print that as status lines as well, before the errors with positions and hints."""
    import sys

    from whyrun.errors import InvalidError

    if output.log_file is not None:
        check_output_file(project, "--log-file", output.log_file)
    try:
        yield
    except InvalidError as refused:
        from whyrun.console.preview import other_problems, refused_lines
        from whyrun.log.journal import utc_now

        logger = output.logger(sys.stderr)
        now = utc_now().astimezone()
        lines = list(refused_lines(project.declared_actions(), _misfits(project), project.folder, now))
        for line in [*lines, *other_problems(refused.diagnostics, now, told=bool(lines))]:
            logger.line(line)
        raise


def _misfits(project: Project) -> list[Misfit]:
    from whyrun.errors import WhyrunError

    try:
        return project.parameter_misfits(project.graph)
    except WhyrunError:  # the graph itself is invalid; the command reports that error
        return []


def check_output_file(project: Project, option: str, path: str) -> None:
    """Refuse a file that the workflow reads, makes or keeps its state in: writing to it would damage it."""
    from whyrun.errors import error
    from whyrun.snapshot.observing.paths import RealPaths

    paths, file = RealPaths(project.folder), os.path.realpath(path)
    for reserved, what in _reserved_paths(project, paths, os.path.relpath(file, paths.root)):
        if paths.contains(reserved, file):
            hint = "choose a file that is used for nothing else"
            raise error("USAGE", f"`{option} {path}`: this is {what}", hint=hint)


def _reserved_paths(project: Project, paths: RealPaths, file: str) -> Iterator[tuple[str, str]]:
    """Each reserved file or folder with its description. `file`: what is to be written, relative to the project."""
    from whyrun.errors import WhyrunError
    from whyrun.graph.publishing.conflicts import input_paths
    from whyrun.ids import split_site

    yield os.path.abspath(project.state_dir), "where whyrun keeps its state"
    yield os.path.abspath(project.file), "the file of this workflow"
    try:
        graph = project.graph
    except WhyrunError:  # the command reports what is wrong with the workflow
        return
    yield from project.own_files(graph, paths).items()
    for path in sorted(input_paths(graph)):
        yield path, f"an input (`{path}`)"
    for pattern in project.patterns(graph, paths):
        if pattern.matches(file):
            yield file, f"a file that `{pattern.text}` of {pattern.owner} matches"
    for table in graph.tables:
        for output in table.outputs:
            for site in output.paths or ():
                yield split_site(site)[0], f"where `Job:{table.name}` publishes `{output.name}`"
