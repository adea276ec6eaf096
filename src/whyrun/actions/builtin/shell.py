"""`shell`: runs a plain script. Values arrive as shell variables and can never become commands.

The values are written, quoted, to an anonymous file that bash reads before the script (`BASH_ENV`). So no file and no
argument list contains them, arrays are possible, and the environment does not limit their size.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from whyrun.actions.base import WorkerContext, plain
from whyrun.actions.problem import NOT_LITERAL, Problem
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow import advice

_OWN_KEYS = ("run", "shell")
_VARIABLE = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*")
# The shell or the worker sets these; a value with such a name would change how the script runs.
# fmt: off
_RESERVED = frozenset({
    "_", "BASH", "BASHOPTS", "BASHPID", "BASH_ENV", "BASH_VERSINFO", "CDPATH", "DIRSTACK", "ENV", "EUID", "FUNCNAME",
    "GLOBIGNORE", "GROUPS", "HOME", "IFS", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LD_PRELOAD", "LINENO", "OLDPWD",
    "OPTARG", "OPTIND", "PATH", "PIPESTATUS", "POSIXLY_CORRECT", "PPID", "PS4", "PWD", "RANDOM", "SECONDS",
    "SHELLOPTS", "SHLVL", "TMPDIR", "UID",
})
# fmt: on


class CommandFailed(Exception):
    """The script ended with a status other than 0."""


# --- on the host -------------------------------------------------------------------------------------------------


def check_with(with_: Mapping[str, Any], outputs: Mapping[str, str]) -> tuple[Problem, ...]:
    problems: list[Problem] = []
    script = with_.get("run")
    if "run" not in with_:
        problems.append(Problem(None, "`shell` needs `run:`", "write the script under `run:`"))
    elif script is NOT_LITERAL:
        problems.append(Problem("run", advice.plain_script(), advice.value_of_script(), "EXPRESSION_FORBIDDEN"))
    elif not isinstance(script, str) or not script.strip():
        problems.append(Problem("run", "`run:` must be a text with commands", "write the script under `run:`"))
    shell = with_.get("shell", "bash")
    if not isinstance(shell, str) or not shell.strip():
        problems.append(Problem("shell", "`shell:` must be the name of an interpreter", "for example `shell: sh`"))
    for name in with_:
        if name in _OWN_KEYS:
            continue
        if not _VARIABLE.fullmatch(name):
            hint = "use letters, digits and `_`, not starting with a digit"
            message = f"`{name}` cannot be the name of a shell variable"
            problems.append(Problem(name, message, hint, at_name=True))
        elif name in _RESERVED:
            message = f"`{name}` is a variable of the shell itself"
            problems.append(Problem(name, message, "choose another name", at_name=True))
        elif name.startswith("out_") and name.removeprefix("out_") in outputs:
            hint = f"`${name}` is the path of the output `{name.removeprefix('out_')}`; choose another name"
            problems.append(Problem(name, f"`{name}` is taken", hint, at_name=True))
    return tuple(problems)


# --- in the worker -----------------------------------------------------------------------------------------------


def run(parameters: dict[str, Any], context: WorkerContext, logger: Any) -> None:
    del logger
    # Reading this opts in to cooperative cancellation: the script itself gets SIGTERM and may clean up.
    _ = context.cancelled
    variables = {name: plain(value) for name, value in parameters.items() if name not in _OWN_KEYS}
    variables |= {f"out_{name}": context.output(name) for name in context.output_names}
    context.script_path.write_text(parameters["run"], encoding="utf-8")
    shell = parameters.get("shell", "bash")
    script = os.path.relpath(context.script_path, context.work_dir)
    if shell == "bash":
        status = _run_bash(script, variables, context)
    else:
        environment = os.environ | {name: as_text(value, joined=True) for name, value in variables.items()}
        status = _wait([*shell.split(), script], context, environment, ())
    if status != 0:
        raise CommandFailed(_failure(status, context.stderr_tail()))


def _run_bash(script: str, variables: Mapping[str, Any], context: WorkerContext) -> int:
    descriptor = os.memfd_create("whyrun-variables")
    try:
        prelude = ["unset BASH_ENV", *(declaration(name, value) for name, value in variables.items())]
        prelude.append(f"exec {descriptor}<&-\n")
        data = "\n".join(prelude).encode()
        while data:
            data = data[os.write(descriptor, data) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        environment = os.environ | {"BASH_ENV": f"/proc/self/fd/{descriptor}"}
        command = ["bash", "-euo", "pipefail", script]
        return _wait(command, context, environment, (descriptor,))
    finally:
        os.close(descriptor)


def _wait(command: list[str], context: WorkerContext, environment: Mapping[str, str], keep: tuple[int, ...]) -> int:
    import signal  # these two are imported late: a plan checks the job, but only a worker starts it
    import subprocess

    if context.cancelled:
        return -signal.SIGTERM  # cancelled before the script started

    # No new session: the script and its children stay in the worker's process group, which is killed as a whole.
    process = subprocess.Popen(
        command, cwd=context.work_dir, env=environment, stdin=subprocess.DEVNULL, pass_fds=keep, close_fds=True
    )
    if context.cancelled:
        process.send_signal(signal.SIGTERM)  # the signal may have come before the script started
    return process.wait()


def declaration(name: str, value: Any) -> str:
    """A line of bash that sets a variable, with any characters in its value."""
    if isinstance(value, list):
        return f"declare -a {name}=({' '.join(_quoted(as_text(member)) for member in value)})"
    return f"declare -- {name}={_quoted(as_text(value))}"


def _quoted(text: str) -> str:
    if "\0" in text:
        raise ValueError("a shell variable cannot hold a NUL character")
    return "'" + text.replace("'", "'\\''") + "'"


def as_text(value: Any, joined: bool = False) -> str:
    """A value as text for a shell: `true`/`false` for booleans, an empty text for null, JSON for structured values."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, Path)):
        return str(value)
    if joined and isinstance(value, list):
        return "\n".join(as_text(member) for member in value)
    return msgspec.json.encode(value, enc_hook=str).decode()


def _failure(status: int, stderr: str) -> str:
    if status < 0:
        import signal

        try:
            ended = f"ended by {signal.Signals(-status).name}"
        except ValueError:
            ended = f"ended by signal {-status}"
    else:
        ended = f"exit status {status}"
    return f"{ended}\n{stderr}".rstrip() if stderr else ended
