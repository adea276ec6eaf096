"""MODEL → GRAPH: instances, layers, edges, and what is refused while expanding."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import Lab
from whyrun.errors import InvalidError
from whyrun.graph.layers import compute_layers

Make = Callable[..., Lab]


def layers(lab: Lab) -> list[list[str]]:
    graph = lab.opened().graph
    found: dict[int, list[str]] = {}
    for node, layer in enumerate(compute_layers(graph)):
        found.setdefault(layer, []).append(graph.job_id(node))
    return [sorted(found[layer]) for layer in sorted(found)]


def refused(lab: Lab) -> list[tuple[str, int | None, str]]:
    with pytest.raises(InvalidError) as caught:
        lab.plan()
    return [(d.code, d.line, d.message) for d in caught.value.diagnostics]


STEP = "uses: shell\n            with: {run: 'true'%s}\n            outputs: {T: {type: text}}"


def test_layers_are_longest_paths_of_instances(scenario: Callable[[str], object]) -> None:
    story = scenario("first-run")
    graph = story.opened.graph  # type: ignore[attr-defined]
    found: dict[int, list[str]] = {}
    for node, layer in enumerate(compute_layers(graph)):
        found.setdefault(layer, []).append(graph.job_id(node))
    assert {layer: sorted(jobs) for layer, jobs in found.items()} == {
        0: ["Job:Script", "Job:ThenImage[0]", "Job:ThenImage[1]", "Job:ThenImage[2]"],
        1: ["Job:Clip[0]"],
        2: ["Job:Clip[1]"],
        3: ["Job:Clip[2]"],
        4: ["Job:Montage"],
    }


def test_needs_counts_for_layers_and_conditions_too(project: Make) -> None:
    lab = project(
        f"""
        workflow: w
        jobs:
          A:
            {STEP % ""}
          B:
            needs: [A]
            {STEP % ""}
          C:
            uses: shell
            if: ${{{{ jobs.D.outputs.N > 1 }}}}
            with: {{run: 'true'}}
            outputs: {{T: {{type: text}}}}
          D:
            uses: shell
            with: {{run: 'echo 2 > "$out_N"'}}
            outputs: {{N: {{type: integer}}}}
        """
    )
    assert layers(lab) == [["Job:A", "Job:D"], ["Job:B", "Job:C"]]


def test_a_circle_of_jobs_is_refused(project: Make) -> None:
    lab = project(
        f"""
        workflow: w
        jobs:
          A:
            {STEP % ', x: "${{ jobs.C.outputs.T }}"'}
          B:
            {STEP % ', x: "${{ jobs.A.outputs.T }}"'}
          C:
            {STEP % ', x: "${{ jobs.B.outputs.T }}"'}
        """
    )
    ((code, line, message),) = refused(lab)
    assert code == "CYCLE"
    assert line is not None
    assert all(f"Job:{name}" in message for name in "ABC")


def test_a_circle_of_instances_is_refused_and_a_chain_is_not(project: Make) -> None:
    text = f"""
        workflow: w
        loops: {{i: {{count: 3}}}}
        jobs:
          A:
            for: [i]
            {STEP % ', x: "${{ first(jobs.B.outputs.T[i+1], jobs.B.outputs.T[i-1], 0) }}"'}
          B:
            for: [i]
            {STEP % ', x: "${{ jobs.A.outputs.T[i] }}"'}
        """
    ((code, _, message),) = refused(project(text.replace(", 0)", ")")))
    assert code == "CYCLE"
    assert "Job:A[" in message
    chain = text.replace("jobs.B.outputs.T[i+1], ", "").replace(", 0)", ")")
    # A[0] has no neighbour at all, so its `first` is absent and it is inactive: but the graph is fine
    lab = project(chain)
    assert layers(lab) == [["Job:A[0]"], ["Job:B[0]"], ["Job:A[1]"], ["Job:B[1]"], ["Job:A[2]"], ["Job:B[2]"]]
    assert {job.id: job.state for job in lab.plan().jobs} == dict.fromkeys(
        [f"Job:{n}[{i}]" for i in range(3) for n in "AB"], "inactive"
    )


def test_a_job_that_needs_itself_is_refused(project: Make) -> None:
    lab = project(
        f"""
        workflow: w
        jobs:
          A:
            needs: [A]
            {STEP % ""}
        """
    )
    assert [code for code, _, _ in refused(lab)] == ["CYCLE"]


def test_everything_wrong_is_told_at_once(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {Words: {type: "string[]", default: [a]}, Up: {type: string, default: ".."}}
        loops: {i: {count: 2}}
        jobs:
          A:
            for: [i]
            uses: shell
            with: {x: "${{ inputs.Words[i] }}", run: 'true'}
            outputs: {T: {type: text, path: out/t.txt}}
          B:
            uses: shell
            with: {x: "${{ inputs.Words[4] }}", run: 'true'}
            outputs: {T: {type: text, path: "${{ inputs.Up }}/t.txt"}}
        """
    )
    codes = sorted(code for code, _, _ in refused(lab))
    assert codes == ["DUPLICATE_OUTPUT_PATH", "INDEX_OUT_OF_RANGE", "INDEX_OUT_OF_RANGE", "PATH_OUTSIDE"]


def test_fan_ins_and_needs_cost_no_edge_per_pair(project: Make) -> None:
    """1,000 × 1,000 through one group: built and layered in a moment."""
    lab = project(
        """
        workflow: w
        loops: {i: {count: 1000}, j: {count: 1000}}
        jobs:
          A:
            for: [i]
            uses: shell
            with: {run: 'true'}
            outputs: {T: {type: text}}
          B:
            for: [j]
            uses: shell
            needs: [A]
            with: {all: "${{ jobs.A.outputs.T[:] }}", run: 'true'}
            outputs: {T: {type: text}}
        """
    )
    graph = lab.opened().graph
    columns = [slot.column for slot in graph.tables[1].slots if slot.name == "all"]
    groups = {id(columns[0].at(p)) for p in range(1000)}
    assert len(groups) == 1
    assert set(compute_layers(graph)) == {0, 1}
    plan = lab.plan()
    assert plan.totals["planned"] == 2000
    last = plan.to_json()["jobs"][-1]
    assert [r["code"] for r in last["reasons"]] == ["MISSING_OUTPUT", *["UPSTREAM_DIRTY"] * 21]
    assert last["reasons"][-1] == {"code": "UPSTREAM_DIRTY", "more": 980}
    assert last["bindings"]["all"]["count"] == 1000


def test_the_members_of_a_fan_in_share_one_list_of_dependents(project: Callable[..., Lab]) -> None:
    """N producers and N consumers of one fan-in are N + N edges: nothing is listed N times, at any depth."""
    lab = project(
        """
        workflow: wide
        loops: {i: {count: 30}}
        jobs:
          A: {for: [i], uses: shell, with: {run: "true"}, outputs: {F: {type: integer}}}
          B:
            for: [i]
            uses: shell
            with: {all: "${{ jobs.A.outputs.F[:] }}", mixed: "${{ sum(jobs.A.outputs.F[:]) + i }}", run: "true"}
            outputs: {G: {type: integer}}
        """
    )
    graph = lab.opened().graph
    producers = [graph.node_of[f"Job:A[{i}]"] for i in range(30)]
    lists = {id(rows): list(rows) for node in producers for _, rows in graph.dependent_rows(node)}
    assert list(lists.values()) == [list(range(30))] * 2  # one for each of the two columns
    assert graph.downstream(producers[:1]) == {producers[0], *(graph.node_of[f"Job:B[{i}]"] for i in range(30))}
