"""Where outputs are published that actions say a word about: who is asked, with what, and what becomes of the answers.

That actions are really asked, in a process of their own, is tested with the actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from asking_lab import Answering, expanded
from msgspec.structs import replace

from whyrun.actions.description import ActionInfo
from whyrun.actions.inspection.messages import WithBlock
from whyrun.artifacts.hash_column import HashColumn
from whyrun.graph.tables import EachTerm, Graph, JobTable, Known
from whyrun.snapshot.actions.known_inputs import reader_of_graph
from whyrun.snapshot.actions.output_hooks import ask_outputs, disowned_sites, with_sites
from whyrun.snapshot.records import Records
from whyrun.snapshot.snapshot import PlanningSnapshot

PROJECT = Path("/project")
FILES, KEY, EXISTING = "get_output_files", "get_output_contribution_key", "has_existing_contribution"

WORKFLOW = """\
workflow: w
loops: {n: {values: [a, b]}, none: {count: 0}}
jobs:
  A_plain: {uses: shell, with: {run: x}, outputs: {Text: {type: text}, At: {type: text, path: at.txt}}}
  B_waits: {uses: learn, with: {data: "${{ jobs.A_plain.outputs.Text }}"}, outputs: {graph: {type: file}}}
  C_empty: {for: [none], uses: learn, with: {n: "${{ none }}"}, outputs: {graph: {type: file}}}
  D_learn:
    for: [n]
    uses: learn
    with: {n: "${{ n }}", at: "${{ jobs.A_plain.outputs.At }}"}
    outputs:
      count: {type: integer}
      fixed: {type: file, path: "fixed/${{ n }}.txt"}
      graph: {type: file}
      mine: {type: json, path: all.json, append: true}
      named: {type: json, path: all.json, append: true, key: "k ${{ n }}"}
      notes: {type: text}
  E_last: {uses: learn, with: {n: z}, outputs: {graph: {type: file}}}
"""
TABLES = ["A_plain", "B_waits", "C_empty", "D_learn", "E_last"]
AT = {"$path": "/project/at.txt"}


def infos(hooks: set[str], outputs: Sequence[str] | None = ("notes", "graph", "count")) -> dict[str, ActionInfo]:
    """The shell has none of these methods, and `learn` has these."""
    names = None if outputs is None else dict.fromkeys(outputs, "file")
    learn = ActionInfo("learn", "1", "project", outputs=names, hooks=frozenset(hooks))
    shell = ActionInfo("shell", "1", "builtin")
    return {name: shell if name == "A_plain" else learn for name in TABLES}


def changed(graph: Graph, job: str, change: Callable[[JobTable], JobTable]) -> Graph:
    return replace(graph, tables=tuple(change(table) if table.name == job else table for table in graph.tables))


def sites(graph: Graph, job: str) -> dict[str, list[str] | None]:
    table = next(table for table in graph.tables if table.name == job)
    return {o.name: None if o.paths is None else list(o.paths) for o in table.outputs}


DECLARED: dict[str, list[str] | None] = {
    "count": None,
    "fixed": ["fixed/a.txt", "fixed/b.txt"],
    "graph": None,
    "mine": ["all.json § D_learn[a]", "all.json § D_learn[b]"],
    "named": ["all.json § k a", "all.json § k b"],
    "notes": None,
}


def asked(
    files: Callable[[WithBlock], Any] | None = None,
    key: Callable[[WithBlock], Any] | None = None,
    outputs: Sequence[str] | None = ("notes", "graph", "count"),
    graph: Graph | None = None,
) -> tuple[Graph, Answering, list[str]]:
    """The graph, who was asked, and what was wrong."""
    graph = expanded(WORKFLOW) if graph is None else graph
    given = {FILES: files, KEY: key}
    inspector: Any = Answering(**{name: answer for name, answer in given.items() if answer is not None})
    graph, problems = ask_outputs(graph, infos(set(inspector.by_method), outputs), inspector, PROJECT)
    return graph, inspector, [f"{p.line} {p.code} {p.message}" for p in problems]


# --- added paths -------------------------------------------------------------------------------------------------


def test_all_instances_of_whose_bindings_are_known_are_asked_at_once() -> None:
    graph, inspector, problems = asked(
        lambda block: [f"{block.given['n']}.md"], lambda block: f"net {block.given['n']}"
    )
    rows = [WithBlock({"n": "a", "at": AT}), WithBlock({"n": "b", "at": AT})]
    last = [WithBlock({"n": "z"})]
    assert inspector.asked == [(FILES, True, rows), (KEY, True, rows), (FILES, True, last), (KEY, True, last)]
    assert problems == []
    assert graph.asked == {
        "D_learn": {"notes": ["a.md", "b.md"], "mine": ["all.json § net a", "all.json § net b"]},
        "E_last": {"graph": ["z.md"]},
    }
    assert sites(graph, "D_learn") == {**DECLARED, **graph.asked["D_learn"]}
    assert sites(graph, "E_last") == {"graph": ["z.md"]}
    assert sites(graph, "B_waits") == sites(graph, "C_empty") == {"graph": None}


def test_one_instance_with_an_unknown_binding_keeps_all_from_being_asked() -> None:
    def with_secret(table: JobTable) -> JobTable:
        terms = EachTerm([Known({"$secret": "TOKEN"}, ""), Known("b", "")])
        assert "n" in [slot.name for slot in table.slots]
        slots = tuple(replace(slot, column=terms) if slot.name == "n" else slot for slot in table.slots)
        return replace(table, slots=slots)

    graph = changed(expanded(WORKFLOW), "D_learn", with_secret)
    graph, inspector, problems = asked(lambda block: ["x.md"], graph=graph)
    assert inspector.asked == [(FILES, True, [WithBlock({"n": "z"})])]
    assert (problems, graph.asked) == ([], {"E_last": {"graph": ["x.md"]}})


def test_nobody_is_asked_who_has_nothing_to_say() -> None:
    graph, inspector, problems = asked()
    assert (inspector.asked, problems, graph.asked) == ([], [], {})
    silent: Any = Answering()
    assert ask_outputs(graph, {}, silent, PROJECT) == (graph, [])
    graph, inspector, problems = asked(lambda block: [])
    assert (len(inspector.asked), problems, graph.asked, sites(graph, "D_learn")) == (2, [], {}, DECLARED)
    graph, inspector, problems = asked(key=lambda block: None)
    assert graph.asked == {"D_learn": {"mine": DECLARED["mine"]}}


def test_paths_go_to_outputs_without_one_in_the_order_of_the_action_or_else_by_name() -> None:
    def files(block: WithBlock) -> list[str]:
        return [f"{block.given['n']}/1", f"{block.given['n']}/2"][: 1 if block.given["n"] == "z" else 2]

    assert asked(files)[0].asked["D_learn"] == {"notes": ["a/1", "b/1"], "graph": ["a/2", "b/2"]}
    assert asked(files, outputs=None)[0].asked["D_learn"] == {"graph": ["a/1", "b/1"], "notes": ["a/2", "b/2"]}
    assert asked(files, outputs=("more", "graph", "fixed", "notes"))[0].asked["D_learn"] == {
        "graph": ["a/1", "b/1"],
        "notes": ["a/2", "b/2"],
    }


def test_without_a_list_of_the_action_outputs_are_taken_in_the_order_of_their_names() -> None:
    jobs = "  D_learn: {uses: learn, with: {n: a}, outputs: {z: {type: file}, y: {type: file}, x: {type: file}}}\n"
    graph = expanded(f"workflow: w\njobs:\n{jobs}")
    graph, _, _ = asked(lambda block: ["1", "2"], outputs=None, graph=graph)
    assert graph.asked == {"D_learn": {"x": ["1"], "y": ["2"]}}


def test_paths_by_name_are_taken_where_every_instance_has_one() -> None:
    def files(block: WithBlock) -> dict[str, str]:
        n = block.given["n"]
        return {"graph": f"{n}.xml", "notes": f"{n}.md"} if n == "a" else {"graph": f"{n}.xml"}

    assert asked(files)[0].asked["D_learn"] == {"graph": ["a.xml", "b.xml"]}


def test_a_path_of_an_imported_job_lies_under_its_name() -> None:
    graph = changed(expanded(WORKFLOW), "D_learn", lambda table: replace(table, name="Part/One/D_learn"))
    inspector: Any = Answering(**{FILES: lambda block: [f"{block.given['n']}.md"]})
    learn = infos({FILES})["D_learn"]
    graph, problems = ask_outputs(graph, {"Part/One/D_learn": learn}, inspector, PROJECT)
    assert problems == []
    assert graph.asked == {"Part/One/D_learn": {"notes": ["Part/One/a.md", "Part/One/b.md"]}}


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (["a", "b", "c", "d"], "4 paths for 2 outputs without a `path:`"),
        (["a", "../x"], "`../x`: it leaves the project folder"),
        ({"graph": "../x"}, "`../x`: it leaves the project folder"),
        ({"graph": "a", "fixed": "b"}, "`fixed` is not an output of this job without a `path:`"),
        ({"count": "a"}, "`count` is not an output of this job without a `path:`"),
        ({"other": "a"}, "`other` is not an output of this job without a `path:`"),
        (ValueError("it broke"), "it broke"),
    ],
)
def test_paths_that_make_no_sense_are_told_and_nothing_is_published_there(answer: Any, wrong: str) -> None:
    def files(block: WithBlock) -> Any:
        if block.given["n"] != "b":
            return ["fine.md"]
        if isinstance(answer, Exception):
            raise answer
        return answer

    graph, _, problems = asked(files)
    message = f"`get_output_files` of the action `learn` fails for `Job:D_learn[b]`: {wrong}"
    assert problems == [f"9 INVALID_USES {message}"]
    assert graph.asked == {"E_last": {"graph": ["fine.md"]}}


def test_added_paths_are_checked_like_all_others() -> None:
    _, _, problems = asked(lambda block: ["fixed/a.txt" if block.given["n"] == "z" else f"{block.given['n']}.md"])
    assert [problem.partition(" ")[2] for problem in problems] == [
        "DUPLICATE_OUTPUT_PATH `fixed/a.txt` would be written by both `Artifact:D_learn.fixed[a]` and "
        "`Artifact:E_last.graph`"
    ]


# --- sections ----------------------------------------------------------------------------------------------------


def test_a_key_names_the_sections_without_one_and_none_keeps_the_default() -> None:
    graph, _, problems = asked(key=lambda block: None if block.given["n"] == "a" else "mine")
    assert problems == []
    assert graph.asked == {"D_learn": {"mine": ["all.json § D_learn[a]", "all.json § mine"]}}


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("", "the key '' is not printable"),
        ("a\nb", "the key 'a\\nb' is not printable"),
        (ValueError("it broke"), "it broke"),
    ],
)
def test_a_key_that_makes_no_sense_is_told(key: Any, wrong: str) -> None:
    def answer(block: WithBlock) -> Any:
        if block.given["n"] == "a":
            return "fine"
        if isinstance(key, Exception):
            raise key
        return key

    graph, _, problems = asked(key=answer)
    message = f"`get_output_contribution_key` of the action `learn` fails for `Job:D_learn[b]`: {wrong}"
    assert problems == [f"9 INVALID_USES {message}"]
    assert graph.asked == {}


def test_who_has_no_section_may_answer_anything() -> None:
    graph = expanded("workflow: w\njobs:\n  E_last: {uses: learn, with: {n: z}, outputs: {graph: {type: file}}}\n")
    graph, inspector, problems = asked(key=lambda block: "", graph=graph)
    assert (len(inspector.asked), problems, graph.asked) == (1, [], {})


def test_what_is_put_into_the_graph_changes_the_sites_and_nothing_else() -> None:
    other = expanded(WORKFLOW)
    given = {"D_learn": {"notes": ["1.md", "2.md"]}}
    graph = with_sites(other, given)
    assert (graph.asked, other.asked) == (given, {})
    for table, before in zip(graph.tables, other.tables, strict=True):
        found = given.get(table.name, {})
        expected = [replace(o, paths=found[o.name]) if o.name in found else o for o in before.outputs]
        assert [(o.name, o.type, o.suffix, o.append, o.paths and [*o.paths]) for o in table.outputs] == [
            (o.name, o.type, o.suffix, o.append, o.paths and [*o.paths]) for o in expected
        ]


# --- is its part there? ------------------------------------------------------------------------------------------


def disowned(
    answer: Callable[[WithBlock], Any],
    there: Mapping[str, list[str | None]],
    hooks: set[str] | None = None,
    key: Callable[[WithBlock], str | None] = lambda block: f"net {block.given['n']}",
) -> tuple[dict[str, str], Answering]:
    """`there`: by output of D_learn, what is recorded and still there. Of all other jobs everything is.

    `key`: the section that the action names.
    """
    graph, _, problems = asked(key=key)
    assert problems == []
    shas = [
        [
            HashColumn.of(there.get(spec.output, ["1" * 64] * len(table)))
            if table.name == "D_learn"
            else HashColumn.of(["1" * 64] * len(table))
            for spec in table.artifacts
        ]
        for table in graph.tables
    ]
    snapshot = PlanningSnapshot(graph, Records(), {}, {}, frozenset(), shas=shas)
    inspector: Any = Answering(**{EXISTING: answer})
    learn = infos({EXISTING, KEY} if hooks is None else hooks)
    return disowned_sites(snapshot, learn, inspector, reader_of_graph(graph, PROJECT)), inspector


def test_actions_are_asked_about_sections_that_they_named_and_that_are_there() -> None:
    """Not about other files, nor about sections that the workflow named."""
    row_a, row_b = {"n": "a", "at": AT}, {"n": "b", "at": AT}
    found, inspector = disowned(lambda block: False, {})
    assert found == {"all.json § net a": "disowned", "all.json § net b": "disowned"}
    blocks = [WithBlock(row_a, file="/project/all.json"), WithBlock(row_b, file="/project/all.json")]
    assert inspector.asked == [(EXISTING, False, blocks)]
    found, inspector = disowned(lambda block: False, {"mine": [None, "2" * 64]})
    assert found == {"all.json § net b": "disowned"}
    assert inspector.asked == [(EXISTING, False, blocks[1:])]


def test_actions_are_not_asked_about_the_section_of_the_job() -> None:
    found, inspector = disowned(lambda block: False, {}, key=lambda block: None if block.given["n"] == "a" else "own")
    assert found == {"all.json § own": "disowned"}
    assert [block.given["n"] for block in inspector.asked[0][2]] == ["b"]


def test_what_is_denied_is_the_section_and_not_the_file() -> None:
    found, _ = disowned(lambda block: block.given["n"] == "a", {})
    assert found == {"all.json § net b": "disowned"}


def test_who_cannot_answer_has_not_denied_anything() -> None:
    def answer(block: WithBlock) -> Any:
        raise ValueError("it broke")

    for answered in (answer, lambda block: None, lambda block: True):
        found, inspector = disowned(answered, {})
        assert (found, len(inspector.asked)) == ({}, 1)


def test_nobody_is_asked_about_what_is_missing_already_or_without_the_methods() -> None:
    for there, hooks in (({"mine": [None, None]}, {EXISTING, KEY}), ({}, {FILES, KEY}), ({}, {EXISTING})):
        found, inspector = disowned(lambda block: False, there, hooks)
        assert (found, inspector.asked) == ({}, [])
    snapshot = PlanningSnapshot(expanded(WORKFLOW), Records(), {}, {}, frozenset())
    silent: Any = Answering()
    assert disowned_sites(snapshot, {}, silent, reader_of_graph(snapshot.dependency_graph, PROJECT)) == {}


def test_a_document_is_asked_about_once_and_only_where_all_bindings_are_known() -> None:
    graph = expanded("""\
workflow: w
jobs:
  A_plain: {uses: shell, with: {run: x}, outputs: {Text: {type: text}}}
  B_waits:
    uses: learn
    with: {data: "${{ jobs.A_plain.outputs.Text }}"}
    outputs: {doc: {type: json, path: b.json, append: true}}
  D_learn:
    uses: learn
    with: {n: a}
    outputs: {doc: {type: json, path: doc.json, append: true, leaves: {Title: string}}}
""")
    named = {"B_waits": {"doc": ["b.json § net"]}, "D_learn": {"doc": ["doc.json § net"]}}
    graph = with_sites(graph, named)
    shas = [[HashColumn.of(["1" * 64]) for _ in table.artifacts] for table in graph.tables]
    snapshot = PlanningSnapshot(graph, Records(), {}, {}, frozenset(), shas=shas)
    inspector: Any = Answering(**{EXISTING: lambda block: False})
    found = disowned_sites(snapshot, infos({EXISTING, KEY}), inspector, reader_of_graph(graph, PROJECT))
    assert found == {"doc.json § net": "disowned"}
    assert inspector.asked == [(EXISTING, False, [WithBlock({"n": "a"}, file="/project/doc.json")])]
