"""One workflow file: from its root node to the model, and to the names that references may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from whyrun.workflow.declarations import INPUT_KEYS, LOOP_KINDS, Declarations, check_loop_name
from whyrun.workflow.fields import MAX_NAME, RESERVED_WORKFLOW_NAMES, WORKFLOW_NAME, Fields, is_name, meant_key
from whyrun.workflow.imports import IMPORT_KEYS, check_import_inputs, import_place
from whyrun.workflow.job_keys import JobDraft
from whyrun.workflow.jobs import JOB_KEYS, Jobs
from whyrun.workflow.model import ImportDecl, InputDecl, LoopDecl, Place, Type, Workflow
from whyrun.workflow.nodes import MapNode, Node, Scalar, Source, doubtful, kind_of
from whyrun.workflow.outputs import OUTPUT_KEYS
from whyrun.workflow.scope import UNKNOWN_JOB, AnyKey, AnyName, Names
from whyrun.workflow.source import fray

if TYPE_CHECKING:
    from whyrun.workflow.composition.model import Composition
    from whyrun.workflow.parse import Session

WORKFLOW_KEYS = ("workflow", "description", "composition", "inputs", "loops", "imports", "jobs")
_ELSEWHERE = {
    **dict.fromkeys(("steps", "tasks", "rules", "stages"), "jobs stand under `jobs:`"),
    **dict.fromkeys(("name", "title"), "the name stands under `workflow:`"),
}
_KEYS_INSIDE = frozenset({*JOB_KEYS, *OUTPUT_KEYS, *INPUT_KEYS, *LOOP_KINDS, *IMPORT_KEYS})
MAX_IMPORTS = 1000


@dataclass(frozen=True, slots=True)
class _Section:
    """`inputs:`, `loops:`, `imports:` or `jobs:`, as far as it could be read."""

    entries: list[tuple[Scalar, Node]]  # without what was cut off where reading stopped
    names: list[str]  # of that too
    doubtful: frozenset[str]  # names whose declaration is not known: it was cut off, or there are two
    open: bool  # there may be other names


class _Import(NamedTuple):
    key: Scalar
    fields: Mapping[str, Node]
    workflow: Workflow | None  # None where nothing is known of what is in it


@dataclass(frozen=True, slots=True)
class _Root:
    """The file as a map of sections."""

    node: MapNode
    fields: Mapping[str, Node]
    reader: Fields

    def may_have(self, section: str) -> bool:
        """Whether a section that is not there may have been written: below the place where reading stopped, or under
        a key that the language does not have."""
        unknown = [(key.value, value) for key, value in self.node.entries if key.value not in WORKFLOW_KEYS]
        return not self.node.complete or any(
            f"`{section}:`" in _ELSEWHERE[key]
            if key in _ELSEWHERE
            else isinstance(value, MapNode) and meant_key(key, WORKFLOW_KEYS) is None
            for key, value in unknown
        )

    def section(self, name: str, hint: str) -> _Section:
        if name not in self.fields:
            return _Section([], [], frozenset(), self.may_have(name))
        found = self.reader.as_map(self.fields[name], f"`{name}`", hint)
        if found is None:
            return _Section([], [], frozenset(), True)
        cut = {key.value for key, _ in _edge(found)}
        names = [key.value for key, _ in found.entries]
        # A name like `my-job` is a subtraction in an expression, so about such a reference nothing can be said.
        unsure = not found.complete or name in self.node.twice or not all(map(is_name, names))
        entries = [(key, value) for key, value in found.entries if key.value not in cut]
        return _Section(entries, names, frozenset(cut | found.twice), unsure)


def _edge(section: MapNode) -> list[tuple[Scalar, Node]]:
    """The entries just before the place where reading stopped that may not be what they seem to be.

    The usual cause is a line that is indented wrongly: then keys of a job stand among the jobs, and the job itself has
    ended too early. So these are counted in.
    """
    entries = section.entries
    if section.complete or not entries:
        return []
    first = len(entries) - 1
    while first > 0 and (_is_misplaced(entries[first][0].value) or _ends_empty(entries[first - 1][1])):
        first -= 1
    return entries[first:]


def _is_misplaced(name: str) -> bool:
    return name in _KEYS_INSIDE or not is_name(name)


def _ends_empty(node: Node) -> bool:
    """Whether it ends with `outputs:` and nothing below, so that what comes next was meant to stand there."""
    while isinstance(node, MapNode) and node.entries:
        node = node.entries[-1][1]
    return isinstance(node, Scalar) and node.value is None


def _drop_strays(root: MapNode) -> None:
    """The same for whole sections."""
    while root.entries and root.entries[-1][0].value not in ("inputs", "loops", "imports", "jobs"):
        root.entries.pop()
        fray(root)


class FileReader:
    """One file, from its root node to the model."""

    def __init__(self, session: Session, key: str, stack: tuple[str, ...], text: str) -> None:
        self.session = session
        self.problems = session.problems
        self.key = key
        self.stack = stack
        self.top = Source(session.shown(key), text).place(0, 0)
        self.loops: dict[str, LoopDecl | None] = {}
        self.declarations = Declarations(session.problems)
        self.jobs = Jobs(session.problems, self.loops)
        self.taken: dict[str, tuple[str, Place]] = {}  # inputs, jobs and imports share one name space
        self.ambiguous: set[str] = set()  # names of both a job and an import
        self.broken: set[str] = set()  # see `Workflow.broken`

    def workflow(self, node: Node) -> Workflow | None:
        if not isinstance(node, MapNode):
            self.problems.add(
                node.place, "WRONG_TYPE", f"a workflow is a map, not {kind_of(node)}", "begin with `workflow: my-name`"
            )
            return None
        if not node.complete:
            _drop_strays(node)
        root = _Root(node, self.jobs.known_keys(node, WORKFLOW_KEYS, "a workflow", _ELSEWHERE), self.jobs)
        self._reserve(node)
        name = self._name(root)
        inputs, types = self._inputs(root.section("inputs", "write `Topic: {type: string}`"))
        import_section = root.section("imports", "write `Intro: {workflow: ./intro.yaml}`")
        imported = self._imports(import_section)
        inside: dict[str, Names | None] = dict.fromkeys(import_section.names)
        inside.update((name, self.session.names[i.workflow.source]) for name, i in imported.items() if i.workflow)
        loops = root.section("loops", "write `segment: {count: 3}`")
        names = Names(types, AnyName(loops.names) if loops.open else frozenset(loops.names), {}, inside)
        self._loops(loops, names)
        if "jobs" not in root.fields and not root.may_have("jobs"):
            self.problems.add(self.top, "MISSING_KEY", "the workflow has no `jobs`", "add them below `jobs:`")
        section = root.section("jobs", "write the name of a job and its keys below it")
        drafts = self._drafts(section, names)
        shapes = {job: drafts[job].shape if job in drafts else UNKNOWN_JOB for job in section.names}
        # A name that is not among the jobs may be that of an import, so both must be known in full.
        in_full = not section.open and not import_section.open
        names = Names(types, names.loops, shapes if in_full else AnyKey(shapes, UNKNOWN_JOB), inside)
        self.session.names[self.key] = names
        jobs = {job: self.jobs.job(draft, names) for job, draft in drafts.items()}
        imports = self._import_decls(imported, names)
        if imports is None:
            return None
        text = root.fields.get("description")
        description = self.jobs.string(text, "a description") if text is not None else ""
        return Workflow(
            name=name,
            description=description or "",
            inputs=inputs,
            loops={loop: decl for loop, decl in self.loops.items() if decl is not None},
            jobs=jobs,
            imports=imports,
            source=self.key,
            sources={},
            broken=frozenset(self.broken),
            composition=self._composition(root.fields.get("composition"), inputs, types),
        )

    def _composition(
        self, node: Node | None, inputs: Mapping[str, InputDecl], types: Mapping[str, Type | None]
    ) -> Composition | None:
        if node is None:
            return None  # nearly always, and then nothing of it is imported
        from whyrun.workflow.composition.declared import CompositionReader

        return CompositionReader(self.problems).composition(node, inputs, types)

    def _name(self, root: _Root) -> str:
        fields = root.fields
        if "workflow" not in fields:
            if not root.may_have("workflow"):
                hint = "begin with `workflow: my-name`"
                self.problems.add(self.top, "MISSING_KEY", "the workflow has no name", hint)
            return ""
        name = self.jobs.string(fields["workflow"], "the name of the workflow")
        if name is not None and (len(name) > MAX_NAME or not WORKFLOW_NAME.fullmatch(name)):
            hint = "it is made of small letters, digits and `-`, and begins with a letter"
            if len(name) > MAX_NAME:
                hint = f"names have up to {MAX_NAME} characters"
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

    def _reserve(self, root: MapNode) -> None:
        """Give each name of the shared space to whoever stands first in the file."""
        for section, node in root.entries:
            kind = {"inputs": "an input", "jobs": "a job", "imports": "an import"}.get(section.value)
            if kind is None or not isinstance(node, MapNode):
                continue
            for key, _ in node.entries[: len(node.entries) - len(_edge(node))]:
                if not self.jobs.name(key, kind):
                    continue
                if key.value in self.taken:
                    other, place = self.taken[key.value]
                    if {kind, other} == {"a job", "an import"}:
                        self.ambiguous.add(key.value)
                    self.problems.add(
                        key.place,
                        "NAME_TAKEN",
                        f"`{key.value}` is already {other} (line {place.line})",
                        "inputs, jobs and imports share one name space: rename one",
                    )
                else:
                    self.taken[key.value] = (kind, key.place)

    def _inputs(self, section: _Section) -> tuple[dict[str, InputDecl], dict[str, Type | None]]:
        decls: dict[str, InputDecl] = {}
        types: dict[str, Type | None] = dict.fromkeys(section.names)
        for key, node in section.entries:
            doubts = self.problems.doubts
            decl, type_ = self.declarations.input(key, node)
            if self.problems.doubts > doubts or doubtful(node):
                self.broken.add(f"inputs.{key.value}")
            if key.value not in section.doubtful:
                types[key.value] = type_
                if decl is not None:
                    decls[key.value] = decl
        self.broken |= {f"inputs.{name}" for name in section.doubtful}
        if section.open:
            self.broken.add("inputs")
            types = AnyKey(types, None)
        return decls, types

    def _drafts(self, section: _Section, names: Names) -> dict[str, JobDraft]:
        drafts: dict[str, JobDraft] = {}
        for key, node in section.entries:
            draft = drafts[key.value] = self.jobs.draft(key, node, names)
            if key.value in section.doubtful:
                draft.shape = UNKNOWN_JOB
                draft.broken.add("for")
        return drafts

    def _loops(self, section: _Section, names: Names) -> None:
        for key, node in section.entries:
            doubts = self.problems.doubts
            decl = self.declarations.loop(key, node, names) if check_loop_name(self.jobs, key) else None
            sound = self.problems.doubts == doubts and not doubtful(node) and key.value not in section.doubtful
            self.loops[key.value] = decl if sound else None

    def _imports(self, section: _Section) -> dict[str, _Import]:
        found: dict[str, _Import] = {}
        for key, node in section.entries:
            found[key.value] = _Import(key, {}, None)
            what = f"import `{key.value}`"
            entries = self.jobs.as_map(node, what, f"write `{key.value}: {{workflow: ./intro.yaml}}`")
            if entries is None:
                continue
            fields = self.jobs.known_keys(entries, IMPORT_KEYS, what)
            place = import_place(key, fields, self.key, self.jobs)
            if place is None:
                continue
            node_of_path, path = place
            workflow = self.session.imported(node_of_path, path, self.stack)
            # Where one name means two things, or a key stands twice, nothing can be said about what is in it.
            clear = key.value not in section.doubtful and key.value not in self.ambiguous and not entries.twice
            found[key.value] = _Import(key, fields, workflow if clear else None)
        return found

    def _import_decls(self, imported: Mapping[str, _Import], names: Names) -> dict[str, ImportDecl] | None:
        """None where there are so many, with those of the imports, that nothing can be made of them."""
        imports: dict[str, ImportDecl] = {}
        for name, (key, fields, workflow) in imported.items():
            decl = check_import_inputs(key, fields, workflow, names, self.jobs)
            if decl is not None:
                imports[name] = decl
        if sum(self.session.instances[decl.workflow.source] for decl in imports.values()) > MAX_IMPORTS:
            if not self.session.too_many:  # once is enough: the files above import these too
                message = f"more than {MAX_IMPORTS} workflows are imported, counting each import"
                self.problems.add(self.top, "YAML_SYNTAX", message, "use loops instead of repeated imports")
            self.session.too_many = True
            return None
        return imports
