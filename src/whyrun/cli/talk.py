"""How much a command tells, and where: `--quiet`, `--log-level`, `--log-file`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from whyrun.console.logger import WorkflowLogger
    from whyrun.snapshot.typed import Misfit
    from whyrun.snapshot.world import World

LEVELS = ("none", "summary", "all", "debug")


@dataclass(frozen=True, slots=True)
class Talk:
    level: str
    log_file: str | None
    quiet: bool

    def logger(self, stream: IO[str]) -> WorkflowLogger:
        from whyrun.console.lines import LogLevel
        from whyrun.console.logger import WorkflowLogger

        return WorkflowLogger(True, self.log_file, LogLevel.named(self.level), quiet=self.quiet, stream=stream)


def talk_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets them as `talk`."""
    from functools import wraps

    @wraps(function)
    def told(quiet: bool, log_level: str, log_file: str | None, **rest: Any) -> Any:
        return function(talk=Talk(log_level, log_file, quiet), **rest)

    for option in reversed(
        [
            click.option("--quiet", "-q", is_flag=True, help="On the terminal only failures and notes."),
            click.option(
                "--log-level",
                type=click.Choice(LEVELS),
                default="summary",
                show_default=True,
                help="all: up-to-date jobs and tasks too; debug: tracebacks too.",
            ),
            click.option("--log-file", metavar="FILE", help="Add the lines to this file as well."),
        ]
    ):
        told = option(told)
    return told


def tell_note(text: str) -> None:
    """What a person should know beside the answer."""
    click.echo(f"note: {text}", err=True)


@contextmanager
def telling_what_is_refused(world: World, talk: Talk) -> Iterator[None]:
    """Where jobs and actions do not fit, say so as lines too, before the error itself with its places and hints."""
    import sys

    from whyrun.errors import InvalidError

    if talk.log_file is not None:
        from whyrun.cli.log_file import check_log_file

        check_log_file(world, talk.log_file)
    try:
        yield
    except InvalidError:
        from whyrun.console.refused import refused_lines
        from whyrun.log.journal import utc_now

        logger = talk.logger(sys.stderr)
        now = utc_now().astimezone()
        for line in refused_lines(world.declared_actions(), _misfits(world), world.project, now):
            logger.line(line)
        raise


def _misfits(world: World) -> list[Misfit]:
    from whyrun.errors import WhyrunError

    try:
        return world.parameter_misfits(world.graph)
    except WhyrunError:  # there is no graph, and that is told
        return []
