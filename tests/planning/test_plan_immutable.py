"""The objects that planning returns cannot be changed, because many readers keep them."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, methodcaller
from typing import Any

import pytest

from project_lab import Lab
from whyrun.graph.layers import compute_layers
from whyrun.planning.answers.listing import Listing, listed
from whyrun.planning.answers.whatif import Assumption
from whyrun.planning.answers.why import Compared, LastSuccess, Why, WhyJob
from whyrun.planning.artifact_states import Pending
from whyrun.planning.consume import Consumer
from whyrun.planning.input_changes import InputChanged
from whyrun.planning.judge import Judge
from whyrun.planning.plan import Plan, PlannedJob, PlanOptions
from whyrun.planning.reasons import (
    Forced,
    MissingOutput,
    More,
    RetryPreviousFailure,
    UpstreamDirty,
    UpstreamFailed,
    reason_json,
)
from whyrun.planning.reuse import Reuse
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import Type

VALUE = InputValue(Type("integer"), 1, "aa", None, None)
JOB = PlannedJob("Job:A", "shell", 0, "planned", reasons=(Forced("layer:0"),))
to_json = methodcaller("to_json")


def listing() -> Any:
    return listed(Plan("w", None, PlanOptions(), {}, {}, (JOB,)), Listing())


HANDED_OUT: list[tuple[Any, str, Callable[[Any], Any]]] = [
    (Listing(limit=3), "limit", attrgetter("pages")),
    (PlanOptions(up=3), "up", to_json),
    (JOB, "reasons", attrgetter("headline")),
    (RetryPreviousFailure("r0001", 1, "ValueError", "no"), "run", reason_json),
    (MissingOutput("Artifact:A.B"), "artifact", reason_json),
    (InputChanged("x"), "binding", reason_json),
    (UpstreamFailed("Artifact:A.B"), "artifact", reason_json),
    (UpstreamDirty("Job:A"), "job", reason_json),
    (Forced("layer:0"), "by", reason_json),
    (More("FORCED", 3), "more", reason_json),
    (Reuse("r0001", "Job:A", {}), "run", methodcaller("describe", "Job:A")),
    (Assumption("Input:A", VALUE, VALUE), "id", str),
    (LastSuccess("r0001", 1, "executed"), "run", to_json),
    (Compared("x", "Input:A", "aa"), "name", to_json),
    (WhyJob("Job:A", 0, 0, "clean"), "id", to_json),
    (Why((), (), 0), "more", to_json),
]


def check_it_stays(thing: Any, name: str, said: Callable[[Any], Any]) -> None:
    before = said(thing)
    with pytest.raises(AttributeError):
        setattr(thing, name, None)
    assert said(thing) == before


@pytest.mark.parametrize(("thing", "name", "said"), HANDED_OUT, ids=[type(thing).__name__ for thing, *_ in HANDED_OUT])
def test_it_cannot_be_changed(thing: Any, name: str, said: Callable[[Any], Any]) -> None:
    check_it_stays(thing, name, said)


def test_a_listing_cannot_be_changed() -> None:
    found = listing()
    check_it_stays(found, "chosen", attrgetter("chosen"))
    check_it_stays(found.blocks[0], "title", attrgetter("title"))


def test_verdicts_and_shared_fan_ins_cannot_be_changed(project: Callable[..., Lab]) -> None:
    made = "uses: python, outputs: {N: {type: integer}}"
    flow = f"""
        workflow: w
        loops: {{i: {{count: 2}}}}
        jobs:
          Each: {{for: [i], {made}, with: {{call: "acts:one", i: "${{{{ i }}}}"}}}}
          All: {{{made}, with: {{call: "acts:one", x: "${{{{ jobs.Each.outputs.N[:] }}}}"}}}}
    """
    snapshot = project(flow, {"acts.py": "def one(**given):\n    return {'N': 1}\n"}).snapshot()
    graph = snapshot.dependency_graph
    judge = Judge(snapshot, {})
    judge.judge_all(compute_layers(graph))
    for verdict in judge.verdicts.values():
        check_it_stays(verdict, "state", attrgetter("state"))
    consumer = Consumer(graph, lambda at: Pending(False))
    (group,) = consumer.consume(*graph.table_at(graph.node_of["Job:All"])).groups
    check_it_stays(group, "shown", attrgetter("shown"))
