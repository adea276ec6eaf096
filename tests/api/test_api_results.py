"""`flow.artifact(…)` and `flow.table(…)`: content and values from Python."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

import whyrun
from project_lab import Lab

Make = Callable[..., Lab]

FLOW = """
    workflow: study
    loops: {n: {range: [1, 2]}}
    jobs:
      Fit:
        for: [n]
        uses: shell
        with:
          n: "${{ n }}"
          run: |
            printf '{"score": %s.5, "tags": ["a"]}' "$n" > "$out_Result"
            printf 'x,y\\n1,2\\n3,%s\\n' "$n" > "$out_Table"
            mkdir "$out_Folder"; echo hi > "$out_Folder/a.txt"
        outputs:
          Result: {type: json, leaves: {score: number}}
          Table: {type: file, path: "out/t${{ n }}.csv"}
          Folder: {type: directory}
      Note:
        uses: shell
        with: {run: 'echo hello > "$out_T"; echo 7 > "$out_N"'}
        outputs: {T: {type: text}, N: {type: integer}}
    """


@pytest.fixture
def flow(project: Make) -> whyrun.LoadedWorkflow:
    lab = project(FLOW)
    lab.succeed()
    return whyrun.load(lab.root / "workflow.yaml")


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(whyrun.WhyrunError) as caught:
        call()
    return caught.value.diagnostics[0].render()


def test_values_bytes_paths_and_frames(flow: whyrun.LoadedWorkflow) -> None:
    result = flow.artifact("Artifact:Fit.Result[2]")
    assert (result.type, result.state, result.run) == ("json", "available", "r0001")
    assert result.value == {"score": 2.5, "tags": ["a"]}
    assert result.bytes == b'{"score": 2.5, "tags": ["a"]}'
    assert repr(result) == "<Artifact:Fit.Result[2]: json, available from r0001>"
    assert flow.artifact("Artifact:Fit.Result[2].score").value == 2.5
    assert flow.artifact("Artifact:Note.N").value == 7
    assert flow.artifact("Artifact:Note.T").value == "hello\n"
    table = flow.artifact("Artifact:Fit.Table[1]")
    assert table.path.name == "t1.csv"
    assert table.path.read_bytes() == table.bytes == b"x,y\n1,2\n3,1\n"
    pd.testing.assert_frame_equal(table.pandas(), pd.DataFrame({"x": [1, 3], "y": [2, 1]}))
    assert list(table.pandas(usecols=["y"]).columns) == ["y"]
    assert table.polars().rows() == [(1, 2), (3, 1)]


def test_what_an_artifact_does_not_have_is_an_error_with_a_way_out(flow: whyrun.LoadedWorkflow) -> None:
    table, folder = flow.artifact("Artifact:Fit.Table[1]"), flow.artifact("Artifact:Fit.Folder[1]")
    assert "`.path`, `.bytes`, `.pandas()`" in refused(lambda: table.value)
    assert "`Artifact:Fit.Folder[1]` is a folder" in refused(lambda: folder.bytes)
    assert "give the output a `path:`" in refused(lambda: folder.path)
    assert "is no table that pandas reads" in refused(flow.artifact("Artifact:Note.T").pandas)
    assert "`Job:Fit[1]` is no artifact" in refused(lambda: flow.artifact("Job:Fit[1]"))
    assert "UNKNOWN_REFERENCE" in refused(lambda: flow.artifact("Artifact:Fit.Tabel[1]"))


def test_a_table_without_a_pattern_and_arguments_of_wrong_types(flow: whyrun.LoadedWorkflow) -> None:
    assert "values are in `Artifact:Fit.Result[*].score`, `Artifact:Note.N`" in refused(flow.table)
    assert "`patterns` is 5" in refused(lambda: flow.table(5))  # type: ignore[arg-type]
    assert "`id` is 3" in refused(lambda: flow.artifact(3))  # type: ignore[arg-type]


def test_a_missing_artifact_names_the_command_that_tells_why(project: Make) -> None:
    flow = whyrun.load(project(FLOW).root / "workflow.yaml")
    artifact = flow.artifact("Artifact:Note.T")
    assert artifact.state == "missing"
    text = refused(lambda: artifact.value)
    assert "`Artifact:Note.T` is missing" in text
    assert "`whyrun why Artifact:Note.T` tells why" in text


def test_a_table_over_loops(flow: whyrun.LoadedWorkflow) -> None:
    table = flow.table("Artifact:Fit.Result[*].score")
    assert (table.columns, table.rows, table.loops) == (("n", "score"), ((1, 1.5), (2, 2.5)), 1)
    assert list(table) == [{"n": 1, "score": 1.5}, {"n": 2, "score": 2.5}]
    assert table.states == (("available",), ("available",))
    assert table.artifacts == (("Artifact:Fit.Result[1].score",), ("Artifact:Fit.Result[2].score",))
    pd.testing.assert_frame_equal(table.pandas(), pd.DataFrame({"n": [1, 2], "score": [1.5, 2.5]}))
    assert table.polars().rows() == [(1, 1.5), (2, 2.5)]
    assert repr(table) == "<table of 2 rows: n, score>"
