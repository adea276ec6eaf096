"""What may have caused the failure of a step: notes for people, made of the error and of what the workflow declares.

A note is never part of an event: recorded errors are the same on every backend. Each rests on a fact that can be looked
up here (a file that exists, a declared name, a limit), so a note that is shown leads to the cause.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from whyrun.errors import did_you_mean
from whyrun.execution.backends.registry import capabilities_of
from whyrun.graph.tables import Graph, JobTable
from whyrun.workflow.fields import NAME
from whyrun.workflow.model import Expression, SandboxDecl

# Parts of error texts that a limit of the sandbox can cause.
_MEMORY = ("MemoryError", "Cannot allocate memory", "std::bad_alloc")
_PROCESSES = ("BlockingIOError", "can't start new thread", "Resource temporarily unavailable")
_FULL = ("No space left on device",)
_NETWORK = (
    "Connection refused",
    "ConnectionRefusedError",
    "Could not resolve host",
    "Name or service not known",
    "Network is unreachable",
    "NoConnection",
    "Temporary failure in name resolution",
    "gaierror",
)
# What programs say of a file that is not there.
_NOT_THERE = re.compile(r"no such file|can't open|cannot open|could not open|does not exist|not found", re.IGNORECASE)
_WORDS = re.compile(r"[^\s'\"`‘’“”,;:()\[\]<>]+")
_LONGEST_LINE = 2000  # characters
_UNBOUND = re.compile(r"(?:line \d+: )?(?<!\w)([A-Za-z_]\w*)(?:\[@\])?: (?:unbound variable|parameter not set)")
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_NO_COMMAND = re.compile(r"(?:^|: )([\w.+-]+): (?:command )?not found$", re.MULTILINE)
_ARGUMENTS = re.compile(r"error: (?:the following arguments are required|unrecognized arguments|argument )")
_NUMBER_NOT_THERE = re.compile(r"(?:^|[ '\"])\d+['\"]?: No such file or directory|: '\d+'$", re.MULTILINE)
_IN_OUTPUT = re.compile(r"scratch/out/([A-Za-z_]\w*)/.*(?:No such file|Not a directory)")
_BAD_SUBSTITUTION = re.compile(r"\$\{([\w.]+)\}: bad substitution")
_SILENT = re.compile(r"exit status \d+")
_BRACES = re.compile(r"(?<!\$)\{(input|output|wildcards|params|threads|log)(?:[.\[][^{}]*)?\}")


@dataclass(frozen=True, slots=True)
class FailedStep:
    """A failed step, as far as a note may look at it."""

    graph: Graph
    table: JobTable
    backend: str
    error_type: str
    error: str
    project: Path

    @property
    def text(self) -> str:
        return f"{self.error_type}: {self.error}"


def failure_note(step: FailedStep) -> str:
    """The first note that fits; empty if none does."""
    return next((note for make in _NOTES if (note := make(step))), "")


# --- the sandbox -------------------------------------------------------------------------------------------------


def sandbox_note(backend: str, sandbox: SandboxDecl, error_type: str, error: str) -> str:
    """The sandbox limit that may have caused this error."""
    if not capabilities_of(backend).confines(sandbox.required):
        return ""
    text = f"{error_type}: {error}"
    if _has_any(_MEMORY, text):
        if sandbox.memory is None:
            return "its sandbox may use half of the machine's memory (set `sandbox: {memory: …}` to change this)"
        return f"its sandbox may use {_size_text(sandbox.memory)} (`sandbox: {{memory: …}}`)"
    if _has_any(_PROCESSES, text):
        most = "only so many" if sandbox.processes is None else str(sandbox.processes)
        return f"its sandbox may have {most} processes and threads at a time (`sandbox: {{processes: …}}`)"
    if _has_any(_FULL, text):
        return "`/tmp` and `/dev/shm` in its sandbox hold 64 MB each, in memory; `$TMPDIR` is on the disk"
    if not sandbox.network and _has_any(_NETWORK, text):
        return "this step had no network: its job does not say `sandbox: {network: true}`"
    return ""


def _has_any(signs: tuple[str, ...], text: str) -> bool:
    return any(sign in text for sign in signs)


def _size_text(amount: int) -> str:
    return f"{amount / 1e9:g} GB" if amount >= 1e9 else f"{amount / 1e6:g} MB"


# --- what a step cannot see --------------------------------------------------------------------------------------


def _scratch_note(step: FailedStep) -> str:
    """A relative path that exists in the project, but not in the scratch folder where the step ran."""
    for line in step.text.splitlines():
        if _NOT_THERE.search(line):
            for word in _relative_paths(line[:_LONGEST_LINE]):
                if (made := _made_by(step.graph, word)) is not None:
                    return f"`{word}` is published by another job, and a step reads what is bound: bind `{made}`"
                if (step.project / word.partition("*")[0]).exists():
                    return (
                        f"`{word}` is in the project folder, but each step runs in a scratch folder of its own: "
                        f"{_lines_to_write(step, word)}"
                    )
    return ""


def _lines_to_write(step: FailedStep, path: str) -> str:
    """What declares and binds this path of the project, or makes the step run where it is."""
    declared = next((name for name, decl in step.graph.workflow.inputs.items() if decl.default == path), None)
    name = declared or _name_of(path, step.graph)
    entry = name.lower()
    lines = [f"`{entry}: ${{{{ inputs.{name} }}}}` under `with:`"]
    if declared is None:
        kind = '"file[]"' if "*" in path else "directory" if (step.project / path).is_dir() else "file"
        lines.insert(0, f"`{name}: {{type: {kind}, default: {json.dumps(path)}}}` under `inputs:`")
    reads = f'; the script reads `"${entry}"`' if step.table.decl.uses == "shell" else ""
    return f"write {', and '.join(lines)}{reads}"


def _name_of(path: str, graph: Graph) -> str:
    """`data/my-x.csv` → `MyX`, or a name with a number if that is taken."""
    words = re.findall(r"[A-Za-z0-9]+", path.rstrip("/").rpartition("/")[2].partition(".")[0]) or ["Data"]
    name = "".join(word[0].upper() + word[1:] for word in words)
    name = name if NAME.fullmatch(name) else f"File{name}"
    taken = {*graph.workflow.inputs, *graph.workflow.jobs, *graph.workflow.imports}
    return next(each for each in chain([name], (f"{name}{n}" for n in count(2))) if each not in taken)


def _made_by(graph: Graph, path: str) -> str | None:
    """The reference to the output that is published there, or below this folder, or at paths like this pattern."""
    folder = path.partition("*")[0].rpartition("/")[0] if "*" in path else path
    for table in graph.tables:
        for output in table.outputs:
            sites = output.paths or ()
            if folder and any(site == path or site.startswith(f"{folder}/") for site in sites):
                every = f"[{', '.join(':' for _ in table.decl.loops)}]" if table.decl.loops else ""
                return f"${{{{ jobs.{table.name.replace('/', '.')}.outputs.{output.name}{every} }}}}"
    return None


def _position_note(step: FailedStep) -> str:
    """A loop variable as a file: over an input array it is the position of the element."""
    missing = _NUMBER_NOT_THERE.search(step.error)
    for entry, value in step.table.decl.with_.items() if missing is not None else ():
        name = value.text.strip() if isinstance(value, Expression) else ""
        if name in step.table.decl.loops and "/" not in step.table.name:
            loop = step.graph.workflow.loops[name]
            if loop.kind == "each":
                source = f"inputs.{loop.source.name}[{name}]"
                return f"`{name}` is the position of the element: write `{entry}: ${{{{ {source} }}}}` under `with:`"
    return ""


def _output_note(step: FailedStep) -> str:
    """The path of an output in another form, or a folder that the script must make first."""
    folder = _IN_OUTPUT.search(step.error)
    outputs = step.table.decl.outputs
    if folder is not None and folder[1] in outputs:
        if outputs[folder[1]].type == "directory":
            return f'make the folder first: `mkdir -p "$out_{folder[1]}"`'
        return f"`$out_{folder[1]}` is a file: an output with several files is a `directory`"
    bad = _BAD_SUBSTITUTION.search(step.error)
    if bad is None:
        return ""
    name = bad[1].rpartition(".")[2]
    if name in outputs:
        return f"the path of the output `{name}` is `$out_{name}`"
    return f"bash takes a plain name in braces: bind the value under `with:`, such as `{name}: …`, and write `${name}`"


def _silent_note(step: FailedStep) -> str:
    if step.table.decl.uses != "shell" or not _SILENT.fullmatch(step.error):
        return ""
    return "a script stops at the first command that fails, also in a pipe; `set -x` at its beginning shows which"


def _relative_paths(line: str) -> Iterator[str]:
    for word in _WORDS.findall(line):
        path = word.rpartition("scratch/work/")[2].removeprefix("./")
        if path and not path.startswith(("/", "~", ".")) and (".." not in path) and len(path) < 255:
            yield path


def _import_note(step: FailedStep) -> str:
    """A module that stands beside a script, which the step does not find there."""
    missing = _NO_MODULE.search(step.error)
    if missing is None:
        return ""
    name, own = missing[1].partition(".")[0], _script_of(step)
    scripts = [own] if own is not None else sorted(_input_paths(step.graph)) if _in_shell(step) else []
    for script in scripts:
        folder = Path(script).parent
        if (step.project / folder / f"{name}.py").is_file() or (step.project / folder / name).is_dir():
            where = f"`{name}` is in {'the project folder' if folder == Path('.') else f'`{folder}`'}, but "
            if own is not None:
                return f"{where}`script:` imports from the project folder: {_as_it_is(script)}"
            if script.endswith(".py"):
                return f"{where}a script that is an input comes without its neighbours: {_as_it_is(script)}"
            return (
                f"{where}a script that is an input comes without its neighbours: bind the folder, an input of type "
                "`directory`"
            )
    return ""


def _as_it_is(script: str) -> str:
    return f"write `uses: shell`, `workdir: project`, and in `run:` the command `python3 {script}` with its arguments"


def _script_of(step: FailedStep) -> str | None:
    script = step.table.decl.with_.get("script") if step.table.decl.uses == "python" else None
    return script if isinstance(script, str) else None


def _in_shell(step: FailedStep) -> bool:
    return step.table.decl.uses == "shell"


def _input_paths(graph: Graph) -> Iterator[str]:
    for value in graph.inputs.values():
        for each in (value,) if value.elements is None else value.elements:
            if each.path is not None:
                yield each.path


def _unbound_note(step: FailedStep) -> str:
    """A shell variable that the script reads and the job does not bind."""
    unbound = _UNBOUND.search(step.error)
    if unbound is None:
        return ""
    name, decl = unbound[1], step.table.decl
    if name in decl.outputs:
        return f"the path of the output `{name}` is `$out_{name}`"
    known = [*(entry for entry in decl.with_ if entry != "run"), *(f"out_{output}" for output in decl.outputs)]
    near = did_you_mean(name, known)
    if near is not None and near.startswith("did you mean"):
        return near.replace("`", "`$", 1)
    folder = "".join(f"{part}/" for part in step.table.name.split("/")[:-1])
    for root, there in (("inputs", f"Input:{folder}{name}" in step.graph.inputs), ("", name in decl.loops)):
        if there:
            reference = f"{root}.{name}" if root else name
            return f"a script reads what is bound: write `{name}: ${{{{ {reference} }}}}` under `with:`"
    if name.isupper():
        return (
            f"variables of your shell do not reach a step: write `env: {{{name}: …}}`, and for a secret also "
            f"`secrets: [{name}]` and `${{{{ secrets.{name} }}}}` as its value"
        )
    return f"a script reads what is bound: write `{name}: …` under `with:`"


def _command_note(step: FailedStep) -> str:
    missing = _NO_COMMAND.search(step.error)
    if missing is None or "exit status 127" not in step.error:
        return ""
    return f"`{missing[1]}` is not on the `PATH` of the step, which is that of the shell that started `whyrun`"


def _arguments_note(step: FailedStep) -> str:
    """A Python script with a command line, which `script:` does not give it."""
    script = _script_of(step)
    if script is None or not _ARGUMENTS.search(step.error):
        return ""
    instead = f'{_as_it_is(script)}, such as `--name "$value"`'
    return f"`script:` gives values as `inputs`, not as a command line: {instead}"


def _braces_note(step: FailedStep) -> str:
    """`{input}` as in Snakemake, which bash takes for text."""
    braces = _BRACES.search(step.error)
    if braces is None or step.table.decl.uses != "shell":
        return ""
    instead = '"$out_NAME", the path of the output `NAME`' if braces[1] == "output" else '"$name", an entry of `with:`'
    return f"`{braces[0]}` is text to bash: write {instead}"


_NOTES: tuple[Callable[[FailedStep], str], ...] = (
    lambda step: sandbox_note(step.backend, step.table.decl.sandbox, step.error_type, step.error),
    _braces_note,
    _output_note,
    _position_note,
    _scratch_note,
    _import_note,
    _unbound_note,
    _arguments_note,
    _command_note,
    _silent_note,
)
