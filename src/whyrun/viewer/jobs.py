"""Views 1 and 2: the state, the graph of jobs, and the instances of each job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from whyrun.errors import WhyrunError
from whyrun.facts.graph import instance_pattern
from whyrun.ids import own_name
from whyrun.viewer.contents import described
from whyrun.viewer.current import (
    OUTCOME_LETTERS,
    OUTCOME_OF,
    STATE_LETTERS,
    STATE_OF,
    InvalidState,
    Params,
    State,
    name_of,
    workflow_name,
)

if TYPE_CHECKING:
    from whyrun.graph.tables import JobTable
    from whyrun.planning.plan import PlannedJob
    from whyrun.viewer.current import CurrentState

SHOWN = 12  # artifacts of a node that are shown in the graph
RUNS_SHOWN = 200
FAILURES_SHOWN = 50
PAGE = 200
LONGEST_VALUE = 2000  # characters of an input that the form of what-if shows
DIGESTED = 5000  # jobs of a plan whose digest is computed for the first screen
FOCUSED = 5000  # instances up- and downstream that are listed
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def state_view(state: State, params: Params) -> dict[str, Any]:
    """What the first screen needs besides the graph."""
    if isinstance(state, InvalidState):
        return _invalid(state)
    found, graph, plan = state.found, state.graph, state.found.plan
    from whyrun.planning.answers.explain import headline

    estimate = found.estimate() if plan.totals["planned"] and state.at is None else None
    outcomes = {name: state.outcomes.count(letter) for name, letter in OUTCOME_LETTERS.items()}
    runs = _runs(state)
    failures = [node for node, letter in enumerate(state.outcomes) if letter == "f"]
    of_run = state.command("plan", "--at", state.at) if state.at is not None else None
    return {
        **_head(state),
        "command": state.command_now("status") or of_run,
        "explain": state.command_now("explain") or of_run,
        "version": state.version,
        "digest": plan.digest if len(plan.jobs) <= DIGESTED else None,
        "log_position": plan.log_position,
        "at": state.at,
        "headline": headline(plan, estimate, found.prices() if state.at is None else None),
        "estimate": estimate,
        "totals": dict(plan.totals),
        "outcomes": outcomes,
        "inputs_changed": found.snapshot.inputs_changed[:1000],
        "unfinished": state.unfinished.to_json() if state.unfinished is not None else None,
        "counts": {
            "jobs": graph.size,
            # Leaves are values inside of artifacts: the list of artifacts has none, either.
            "artifacts": sum(len(table) * sum(not one.is_leaf for one in table.artifacts) for table in graph.tables),
            "runs": runs["total"],
            "datasets": sum(len(table) for table in graph.tables if table.decl.uses.startswith("data/")),
        },
        **runs,
        "failures": [_failure(state, node) for node in failures[:FAILURES_SHOWN]],
        "failures_more": max(0, len(failures) - FAILURES_SHOWN),
        "notes": list(state.notes),
        "problems": [],
    }


def _head(state: State) -> dict[str, Any]:
    project = state.project
    workflow = project.reading.part
    return {
        "workflow": name_of(project),
        "description": workflow.description if workflow is not None else None,
        "file": str(project.file),
        "folder": project.folder.name,
        "others": list(_others(state)),
    }


def _others(state: State) -> Iterator[dict[str, Any]]:
    """The other workflow files of the project folder, each with the command that shows it."""
    import shlex

    own = state.project.file.resolve()
    for path in sorted(state.project.folder.glob("*.yaml"))[:100]:
        if path.resolve() == own or not path.is_file():
            continue
        name = workflow_name(path)
        if name is not None:
            command = f"whyrun view {shlex.quote(str(state.project.file.with_name(path.name)))}"
            yield {"workflow": name, "file": path.name, "command": command}


def _invalid(state: InvalidState) -> dict[str, Any]:
    body: dict[str, Any] = {**_head(state), "command": None, "version": state.version, "at": None, "totals": None}
    body["problems"] = [problem.to_json() | {"text": problem.render()} for problem in state.problems]
    try:
        body |= _runs(state)
    except WhyrunError as problem:  # a workflow that is invalid may have a log that is damaged, too
        body |= {"runs": [], "pruned": [], "total": 0, "notes": [str(problem)]}
    return body


def _runs(state: State) -> dict[str, Any]:
    from whyrun.facts.history import recent_runs

    at = getattr(state, "at", None)
    return recent_runs(state.project, RUNS_SHOWN, through=at)


def _failure(state: CurrentState, node: int) -> dict[str, Any]:
    from whyrun.snapshot.records import run_name

    record = state.record(node)
    assert record is not None
    latest = record.latest
    return {
        "id": state.graph.job_id(node),
        "run": run_name(latest.run),
        "attempt": latest.number,
        "status": latest.status,
        "error": f"{latest.error_type}: {latest.error}",
    }


# --- the graph -------------------------------------------------------------------------------------------------------


def graph_view(state: CurrentState, params: Params) -> dict[str, Any]:
    """One node a job, with what its instances are up to; edges between jobs; groups by import."""
    from whyrun.facts.graph import graph_facts

    graph = state.graph
    facts = graph_facts(graph, state.found.plan)
    planned = {table.name for table in graph.tables if "p" in state.slice_of(state.states, table)}
    return {
        "command": state.command_now("graph"),
        **facts,
        "nodes": [node | _shown_node(state, state.tables[node["job"]]) for node in facts["nodes"]],
        "edges": [edge | {"dirty": {edge["from"], edge["to"]} <= planned} for edge in facts["edges"]],
        "inputs": [one | _shown_input(state, one["id"]) for one in facts["inputs"]],
    }


def _shown_node(state: CurrentState, table: JobTable) -> dict[str, Any]:
    """What the page shows of a job besides the facts of the graph."""
    return {
        "first": table.job_id(0) if len(table) else None,
        "outcomes": _counts(state.slice_of(state.outcomes, table), OUTCOME_LETTERS),
        "headlines": dict(Counter(code for code in _headlines(state, table) if code)),
        "shown": list(_shown(state, table)),
        "open": False,
    }


def _counts(letters: str, names: dict[str, str]) -> dict[str, int]:
    return {name: count for name, letter in names.items() if (count := letters.count(letter))}


def _headlines(state: CurrentState, table: JobTable) -> list[str | None]:
    """The first reason of each instance; None: it has none."""
    found: list[str | None] = [None] * len(table)
    if "c" * len(table) != state.slice_of(state.states, table):
        jobs = state.known.jobs
        for position in range(len(table)):
            job = jobs.get(table.base + position)
            if job is not None:
                found[position] = _code(job)
    return found


def _code(job: PlannedJob) -> str | None:
    if job.state == "inactive":
        return "source_inactive" if "source" in job.because else "condition_false"
    return job.headline


def _shown(state: CurrentState, table: JobTable) -> Iterator[dict[str, Any]]:
    """Some artifacts for the node itself: images and small values before files that have no picture."""
    wanted = [a for a, spec in enumerate(table.artifacts) if not spec.is_leaf]
    for position in range(min(SHOWN, len(table))):
        for a in wanted[:2]:
            yield described(state, table, a, position) | {"index": table.texts[position]}


def _shown_input(state: CurrentState, id_: str) -> dict[str, Any]:
    value = state.graph.inputs[id_]
    changed = state.found.snapshot.inputs_changed
    body: dict[str, Any] = {"changed": any(one == id_ or one.startswith(f"{id_}[") for one in changed)}
    if value.path is not None:
        body["path"] = value.path
    elif not value.type.is_path and len(str(value.value)) <= LONGEST_VALUE:
        body["value"] = value.value
    return body


# --- instances -------------------------------------------------------------------------------------------------------


def cells_view(state: CurrentState, params: Params) -> dict[str, Any]:
    """Every instance of a job as one letter, for grids of 100,000."""
    table = _table(state, params.one("job"))
    headlines = _headlines(state, table)
    names = sorted({code for code in headlines if code is not None})
    letter: dict[str | None, str] = {name: DIGITS[i] for i, name in enumerate(names[: len(DIGITS)])}
    axes = [
        {"loop": own_name(loop), "size": len({row[i] for row in table.rows})} for i, loop in enumerate(table.decl.loops)
    ]
    counted = len(axes) == 1 and all(text == f"[{p}]" for p, text in enumerate(table.texts))
    return {
        "command": state.command_now("explain", "--job", instance_pattern(table)),
        "job": table.name,
        "count": len(table),
        "texts": None if counted else [table.path(p) for p in range(len(table))] if table.levels else list(table.texts),
        "axes": axes,
        "states": state.slice_of(state.states, table),
        "outcomes": state.slice_of(state.outcomes, table),
        "legend": {"states": STATE_OF, "outcomes": OUTCOME_OF},
        "headlines": names,
        "headline": "".join(letter.get(code, ".") for code in headlines),
    }


def _table(state: CurrentState, name: str) -> JobTable:
    from whyrun.errors import did_you_mean, error

    if name not in state.tables:
        message = f"there is no job `{name}` in this workflow"
        raise error("UNKNOWN_REFERENCE", message, hint=did_you_mean(name, list(state.tables)))
    return state.tables[name]


def instances_view(state: CurrentState, params: Params) -> dict[str, Any]:
    """A page of instances, of one job or of all, chosen by state, outcome, first reason and text."""
    job = params.maybe("job")
    words = ["explain", *(["--job", instance_pattern(_table(state, job))] if job else [])]
    nodes = list(_chosen(state, params))
    page = params.number("page", 0)
    return {
        "command": state.command_now(*words),
        "page": page,
        "pages": -(-len(nodes) // PAGE),
        "total": len(nodes),
        "rows": [instance_row(state, node) for node in nodes[page * PAGE : (page + 1) * PAGE]],
    }


def _chosen(state: CurrentState, params: Params) -> Iterator[int]:
    job, wanted, outcome = params.maybe("job"), params.maybe("state"), params.maybe("outcome")
    code, text = params.maybe("code"), (params.maybe("q") or "").lower()
    letter, ended = STATE_LETTERS.get(wanted or ""), OUTCOME_LETTERS.get(outcome or "")
    for table in [_table(state, job)] if job else state.graph.tables:
        headlines = _headlines(state, table) if code else ()
        for position in range(len(table)):
            node = table.base + position
            if (
                (wanted is None or state.states[node] == letter)
                and (outcome is None or state.outcomes[node] == ended)
                and (code is None or headlines[position] == code)
                and (not text or text in table.job_id(position).lower())
            ):
                yield node


def instance_row(state: CurrentState, node: int) -> dict[str, Any]:
    from whyrun.planning.answers.explain import job_lines, logged_duration
    from whyrun.snapshot.records import run_name

    table, position = state.graph.table_at(node)
    job, record = state.job(node), state.record(node)
    lines = job_lines(job) if job is not None else []
    duration = logged_duration(record)
    return {
        "id": table.job_id(position),
        "state": STATE_OF[state.states[node]],
        "outcome": OUTCOME_OF[state.outcomes[node]],
        "layer": state.layers[node],
        "code": _code(job) if job is not None else None,
        "text": lines[0][1] if lines else "",
        "more": max(0, len(job.reasons) - 1) if job is not None else 0,
        "run": run_name(record.latest.run) if record is not None else None,
        "duration": duration,
        "error": None if record is None or record.latest.ok else f"{record.latest.error_type}: {record.latest.error}",
        "outputs": [table.artifact_id(a, position) for a, spec in enumerate(table.artifacts) if not spec.is_leaf],
    }


# --- the lineage in focus --------------------------------------------------------------------------------------------


def focus_view(state: CurrentState, params: Params) -> dict[str, Any]:
    """The exact edges of one instance, and everything up- and downstream of it."""
    from whyrun.facts.subjects import find_subject
    from whyrun.graph.tables import InputAt, sources_of

    graph = state.graph
    subject = find_subject(graph, params.one("id"))
    at = ("--at", state.at) if state.at is not None else ()
    if subject.kind == "input":
        return {
            "command": state.command("why", subject.id, *at),
            "id": subject.id,
            "upstream": [],
            "edges": [],
            "more": 0,
        }
    table, position = graph.table_at(subject.node)
    inputs: dict[str, None] = {}
    edges: list[list[str]] = []
    own = table.job_id(position)
    for slot, column in table.operand_columns():
        for source in sources_of(column.at(position)):
            if isinstance(source, InputAt):
                inputs[source.id] = None
            else:
                name = "if" if slot is None else slot.name.removeprefix(".")
                edges.append([graph.job_id(graph.node(source)), own, name])
    edges += [[own, graph.job_id(node), ""] for node in dict.fromkeys(graph.dependents(subject.node))]
    upstream = _reached(graph.upstream, subject.node)
    downstream = sorted(graph.downstream([subject.node]) - {subject.node})
    return {
        "command": state.command("lineage", subject.id, *at),
        "id": subject.id,
        "job": table.name,
        "upstream": [graph.job_id(node) for node in upstream[:FOCUSED]],
        "downstream": [graph.job_id(node) for node in downstream[:FOCUSED]],
        "edges": edges[:FOCUSED],
        "inputs": list(inputs)[:FOCUSED],
        "more": sum(max(0, len(one) - FOCUSED) for one in (upstream, downstream, edges, inputs)),
    }


def _reached(step: Any, root: int) -> Sequence[int]:
    seen: set[int] = {root}
    stack = [root]
    while stack:
        for node in step(stack.pop()):
            if node not in seen:
                seen.add(node)
                stack.append(node)
    return sorted(seen - {root})
