"""`whyrun actions`: lists usable and broken actions."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_lab import dedent, whyrun

LEARN = """
    import time
    from typing import Annotated, Literal
    from whyrun import Action, File, Meta, Parameters, action
    print("chatter")

    class Learn(Action):
        '''Learn a graph from data.

        At length.
        '''
        name, version = "learn", "1.2"
        outputs = {"graph": "file", "metadata": "json"}
        class Params(Parameters):
            data: File
            algorithm: Literal["pc", "hc"] = "pc"
            alpha: Annotated[float, Meta(gt=0, lt=1, description="how sure")] = 0.05
        def run(self, inputs): ...

    @action("text/upper", outputs={"text": "text"}, version="3")
    def upper(text: str, times=1, *, context, **more):
        '''Upper case.'''
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "actions").mkdir()
    (tmp_path / "actions" / "learn.py").write_text(dedent(LEARN))
    return tmp_path


def test_they_are_listed_with_version_origin_and_summary(folder: Path) -> None:
    (folder / "actions" / "later.py").write_text(
        "import nowhere\nfrom whyrun import Action, action\nclass Late(Action):\n    name = 'late'\n"
        "@action('later')\ndef f(): ...\n"
    )
    (folder / "actions" / "broken.py").write_text("def f(:\n")
    (folder / "actions" / "taken.py").write_text("from whyrun import action\n@action('shell')\ndef f(): ...\n")
    answer = whyrun(folder, "actions")
    assert (answer.code, answer.err) == (0, "")
    copy = "Copy a file or a directory to the job's one output."
    http = "Ask a web service for JSON, with retries; or submit a request once and poll."
    shell = "Run a script; values arrive as shell variables, outputs are written to `$out_NAME`."
    missing = "error: ModuleNotFoundError: No module named 'nowhere' (actions/later.py:1)"
    taken = "error: a built-in action has this name; give yours another"
    of_data = ("data/", "csv/", "parquet/", "duckdb/", "mysql/", "postgres/", "sqlite/")
    lines = [line for line in answer.out.splitlines() if not line.startswith(of_data)]
    assert [" ".join(line.split()) for line in lines] == [
        "? - actions/broken.py error: actions/broken.py:1: invalid syntax",
        f"file/copy 1 built in {copy}",
        f"http/json 1 built in {http}",
        f"late - actions/later.py {missing}",
        f"later - actions/later.py {missing}",
        "learn 1.2 actions/learn.py Learn a graph from data.",
        "python 1 built in Call a function of the project, or run a script of it.",
        f"shell 1 built in {shell}",
        f"shell - actions/taken.py {taken}",
        "text/upper 3 actions/learn.py Upper case.",
    ]


def test_one_is_shown_with_parameters_outputs_and_an_example(folder: Path) -> None:
    answer = whyrun(folder, "actions", "learn")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == dedent("""\
        learn 1.2 (actions/learn.py)
          Learn a graph from data.
        parameters
          data       a file; required
          algorithm  one of "hc", "pc"; default "pc"
          alpha      a number > 0 and < 1; default 0.05; how sure
        outputs
          graph     file
          metadata  json
        example
          jobs:
            Example:
              uses: learn
              with:
                data: …  # a file
              outputs: {graph: {type: file}, metadata: {type: json}}
    """)


def test_a_function_is_shown_by_its_signature(folder: Path) -> None:
    assert whyrun(folder, "actions", "text/upper").out == dedent("""\
        text/upper 3 (actions/learn.py)
          Upper case.
        parameters
          text   any value; required
          times  any value
          …  any others
        outputs
          text  text
        example
          jobs:
            Example:
              uses: text/upper
              with:
                text: …  # any value
              outputs: {text: {type: text}}
    """)


def test_the_same_as_json(folder: Path) -> None:
    answer = whyrun(folder, "actions", "learn", "--json")
    assert answer.json == {
        "name": "learn",
        "version": "1.2",
        "origin": "project",
        "place": "actions/learn.py",
        "summary": "Learn a graph from data.",
        "error": None,
        "parameters": [
            {"name": "data", "type": "a file", "required": True, "default": None, "description": ""},
            {
                "name": "algorithm",
                "type": 'one of "hc", "pc"',
                "required": False,
                "default": '"pc"',
                "description": "",
            },
            {
                "name": "alpha",
                "type": "a number > 0 and < 1",
                "required": False,
                "default": "0.05",
                "description": "how sure",
            },
        ],
        "open_ended": False,
        "outputs": {"graph": "file", "metadata": "json"},
        "deterministic": False,
        "example": "",
    }
    listed = whyrun(folder, "actions", "--json").json["actions"]
    names = [action["name"] for action in listed]
    assert names == sorted(names)
    assert {"file/copy", "http/json", "learn", "python", "shell", "text/upper"} <= set(names)


def test_an_unknown_name_is_refused_with_the_nearest(folder: Path) -> None:
    answer = whyrun(folder, "actions", "lern")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "error[INVALID_USES]: there is no action `lern`\n   hint: did you mean `learn`?\n"


def test_the_actions_are_those_of_the_project_that_the_folder_belongs_to(folder: Path) -> None:
    (folder / "whyrun.toml").write_text("")
    (folder / "flows").mkdir()
    assert whyrun(folder / "flows", "actions", "learn").code == 0


@pytest.mark.parametrize("name", ["shell", "python", "http/json", "file/copy"])
def test_the_example_of_every_built_in_action_is_a_valid_job(folder: Path, name: str) -> None:
    import yaml

    from whyrun.workflow.parsing.parse import parse_workflow

    example = whyrun(folder, "actions", name, "--json").json["example"]
    jobs = yaml.safe_load(example)["jobs"]
    assert [job["uses"] for job in jobs.values()] == [name]
    inputs = "inputs: {Text: {type: file}, Prompt: {type: string}, Report: {type: file}}\n"
    assert parse_workflow("w.yaml", lambda _: f"workflow: w\n{inputs}{example}").jobs.keys() == jobs.keys()
