"""Why a job is or is not in the plan, and what reads an input, as JSON: `whyrun why` prints it, the viewer shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whyrun.facts.plans import Planned
    from whyrun.facts.subjects import Subject
    from whyrun.graph.tables import Graph
    from whyrun.planning.answers.whatif import Reader
    from whyrun.planning.answers.why import PlanView, Why
    from whyrun.project import Project


def why_node(project: Project, view: PlanView, node: int, *, whole: bool = False) -> Why:
    """Why one job instance is or is not in the plan. A clean one is compared with its last success."""
    from whyrun.planning.answers.why import why_job

    consumed = None
    if node not in view.jobs:
        consumed = project.history().last_consumed(view.snapshot.record(node))
    return why_job(view, node, whole=whole, consumed=consumed)


def why_head(found: Planned, id_: str, at: str | None) -> dict[str, Any]:
    """How the answer to `whyrun why` begins, as JSON."""
    return {"id": id_, "at": at, "log_position": found.snapshot.log_position}


def why_body(why: Why) -> dict[str, Any]:
    return {"job": why.jobs[0].id, **why.to_json()}


def input_answer(project: Project, found: Planned, known: PlanView, subject: Subject, at: str | None) -> dict[str, Any]:
    from whyrun.errors import WhyrunError
    from whyrun.facts.plans import assumed_plan
    from whyrun.planning.answers.listing import status_of
    from whyrun.planning.answers.prices import Prices
    from whyrun.planning.answers.whatif import would_run
    from whyrun.planning.plan import PlanOptions

    graph, id_ = found.snapshot.dependency_graph, subject.id
    changed = [c for c in found.snapshot.inputs_changed if c == id_ or c.startswith(f"{id_}[")]
    rows = []
    readers = readers_of_input(project, graph, id_)
    for job, condition_only in readers:
        planned_job = known.jobs.get(graph.node_of[job])
        row: dict[str, Any] = {"job": job, "state": status_of(planned_job) if planned_job is not None else "clean"}
        if condition_only:
            row["condition_only"] = True
        if planned_job is not None and planned_job.reasons:
            first = planned_job.reasons[0]
            row |= {"reason": first.code, "text": first.text(job)}
        rows.append(row)
    answer: dict[str, Any] = {"changed": changed, "readers": rows}
    if at is None:
        try:
            then = assumed_plan(project, PlanOptions(), [f"{id_}=changed"])
        except WhyrunError:  # see `readers_of_input`
            return {**answer, "would_run": None}
        direct = [reader.job for reader in readers if not reader.condition_only]
        would = would_run(found.plan, then.plan, then.snapshot.dependency_graph, direct)
        # If the input has changed, the jobs that it affects are in the current plan: show only the additional ones.
        rows = [each.to_json() for each in would if not (changed and each.anyway)]
        prices = then.prices()
        if prices is not None:
            added = Prices({row["job"]: price for row in rows if (price := prices.by_job.get(row["job"])) is not None})
            rows = [{**row, **added.job_json(row["job"])} for row in rows]
            answer["prices"] = added.to_json()
            answer["price"] = added.text()
        answer["would_run"] = rows
    return answer


def readers_of_input(project: Project, graph: Graph, id_: str) -> list[Reader]:
    """The jobs that read an input or an element of it, in `with`, `env`, `if` or through their loops."""
    from whyrun.errors import WhyrunError
    from whyrun.planning.answers.whatif import assume, named_readers, readers
    from whyrun.snapshot.observing.observe import InputObserver

    observer = InputObserver(project.folder, project.cache)
    try:
        inputs, _ = assume(graph.workflow, graph.inputs, [f"{id_}=changed"], observer)
        other = project.with_asked_outputs(project.expand(graph.workflow, inputs, graph.results.recorded))
    except WhyrunError:
        # The input has no content that could change, or a change makes the workflow invalid (the count of a loop).
        # Then list every instance of the jobs that refer to it.
        return named_readers(graph, id_)
    return [r for r in readers(graph, other) if r.job in graph.node_of]  # the change can add jobs, which do not count
