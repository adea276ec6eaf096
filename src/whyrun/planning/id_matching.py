"""The IDs and patterns that users write: the nodes they name, or what to write instead. Pure.

A text that is no ID, or names nothing, is an error. Nothing is guessed: the error says the exact words to use.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from whyrun.errors import WhyrunError, did_you_mean, error
from whyrun.graph.loops import result_id
from whyrun.graph.tables import Graph, JobTable
from whyrun.ids import (
    OPEN,
    IdPattern,
    Index,
    Segment,
    absolute,
    any_index,
    format_index,
    job_of,
    own_name,
    parse_id,
    pieces,
    place_of,
    place_of_texts,
    shape_of,
    split_site,
    without_indices,
)
from whyrun.workflow.model import At, Loop

if TYPE_CHECKING:
    from whyrun.workflow.inputs import InputValue
    from whyrun.workflow.model import LoopDecl, OutputRef, Selector

_REFERENCE = re.compile(r"(?:\$\{\{)?\s*(jobs|inputs)\.([\w.]+?)(?:\.outputs\.(\w+))?((?:\[[^\]]*\])*)\s*(?:\}\})?")
SHOWN = 8  # elements of a loop, in a message
_LOOSE_INDEX = re.compile(r"\[([^\[\]\"*?]+)\]")  # `[my chapter]`, which is to be quoted
_STARRED = re.compile(r"\[\*\]")
_KIND = re.compile(r"(Job|Artifact|Input):", re.IGNORECASE)


def match_nodes(graph: Graph, text: str, option: str = "") -> list[int]:
    """The nodes that a job or artifact ID or a pattern matches. An ID that matches nothing is an error.

    `option`: what stands before it on the command line, for the hint.
    """
    pattern = read_pattern(text, lambda: graph, option, inputs=False)
    if text.startswith("Job:"):
        if text in graph.node_of:
            return [graph.node_of[text]]
        nodes = [node for id_, node in graph.node_of.items() if pattern.matches(id_)] or _open_rows(graph, text)
        known: Iterable[str] = graph.node_of
    elif text.startswith("Artifact:"):
        if text in graph.artifact_of:
            return [graph.node(graph.artifact_of[text])]
        nodes = sorted({graph.node(at) for id_, at in graph.artifact_of.items() if pattern.matches(id_)})
        known = graph.artifact_of
    else:
        raise error("USAGE", f"`{text}` is not a job or artifact", hint="write `Job:…` or `Artifact:…`")
    if not nodes:
        raise unknown_id(text, list(known), graph=graph, option=option)
    return nodes


def _open_rows(graph: Graph, text: str) -> list[int]:
    """The entry `[?]` that stands for an instance whose loop is not known yet: it is looked for again when it is."""
    if "*" in text:
        return []
    (first, *_), name = (identity := parse_id(text)).segments, identity.job
    for table in graph.tables:
        if table.name == name:
            indices = identity.indices_of(first)
            alike = (row for row in table.open_rows if len(table.rows[row]) == len(indices))
            rows = (
                row
                for row in alike
                if all(at is OPEN or at == index for at, index in zip(table.rows[row], indices, strict=True))
            )
            return [table.base + row for row in sorted(rows)][:1]
    return []


def read_pattern(text: str, graph: Callable[[], Graph], option: str = "", *, inputs: bool = True) -> IdPattern:
    """The pattern, or an error that says which ID is meant. `graph`: called only for the error."""
    try:
        return IdPattern(text)
    except WhyrunError as problem:
        raise not_canonical(problem, text, graph(), option, inputs=inputs) from None


def not_canonical(
    problem: WhyrunError, text: str, graph: Graph, option: str = "", *, inputs: bool = True
) -> WhyrunError:
    """The problem with a text that is no ID, with the ID that it is meant as."""
    meant = meant_id(graph, text)
    message = problem.diagnostics[0].message
    quoted = _LOOSE_INDEX.sub(lambda found: f"[{json.dumps(found[1], ensure_ascii=False)}]", text)
    if quoted in graph.node_of or quoted in graph.artifact_of:
        meant = quoted
    if meant is None:
        of_import = _hint_for_import(text if _KIND.match(text) else f"Job:{text}", graph.node_of)
        if of_import is not None:
            return error("NAME_INVALID", message, hint=of_import)
        known = [table.name for table in graph.tables]
        known += [id_.removeprefix("Input:") for id_ in graph.inputs if inputs]
        near = did_you_mean((text.partition(":")[2] or text).partition("[")[0], known)
        meant = meant_id(graph, near.split("`")[1]) if near is not None and near.startswith("did you mean") else None
        if meant is None:
            return problem
    if meant.startswith("Input:") and not inputs:
        return error("NAME_INVALID", f"`{text}` is {_quoted(meant)}, an input", hint="write `Job:…` or `Artifact:…`")
    if _normal(text) in _published(graph):
        message = f"`{text}` is where {_quoted(meant)} is published, and no ID"
    return error("NAME_INVALID", message, hint=f"write {_quoted(meant, option)}")


def one_id(text: str, known: Mapping[str, Any], what: str, graph: Graph | None = None) -> None:
    """Refuse a pattern, and an ID that names nothing, where `what` takes one ID."""
    if text in known:
        return
    if "*" in text:
        pattern = IdPattern(text)
        first = next((id_ for id_ in known if pattern.matches(id_)), None)
        hint = f"name one, such as `{first}`" if first is not None else None
        raise error("USAGE", f"`{text}`: {what} takes one ID, not a pattern", hint=hint)
    raise unknown_id(text, list(known), patterns=False, graph=graph)


def unknown_id(
    text: str, known: Sequence[str], *, patterns: bool = True, graph: Graph | None = None, option: str = ""
) -> WhyrunError:
    """`patterns`: whether the user may name all instances with a pattern here."""
    near = [k for k in known if k.startswith(text + "[")]
    if not near and graph is not None and (absent := absent_instance(graph, text, option)) is not None:
        return absent
    hint = _hint_for_import(text, known, patterns=patterns)
    if hint is not None:
        pass
    elif near:
        hint = f"it has instances: name one, such as `{near[0]}`"
        hint += f", or all with `{_all_of(text, near[0])}`" if patterns else ""
    elif graph is not None and (meant := meant_id(graph, text)) is not None:
        hint = f"write {_quoted(meant, option)}"
    elif "*" in text and (wider := {shape_of(text, id_): None for id_ in filter(IdPattern(text).reads_as, known)}):
        hint = f"a `*` is one whole name or index: write {' or '.join(f'`{shape}`' for shape in wider)}"
    elif "[*]" in text:  # suggest a pattern for a misspelt pattern
        known = list(dict.fromkeys(map(any_index, known)))
        hint = next((f"did you mean `{each}`?" for each in known if each.startswith(text + "[")), None)
    else:
        hint = _other_index(text, known)
    return error(
        "UNKNOWN_REFERENCE", f"`{text}` names nothing in this workflow", hint=hint or did_you_mean(text, known)
    )


def _all_of(text: str, instance: str) -> str:
    """The pattern that matches all instances of `text`, made from one of them: `Job:Fit[*][*]`."""
    given, full = parse_id(text).segments, parse_id(instance).segments
    at = len(given) - 1
    pattern = text + "[*]" * (len(full[at].indices) - len(given[at].indices))
    return pattern + "".join(f".{segment.name}" + "[*]" * len(segment.indices) for segment in full[at + 1 :])


def _hint_for_import(text: str, known: Iterable[str], *, patterns: bool = True) -> str | None:
    """For `Job:Shot` and `Job:Shot[1]`, which name an import: its jobs. None if there is no such import."""
    try:
        given = parse_id(_STARRED.sub("", text))
    except WhyrunError:
        return None
    wanted, depth = without_indices(given.path), len(given.imports) + 1
    below: dict[str, list[str]] = {}  # the import with its indices → what it has
    for id_ in known:
        if "/" in id_ and (whole := parse_id(id_)).kind == given.kind and len(whole.imports) >= depth:
            folder = "/".join(map(str, whole.imports[:depth]))
            if without_indices(folder) == wanted:
                below.setdefault(folder, []).append(id_)
    if not below:
        return None
    path = text.partition(":")[2]
    named = {folder: ids for folder, ids in below.items() if _fits(path, folder)}
    ids = [id_ for some in (named or below).values() for id_ in some]
    all_of = dict.fromkeys(shape_of(f"{given.kind}:{path if named else wanted}/*", id_) for id_ in ids)
    such = f"`{ids[0]}`" + (f", or all with {' and '.join(f'`{each}`' for each in all_of)}" if patterns else "")
    what = "jobs" if given.kind == "Job" else f"{given.kind.lower()}s"
    if named:
        return f"it is an import: name one of its {what}, such as {such}"
    first, *_, last = (*below, *below)
    there = f"`{first}` to `{last}`" if first != last else f"only `{first}`"
    return f"the import has {there}: name one of its {what}, such as {such}"


def _fits(given: str, folder: str) -> bool:
    """Whether an import with its indices is among those that `Shot`, `Shot[1]` or `Shot[*]` means."""
    pairs = zip(pieces(given), pieces(folder), strict=True)
    return all(
        index in ("[*]", own) for (_, some, _), (_, all_, _) in pairs for index, own in zip(some, all_, strict=False)
    )


def _other_index(text: str, known: Sequence[str]) -> str | None:
    """For an index that does not exist: the nearest one, or the first and last. Names of jobs resemble each other."""
    like = any_index(text)
    same = [id_ for id_ in known if any_index(id_) == like]
    if not same or like == text:
        return None
    if (near := _near_index(text, same)) is not None:
        return f"did you mean `{near}`?"
    return f"it has the instances `{same[0]}` to `{same[-1]}`" if len(same) > 1 else f"it has one instance, `{same[0]}`"


def _near_index(text: str, same: Sequence[str]) -> str | None:
    from difflib import get_close_matches

    words = {id_.partition("[")[2]: id_ for id_ in same}
    index = text.partition("[")[2]
    near = get_close_matches(index, words, n=1, cutoff=0.6) if re.search("[A-Za-z]", index) else []
    return words[near[0]] if near else None


def _quoted(id_: str, option: str = "") -> str:
    return f"`{option} {shlex.quote(id_)}`" if option else f"`{id_}`"


# --- instances of loops over results -----------------------------------------------------------------------------


def absent_instance(graph: Graph, text: str, option: str = "") -> WhyrunError | None:
    """The error for an ID that a loop over a result does not have; None if that is not what is wrong with it."""
    try:
        identity = parse_id(text)
    except WhyrunError:  # a pattern, or no ID
        return None
    table = next((table for table in graph.tables if table.name == identity.job), None)
    number = {"Job": 0, "Artifact": 1}.get(identity.kind, 2)
    if table is None or not table.gates or len(identity.segments) <= number:
        return None
    output = f".{identity.segments[1].name}" if number else ""
    if number and not any(spec.output == identity.segments[1].name for spec in table.artifacts):
        return None
    indices = identity.indices_of(identity.segments[number])
    for place, name in enumerate(table.decl.loops[: len(indices)]):
        rows = [row for row in table.rows if row[:place] == indices[:place]]
        known = list(dict.fromkeys(row[place] for row in rows))
        if indices[place] in known:
            continue
        loop, prefix = _loop_of(graph, table, place)
        if not loop.is_over_result:
            return None
        at = dict(zip(table.decl.loops, indices, strict=False))
        source = result_id(loop.source, prefix, at, graph.results.levels)
        ends = [place_of(table.name, table.levels, row) for row in rows]
        same = [f"{identity.kind}:{before}{output}{after}" for before, after in ends]
        if OPEN in known:
            why = f"which instances `{own_name(name)}` has is known once {job_of(source)} has run"
            return error(
                "UNKNOWN_REFERENCE", f"`{text}`: {why}", hint=f"write {_quoted(same[0], option)} for all of them"
            )
        what = f"`{text}` does not exist: {_extent(loop, source, known)}"
        hint: str | None
        if indices[place] is OPEN and known:
            hint = f"name one, such as {_quoted(same[0], option)}, or all with {_quoted(any_index(same[0]), option)}"
        else:
            near = _near_index(text, same)
            hint = None if near is None else f"did you mean {_quoted(near, option)}?"
        return error("UNKNOWN_REFERENCE", what, hint=hint)
    return None


def _extent(loop: LoopDecl, source: str, known: Sequence[Index]) -> str:
    if loop.kind == "count":
        return f"`{source}` is {len(known)}"
    if not known:
        return f"`{source}` is empty"
    more = f" and {len(known) - SHOWN:,} more" if len(known) > SHOWN else ""
    return f"`{source}` has {', '.join(map(format_index, known[:SHOWN]))}{more}"


def _loop_of(graph: Graph, table: JobTable, loop: int) -> tuple[LoopDecl, str]:
    """A loop of a job, and what its names in IDs begin with: `Intro/`."""
    loop_name = table.decl.loops[loop]
    declared = loop_name[1:] if loop_name.startswith("/") else table.name
    workflow, *imports = graph.workflow, *declared.split("/")[:-1]
    for name in imports:
        workflow = workflow.imports[name].workflow
    return workflow.loops[own_name(loop_name)], "".join(f"{name}/" for name in imports)


# --- inputs of imports that are results --------------------------------------------------------------------------


def result_for(graph: Graph, text: str) -> WhyrunError | None:
    """The error for `Input:Shot[1]/Title`, where the import gets a result of a job; None if it gets none."""
    identity, workflow, prefix = parse_id(text), graph.workflow, ""
    at: dict[str, Index] = {}
    feeds: Mapping[str, OutputRef] = {}
    for each in identity.imports:
        if each.name not in workflow.imports:
            return None
        decl = workflow.imports[each.name]
        at |= zip((f"/{prefix}{loop}" for loop in decl.loops), each.indices, strict=False)
        workflow, feeds, prefix = decl.workflow, decl.feeds, f"{prefix}{each.name}/"
    ref = feeds.get(identity.segments[0].name)
    if ref is None:
        return None

    def texts(selectors: Iterable[Selector]) -> list[str]:
        indices = (at.get(s.loop) if isinstance(s, Loop) else s.index if isinstance(s, At) else None for s in selectors)
        return ["*" if index is None else format_index(index) for index in indices]

    leaf = "".join(f".{name}" + "".join(f"[{each}]" for each in texts(some)) for name, some in ref.leaf)
    job = absolute("", ref.job)
    levels = next((table.levels for table in graph.tables if table.name == job), ())
    before, after = place_of_texts(job, levels, texts(ref.selectors))
    id_ = f"Artifact:{before}.{ref.output}{after}{leaf}"
    return error("UNKNOWN_REFERENCE", f"`{text}` does not exist: the import gets a result", hint=f"it is `{id_}`")


# --- what a text is meant as -------------------------------------------------------------------------------------


def meant_id(graph: Graph, text: str) -> str | None:
    """The ID or pattern that `Merge`, `Trim[alpha]`, `jobs.Merge.outputs.All`, `out/all.txt` or `job:merge` means."""
    path = _published(graph).get(_normal(text)) or _given_files(graph).get(_normal(text))
    if path is not None:
        return path
    reference = _REFERENCE.fullmatch(text)
    if reference is not None:
        root, name, output, indices = reference.groups()
        kind = "Input" if root == "inputs" else "Artifact" if output else "Job"
        text = f"{kind}:{name.replace('.', '/')}{f'.{output}' if output else ''}{indices}"
    kind, rest = (text[: found.end()], text[found.end() :]) if (found := _KIND.match(text)) else ("", text)
    try:
        identity = parse_id(f"Job:{rest.replace('[*]', '')}")
    except WhyrunError:  # it is no ID under any kind
        return None
    return next(_candidates(graph, kind.lower(), identity.imports, identity.segments), None)


def _candidates(graph: Graph, kind: str, imports: Sequence[Segment], segments: Sequence[Segment]) -> Iterator[str]:
    first, *rest = segments
    name = "/".join([*(each.name for each in imports), first.name])
    for inside in range(len(segments)):  # `Shot.Picture[1]` may mean `Shot[1]/Picture`
        yield from _of_jobs(graph, kind, (*imports, *segments[: inside + 1]), segments[inside + 1 :])
    if rest or imports:
        return
    for id_ in graph.inputs:
        if id_.removeprefix("Input:").casefold() == name.casefold() and not kind.startswith(("job", "artifact")):
            yield id_ + "".join(f"[{format_index(index)}]" for index in first.indices)
    makers = [(table, spec) for table in graph.tables for spec in table.artifacts if not spec.is_leaf]
    named = [(table, spec) for table, spec in makers if spec.output.casefold() == name.casefold()]
    if len(named) == 1 and (texts := _row(graph, named[0][0], first.indices)) is not None:
        before, after = place_of_texts(named[0][0].name, named[0][0].levels, texts)
        yield f"Artifact:{before}.{named[0][1].output}{after}"


def _of_jobs(graph: Graph, kind: str, path: Sequence[Segment], rest: Sequence[Segment]) -> Iterator[str]:
    """`path`: the imports and the job. `rest`: the output."""
    name = "/".join(each.name for each in path).casefold()
    for table in graph.tables:
        if table.name.casefold() == name:
            texts = _row(graph, table, tuple(index for each in (*path, *rest[:1]) for index in each.indices))
            if texts is None:
                continue
            before, after = place_of_texts(table.name, table.levels, texts)
            outputs = {spec.output.casefold(): spec.output for spec in table.artifacts}
            if not rest and not kind.startswith(("artifact", "input")):
                yield f"Job:{before}{after}"
            elif len(rest) == 1 and rest[0].name.casefold() in outputs:
                yield f"Artifact:{before}.{outputs[rest[0].name.casefold()]}{after}"


def _row(graph: Graph, table: JobTable, indices: Sequence[int | float | str]) -> list[str] | None:
    """The indices of an instance as an ID has them, `*` for those that are not given; None if there is none."""
    texts = []
    if len(indices) > len(table.decl.loops):
        return None
    for number, index in zip_longest(range(len(table.decl.loops)), indices):
        known = dict.fromkeys(row[number] for row in table.rows)
        if index is None or index in known:
            texts.append("*" if index is None else format_index(index))
            continue
        position = _position_of(graph, table, number, str(index))
        if position not in known:
            return None
        texts.append(format_index(position))
    return texts


def _position_of(graph: Graph, table: JobTable, loop: int, word: str) -> Index | None:
    """The index of the element that a word names: a value, or a file by its name or stem."""
    decl, prefix = _loop_of(graph, table, loop)
    value: InputValue | None = None
    if decl.kind == "each" and not decl.is_over_result and not decl.source.selectors:
        value = graph.inputs.get(f"Input:{prefix}{decl.source.name}")
    elements = zip(value.indices, value.elements or (), strict=True) if value is not None else ()
    found = [index for index, element in elements if word in (element.value, *_names_of(element.path))]
    return found[0] if len(found) == 1 else None


def _names_of(path: str | None) -> tuple[str, ...]:
    if path is None:
        return ()
    name = path.rpartition("/")[2]
    return name, name.partition(".")[0], name.rpartition(".")[0]


def _normal(path: str) -> str:
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _published(graph: Graph) -> dict[str, str]:
    """Published path → its artifact; a file with several sections and a folder of one output → their pattern."""
    found: dict[str, str] = {}
    for table in graph.tables:
        whole = {spec.output: number for number, spec in enumerate(table.artifacts) if not spec.is_leaf}
        for output in table.outputs:
            for position, site in enumerate(output.paths or ()):
                file, id_ = split_site(site)[0], table.artifact_id(whole[output.name], position)
                found[file] = any_index(id_) if file in found else id_
    return found


def _given_files(graph: Graph) -> dict[str, str]:
    """The path of an input → its ID."""
    found: dict[str, str] = {}
    for id_, value in graph.inputs.items():
        if value.path is not None:
            found.setdefault(value.path, id_)
        for of_element, element in value.members(id_):
            if element.path is not None:
                found.setdefault(element.path, of_element)
    return found
