"""`shell`: runs a plain script. Values arrive as shell variables and can never become commands.

The type says how: a list is an array, anything else one text. A `json` binding is its JSON text, whatever it holds.

The values are written, quoted, to an anonymous file that bash reads before the script (`BASH_ENV`). So no file and no
argument list contains them, arrays are possible, and the environment does not limit their size.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from whyrun import disk
from whyrun.actions.base import Named, WorkerContext, plain
from whyrun.actions.problem import NOT_LITERAL, Problem
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow import advice

_OWN_KEYS = ("run", "shell")
_VARIABLE = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*")
# The shell or the worker sets these, or they change how the script runs: all variables of bash 5.3, and a few others.
# fmt: off
_RESERVED = frozenset({
    "_", "BASH", "BASHOPTS", "BASHPID", "CDPATH", "CHILD_MAX", "COLUMNS", "COMPREPLY", "COPROC", "DIRSTACK", "EMACS",
    "ENV", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "EXECIGNORE", "FCEDIT", "FIGNORE", "FUNCNAME", "FUNCNEST",
    "GLOBIGNORE", "GLOBSORT", "GROUPS", "HISTCMD", "HISTCONTROL", "HISTFILE", "HISTFILESIZE", "HISTIGNORE", "HISTSIZE",
    "HISTTIMEFORMAT", "HOME", "HOSTFILE", "HOSTNAME", "HOSTTYPE", "IFS", "IGNOREEOF", "INPUTRC", "INSIDE_EMACS",
    "LANG", "LINENO", "LINES", "MACHTYPE", "MAIL", "MAILCHECK", "MAILPATH", "MAPFILE", "OLDPWD", "OPTARG", "OPTERR",
    "OPTIND", "OSTYPE", "PATH", "PIPESTATUS", "POSIXLY_CORRECT", "PPID", "PROMPT_COMMAND", "PROMPT_DIRTRIM", "PS0",
    "PS1", "PS2", "PS3", "PS4", "PWD", "RANDOM", "REPLY", "SECONDS", "SHELL", "SHELLOPTS", "SHLVL", "SRANDOM",
    "TIMEFORMAT", "TMOUT", "TMPDIR", "UID", "auto_resume", "histchars",
})
# fmt: on
_RESERVED_STARTS = ("BASH_", "COMP_", "LC_", "LD_", "READLINE_")
_LONGEST = 128 * 1024 - 1  # bytes of an environment variable with its name, by the kernel


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
    for name, value in with_.items():
        if name in _OWN_KEYS:
            continue
        if not _VARIABLE.fullmatch(name):
            message = f"`{name}` cannot be the name of a shell variable"
            rule = "use letters, digits and `_`, not starting with a digit"
            problems.append(Problem(name, message, rule, at_name=True))
        elif name in _RESERVED or name.startswith(_RESERVED_STARTS):
            message = f"`{name}` is a variable of the shell itself, which would replace the value or obey it"
            problems.append(Problem(name, message, f"choose another name, for example `my_{name}`", at_name=True))
        elif name.startswith("out_") and name.removeprefix("out_") in outputs:
            taken = f"`${name}` is the path of the output `{name.removeprefix('out_')}`; choose another name"
            problems.append(Problem(name, f"`{name}` is taken", taken, at_name=True))
        elif shell == "bash" and isinstance(script, str) and name not in script and (hint := _key_of_job(name)):
            instead = advice.unread_entry(name, hint)
            problems.append(Problem(name, f"the script does not read `{name}`", instead, at_name=True))
        elif value is not NOT_LITERAL and isinstance(shell, str) and (why := _unfit(name, value, shell)):
            problems.append(Problem(name, f"`{name}` {why[0]}", why[1]))
    return tuple(problems)


def _key_of_job(name: str) -> str | None:
    """A variable that nothing reads may be there to make the job run again, but not with the name of a limit."""
    from whyrun.workflow.foreign_words import meant_beside_with  # imported late: few workflows need it

    return meant_beside_with(name)


# --- JSON texts in scripts ---------------------------------------------------------------------------------------
#
# A `json` binding arrives as its text, a fan-in of them as an array of texts. Whoever expects paths, as of a fan-in of
# files, would learn it only after the jobs upstream have run. Only commands that are certain to read files count.


_QUOTED = lazy_regex(r"'[^']*'")
_COMMENT = lazy_regex(r"(?m)(?:^|(?<=\s))#.*$")
_COMMAND_START = r"(?:^|[;&|(){}`!]|\b(?:do|then|else|if|while|until|time|exec)\b)\s*"
_READERS = r"(?:cat|tac|head|tail|wc|sort|uniq|paste|cp|mv|ln|gzip|zcat|source)"
_JQ_TAKES_VALUES = lazy_regex(r"--(?:json)?args\b|--null-input\b|\s-[a-zA-Z]*n")


def json_as_files(script: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(name, command) for each of these variables that the script gives to a command as a file name."""
    text = _COMMENT.sub("", _QUOTED.sub("''", script.replace("\\\n", " ")))
    for name in names:
        if name not in text:
            continue
        aliases = [re.escape(name)]
        for loop in re.finditer(rf"\bfor\s+(\w+)\s+in\s[^;\n]*{_variable(aliases)}", text):
            aliases.append(loop[1])
        found = next(_uses(text, _variable(aliases)), None)
        if found is not None:
            yield name, " ".join(found.split())


def _variable(names: list[str]) -> str:
    either = "|".join(names)
    return rf"\"?\$(?:\{{(?:{either})(?:\[[@*0-9]+\])?\}}|(?:{either})\b)\"?(?=[\s;|&)<>]|$)"


def _uses(text: str, variable: str) -> Iterator[str]:
    for found in re.finditer(rf"(?<![<&0-9])<(?![<&(])\s*{variable}", text):
        yield found[0]
    given = rf"(?<!<<<)(?<!\s-[a-zA-Z])\s{variable}"  # no here-string, and no value of an option
    for command in re.finditer(rf"(?m){_COMMAND_START}({_READERS}\b[^;&|)\n]*)", text):
        if re.search(given, command[1]):
            yield command[1]
    for command in re.finditer(rf"(?m){_COMMAND_START}(jq\b[^;&|)\n]*)", text):
        words = re.sub(r"--arg(?:json)?\s+\S+\s+\S+", "", command[1])
        if not _JQ_TAKES_VALUES.search(words) and re.search(given, words):
            yield command[1]


# --- in the worker -----------------------------------------------------------------------------------------------


def run(parameters: dict[str, Any], context: WorkerContext, logger: Any) -> None:
    del logger
    # Reading this opts in to cooperative cancellation: the script itself gets SIGTERM and may clean up.
    _ = context.cancelled
    variables = {name: plain(value) for name, value in parameters.items() if name not in _OWN_KEYS}
    variables |= {f"out_{name}": context.output(name) for name in context.output_names}
    context.script_path.write_text(parameters["run"], encoding="utf-8")
    shell = parameters.get("shell", "bash")
    for name, value in variables.items():
        if why := _unfit(name, value, shell):
            raise ValueError(f"`{name}` {why[0]}; {why[1]}")
    script = os.path.relpath(context.script_path, context.work_dir)
    if context.container is not None:
        status = _run_in_container(shell, script, variables, context)
    elif shell == "bash":
        status = _run_bash(script, variables, context)
    else:
        environment = os.environ | {name: as_text(value, joined=True) for name, value in variables.items()}
        status = _wait([*shell.split(), script], context, environment, ())
    if status != 0:
        raise CommandFailed(_failure(status, context.stderr_tail()))


def _run_bash(script: str, variables: Mapping[str, Any], context: WorkerContext) -> int:
    descriptor = disk.memory_file("whyrun-variables")
    try:
        _write_prelude(descriptor, variables, f"exec {descriptor}<&-")
        environment = os.environ | {"BASH_ENV": f"/proc/self/fd/{descriptor}"}
        command = ["bash", "-euo", "pipefail", script]
        return _wait(command, context, environment, (descriptor,))
    finally:
        os.close(descriptor)


def _run_in_container(shell: str, script: str, variables: Mapping[str, Any], context: WorkerContext) -> int:
    """As outside, but bash reads the values from its standard input: only that reaches every container."""
    from whyrun.environments.containers import Container  # imported late: few steps have a container

    wanted = context.container
    image = str(context.project / wanted.image) if wanted.image.endswith(".sif") else wanted.image
    values = dict(context.variables)
    descriptor = disk.memory_file("whyrun-variables")
    try:
        if shell == "bash":
            words = ["bash", "-euo", "pipefail", script]
            values["BASH_ENV"] = "/dev/stdin"
            _write_prelude(descriptor, variables, "exec </dev/null")
        else:
            words = [*shell.split(), script]
            values |= {name: as_text(value, joined=True) for name, value in variables.items()}
        with Container(context.script_path.parent, wanted.engine, image, wanted.network) as container:
            command, environment = container.command(words, context.work_dir, variables, values)
            return container.ended(_wait(command, context, {**environment, **context.engine_settings}, (), descriptor))
    finally:
        os.close(descriptor)


def _write_prelude(descriptor: int, variables: Mapping[str, Any], end: str) -> None:
    """What bash reads before the script."""
    lines = ["unset BASH_ENV", *(declaration(name, value) for name, value in variables.items()), f"{end}\n"]
    data = "\n".join(lines).encode()
    while data:
        data = data[os.write(descriptor, data) :]
    os.lseek(descriptor, 0, os.SEEK_SET)


def _wait(
    command: list[str],
    context: WorkerContext,
    environment: Mapping[str, str],
    keep: tuple[int, ...],
    stdin: int | None = None,
) -> int:
    import signal  # these two are imported late: a plan checks the job, but only a worker starts it
    import subprocess

    if context.cancelled:
        return -signal.SIGTERM  # cancelled before the script started

    # No new session: the script and its children stay in the worker's process group, which is killed as a whole.
    process = subprocess.Popen(
        [*context.launcher, *command],
        cwd=context.work_dir,
        env=environment,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        pass_fds=keep,
        close_fds=True,
    )
    if context.cancelled:
        process.send_signal(signal.SIGTERM)  # the signal may have come before the script started
    return context.wait_for(process)


def declaration(name: str, value: Any) -> str:
    """A line of bash that sets a variable, with any characters in its value."""
    if isinstance(value, list):
        return f"declare -a {name}=({' '.join(_quoted(as_text(member)) for member in value)})"
    if isinstance(value, Named):
        members = " ".join(f"[{_quoted(key)}]={_quoted(as_text(member))}" for key, member in value.flat().items())
        return f"declare -A {name}=({members})"
    return f"declare -- {name}={_quoted(as_text(value))}"


def _unfit(name: str, value: Any, shell: str) -> tuple[str, str] | None:
    """Why a value cannot reach the script, and what to do about it; None if it can."""
    if isinstance(value, Named):
        value = _lines(value)
    texts = [as_text(member) for member in value] if isinstance(value, list) else [as_text(value)]
    if any("\0" in text for text in texts):
        return "has a NUL character, which no shell variable can hold", "pass it in a file"
    if shell == "bash":
        return None
    if isinstance(value, list) and any("\n" in text for text in texts):
        what = f"has a member with a newline: for `{shell}`, a list arrives as one line for each member"
        return what, "use bash, which has arrays, or pass it in a file"
    if len(f"{name}=\n".encode()) + sum(len(os.fsencode(text)) + 1 for text in texts) > _LONGEST:
        return f"is longer than an environment variable may be, as which `{shell}` gets it", "use bash, or a file"
    return None


def _lines(value: Named) -> list[str]:
    """For shells without arrays: `asia,7=path`."""
    return [f"{key}={as_text(member)}" for key, member in value.flat().items()]


def _quoted(text: str) -> str:
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
    if joined and isinstance(value, Named):
        value = _lines(value)
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
    *before, last = stderr.rstrip().splitlines() or [""]
    # The first line is what plans and explanations show of a failure, and the last line of stderr tells the cause.
    return "\n".join([f"{ended}: {last.strip()}" if last.strip() else ended, *before])
