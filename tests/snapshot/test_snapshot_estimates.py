"""How long actions say that they take: who is asked, once, and what those get that were not asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asking_lab import Answering, expanded

from whyrun.actions.description import ActionInfo
from whyrun.actions.inspection.messages import WithBlock
from whyrun.snapshot.actions import known_inputs as module
from whyrun.snapshot.actions.known_inputs import RuntimeEstimates, reader_of_graph

WORKFLOW = """\
workflow: w
loops: {n: {values: [1, 2, 3, 4]}}
jobs:
  A: {uses: shell, with: {run: x}, outputs: {T: {type: text}}}
  B: {for: [n], uses: slow, with: {n: "${{ n }}"}, outputs: {T: {type: text}}}
  C: {uses: slow, with: {n: 7, t: "${{ jobs.A.outputs.T }}"}, outputs: {T: {type: text}}}
  D: {uses: plain, with: {n: 9}, outputs: {T: {type: text}}}
"""
A, B1, B2, B3, B4, C, D = range(7)  # the nodes
HOOK = frozenset({"estimate_runtime"})


def estimating(inspector: Any, shell: ActionInfo | None = None) -> RuntimeEstimates:
    graph = expanded(WORKFLOW)
    slow = ActionInfo("slow", "1", "project", hooks=HOOK)
    plain = ActionInfo("plain", "1", "project", hooks=frozenset({"get_output_files"}))
    infos = {"B": slow, "C": slow, "D": plain, **({} if shell is None else {"A": shell})}
    return RuntimeEstimates(graph, reader_of_graph(graph, Path("/project")), infos, inspector)


def seconds(block: WithBlock) -> Any:
    if block.given["n"] == 2:
        raise ValueError("it cannot say")
    return block.given["n"] * 10.0


def test_every_instance_of_a_job_is_asked_at_once_with_what_is_known() -> None:
    inspector = Answering(estimate_runtime=seconds)
    found = estimating(inspector)(range(7))
    assert found == {B1: 10.0, B3: 30.0, B4: 40.0, C: 70.0}
    assert list(found) == [B1, B3, B4, C]
    assert inspector.asked == [
        (
            "estimate_runtime",
            False,
            [WithBlock({"n": 1}), WithBlock({"n": 2}), WithBlock({"n": 3}), WithBlock({"n": 4})],
        ),
        ("estimate_runtime", False, [WithBlock({"n": 7}, missing=["t"])]),
    ]
    assert inspector.timeouts == [10.0, 10.0]


def test_nobody_is_asked_twice() -> None:
    inspector = Answering(estimate_runtime=seconds)
    estimates = estimating(inspector)
    assert estimates([B1, B2]) == {B1: 10.0}
    assert estimates([B2, B1]) == {B1: 10.0}, "who cannot say is not asked again"
    assert estimates([B3, B1]) == {B3: 30.0, B1: 10.0}
    assert [blocks for _, _, blocks in inspector.asked] == [
        [WithBlock({"n": 1}), WithBlock({"n": 2})],
        [WithBlock({"n": 3})],
    ]
    assert estimates([]) == {}


def test_a_built_in_action_is_not_asked_whatever_it_has() -> None:
    inspector = Answering(estimate_runtime=lambda block: 1.0)
    assert estimating(inspector, ActionInfo("shell", "1", "builtin", hooks=HOOK))([A]) == {}
    assert inspector.asked == []
    assert estimating(inspector, ActionInfo("shell", "1", "plugin", hooks=HOOK))([A]) == {A: 1.0}


def test_of_many_instances_a_thousand_are_asked() -> None:
    graph = expanded(WORKFLOW.replace("values: [1, 2, 3, 4]", "count: 1002"))
    inspector = Answering(estimate_runtime=lambda block: block.given["n"] * 2.0)
    stub: Any = inspector
    slow = {"B": ActionInfo("slow", "1", "project", hooks=HOOK)}
    found = RuntimeEstimates(graph, reader_of_graph(graph, Path("/project")), slow, stub)(range(1, 1003))
    assert [len(blocks) for _, _, blocks in inspector.asked] == [1000]
    assert found == {**{1 + n: n * 2.0 for n in range(1000)}, 1001: 999.0, 1002: 999.0}


def test_instances_with_equal_blocks_are_asked_once_and_the_others_get_the_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ASKED", 3)
    inspector = Answering(estimate_runtime=seconds)
    assert estimating(inspector)([B1, B2, B3, B4]) == {B1: 10.0, B3: 30.0, B4: 20.0}
    assert [len(blocks) for _, _, blocks in inspector.asked] == [3]
    nobody = Answering(estimate_runtime=lambda block: None)
    assert estimating(nobody)([B1, B2, B3, B4]) == {}
    same = WORKFLOW.replace('with: {n: "${{ n }}"}', "with: {n: 5}")
    graph = expanded(same)
    inspector = Answering(estimate_runtime=seconds)
    slow: Any = {"B": ActionInfo("slow", "1", "project", hooks=HOOK)}
    stub: Any = inspector
    found = RuntimeEstimates(graph, reader_of_graph(graph, Path("/project")), slow, stub)([B1, B2, B3, B4])
    assert found == dict.fromkeys([B1, B2, B3, B4], 50.0)
    assert [len(blocks) for _, _, blocks in inspector.asked] == [1]
