"""What jobs with a data action declare against what such an action writes."""

from __future__ import annotations

import pytest
from asking_lab import expanded
from msgspec.structs import replace

from whyrun.snapshot.composition import data_output_problems

MERGE = "data/merge"
DATA = "Data: {type: dataset}"


def output_problems(uses: str, outputs: str) -> list[tuple[int | None, int | None, str, str | None]]:
    flow = f"""\
workflow: w
jobs:
  Job:
    uses: {uses}
    with: {{}}
    outputs: {{{outputs}}}
  Other:
    uses: shell
    with: {{run: x}}
"""
    problems = data_output_problems(expanded(flow))
    assert {problem.code for problem in problems} <= {"OUTPUT_UNUSABLE"}
    return [(problem.line, problem.column, problem.message, problem.hint) for problem in problems]


@pytest.mark.parametrize("uses", ["data/merge", "data/append", "data/aggregate", "data/sql"])
def test_an_action_that_writes_a_table_fills_one_output_as_csv_or_parquet(uses: str) -> None:
    assert output_problems(uses, DATA) == []
    for path in ("a.csv", "a.TSV", "b/a.parquet", "a"):
        assert output_problems(uses, f"Data: {{type: dataset, path: {path}}}") == []
    message = f"`{uses}` writes `.csv`, `.tsv` or `.parquet`, and `Data` ends in `.xlsx`"
    hint = "change the name of its file"
    assert output_problems(uses, "Data: {type: dataset, path: a.csv.xlsx}") == [(6, 43, message, hint)]


def test_a_check_fills_one_output_of_any_name() -> None:
    assert output_problems("data/check", "report: {type: json, path: report.json}") == []
    assert output_problems("data/check", "report: {type: json, path: report.txt}") == []
    assert [problem[2] for problem in output_problems("data/check", "a: {type: json}, b: {type: json}")] == [
        "`data/check` writes one output, and `Job` declares `b` beside `a`"
    ]


def test_other_actions_declare_what_they_like() -> None:
    assert output_problems("shell", "A: {type: file, path: a.xlsx}, B: {type: file}") == []


def test_without_an_output_there_is_nothing_to_fill() -> None:
    assert output_problems(MERGE, "") == [
        (3, 3, "`data/merge` writes one output, but `Job` has none", "declare the output")
    ]


def test_a_workflow_file_that_composes_datasets_has_outputs_and_no_products() -> None:
    flow = "workflow: w\ncomposition: {mode: sequential}\njobs:\n  Job: {uses: data/sql, with: {}}\n"
    assert [problem.message for problem in data_output_problems(expanded(flow))] == [
        "`data/sql` writes one output, but `Job` has none"
    ]


def test_every_output_beyond_the_first_is_told() -> None:
    hint = "remove it, or make it in a step of its own"
    found = output_problems(MERGE, "Data: {type: dataset}, More: {type: dataset, path: a.xlsx}, Most: {type: dataset}")
    assert [(line, message, of) for line, _, message, of in found] == [
        (6, "`data/merge` writes one output, and `Job` declares `More` beside `Data`", hint),
        (6, "`data/merge` writes one output, and `Job` declares `Most` beside `Data`", hint),
    ]


def test_a_suffix_that_is_known_only_when_the_step_starts_is_not_told() -> None:
    flow = """\
workflow: w
loops: {n: {values: [a, b]}}
jobs:
  Job: {for: [n], uses: data/merge, with: {}, outputs: {Data: {type: dataset, path: "out/${{ n }}.xlsx"}}}
"""
    assert data_output_problems(expanded(flow)) == []


def test_a_suffix_without_a_path_is_told_at_the_output() -> None:
    """As dataset plans have it: a product is called after its file."""
    graph = expanded("workflow: w\njobs:\n  Job: {uses: data/sql, with: {}, outputs: {Data: {type: dataset}}}\n")
    decl = graph.tables[0].decl
    for suffix, told_of in ((".xlsx", 1), (".csv", 0), ("", 0)):
        named = replace(decl, outputs={"Data": replace(decl.outputs["Data"], suffix=suffix)})
        found = data_output_problems(replace(graph, tables=(replace(graph.tables[0], decl=named),)))
        assert [problem.message for problem in found] == [
            f"`data/sql` writes `.csv`, `.tsv` or `.parquet`, and `Data` ends in `{suffix}`"
        ] * told_of
        assert [(problem.line, problem.column) for problem in found] == [(3, 45)] * told_of
