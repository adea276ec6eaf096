"""A `*` that stands for fewer jobs than a reader would think says so, and names the patterns for the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner

from project_lab import Lab
from whyrun.cli.main import cli
from whyrun.errors import InvalidError
from whyrun.ids import IdPattern, shape_of
from whyrun.planning.answers.listing import narrow_patterns
from whyrun.planning.id_matching import match_nodes

FLOW = """
    workflow: w
    loops: {a: {range: 0-4}, b: {range: 0-1}}
    jobs:
      Once: {uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text}}}
      Each:
        for: [a]
        uses: shell
        with: {a: "${{ a }}", run: 'echo $a > "$out_T"'}
        outputs: {T: {type: text}}
      Both:
        for: [a, b]
        uses: shell
        with: {a: "${{ a }}", run: 'echo $a > "$out_T"'}
        outputs: {T: {type: text}}
"""
NOTE = (
    "`Job:*` stands for 1 of 16 jobs, because a `*` is one whole name or index; the others: `Job:*[*][*]`, `Job:*[*]`"
)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("Job:*", NOTE),
        ("Job:*[*]", "`Job:*[*]` stands for 5 of 15 jobs, because a `*` is one whole name or index; the others: "
                     "`Job:*[*][*]`"),
        ("Artifact:*.T", "`Artifact:*.T` stands for 1 of 16 artifacts, because a `*` is one whole name or index; the "
                         "others: `Artifact:*.T[*][*]`, `Artifact:*.T[*]`"),
        ("Job:*[*][*]", None), ("Job:Each[*]", None), ("Job:Both[*][1]", None), ("Job:Once", None),
    ],
)  # fmt: skip
def test_a_note_names_the_patterns_that_match_the_others(
    project: Callable[..., Lab], text: str, note: str | None
) -> None:
    """Issue 17, number 28."""
    graph = project(FLOW).snapshot().dependency_graph
    assert list(narrow_patterns(graph, [text, text])) == ([] if note is None else [note])
    if note is not None:  # what the note says is what the user meant
        shapes = [word.strip("`,") for word in note.rpartition("others: ")[2].split()]
        reached = {node for pattern in [text, *shapes] for node in match_nodes(graph, pattern)}
        assert len(reached) == int(note.split()[5])


def test_every_command_that_takes_patterns_tells_it(
    project: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = project(FLOW)
    ran = lab.succeed(force=["Job:*"])
    assert ran.heard.notes == [NOTE]
    monkeypatch.chdir(lab.root)
    for command in (
        "plan --force Job:*", "explain --target Job:*", "plan --job Job:*", "run --dry-run --force Job:*",
        "status Job:*", "why Job:*", "compare --dry-run Job:*", "compare Job:*",
    ):  # fmt: skip
        answer = CliRunner().invoke(cli, command.split(), catch_exceptions=False)
        assert f"note: {NOTE}\n" in answer.stderr, command


def test_a_pattern_that_matches_nothing_leads_to_one_that_does(project: Callable[..., Lab]) -> None:
    lab = project(FLOW)
    lab.edit("workflow.yaml", "Once: {uses", "Once: {for: [a], uses")
    with pytest.raises(InvalidError) as refused:
        lab.plan(force=["Job:*"])
    (problem,) = refused.value.diagnostics
    assert problem.code == "UNKNOWN_REFERENCE"
    assert problem.hint == "a `*` is one whole name or index: write `Job:*[*][*]` or `Job:*[*]`"


@pytest.mark.parametrize(
    ("pattern", "id_", "reads", "shape"),
    [
        ("Job:*", "Job:sub/Fit[9]", True, "Job:*/*[*]"),
        ("Job:*", 'Job:Fit["a.b]/c"][x]', True, "Job:*[*][*]"),
        ("Job:sub/*", "Job:sub/Fit[9]", True, "Job:sub/*[*]"),
        ("Job:sub[a]/*", "Job:sub[a]/Fit[9]", True, "Job:sub[a]/*[*]"),
        ("Job:sub[a]/*", "Job:sub[b]/Fit[9]", False, "Job:sub[a]/*[*]"),
        ("Job:*/*", "Job:sub[b]/Fit", True, "Job:*[*]/*"),
        ("Artifact:*.Image", "Artifact:A.Other[0]", False, "Artifact:*.Other[*]"),
        ("Artifact:A.*", "Artifact:A.Image[0]", True, "Artifact:A.*[*]"),
        ("Job:*[1]", "Job:Fit[1][2]", True, "Job:*[1][*]"),
        ("Job:*[1]", "Job:Fit[2]", False, "Job:*[1]"),
        ("Job:Fit[*]", "Job:Fit[1][2]", False, "Job:Fit[*][*]"),
        ("Job:Fit", "Job:Fit[1]", False, "Job:Fit[*]"),
    ],
)
def test_what_a_reader_may_expect(pattern: str, id_: str, reads: bool, shape: str) -> None:
    assert (IdPattern(pattern).reads_as(id_), shape_of(pattern, id_)) == (reads, shape)
    assert not IdPattern(pattern).matches(id_)
