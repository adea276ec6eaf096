"""The command `whyrun`: the table of commands, and errors as messages and exit statuses.

The module of a command is imported only when that command is called, so that `whyrun --help` is fast.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import click

from whyrun import __version__
from whyrun.cli.broken_pipe import tolerant_streams
from whyrun.errors import Exit, WhyrunError, did_you_mean, error

# Hints for errors that the operating system can raise on any file and that are no bug in whyrun.
_NOT_ALLOWED = "the operating system does not allow it; the recorded runs are safe"
_DISK_FULL = "free some space: `whyrun gc` and `whyrun runs prune` show what can be removed; the recorded runs are safe"
_TWO_FILE_SYSTEMS = "`.whyrun/tmp` and the runs must be on one file system; you can move `.whyrun` as a whole"
_WRONG_KIND = "a file is where a folder is expected, or a folder where a file is expected: restore the original"
_TOO_LARGE = "the file system or `ulimit -f` allows no larger files: raise the limit; the recorded runs are safe"
_TOO_MANY_OPEN = "raise the limit of open files (`ulimit -n`), or use fewer `--jobs`; the recorded runs are safe"
_TOO_MANY_PROCESSES = "raise the limit of processes (`ulimit -u`), or use fewer `--jobs`; the recorded runs are safe"
_NOT_CONNECTED = "the file system does not answer: mount it again, then run again; the recorded runs are safe"
_NO_MEMORY = "free some memory, or run with a smaller `--jobs`; the recorded runs are safe"
_OS_ERROR_HINTS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.EIO), _NOT_ALLOWED),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR), _WRONG_KIND),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _DISK_FULL),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), _TOO_MANY_OPEN),
    **dict.fromkeys((errno.ENOTCONN, errno.ESTALE, errno.EHOSTDOWN, errno.ETIMEDOUT, errno.EREMOTEIO), _NOT_CONNECTED),
    errno.EXDEV: _TWO_FILE_SYSTEMS,
    errno.EFBIG: _TOO_LARGE,
    errno.EAGAIN: _TOO_MANY_PROCESSES,
    errno.ENOMEM: _NO_MEMORY,
}

# name → (module, one line for the overview), in the order of the help page.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("init", "Create a small workflow to start from."),
    "validate": ("validate", "Check a workflow file and report all problems together."),
    "schema": ("schema", "Print the JSON Schema of workflow files, plans or manifests."),
    "manifest": ("manifest", "Write the inputs manifest of a dataset plan."),
    "describe": ("describe", "Describe datasets: columns, values, ranges, keys."),
    "actions": ("actions", "List the actions that jobs can use, or show one."),
    "connections": ("connections", "List the connections of a project, or test them."),
    "plan": ("plan", "Show what would run, as text or JSON."),
    "explain": ("explain", "Show what would run, with every reason."),
    "run": ("run", "Run the jobs of the plan."),
    "compare": ("compare", "Execute jobs again and compare the results."),
    "status": ("status", "Show the state of the jobs and the current artifacts."),
    "runs": ("runs", "List the runs of a workflow."),
    "show": ("show", "Show one job, artifact, input or run."),
    "why": ("why", "Show why a job is, was, or is not in the plan."),
    "graph": ("graph", "Draw the jobs of a workflow, or print them as JSON."),
    "history": ("history", "Show all attempts of a job, or all versions of an artifact."),
    "table": ("table", "Show values over loops as one table."),
    "reads": ("reads", "List what jobs read, declared and observed."),
    "costs": ("costs", "Show what the runs have spent."),
    "stats": ("stats", "Show how often and how long the jobs ran."),
    "lineage": ("lineage", "Show where a result comes from, back to its inputs."),
    "diff": ("diff", "Show what differs between two runs."),
    "parity": ("parity", "Check that two runs left the same evidence."),
    "verify": ("verify", "Check that the log and the store are undamaged."),
    "adopt": ("adopt", "Use your own version of an artifact."),
    "restore": ("restore", "Use an earlier version of an artifact again."),
    "keep": ("keep", "Keep results after a harmless change, without running."),
    "log": ("log", "Show the events of a run, or of all runs."),
    "view": ("view", "Show the state of a workflow in the browser."),
    "report": ("report", "Write what `whyrun view` shows into one HTML file."),
    "export": ("export", "Write a run in the format of another tool."),
    "env": ("env", "List the environments of jobs, make them, or remove old ones."),
    "gc": ("gc", "Remove stored bytes that no run needs any more."),
    "completion": ("completion", "Print a script that completes commands in bash, zsh or fish."),
}


class LazyGroup(click.Group):
    """Knows the commands by name and imports one only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"whyrun.cli.commands.{COMMANDS[cmd_name][0]}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from whyrun.cli.foreign_words import command_hint

            near = did_you_mean(args[0], list(COMMANDS))
            hint = command_hint(args[0]) or near or "`whyrun --help` lists the commands"
            raise error("USAGE", f"there is no command `{args[0]}`", hint=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="whyrun")
def cli() -> None:
    """Run workflows whose steps are slow or paid for. Whyrun runs what is needed and explains why.

    \b
    First steps:
      whyrun init            create workflow.yaml
      whyrun explain         show what would run, and why
      whyrun run             run it; a second run has nothing to do
      whyrun why Job:Report  show the reasons, back to the root cause

    \b
    Exit status: 0 success; 1 a job failed, timed out or differs; 2 the workflow, its inputs or the
    command line are invalid; 3 the state does not allow it, or a bug in whyrun; 130 interrupted.

    Without a file, a command uses workflow.yaml in the current folder.
    """


def main(argv: Sequence[str] | None = None) -> None:
    """The entry point."""
    with tolerant_streams():
        try:
            _main(argv)
        except SystemExit as end:
            backends = sys.modules.get("whyrun.execution.backends.registry")
            # Only as a command, not where a program calls this function and continues.
            if argv is None and backends is not None and backends.has_abandoned_calls():
                _exit_with_open_calls(int(end.code or 0))
            raise


def _exit_with_open_calls(code: int) -> None:
    """End the process although a thread still waits for a remote service.

    Python would stop that thread inside the client library, which can abort the process with a signal instead of our
    exit status.
    """
    import threading

    if threading.active_count() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _main(argv: Sequence[str] | None) -> None:
    """Run a command. Expected errors become messages and exit statuses, never tracebacks."""
    # A plan consists of many long-lived objects and hardly any cycles, and the process is short. The installed command
    # has done this before its imports (`entry`).
    gc.disable()
    arguments = sys.argv[1:] if argv is None else argv
    try:
        check_locale(arguments)
        for argument in arguments:
            if not argument.isascii() and any("\udc80" <= letter <= "\udcff" for letter in argument):
                raise error("USAGE", f"{argument!a} is not UTF-8 text", hint="write values and names in UTF-8")
        code = cli.main(args=list(argv) if argv is not None else None, prog_name="whyrun", standalone_mode=False)
    except WhyrunError as problem:
        refuse(problem, arguments)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(int(Exit.INTERRUPTED))
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(int(Exit.INTERRUPTED))
    except click.ClickException as problem:
        if isinstance(problem, click.exceptions.NoArgsIsHelpError):
            problem.show()  # `whyrun` without a command prints the overview
            sys.exit(int(Exit.INVALID))
        refuse(usage_error(problem), arguments)
    except OSError as problem:
        if problem.errno in (errno.ENAMETOOLONG, errno.ELOOP):  # only a path from the command line can cause these
            path = str(problem.filename)[:60]
            refuse(error("FILE_MISSING", f"`{path}…`: {problem.strerror}", hint="check the path"), arguments)
        if isinstance(problem, FileNotFoundError) and not _has_current_folder():
            message = "the current folder no longer exists"
            refuse(error("FILE_MISSING", message, hint="change to an existing folder"), arguments)
        hint = _belongs_to(problem) or _OS_ERROR_HINTS.get(problem.errno or 0)
        if hint is None:
            fail_loudly()
        where = f"`{problem.filename}`: " if problem.filename else ""
        refuse(error("DISK_FAILED", f"{where}{problem.strerror}", hint=hint), arguments)
    except Exception:
        fail_loudly()
    if "duckdb" not in sys.modules:  # its bindings report objects that were not collected as leaks, in 50 lines
        gc.freeze()  # without this, Python searches all objects for cycles before the process ends
    sys.exit(code if isinstance(code, int) else 0)


def check_locale(arguments: Sequence[str]) -> None:
    """Refuse a locale in which a path from a workflow or log means another file, or none."""
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8" and not {"--help", "-h", "--version"}.intersection(arguments):
        message = f"this locale encodes file names as {encoding}, but workflows and logs use UTF-8"
        raise error("NAME_INVALID", message, hint="set `PYTHONUTF8=1`, or a locale such as `LC_ALL=C.UTF-8`")


def _belongs_to(problem: OSError) -> str | None:
    """Whose file it is that this user may not open: in the project of a group, that of a member with another umask."""
    if problem.errno != errno.EACCES or not isinstance(problem.filename, str):
        return None
    from pwd import getpwuid

    try:
        status = os.stat(problem.filename)
        owner = getpwuid(status.st_uid).pw_name
    except (OSError, KeyError):
        return None
    if status.st_uid == os.geteuid() or status.st_gid not in (os.getegid(), *os.getgroups()):
        return None
    return (
        f"it belongs to `{owner}`. Where a group shares a project, every member sets `umask 002` before a run; "
        f"`chmod -R g+rwX .whyrun` by `{owner}` opens what is there. The recorded runs are safe"
    )


def _has_current_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def refuse(problem: WhyrunError, arguments: Sequence[str]) -> NoReturn:
    """Print the error on stderr, and with `--json` also as a document on stdout; then exit with its status."""
    for diagnostic in problem.diagnostics:
        click.echo(diagnostic.render(), err=True)
    if "--json" in arguments:
        from whyrun.cli.output import print_json

        with suppress(OSError):  # stdout itself can be full; the error is on stderr
            print_json({"ok": False, "diagnostics": [diagnostic.to_json() for diagnostic in problem.diagnostics]})
    sys.exit(int(problem.exit))


def fail_loudly() -> NoReturn:
    """Report a bug in whyrun with its traceback. Python would exit with 1, which means that a job failed."""
    import traceback

    traceback.print_exc()
    click.echo("this is a bug in whyrun, not in your workflow; please report it with the lines above", err=True)
    sys.exit(int(Exit.STATE))


def usage_error(problem: click.ClickException) -> WhyrunError:
    """An argument or option that click does not accept, as an error in our form."""
    import re

    context = getattr(problem, "ctx", None)
    if context is None:  # click does not always give the command
        command, hint = "whyrun", "`whyrun COMMAND --help` shows how a command is used"
    else:
        command = context.command_path
        usage = " ".join(context.get_usage().removeprefix("Usage: ").split())
        hint = f"usage: `{usage}`; see `{command} --help`"
    if isinstance(problem, click.exceptions.NoSuchOption):
        near = _similar_option(problem)
        return error("USAGE", f"`{command}` has no option `{problem.option_name}`", hint=near or hint)
    message = re.sub(r"'([^'\n]*)'", r"`\1`", problem.format_message()).rstrip(".")
    return error("USAGE", message[:1].lower() + message[1:], hint=hint)


def _similar_option(problem: click.exceptions.NoSuchOption) -> str | None:
    """A hint with the option that the user probably meant."""
    context, given = problem.ctx, problem.option_name
    from whyrun.cli.foreign_words import option_hint

    if given == "--dry-run" and context is not None and any("--delete" in p.opts for p in context.command.params):
        return "without `--delete` the command only shows what it would remove"
    if given == "--budget":
        return "write `whyrun run --dry-run --budget AMOUNT`: it compares the plan with a budget, and runs nothing"
    if (hint := option_hint(given)) is not None:
        own = {option for parameter in context.command.params for option in parameter.opts} if context else set()
        elsewhere = hint.startswith("write `--") and hint.split("`")[1].split()[0] not in own
        return f"{hint}, an option of `whyrun run`" if elsewhere else hint
    # `--help` resembles `--keep` and others; suggest it only if the option begins like it.
    similar = [option for option in problem.possibilities or () if option != "--help" or given.startswith("--h")]
    return f"did you mean `{similar[0]}`?" if similar else None


if __name__ == "__main__":
    main()
