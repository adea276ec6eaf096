"""One name per thing: short names, wrong case, aliases and parents are refused wherever a name is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from project_lab import Lab
from scenarios.harness import Scenario, read_logs
from whyrun.errors import InvalidError, StateError
from whyrun.ids import IdPattern, parse_id
from whyrun.planning.id_matching import match_nodes

Make = Callable[..., Lab]
Load = Callable[[str], Scenario]

NAMES = """
    workflow: w
    inputs:
      Photos: {type: "file[]", default: "p/*.txt"}
      Topic:  {type: string, default: cinema}
    loops: {i: {each: inputs.Photos}}
    jobs:
      Make:
        for: [i]
        uses: shell
        with: {run: 'printf x > "$out_File"'}
        outputs: {File: {type: text}, Story: {type: json, leaves: {"Parts[0].On": boolean}}}
      Use:
        for: [i]
        uses: shell
        with: {x: "HERE", run: 'printf x > "$out_File"'}
        outputs: {File: {type: text}}
"""


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        ("Topic", "UNKNOWN_REFERENCE"),  # a short name
        ("inputs.topic", "UNKNOWN_REFERENCE"),  # wrong case
        ("input.Topic", "UNKNOWN_REFERENCE"),  # an alias of the root
        ("Inputs.Topic", "UNKNOWN_REFERENCE"),
        ("jobs.make.outputs.File[i]", "UNKNOWN_REFERENCE"),
        ("jobs.Make.outputs.file[i]", "UNKNOWN_REFERENCE"),
        ("jobs.Make.output.File[i]", "UNKNOWN_REFERENCE"),
        ("jobs.Make.File[i]", "UNKNOWN_REFERENCE"),
        ("Make.File[i]", "UNKNOWN_REFERENCE"),
        ("jobs.Make[i].outputs.File", "UNKNOWN_REFERENCE"),  # the index follows the output's name
        ("jobs.Make.outputs.File", "LOOP_MISMATCH"),  # a parent where an element is due
        ("jobs.Make.outputs.File[i][0]", "LOOP_MISMATCH"),
        ("jobs.Make.outputs.Story[i].Parts", "UNKNOWN_REFERENCE"),  # a parent of a leaf, not declared itself
        ("jobs.Make.outputs.Story[i].Parts[0]", "UNKNOWN_REFERENCE"),
        ("jobs.Make.outputs.Story[i].Parts[1].On", "UNKNOWN_REFERENCE"),
        ("jobs.Make.outputs.Story[i].Parts[0].on", "UNKNOWN_REFERENCE"),
        ("inputs.Photos[I]", "UNKNOWN_LOOP"),
    ],
)
def test_refused_in_expressions(project: Make, reference: str, code: str) -> None:
    lab = project(NAMES.replace('"HERE"', f"'${{{{ {reference} }}}}'"), {"p/a.txt": "a"})
    with pytest.raises(InvalidError) as refused:
        lab.run()
    assert [d.code for d in refused.value.diagnostics] == [code]
    (diagnostic,) = refused.value.diagnostics
    assert (diagnostic.line, diagnostic.file) == (16, str(lab.file))
    assert diagnostic.hint
    assert not (lab.root / ".whyrun").exists()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Make[0]", "NAME_INVALID"),  # no kind
        ("job:Make[0]", "NAME_INVALID"),
        ("JOB:Make[0]", "NAME_INVALID"),
        ("Step:Make[0]", "NAME_INVALID"),
        ("Job:make[0]", "UNKNOWN_REFERENCE"),
        ("Job:Make", "UNKNOWN_REFERENCE"),  # a parent: an instance is due, or `[*]`
        ("Job:Make[2]", "UNKNOWN_REFERENCE"),
        ("Job:Make[00]", "NAME_INVALID"),  # a second spelling
        ('Job:Make["0"]', "UNKNOWN_REFERENCE"),  # a string is no number
        ("Job:Make[0]/", "NAME_INVALID"),
        ("Job:Make[0].File", "UNKNOWN_REFERENCE"),
        ("Artifact:Make[0].File", "UNKNOWN_REFERENCE"),  # the index follows the output's name
        ("Artifact:Make.File", "UNKNOWN_REFERENCE"),
        ("Artifact:Make.Story[0].Parts", "UNKNOWN_REFERENCE"),
        ("Job:Mak*[0]", "NAME_INVALID"),  # a star is a whole name or index
        ("Job:Ghost[*]", "UNKNOWN_REFERENCE"),
        ("Input:Topic", "USAGE"),  # nothing that could be run
        ("layer:9", "USAGE"),
        ("", "NAME_INVALID"),
    ],
)
@pytest.mark.parametrize("control", ["force", "targets"])
def test_refused_on_the_command_line(project: Make, text: str, code: str, control: str) -> None:
    lab = project(NAMES, {"p/a.txt": "a", "p/b.txt": "b"})
    if text == "layer:9" and control == "targets":
        code = "NAME_INVALID"  # layers can be forced, not aimed at
    with pytest.raises(InvalidError) as refused:
        lab.plan(**{control: [text]})
    assert [d.code for d in refused.value.diagnostics] == [code]


def test_patterns_name_whole_indices_and_names(project: Make) -> None:
    lab = project(NAMES, {"p/a.txt": "a", "p/b.txt": "b"})
    graph = lab.opened().graph

    def named(text: str) -> list[str]:
        return [graph.job_id(node) for node in match_nodes(graph, text)]

    assert named("Job:Make[*]") == ["Job:Make[0]", "Job:Make[1]"]
    assert named("Job:*[1]") == ["Job:Make[1]", "Job:Use[1]"]
    assert named("Artifact:Make.*[0]") == ["Job:Make[0]"]
    assert named("Artifact:Make.Story[1].Parts[0].On") == ["Job:Make[1]"]
    assert not IdPattern("Job:Make[*]").matches("Job:Make[0][1]")
    with pytest.raises(InvalidError, match="it has instances: name one, such as `Job:Make\\[0\\]`, or all with"):
        named("Job:Make")


@pytest.mark.parametrize(
    "text",
    ["Job:Make", "Input:Photos[0]", "Artifact:Script.Story.Segments[0].HasTransition", 'Job:learn["TETRAD/FGES"]["7"]',
     "Job:Intro/Script", "Job:learn[asia][7]", "Job:x[1.5]", 'Job:x["a b"]', 'Job:x["]"]'],
)  # fmt: skip
def test_canonical_ids_round_trip(text: str) -> None:
    assert str(parse_id(text)) == text


@pytest.mark.parametrize(
    ("field", "old", "new"),
    [
        ("step_id", "Job:Clip[0]", "Clip[0]"),  # a short name
        ("step_id", "Job:Clip[0]", "job:Clip[0]"),  # wrong case
        ("step_id", "Job:Clip[0]", "Step:Clip[0]"),  # an alias
        ("step_id", "Job:Clip[0]", "Job:Clip[00]"),  # a second spelling
        ("artifact", "Artifact:Clip.Frame[0]", "Clip.Frame[0]"),
        ("artifact", "Artifact:Clip.Frame[0]", "Artifact:Clip.Frame[0"),
        ("id", "Input:Topic", "Topic"),
        ("id", "Input:Topic", "Job:Topic"),
    ],
)
def test_refused_in_logs(scenario: Load, field: str, old: str, new: str) -> None:
    """An ID that does not parse is damage, with file and line; nothing is guessed."""
    story = scenario("then-and-now").with_log()
    path = story.opened.state.runs_dir / "r0001" / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if json.loads(line).get(field) == old)
    damaged = [line.replace(f'"{field}":{json.dumps(old)}', f'"{field}":{json.dumps(new)}') for line in lines]
    path.write_text("".join(damaged))
    with pytest.raises(StateError) as refused:
        story.plan()
    (diagnostic,) = refused.value.diagnostics
    assert diagnostic.code == "LOG_DAMAGED"
    assert (diagnostic.file, diagnostic.line) == (str(path), first + 1)
    assert new in diagnostic.message


def test_a_parent_in_the_log_instead_of_an_element(scenario: Load, tmp_path: Path) -> None:
    """`Artifact:Clip.Frame` parses, but it is not an artifact of `Job:Clip[2]`."""
    story = scenario("then-and-now").with_log()
    logs = read_logs(story.opened.state.runs_dir)
    line = 0
    for event in logs["r0001"]:
        if getattr(event, "artifact", None) == "Artifact:Clip.Frame[2]":
            event.artifact = "Artifact:Clip.Frame"
            line = event.seq
    rewrite(story, logs)
    with pytest.raises(StateError) as refused:
        story.plan()
    (diagnostic,) = refused.value.diagnostics
    assert (diagnostic.code, diagnostic.line) == ("LOG_DAMAGED", line)
    assert diagnostic.message == "`Artifact:Clip.Frame` is not an artifact of `Job:Clip[2]`"


def rewrite(story: Scenario, logs: dict[str, list[object]]) -> None:
    from scenarios.harness import write_logs

    write_logs(story.opened.state.runs_dir, logs)  # type: ignore[arg-type]
