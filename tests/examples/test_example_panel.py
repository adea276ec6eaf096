"""The example `firm-panel`: run for real, each of its numbers against a computation of its own, and its demo."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import page_checks
from fork_server import shell_environment, with_imported
from page_objects import Viewer
from project_lab import NOT_TRACED, Lab, reasons
from whyrun.planning.plan import Plan
from whyrun.project import Project

for needed in ("duckdb", "statsmodels", "matplotlib"):
    pytest.importorskip(needed)

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "firm-panel"
MANIFEST = "data/manifest.json"
UPSTREAM = "UPSTREAM_DIRTY"
REGRESSORS = ("q", "cash_flow", "leverage")
STEPS = ("merge_controls", "add_industry", "diagnose", "fixed_effects", "pooled", "table", "figure")

Row = dict[str, str]


class PanelLab(Lab):
    """The example, through its plan or one of `modes/`."""

    def __init__(self, root: Path, plan: str = "firm-panel.json") -> None:
        super().__init__(root)
        self.file = root / plan

    def opened(self, sets: Any = ()) -> Project:
        manifest = self.root / MANIFEST if self.file.suffix == ".json" else None
        return Project.open(self.file, sets=sets, manifest=manifest)

    def rows(self, name: str) -> list[Row]:
        return list(csv.DictReader(self.read(name).splitlines()))

    def summary(self, run: str = "r0001") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run_folder(run) / "composition_summary.json").read_bytes())
        return found


def generate(root: Path, *options: str) -> None:
    subprocess.run([sys.executable, root / "generate.py", *options], check=True, timeout=300)


@pytest.fixture(scope="module", autouse=True)
def _imported() -> Iterator[None]:
    with with_imported("duckdb", "pyarrow.dataset", "statsmodels.api"):
        yield


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> PanelLab:
    root = tmp_path_factory.mktemp("panel") / "firm-panel"
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns(".whyrun", "results", "__pycache__", "*.csv"))
    generate(root)
    lab = PanelLab(root)
    lab.write(NOT_TRACED)
    ran = lab.succeed()
    assert ran.executed == [f"Job:{step}" for step in sorted(STEPS) if step != "pooled"]
    assert ran.inactive == {"Job:pooled": "condition_false"}
    return lab


@pytest.fixture
def panel(first_run: PanelLab, tmp_path: Path) -> PanelLab:
    """A copy of that with all its state, to be changed."""
    shutil.copytree(first_run.root, tmp_path / "copied", symlinks=True)
    lab = PanelLab(tmp_path / "copied")
    assert lab.plan().headlines() == {}
    return lab


def words(plan: Plan) -> dict[str, list[str]]:
    return {
        id_: [" ".join(str(value) for key, value in reason.items() if key not in ("old", "new")) for reason in found]
        for id_, found in reasons(plan).items()
    }


# --- the numbers, computed once more with plain Python and numpy -------------------------------------------------


def merged(lab: PanelLab) -> list[Row]:
    """The panel with its controls, `""` where there are none."""
    controls = {(row["firm_id"], row["year"]): row for row in lab.rows("data/controls.csv")}
    nothing = {"cash_flow": "", "leverage": ""}
    return [{**nothing, **row, **controls.get((row["firm_id"], row["year"]), {})} for row in lab.rows("data/panel.csv")]


def means_by(rows: list[Row], key: str, column: str) -> dict[str, float]:
    found = defaultdict(list)
    for row in rows:
        found[row[key]].append(float(row[column]))
    return {value: fmean(numbers) for value, numbers in found.items()}


def firm_share(rows: list[Row]) -> float:
    """Of the variance of investment, how much lies between firms. By sums of squares; the plan has a correlation."""
    firms, every = means_by(rows, "firm_id", "investment"), fmean(float(row["investment"]) for row in rows)
    between = sum((firms[row["firm_id"]] - every) ** 2 for row in rows)
    return between / sum((float(row["investment"]) - every) ** 2 for row in rows)


def complete(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["cash_flow"] and row["leverage"]]


def with_dummies(rows: list[Row], key: str) -> tuple[Any, Any, list[str]]:
    """Outcome, regressors with one dummy for each value of the key, and the values."""
    import numpy as np

    values = sorted({row[key] for row in rows})
    at = {value: number for number, value in enumerate(values)}
    x = np.zeros((len(rows), 3 + len(values)))
    for number, row in enumerate(rows):
        x[number, :3] = [float(row[name]) for name in REGRESSORS]
        x[number, 3 + at[row[key]]] = 1
    return np.array([float(row["investment"]) for row in rows]), x, values


def test_the_merges_are_what_plain_python_finds(first_run: PanelLab) -> None:
    panel, controls = first_run.rows("data/panel.csv"), first_run.rows("data/controls.csv")
    left, right = ({(row["firm_id"], row["year"]) for row in rows} for rows in (panel, controls))
    assert (len(panel), len(left), len(controls), len(right)) == (4000, 4000, 3942, 3942), "1:1"
    both = len(left & right)
    first, second, choice = first_run.summary()["decisions"]
    counts = {"null_key_left": 0, "null_key_right": 0}
    ids = {
        "left": [key for row in panel if (key := (row["firm_id"], row["year"])) not in right],
        "right": [key for row in controls if (key := (row["firm_id"], row["year"])) not in left],
    }
    alone = {side: [{"firm_id": f, "year": y} for f, y in keys[:20]] for side, keys in ids.items()}
    assert first == {
        "kind": "merge", "step_id": "Job:merge_controls", "left": "primary_dataset", "right": "secondary_dataset",
        "how": "left", "keys": ["firm_id", "year"], "cardinality": {"asked": "1:1", "found": "1:1"},
        "rows": {"left": 4000, "right": 3942, "matched_left": both, "matched_right": both, "out": 4000,
                 "unmatched_left": len(left - right), "unmatched_right": len(right - left), **counts},
        "renamed": {}, "refused": False, "unmatched": alone,
    }  # fmt: skip
    assert second["rows"] == {
        "left": 4000, "right": 6, "matched_left": 4000, "matched_right": 6, "unmatched_left": 0, "unmatched_right": 0,
        "out": 4000, **counts,
    }  # fmt: skip
    assert second["cardinality"] == {"asked": "m:1", "found": "m:1"}
    assert (choice["step_id"], choice["result"]) == ("choose", True)
    assert (choice["taken"], choice["not_taken"]) == (["Job:fixed_effects"], ["Job:pooled"])


def test_the_diagnostics_are_what_plain_python_finds(first_run: PanelLab) -> None:
    rows = merged(first_run)
    missing = sum(not row[name] for row in rows for name in ("cash_flow", "leverage"))
    found = json.loads(first_run.read("results/diagnostics.json"))
    assert found == {
        "rows": len(rows), "missing_share": missing / 8000, "firm_share": pytest.approx(firm_share(rows), abs=1e-12),
    }  # fmt: skip
    (choice,) = [d for d in first_run.summary()["decisions"] if d["kind"] == "condition"]
    assert {id_: entry["value"] for id_, entry in choice["inputs"].items()} == {
        "Artifact:diagnose.report.missing_share": found["missing_share"],
        "Artifact:diagnose.report.firm_share": found["firm_share"],
    }


def test_fixed_effects_are_what_a_regression_with_400_dummies_finds(first_run: PanelLab) -> None:
    import numpy as np

    rows = complete(merged(first_run))
    y, x, firms = with_dummies(rows, "firm_id")
    coefficients, *_ = np.linalg.lstsq(x, y, rcond=None)
    residuals = y - x @ coefficients
    means = {name: means_by(rows, "firm_id", name) for name in REGRESSORS}
    within = np.array([[float(row[n]) - means[n][row["firm_id"]] for n in REGRESSORS] for row in rows])
    members = {firm: [number for number, row in enumerate(rows) if row["firm_id"] == firm] for firm in firms}
    scores = np.array([residuals[members[firm]] @ within[members[firm]] for firm in firms])
    bread = np.linalg.inv(within.T @ within)
    small = len(firms) / (len(firms) - 1) * (len(rows) - 1) / (len(rows) - 3)
    errors = np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread) * small)
    found = first_run.rows("results/table.csv")
    assert [(row["variable"], row["label"], row["model"], row["observations"]) for row in found] == [
        ("q", "Tobin's q", "fixed effects", str(len(rows))),
        ("cash_flow", "Cash flow / assets", "fixed effects", str(len(rows))),
        ("leverage", "Debt / assets", "fixed effects", str(len(rows))),
    ]
    assert [float(row["coefficient"]) for row in found] == pytest.approx(coefficients[:3], abs=1e-6)
    assert [float(row["std_error"]) for row in found] == pytest.approx(errors, abs=1e-6)
    for row, true in zip(found, (0.03, 0.20, -0.05), strict=True):
        assert float(row["low"]) < true < float(row["high"]), "what the data was made with"


def test_pooling_would_blame_q_for_what_firms_are(first_run: PanelLab) -> None:
    """What README says of these data, whose true coefficient is 0.03."""
    import numpy as np

    y, x, _ = with_dummies(complete(merged(first_run)), "sic")
    pooled, *_ = np.linalg.lstsq(x, y, rcond=None)
    assert f"{pooled[0]:.2f}" == "0.09"


def test_the_report(first_run: PanelLab) -> None:
    table = {row["variable"]: row for row in first_run.rows("results/table.csv")}
    shown = {name: f"{float(row['coefficient']):.4f} | ({float(row['std_error']):.4f})" for name, row in table.items()}
    assert first_run.read("results/table.md") == (
        f"Investment / assets, fixed effects, {table['q']['observations']} firm-years\n\n"
        "| | coefficient | standard error |\n|---|---:|---:|\n"
        f"| Tobin's q | {shown['q']} |\n| Cash flow / assets | {shown['cash_flow']} |\n"
        f"| Debt / assets | {shown['leverage']} |\n"
    )
    assert (first_run.root / "results/figure.png").read_bytes().startswith(b"\x89PNG\r\n")


# --- what a change makes run again -------------------------------------------------------------------------------


def test_two_front_ends_and_one_graph(panel: PanelLab) -> None:
    """What the plan has made is up to date for the workflow file, and the other way round."""
    file = PanelLab(panel.root, "workflow.yaml")
    assert file.plan().headlines() == {}
    assert file.run().result.run is None
    ran = file.succeed(force=[f"Job:{step}" for step in STEPS if step != "pooled"])
    assert ran.executed == [f"Job:{step}" for step in sorted(STEPS) if step != "pooled"]
    assert panel.plan().headlines() == {}


def test_labels_concern_the_table_and_the_figure_alone(panel: PanelLab) -> None:
    panel.edit("data/labels.csv", "Debt", "Total debt")
    assert words(panel.plan()) == {
        "Job:table": ["INPUT_CHANGED auxiliary_data Input:labels"],
        "Job:figure": [f"{UPSTREAM} Job:table"],
    }
    assert panel.succeed().executed == ["Job:figure", "Job:table"]


def test_an_industry_without_firms_changes_no_result(panel: PanelLab) -> None:
    with (panel.root / "data/industries.csv").open("a") as file:
        file.write("6311,Life insurance\n")
    assert words(panel.plan()) == {
        "Job:add_industry": ["INPUT_CHANGED secondary_dataset Input:industries"],
        "Job:diagnose": [f"{UPSTREAM} Job:add_industry"],
        "Job:fixed_effects": [f"{UPSTREAM} Job:add_industry", f"{UPSTREAM} Job:diagnose"],
        "Job:pooled": [
            "MISSING_OUTPUT Artifact:pooled.fit", f"{UPSTREAM} Job:add_industry", f"{UPSTREAM} Job:diagnose",
        ],
        "Job:table": [f"{UPSTREAM} Job:fixed_effects", f"{UPSTREAM} Job:pooled"],
        "Job:figure": [f"{UPSTREAM} Job:table"],
    }  # fmt: skip
    ran = panel.succeed()
    assert ran.executed == ["Job:add_industry"]
    assert ran.reused == dict.fromkeys(("Job:diagnose", "Job:fixed_effects", "Job:figure", "Job:table"), "r0001")


def test_the_page_says_the_same(panel: PanelLab, tmp_path: Path) -> None:
    """Reasons, plans, and what the summary of the composition says: rows that met, and the branch that was taken."""
    panel.edit("data/labels.csv", "Debt", "Total debt")
    page_checks.check_views(panel)
    summary = panel.summary()

    def datasets(viewer: Viewer) -> None:
        viewer.go("datasets")
        text = " ".join(viewer.main_text().split())
        for merge in (one for one in summary["decisions"] if one["kind"] == "merge"):
            rows = merge["rows"]
            assert f"{rows['matched_left']:,} of {rows['left']:,} rows matched" in text
            assert f"{rows['matched_right']:,} of {rows['right']:,} rows matched" in text
            assert (f", {rows['unmatched_left']:,} did not" in text) == bool(rows["unmatched_left"])
        assert "taken fixed_effects not taken pooled" in text

    page_checks.check_report(panel, tmp_path / "report.html", datasets)


def test_a_key_that_occurs_twice_is_refused_with_counts_and_keys(panel: PanelLab) -> None:
    lines = panel.read("data/controls.csv").splitlines(keepends=True)
    (panel.root / "data/controls.csv").write_text("".join([*lines, *lines[1:3]]))
    ran = panel.run()
    assert (ran.exit_code, set(ran.blocked)) == (1, {f"Job:{step}" for step in STEPS[1:]})
    (step, *_) = panel.summary("r0002")["steps"]
    assert step["error"] == (
        "CardinalityViolated: `cardinality: 1:1` does not hold (found 1:m): 2 keys occur more than once in "
        "`secondary_dataset` (4 rows): (firm_id=F0001, year=2014) 2 times, (firm_id=F0001, year=2015) 2 times; "
        "correct the data, add columns to `keys` that distinguish the rows, or write `1:m`"
    )


def test_where_firms_do_not_differ_the_other_regression_runs(panel: PanelLab) -> None:
    import numpy as np

    generate(panel.root, "--firm-effect", "0")
    ran = panel.succeed()
    assert ran.inactive == {"Job:fixed_effects": "condition_false"}
    (choice,) = [d for d in panel.summary("r0002")["decisions"] if d["kind"] == "condition"]
    assert (choice["result"], choice["taken"]) == (False, ["Job:pooled"])
    rows = complete(merged(panel))
    y, x, groups = with_dummies(rows, "sic")
    coefficients, *_ = np.linalg.lstsq(x, y, rcond=None)
    bread = np.linalg.inv(x.T @ x)
    scores = x * (y - x @ coefficients)[:, None]
    errors = np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread) * len(rows) / (len(rows) - 3 - len(groups)))
    found = panel.rows("results/table.csv")
    assert {(row["model"], row["observations"]) for row in found} == {("pooled OLS", str(len(rows)))}
    assert [float(row["coefficient"]) for row in found] == pytest.approx(coefficients[:3], abs=1e-6)
    assert [float(row["std_error"]) for row in found] == pytest.approx(errors[:3], abs=1e-6)


# --- the four modes ----------------------------------------------------------------------------------------------


def expected_of(mode: str, lab: PanelLab) -> list[Row]:
    panel, controls = lab.rows("data/panel.csv"), lab.rows("data/controls.csv")
    if mode == "merge":
        return lab.rows("results/table.csv")  # which is looked at above
    if mode == "sequential":
        names = {row["sic"]: row["industry"] for row in lab.rows("data/industries.csv")}
        recent = [{**row, "industry": names[row["sic"]]} for row in panel if int(row["year"]) >= 2019]
        sizes, means = Counter(row["industry"] for row in recent), means_by(recent, "industry", "investment")
        return [{"industry": n, "firm_years": str(sizes[n]), "investment": f"{means[n]:.4f}"} for n in sorted(sizes)]
    if mode == "parallel":
        return [
            {"step": step, "year": year, "firms": str(sum(row["year"] == year for row in rows)), "mean": f"{mean:.4f}"}
            for step, rows in (("investment", panel), ("cash_flow", controls))
            for year, mean in sorted(means_by(rows, "year", step).items())
        ]
    known = [float(row["leverage"]) for row in controls if row["leverage"]]
    assert len(known) / len(controls) < 0.99
    mean = f"{fmean(known):.4f}"
    return [{"label": "Debt / assets", "rows_used": "known", "n": str(len(known)), "leverage": mean}]


@pytest.mark.parametrize(
    ("mode", "steps", "dataset", "changed"),
    [
        ("sequential", ["by_industry", "recent"], "panel", ["by_industry", "recent"]),
        ("merge", ["add_industry", "merge_controls", "model", "table"], "labels", ["table"]),
        ("parallel", ["cash_flow", "investment", "together"], "controls", ["cash_flow", "together"]),
        ("conditional", ["diagnose", "mean_of_known", "table"], "controls",
         ["diagnose", "mean_of_all", "mean_of_known", "table"]),
    ],
)  # fmt: skip
def test_each_mode(
    first_run: PanelLab, tmp_path: Path, mode: str, steps: list[str], dataset: str, changed: list[str]
) -> None:
    shutil.copytree(first_run.root, tmp_path / "copied", symlinks=True)
    lab = PanelLab(tmp_path / "copied", f"modes/{mode}.json")
    assert lab.succeed().executed == [f"Job:{step}" for step in steps]
    found = lab.rows(f"results/{mode}.csv")
    rounded = [
        {**row, **{k: f"{float(v):.4f}" for k, v in row.items() if k in ("mean", "investment")}} for row in found
    ]
    assert rounded == expected_of(mode, lab)
    assert lab.run().result.run is None
    lines = lab.read(f"data/{dataset}.csv").splitlines(keepends=True)
    (lab.root / f"data/{dataset}.csv").write_text("".join([lines[0], *lines[:0:-1]]))  # the same rows, the last first
    plan = lab.plan()
    assert sorted(plan.headlines()) == [f"Job:{step}" for step in changed]
    named = [reason for found in words(plan).values() for reason in found if reason.startswith("INPUT_CHANGED")]
    assert {reason.split()[-1] for reason in named} == {f"Input:{dataset}"}


# --- the demo, and what it needs ---------------------------------------------------------------------------------


def run_demo(scratch: Path, example: Path = EXAMPLE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", example / "demo.sh", scratch],
        env=shell_environment(scratch / "bin", {"HOME": str(scratch), "LANG": "C.UTF-8"}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_demo_holds(tmp_path: Path) -> None:
    done = run_demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert done.stdout.count("(the plan has exactly the expected jobs: ") == 2


def test_the_demo_fails_where_it_would_lie(tmp_path: Path) -> None:
    """In a copy whose plan is not valid. It is noticed before the first run."""
    example = tmp_path / "example"
    shutil.copytree(EXAMPLE, example)
    plan = example / "firm-panel.json"
    text = plan.read_text(encoding="utf-8")
    assert text.count(', "cardinality": "1:1"') == 1
    plan.write_text(text.replace(', "cardinality": "1:1"', ', "cardinality": "1:2"'), encoding="utf-8")
    done = run_demo(tmp_path / "scratch", example)
    assert done.returncode == 1
    assert "the demo failed: exit status 2 instead of 0" in done.stderr


def test_the_developers_set_contains_what_the_example_needs() -> None:
    lines = (EXAMPLE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    needed = {line for line in lines if line and not line.startswith("#")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert needed <= set(extras["dev"])
    assert set(extras["data"]) <= set(extras["dev"])
