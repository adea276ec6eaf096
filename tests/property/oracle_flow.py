"""Generated workflows as data: what the generator builds, the oracles evaluate and the real parser gets as YAML.

The oracles read these records and never Whyrun's own model or graph, so a mistake in either side shows as a difference.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import yaml

Index = int | str
Indices = tuple[Index, ...]


# --- expressions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class At:
    index: Index


@dataclass(frozen=True)
class Own:
    """This instance's own index of a loop, or a neighbour's."""

    loop: str
    offset: int = 0


@dataclass(frozen=True)
class All:
    pass


Selector = At | Own | All
LeafPath = tuple[tuple[str, tuple[Selector, ...]], ...]


@dataclass(frozen=True)
class In:
    name: str
    selectors: tuple[Selector, ...] = ()


@dataclass(frozen=True)
class Out:
    job: str
    output: str
    selectors: tuple[Selector, ...] = ()
    leaf: LeafPath = ()


@dataclass(frozen=True)
class First:
    candidates: tuple[In | Out, ...]


@dataclass(frozen=True)
class Var:
    loop: str


@dataclass(frozen=True)
class Const:
    value: Any


@dataclass(frozen=True)
class Op:
    """and or not any all len sum exists == > : over the arguments."""

    name: str
    args: tuple[Expr, ...]


Expr = In | Out | First | Var | Const | Op


# --- what stands under `with:` -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Literal:
    value: Any


@dataclass(frozen=True)
class Format:
    parts: tuple[str | Expr, ...]


@dataclass(frozen=True)
class Listed:
    items: tuple[Term, ...]


@dataclass(frozen=True)
class Keyed:
    items: tuple[tuple[str, Term], ...]


Term = Literal | Format | Listed | Keyed | Expr


def is_reference(term: Term) -> bool:
    return isinstance(term, In | Out | First)


def is_fan_in(term: Term) -> bool:
    if isinstance(term, In):
        return any(isinstance(s, All) for s in term.selectors)
    if isinstance(term, Out):
        return any(isinstance(s, All) for s in (*term.selectors, *(s for _, here in term.leaf for s in here)))
    return False


def has_reference(term: Term) -> bool:
    if isinstance(term, Listed):
        return any(has_reference(item) for item in term.items)
    if isinstance(term, Keyed):
        return any(has_reference(item) for _, item in term.items)
    return is_reference(term)


# --- declarations ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    path: LeafPath
    type: str


@dataclass(frozen=True)
class Output:
    name: str  # says what it is: see oracle_pure
    type: str
    suffix: str | None = None  # of the published path; None: not published
    folder: str = "out"
    leaves: tuple[Leaf, ...] = ()

    @property
    def shown_suffix(self) -> str:
        return self.suffix if self.suffix is not None else {"text": ".txt", "json": ".json"}.get(self.type, "")


@dataclass(frozen=True)
class Job:
    name: str
    loops: tuple[str, ...] = ()
    with_: tuple[tuple[str, Term], ...] = ()
    outputs: tuple[Output, ...] = ()
    condition: Expr | None = None
    needs: tuple[str, ...] = ()
    exclude: tuple[tuple[tuple[str, Index], ...], ...] = ()
    include: tuple[Indices, ...] = ()
    deterministic: bool = False
    retries: int = 0
    module: str = "m0"
    env: tuple[tuple[str, Term], ...] = ()

    def output(self, name: str) -> Output:
        return next(o for o in self.outputs if o.name == name)


@dataclass(frozen=True)
class Loop:
    kind: str  # count values range each
    source: Any  # a number, a tuple of values, (first, last), or the name of an input

    @property
    def of_input(self) -> bool:
        return isinstance(self.source, str)


@dataclass(frozen=True)
class Flow:
    """A workflow and the world around it: input values, texts of input files, versions of the code."""

    jobs: Mapping[str, Job]
    loops: Mapping[str, Loop]
    values: Mapping[str, Any]  # input name → its value; files by path
    files: Mapping[str, str]  # path → text
    versions: Mapping[str, int] = field(default_factory=lambda: {"m0": 0, "m1": 0, "m2": 0})
    texts: bool = False  # the files among the inputs are declared as texts

    def input_type(self, name: str) -> str:
        return INPUT_TYPES[name].replace("file", "text" if self.texts else "file")

    def with_job(self, job: Job) -> Flow:
        return replace(self, jobs={**self.jobs, job.name: job})


INPUT_TYPES = {
    "Files": "file[]",
    "Single": "file",
    "Words": "string[]",
    "Switches": "boolean[]",
    "Title": "string",
    "Num": "integer",
    "Flag": "boolean",
}
MODULI = {"m0": 2, "m1": 7, "m2": 10**18}


# --- instances and their IDs -------------------------------------------------------------------------------------


def loop_values(flow: Flow, name: str) -> list[Index]:
    loop = flow.loops[name]
    source = flow.values[loop.source] if loop.of_input else loop.source
    if loop.kind == "each":
        return list(range(len(source)))
    if loop.kind == "count":
        return list(range(source))
    if loop.kind == "range":
        return list(range(source[0], source[1] + 1))
    return list(source)


def rows(flow: Flow, job: Job) -> list[Indices]:
    found: list[Indices] = []
    for row in product(*(loop_values(flow, loop) for loop in job.loops)):
        named = dict(zip(job.loops, row, strict=True))
        if not any(all(named[k] == v for k, v in drop) for drop in job.exclude):
            found.append(row)
    for row in job.include:
        if row not in found:
            found.append(row)
    return found


def index_text(index: Index) -> str:
    if isinstance(index, int):
        return f"[{index}]"
    return f"[{json.dumps(index)}]" if re.fullmatch(r"[0-9]+", index) else f"[{index}]"


def indices_text(indices: tuple[Any, ...]) -> str:
    return "".join(index_text(i) for i in indices)


def job_id(job: str, row: Indices) -> str:
    return f"Job:{job}{indices_text(row)}"


Found = tuple[tuple[str, Indices], ...]  # a leaf's path with its indices


def leaf_text(leaf: Found) -> str:
    return "".join(f".{name}{indices_text(indices)}" for name, indices in leaf)


@dataclass(frozen=True)
class Artifact:
    job: str
    row: Indices
    output: str
    leaf: Found = ()

    @property
    def id(self) -> str:
        return f"Artifact:{self.job}.{self.output}{indices_text(self.row)}{leaf_text(self.leaf)}"

    @property
    def step(self) -> str:
        return job_id(self.job, self.row)

    @property
    def key(self) -> str:
        return f"{self.output}{leaf_text(self.leaf)}"


def leaves_of(flow: Flow, job: Job, row: Indices, output: Output) -> Iterator[tuple[Found, str]]:
    for leaf in output.leaves:
        used = list(dict.fromkeys(s.loop for _, here in leaf.path for s in here if isinstance(s, Own)))
        axes = [[row[job.loops.index(n)]] if n in job.loops else loop_values(flow, n) for n in used]
        for chosen in product(*axes):
            named = dict(zip(used, chosen, strict=True))
            path = tuple(
                (name, tuple(named[s.loop] if isinstance(s, Own) else s.index for s in here if not isinstance(s, All)))
                for name, here in leaf.path
            )
            yield path, leaf.type


def artifacts_of(flow: Flow, job: Job, row: Indices) -> dict[Artifact, str]:
    """Artifact → type, for everything that an instance declares."""
    found: dict[Artifact, str] = {}
    for output in job.outputs:
        found[Artifact(job.name, row, output.name)] = output.type
        for path, type_ in leaves_of(flow, job, row, output):
            found[Artifact(job.name, row, output.name, path)] = type_
    return found


def published_path(job: Job, row: Indices, output: Output) -> str | None:
    if output.suffix is None:
        return None
    tail = "".join(f"-{i}" for i in row)
    return f"{output.folder}/{job.name}-{output.name}{tail}{output.suffix}"


# --- YAML --------------------------------------------------------------------------------------------------------


def selectors_text(selectors: tuple[Selector, ...]) -> str:
    if not selectors:
        return ""
    parts = []
    for s in selectors:
        if isinstance(s, All):
            parts.append(":")
        elif isinstance(s, At):
            parts.append(json.dumps(s.index))
        else:
            parts.append(s.loop if not s.offset else f"{s.loop}{s.offset:+d}")
    return f"[{', '.join(parts)}]"


def expr_text(e: Expr) -> str:
    match e:
        case In(name, selectors):
            return f"inputs.{name}{selectors_text(selectors)}"
        case Out(job, output, selectors, leaf):
            tail = "".join(f".{name}{selectors_text(here)}" for name, here in leaf)
            return f"jobs.{job}.outputs.{output}{selectors_text(selectors)}{tail}"
        case First(candidates):
            return f"first({', '.join(expr_text(c) for c in candidates)})"
        case Var(loop):
            return loop
        case Const(value):
            return repr(value)
        case Op(("and" | "or" | "==" | ">") as name, args):
            return f"({f' {name} '.join(expr_text(a) for a in args)})"
        case Op("not", args):
            return f"(not {expr_text(args[0])})"
        case Op(name, args):
            return f"{name}({', '.join(expr_text(a) for a in args)})"
    raise AssertionError(e)


def term_yaml(term: Term) -> Any:
    match term:
        case Literal(value):
            return value
        case Format(parts):
            return "".join(p if isinstance(p, str) else f"${{{{ {expr_text(p)} }}}}" for p in parts)
        case Listed(items):
            return [term_yaml(item) for item in items]
        case Keyed(items):
            return {key: term_yaml(item) for key, item in items}
    return f"${{{{ {expr_text(term)} }}}}"


def job_yaml(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = {
        "uses": "python",
        "with": {"call": f"{job.module}:run", **{k: term_yaml(t) for k, t in job.with_}},
        "outputs": {o.name: output_yaml(job, o) for o in job.outputs},
    }
    if job.loops:
        found["for"] = list(job.loops)
    if job.exclude:
        found["exclude"] = [dict(entry) for entry in job.exclude]
    if job.include:
        found["include"] = [dict(zip(job.loops, row, strict=True)) for row in job.include]
    if job.condition is not None:
        found["if"] = term_yaml(job.condition)
    if job.needs:
        found["needs"] = list(job.needs)
    if job.deterministic:
        found["deterministic"] = True
    if job.retries:
        found["retries"] = job.retries
    if job.env:
        found["env"] = {k: term_yaml(t) for k, t in job.env}
    return found


def output_yaml(job: Job, output: Output) -> dict[str, Any]:
    found: dict[str, Any] = {"type": output.type}
    if output.suffix is not None:
        tail = "".join(f"-${{{{ {loop} }}}}" for loop in job.loops)
        found["path"] = f"{output.folder}/{job.name}-{output.name}{tail}{output.suffix}"
    if output.leaves:
        found["leaves"] = {
            ".".join(
                name + "".join(f"[{s.loop if isinstance(s, Own) else json.dumps(s.index)}]" for s in here)  # type: ignore[union-attr]
                for name, here in leaf.path
            ): leaf.type
            for leaf in output.leaves
        }
    return found


def loop_yaml(loop: Loop) -> dict[str, Any]:
    if loop.of_input:
        return {loop.kind: f"inputs.{loop.source}"}
    if loop.kind == "range":
        return {"range": f"{loop.source[0]}-{loop.source[1]}"}
    return {loop.kind: list(loop.source) if loop.kind == "values" else loop.source}


def flow_yaml(flow: Flow, style: int = 0) -> str:
    """The workflow file. `style` changes key order, comments and blank lines, and nothing that matters."""
    document = {
        "workflow": "lab",
        "inputs": {name: {"type": flow.input_type(name), "default": value} for name, value in flow.values.items()},
        "loops": {name: loop_yaml(loop) for name, loop in flow.loops.items()},
        "jobs": {name: job_yaml(job) for name, job in flow.jobs.items()},
    }
    if not style:
        return yaml.safe_dump(document, sort_keys=False, width=1000)
    chance = random.Random(style)

    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = list(value)
            chance.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    text = yaml.safe_dump(shuffled(document), sort_keys=False, width=1000, indent=chance.choice([2, 4]))
    lines = []
    for line in text.splitlines():
        if chance.random() < 0.2:
            lines.append(chance.choice(["", "# a remark", "   # more"]))
        lines.append(line)
    return "\n".join(lines) + "\n"


def module_source(flow: Flow, module: str, style: int = 0) -> str:
    remark = f"# remark {style}\n" if style else ""
    docs = f'    """Notes {style}."""\n' if style % 2 else ""
    # Imported in a way that fingerprints do not follow: it never changes, and taking it apart costs most of the time.
    return (
        f"{remark}import importlib\n\n{remark}\ndef run(context, **given):\n{docs}"
        f'    produce = importlib.import_module("pure").produce\n'
        f"    return produce({flow.versions[module]}, {MODULI[module]}, given, context.output_names)\n"
    )
