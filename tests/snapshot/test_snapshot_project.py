"""A workflow, opened: found or refused, everything that is wrong told at once, and what is kept between plans."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from project_lab import Lab, wait_until
from whyrun.errors import Diagnostic, InvalidError, WhyrunError
from whyrun.log.runs import STAT_CACHE
from whyrun.project import Project
from whyrun.snapshot.history.reader import History

Make = Callable[..., Lab]
FLOW = """
    workflow: w
    inputs: {File: {type: file, default: a.txt}, Word: {type: string, default: x}}
    jobs:
      A: {uses: python, with: {call: "acts:f", file: "${{ inputs.File }}"}, outputs: {O: {type: text, path: out.txt}}}
      B: {uses: python, with: {call: "acts:f", file: "${{ jobs.A.outputs.O }}"}, outputs: {O: {type: text}}}
"""
CODE = "def f(file):\n    return {'O': file.read_text()}\n"


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(FLOW, {"acts.py": CODE, "a.txt": "a"})


def codes_and_messages(found: Any) -> list[tuple[str, str]]:
    return [(problem.code, problem.message) for problem in found]


def refused(ask: Callable[[], object]) -> list[tuple[str, str]]:
    with pytest.raises(WhyrunError) as wrong:
        ask()
    return codes_and_messages(wrong.value.diagnostics)


# --- opening -----------------------------------------------------------------------------------------------------


def test_a_file_is_opened_with_all_that_is_given_to_it(lab: Lab, tmp_path: Path) -> None:
    inputs, state = lab.root / "in.yaml", tmp_path / "state"
    lab.write({"in.yaml": "Word: y\n"})
    opened = Project.open(str(lab.file), inputs=str(inputs), sets=["Word=z"], state=state, given={"Word": "q"})
    assert (opened.file, opened.inputs_file, opened.sets, opened.given) == (
        lab.file,
        inputs,
        ("Word=z",),
        {"Word": "q"},
    )
    assert (opened.state_override, opened.manifest_file, opened.state_dir) == (str(state), None, state)
    assert (opened.folder, opened.workflow.name, opened.inputs["Input:Word"].value) == (lab.root, "w", "z")
    plain = Project.open(lab.file)
    assert (plain.inputs_file, plain.sets, plain.given, plain.state_override) == (None, (), None, None)
    assert plain.state_dir == lab.root / ".whyrun"


def test_without_a_name_the_usual_file_is_opened(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(lab.root)
    assert Project.open().file == Path("workflow.yaml")
    monkeypatch.chdir(tmp_path)
    assert refused(Project.open) == [("FILE_MISSING", "there is no workflow file `workflow.yaml`")]


def test_what_is_no_workflow_file_is_refused(lab: Lab) -> None:
    assert refused(lambda: Project.open(lab.root)) == [("FILE_MISSING", f"`{lab.root}` is a folder")]
    message = f"`{lab.file}` is not a dataset plan, so it takes no inputs manifest"
    assert refused(lambda: Project.open(lab.file, manifest="m.json")) == [("USAGE", message)]
    lab.write({"flow.json": json.dumps({"workflow": "j", "jobs": {}}), "plan.JSON": "{}"})
    assert Project.open(lab.root / "flow.json").workflow.name == "j", "JSON is YAML"
    plan = Project.open(lab.root / "plan.JSON", manifest="m.json")
    assert plan.manifest_file == Path("m.json")
    assert [code for code, _ in codes_and_messages(plan.problems)] != []


def test_a_store_is_shared_where_the_project_or_the_environment_says_so(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lab.opened().shared_store is None
    lab.write({"whyrun.toml": 'store = "team"\n'})
    assert lab.opened().shared_store == "team"
    monkeypatch.setenv("WHYRUN_STORE", "s3://other")
    assert lab.opened().shared_store == "s3://other"


# --- all that is wrong -------------------------------------------------------------------------------------------


def test_settings_that_cannot_be_read_are_told_with_all_else(lab: Lab) -> None:
    lab.write({"whyrun.toml": "store = 7\n", "a.txt": None})
    both = [
        ("INPUT_MISSING", "`Input:File`: there is no file `a.txt`"),
        ("WRONG_TYPE", "`store` is a URL or a folder: a string"),
    ]
    assert sorted(codes_and_messages(lab.opened().problems)) == both
    assert sorted(refused(lambda: lab.opened().config)) == both


def test_who_needs_the_name_only_is_not_told_of_inputs(lab: Lab) -> None:
    lab.write({"a.txt": None})
    assert lab.opened().workflow.name == "w"
    assert lab.opened().state.state_dir == lab.root / ".whyrun"
    lab.edit("workflow.yaml", "jobs:", "nonsense: 1\njobs:")
    (problem,) = refused(lambda: lab.opened().workflow)
    assert problem[0] == "UNKNOWN_KEY"
    assert len(lab.opened().problems) == 2
    assert len(refused(lambda: lab.opened().inputs)) == 2
    assert len(refused(lambda: lab.opened().graph)) == 2
    assert len(refused(lambda: lab.opened().actions)) == 1


def test_problems_stand_in_reading_order_and_each_once(project: Make) -> None:
    lab = project(
        """\
        workflow: w
        imports: {P: {workflow: part.yaml}, Q: {workflow: part.yaml}}
        jobs:
          B: {uses: none/b, with: {x: "${{ jobs.Nowhere.outputs.O }}"}}
          A: {uses: none/a, outputs: {O: {type: text}}}
          C: {uses: shell, with: {run: 'true', b: "${{ jobs.D.outputs.O }}"}, outputs: {O: {type: text}}}
          D: {uses: shell, with: {run: 'true', b: "${{ jobs.C.outputs.O }}"}, outputs: {O: {type: text}}}
          E: {uses: shell, with: {run: 'true', b: "${{ jobs.F.outputs.O }}"}, outputs: {O: {type: text}}}
          F: {uses: shell, with: {run: 'true', b: "${{ jobs.E.outputs.O }}"}, outputs: {O: {type: text}}}
        """,
        {"part.yaml": "workflow: p\njobs:\n  Z: {uses: none/z}\n"},
    )
    found = [(Path(p.file or "").name, p.line, p.column, p.code) for p in lab.opened().problems]
    assert found == [
        ("workflow.yaml", 4, 13, "INVALID_USES"),
        ("workflow.yaml", 4, 41, "UNKNOWN_REFERENCE"),
        ("workflow.yaml", 5, 13, "INVALID_USES"),
        ("workflow.yaml", 6, 3, "CYCLE"),
        ("workflow.yaml", 8, 3, "CYCLE"),
        ("part.yaml", 3, 13, "INVALID_USES"),
    ]


def test_of_very_many_circles_some_are_told(project: Make) -> None:
    def job(name: str, other: str) -> str:
        with_ = f"{{run: 'true', b: '${{{{ jobs.{other}.outputs.O }}}}'}}"
        return f"  {name}: {{uses: shell, with: {with_}, outputs: {{O: {{type: text}}}}}}\n"

    circles = "".join(job(f"A{i}", f"B{i}") + job(f"B{i}", f"A{i}") for i in range(23))
    assert [code for code, _ in codes_and_messages(project("workflow: w\njobs:\n" + circles).opened().problems)] == [
        "CYCLE"
    ] * 20


def test_a_world_is_only_itself(lab: Lab) -> None:
    opened = lab.opened()
    assert opened == opened
    assert opened != lab.opened()
    assert {opened: 1}[opened] == 1


def test_actions_are_known_by_job_those_of_imports_too(project: Make) -> None:
    outer = "workflow: o\nimports: {P: {workflow: part.yaml}}\njobs: {A: {uses: shell, with: {run: 'true'}}}\n"
    part = "workflow: p\nimports: {Q: {workflow: deep.yaml}}\njobs: {B: {uses: none/b}}\n"
    deep = "workflow: d\njobs: {C: {uses: python, with: {call: 'a:f'}}}\n"
    lab = project(outer, {"part.yaml": part, "deep.yaml": deep, "a.py": "def f(): ...\n"})
    opened = lab.opened()
    assert {job: (uses, found.facts is not None) for job, (uses, found) in opened.declared_actions().items()} == {
        "A": ("shell", True),
        "P/B": ("none/b", False),
        "P/Q/C": ("python", True),
    }
    assert {job: info.name for job, info in opened.infos.items()} == {"A": "shell", "P/Q/C": "python"}
    lab.write({"part.yaml": part.replace("none/b", "shell").replace("shell}", "shell, with: {run: 'true'}}")})
    assert sorted(lab.opened().actions) == ["A", "P/B", "P/Q/C"]


def test_jobs_are_told_by_name(project: Make) -> None:
    job = "{uses: shell, with: {run: 'true'}}"
    opened = project(f"workflow: w\njobs: {{Z: {job}, B: {job}, M: {job}}}\n").opened()
    assert list(opened.looked_up) == list(opened.declared_actions()) == ["B", "M", "Z"]


def test_of_a_file_that_is_none_that_is_told_alone(project: Make) -> None:
    opened = project("workflow: [\n").opened()
    found = codes_and_messages(opened.problems)
    assert [code for code, _ in found] == ["YAML_SYNTAX"]
    assert refused(lambda: opened.workflow) == refused(lambda: opened.graph) == found
    assert opened.inputs == {}


def test_of_a_file_of_which_nothing_can_be_read_that_is_told_alone(lab: Lab) -> None:
    lab.file.write_bytes(b"workflow: \xff\n")
    opened = lab.opened()
    found = [("YAML_SYNTAX", "the file is not UTF-8 text")]
    assert (
        codes_and_messages(opened.problems)
        == refused(lambda: opened.workflow)
        == refused(lambda: opened.graph)
        == found
    )
    assert opened.inputs == {}


def test_a_composition_of_another_shape_has_no_graph(project: Make) -> None:
    text = """\
        workflow: w
        composition: {mode: sequential, roles: {Main: primary_dataset, More: secondary_dataset}}
        inputs: {Main: {type: dataset, default: main.csv}, More: {type: dataset, default: more.csv}}
        jobs:
          A: {uses: shell, with: {run: 'true', primary_dataset: "${{ inputs.Main }}",
              secondary_dataset: "${{ inputs.More }}"}, outputs: {O: {type: dataset}}}
        """
    lab = project(text, {"main.csv": "id\n1\n", "more.csv": "id\n1\n"})
    found = codes_and_messages(lab.opened().problems)
    assert found
    assert refused(lambda: lab.opened().graph) == found
    plain = "workflow: p\njobs: {K: {uses: shell, with: {run: 'true'}}}\n"
    lab.write({"plain.yaml": plain, "outer.yaml": "workflow: o\nimports: {P: {workflow: workflow.yaml}, Q: {workflow: "
               "plain.yaml}}\njobs: {}\n"})  # fmt: skip
    assert len(Project.open(lab.root / "outer.yaml").problems) == len(found)
    # A part has another shape than the whole: where something else is wrong, that is told alone.
    whole = lab.read("workflow.yaml")
    lab.write({"main.csv": None})
    assert [code for code, _ in codes_and_messages(lab.opened().problems)] == ["INPUT_MISSING"]
    lab.write({"main.csv": "id\n1\n", "workflow.yaml": whole + "nonsense: 1\n"})
    assert [code for code, _ in codes_and_messages(lab.opened().problems)] == ["UNKNOWN_KEY"]
    outputs = "outputs: {O: {type: text}}"
    circle = "".join(
        f"  {a}: {{uses: shell, with: {{run: 'true', x: '${{{{ jobs.{b}.outputs.O }}}}'}}, {outputs}}}\n"
        for a, b in ("CD", "DC")
    )
    lab.write({"workflow.yaml": whole + circle})
    assert [code for code, _ in codes_and_messages(lab.opened().problems)] == ["CYCLE"]


def test_a_workflow_file_is_told_of_in_its_own_words(project: Make) -> None:
    lab = project("workflow: w\njobs: {A: {uses: http/json, outputs: {Answer: {type: json}}}}\n")
    assert [problem.hint for problem in lab.opened().problems] == ["add `url:` to `with:`"]


def test_what_has_no_line_stands_before_what_has_one(lab: Lab) -> None:
    places = [(2, 3), (1, 1), (1, None), (None, None)]
    opened = lab.opened()
    found = tuple(Diagnostic("USAGE", f"{place}", file="f", line=place[0], column=place[1]) for place in places)
    opened.reading = replace(opened.reading, problems=found)
    assert [(problem.line, problem.column) for problem in opened.problems] == list(reversed(places))


def test_datasets_are_looked_at_whatever_else_there_is(project: Make) -> None:
    text = """\
        workflow: w
        inputs: {Main: {type: dataset, default: main.csv}}
        jobs:
          A: {uses: shell, with: {run: 'true'}, outputs: {O: {type: text}}}
          C:
            uses: data/check
            with: {primary_dataset: "${{ inputs.Main }}", diagnostics: {rows: rows}}
            outputs: {R: {type: json, leaves: {row: integer}}}
        """
    lab = project(text, {"main.csv": "id\n1\n"})
    assert codes_and_messages(lab.opened().problems) == [("UNKNOWN_REFERENCE", "`C` computes no diagnostic `row`")]
    assert refused(lab.snapshot) == codes_and_messages(lab.opened().problems)


@pytest.mark.parametrize(
    ("poll", "expected"),
    [
        ("'${{ inputs.Gone }}'", [("INPUT_MISSING", "the input `Gone` (json) has no value")]),
        ("'${{ nonsense'", [("EXPRESSION_SYNTAX", "`${{` without its `}}`")]),
    ],
)
def test_a_block_of_which_a_part_is_not_known_is_not_judged(
    project: Make, poll: str, expected: list[tuple[str, str]]
) -> None:
    text = f"""\
        workflow: w
        inputs: {{Gone: {{type: json}}, S: {{type: string, default: x}}}}
        jobs:
          A:
            uses: http/json
            with: {{url: 'http://a', json: '${{{{ inputs.S }}}}', poll: {poll}, wait: {{every: 3s}}}}
            outputs: {{Answer: {{type: json}}}}
        """
    if "nonsense" in poll:
        text = text.replace("Gone: {type: json}, ", "")
    assert codes_and_messages(project(text).opened().problems) == expected


# --- code that changes -------------------------------------------------------------------------------------------


def test_code_is_current_until_its_content_changes(lab: Lab) -> None:
    opened = lab.opened()
    assert opened.actions["A"].files
    assert opened.is_current("A")
    lab.write({"acts.py": CODE.replace("read_text()", "read_text().upper()")})
    assert not opened.is_current("A")
    lab.write({"acts.py": CODE})
    assert opened.is_current("A")
    lab.write({"acts.py": None})
    assert not opened.is_current("A")


# --- what is kept ------------------------------------------------------------------------------------------------


def test_planning_alone_leaves_nothing_behind(lab: Lab) -> None:
    before = sorted(path.name for path in lab.root.iterdir())
    lab.plan()
    assert sorted(path.name for path in lab.root.iterdir()) == before


def test_actions_can_be_asked_how_long_they_take(lab: Lab) -> None:
    estimator = lab.snapshot().estimator
    assert estimator is not None
    assert estimator([0, 1]) == {}, "these say nothing"


def test_what_was_hashed_and_compared_is_kept_and_need_not_be_writable(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.succeed()
    state = lab.opened().state
    memo = state.index_dir / "memo"
    memo.unlink(missing_ok=True)
    (state.state_dir / STAT_CACHE).unlink(missing_ok=True)  # files of this very tick are not kept
    lab.write({"a.txt": "a"})
    opened = lab.opened()
    kept: list[dict[str, str]] = []
    history = History(opened.state, opened.store.read)
    monkeypatch.setattr(history, "save_memo", kept.append)
    snapshot = opened.snapshot(history)
    assert [sorted(memo) for memo in kept] == [["A", "B"]]
    assert snapshot.suspects == []
    wait_until(lambda: lab.snapshot().suspects == [] and memo.exists())  # a log of this very tick gets none
    again = History(opened.state, opened.store.read)
    monkeypatch.setattr(again, "save_memo", kept.append)
    lab.opened().snapshot(again)
    assert len(kept) == 1, "nothing new was found out"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    other = lab.opened()
    monkeypatch.setattr(other.cache, "save", full)
    assert other.snapshot().suspects == []


def test_each_cache_is_made_anew_where_it_is_gone(project: Make) -> None:
    text = """\
        workflow: w
        inputs: {N: {type: integer, default: 3}}
        jobs:
          A: {uses: python, with: {call: "acts:f"}, outputs: {O: {type: json, path: all.json, append: true}}}
          B: {uses: http/json, with: {url: 'http://a', redirects: "${{ inputs.N }}"}, outputs: {Answer: {type: json}}}
        """
    lab = project(text, {"acts.py": "def f():\n    return {'O': {'n': 1}}\n"})
    lab.succeed(targets=["Job:A"])
    opened = lab.opened()
    caches = [opened.state_dir / STAT_CACHE, opened.state.index_dir / "sections", opened.state_dir / "actions-cache"]
    for cache in caches:
        cache.unlink(missing_ok=True)

    def are_made() -> bool:  # a file of this very tick is not kept yet
        lab.snapshot()
        return all(cache.exists() for cache in caches)

    wait_until(are_made)


def test_a_history_goes_as_far_as_it_is_asked(lab: Lab) -> None:
    lab.succeed()
    lab.write({"a.txt": "b"})
    lab.succeed()
    opened = lab.opened()
    assert (opened.history().records.run, opened.history(1).records.run) == (2, 1)
    assert opened.snapshot(opened.history(1)).log_position == {"run": "r0001", "seq": opened.history(1).records.seq}


def test_what_does_not_fit_is_told_before_there_is_a_plan(project: Make) -> None:
    lab = project(
        """\
        workflow: w
        inputs: {N: {type: integer, default: 99}}
        jobs:
          A: {uses: http/json, with: {url: 'http://a', redirects: "${{ inputs.N }}"}, outputs: {Answer: {type: json}}}
          B: {uses: none/b}
        """
    )
    with pytest.raises(InvalidError) as wrong:
        lab.snapshot()
    assert codes_and_messages(wrong.value.diagnostics) == [
        ("INVALID_PARAMETER", "`redirects` is 99; it takes an integer ≥ 0 and ≤ 50"),
        ("INVALID_USES", "there is no action `none/b`"),
    ]


NAMED = """
    from whyrun import Action, Parameters

    class Named(Action):
        name = "named"
        outputs = {"O": "text"}
        class Params(Parameters):
            count: int
        def run(self, inputs, context):
            return {"O": "o"}
        def get_output_files(self, inputs):
            return ["out/" + "x" * inputs["count"] + ".txt"]
"""


@pytest.mark.parametrize("count", ["many", "${{ inputs.Doc }}"])
def test_an_action_is_asked_nothing_with_parameters_that_do_not_fit(project: Make, count: str) -> None:
    """Whatever other jobs there are: the one that cannot be asked stands beside one that need not be."""
    text = """\
        workflow: w
        inputs: {Doc: {type: json, default: many}}
        jobs:
          A: {uses: named, with: {count: "COUNT"}, outputs: {O: {type: text}}}
          B: {uses: shell, with: {run: "true"}}
        """
    lab = project(text.replace("COUNT", count), {"actions/named.py": NAMED})
    assert codes_and_messages(lab.opened().problems) == [
        ("INVALID_PARAMETER", '`count` is "many"; it takes an integer')
    ]


def test_where_parameters_cannot_be_read_none_is_missing(project: Make) -> None:
    flow = "workflow: w\njobs: {A: {uses: named, with: 7, outputs: {O: {type: text}}}}\n"
    lab = project(flow, {"actions/named.py": NAMED})  # nor is it asked about paths without them
    assert codes_and_messages(lab.opened().problems) == [
        ("WRONG_TYPE", "`with` of job `A` is the number `7`, not a map")
    ]


def test_a_wrong_workflow_is_told_before_a_log_that_cannot_be_read(lab: Lab) -> None:
    lab.succeed()
    runs = lab.root / ".whyrun" / "w" / "runs"
    runs.rename(lab.root / "aside")
    runs.write_text("no folder")
    (lab.root / "a.txt").unlink()
    assert [code for code, _ in refused(lab.snapshot)] == ["INPUT_MISSING"]
