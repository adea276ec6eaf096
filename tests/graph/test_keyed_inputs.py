"""Issue 20: arrays that keep names. `key:` names the elements of an input, in IDs, selectors and loops."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from project_lab import ECHO, Lab
from whyrun.errors import InvalidError, WhyrunError
from whyrun.facts.subjects import find_subject
from whyrun.ids import format_index, format_indices, format_words, parse_id
from whyrun.log import events as ev
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob
from whyrun.workflow.parsing.parse import workflow_schema

Make = Callable[..., Lab]
CODE = {"echo.py": ECHO}

READS = """\
workflow: reads
inputs:
  R1: {type: "file[]", default: "reads/*_R1.fastq.gz", key: "{}_R1.fastq.gz"}
  R2: {type: "file[]", default: "reads/*_R2.fastq.gz", key: "{}_R2.fastq.gz"}
loops: {sample: {each: inputs.R1}}
jobs:
  Trim:
    for: [sample]
    uses: python
    with:
      call: "echo:received"
      a: "${{ inputs.R1[sample] }}"
      b: "${{ inputs.R2[sample] }}"
      name: "${{ sample }}"
    outputs: {Got: {type: json}}
  Report:
    uses: python
    with: {call: "echo:received", all: "${{ jobs.Trim.outputs.Got[:] }}", one: "${{ jobs.Trim.outputs.Got['01'] }}"}
    outputs: {Got: {type: json}}
"""


def pairs(*names: str) -> dict[str, str]:
    return {f"reads/{name}_R{n}.fastq.gz": f"{name} {n}" for name in names for n in (1, 2)}


def problems(lab: Lab) -> list[tuple[str, str, str | None]]:
    return [(d.code, d.message, d.hint) for d in lab.opened().problems]


def declared(project: Make, decl: str, files: dict[str, str], **more: str) -> Lab:
    text = f"""\
workflow: w
inputs:
  X: {decl}
loops: {{x: {{each: inputs.X}}}}
jobs:
  J:
    for: [x]
    uses: python
    with: {{call: "echo:received", x: "${{{{ {more.get("ref", "inputs.X[x]")} }}}}"}}
    outputs: {{Got: {{type: json}}}}
"""
    return project(text, {**CODE, **files})


def test_a_file_that_comes_between_others_leaves_them_alone(project: Make) -> None:
    lab = project(READS, {**CODE, **pairs("alpha", "gamma", "01")})
    lab.succeed()
    assert lab.content("Artifact:Trim.Got[alpha]")["name"] == "alpha"
    graph = lab.opened().graph
    assert list(graph.node_of) == ["Job:Report", 'Job:Trim["01"]', "Job:Trim[alpha]", "Job:Trim[gamma]"]
    assert lab.plan().headlines() == {}
    lab.write(pairs("beta"))
    plan = lab.plan()
    assert plan.headlines() == {"Job:Trim[beta]": "MISSING_OUTPUT", "Job:Report": "UPSTREAM_DIRTY"}
    bindings = {job.id: job.bindings for job in plan.planned}
    assert bindings["Job:Trim[beta]"] == {"a": "Input:R1[beta]", "b": "Input:R2[beta]"}
    assert bindings["Job:Report"]["one"] == 'Artifact:Trim.Got["01"]'
    lab.succeed()
    events = {event.id for event in lab.events("r0002") if isinstance(event, ev.InputRecorded)}
    assert events == {"Input:R1[beta]", "Input:R2[beta]"}
    lab.write({"reads/alpha_R2.fastq.gz": "other"})
    assert lab.plan().headlines() == {"Job:Trim[alpha]": "INPUT_CHANGED", "Job:Report": "UPSTREAM_DIRTY"}
    snapshot = lab.snapshot()
    again = replay_snapshot(snapshot_blob(snapshot), lab.opened().history())
    assert (
        compute_execution_plan(again, PlanOptions()).to_json()
        == compute_execution_plan(snapshot, PlanOptions()).to_json()
    )


@pytest.mark.parametrize(
    ("key", "file", "index"),
    [
        ("stem", "in/alpha.fastq.gz", "alpha"),
        ("stem", "in/alpha.v2.nii.zst", "alpha.v2"),
        ("stem", "in/alpha.txt.bz2", "alpha"),
        ("stem", "in/alpha.xz", "alpha"),
        ("stem", "in/a b.txt", "a b"),
        ("stem", "in/plain", "plain"),
        ("name", "in/alpha.txt", "alpha.txt"),
        ("{}-raw.txt", "in/7-raw.txt", "7"),
        ("s{}", "in/s1e3", "1e3"),
        ("{}/reads.txt", "in/alpha/reads.txt", "alpha"),
    ],
)
def test_keys_of_files_are_strings(project: Make, key: str, file: str, index: str) -> None:
    lab = declared(project, f'{{type: "file[]", default: [{file}], key: "{key}"}}', {file: "1"})
    graph = lab.opened().graph
    id_ = f"Input:X[{format_index(index)}]"
    assert list(graph.node_of) == [f"Job:J[{format_index(index)}]"]
    assert str(parse_id(id_)) == id_
    found = find_subject(graph, id_)
    assert found.value is not None
    assert found.value.path == file


SHEET = {
    "s.csv": '\ufeffid,mask,note\n01,m/1.txt,"a, b"\n\nb,m/2.txt,\n',
    "s.tsv": "id\tmask\tnote\n01\tm/1.txt\ta, b\nb\tm/2.txt\t\n",
    "s.yaml": "- {id: '01', mask: m/1.txt, note: 'a, b'}\n- {id: b, mask: m/2.txt, note: ''}\n",
    "s.json": json.dumps([{"id": "01", "mask": "m/1.txt", "note": "a, b"}, {"id": "b", "mask": "m/2.txt", "note": ""}]),
}


def test_a_sample_sheet_is_an_array_of_its_rows_whatever_its_format(project: Make) -> None:
    lab = declared(project, '{type: "json[]", default: s.csv, key: id}', {**CODE, **SHEET})
    lab.succeed()
    assert lab.content('Artifact:J.Got["01"]')["x"] == {"id": "01", "mask": "m/1.txt", "note": "a, b"}
    for name in SHEET:
        assert lab.plan(sets=[f"X={name}"]).headlines() == {}
    lab.edit("s.csv", "m/2.txt,\n", "m/2.txt,new\nc,,\n")
    assert lab.plan().headlines() == {"Job:J[b]": "INPUT_CHANGED", "Job:J[c]": "MISSING_OUTPUT"}


def test_numbers_in_the_field_of_a_key_are_strings(project: Make) -> None:
    decl = '{type: "json[]", default: [{n: 7}, {n: 0.5}, {n: inf}], key: n}'
    assert list(declared(project, decl, {}).opened().graph.node_of) == ['Job:J["7"]', 'Job:J["0.5"]', 'Job:J["inf"]']


@pytest.mark.parametrize(
    ("decl", "files", "message", "hint"),
    [
        (
            '{type: "file[]", default: "*.txt", key: "{}_R1.txt"}', {"a_R1.txt": "", "b.txt": "", "c_R1.txt": ""},
            "`Input:X`: the key `{}_R1.txt` does not fit `b.txt`",
            "give only files that it fits, or another key, as `stem`",
        ),
        (
            '{type: "file[]", default: [a/x.txt, b/y.txt, b/x.txt], key: stem}',
            {"a/x.txt": "", "b/x.txt": "", "b/y.txt": ""},
            "`Input:X`: `a/x.txt` and `b/x.txt` have the same key `x`",
            "rename one, or take a key that differs: `name`, a pattern",
        ),
        (
            '{type: "json[]", default: [{id: a}, {id: b}, {id: a}], key: id}', {},
            "`Input:X`: rows 1 and 3 have the same key `a`", "keys are names: change one",
        ),
        (
            '{type: "json[]", default: s.csv, key: name}', {"s.csv": "id,nam\na,b\n"},
            "`Input:X`: row 1 of `s.csv` has no field `name`", "did you mean `nam`?",
        ),
        (
            '{type: "json[]", default: [{id: [1]}], key: id}', {},
            "`Input:X`: the field `id` of element 1 is no key: a key is a text or a number",
            "give each element its own name there",
        ),
        (
            '{type: "json[]", default: s.csv}', {"s.csv": "id,n\na\n"},
            "`Input:X`: this row has 1 texts for 2 columns",
            "each row has one text for each column of the head; a text with a comma stands in quotes",
        ),
        (
            '{type: "json[]", default: s.json}', {"s.json": '{"a": 1}'},
            "`Input:X`: it holds a map, not a list of objects", 'write one object a row: `[{"id": "a"}, …]`',
        ),
        (
            '{type: "json[]", default: none.csv}', {}, "`Input:X`: there is no file `none.csv`",
            "looked in the project folder: that of `whyrun.toml`, else of the workflow file",
        ),
        (
            '{type: "json[]", default: s.csv}', {"s.csv": "id,id\n"}, "`Input:X`: two columns are named `id`",
            "rename one",
        ),
        (
            '{type: "string[]", default: [a], key: stem}', {},
            "`key` of input `X`: only arrays of files and of `json` have keys, not `string[]`",
            "a loop over the values themselves is `{values: inputs.NAME}`",
        ),
        (
            '{type: "file[]", default: [a], key: id}', {"a": ""}, "`key` of input `X`: `id` is no key of files",
            "write `stem`, `name`, or a pattern with one `{}`: `{}_R1.fastq.gz`",
        ),
    ],
)  # fmt: skip
def test_misfits_and_duplicates_name_the_files(
    project: Make, decl: str, files: dict[str, str], message: str, hint: str
) -> None:
    # A reference that needs the keys adds no error of its own.
    (only,) = problems(declared(project, decl, files, ref="inputs.X['other']" if "key: " in decl else "inputs.X[x]"))
    assert only[1:] == (message, hint)


def test_a_name_without_a_row_is_told_with_the_sheet_that_lacks_it(project: Make) -> None:
    lab = project(
        """\
        workflow: w
        inputs:
          X: {type: "file[]", default: "*.txt", key: stem}
          S: {type: "json[]", default: s.csv, key: id}
        loops: {x: {each: inputs.X}}
        jobs:
          J:
            for: [x]
            uses: python
            with: {call: "echo:received", x: "${{ inputs.S[x] }}"}
            outputs: {Got: {type: json}}
        """,
        {"a.txt": "", "b.txt": "", "s.csv": "id\na\n", **CODE},
    )
    (only,) = problems(lab)
    assert only == (
        "INDEX_OUT_OF_RANGE", "`Input:S[b]`: there is no element `b` (in `Job:J[b]`)",
        "add the row `b` to `s.csv`, or declare the loop as `x: {each: inputs.S}`",
    )  # fmt: skip
    lab.edit("workflow.yaml", "each: inputs.X", "each: inputs.S")
    assert problems(lab) == []
    lab.edit("workflow.yaml", "inputs.S[x]", "inputs.X[x]")
    (lab.root / "a.txt").unlink()
    ((_, message, hint),) = problems(lab)  # the hint does not lead back
    assert (message, hint) == (
        "`Input:X[a]`: there is no element `a`", "add the file `a.txt`, or delete the row `a` of `s.csv`",
    )  # fmt: skip
    lab.edit("s.csv", "a\n", "a\na\n")
    assert [message for _, message, _ in problems(lab)] == ["`Input:S`: rows 1 and 2 of `s.csv` have the same key `a`"]


def test_a_text_that_is_no_number_is_told_with_the_sheet_that_has_it(project: Make) -> None:
    decl = '{type: "json[]", default: s.csv, key: id}'
    lab = declared(project, decl, {"s.csv": "id,n\na,1\nb,many\n"}, ref="int(inputs.X[x].n)")
    (only,) = problems(lab)
    assert only == (
        "WRONG_TYPE", "`int(inputs.X[x].n)`: invalid literal for int() with base 10: 'many' (in `Job:J[b]`)",
        "`Input:X[b].n` is in `s.csv`",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("key", "reference", "message", "hint"),
    [
        (
            "stem", "inputs.X[0]", "the elements of `X` have keys, so `0` is not an index",
            'write its key in quotes, such as `["0"]`',
        ),
        (
            "stem", "inputs.X['alfa']", "`Input:X[alfa]`: there is no element `alfa` (in `Job:J[alpha]`)",
            "did you mean `alpha`?",
        ),
        (
            "", "inputs.X['alpha']", "`alpha` is not an index of an input array",
            "elements are counted from 0; with `key:` the input can name them",
        ),
        (
            "stem", "inputs.X[x+1]", "`[x+1]` is out of range: `x` is `beta`, and `Input:X` has the values `alpha`, "
            "`beta` (in `Job:J[beta]`)", "an instance without this neighbour must name what it takes instead: "
            "`first(inputs.X[x+1], …)`",
        ),
    ],
)  # fmt: skip
def test_selectors_of_keyed_arrays(project: Make, key: str, reference: str, message: str, hint: str) -> None:
    decl = f'{{type: "file[]", default: "*.txt"{f", key: {key}" if key else ""}}}'
    lab = declared(project, decl, {"alpha.txt": "", "beta.txt": ""}, ref=reference)
    (only,) = problems(lab)
    assert only[1:] == (message, hint)


def test_neighbours_follow_the_order_of_the_files(project: Make) -> None:
    decl = '{type: "file[]", default: "*.txt", key: stem}'
    lab = declared(project, decl, {"a.txt": "", "b.txt": "", "c.txt": ""}, ref="first(inputs.X[x-1], inputs.X[x])")
    plan = {job.id: job.bindings["x"] for job in lab.plan().planned}
    assert plan == {"Job:J[a]": "Input:X[a]", "Job:J[b]": "Input:X[a]", "Job:J[c]": "Input:X[b]"}


def test_keys_and_positions_give_the_same_artifacts(project: Make) -> None:
    files = {"reads/a.txt": "1", "reads/b.txt": "2"}
    by_key = declared(project, '{type: "file[]", default: "reads/*.txt", key: stem}', files)
    by_number = declared(project, '{type: "file[]", default: "reads/*.txt"}', files)
    for lab in (by_key, by_number):
        lab.succeed()
    for key, number in (("a", 0), ("b", 1)):
        assert by_key.content(f"Artifact:J.Got[{key}]") == by_number.content(f"Artifact:J.Got[{number}]")


def test_an_import_names_the_elements_by_its_own_declaration(project: Make) -> None:
    child = """\
workflow: child
inputs: {Named: {type: "file[]", key: name}, Counted: {type: "file[]"}}
jobs:
  J:
    uses: python
    with: {call: "echo:received", a: "${{ inputs.Named['a.txt'] }}", b: "${{ inputs.Counted[0] }}"}
    outputs: {Got: {type: json}}
"""
    main = """\
workflow: w
inputs: {X: {type: "file[]", default: "*.txt", key: stem}}
imports: {C: {workflow: ./child.yaml, with: {Named: "${{ inputs.X }}", Counted: "${{ inputs.X }}"}}}
jobs: {}
"""
    lab = project(main, {**CODE, "child.yaml": child, "a.txt": "1"})
    (job,) = lab.plan().planned
    assert job.bindings == {"a": "Input:C/Named[a.txt]", "b": "Input:C/Counted[0]"}


def test_what_if_and_the_ids_that_users_write(project: Make) -> None:
    lab = project(READS, {**CODE, **pairs("alpha", "01")})
    lab.succeed()
    graph = lab.opened().graph
    with pytest.raises(WhyrunError) as caught:
        find_subject(graph, "Input:R1[1]")
    assert caught.value.diagnostics[0].code == "INDEX_FORMAT_INVALID"
    assert caught.value.diagnostics[0].hint == 'the keys are `"01"`, `alpha`'
    with pytest.raises(WhyrunError) as caught:
        find_subject(graph, "reads/alpha_R1.fastq.gz")
    assert caught.value.diagnostics[0].hint == "write `Input:R1[alpha]`"


def test_a_sheet_is_no_place_for_an_output(project: Make) -> None:
    lab = declared(project, '{type: "json[]", default: s.csv, key: id}', {"s.csv": "id\na\n"})
    lab.edit("workflow.yaml", "{Got: {type: json}}", "{Got: {type: file, path: s.csv}}")
    assert [code for code, _, _ in problems(lab)] == ["DUPLICATE_OUTPUT_PATH"]


def test_many_words_are_written_as_each_alone() -> None:
    odd = [
        "inf",
        "NaN",
        "1",
        "1e5",
        "-",
        "",
        "a\nb",
        "a b",
        'q"',
        "ä",
        "_x",
        "infinit",
        "nano",
        "x.y",
        "[",
        "1.0",
        "+5",
    ]
    for words in (["a", "b"], ["a", "inf"], *([word] for word in odd), odd, [3, 4], ["a", 3], [0.5]):
        assert format_words(words) == [format_indices([word])[1:-1] for word in words]


def test_the_schema_knows_keys() -> None:
    validator = jsonschema.Draft202012Validator(workflow_schema())
    file: dict[str, Any] = {"workflow": "w", "inputs": {"X": {"type": "file[]", "key": "stem"}}, "jobs": {}}
    assert validator.is_valid(file)
    file["inputs"] = {"X": {"type": "file[]", "key": 3}}
    assert not validator.is_valid(file)


def test_an_empty_key_is_refused(project: Make) -> None:
    with pytest.raises(InvalidError):
        declared(project, '{type: "file[]", default: [a], key: ""}', {"a": ""}).opened().graph  # noqa: B018
