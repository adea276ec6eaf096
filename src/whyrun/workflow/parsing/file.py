"""Workflow files: from the root node of each file to its model, and to the names that references may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from whyrun.workflow.fields import (
    MAX_NAME,
    RESERVED_WORKFLOW_NAMES,
    WORKFLOW_NAME,
    Fields,
    Key,
    is_name,
    map_schema,
    meant_key,
    names_of,
    object_schema,
)
from whyrun.workflow.model import Composition, ImportDecl, InputDecl, LoopDecl, Place, Workflow
from whyrun.workflow.nodes import MapNode, Node, Problems, Scalar, Source, has_duplicates, kind_of
from whyrun.workflow.parsing.declarations import COMPOSITION_KEYS, CompositionReader, Inputs
from whyrun.workflow.parsing.imports import IMPORT_KEY_NAMES, ImportReader, import_place, loops_named
from whyrun.workflow.parsing.job_expressions import JobDraft
from whyrun.workflow.parsing.job_keys import JOB_KEY_NAMES
from whyrun.workflow.parsing.jobs import DEFAULT_KEY_NAMES, Defaults, Jobs, defaults_schema
from whyrun.workflow.parsing.loops import Loops, check_loop_name, in_order
from whyrun.workflow.scope import UNKNOWN_JOB, AnyKey, AnyName, InputShape, Names, imported_names
from whyrun.workflow.yaml_source import read_yaml

WORKFLOW_KEYS = (
    Key(
        name="workflow",
        meaning="The name of the workflow: lower-case letters, digits and `-`.",
        details="State is kept under this name.",
        schema={
            "type": "string",
            "pattern": "^[a-z][a-z0-9-]*$",
            "not": {"enum": sorted(RESERVED_WORKFLOW_NAMES)},
        },
        required=True,
    ),
    Key(name="description", meaning="A sentence for people.", schema={"type": "string"}),
    Key(name="inputs", meaning="Values, files and datasets that the user provides.", schema=map_schema("input")),
    Key(name="loops", meaning="The ranges over which jobs repeat.", schema=map_schema("loop")),
    Key(
        name="defaults",
        meaning="Keys for all jobs of this file; a job's own key replaces the default as a whole.",
        details="See [defaults](#defaults).",
        schema=defaults_schema(),
    ),
    Key(
        name="jobs",
        meaning="The work. With `for:` a job has many instances.",
        schema=map_schema("job"),
        required=True,
    ),
    Key(name="imports", meaning="Other workflows, used as parts of this one.", schema=map_schema("import")),
    Key(
        name="composition",
        meaning="How datasets are composed: the mode, which the shape of the graph must fit, and roles.",
        details="See [datasets](datasets.md).",
        schema=object_schema(COMPOSITION_KEYS),
    ),
    Key(
        name="budget",
        meaning="What a run may spend: `5` US dollars, or `5 EUR`. Of an imported workflow it does not count.",
        details="See [budgets](money.md#budgets).",
        schema={
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?( [A-Z][A-Z0-9]{1,9})?$"},
            ]
        },
    ),
)
_KEY_NAMES = names_of(WORKFLOW_KEYS)
_ELSEWHERE = {
    name: f"`{name}` is a key of a job: write it below the name of the job"
    + (", or under `defaults:` for all jobs" if name in DEFAULT_KEY_NAMES else "")
    for name in JOB_KEY_NAMES
    if name not in _KEY_NAMES
}
MAX_IMPORTS = 1000
MAX_IMPORT_DEPTH = 32


class _Section(msgspec.Struct, frozen=True):
    """`inputs:`, `loops:`, `imports:` or `jobs:`."""

    entries: Sequence[tuple[Scalar, Node]]
    duplicates: frozenset[str]  # names that are declared twice: it is not known which declaration counts
    open: bool  # there may be other names

    @property
    def names(self) -> list[str]:
        return [key.value for key, _ in self.entries]


class _Import(msgspec.Struct, frozen=True):
    key: Scalar
    fields: Mapping[str, Node]
    workflow: Workflow | None  # None if its content is not known


class _Root(msgspec.Struct, frozen=True):
    """The file as a map of sections."""

    node: MapNode
    fields: Mapping[str, Node]
    reader: Fields

    def may_have(self, section: str) -> bool:
        """Whether an absent section may be written under an unknown key."""
        unknown = [(key.value, value) for key, value in self.node.entries if key.value not in _KEY_NAMES]
        if not unknown:
            return False
        from whyrun.workflow.foreign_words import foreign_words  # imported late: only a mistake needs it

        foreign = foreign_words("workflow")
        return any(
            foreign[key].ours == section
            if key in foreign
            else isinstance(value, MapNode) and meant_key(key, _KEY_NAMES) is None
            for key, value in unknown
        )

    def section(self, name: str, hint: str) -> _Section:
        if name not in self.fields:
            return _Section((), frozenset(), self.may_have(name))
        section = self.reader.as_map(self.fields[name], f"`{name}`", hint)
        if section is None:
            return _Section((), frozenset(), True)
        # In an expression `my-job` is a subtraction, so nothing can be said about references to such a name.
        valid = all(is_name(key.value) for key, _ in section.entries)
        return _Section(section.entries, frozenset(section.duplicates), name in self.node.duplicates or not valid)


class WorkflowFiles:
    """The files of one workflow; each is parsed once, however often it is imported."""

    def __init__(self, read: Callable[[str], str], shown: Callable[[str], str], problems: Problems) -> None:
        self.read = read
        self.shown = shown
        self.problems = problems
        self.sources: dict[str, str] = {}
        self.parsed: dict[str, Workflow | None] = {}
        self.files: list[Workflow] = []
        self.names: dict[str, Names] = {}  # the names of each parsed file, shared by all that import it
        self.instances: dict[str, int] = {}  # workflows in the tree below each file, itself included
        self.too_many = False  # whether the limit is reported

    def parse(self, key: str, text: str, stack: tuple[str, ...]) -> Workflow | None:
        """The readable part of the workflow; None after a syntax error."""
        self.sources[key] = text
        node = read_yaml(text, self.shown(key), self.problems)
        workflow = None if node is None else _FileReader(self, key, stack, text).workflow(node)
        self.parsed[key] = workflow
        if workflow is not None:
            self.files.append(workflow)
            self.instances[key] = 1 + sum(self.instances[i.workflow.source] for i in workflow.imports.values())
        return workflow

    def imported(self, node: Scalar, key: str, stack: tuple[str, ...]) -> Workflow | None:
        """The readable part of an imported workflow; None if it is missing or imports itself."""
        if key in stack:
            cycle = " → ".join((*stack[stack.index(key) :], key))
            self.problems.add(node.place, "CYCLE", f"this file imports itself: {cycle}", "remove one of the imports")
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
            self.problems.add(node.place, "YAML_SYNTAX", f"`{node.value}` is not UTF-8 text", "save it as UTF-8")
            return None
        except (OSError, KeyError, ValueError) as problem:
            message = f"`{node.value}` cannot be read: {os_reason(problem)}"
            hint = near_file(problem) or "paths are relative to the importing file"
            self.problems.add(node.place, "FILE_MISSING", message, hint)
            return None
        return self.parse(key, text, (*stack, key))


def os_reason(problem: Exception) -> str:
    return (problem.strerror or "it cannot be opened") if isinstance(problem, OSError) else "there is no such file"


def near_file(problem: Exception) -> str | None:
    """A hint with the file of the same folder that was probably meant."""
    if not isinstance(problem, FileNotFoundError) or problem.filename is None:
        return None
    import os.path
    from difflib import get_close_matches  # imported late: only errors need it

    folder, name = os.path.split(problem.filename)
    near = get_close_matches(name, os.listdir(folder) if os.path.isdir(folder) else (), n=1, cutoff=0.8)
    return f"did you mean `{near[0]}`, in the same folder?" if near else None


class _FileReader:
    """One file, from its root node to the model."""

    def __init__(self, files: WorkflowFiles, key: str, stack: tuple[str, ...], text: str) -> None:
        self.files = files
        self.problems = files.problems
        self.key = key
        self.stack = stack
        self.top = Source(files.shown(key), text).place(0, 0)
        self.loops: dict[str, LoopDecl | None] = {}
        self.loop_reader = Loops(files.problems)
        self.jobs = Jobs(files.problems, self.loops)
        self.taken: dict[str, tuple[str, Place]] = {}  # inputs, jobs and imports share one name space
        self.ambiguous: set[str] = set()  # names of both a job and an import
        self.broken: set[str] = set()  # see `Workflow.broken`

    def workflow(self, node: Node) -> Workflow | None:
        if not isinstance(node, MapNode):
            self.problems.add(
                node.place, "WRONG_TYPE", f"a workflow is a map, not {kind_of(node)}", "begin with `workflow: my-name`"
            )
            return None
        root = _Root(node, self.jobs.known_keys(node, _KEY_NAMES, "a workflow", _ELSEWHERE, "workflow"), self.jobs)
        self._reserve(node)
        name = self._name(root)
        loops = root.section("loops", "write `segment: {count: 3}`")
        loop_names = AnyName(loops.names) if loops.open else frozenset(loops.names)
        reader = Inputs(self.problems, loop_names)
        inputs, shapes_of_inputs = self._inputs(root.section("inputs", "write `Topic: {type: string}`"), reader)
        import_section = root.section("imports", "write `Intro: {workflow: ./intro.yaml}`")
        imported = self._imports(import_section)
        inside: dict[str, Names | None] = dict.fromkeys(import_section.names)
        inside.update(
            (name, imported_names(self.files.names[i.workflow.source], loops_named(i.fields)))
            for name, i in imported.items()
            if i.workflow
        )
        names = Names(shapes_of_inputs, loop_names, {}, inside)
        self._loops(loops, names)
        self._read_paths(reader, inputs, names)
        if "jobs" not in root.fields and not root.may_have("jobs"):
            self.problems.add(self.top, "MISSING_KEY", "the workflow has no `jobs`", "add them below `jobs:`")
        section = root.section("jobs", "write the name of a job and its keys below it")
        defaults = root.fields.get("defaults")
        drafts = self._drafts(section, names, self.jobs.defaults(defaults, names) if defaults else Defaults())
        shapes = {job: drafts[job].shape if job in drafts else UNKNOWN_JOB for job in section.names}
        # An unknown name may be a job or an import, so it is reported only if all of both are known.
        complete = not section.open and not import_section.open
        names = Names(shapes_of_inputs, names.loops, shapes if complete else AnyKey(shapes, UNKNOWN_JOB), inside)
        self.files.names[self.key] = names
        self.loops.update(self.loop_reader.with_jobs(self.loops, names))
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
            composition=self._composition(root.fields.get("composition"), inputs, shapes_of_inputs),
            budget=self._budget(root.fields["budget"]) if "budget" in root.fields else None,
        )

    def _budget(self, node: Node) -> str | None:
        # The text: a number is taken as it is written.
        text = node.text if isinstance(node, Scalar) and not isinstance(node.value, bool) else ""
        from whyrun.money import is_amount, meant_amount  # imported late: decimals take time to import

        if is_amount(text):
            return text
        what = f"`{text}`" if text else kind_of(node)
        meant = meant_amount(text)
        hint = "write `budget: 5`, or `budget: 5 EUR`" if meant is None else f"write `budget: {meant}`"
        self.jobs.wrong(node, f"a budget is an amount, such as `5` or `5 EUR`, not {what}", hint)
        return None

    def _composition(
        self, node: Node | None, inputs: Mapping[str, InputDecl], shapes: Mapping[str, InputShape | None]
    ) -> Composition | None:
        if node is None:
            return None
        return CompositionReader(self.problems).composition(node, inputs, shapes)

    def _name(self, root: _Root) -> str:
        fields = root.fields
        if "workflow" not in fields:
            if not root.may_have("workflow"):
                hint = "begin with `workflow: my-name`"
                self.problems.add(self.top, "MISSING_KEY", "the workflow has no name", hint)
            return ""
        name = self.jobs.string(fields["workflow"], "the name of the workflow")
        if name is not None and (len(name) > MAX_NAME or not WORKFLOW_NAME.fullmatch(name)):
            hint = "use lower-case letters, digits and `-`, and begin with a letter"
            if len(name) > MAX_NAME:
                hint = f"names have up to {MAX_NAME} characters"
            self.problems.add(
                fields["workflow"].place, "NAME_INVALID", f"`{name}` cannot be the name of a workflow", hint
            )
        elif name in RESERVED_WORKFLOW_NAMES:
            self.problems.add(
                fields["workflow"].place,
                "NAME_INVALID",
                f"a workflow cannot be called `{name}`: Whyrun keeps its own state under this name",
                "choose another name; not " + ", ".join(f"`{other}`" for other in sorted(RESERVED_WORKFLOW_NAMES)),
            )
        return name or ""

    def _reserve(self, root: MapNode) -> None:
        """Report names that inputs, jobs and imports share. The first declaration in the file keeps the name."""
        for section, node in root.entries:
            kind = {"inputs": "an input", "jobs": "a job", "imports": "an import"}.get(section.value)
            if kind is None or not isinstance(node, MapNode):
                continue
            for key, _ in node.entries:
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

    def _read_paths(self, reader: Inputs, inputs: dict[str, InputDecl], names: Names) -> None:
        for name in reader.paths:
            decl = reader.with_path(inputs[name], names, self.loops) if name in inputs else None
            if decl is not None:
                inputs[name] = decl
            elif inputs.pop(name, None) is not None:
                self.broken.add(f"inputs.{name}")

    def _inputs(self, section: _Section, reader: Inputs) -> tuple[dict[str, InputDecl], dict[str, InputShape | None]]:
        decls: dict[str, InputDecl] = {}
        shapes: dict[str, InputShape | None] = dict.fromkeys(section.names)
        for key, node in section.entries:
            failures = self.problems.failures
            decl, shape = reader.input(key, node)
            if self.problems.failures > failures or has_duplicates(node):
                self.broken.add(f"inputs.{key.value}")
            if key.value not in section.duplicates:
                shapes[key.value] = shape
                if decl is not None:
                    decls[key.value] = decl
        self.broken |= {f"inputs.{name}" for name in section.duplicates}
        if section.open:
            self.broken.add("inputs")
            shapes = AnyKey(shapes, None)
        return decls, shapes

    def _drafts(self, section: _Section, names: Names, defaults: Defaults) -> dict[str, JobDraft]:
        drafts: dict[str, JobDraft] = {}
        for key, node in section.entries:
            draft = drafts[key.value] = self.jobs.draft(key, node, names, defaults)
            if key.value in section.duplicates:
                draft.shape = UNKNOWN_JOB
                draft.broken.add("for")
        return drafts

    def _loops(self, section: _Section, names: Names) -> None:
        loops = self.loop_reader
        for key, node in section.entries:
            failures = self.problems.failures
            decl = loops.loop(key, node, names) if check_loop_name(loops, key) else None
            sound = (
                self.problems.failures == failures and not has_duplicates(node) and key.value not in section.duplicates
            )
            self.loops[key.value] = decl if sound else None
        ordered = in_order(self.loops, self.problems)
        self.loops.clear()  # the readers of jobs hold it, too
        self.loops.update(ordered)

    def _imports(self, section: _Section) -> dict[str, _Import]:
        imports: dict[str, _Import] = {}
        for key, node in section.entries:
            imports[key.value] = _Import(key, {}, None)
            what = f"import `{key.value}`"
            entries = self.jobs.as_map(node, what, f"write `{key.value}: {{workflow: ./intro.yaml}}`")
            if entries is None:
                continue
            fields = self.jobs.known_keys(entries, IMPORT_KEY_NAMES, what, place="import")
            place = import_place(key, fields, self.key, self.jobs)
            if place is None:
                continue
            node_of_path, path = place
            workflow = self.files.imported(node_of_path, path, self.stack)
            # If a name has two meanings, or a key appears twice, the content of the import is not known.
            clear = key.value not in section.duplicates and key.value not in self.ambiguous and not entries.duplicates
            imports[key.value] = _Import(key, fields, workflow if clear else None)
        return imports

    def _import_decls(self, imported: Mapping[str, _Import], names: Names) -> dict[str, ImportDecl] | None:
        """None if there are too many, counting the imports of imports."""
        imports: dict[str, ImportDecl] = {}
        for name, found in imported.items():
            decl = ImportReader(self.jobs, found.key, found.fields, names).read(found.workflow)
            if decl is not None:
                imports[name] = decl
        if sum(self.files.instances[decl.workflow.source] for decl in imports.values()) > MAX_IMPORTS:
            if not self.files.too_many:  # report it once: the importing files exceed the limit, too
                message = f"more than {MAX_IMPORTS} workflows are imported, counting each import"
                self.problems.add(self.top, "YAML_SYNTAX", message, "use loops instead of repeated imports")
            self.files.too_many = True
            return None
        return imports
