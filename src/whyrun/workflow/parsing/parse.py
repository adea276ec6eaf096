"""A workflow file → the model, or all problems together; and the JSON Schema of such files."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from whyrun.errors import Diagnostic, InvalidError, WhyrunError, error
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.fields import Schema, object_schema
from whyrun.workflow.model import Workflow
from whyrun.workflow.nodes import Problems
from whyrun.workflow.parsing.declarations import INPUT_KEYS
from whyrun.workflow.parsing.file import WORKFLOW_KEYS, WorkflowFiles, os_reason
from whyrun.workflow.parsing.imports import IMPORT_KEYS
from whyrun.workflow.parsing.job_keys import JOB_KEYS
from whyrun.workflow.parsing.loops import LOOP_KEYS, MAX_KEY
from whyrun.workflow.parsing.outputs import OUTPUT_KEYS
from whyrun.workflow.yaml_source import read_source, read_start

_WORKFLOW_FILE = lazy_regex(r"^workflow:", re.MULTILINE)

# --- the JSON Schema ---------------------------------------------------------------------------------------------
#
# The JSON Schema of workflow files, with which editors complete and check them. It is made from the tables of keys.
#
# It describes the form of a file. References are checked by `read_workflow`, which also gives the better messages.


def workflow_schema() -> Schema:
    """JSON Schema, draft 2020-12."""
    description = "Jobs, their inputs and outputs; Whyrun re-runs exactly what is needed and says why."
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Whyrun workflow",
        **object_schema(WORKFLOW_KEYS, description),
        # `uses` is required in each job, or once in `defaults:`.
        "if": {"required": ["defaults"], "properties": {"defaults": {"required": ["uses"]}}},
        "else": {"properties": {"jobs": {"additionalProperties": {"required": ["uses"]}}}},
        "$defs": {
            "input": object_schema(INPUT_KEYS, "A value, file or dataset that the user provides."),
            "loop": {
                **object_schema((*LOOP_KEYS, MAX_KEY), "Exactly one of `each`, `count`, `values`, `range`."),
                "oneOf": [{"required": [key.name]} for key in LOOP_KEYS],
            },
            "import": object_schema(
                IMPORT_KEYS, "Another workflow. Its jobs are referred to as `jobs.NAME.JOB.outputs.OUTPUT`."
            ),
            "job": object_schema(
                [replace(row, required=False) for row in JOB_KEYS],
                "A recipe: an action with its parameters and outputs.",
            ),
            "output": {
                **object_schema(OUTPUT_KEYS, "A declared output: an artifact of each instance."),
                "dependentRequired": {"key": ["append"]},
                "if": {"required": ["append"], "properties": {"append": {"const": True}}},
                "then": {"required": ["path"], "properties": {"type": {"const": "json"}}},
            },
            "duration": {
                "description": "`30s`, `5m`, `1h30m`, or a number of seconds.",
                "anyOf": [
                    {"type": "number", "minimum": 0},
                    {"type": "string", "pattern": r"^(?=.)([0-9.]+d)?([0-9.]+h)?([0-9.]+m)?([0-9.]+s)?([0-9]+ms)?$"},
                ],
            },
        },
    }


# --- parsing -----------------------------------------------------------------------------------------------------


class Reading(msgspec.Struct, frozen=True):
    """The readable part of a workflow, and all problems."""

    workflow: Workflow | None  # None if there is any problem
    part: Workflow | None  # the readable part, with that of its imports
    files: tuple[Workflow, ...]  # the readable part of each file; an import comes before the file that imports it
    problems: tuple[Diagnostic, ...]

    def complete(self) -> Workflow:
        """The workflow, or `InvalidError` with all problems."""
        if self.workflow is None:
            raise InvalidError(self.problems)
        return self.workflow


def load_reading(path: Path, *, shown: str | None = None) -> Reading:
    """Read and check a workflow file and its imports: the readable part, and the problems.

    `shown` is the path as the user knows it, for messages.
    """
    folder = path.parent
    shown_folder = posixpath.dirname(shown.replace("\\", "/")) if shown is not None else ""

    def read(key: str) -> str:
        return read_source(folder / key)

    return read_workflow(path.name, read, shown=lambda key: posixpath.normpath(posixpath.join(shown_folder, key)))


def parse_workflow(root: str, read: Callable[[str], str], *, shown: Callable[[str], str] = lambda key: key) -> Workflow:
    """Parse the file with key `root`. `read` returns the text of a key: a path relative to the folder of the root file.

    Pure except for `read`: with `read=recorded.__getitem__` it parses recorded sources again.
    """
    return read_workflow(root, read, shown=shown).complete()


def read_workflow(root: str, read: Callable[[str], str], *, shown: Callable[[str], str] = lambda key: key) -> Reading:
    """`parse_workflow` that does not raise: the readable part, and the problems."""
    problems = Problems()
    files = WorkflowFiles(read, shown, problems)
    try:
        text = read(root)
    except UnicodeDecodeError:
        hint = "save it as UTF-8"
        return _unreadable(Diagnostic("YAML_SYNTAX", "the file is not UTF-8 text", file=shown(root), hint=hint))
    except (OSError, KeyError) as problem:
        message = f"the workflow file cannot be read: {os_reason(problem)}"
        return _unreadable(Diagnostic("FILE_MISSING", message, file=shown(root), hint="check the path"))
    part = files.parse(root, text, (root,))
    if part is not None:
        part = replace(part, sources=dict(sorted(files.sources.items())))
    if part is not None and part.imports:
        from whyrun.workflow.parsing.linking import linked  # imported late: most workflows import none

        part = linked(part, problems)
    return Reading(None if len(problems) else part, part, tuple(files.files), tuple(problems))


def _unreadable(problem: Diagnostic) -> Reading:
    return Reading(None, None, (), (problem,))


def missing_file(path: Path, default: str) -> WhyrunError:
    what = f"`{path}` is a folder" if path.is_dir() else f"there is no workflow file `{path}`"
    return error("FILE_MISSING", what, hint=_meant(path, default))


def id_at(path: Path, default: Path) -> str | None:
    """The job of the workflow in this folder that has this name, or its artifact that is published there."""
    part = load_reading(default).part if default.is_file() else None
    for name, job in part.jobs.items() if part is not None else ():
        if str(path) == name:
            return f"Job:{name}{'[*]' * len(job.loops)}"
        for output in job.outputs.values():
            if output.path == posixpath.normpath(path):
                return f"Artifact:{name}.{output.name}"
    return None


def _meant(path: Path, default: str) -> str:
    """A hint: what the user may have meant by a workflow file that does not exist."""
    import shlex  # imported late, like the next: only this error needs them
    from difflib import get_close_matches

    if str(path).startswith(("Job:", "Artifact:")):
        return f"this is an ID and not a file; to plan or run only this, write `--target {shlex.quote(str(path))}`"
    files = sorted(each.name for each in path.parent.glob("*.y*ml"))
    near = [name for name in files if name.casefold() == path.name.casefold()]
    near = near or get_close_matches(path.name, files, n=1, cutoff=0.8)
    if near:
        return f"did you mean `{path.with_name(near[0])}`?"
    id_ = id_at(path, Path(default))
    if id_ is not None:
        return f"this is `{id_}` and not a file; to plan or run only this, write `--target {shlex.quote(id_)}`"
    if path == Path(default):
        begun = [name for name in files if _WORKFLOW_FILE.search(read_start(Path(name)))]
        if len(begun) == 1:
            return f"there is `{begun[0]}`: name it"
        above = next((folder / path for folder in Path.cwd().parents if (folder / path).is_file()), None)
        if above is not None:
            return f"there is one in a folder above: name it `{os.path.relpath(above)}`"
    return "name the file, or make one with `whyrun init`"
