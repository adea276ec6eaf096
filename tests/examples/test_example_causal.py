"""`examples/causal-discovery`, run for real: what is learned, and exactly what a change makes run again."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import pytest

import page_checks
from fork_server import shell_environment, with_imported
from page_objects import Viewer
from project_lab import NOT_TRACED, Lab, codes, reasons

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "causal-discovery"
NETWORKS, ALGORITHMS, SIZES, SEEDS = ("asia", "cancer"), ("pc", "hc", "miic"), (100, 1000), (0, 1, 2, 3, 4)
GRAPHML = "{http://graphml.graphdrawing.org/xmlns}"


@pytest.fixture(scope="module", autouse=True)
def _imported() -> Iterator[None]:
    with with_imported("pyagrum"):
        yield


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A copy of the example that has run once; to look at, not to change."""
    lab = Lab(tmp_path_factory.mktemp("first") / "causal-discovery")
    shutil.copytree(EXAMPLE, lab.root, ignore=shutil.ignore_patterns(".whyrun", "__pycache__", "results", "data"))
    lab.write(NOT_TRACED)
    assert lab.succeed().executed == sorted(every_job())
    return lab


@pytest.fixture
def causal(first_run: Lab, tmp_path: Path) -> Lab:
    """A copy of that, with all its state: another folder of another name, and still nothing to do."""
    lab = Lab(tmp_path / "copied")
    shutil.copytree(first_run.root, lab.root, symlinks=True)
    assert codes(lab.plan()) == {}
    return lab


def ids(job: str, *loops: Iterable[object]) -> list[str]:
    return [f"Job:{job}" + "".join(f"[{index}]" for index in indices) for indices in product(*loops)]


def every_job() -> list[str]:
    return [
        *ids("truth", NETWORKS),
        *ids("sample", NETWORKS, SIZES, SEEDS),
        *ids("learn", NETWORKS, ALGORITHMS, SIZES, SEEDS),
        *ids("evaluate", NETWORKS, ALGORITHMS, SIZES, SEEDS),
        *ids("merge", NETWORKS, ALGORITHMS, SIZES),
        *ids("best", NETWORKS),
        "Job:summary",
        "Job:plot",
    ]


def edges(file: Path) -> list[str]:
    """`a → b`, `a – b`, in the order of the file."""
    found = ET.parse(file).getroot().iter(f"{GRAPHML}edge")
    return [f"{e.get('source')} {'–' if e.get('directed') == 'false' else '→'} {e.get('target')}" for e in found]


# --- what it finds -----------------------------------------------------------------------------------------------


def test_the_true_graphs_say_what_data_can_tell(first_run: Lab) -> None:
    assert edges(first_run.root / "results/asia/truth.graphml") == [
        "asia – tub", "bronc → dysp", "bronc – smoke", "either → dysp", "either → xray", "lung → either",
        "lung – smoke", "tub → either",
    ]  # fmt: skip
    assert edges(first_run.root / "results/cancer/truth.graphml") == [
        "Cancer → Dyspnoea", "Cancer → Xray", "Pollution → Cancer", "Smoker → Cancer",
    ]  # fmt: skip


def test_the_best_graph_of_asia_is_what_most_seeds_found(first_run: Lab) -> None:
    merged = ET.parse(first_run.root / "results/asia/miic-1000-merged.graphml").getroot()
    frequency = {
        f"{edge.get('source')} {edge.get('target')}": [data.text for data in edge]
        for edge in merged.iter(f"{GRAPHML}edge")
    }
    assert frequency == {  # the share of seeds that join the two; that join them like this
        "bronc dysp": ["1.0", "0.8"], "bronc smoke": ["1.0", "0.6"], "dysp asia": ["0.2", "0.2"],
        "either dysp": ["1.0", "1.0"], "either smoke": ["0.2", "0.2"], "either xray": ["1.0", "1.0"],
        "lung either": ["1.0", "1.0"], "lung smoke": ["0.8", "0.6"], "tub asia": ["0.2", "0.2"],
        "tub either": ["1.0", "1.0"],
    }  # fmt: skip
    assert edges(first_run.root / "results/asia/best.graphml") == [
        "bronc → dysp", "bronc – smoke", "either → dysp", "either → xray", "lung → either", "lung – smoke",
        "tub → either",
    ]  # fmt: skip
    choice = first_run.content("Artifact:best.choice[asia]")
    assert choice == {
        "algorithm": "miic", "network": "asia", "seeds": 5, "size": 1000, "edges": 7, "right": 7, "added": 0,
        "missing": 1, "turned": 0, "shd": 1, "precision": 1.0, "recall": 0.875, "f1": 0.9333,
    }  # fmt: skip


def test_the_table_has_a_row_for_every_network_algorithm_and_size(first_run: Lab) -> None:
    rows = list(csv.DictReader(first_run.read("results/summary.csv").splitlines()))
    assert [(row["network"], row["algorithm"], int(row["size"])) for row in rows] == list(
        product(NETWORKS, ALGORITHMS, SIZES)
    )
    assert {row["seeds"] for row in rows} == {"5"}
    assert [row for row in rows if row["best"]] == [
        {"network": "asia", "algorithm": "miic", "size": "1000", "seeds": "5", "shd": "2.40", "shd_min": "1",
         "shd_max": "5", "precision": "0.832", "recall": "0.750", "f1": "0.787", "best": "best"},
        {"network": "cancer", "algorithm": "pc", "size": "1000", "seeds": "5", "shd": "3.60", "shd_min": "2",
         "shd_max": "5", "precision": "0.217", "recall": "0.200", "f1": "0.207", "best": "best"},
    ]  # fmt: skip
    assert (first_run.root / "results/summary.png").read_bytes().startswith(b"\x89PNG\r\n")


# --- what a change makes run again -------------------------------------------------------------------------------


def test_nothing_changed_means_nothing_to_do(first_run: Lab) -> None:
    assert first_run.run().result.run is None
    assert first_run.runs() == ["r0001"]


def test_another_seed_concerns_what_depends_on_it_and_nothing_else(causal: Lab) -> None:
    """The demo runs it."""
    causal.edit("workflow.yaml", "[0, 1, 2, 3, 4]", "[0, 1, 2, 3, 4, 5]")
    new = [
        *ids("sample", NETWORKS, SIZES, [5]),
        *ids("learn", NETWORKS, ALGORITHMS, SIZES, [5]),
        *ids("evaluate", NETWORKS, ALGORITHMS, SIZES, [5]),
    ]
    after = [*ids("merge", NETWORKS, ALGORITHMS, SIZES), *ids("best", NETWORKS), "Job:summary", "Job:plot"]
    plan = causal.plan()
    assert plan.headlines() == dict.fromkeys(new, "MISSING_OUTPUT") | dict.fromkeys(after, "UPSTREAM_DIRTY")
    assert reasons(plan)["Job:merge[asia][pc][100]"] == [
        {"code": "UPSTREAM_DIRTY", "job": "Job:learn[asia][pc][100][5]"}
    ]


def test_the_page_says_the_same(causal: Lab, tmp_path: Path) -> None:
    """Whatever runs and whatever does not: 44 jobs that will run after another seed, and those that are up to date."""
    causal.edit("workflow.yaml", "[0, 1, 2, 3, 4]", "[0, 1, 2, 3, 4, 5]")
    page_checks.check_views(causal)

    def two_artifacts(viewer: Viewer) -> None:
        viewer.go("artifact", "Artifact:best.graph[asia]")
        assert "8 nodes, 7 edges" in viewer.main_text()
        viewer.go("artifact", "Artifact:sample.data[asia][100][0]")
        assert "100 rows" in viewer.main_text()

    page_checks.check_report(causal, tmp_path / "report.html", two_artifacts)


def test_a_parameter_of_one_algorithm_concerns_that_algorithm_alone(causal: Lab) -> None:
    causal.edit("workflow.yaml", "default: 0.05", "default: 0.01")
    learn, evaluate = ids("learn", NETWORKS, ["pc"], SIZES, SEEDS), ids("evaluate", NETWORKS, ["pc"], SIZES, SEEDS)
    after = [*evaluate, *ids("merge", NETWORKS, ["pc"], SIZES), *ids("best", NETWORKS), "Job:summary", "Job:plot"]
    plan = causal.plan()
    assert plan.headlines() == dict.fromkeys(learn, "INPUT_CHANGED") | dict.fromkeys(after, "UPSTREAM_DIRTY")
    (reason,) = reasons(plan)["Job:learn[asia][pc][100][0]"]
    assert reason.pop("old") != reason.pop("new")  # their hashes
    assert reason == {
        "code": "INPUT_CHANGED",
        "binding": "alpha",
        "source": "Input:learn[asia][pc][100][0].with.alpha",
        "old_value": 0.05,
        "new_value": 0.01,
    }
    ran = causal.succeed()
    assert set(learn) <= set(ran.executed)
    assert ran.reused, "some graphs come out as before, and what depends only on them is not made again"
    causal.edit("workflow.yaml", "default: 0.01", "default: 0.05")
    assert set(causal.succeed().reused) >= set(learn), "back to the old level: nothing is learned again"


def test_a_section_that_was_cut_out_concerns_its_own_job_alone(causal: Lab) -> None:
    file = causal.root / "results" / "metadata.json"
    sections = json.loads(file.read_bytes())
    assert sorted(sections) == sorted(
        job.removeprefix("Job:") for job in ids("evaluate", NETWORKS, ALGORITHMS, SIZES, SEEDS)
    )
    assert sections["evaluate[asia][miic][1000][3]"] == {
        "algorithm": "miic", "network": "asia", "seed": 3, "size": 1000, "edges": 7, "right": 7, "added": 0,
        "missing": 1, "turned": 0, "shd": 1, "precision": 1.0, "recall": 0.875, "f1": 0.9333,
    }  # fmt: skip
    file.write_text(json.dumps({key: sections[key] for key in sections if key != "evaluate[asia][miic][1000][3]"}))
    assert codes(causal.plan()) == {"Job:evaluate[asia][miic][1000][3]": ["MISSING_OUTPUT"]}
    assert causal.succeed().reused == {"Job:evaluate[asia][miic][1000][3]": "r0001"}
    assert json.loads(file.read_bytes()) == sections


def test_compare_tells_which_edges_another_test_of_independence_changes(causal: Lab) -> None:
    causal.edit("actions/learn.py", 'INDEPENDENCE_TEST = "chi2"', 'INDEPENDENCE_TEST = "g2"')
    before = causal.plan()
    assert (
        before.headlines().items()
        >= dict.fromkeys(ids("learn", NETWORKS, ALGORITHMS, SIZES, SEEDS), "INPUT_CHANGED").items()
    ), "all three algorithms are one action, whose code has changed"
    done = subprocess.run(
        [Path(sys.executable).parent / "whyrun", "compare", "Job:learn[*][*][*][*]", "--json", "--quiet"],
        cwd=causal.root, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["artifacts"]
    assert len(found) == 60
    assert {entry["artifact"]: entry["details"] for entry in found if entry["status"] == "DIFFERENT"} == {
        "Artifact:learn.graph[asia][pc][100][0]": [
            "edge changed: either — lung is now either → lung",
            "edge added: smoke → lung",
        ],
        "Artifact:learn.graph[asia][pc][1000][0]": [
            "edge changed: either — lung is now lung → either",
            "edge added: tub → either",
            "edge removed: either — xray",
        ],
        "Artifact:learn.graph[asia][pc][1000][3]": [
            "edge removed: asia → tub",
            "edge changed: either — lung is now lung → either",
            "edge reversed: either → tub is now tub → either",
            "edge added: lung → smoke",
            "edge removed: lung → tub",
        ],
        "Artifact:learn.graph[cancer][pc][100][0]": ["edge added: Smoker — Xray"],
        "Artifact:learn.graph[cancer][pc][1000][3]": ["edge removed: Pollution → Cancer"],
    }
    assert causal.plan().digest == before.digest, "comparing changes no plan"


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
    assert done.stdout.count("(the plan has exactly the expected jobs: ") == 3


def test_the_demo_fails_where_it_would_lie(tmp_path: Path) -> None:
    """In a copy with one seed less. It is noticed in the first plan."""
    example = tmp_path / "example"
    shutil.copytree(EXAMPLE, example)
    workflow = example / "workflow.yaml"
    text = workflow.read_text(encoding="utf-8")
    assert text.count("default: [0, 1, 2, 3, 4]}") == 1
    workflow.write_text(text.replace("default: [0, 1, 2, 3, 4]}", "default: [0, 1, 2, 3]}"), encoding="utf-8")
    done = run_demo(tmp_path / "scratch", example)
    assert done.returncode == 1
    lacking = "causal-discovery before its first run: 158 of 158 jobs to run"
    assert f"the demo failed: the output lacks: {lacking}" in done.stderr


def test_the_developers_set_contains_what_the_example_needs() -> None:
    lines = (EXAMPLE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    needed = {line for line in lines if line and not line.startswith("#")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert needed <= set(project["project"]["optional-dependencies"]["dev"])


def test_the_example_ships_no_results() -> None:
    assert not [name for name in (".whyrun", "results", "data") if (EXAMPLE / name).exists()]
    assert json.dumps(sorted(file.name for file in EXAMPLE.glob("*.png"))) == '["summary.png"]'
