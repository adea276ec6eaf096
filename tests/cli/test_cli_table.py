"""`whyrun table`: values over loops, as text, CSV and JSON."""

from __future__ import annotations

from pathlib import Path

from cli_lab import whyrun
from question_lab import run

WORKFLOW = """\
workflow: study
loops:
  seed: {range: [1, 2]}
  rate: {values: [0.5, 1.5]}
jobs:
  Fit:
    for: [seed, rate]
    uses: shell
    with:
      seed: ${{ seed }}
      rate: ${{ rate }}
      run: |
        if [ "$seed $rate" = "2 1.5" ]; then exit 4; fi
        printf '{"score": %s}' "$(awk "BEGIN {print $seed * $rate}")" > "$out_Result"
    outputs:
      Result: {type: json, leaves: {score: number}}
  Best:
    for: [seed]
    uses: shell
    with:
      seed: ${{ seed }}
      run: |
        echo "$seed" > "$out_N"
        printf '{"a": %s, "b": "x"}' "$seed" > "$out_J"
    outputs: {N: {type: integer}, J: {type: json}, F: {type: file}}
"""


def study(folder: Path) -> Path:
    (folder / "workflow.yaml").write_text(WORKFLOW.replace(", F: {type: file}", ""))
    run(folder, code=1)  # Fit[2][1.5] fails
    return folder


def test_leaves_over_two_loops(tmp_path: Path) -> None:
    folder = study(tmp_path)
    answer = whyrun(folder, "table", "Artifact:Fit.Result[*][*].score")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "seed  rate  score  state",
        "   1   0.5    0.5",
        "   1   1.5    1.5",
        "   2   0.5      1",
        "   2   1.5         failed",
    ]
    ordered = whyrun(folder, "table", "Artifact:Fit.Result[*][*].score", "--sort", "-score", "--csv").out
    assert ordered.splitlines() == ["seed,rate,score", "1,1.5,1.5", "2,0.5,1", "1,0.5,0.5", "2,1.5,"]
    found = whyrun(folder, "table", "Artifact:Fit.Result[*][1.5].score", "--json").json
    assert found == {
        "workflow": "study",
        "patterns": ["Artifact:Fit.Result[*][1.5].score"],
        "loops": ["seed", "rate"],
        "columns": ["score"],
        "rows": [
            {
                "index": [1, 1.5],
                "values": [1.5],
                "states": ["available"],
                "artifacts": ["Artifact:Fit.Result[1][1.5].score"],
                "runs": ["r0001"],
            },
            {
                "index": [2, 1.5],
                "values": [None],
                "states": ["failed"],
                "artifacts": ["Artifact:Fit.Result[2][1.5].score"],
                "runs": ["r0001"],
            },
        ],
        "total": 2,
    }


def test_values_and_json_documents_of_several_jobs_are_one_table(tmp_path: Path) -> None:
    folder = study(tmp_path)
    words = ("table", "Artifact:Best.N[*]", "Artifact:Best.J[*]")
    assert whyrun(folder, *words).out.splitlines() == ["seed  N  a  b", "   1  1  1  x", "   2  2  2  x"]
    both = whyrun(folder, "table", "Artifact:Fit.Result[*][*].score", "Artifact:Best.N[*]", "--csv").out.splitlines()
    assert both[0] == "seed,rate,score,N"
    assert both[-2:] == ["1,,,1", "2,,,2"]  # other loops: rows of their own


def test_without_a_pattern_it_lists_those_that_have_values(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    patterns = ["Artifact:Best.J[*]", "Artifact:Best.N[*]", "Artifact:Fit.Result[*][*].score"]
    assert whyrun(tmp_path, "table").out.splitlines() == patterns
    assert whyrun(tmp_path, "table", "--json").json == {"workflow": "study", "patterns": patterns}


def test_mistakes_name_what_would_work(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    for words, line, hint in (
        (("Artifact:Best.F[*]",), "`Artifact:Best.F[*]` has no values: it stands for files", "`Artifact:Best.N[*]`"),
        (("Job:Best[*]",), "`Job:Best[*]` is not an artifact", "`Artifact:Best.N[*]`"),
        (("Fit",), "`Fit` is not an artifact", "hint: values are in `Artifact:Fit.Result[*][*].score`\n"),
        (("Artifact:Best.N[*]", "--sort", "M"), "the table has no column `M`", "`N`"),
    ):
        answer = whyrun(tmp_path, "table", *words)
        assert (answer.code, answer.out) == (2, "")
        assert line in answer.err
        assert hint in answer.err


def test_a_job_that_is_named_without_its_kind_is_told_as_the_id_to_write(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    for words in (("keep", "Fit", "--because", "x"), ("status", "Fit"), ("reads", "Fit"), ("compare", "Fit")):
        answer = whyrun(tmp_path, *words)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.splitlines() == [
            "error[USAGE]: `Fit` is neither a file nor an ID", "   hint: write `'Job:Fit[*][*]'`",
        ]  # fmt: skip


def test_before_the_first_run_every_value_is_missing(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    assert whyrun(tmp_path, "table", "Artifact:Best.J[*]").out.splitlines() == [
        "seed  J  state",
        "   1     missing",
        "   2     missing",
    ]
