"""A workflow file → the model, or everything that is wrong with it at once."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from whyrun.errors import Diagnostic, InvalidError
from whyrun.workflow.declarations import Declarations, check_loop_name
from whyrun.workflow.fields import RESERVED_WORKFLOW_NAMES, WORKFLOW_NAME
from whyrun.workflow.imports import IMPORT_KEYS, check_import_inputs, import_place
from whyrun.workflow.job_keys import JobDraft
from whyrun.workflow.jobs import Jobs
from whyrun.workflow.model import ImportDecl, InputDecl, LoopDecl, Place, Type, Workflow
from whyrun.workflow.nodes import MapNode, Node, Problems, Scalar, Source, kind_of
from whyrun.workflow.scope import Names, names_of
from whyrun.workflow.source import read_yaml

WORKFLOW_KEYS = ("workflow", "description", "inputs", "loops", "imports", "jobs")
_ELSEWHERE = {
    **dict.fromkeys(("steps", "tasks", "rules", "stages"), "jobs stand under `jobs:`"),
    **dict.fromkeys(("name", "title"), "the name stands under `workflow:`"),
}
MAX_IMPORT_DEPTH = 32
MAX_IMPORTS = 1000


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be read of a workflow, and everything that is wrong with it."""

    workflow: Workflow | None  # None where anything is wrong
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
        return (folder / key).read_bytes().decode("utf-8")

    return read_workflow(path.name, read, shown=lambda key: posixpath.normpath(posixpath.join(shown_folder, key)))


def parse_workflow(root: str, read: Callable[[str], str], *, shown: Callable[[str], str] = lambda key: key) -> Workflow:
    """Parse the file with key `root`. `read` gives the text of a key: a path relative to the root file's folder.

    Pure but for `read`; with `read=recorded.__getitem__` a recorded set of sources is parsed again.
    """
    return read_workflow(root, read, shown=shown).complete()


def read_workflow(root: str, read: Callable[[str], str], *, shown: Callable[[str], str] = lambda key: key) -> Reading:
    """`parse_workflow` for those who can do something with a part."""
    problems = Problems()
    session = _Session(read, shown, problems)
    try:
        text = read(root)
    except UnicodeDecodeError:
        hint = "save it as UTF-8"
        return _unreadable(Diagnostic("YAML_SYNTAX", "the file is no UTF-8 text", file=shown(root), hint=hint))
    except (OSError, KeyError) as problem:
        message = f"the workflow file cannot be read: {_reason(problem)}"
        return _unreadable(Diagnostic("FILE_MISSING", message, file=shown(root), hint="check the path"))
    workflow = session.parse(root, text, (root,))
    if workflow is not None:
        workflow = replace(workflow, sources=dict(sorted(session.sources.items())))
    return Reading(workflow, tuple(session.files), tuple(problems))


def _unreadable(problem: Diagnostic) -> Reading:
    return Reading(None, (), (problem,))


def _reason(problem: Exception) -> str:
    return (problem.strerror or "it cannot be opened") if isinstance(problem, OSError) else "there is no such file"


class _Session:
    """The files of one workflow; each is parsed once, however often it is imported."""

    def __init__(self, read: Callable[[str], str], shown: Callable[[str], str], problems: Problems) -> None:
        self.read = read
        self.shown = shown
        self.problems = problems
        self.sources: dict[str, str] = {}
        self.parsed: dict[str, Workflow | None] = {}
        self.files: list[Workflow] = []  # those with problems too
        self.names: dict[str, Names] = {}  # of each parsed file, shared by all that import it
        self.instances: dict[str, int] = {}  # workflows in the tree below each file, itself included

    def parse(self, key: str, text: str, stack: tuple[str, ...]) -> Workflow | None:
        """The workflow; None where something is wrong with it, so that nothing is said about references into it."""
        self.sources[key] = text
        told = len(self.problems)
        node = read_yaml(text, self.shown(key), self.problems)
        workflow = None if node is None else _File(self, key, stack, text).workflow(node)
        self.parsed[key] = workflow if len(self.problems) == told else None
        if workflow is not None:
            self.files.append(workflow)
            self.names[key] = names_of(workflow, self.names)
            self.instances[key] = 1 + sum(self.instances[i.workflow.source] for i in workflow.imports.values())
        return self.parsed[key]

    def imported(self, node: Scalar, key: str, stack: tuple[str, ...]) -> Workflow | None:
        """The workflow with this key; None where it is broken, missing or imports itself."""
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


class _File:
    """One file, from its root node to the model."""

    def __init__(self, session: _Session, key: str, stack: tuple[str, ...], text: str) -> None:
        self.session = session
        self.problems = session.problems
        self.key = key
        self.stack = stack
        self.top = Source(session.shown(key), text).place(0, 0)
        self.loops: dict[str, LoopDecl | None] = {}
        self.declarations = Declarations(session.problems)
        self.jobs = Jobs(session.problems, self.loops)
        self.taken: dict[str, tuple[str, Place]] = {}  # inputs, jobs and imports share one name space

    def workflow(self, node: Node) -> Workflow | None:
        if not isinstance(node, MapNode):
            self.problems.add(
                node.place, "WRONG_TYPE", f"a workflow is a map, not {kind_of(node)}", "begin with `workflow: my-name`"
            )
            return None
        fields = self.jobs.known_keys(node, WORKFLOW_KEYS, "a workflow", _ELSEWHERE)
        self._reserve(node)
        name = self._name(fields)
        inputs, input_types = self._inputs(fields)
        imported = self._imports(fields)
        loop_nodes = self._loop_nodes(fields)
        names = Names(
            input_types,
            frozenset(loop_nodes),
            {},
            {name: self.session.names[w.source] if w else None for name, (_, _, w) in imported.items()},
        )
        for loop, (key, value) in loop_nodes.items():
            self.loops[loop] = self.declarations.loop(key, value, names)
        drafts = self._drafts(fields, names)
        names = Names(names.inputs, names.loops, {name: draft.shape for name, draft in drafts.items()}, names.imports)
        jobs = {name: self.jobs.job(draft, names) for name, draft in drafts.items()}
        imports: dict[str, ImportDecl] = {}
        for import_name, (key, entries, workflow) in imported.items():
            decl = check_import_inputs(key, entries, workflow, names, self.jobs)
            if decl is not None:
                imports[import_name] = decl
        if sum(self.session.instances[decl.workflow.source] for decl in imports.values()) > MAX_IMPORTS:
            message = f"more than {MAX_IMPORTS} workflows are imported, counting each import"
            self.problems.add(self.top, "YAML_SYNTAX", message, "use loops instead of repeated imports")
        description = self.jobs.string(fields["description"], "a description") if "description" in fields else ""
        return Workflow(
            name=name,
            description=description or "",
            inputs=inputs,
            loops={name: loop for name, loop in self.loops.items() if loop is not None},
            jobs=jobs,
            imports=imports,
            source=self.key,
            sources={},
        )

    def _name(self, fields: Mapping[str, Node]) -> str:
        if "workflow" not in fields:
            self.problems.add(self.top, "MISSING_KEY", "the workflow has no name", "begin with `workflow: my-name`")
            return ""
        name = self.jobs.string(fields["workflow"], "the name of the workflow")
        if name is not None and not WORKFLOW_NAME.fullmatch(name):
            hint = "it is made of small letters, digits and `-`, and begins with a letter"
            self.problems.add(
                fields["workflow"].place, "NAME_INVALID", f"`{name}` cannot be the name of a workflow", hint
            )
        elif name in RESERVED_WORKFLOW_NAMES:
            self.problems.add(
                fields["workflow"].place,
                "NAME_INVALID",
                f"a workflow cannot be called `{name}`: its state would stand where whyrun keeps its own",
                "choose another name; not " + ", ".join(f"`{other}`" for other in sorted(RESERVED_WORKFLOW_NAMES)),
            )
        return name or ""

    def _section(self, fields: Mapping[str, Node], section: str, hint: str) -> list[tuple[Scalar, Node]]:
        node = fields.get(section)
        if node is None:
            return []
        entries = self.jobs.as_map(node, f"`{section}`", hint)
        return entries.entries if entries is not None else []

    def _reserve(self, root: MapNode) -> None:
        """Give each name of the shared space to whoever stands first in the file."""
        for section, node in root.entries:
            kind = {"inputs": "an input", "jobs": "a job", "imports": "an import"}.get(section.value)
            if kind is None or not isinstance(node, MapNode):
                continue
            for key, _ in node.entries:
                if not self.jobs.name(key, kind):
                    continue
                if key.value in self.taken:
                    other, place = self.taken[key.value]
                    self.problems.add(
                        key.place,
                        "NAME_TAKEN",
                        f"`{key.value}` is already {other} (line {place.line})",
                        "inputs, jobs and imports share one name space: rename one",
                    )
                else:
                    self.taken[key.value] = (kind, key.place)

    def _inputs(self, fields: Mapping[str, Node]) -> tuple[dict[str, InputDecl], dict[str, Type | None]]:
        decls: dict[str, InputDecl] = {}
        types: dict[str, Type | None] = {}
        for key, node in self._section(fields, "inputs", "write `Topic: {type: string}`"):
            decl, types[key.value] = self.declarations.input(key, node)
            if decl is not None:
                decls[key.value] = decl
        return decls, types

    def _loop_nodes(self, fields: Mapping[str, Node]) -> dict[str, tuple[Scalar, Node]]:
        section = self._section(fields, "loops", "write `segment: {count: 3}`")
        return {key.value: (key, node) for key, node in section if check_loop_name(self.jobs, key)}

    def _imports(self, fields: Mapping[str, Node]) -> dict[str, tuple[Scalar, dict[str, Node], Workflow | None]]:
        found: dict[str, tuple[Scalar, dict[str, Node], Workflow | None]] = {}
        for key, node in self._section(fields, "imports", "write `Intro: {workflow: ./intro.yaml}`"):
            found[key.value] = (key, {}, None)
            what = f"import `{key.value}`"
            entries = self.jobs.as_map(node, what, f"write `{key.value}: {{workflow: ./intro.yaml}}`")
            if entries is None:
                continue
            import_fields = self.jobs.known_keys(entries, IMPORT_KEYS, what)
            place = import_place(key, import_fields, self.key, self.jobs)
            if place is not None:
                node_of_path, path = place
                found[key.value] = (key, import_fields, self.session.imported(node_of_path, path, self.stack))
        return found

    def _drafts(self, fields: Mapping[str, Node], names: Names) -> dict[str, JobDraft]:
        if "jobs" not in fields:
            self.problems.add(self.top, "MISSING_KEY", "the workflow has no `jobs`", "add them below `jobs:`")
        section = self._section(fields, "jobs", "write the name of a job and its keys below it")
        return {key.value: self.jobs.draft(key, node, names) for key, node in section}
