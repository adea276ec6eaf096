"""`whyrun graph`: the jobs as SVG, dot, Mermaid and JSON."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from cli_lab import whyrun
from question_lab import run, tale

from project_lab import Lab
from whyrun.errors import WhyrunError


def test_the_graph_as_json_counts_instances_by_state(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("uno\n")
    found = whyrun(folder, "graph", "--json").json
    assert found["workflow"] == "tale"
    assert found["edges"] == [
        {"from": "Shout", "to": "Echo", "kind": "data", "slots": ["loud"]},
        {"from": "Echo", "to": "Join", "kind": "data", "slots": ["parts"]},
        {"from": "Script", "to": "Shout", "kind": "condition", "slots": []},
    ]
    assert {node["job"]: node["states"] for node in found["nodes"]} == {
        "Echo": {"inactive": 1, "planned": 1},
        "Join": {"planned": 1},
        "Script": {"clean": 1},
        "Shout": {"inactive": 1, "planned": 1},
    }
    assert next(node for node in found["nodes"] if node["job"] == "Shout") == {
        "job": "Shout",
        "name": "Shout",
        "import": "",
        "pattern": "Job:Shout[*]",
        "action": "shell",
        "loops": ["word"],
        "count": 2,
        "layers": [1, 1],
        "condition": "jobs.Script.outputs.Story.Loud[word]",
        "states": {"inactive": 1, "planned": 1},
        "outputs": [{"name": "Loud", "type": "text"}],
    }
    assert found["inputs"] == [
        {"id": "Input:Words", "type": "text[]", "elements": 2, "read_by": ["Echo", "Shout"]},
        {"id": "Input:Mark", "type": "string", "read_by": ["Script"]},
    ]
    assert found["groups"] == []


def test_mermaid_and_dot(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    assert whyrun(folder, "graph", "--format", "mermaid", "--with-inputs").out.splitlines() == [
        "flowchart LR",
        '  j0["Echo × 2<br>shell"]',
        '  j1["Join<br>shell"]',
        '  j2["Script<br>shell"]',
        '  j3["Shout × 2<br>shell"]',
        '  i0(["Words (text[] × 2)"])',
        "  i0 --> j3",
        '  i1(["Mark (string)"])',
        "  i1 --> j2",
        "  j3 --> j0",
        "  j0 --> j1",
        "  j2 -. if .-> j3",
    ]
    assert whyrun(folder, "graph", "--format", "dot").out.splitlines() == [
        'digraph "tale" {',
        "  rankdir=LR;",
        '  node [shape=box, style="rounded", fontname="sans-serif"];',
        '  "Echo" [label="Echo × 2\\nshell"];',
        '  "Join" [label="Join\\nshell"];',
        '  "Script" [label="Script\\nshell"];',
        '  "Shout" [label="Shout × 2\\nshell"];',
        '  "Shout" -> "Echo";',
        '  "Echo" -> "Join";',
        '  "Script" -> "Shout" [style=dashed, label="if"];',
        "}",
    ]


def test_by_instance_the_edges_are_exact(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("uno\n")
    found = whyrun(folder, "graph", "--by", "instance", "--json").json
    assert {node["pattern"]: node["states"] for node in found["nodes"]} == {
        "Job:Echo[0]": {"planned": 1}, "Job:Echo[1]": {"inactive": 1}, "Job:Join": {"planned": 1},
        "Job:Script": {"clean": 1}, "Job:Shout[0]": {"planned": 1}, "Job:Shout[1]": {"inactive": 1},
    }  # fmt: skip
    assert [(edge["from"], edge["to"], edge["kind"], *edge["slots"]) for edge in found["edges"]] == [
        ("Shout[0]", "Echo[0]", "data", "loud"), ("Shout[1]", "Echo[1]", "data", "loud"),
        ("Echo[0]", "Join", "data", "parts"), ("Echo[1]", "Join", "data", "parts"),
        ("Script", "Shout[0]", "condition"), ("Script", "Shout[1]", "condition"),
    ]  # fmt: skip
    assert [(one["id"], one["read_by"]) for one in found["inputs"]] == [
        ("Input:Mark", ["Script"]), ("Input:Words[0]", ["Shout[0]"]), ("Input:Words[1]", ["Shout[1]"]),
    ]  # fmt: skip
    drawn = whyrun(folder, "graph", "--by", "instance", "--format", "dot", "--with-inputs").out.splitlines()
    assert '  "Shout[0]" -> "Echo[0]";' in drawn
    assert '  "Input:Words[1]" -> "Shout[1]";' in drawn
    picture = ET.fromstring(whyrun(folder, "graph", "--by", "instance").out)
    titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [node["pattern"] for node in found["nodes"]]


def test_too_many_edges_between_instances_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from whyrun.facts import graph
    from whyrun.planning.plan import compute_execution_plan

    monkeypatch.setattr(graph, "MOST_EDGES", 5)
    project = Lab(tale(tmp_path)).opened()
    with pytest.raises(WhyrunError, match="the instances have more than 5 edges"):
        graph.instance_facts(project.graph, compute_execution_plan(project.snapshot()))


def test_a_file_says_its_format_by_its_suffix(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    for name, begin in (("g.svg", "<svg"), ("g.mmd", "flowchart LR"), ("g.dot", "digraph"), ("g.json", "{")):
        answer = whyrun(folder, "graph", "-o", name)
        assert (answer.code, answer.out, answer.err) == (0, "", "")
        assert (folder / name).read_text().startswith(begin)
    picture = ET.parse(folder / "g.svg")
    titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["Job:Echo", "Job:Join", "Job:Script", "Job:Shout"]
    assert whyrun(folder, "graph").out == (folder / "g.svg").read_text()


def test_imports_are_groups(tmp_path: Path) -> None:
    (tmp_path / "intro.yaml").write_text("""\
workflow: intro
jobs:
  Say: {uses: shell, with: {run: 'echo hi > "$out_T"'}, outputs: {T: {type: text}}}
""")
    (tmp_path / "workflow.yaml").write_text("""\
workflow: tale
imports: {Intro: {workflow: ./intro.yaml}}
jobs:
  Copy:
    uses: shell
    with: {t: "${{ jobs.Intro.Say.outputs.T }}", run: 'cat "$t" > "$out_T"'}
    outputs: {T: {type: text}}
""")
    found = whyrun(tmp_path, "graph", "--json")
    assert found.code == 0, found.err
    assert found.json["groups"] == [{"import": "Intro", "jobs": ["Intro/Say"]}]
    assert whyrun(tmp_path, "graph", "--format", "mermaid").out.splitlines() == [
        "flowchart LR",
        '  j0["Copy<br>shell"]',
        '  subgraph "Intro"',
        '    j1["Intro/Say<br>shell"]',
        "  end",
        "  j1 --> j0",
    ]


def test_a_file_that_cannot_or_must_not_be_written_is_refused(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    before = (folder / "workflow.yaml").read_bytes()
    for path, code, message in (
        ("none/g.svg", "FILE_MISSING", "`none/g.svg` cannot be written: No such file or directory"),
        ("workflow.yaml", "USAGE", "`--output workflow.yaml`: this is the file of this workflow"),
        ("words/a.txt", "USAGE", "`--output words/a.txt`: this is an input"),
    ):
        answer = whyrun(folder, "graph", "--format", "svg", "-o", path)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith(f"error[{code}]: {message}"), answer.err
    assert (folder / "workflow.yaml").read_bytes() == before
