"""`append:` and `key:` in workflow files: what is refused, with its place, and which key a section has."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from project_lab import Lab
from whyrun.artifacts.hashing import value_sha256
from whyrun.errors import InvalidError
from whyrun.graph.expand import expand
from whyrun.graph.publishing.conflicts import path_problems
from whyrun.graph.tables import Graph
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import Type
from whyrun.workflow.nodes import Problems, plain_value
from whyrun.workflow.parsing.parse import parse_workflow, workflow_schema
from whyrun.workflow.yaml_source import read_yaml

HEAD = """workflow: w
inputs: {Name: {type: string, default: n}}
loops: {network: {values: [asia, "TETRAD/FGES"]}, seed: {count: 2}}
jobs:
"""
JSON = "{type: json, path: m.json"
INPUTS = {"Input:Name": InputValue(Type("string"), "n", value_sha256("n"), None, None)}


def job(name: str, outputs: str, loops: str = "") -> str:
    for_ = f"    for: [{loops}]\n" if loops else ""
    return f"  {name}:\n    uses: python\n{for_}    with: {{call: 'm:f'}}\n    outputs:\n      {outputs}\n"


def section(path: str = "m.json", rest: str = "") -> str:
    return f"{{type: json, path: {path}, append: true{rest}}}"


def graph(*jobs: str) -> Graph:
    return expand(parse_workflow("w.yaml", lambda key: HEAD + "".join(jobs)), INPUTS, path_problems)


def sites(*jobs: str) -> list[str]:
    return [site for table in graph(*jobs).tables for output in table.outputs for site in output.paths or ()]


def problems(*jobs: str) -> list[tuple[str, int | None, str, str | None]]:
    with pytest.raises(InvalidError) as told:
        graph(*jobs)
    return [(d.code, d.line, d.message, d.hint) for d in told.value.diagnostics]


# --- keys --------------------------------------------------------------------------------------------------------


def test_the_key_is_the_job_id_without_its_kind() -> None:
    assert sites(job("learn", f"M: {section()}", "network, seed"), job("Sum", f"M: {section()}")) == [
        "m.json § Sum",
        "m.json § learn[asia][0]",
        "m.json § learn[asia][1]",
        'm.json § learn["TETRAD/FGES"][0]',
        'm.json § learn["TETRAD/FGES"][1]',
    ]


def test_a_key_of_its_own_follows_loops_and_inputs() -> None:
    key = ', key: "${{ inputs.Name }} of ${{ network }}"'
    assert sites(job("learn", f"M: {section(rest=key)}", "network")) == [
        "m.json § n of asia",
        "m.json § n of TETRAD/FGES",
    ]


def test_a_path_that_follows_a_loop_gives_several_shared_files() -> None:
    assert sites(job("learn", f"M: {section(chr(34) + 'm-${{ seed }}.json' + chr(34))}", "seed, network"))[:2] == [
        "m-0.json § learn[0][asia]",
        'm-0.json § learn[0]["TETRAD/FGES"]',
    ]


def test_append_false_is_a_file_of_its_own() -> None:
    assert sites(job("A", "M: {type: json, path: m.json, append: false}")) == ["m.json"]


# --- refused -----------------------------------------------------------------------------------------------------


def test_a_path_is_shared_only_if_all_its_writers_say_append() -> None:
    found = problems(job("A", f"M: {section()}"), job("B", "M: {type: json, path: m.json}"))
    assert found == [
        (
            "DUPLICATE_OUTPUT_PATH",
            14,
            "`m.json` would be written by both `Artifact:A.M` and `Artifact:B.M`, but not both set `append`",
            "set `append: true` for every output that shares the file, or give them paths of their own",
        )
    ]


def test_two_sections_of_one_job_need_keys_that_differ() -> None:
    both = f"M: {section()}\n      N: {section()}"
    assert problems(job("A", both)) == [
        (
            "DUPLICATE_OUTPUT_PATH",
            10,
            "`m.json` would have two sections `A`, of `Artifact:A.M` and of `Artifact:A.N`",
            "give each a `key:` of its own",
        )
    ]
    other = f"M: {section()}\n      N: {section(rest=', key: other')}"
    assert sites(job("A", other)) == ["m.json § A", "m.json § other"]


def test_a_key_that_forgets_a_loop_is_refused() -> None:
    assert problems(job("learn", f"M: {section(rest=', key: same')}", "network")) == [
        (
            "DUPLICATE_OUTPUT_PATH",
            10,
            "`m.json` would have two sections `same`, of `Artifact:learn.M[asia]` and of "
            '`Artifact:learn.M["TETRAD/FGES"]`',
            "put each loop variable into the `key:`, such as `${{ network }}`",
        )
    ]


def test_a_shared_file_is_no_folder_of_others() -> None:
    (found,) = problems(job("A", f"M: {section('out')}"), job("B", "M: {type: json, path: out/b.json}"))
    assert found[:3] == ("DUPLICATE_OUTPUT_PATH", 9, "`out` is an output and also the folder of `out/b.json`")


def test_json_that_meets_json_is_told_of_append() -> None:
    (found,) = problems(*(job(name, "M: {type: json, path: m.json}") for name in "AB"))
    assert found[3] == "give each output a path of its own; or let all of them share the file: `append: true`"


@pytest.mark.parametrize(
    ("output", "code", "message"),
    [
        (
            "{type: text, path: m.txt, append: true}",
            "WRONG_TYPE",
            "output `M` has type `text`; only `json` can be a section",
        ),
        (f"{JSON}, append: 1}}", "WRONG_TYPE", "`append` of output `M` is the number `1`, not a boolean"),
        (f"{JSON}, key: a}}", "WRONG_TYPE", "output `M` has a `key`, but is not a section"),
        (f"{JSON}, append: false, key: a}}", "WRONG_TYPE", "output `M` has a `key`, but is not a section"),
        (f"{JSON}, append: true, key: 7}}", "WRONG_TYPE", "the key of output `M` is the number `7`, not a string"),
        (f'{JSON}, append: true, key: ""}}', "WRONG_TYPE", "the key of output `M` is empty"),
        (
            '{type: json, path: m.json, append: true, key: "${{ jobs.A }}"}',
            "EXPRESSION_FORBIDDEN",
            "`jobs` cannot be used in a `key:`",
        ),
        (
            '{type: json, path: m.json, append: true, key: "a\\tb"}',
            "WRONG_TYPE",
            "the key of `M` is 'a\\tb' in `Job:A`",
        ),
        (
            '{type: json, path: "a § b.json"}',
            "PATH_OUTSIDE",
            "the path of output `M` is refused: ` § ` separates a shared file from the key of a section",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(output: str, code: str, message: str) -> None:
    (found,) = problems(job("A", f"M: {output}"))
    assert (found[0], found[1]) == (code, 9)
    assert found[2] == message


@pytest.mark.parametrize(
    ("output", "fits"),
    [
        ("{type: json, path: m.json, append: true, key: a}", True),
        ("{type: json, path: m.json, append: false}", True),
        ("{type: json, append: true}", False),
        ("{type: text, path: m.txt, append: true}", False),
        ("{type: json, path: m.json, key: a}", False),
        ('{type: json, path: m.json, append: true, key: ""}', False),
    ],
)
def test_the_schema_agrees(output: str, fits: bool) -> None:
    node = read_yaml(HEAD + job("A", f"M: {output}"), "w.yaml", Problems())
    assert node is not None
    errors: list[Any] = list(jsonschema.Draft202012Validator(workflow_schema()).iter_errors(plain_value(node)))
    assert (not errors) == fits


def test_a_hundred_thousand_instances_share_one_path_quickly() -> None:
    import time

    text = HEAD.replace("seed: {count: 2}", "seed: {count: 100000}") + job("A", f"M: {section()}", "seed")
    workflow = parse_workflow("w.yaml", lambda key: text)
    started = time.monotonic()
    paths = expand(workflow, INPUTS).tables[0].outputs[0].paths
    assert time.monotonic() - started < 60.0  # half a second, usually; comparing each with each would take hours
    assert paths is not None
    assert (len(paths), paths[-1]) == (100_000, "m.json § A[99999]")


# --- in a run ----------------------------------------------------------------------------------------------------


def test_sections_of_an_import_have_a_file_and_keys_of_their_own(project: Callable[..., Lab]) -> None:
    part = "workflow: part\njobs:\n" + job("A", f"M: {section()}")
    flow = "workflow: w\nimports: {Intro: {workflow: ./part.yaml}}\njobs:\n" + job("A", f"M: {section()}")
    lab = project(flow, {"part.yaml": part, "m.py": "def f():\n    return {'M': [1]}\n"})
    lab.succeed()
    assert json.loads(lab.read("m.json")) == {"A": [1]}
    assert json.loads(lab.read("Intro/m.json")) == {"Intro/A": [1]}


def test_what_is_no_json_cannot_be_a_section(project: Callable[..., Lab]) -> None:
    flow = """
        workflow: w
        jobs:
          A:
            uses: shell
            with: {run: 'echo "{\\"a\\": \\"\\\\ud800\\"}" > "$out_M"'}
            outputs: {M: {type: json, path: m.json, append: true}}
    """
    lab = project(flow)
    ran = lab.run()
    assert ran.failed == {"Job:A": ("FAILED", "WrongOutputType")}
    assert not (lab.root / "m.json").exists()
