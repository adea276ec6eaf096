"""The command `whyrun`: one module a command, imported only when it is asked for."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from whyrun import __version__
from whyrun.cli.outlets import outlets
from whyrun.errors import Exit, WhyrunError, error

if TYPE_CHECKING:
    from whyrun.planning.explain import Asked
    from whyrun.snapshot.world import World

Function = TypeVar("Function", bound=Callable[..., Any])

# What can go wrong with any file anywhere, and is nobody's mistake in the code: what to do.
_REFUSED = "the machine does not allow it; what was recorded before is safe"
_FULL = "free some space: `whyrun gc` and `whyrun runs prune` show what can go; what was recorded is safe"
_APART = "`.whyrun/tmp` and the runs of a workflow must be on one file system; all of `.whyrun` may be elsewhere"
_MIXED_UP = "a file stands where a folder is due, or a folder where a file is: put back what was there"
_CIRCUMSTANCES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.EIO), _REFUSED),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR), _MIXED_UP),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _FULL),
    errno.EXDEV: _APART,
}

# name → (module, one line for the overview). The order is that of the help page: from first use to questions.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("init", "Make a small workflow to start from."),
    "validate": ("validate", "Check a workflow file: everything that is wrong, at once."),
    "schema": ("schema", "Print the JSON Schema of workflow files, plans or manifests."),
    "actions": ("actions", "List the actions that jobs can use, or show one."),
    "connections": ("connections", "List the connections of a project, or try them."),
    "plan": ("plan", "Show what would run, as text or JSON; nothing is executed."),
    "explain": ("explain", "Show what would run, and every reason why."),
    "run": ("run", "Run what the plan says, and nothing else."),
    "compare": ("compare", "Execute again what has a result, and say what differs."),
    "status": ("status", "Show the state of jobs and the current artifacts."),
    "runs": ("runs", "List the runs of a workflow."),
    "show": ("show", "Show one job, artifact, input or run."),
    "why": ("why", "Say why something is, was, or is not in the plan."),
    "history": ("history", "Show every attempt and version of a job or artifact."),
    "diff": ("diff", "Show what differs between two runs."),
    "parity": ("parity", "Prove that two runs left the same evidence."),
    "verify": ("verify", "Check that the log and the stored bytes are what they were."),
    "adopt": ("adopt", "Put your own version of an artifact in place."),
    "restore": ("restore", "Put an earlier version of an artifact in place."),
    "log": ("log", "Read the log back: events of a run, filtered."),
    "gc": ("gc", "Remove from the store what no kept run needs; shows it first."),
}


class LazyGroup(click.Group):
    """Knows the commands by name and imports one only when it runs: `--help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"whyrun.cli.{COMMANDS[cmd_name][0]}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from whyrun.errors import did_you_mean, error

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], list(COMMANDS)) or "`whyrun --help` lists the commands"
            raise error("USAGE", f"there is no command `{args[0]}`", hint=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="whyrun")
def cli() -> None:
    """Run workflows whose steps are slow or paid for: exactly what is needed, and say exactly why.

    \b
    A first look:
      whyrun init            make workflow.yaml
      whyrun explain         what would run, and why
      whyrun run             run it; run it again: nothing to do
      whyrun why Job:Report  the reasons, back to the root cause

    \b
    Exit status: 0 all well; 1 a job failed, timed out or differs; 2 workflow, inputs or usage invalid;
    3 the state does not allow it, or an error inside whyrun itself; 130 interrupted.

    A command without a file takes workflow.yaml of the current folder.
    """


def main(argv: Sequence[str] | None = None) -> None:
    """The entry point."""
    with outlets():
        try:
            _main(argv)
        except SystemExit as end:
            if argv is None and "e2b" in sys.modules:  # as a command, and not called by a program that goes on
                _leave_calls_behind(int(end.code or 0))
            raise


def _leave_calls_behind(code: int) -> None:
    """A call to a service that does not answer is still under way, in a thread. Python would tear that down in the
    middle of foreign code, which can abort the process and put its signal in the place of our exit status."""
    import threading

    if threading.active_count() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _main(argv: Sequence[str] | None) -> None:
    """Errors of ours become messages and exit statuses, never tracebacks."""
    # A plan makes many long-lived objects and no cycles worth collecting; the process is short.
    gc.disable()
    words = sys.argv[1:] if argv is None else argv
    try:
        check_locale(words)
        for word in words:
            if not word.isascii() and any("\udc80" <= letter <= "\udcff" for letter in word):
                raise error("USAGE", f"{word!a} is not UTF-8 text", hint="values and names are UTF-8")
        code = cli.main(args=list(argv) if argv is not None else None, prog_name="whyrun", standalone_mode=False)
    except WhyrunError as problem:
        refuse(problem, words)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(int(Exit.INTERRUPTED))
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(int(Exit.INTERRUPTED))
    except click.ClickException as problem:
        if isinstance(problem, click.exceptions.NoArgsIsHelpError):
            problem.show()  # nothing was asked: the overview
            sys.exit(int(Exit.INVALID))
        refuse(usage_error(problem), words)
    except OSError as problem:
        if problem.errno in (errno.ENAMETOOLONG, errno.ELOOP):  # only a path from the command line can be that
            shown = str(problem.filename)[:60]
            refuse(error("FILE_MISSING", f"`{shown}…`: {problem.strerror}", hint="check the path"), words)
        if isinstance(problem, FileNotFoundError) and not _has_current_folder():
            what = "the current folder is not there any more"
            refuse(error("FILE_MISSING", what, hint="change to one that is"), words)
        hint = _CIRCUMSTANCES.get(problem.errno or 0)
        if hint is None:
            fail_loudly()
        where = f"`{problem.filename}`: " if problem.filename else ""
        refuse(error("DISK_FAILED", f"{where}{problem.strerror}", hint=hint), words)
    except Exception:
        fail_loudly()
    if "duckdb" not in sys.modules:  # whose bindings take what is not collected for a leak, and say so in 50 lines
        gc.freeze()  # Python would look through all that is left for cycles once more, although the process ends
    sys.exit(code if isinstance(code, int) else 0)


def check_locale(words: Sequence[str]) -> None:
    """Else a name that stands in a workflow or a log is that of another file here, or of none."""
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8" and not {"--help", "-h", "--version"}.intersection(words):
        what = f"with this locale names of files are taken for {encoding}; those in workflows and logs are UTF-8"
        raise error("NAME_INVALID", what, hint="set `PYTHONUTF8=1`, or a locale such as `LC_ALL=C.UTF-8`")


def _has_current_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def refuse(problem: WhyrunError, words: Sequence[str]) -> NoReturn:
    report(problem)
    if "--json" in words:
        with suppress(OSError):  # it may be stdout itself that is full; the error stands on stderr
            print_json(refusal(problem))  # whoever reads stdout as a document gets one
    sys.exit(int(problem.exit))


def fail_loudly() -> NoReturn:
    """A mistake of ours, with its traceback. Python would end with 1, and 1 says that a job failed."""
    import traceback

    traceback.print_exc()
    click.echo("this is an error inside whyrun, not in your workflow; please report it with the lines above", err=True)
    sys.exit(int(Exit.STATE))


def usage_error(problem: click.ClickException) -> WhyrunError:
    """A word or option that click does not accept, in the form of all our messages."""
    import re

    from whyrun.errors import error

    context = getattr(problem, "ctx", None)
    if context is None:  # click does not always know of which command it speaks
        asked, hint = "whyrun", "`whyrun COMMAND --help` shows how a command is used"
    else:
        asked = context.command_path
        usage = " ".join(context.get_usage().removeprefix("Usage: ").split())
        hint = f"it is used as `{usage}`; `{asked} --help` tells more"
    if isinstance(problem, click.exceptions.NoSuchOption):
        near = _near_option(problem)
        return error("USAGE", f"`{asked}` has no option `{problem.option_name}`", hint=near or hint)
    message = re.sub(r"'([^'\n]*)'", r"`\1`", problem.format_message()).rstrip(".")
    return error("USAGE", message[:1].lower() + message[1:], hint=hint)


def _near_option(problem: click.exceptions.NoSuchOption) -> str | None:
    """A hint at the option that may have been meant."""
    context, asked = problem.ctx, problem.option_name
    if asked == "--dry-run" and context is not None and any("--delete" in p.opts for p in context.command.params):
        return "without `--delete` it only shows what would go"
    # `--help` resembles `--keep` and much else; it is meant by who begins to write it.
    near = [option for option in problem.possibilities or () if option != "--help" or asked.startswith("--h")]
    return f"did you mean `{near[0]}`?" if near else None


def refusal(problem: WhyrunError) -> dict[str, Any]:
    return {"ok": False, "diagnostics": [diagnostic.to_json() for diagnostic in problem.diagnostics]}


def report(problem: WhyrunError) -> None:
    for diagnostic in problem.diagnostics:
        click.echo(diagnostic.render(), err=True)


# --- options that many commands share ----------------------------------------------------------------------------


MANIFEST_HELP = "The datasets of a dataset plan."


def world_options(function: Function) -> Function:
    """FILE, --manifest, --inputs, --set, --state. The command gets them as `world`, opened."""
    from functools import wraps

    @wraps(function)
    def opened(
        file: str | None,
        manifest: str | None,
        inputs: str | None,
        sets: tuple[str, ...],
        state: str | None,
        **rest: Any,
    ) -> Any:
        from whyrun.snapshot.world import World

        world = World.open(file, inputs=inputs, sets=sets, state=state, manifest=manifest)
        return function(world=world, **rest)

    return world_arguments(opened)  # type: ignore[return-value]  # click's decorators keep the function


def world_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """The words of `world_options` as they are, for who opens the world itself."""
    for option in reversed(
        [
            click.argument("file", required=False, type=click.Path()),
            click.option("--manifest", metavar="FILE.json", help=MANIFEST_HELP),
            click.option("--inputs", metavar="FILE.yaml", help="Values of inputs, from a file."),
            click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="An input's value. Repeatable."),
            click.option("--state", metavar="DIR", help="Where state lives, instead of .whyrun."),
        ]
    ):
        function = option(function)
    return function


def plan_options(function: Function) -> Function:
    """--up, --target, --force. The command gets them as `options`, a PlanOptions."""
    from functools import wraps

    @wraps(function)
    def collected(up: int | None, targets: tuple[str, ...], force: tuple[str, ...], **rest: Any) -> Any:
        from whyrun.planning.plan import PlanOptions

        return function(options=PlanOptions(up, targets, force), **rest)

    decorated: Any = collected
    for option in reversed(
        [
            click.option("--up", type=int, metavar="N", help="Only the first N layers that have something to run."),
            click.option(
                "--target", "targets", multiple=True, metavar="ID", help="This and what it needs. Repeatable."
            ),
            click.option("--force", multiple=True, metavar="ID|layer:N", help="Run it in any case. Repeatable."),
        ]
    ):
        decorated = option(decorated)
    result: Function = decorated
    return result


def words_of(world: World, *, with_inputs: bool = True) -> str:
    """The words that make another command look at the same workflow, inputs and state, with a blank before each."""
    import shlex

    from whyrun.snapshot.world import DEFAULT_FILE

    words = [] if str(world.file) == DEFAULT_FILE else [str(world.file)]
    if with_inputs and world.manifest_file is not None:
        words += ["--manifest", str(world.manifest_file)]
    if with_inputs and world.inputs_file is not None:
        words += ["--inputs", str(world.inputs_file)]
    for text in world.sets if with_inputs else ():
        words += ["--set", text]
    if world.state_override is not None:
        words += ["--state", world.state_override]
    return "".join(f" {shlex.quote(word)}" for word in words)


def asked_of(world: World) -> Asked:
    """How this command was asked, for commands that its answer names."""
    from whyrun.planning.explain import Asked

    folder = os.path.relpath(world.project)
    return Asked(words_of(world), "" if folder == "." else f"{folder}/")


def note_running(world: World) -> None:
    """Say that a run is going on, before an answer that counts its open steps as interrupted."""
    from whyrun.evidence.run_list import running_note

    world.graph  # noqa: B018  # the answer needs it, and where something is wrong it tells more than the state does
    note = running_note(world.state)
    if note is not None:
        click.echo(f"note: {note}", err=True)


def note_lost_runs(world: World, tell: Callable[[str], None]) -> None:
    """Say which runs are not looked at, before an answer that knows nothing of them."""
    import shlex

    from whyrun.log.left_behind import state_left_behind
    from whyrun.log.runs import LAST_NOT_THERE
    from whyrun.log.settings import CONFIG_FILE

    world.graph  # noqa: B018  # as above
    lost = world.state.lost_last_run()
    if lost is not None:
        tell(
            f"{lost} {LAST_NOT_THERE}: what it made counts as not made. Put it back from a copy; or go on without, and "
            "the next run takes its number"
        )
    left = state_left_behind(world.file, world.state)
    if left is not None:
        old, new, config = map(os.path.relpath, (left, world.state_dir, world.project / CONFIG_FILE))
        tell(
            f"runs of this workflow are in `{old}`, which is not looked at: since `{config}` is there, the state is "
            f"`{new}`. To go on with them, move it there, or say `--state {shlex.quote(old)}`"
        )


def print_json(value: Any) -> None:
    """Data on stdout, one document, canonical."""
    from whyrun.artifacts.hashing import canonical_json

    print_bytes(canonical_json(value) + b"\n")


def print_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
