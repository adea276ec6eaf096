"""`whyrun completion SHELL`: print the completion script of a shell, and answer the questions of that script."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal

import click
from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

from whyrun.cli.main import COMMANDS, LazyGroup, cli

if TYPE_CHECKING:
    from whyrun.log.runs import RunRef

EVENTS_READ = 50_000  # of the latest runs, to find IDs: a log can have millions of events, and the user waits
_METAVAR_WORD = re.compile(r"[A-Z]+")

# Each script passes on the command line up to the cursor. The first line of the answer is `plain`, `file` or `dir`;
# after `plain` every line is a candidate. For `file` and `dir` the shell completes paths itself.

# readline replaces only the text after the last `:` or `=`, so the script cuts off what comes before it. A candidate
# that is the only one is inserted, so the script quotes it: `[1]` is a pattern to the shell.
_BASH = """\
_whyrun_completion() {
    local line=${COMP_LINE:0:COMP_POINT} answer kind before
    answer=$(whyrun completion bash --line "$line" 2>/dev/null) || return 0
    { read -r kind; mapfile -t COMPREPLY; } <<< "$answer"
    case $kind in
        file) compopt -o default ;;
        dir) compopt -o dirnames ;;
    esac
    before=${line%"$2"}
    before=${before##*[[:blank:]]}
    if [[ $before$2 != [\\"\\']* ]]; then
        before=${before//\\\\/}
        COMPREPLY=("${COMPREPLY[@]#"$before"}")
        if (( ${#COMPREPLY[@]} == 1 )); then
            COMPREPLY=("$(printf %q "${COMPREPLY[0]}")")
        fi
    fi
}

complete -o nosort -F _whyrun_completion whyrun
"""

_ZSH = """\
#compdef whyrun

_whyrun() {
    local answer kind
    local -a candidates
    answer=$(whyrun completion zsh --line "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null) || return 1
    candidates=("${(@f)answer}")
    kind=$candidates[1]
    shift candidates
    case $kind in
        file) _files ;;
        dir) _files -/ ;;
        *) _describe -V whyrun candidates ;;
    esac
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _whyrun "$@"
else
    compdef _whyrun whyrun
fi
"""

_FISH = """\
function __whyrun_complete
    set -l candidates (whyrun completion fish --line (commandline -cp | string collect) 2>/dev/null)
    or return
    set -l kind $candidates[1]
    set -e candidates[1]
    switch $kind
        case file
            __fish_complete_path (commandline -ct)
        case dir
            __fish_complete_directories (commandline -ct)
        case '*'
            string join \\n -- $candidates
    end
end

complete --command whyrun --no-files --keep-order --arguments '(__whyrun_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(SCRIPTS)))
@click.option("--line", metavar="TEXT", help="Complete this command line instead. The script uses this option.")
@click.option("--json", "as_json", is_flag=True, help="Print the script, or the candidates, as JSON.")
def command(shell: str, line: str | None, as_json: bool) -> None:
    """Print a script that completes `whyrun` commands in bash, zsh or fish.

    It completes commands, options, names of runs, and IDs in the log of the latest runs. It needs bash 4.4 or newer.

    \b
    Example:
      # bash, in ~/.bashrc:
      eval "$(whyrun completion bash)"
      # zsh, in ~/.zshrc, after compinit:
      eval "$(whyrun completion zsh)"
      # fish, once:
      whyrun completion fish > ~/.config/fish/completions/whyrun.fish
      # what could follow:
      whyrun completion bash --line 'whyrun why Job:'
    """
    if line is None:
        if as_json:
            from whyrun.cli.output import print_json

            print_json({"shell": shell, "script": SCRIPTS[shell]})
        else:
            click.echo(SCRIPTS[shell], nl=False)
        return
    kind, candidates = complete(line)
    if as_json:
        from whyrun.cli.output import print_json

        print_json({"kind": kind, "candidates": [{"value": one.value, "help": one.help} for one in candidates]})
        return
    click.echo(kind)
    for candidate in candidates:
        click.echo(_written(candidate, shell))


def _written(candidate: CompletionItem, shell: str) -> str:
    """The candidate in the form that the shell expects; bash shows no help."""
    value = candidate.value
    if shell == "zsh":
        value = re.sub(r"([:\\])", r"\\\1", value)
    if not candidate.help or shell == "bash":
        return f"{value}"
    return f"{value}{':' if shell == 'zsh' else chr(9)}{candidate.help}"


def complete(line: str) -> tuple[Literal["plain", "file", "dir"], list[CompletionItem]]:
    """The candidates for the last word of a command line. The shell completes paths itself."""
    from whyrun.errors import WhyrunError

    # The letter makes a word of an empty end; an open quote ends with it.
    words = split_arg_string(f"{line}x")
    *before, last = [*words[1:-1], words[-1][:-1]]
    group = CompletingGroup("whyrun", params=cli.params, context_settings=cli.context_settings)
    try:
        found = ShellComplete(group, {}, "whyrun", "").get_completions(before, last)
    except WhyrunError:  # the command reports it when it is run
        return "plain", []
    plain = [item for item in found if item.type == "plain"]
    if not plain and found:
        return ("dir" if found[0].type == "dir" else "file"), []
    option, equals, _ = last.partition("=")
    if equals and option.startswith("--"):  # click answers with the value; shells replace the whole word
        for item in plain:
            item.value = f"{option}={item.value}"
    return "plain", plain


class CompletingGroup(LazyGroup):
    """The commands, with parameters that can complete. Command names come from the table, without an import."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        original = super().get_command(ctx, cmd_name)
        if original is None:
            return None
        command = copy.copy(original)
        command.params = [_completing(parameter, cmd_name) for parameter in original.params]
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in COMMANDS if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=COMMANDS[name][1]) for name in names]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


def _completing(parameter: click.Parameter, command: str) -> click.Parameter:
    """The parameter with a type that completes the kinds of values that its metavar names."""
    metavar = parameter.metavar or ""
    named = set() if "=" in metavar else set(_METAVAR_WORD.findall(metavar))
    if command == "runs" and parameter.name == "file":
        named = {"PRUNE", "FILE"}
    if not named & {"ARTIFACT", "DIR", "FILE", "ID", "PRUNE", "RUN"}:
        return parameter
    completing = copy.copy(parameter)
    completing.type = NamedInMetavar(named, _kinds(parameter, command, named))
    return completing


def _kinds(parameter: click.Parameter, command: str, named: set[str]) -> tuple[str, ...]:
    """The kinds of IDs that a parameter takes."""
    if "ARTIFACT" in named:
        return ("Artifact:",)
    if "ID" not in named:
        return ()
    if {"--job", "--trace"} & set(parameter.opts):
        return ("Job:",)
    if command in ("why", "show"):
        return ("Job:", "Artifact:", "Input:")
    return ("Job:", "Artifact:")


class NamedInMetavar(click.types.StringParamType):
    """Completes runs and IDs of the workflow that the command line chooses; leaves paths to the shell."""

    def __init__(self, named: set[str], kinds: tuple[str, ...]) -> None:
        self.named = named
        self.kinds = kinds

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        items = [CompletionItem(word) for word in self._words(ctx) if word.startswith(incomplete)]
        if "FILE" in self.named:
            items.append(CompletionItem(incomplete, type="file"))
        elif "DIR" in self.named:
            items.append(CompletionItem(incomplete, type="dir"))
        return items

    def _words(self, ctx: click.Context) -> Iterator[str]:
        if "PRUNE" in self.named:
            yield "prune"
        if "RUN" in self.named or self.kinds:
            runs = runs_of(ctx.params)
            yield from (run.name for run in runs if "RUN" in self.named)
            yield from ids_in(runs, self.kinds) if self.kinds else ()


def runs_of(parameters: dict[str, Any]) -> list[RunRef]:
    """The runs of the workflow that a command line chooses, the latest first. No input is read, and nothing planned."""
    from whyrun.facts.subjects import is_id, is_run_name
    from whyrun.project import Project

    files = [name for name in parameters.get("names") or () if not (is_id(name) or is_run_name(name))]
    file = parameters.get("file") or (files[0] if files else None)
    project = Project.open(file, state=parameters.get("state"), manifest=parameters.get("manifest"))
    return project.state.runs()[::-1] if project.reading.workflow is not None else []


def ids_in(runs: Iterable[RunRef], kinds: tuple[str, ...], most: int = EVENTS_READ) -> list[str]:
    """The IDs of these kinds in the events of these runs. No more than `most` events are read."""
    ids: set[str] = set()
    for event in islice(chain.from_iterable(run.events() for run in runs), most):
        ids.update(filter(None, (getattr(event, field, None) for field in ("step_id", "artifact", "id"))))
    return sorted((id_ for id_ in ids if id_.startswith(kinds)), key=_by_number)


def _by_number(id_: str) -> tuple[Any, ...]:
    """`Job:Count[2]` before `Job:Count[10]`."""
    return tuple(int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", id_))
