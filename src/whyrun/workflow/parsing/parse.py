"""A workflow file → the model, or everything that is wrong with it at once."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from whyrun.errors import Diagnostic, InvalidError
from whyrun.workflow.file import FileReader
from whyrun.workflow.model import Workflow
from whyrun.workflow.nodes import Problems, Scalar
from whyrun.workflow.scope import Names
from whyrun.workflow.source import read_source, read_yaml

MAX_IMPORT_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be read of a workflow, and everything that is wrong with it."""

    workflow: Workflow | None  # None where anything is wrong
    part: Workflow | None  # it, and all that it imports, as far as that could be read
    files: tuple[Workflow, ...]  # each file, as far as it could be read; imports before what imports them
    problems: tuple[Diagnostic, ...]

    def complete(self) -> Workflow:
        """The workflow, or `InvalidError` with all problems."""
        if self.workflow is None:
            raise InvalidError(self.problems)
        return self.workflow


def load_workflow(path: Path, *, shown: str | None = None) -> Workflow:
    """Read and check a workflow file and its imports. `shown` is the path as the user knows it, for messages."""
    return load_reading(path, shown=shown).complete()


def load_reading(path: Path, *, shown: str | None = None) -> Reading:
    """`load_workflow` for those who can do something with a part."""
    folder = path.parent
    shown_folder = posixpath.dirname(shown.replace("\\", "/")) if shown is not None else ""

    def read(key: str) -> str:
        return read_source(folder / key)

    return read_workflow(path.name, read, shown=lambda key: posixpath.normpath(posixpath.join(shown_folder, key)))


def parse_workflow(root: str, read: Callable[[str], str], *, shown: Callable[[str], str] = lambda key: key) -> Workflow:
    """Parse the file with key `root`. `read` gives the text of a key: a path relative to the root file's folder.

    Pure but for `read`; with `read=recorded.__getitem__` a recorded set of sources is parsed again.
    """
    return read_workflow(root, read, shown=shown).complete()


def read_workflow(root: str, read: Callable[[str], str], *, shown: Callable[[str], str] = lambda key: key) -> Reading:
    """`parse_workflow` for those who can do something with a part."""
    problems = Problems()
    session = Session(read, shown, problems)
    try:
        text = read(root)
    except UnicodeDecodeError:
        hint = "save it as UTF-8"
        return _unreadable(Diagnostic("YAML_SYNTAX", "the file is no UTF-8 text", file=shown(root), hint=hint))
    except (OSError, KeyError) as problem:
        message = f"the workflow file cannot be read: {_reason(problem)}"
        return _unreadable(Diagnostic("FILE_MISSING", message, file=shown(root), hint="check the path"))
    part = session.parse(root, text, (root,))
    if part is not None:
        part = replace(part, sources=dict(sorted(session.sources.items())))
    return Reading(None if len(problems) else part, part, tuple(session.files), tuple(problems))


def _unreadable(problem: Diagnostic) -> Reading:
    return Reading(None, None, (), (problem,))


def _reason(problem: Exception) -> str:
    return (problem.strerror or "it cannot be opened") if isinstance(problem, OSError) else "there is no such file"


class Session:
    """The files of one workflow; each is parsed once, however often it is imported."""

    def __init__(self, read: Callable[[str], str], shown: Callable[[str], str], problems: Problems) -> None:
        self.read = read
        self.shown = shown
        self.problems = problems
        self.sources: dict[str, str] = {}
        self.parsed: dict[str, Workflow | None] = {}
        self.files: list[Workflow] = []
        self.names: dict[str, Names] = {}  # of each parsed file, shared by all that import it
        self.instances: dict[str, int] = {}  # workflows in the tree below each file, itself included
        self.too_many = False  # whether that has been told

    def parse(self, key: str, text: str, stack: tuple[str, ...]) -> Workflow | None:
        """The workflow as far as it can be read; None where that is nothing."""
        self.sources[key] = text
        node = read_yaml(text, self.shown(key), self.problems)
        workflow = None if node is None else FileReader(self, key, stack, text).workflow(node)
        self.parsed[key] = workflow
        if workflow is not None:
            self.files.append(workflow)
            self.instances[key] = 1 + sum(self.instances[i.workflow.source] for i in workflow.imports.values())
        return workflow

    def imported(self, node: Scalar, key: str, stack: tuple[str, ...]) -> Workflow | None:
        """The workflow with this key, as far as it can be read; None where it is missing or imports itself."""
        if key in stack:
            way = " → ".join((*stack[stack.index(key) :], key))
            self.problems.add(node.place, "CYCLE", f"this file imports itself: {way}", "remove one of the imports")
            return None
        if len(stack) > MAX_IMPORT_DEPTH:
            message = f"imports nest deeper than {MAX_IMPORT_DEPTH} files"
            self.problems.add(node.place, "YAML_SYNTAX", message, "import the inner files directly")
            return None
        if key in self.parsed:
            return self.parsed[key]
        try:
            text = self.read(key)
        except UnicodeDecodeError:
            self.problems.add(node.place, "YAML_SYNTAX", f"`{node.value}` is no UTF-8 text", "save it as UTF-8")
            return None
        except (OSError, KeyError, ValueError) as problem:
            message = f"`{node.value}` cannot be read: {_reason(problem)}"
            self.problems.add(node.place, "FILE_MISSING", message, "paths are relative to the importing file")
            return None
        return self.parse(key, text, (*stack, key))
