"""What jobs read, declared and observed: `whyrun reads` prints it, `whyrun show` a part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from whyrun.graph.tables import AlignedArtifact, ArtifactAt, Graph, JobTable, parts_of, sources_of
from whyrun.ids import whole_input
from whyrun.log.reads import as_code

if TYPE_CHECKING:
    from whyrun.snapshot.observations import KnownRead
    from whyrun.snapshot.snapshot import PlanningSnapshot

Facts = dict[str, Any]


def reads_facts(snapshot: PlanningSnapshot, ids: Sequence[str]) -> Facts:
    """The reads of the jobs that these IDs and patterns name; of all jobs without them."""
    from whyrun.planning.id_matching import match_nodes

    graph = snapshot.dependency_graph
    named = {node for text in ids for node in match_nodes(graph, text)}
    jobs = []
    for table in graph.tables:
        nodes = range(table.base, table.base + len(table))
        chosen = [node for node in nodes if node in named] if ids else nodes
        if chosen or not ids:
            jobs.append(_job_facts(snapshot, table, chosen))
    return {"jobs": jobs}


def _job_facts(snapshot: PlanningSnapshot, table: JobTable, nodes: Sequence[int]) -> Facts:
    from whyrun.snapshot.records import run_name

    observations = snapshot.reads.observations
    attempts = [seen for node in nodes if (seen := _seen(snapshot, node)) is not None]
    reads: Counter[KnownRead] = Counter()
    for number, count in Counter(attempt.reads for attempt in attempts).items():
        for read in observations.reads_of(number):
            reads[read] += count
    packages: dict[str, set[str]] = {}
    for number in {attempt.packages for attempt in attempts}:
        for name, version in observations.packages_of(number).items():
            packages.setdefault(name, set()).add(version)
    traced = observations.traced.get(table.name)
    in_order = sorted(reads.items(), key=lambda item: item[0].path)
    return {
        "job": f"Job:{table.name}",
        "instances": len(nodes),
        "traced": run_name(traced[0]) if traced is not None else None,
        "declared": declared(snapshot, table),
        "observed": [{**read_facts(snapshot, table, read), "instances": count} for read, count in in_order],
        "packages": {name: sorted(versions) for name, versions in sorted(packages.items())},
    }


def _seen(snapshot: PlanningSnapshot, node: int) -> Any:
    record = snapshot.record(node)
    return None if record is None else record.last_success() or record.latest


def instance_reads(snapshot: PlanningSnapshot, node: int) -> list[Facts]:
    """What the last success of one instance, or else its latest attempt, read undeclared."""
    seen = _seen(snapshot, node)
    if seen is None:
        return []
    table, _ = snapshot.dependency_graph.table_at(node)
    return [read_facts(snapshot, table, read) for read in snapshot.reads.observations.reads_of(seen.reads)]


def read_facts(snapshot: PlanningSnapshot, table: JobTable, read: KnownRead) -> Facts:
    """`now`: what is there, if that is not what was read. `bound`: the workflow declares it by bindings."""
    from whyrun.snapshot.reads import bound_outputs

    facts: Facts = {"path": read.shown, "kind": read.kind, "by": read.by}
    if read.sha256 is not None:
        facts["sha256"] = read.sha256
    now = snapshot.reads.present.get(read.key)
    if now is not None and now != read.content:
        facts["now"] = now
    made = snapshot.reads.made.get(read.key)
    others = [at for at in made.artifacts if at.table != table.number] if made is not None else []
    if others:
        makers = sorted({at.table for at in others})
        facts["made_by"] = [f"Job:{snapshot.dependency_graph.tables[number].name}" for number in makers]
        if bound_outputs(table).issuperset((at.table, at.artifact) for at in others):
            facts["bound"] = True
    return facts


def declared(snapshot: PlanningSnapshot, table: JobTable) -> list[str]:
    """The code of its action in the project, its inputs, and the outputs of other jobs that it binds."""
    found = dict.fromkeys(sorted(snapshot.actions[table.name].files))
    for slot in table.slots:
        if slot.binding:
            found |= dict.fromkeys(sorted(_sources(snapshot.dependency_graph, slot.column)))
    return list(found)


def _sources(graph: Graph, column: Any) -> Iterator[str]:
    if isinstance(column, AlignedArtifact):
        yield _output(graph, column.table, column.artifact)
        return
    terms = [column.term] if hasattr(column, "term") else column.terms
    for source in {source for part in parts_of(terms) for source in sources_of(part)}:
        if isinstance(source, ArtifactAt):
            yield _output(graph, source.table, source.artifact)
        else:
            yield whole_input(source.id)


def _output(graph: Graph, table: int, artifact: int) -> str:
    return f"Artifact:{graph.tables[table].name}.{graph.tables[table].artifacts[artifact].output}"


# --- the YAML that would declare it ------------------------------------------------------------------------------


def declaration(graph: Graph, facts: Facts) -> list[str]:
    """Lines of a workflow file. Files and folders become `code:`, what another job makes a binding."""
    tables = {table.name: table for table in graph.tables}
    lines: list[str] = []
    for job in facts["jobs"]:
        table = tables[job["job"].removeprefix("Job:")]
        own = list(_job_lines(graph, table, job["observed"]))
        if own:
            lines += [f"  {table.name}:", *(f"    {line}" for line in own)]
    return ["jobs:", *lines] if lines else []


def _job_lines(graph: Graph, table: JobTable, reads: Iterable[Facts]) -> Iterator[str]:
    import json

    bindings, absent = dict[str, str](), []
    read_paths: dict[str, list[str]] = {"file": [], "folder": []}
    for read in reads:
        if "bound" in read:
            continue
        if "made_by" in read:
            bindings |= _bindings(graph, table, read)
        elif read["kind"] in ("absent", "unknown"):
            absent.append(read["path"])
        else:
            read_paths[read["kind"]].append(read["path"].removesuffix("/"))
    known = list(table.decl.code)
    code = [pattern for pattern in as_code(read_paths["file"], read_paths["folder"]) if pattern not in known]
    if code:
        yield f"code: {json.dumps([*known, *code], ensure_ascii=False)}"
    if bindings:
        yield "with:"
        yield from (f"  {name}: {value}" for name, value in bindings.items())
    if absent:
        yield f"# not there, or not known, so nothing declares it: {', '.join(absent)}"


def _bindings(graph: Graph, table: JobTable, read: Facts) -> Iterator[tuple[str, str]]:
    for maker in read["made_by"]:
        producer = next(one for one in graph.tables if f"Job:{one.name}" == maker)
        for output in producer.outputs:
            if any(site.partition(" § ")[0] == read["path"] for site in output.paths or ()):
                index = "" if not producer.decl.loops else "[:]"
                if producer.decl.loops and set(producer.decl.loops) <= set(table.decl.loops):
                    index = "".join(f"[{loop}]" for loop in producer.decl.loops)
                yield _name(output.name, table), f"${{{{ jobs.{producer.name}.outputs.{output.name}{index} }}}}"


def _name(output: str, table: JobTable) -> str:
    """A name for the binding that the job does not use yet."""
    name = output[:1].lower() + output[1:]
    while name in table.decl.with_:
        name += "_"
    return name
