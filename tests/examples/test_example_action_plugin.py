"""The plugin template, really installed: pip builds and installs it into an environment of its own, offline."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import page_checks

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "action-plugin"

OFFLINE = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")

BROKEN = {
    "pyproject.toml": """
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"
        [project]
        name = "broken-actions"
        version = "2.0"
        [project.entry-points."whyrun.actions"]
        "broken/import" = "broken_actions.missing:anything"
        "broken/plain" = "broken_actions:plain"
        "broken/params" = "broken_actions:WrongParams"
        "broken/run" = "broken_actions:NoRun"
        "shell" = "broken_actions:shell"
    """,
    "broken_actions/__init__.py": """
        from whyrun import Action, action
        print("a plugin that talks")
        def plain(x): ...
        class NoRun(Action):
            name = "broken/run"
        class WrongParams(Action):
            class Params: ...
            def run(self, inputs): ...
        @action("shell")
        def shell(): ...
    """,
    "broken_actions/missing.py": "import a_library_that_is_not_there\n",
}


@dataclass(frozen=True)
class Installed:
    python: Path

    def __call__(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
        return subprocess.run(
            [self.python, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    def whyrun(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return self(folder, "-m", "whyrun.cli.main", *words)

    def install(self, package: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "pip", f"--python={self.python}", "install", *OFFLINE, str(package)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment that sees what this one has, plus the two plugins."""
    root = tmp_path_factory.mktemp("plugins")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / "venv"], check=True, timeout=300)
    packages = next((root / "venv" / "lib").glob("python*/site-packages"))
    (packages / "outer.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    found = Installed(root / "venv" / "bin" / "python")
    shutil.copytree(EXAMPLE, root / "action-plugin")
    found.install(root / "action-plugin")
    write(root / "broken", BROKEN)
    found.install(root / "broken")
    return found


def write(root: Path, files: Mapping[str, str]) -> Path:
    from textwrap import dedent

    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(dedent(text).lstrip("\n"))
    return root


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], Path]:
    def make(workflow: str) -> Path:
        return write(tmp_path, {"workflow.yaml": workflow, "poem.txt": "The rain in spring,\nthe rain again.\n"})

    return make


def test_the_template_is_discovered_and_runs(installed: Installed, project: Callable[[str], Path]) -> None:
    folder = project((EXAMPLE / "workflow.yaml").read_text(encoding="utf-8"))
    planned = installed.whyrun(folder, "explain")
    assert planned.returncode == 0, planned.stderr
    ran = installed.whyrun(folder, "run")
    assert ran.returncode == 0, ran.stderr
    assert (folder / "out" / "loud.txt").read_text() == "THE RAIN IN SPRING,\nTHE RAIN AGAIN.!!\n"
    words = [["rain", 2], ["the", 2], ["again", 1], ["spring", 1]]
    assert json.loads((folder / "out" / "words.json").read_text()) == words
    again = installed.whyrun(folder, "run")
    assert (again.returncode, again.stderr) == (0, "loud-words after r0001: nothing to do, 2 of 2 jobs up to date\n")


def test_the_report_says_why_as_explain_does(installed: Installed, project: Callable[[str], Path]) -> None:
    folder = project((EXAMPLE / "workflow.yaml").read_text(encoding="utf-8"))
    assert installed.whyrun(folder, "run").returncode == 0
    (folder / "poem.txt").write_text("The rain in autumn.\n")
    done = installed.whyrun(folder, "report")
    assert (done.returncode, done.stdout) == (0, "report.html\n"), done.stderr
    opened = page_checks.Opened((folder / "report.html").read_text())
    explained = json.loads(installed.whyrun(folder, "explain", "--json").stdout)
    jobs = {job["id"]: job for layer in explained["layers"] for job in layer["jobs"]}
    assert {id_: opened.whys(id_.removeprefix("Job:"))[0]["explain"] for id_ in jobs} == jobs
    assert {id_: [reason["code"] for reason in job["reasons"]] for id_, job in jobs.items()} == {
        "Job:Shout": ["INPUT_CHANGED"], "Job:Words": ["UPSTREAM_DIRTY"],
    }  # fmt: skip


def test_another_version_of_the_package_is_told_by_name(
    installed: Installed, project: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = project((EXAMPLE / "workflow.yaml").read_text(encoding="utf-8"))
    assert installed.whyrun(folder, "run").returncode == 0
    newer = tmp_path_factory.mktemp("newer") / "action-plugin"
    shutil.copytree(EXAMPLE, newer)
    declared = newer / "pyproject.toml"
    declared.write_text(declared.read_text().replace('version = "0.1.0"', 'version = "9.9"'))
    try:
        installed.install(newer)
        explained = installed.whyrun(folder, "explain")
    finally:
        shutil.copytree(EXAMPLE, newer, dirs_exist_ok=True)
        installed.install(newer)
    changed = [line.strip() for line in explained.stdout.splitlines() if ".action" in line]
    assert [" ".join(line.split()) for line in changed] == [
        f"Job:{job} INPUT_CHANGED Input:{job}.action whyrun-text-actions 0.1.0 → 9.9" for job in ("Shout", "Words")
    ]


def test_its_details_are_shown(installed: Installed, tmp_path: Path) -> None:
    shown = installed.whyrun(tmp_path, "actions", "text/words")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == [
        "text/words 1 (whyrun-text-actions 0.1.0)",
        "  Count the words of a text.",
        "parameters",
        "  text      a file; required",
        "  shortest  an integer ≥ 1; default 1; letters that a word must have to count",
        '  order     one of "count", "name"; default "count"',
        "outputs",
        "  counts  json",
        "example",
        "  jobs:",
        "    Words:",
        "      uses: text/words",
        '      with: {text: "${{ inputs.Poem }}", shortest: 4, order: name}',
        "      outputs: {counts: {type: json}}",
    ]


def test_what_the_package_is_counts_for_its_actions(installed: Installed, project: Callable[[str], Path]) -> None:
    folder = project((EXAMPLE / "workflow.yaml").read_text(encoding="utf-8"))
    program = (
        "from pathlib import Path\n"
        "from whyrun.actions.registry.registry import action_fingerprint\n"
        "print([action_fingerprint(name, {}, Path('.'))[1] for name in ('text/shout', 'text/words')])\n"
    )
    done = installed(folder, "-c", program)
    dist = "whyrun-text-actions 0.1.0"
    facts = [{"name": name, "version": "1", "distribution": dist} for name in ("text/shout", "text/words")]
    assert (done.stdout, done.stderr) == (f"{facts}\n", "")


def test_its_parameters_are_checked_before_anything_runs(installed: Installed, project: Callable[[str], Path]) -> None:
    folder = project(
        """
        workflow: w
        jobs:
          Words:
            uses: text/words
            with: {shortest: 0, ordre: name}
            outputs: {count: {type: json}}
          Shout:
            uses: text/shout
            with: {txt: hey}
            outputs: {text: {type: text}}
        """
    )
    for words in (["validate"], ["plan"], ["explain"], ["run"], ["run", "--dry-run"]):
        refused = installed.whyrun(folder, *words)
        assert refused.returncode == 2
        assert [line for line in refused.stderr.splitlines() if line.startswith("error")] == [
            "error[INVALID_PARAMETER] workflow.yaml:4:11: the action `text/words` needs the parameter `text`",
            "error[INVALID_PARAMETER] workflow.yaml:5:22: `shortest` is 0; it takes an integer ≥ 1",
            "error[INVALID_PARAMETER] workflow.yaml:5:25: the action `text/words` has no parameter `ordre`",
            "error[INVALID_PARAMETER] workflow.yaml:6:15: the action `text/words` has no output `count`",
            "error[INVALID_PARAMETER] workflow.yaml:8:11: the action `text/shout` needs the parameter `text`",
            "error[INVALID_PARAMETER] workflow.yaml:9:12: the action `text/shout` has no parameter `txt`",
        ], words
    assert not (folder / ".whyrun").exists()


def test_broken_plugins_are_listed_with_their_error(installed: Installed, tmp_path: Path) -> None:
    listed = installed.whyrun(tmp_path, "actions", "--json")
    assert (listed.returncode, listed.stderr) == (0, "")
    found = {
        (action["name"], action["origin"]): (action["place"], action["error"])
        for action in json.loads(listed.stdout)["actions"]
        if action["origin"] == "plugin"
    }
    from_broken, from_example = "broken-actions 2.0", "whyrun-text-actions 0.1.0"
    missing = "ModuleNotFoundError: No module named 'a_library_that_is_not_there'"
    plain = "it is neither a function with @action nor a subclass of Action, but `function`"
    params = "`WrongParams.Params` is not a subclass of `whyrun.Parameters`"
    taken = "a built-in action has this name, so the plugin cannot be used"
    assert found == {
        ("broken/import", "plugin"): (from_broken, missing),
        ("broken/params", "plugin"): (from_broken, params),
        ("broken/plain", "plugin"): (from_broken, plain),
        ("broken/run", "plugin"): (from_broken, "`NoRun` has no `run` method"),
        ("shell", "plugin"): (from_broken, taken),
        ("text/shout", "plugin"): (from_example, None),
        ("text/words", "plugin"): (from_example, None),
    }


def test_a_broken_plugin_stops_only_workflows_that_use_it(installed: Installed, project: Callable[[str], Path]) -> None:
    folder = project("workflow: w\njobs:\n  A: {uses: broken/import}\n  B: {uses: broken/run}\n")
    refused = installed.whyrun(folder, "plan")
    assert (refused.returncode, refused.stdout) == (2, "")
    missing = "ModuleNotFoundError: No module named 'a_library_that_is_not_there'"
    assert [line for line in refused.stderr.splitlines() if line.startswith(("error", "   hint"))] == [
        f"error[INVALID_USES] workflow.yaml:3:13: the action `broken/import` cannot be used: {missing}",
        "   hint: correct the plugin `broken-actions 2.0`",
        "error[INVALID_USES] workflow.yaml:4:13: the action `broken/run` cannot be used: `NoRun` has no `run` method",
        "   hint: correct the plugin `broken-actions 2.0`",
    ]


def test_the_project_goes_before_a_plugin(installed: Installed, project: Callable[[str], Path]) -> None:
    folder = project((EXAMPLE / "workflow.yaml").read_text(encoding="utf-8"))
    own = "from whyrun import action\n@action('text/shout', outputs={'text': 'text'})\ndef shout(text, marks):\n"
    write(folder, {"actions/own.py": own + "    return {'text': 'mine'}\n"})
    assert installed.whyrun(folder, "run").returncode == 0
    assert (folder / "out" / "loud.txt").read_text() == "mine"
    listed = json.loads(installed.whyrun(folder, "actions", "--json").stdout)["actions"]
    assert [(a["origin"], a["error"]) for a in listed if a["name"] == "text/shout"] == [
        ("project", None),
        ("plugin", "hidden by the project's action in actions/own.py"),
    ]


def test_its_own_tests_pass(installed: Installed, tmp_path: Path) -> None:
    # A base of its own: else, at its end, this pytest removes what whole suites before this one have left.
    own = f"--basetemp={tmp_path / 'base'}"
    done = installed(EXAMPLE, "-m", "pytest", "-q", "-p", "no:cacheprovider", own, "tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
