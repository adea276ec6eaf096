"""Mistakes on the command line: each is refused with the exact words to use, and these words are accepted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from cli_lab import whyrun

from whyrun.cli import foreign_words
from whyrun.cli.main import COMMANDS, cli
from whyrun.errors import Diagnostic, WhyrunError
from whyrun.execution.backends.registry import BACKENDS
from whyrun.facts.subjects import find_subject
from whyrun.planning.id_matching import match_nodes
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.project import Project

WORKFLOW = """\
workflow: study
inputs:
  Reads: {type: "file[]", default: "reads/*.txt"}
  Names: {type: "string[]", default: [Ada, Ben]}
  Topic: {type: string, default: tea}
loops:
  read: {each: inputs.Reads}
  name: {each: inputs.Names}
  net: {values: [asia, cancer]}
  seed: {range: 0-1}
jobs:
  Trim:
    for: [read]
    uses: shell
    with: {read: "${{ inputs.Reads[read] }}", run: 'cp "$read" "$out_Text"'}
    outputs: {Text: {type: text, path: "out/trim-${{ read }}.txt"}}
  Greet:
    for: [name]
    uses: shell
    with: {name: "${{ inputs.Names[name] }}", run: 'echo "$name" > "$out_Hello"'}
    outputs: {Hello: {type: text}}
  learn:
    for: [net, seed]
    uses: shell
    with: {run: 'echo > "$out_graph"'}
    outputs: {graph: {type: text}}
  Merge:
    uses: shell
    with: {texts: "${{ jobs.Trim.outputs.Text[:] }}", run: 'cat "${texts[@]}" > "$out_All"'}
    outputs: {All: {type: text, path: out/all.txt}}
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    (folder / "reads").mkdir()
    for name in ("alpha", "beta", "gamma"):
        (folder / f"reads/{name}.txt").write_text(name)
    (folder / "workflow.yaml").write_text(WORKFLOW)
    return folder


@pytest.fixture(scope="module")
def project(study: Path) -> Project:
    return Project.open(study / "workflow.yaml")


def only(caught: pytest.ExceptionInfo[WhyrunError]) -> Diagnostic:
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


# --- names of jobs and artifacts ---------------------------------------------------------------------------------

TARGETS = {
    # what people write → the ID or pattern that is meant
    "Merge": "Job:Merge",
    "merge": "Job:Merge",
    "Job:merge": "Job:Merge",
    "job:Merge": "Job:Merge",
    "Merg": "Job:Merge",
    "Trim": "Job:Trim[*]",
    "Trim[*]": "Job:Trim[*]",
    "Trim[0]": "Job:Trim[0]",
    "Trim[alpha]": "Job:Trim[0]",
    "Job:Trim[alpha]": "Job:Trim[0]",
    "Job:Trim[gamma]": "Job:Trim[2]",
    "Job:Trim[beta.txt]": "Job:Trim[1]",
    "Greet[Ben]": "Job:Greet[1]",
    "learn[asia]": "Job:learn[asia][*]",
    "learn[asia][1]": "Job:learn[asia][1]",
    "All": "Artifact:Merge.All",
    "Merge.All": "Artifact:Merge.All",
    "Job:Merge.All": "Artifact:Merge.All",
    "Artifact:All": "Artifact:Merge.All",
    "jobs.Merge": "Job:Merge",
    "jobs.Merge.outputs.All": "Artifact:Merge.All",
    "${{ jobs.Merge.outputs.All }}": "Artifact:Merge.All",
    "Artifact:Trim[alpha].Text": "Artifact:Trim.Text[0]",
    "Artifact:Trim.Text[beta]": "Artifact:Trim.Text[1]",
    "out/all.txt": "Artifact:Merge.All",
    "./out/all.txt": "Artifact:Merge.All",
    "out/trim-1.txt": "Artifact:Trim.Text[1]",
}


@pytest.mark.parametrize("written", TARGETS)
def test_a_name_or_path_as_a_target_is_told_its_canonical_form(project: Project, written: str) -> None:
    meant = TARGETS[written]
    with pytest.raises(WhyrunError) as caught:
        match_nodes(project.graph, written, "--target")
    assert only(caught).hint == f"write `--target {shlex.quote(meant)}`"
    assert match_nodes(project.graph, meant)
    with pytest.raises(WhyrunError) as caught:
        match_nodes(project.graph, written)
    assert only(caught).hint == f"write `{meant}`"


def test_a_published_path_is_called_that(project: Project) -> None:
    with pytest.raises(WhyrunError) as caught:
        match_nodes(project.graph, "out/all.txt", "--target")
    assert only(caught).message == "`out/all.txt` is where `Artifact:Merge.All` is published, and no ID"


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("Job:Trim[7]", "it has the instances `Job:Trim[0]` to `Job:Trim[2]`"),
        ("Job:Trim[delta]", "it has the instances `Job:Trim[0]` to `Job:Trim[2]`"),  # nothing like it: no guess
        ("Job:learn[asai][1]", "did you mean `Job:learn[asia][1]`?"),
        ("Job:Trim", "it has instances: name one, such as `Job:Trim[0]`, or all with `Job:Trim[*]`"),
        ("reads/alpha.txt", "write `Job:…` or `Artifact:…`"),  # an input
        ("Topic", "write `Job:…` or `Artifact:…`"),
        ("nothing-like-it", "write `Job:…`, `Artifact:…` or `Input:…`"),
    ],
)
def test_no_other_instance_is_suggested_where_none_is_meant(project: Project, written: str, hint: str) -> None:
    with pytest.raises(WhyrunError) as caught:
        match_nodes(project.graph, written, "--target")
    assert only(caught).hint == hint


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Merge", "Job:Merge"),
        ("Trim[beta]", "Job:Trim[1]"),
        ("Topic", "Input:Topic"),
        ("inputs.Reads[2]", "Input:Reads[2]"),
        ("reads/alpha.txt", "Input:Reads[0]"),
        ("out/all.txt", "Artifact:Merge.All"),
    ],
)
def test_questions_about_one_thing_are_told_its_canonical_form(project: Project, written: str, meant: str) -> None:
    with pytest.raises(WhyrunError) as caught:
        find_subject(project.graph, written)
    assert only(caught).hint == f"write `{meant}`"
    assert find_subject(project.graph, meant).id == meant


def test_force_all_forces_every_job_and_with_targets_what_they_need(project: Project) -> None:
    def forced(*targets: str) -> set[str]:
        plan = compute_execution_plan(project.snapshot(), PlanOptions(None, targets, ("all",)))
        return {job.id for job in plan.planned if any(reason.code == "FORCED" for reason in job.reasons)}

    assert forced() == set(project.graph.node_of)
    assert forced("Job:Merge") == {"Job:Merge", "Job:Trim[0]", "Job:Trim[1]", "Job:Trim[2]"}


# --- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("worklow.yaml", "did you mean `workflow.yaml`?"),
        ("Workflow.yaml", "did you mean `workflow.yaml`?"),
        ("workflow.yml", "did you mean `workflow.yaml`?"),
        ("Merge", "this is `Job:Merge` and not a file; to plan or run only this, write `--target Job:Merge`"),
        ("Trim", "this is `Job:Trim[*]` and not a file; to plan or run only this, write `--target 'Job:Trim[*]'`"),
        (
            "out/all.txt",
            "this is `Artifact:Merge.All` and not a file; to plan or run only this, write "
            "`--target Artifact:Merge.All`",
        ),
    ],
)
def test_a_file_that_does_not_exist(study: Path, monkeypatch: pytest.MonkeyPatch, written: str, hint: str) -> None:
    monkeypatch.chdir(study)
    with pytest.raises(WhyrunError) as caught:
        Project.open(written)
    assert (only(caught).code, only(caught).hint) == ("FILE_MISSING", hint)


def test_the_only_workflow_of_a_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text("workflow: study\njobs: {}\n")
    (tmp_path / "environment.yaml").write_text("dependencies: [r-base]\n")
    with pytest.raises(WhyrunError) as caught:
        Project.open()
    assert only(caught).hint == "there is `study.yaml`: name it"
    assert Project.open("study.yaml").problems == ()


def test_a_misspelt_input_file_and_a_misspelt_import_are_told(tmp_path: Path) -> None:
    (tmp_path / "sheet.csv").write_text("a\n")
    (tmp_path / "intro.yaml").write_text("workflow: intro\njobs: {}\n")
    file = tmp_path / "workflow.yaml"
    text = "workflow: w\ninputs: {Sheet: {type: file, default: %s}}\nimports: {I: {workflow: ./%s}}\njobs: {}\n"
    file.write_text(text % ("shet.csv", "itro.yaml"))
    hints = {d.code: d.hint for d in Project.open(file).problems}
    assert hints == {
        "INPUT_MISSING": "did you mean `sheet.csv`?",
        "FILE_MISSING": "did you mean `intro.yaml`, in the same folder?",
    }
    file.write_text(text % ("sheet.csv", "intro.yaml"))
    assert Project.open(file).problems == ()


# --- words of other tools ----------------------------------------------------------------------------------------

TABLES = (
    list(foreign_words._COMMANDS.items()),
    list(foreign_words._OPTIONS.items()),
    [row for entry in BACKENDS.values() for row in entry.foreign],
)
RUN = cli.get_command(click.Context(cli), "run")


def test_every_hint_names_commands_and_options_that_exist_and_no_word_has_two() -> None:
    assert RUN is not None
    options = {option for parameter in RUN.params for option in parameter.opts} | {"--json", "--help", "--version"}
    for table in TABLES:
        words = [word for text, _ in table for word in text.split()]
        assert len(words) == len(set(words))
        for _, hint in table:
            for written in re.findall(r"`([^`]*)`", hint):
                for option in re.findall(r"--[a-z-]+", written):
                    assert option in options, hint
                if found := re.match(r"whyrun ([a-z]+)", written):
                    assert found[1] in COMMANDS, hint
    assert not {word for text in foreign_words._COMMANDS for word in text.split()} & set(COMMANDS)
    own = {option for parameter in RUN.params for option in parameter.opts}
    theirs = [*foreign_words._CLUSTER_OPTIONS, *(word for text in foreign_words._OPTIONS for word in text.split())]
    assert len(theirs) == len(set(theirs))
    assert not set(theirs) & own


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("dag", "write `whyrun plan`, or `whyrun run --dry-run` for the lines of a run"),
        ("resume", "write `whyrun run`: it runs what is missing, failed or changed, and nothing else"),
        ("run --until Merge", "write `--target Job:NAME`: it runs this job and what it depends on; `--up N` stops "
         "after N layers"),
        ("run --max-cost 5", "write `--budget AMOUNT`"),
        ("run --cores 4", "write `--jobs N`, or `-j N`"),
        ("plan --verbose", "write `--log-level all`, an option of `whyrun run`"),
        ("run --backend slurm", "write `--backend dask --dask-address slurm`"),
        ("run --executor slurm", "write `--backend dask --dask-address slurm`"),
        ("run --backend kubernetes", "write `--backend dask --dask-address ADDRESS`, that of its scheduler"),
        ("run --backend docker", "write `--backend sandbox`"),
        ("run --backend sandbx", "did you mean `sandbox`?"),
    ],
)  # fmt: skip
def test_a_word_of_another_tool_on_the_command_line_gets_a_pointer(study: Path, words: str, hint: str) -> None:
    answer = whyrun(study, *words.split())
    assert (answer.code, answer.err.splitlines()[-1]) == (2, f"   hint: {hint}")
