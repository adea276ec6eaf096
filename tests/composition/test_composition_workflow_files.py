"""`composition:` in workflow files: the same modes and the same shape check, on the graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyrun.project import Project

HEAD = """\
workflow: panel
composition: {mode: MODE, roles: {Main: primary_dataset, Names: auxiliary_data}}
inputs:
  Main: {type: dataset, default: main.csv}
  Other: {type: dataset, default: other.csv}
  Names: {type: dataset, default: names.csv}
  Parts: {type: "dataset[]", default: "*.csv"}
loops:
  part: {each: inputs.Parts}
jobs:
"""


def problems(tmp_path: Path, mode: str, *jobs: str, head: str = HEAD) -> list[tuple[str, int | None, str, str | None]]:
    for name in ("main", "other", "names"):
        (tmp_path / f"{name}.csv").write_text("id,x\n1,2\n")
    file = tmp_path / "workflow.yaml"
    file.write_text(head.replace("MODE", mode) + "".join(f"  {job}\n" for job in jobs))
    return [(p.code, p.line, p.message, p.hint) for p in Project.open(file).problems]


def job(name: str, out: str, **bound: str) -> str:
    entries = "".join(
        f", {key}: {value}" if value[0] == "[" else f', {key}: "${{{{ {value} }}}}"' for key, value in bound.items()
    )
    return f"{name}: {{uses: shell, with: {{run: 'true'{entries}}}, outputs: {{{out}: {{type: dataset}}}}}}"


CLEAN = job("Clean", "Data", primary_dataset="inputs.Main", lookup="inputs.Names")
MODEL = job("Model", "Fit", primary_dataset="jobs.Clean.outputs.Data", auxiliary_data="inputs.Other")
MERGE = (
    'Merge: {uses: data/merge, with: {primary_dataset: "${{ inputs.Main }}", keys: [id], '
    'secondary_dataset: "${{ inputs.Other }}"}, outputs: {Data: {type: dataset}}}'
)
PARTS = (
    "Part: {for: [part], uses: shell, with: {run: 'true', primary_dataset: \"${{ inputs.Parts[part] }}\"}, "
    "outputs: {Fit: {type: dataset}}}"
)
ALL = job("All", "Table", primary_dataset="jobs.Part.outputs.Fit[:]")
CHECK = (
    "Check: {uses: shell, with: {run: 'true', primary_dataset: \"${{ inputs.Main }}\"}, "
    "outputs: {Report: {type: json, leaves: {share: number}}}}"
)
GOOD_ONE = (
    'One: {if: "${{ jobs.Check.outputs.Report.share < 0.5 }}", uses: shell, '
    "with: {run: 'true', primary_dataset: \"${{ inputs.Main }}\"}, outputs: {Fit: {type: dataset}}}"
)
OTHER_ONE = GOOD_ONE.replace("One:", "Two:").replace("< 0.5", ">= 0.5")
JOIN = job("Join", "Table", primary_dataset="first(jobs.One.outputs.Fit, jobs.Two.outputs.Fit)")


@pytest.mark.parametrize(
    ("mode", "jobs"),
    [
        ("sequential", (CLEAN, MODEL)),
        ("merge_then_sequential", (MERGE, MODEL.replace("Clean", "Merge"))),
        ("parallel_then_aggregate", (PARTS, ALL)),
        ("conditional", (CHECK, GOOD_ONE, OTHER_ONE, JOIN)),
    ],
)
def test_each_mode_fits(tmp_path: Path, mode: str, jobs: tuple[str, ...]) -> None:
    assert problems(tmp_path, mode, *jobs) == []
    composition = Project.open(tmp_path / "workflow.yaml").workflow.composition
    assert composition is not None
    assert (composition.mode, composition.manifest, composition.conditions) == (mode, None, ())
    assert [(dataset.key, dataset.role) for dataset in composition.datasets] == [
        ("Main", "primary_dataset"),
        ("Other", None),
        ("Names", "auxiliary_data"),
        ("Parts", None),
    ]


@pytest.mark.parametrize(
    ("mode", "jobs", "reported"),
    [
        (
            "sequential",
            (CLEAN, MODEL.replace("auxiliary_data", "secondary")),
            (12, "`Input:Other` is a second dataset; `sequential` starts from one, `Input:Main`",
             "bind `Input:Other` as `auxiliary_data`"),
        ),
        (
            "sequential",
            (MERGE.replace("inputs.Other", "inputs.Main"),),
            (11, "`Job:Merge` merges, and `sequential` has no merge",
             "use `merge_then_sequential`, which fits as it is; or remove the merge"),
        ),
        (
            "merge_then_sequential",
            (CLEAN, MODEL),
            (2, "no step merges or appends, and `merge_then_sequential` needs one",
             "use `sequential`, which fits as it is; or add a step that does"),
        ),
        (
            "parallel_then_aggregate",
            (PARTS,),
            (2, "no step takes products of two or more branches, and `parallel_then_aggregate` brings them together in "
             "one step",
             "add a step that binds a product of each branch, as a list"),
        ),
        (
            "parallel_then_aggregate",
            (CLEAN, MODEL),
            (2, "no step takes products of two or more branches, and `parallel_then_aggregate` brings them together in "
             "one step",
             "use `sequential`, which fits as it is; or add a step that binds a product of each branch, as a list"),
        ),
        (
            "conditional",
            (CLEAN, MODEL),
            (2, "no step depends on a condition, and `conditional` needs one",
             "use `sequential`, which fits as it is; or add a condition with a predicate and branches"),
        ),
        (
            "sequential",
            (CHECK, GOOD_ONE),
            (12, "`Job:One` depends on a condition, and `sequential` has none",
             "use `conditional`, which fits as it is; or remove the condition"),
        ),
    ],
)  # fmt: skip
def test_a_shape_that_does_not_fit(
    tmp_path: Path, mode: str, jobs: tuple[str, ...], reported: tuple[int, str, str]
) -> None:
    assert problems(tmp_path, mode, *jobs) == [("COMPOSITION_MODE_SHAPE", *reported)]


def test_mistakes_of_composition_itself(tmp_path: Path) -> None:
    def of(line: str) -> list[tuple[str, int | None, str, str | None]]:
        head = HEAD.replace("composition: {mode: MODE, roles: {Main: primary_dataset, Names: auxiliary_data}}", line)
        return problems(tmp_path, "", CLEAN, MODEL, head=head)

    modes = "one of `sequential`, `merge_then_sequential`, `parallel_then_aggregate`, `conditional`"
    roles = "known: `primary_dataset`, `secondary_dataset`, `auxiliary_data`"
    assert of("composition: {}") == [("COMPOSITION_MODE_MISSING", 2, "`composition` has no `mode`", modes)]
    assert of("composition: sequential") == [
        ("WRONG_TYPE", 2, "`composition` is a string, not a map", "write `composition: {mode: merge_then_sequential}`")
    ]
    assert of("composition: {mode: sequentiel}") == [
        ("COMPOSITION_MODE_UNKNOWN", 2, "there is no composition mode `sequentiel`", "did you mean `sequential`?")
    ]
    assert of("composition: {mode: sequential, roles: {Mian: primary_dataset, Main: first, part: x}, key: 1}") == [
        ("DATASET_UNKNOWN", 2, "there is no dataset `Mian`", "did you mean `Main`?"),
        ("WRONG_TYPE", 2, "there is no role `first`", roles),
        ("DATASET_UNKNOWN", 2, "there is no dataset `part`", "did you mean `Parts`?"),
        ("WRONG_TYPE", 2, "there is no role `x`", roles),
        ("UNKNOWN_KEY", 2, "`composition` has no key `key`", "known: `mode`, `roles`"),
    ]


def test_keys_are_looked_for_in_the_headers_before_anything_runs(tmp_path: Path) -> None:
    assert problems(tmp_path, "merge_then_sequential", MERGE.replace("[id]", "[id, yaer]")) == [
        ("MERGE_KEY_UNKNOWN", 11, "`Input:Main` has no column `yaer`", "known: `id`, `x`"),
        ("MERGE_KEY_UNKNOWN", 11, "`Input:Other` has no column `yaer`", "known: `id`, `x`"),
    ]
    sides = MERGE.replace("[id]", "{primary: [id], secondary: [firm]}")
    assert problems(tmp_path, "merge_then_sequential", sides) == [
        ("MERGE_KEY_UNKNOWN", 11, "`Input:Other` has no column `firm`", "known: `id`, `x`"),
    ]
