"""Writes the workflow that the reads and writes of commands imply, for a person to look at and change."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Sequence

from whyrun.errors import error
from whyrun.execution.onboard.tracing import TracedCommand

_CODE = (".py", ".R", ".r", ".sh", ".jl", ".pl", ".js", ".sql", ".ipynb", ".m", ".do")
_TYPES = {".json": "json", ".txt": "text", ".md": "text", ".png": "image", ".jpg": "image", ".jpeg": "image"}
_HEAD = """\
# Written by `whyrun init --from`: what these commands read and wrote. Look at it, and change what you like.
# `code:` are files whose content counts; other files that a script reads are noticed when it runs.
"""


def workflow_text(name: str, commands: Sequence[TracedCommand]) -> str:
    """Raises an error if two commands write the same file."""
    makers: dict[str, tuple[str, str]] = {}  # path → job, output
    jobs: list[tuple[str, TracedCommand, dict[str, str]]] = []
    taken: set[str] = set()
    for traced in commands:
        job = _free(_job_name(traced.command), taken)
        outputs: dict[str, str] = {}
        own: set[str] = set()
        for path in traced.written:
            if path in makers:
                hint = "let each command write files of its own; or give both as one command: 'a && b'"
                raise error("USAGE", f"`{traced.command}` writes `{path}`, as an earlier command does", hint=hint)
            output = outputs[path] = _free(_identifier(posixpath.basename(path)), own)
            makers[path] = (job, output)
        jobs.append((job, traced, outputs))
    inputs: dict[str, str] = {}
    for _, traced, _ in jobs:
        for path in _data_of(traced):
            if path not in makers and path not in inputs:
                inputs[path] = _free(_identifier(posixpath.basename(path)), taken)
    lines = [_HEAD + f"workflow: {name}", "defaults: {workdir: project}"]
    if inputs:
        lines += ["inputs:", *(f"  {one}: {{type: file, default: {_quoted(path)}}}" for path, one in inputs.items())]
    lines.append("jobs:")
    for job, traced, outputs in jobs:
        lines += _job(job, traced, outputs, inputs, makers)
    return "\n".join(lines) + "\n"


def _job(
    job: str,
    traced: TracedCommand,
    outputs: dict[str, str],
    inputs: dict[str, str],
    makers: dict[str, tuple[str, str]],
) -> list[str]:
    lines = [f"  {job}:", "    uses: shell", "    with:", f"      run: {_quoted(traced.command)}"]
    names = {"run", "shell"}
    for path in _data_of(traced):
        reference = f"inputs.{inputs[path]}" if path in inputs else ""
        if path in makers and makers[path][0] != job:
            reference = f"jobs.{makers[path][0]}.outputs.{makers[path][1]}"
        if reference:
            lines.append(f"      {_free(_variable(path), names)}: ${{{{ {reference} }}}}")
    code = [path for path in traced.read if path.endswith(_CODE) and path not in makers]
    if code:
        lines.append(f"    code: [{', '.join(map(_quoted, code))}]")
    if outputs:
        lines.append("    outputs:")
        lines += [
            f"      {name}: {{type: {_TYPES.get(posixpath.splitext(path)[1], 'file')}, path: {_quoted(path)}}}"
            for path, name in outputs.items()
        ]
    return lines


def _data_of(traced: TracedCommand) -> list[str]:
    return [path for path in traced.read if not path.endswith(_CODE) and path not in traced.written]


def _job_name(command: str) -> str:
    """Of the script, or of the program: `python train.py --fast` is `Train`."""
    try:
        words = shlex.split(command)
    except ValueError:  # it is bash, not only words
        words = command.split()
    script = next((word for word in words if word.endswith(_CODE)), words[0] if words else "")
    return _identifier(posixpath.splitext(posixpath.basename(script))[0], "Job")


def _identifier(text: str, other: str = "File") -> str:
    """`train_model.csv` is `TrainModelCsv`."""
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", text) if part]
    found = "".join(part[:1].upper() + part[1:] for part in parts)
    return found if found[:1].isalpha() else f"{other}{found}"


def _variable(path: str) -> str:
    found = re.sub(r"[^a-z0-9]+", "_", posixpath.basename(path).lower()).strip("_")
    return f"file_{found}"


def _free(name: str, taken: set[str]) -> str:
    found, number = name, 2
    while found in taken:
        found, number = f"{name}{number}", number + 1
    taken.add(found)
    return found


def _quoted(text: str) -> str:
    """As YAML: JSON is a part of it."""
    plain = re.fullmatch(r"[A-Za-z0-9_./-]+", text) and not re.fullmatch(r"[-.0-9].*|true|false|null|yes|no", text)
    return text if plain else json.dumps(text, ensure_ascii=False)


def job_names(commands: Iterable[TracedCommand]) -> list[str]:
    """In order, as `workflow_text` names them."""
    taken: set[str] = set()
    return [_free(_job_name(traced.command), taken) for traced in commands]
