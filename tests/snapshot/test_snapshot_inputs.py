"""Inputs as they are observed: patterns expanded, files hashed, values handed down to imports; or what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from project_lab import Lab
from whyrun.artifacts.hashing import value_sha256
from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.errors import InvalidError
from whyrun.snapshot.observing.observe import InputObserver
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import Place, Type

Make = Callable[..., Lab]
LOOKED_IN = "looked in the project folder: that of `whyrun.toml`, else of the workflow file"
FILES = {"in/a.txt": "a", "in/b.txt": "b", "in/.hidden.txt": "h", "deep/x/1.txt": "1", ".whyrun/in/c.txt": "c"}


def lab_with(project: Make, inputs: dict[str, Any], child: dict[str, Any] | None = None, **imported: Any) -> Lab:
    """`inputs`: name → type and default; `child`: the same of an import `Sub`, which is given `imported`."""
    flow = {"workflow": "w", "inputs": {name: declared(*of) for name, of in inputs.items()}, "jobs": {"J": yaml_job()}}
    files: dict[str, Any] = dict(FILES)
    if child is not None:
        flow["imports"] = {"Sub": {"workflow": "sub.yaml", "with": imported}}
        inner = {name: declared(*of) for name, of in child.items()}
        files["sub.yaml"] = json.dumps({"workflow": "s", "inputs": inner, "jobs": {"K": yaml_job()}})
    return project(json.dumps(flow), files)


def yaml_job() -> dict[str, Any]:
    return {"uses": "shell", "with": {"run": "true"}, "outputs": {"O": {"type": "text"}}}


def declared(type_: str, *default: Any) -> dict[str, Any]:
    return {"type": type_, **({"default": default[0]} if default else {"required": False})}


def values(lab: Lab) -> dict[str, Any]:
    return {id_: value.value for id_, value in lab.opened().inputs.items()}


def problems(lab: Lab) -> list[tuple[str, str, str | None]]:
    return [(problem.code, problem.message, problem.hint) for problem in lab.opened().problems]


def test_values_are_taken_as_they_are_with_a_hash_for_every_element(project: Make) -> None:
    lab = lab_with(
        project,
        {"N": ("integer", 3), "None_": ("string",), "Doc": ("json", {"a": [1]}), "Grid": ("integer[][]", [[1], []])},
    )
    found = lab.opened().inputs
    one, row, none = Type("integer"), Type("integer", 1), Type("string")
    assert found == {
        "Input:N": InputValue(one, 3, value_sha256(3), None, None),
        "Input:None_": InputValue(none, None, value_sha256(None), None, None),
        "Input:Doc": InputValue(Type("json"), {"a": [1]}, value_sha256({"a": [1]}), None, None),
        "Input:Grid": InputValue(
            Type("integer", 2),
            [[1], []],
            value_sha256([[1], []]),
            (
                InputValue(row, [1], value_sha256([1]), (InputValue(one, 1, value_sha256(1), None, None),), None),
                InputValue(row, [], value_sha256([]), (), None),
            ),
            None,
        ),
    }


def test_files_and_folders_are_found_from_the_project_and_named_in_one_way(project: Make) -> None:
    lab = lab_with(
        project,
        {
            "All": ("file[]", "in/*.txt"), "Own": ("file[]", "*/in/*"),
            "Named": ("file[]", ["./in/b.txt", "in//a.txt"]),
            "Nested": ("file[][]", [["in/a.txt"], ["in/b.txt", "in/a.txt"]]), "Folder": ("directory", "in/"),
            "Folders": ("directory[]", "deep/*"), "Plain": ("file[]", "in/a.txt"),
        },
    )  # fmt: skip
    lab.write({"sub/in/z.txt": "z"})
    assert values(lab) == {
        "Input:All": ["in/a.txt", "in/b.txt"],
        "Input:Own": ["sub/in/z.txt"],
        "Input:Named": ["in/b.txt", "in/a.txt"],
        "Input:Nested": [["in/a.txt"], ["in/b.txt", "in/a.txt"]],
        "Input:Folder": "in",
        "Input:Folders": ["deep/x"],
        "Input:Plain": ["in/a.txt"],
    }
    found = lab.opened().inputs
    nested, named = found["Input:Nested"], found["Input:Named"]
    assert nested.elements is not None
    assert nested.elements[1].elements == named.elements
    assert named.elements is not None
    assert [(element.type, element.path) for element in named.elements] == [
        (Type("file"), "in/b.txt"),
        (Type("file"), "in/a.txt"),
    ]
    assert named.elements[1].sha256 == lab.opened().cache.sha256_of(f"{lab.root}/in/a.txt")
    assert (named.sha256 == found["Input:All"].sha256, nested.path, named.path) == (False, None, None)


def test_no_path_of_a_machine_is_taken_where_the_file_lies_in_the_project(project: Make, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("o")
    lab = lab_with(project, {"In": ("file",), "Out": ("file",), "Up": ("file",), "Dots": ("directory",)})
    (lab.root / "..dots").mkdir()
    sets = [f"In={lab.root}/in/./a.txt", f"Out={outside}", "Up=../outside.txt", f"Dots={lab.root}/..dots"]
    found = {id_: value.value for id_, value in lab.opened(sets).inputs.items()}
    assert found == {
        "Input:In": "in/a.txt",
        "Input:Out": str(outside),
        "Input:Up": "../outside.txt",
        "Input:Dots": "..dots",
    }
    above = InputObserver(lab.root, StatCache.load(lab.root / "cache"))
    whole = above.value("Input:X", Type("directory"), str(lab.root.parent), Place("w.yaml", 1, 1))
    assert whole.value == str(lab.root.parent), "the folder above is outside, too"


@pytest.mark.parametrize(
    ("type_", "given", "expected"),
    [
        ("file", "in/z.txt", [("INPUT_MISSING", "`Input:X`: there is no file `in/z.txt`", LOOKED_IN)]),
        ("directory", "z", [("INPUT_MISSING", "`Input:X`: there is no directory `z`", LOOKED_IN)]),
        ("file", "in/*.txt",
         [("INPUT_MISSING", "`Input:X`: there is no file `in/*.txt`", "a pattern needs an array: `file[]`")]),
        ("file[]", "in/*.png", [("INPUT_MISSING", "`Input:X`: no file matches `in/*.png`", LOOKED_IN)]),
        ("file[]", ".whyrun/in/*",
         [("INPUT_MISSING", "`Input:X`: no file matches `.whyrun/in/*`", LOOKED_IN),
          ("INPUT_TYPE", "`.whyrun/in/*` of `Input:X` looks into `.whyrun`, the state, which every run changes",
           "write a pattern that does not, or keep the state elsewhere: `--state DIR`")]),
        ("file[]", ["in/a.txt", "in/z.txt"],
         [("INPUT_MISSING", "`Input:X[1]`: there is no file `in/z.txt`", LOOKED_IN)]),
        ("file[]", ["in/z.txt"], [("INPUT_MISSING", "`Input:X`: there is no file `in/z.txt`", LOOKED_IN)]),
        ("file[]", ["in/*.txt", "in/a.txt"],
         [("INPUT_MISSING", "`Input:X[0]`: there is no file `in/*.txt`",
           "write a pattern on its own, not in a list: `photos/*.png`")]),
        ("file[][]", [["in/a.txt"], ["in/z.txt", "in/y.txt"]],
         [("INPUT_MISSING", "`Input:X[1][0]`: there is no file `in/z.txt`", LOOKED_IN),
          ("INPUT_MISSING", "`Input:X[1][1]`: there is no file `in/y.txt`", LOOKED_IN)]),
        ("file", "in", [("INPUT_TYPE", "`Input:X`: `in` is a folder, not a file", None)]),
        ("directory", "in/a.txt", [("INPUT_TYPE", "`Input:X`: `in/a.txt` is a file, not a directory", None)]),
        ("file[]", ["in", "in/a.txt"], [("INPUT_TYPE", "`Input:X[0]`: `in` is a folder, not a file", None)]),
        ("directory[]", ["in", "in/a.txt"],
         [("INPUT_TYPE", "`Input:X[1]`: `in/a.txt` is a file, not a directory", None)]),
    ],
)  # fmt: skip
def test_what_is_not_there_is_told_with_its_place(
    project: Make, type_: str, given: Any, expected: list[tuple[str, str, str | None]]
) -> None:
    lab = lab_with(project, {"Good": ("file", "in/a.txt"), "X": (type_, given), "Also": ("file", "in/b.txt")})
    assert problems(lab) == expected
    with pytest.raises(InvalidError) as refused:
        lab.opened().inputs  # noqa: B018
    assert [problem.message for problem in refused.value.diagnostics] == [message for _, message, _ in expected]


@pytest.mark.parametrize(
    ("type_", "given", "meant"),
    [
        ("file", "in/sheet.cvs", "in/sheet.csv"),
        ("file", "in/shet.csv", "in/sheet.csv"),
        ("file", "in/Sheet.csv", "in/sheet.csv"),
        ("file[]", ["in/a.txt", "in/shets.csv"], "in/sheet.csv"),
        ("directory", "in/sheets", "in/sheets.d"),
        ("file", "in/phto-2.png", "in/photo-2.png"),
        ("file", "in/photo-02.png", "in/photo-2.png"),
        ("file", "in/photo-3.png", None),
        ("file", "in/z.txt", None),
        ("file", "in/sheets", "in/sheet.csv"),
        ("file", "no/sheet.csv", None),
        ("file[]", ["in/shet.*"], None),
    ],
)
def test_a_near_name_is_offered_only_where_it_may_be_meant(
    project: Make, type_: str, given: Any, meant: str | None
) -> None:
    lab = lab_with(project, {"X": (type_, given)})
    lab.write({"in/sheet.csv": "", "in/photo-2.png": "", "in/sheets.d/one.csv": ""})
    ((code, _, hint),) = problems(lab)
    assert code == "INPUT_MISSING"
    assert hint == f"did you mean `{meant}`?" if meant else not (hint or "").startswith("did you mean")


def test_what_cannot_be_read_is_told_without_paths_of_the_machine_and_hides_nothing(project: Make) -> None:
    lab = lab_with(project, {"X": ("file[]", ["in/pipe", "in/a.txt", "in/loop", "in/none"])})
    os.mkfifo(lab.root / "in/pipe")
    (lab.root / "in/loop").symlink_to("loop")
    assert problems(lab) == [
        ("INPUT_TYPE", "`Input:X[0]`: `in/pipe` is neither a file nor a folder", "give a file with content"),
        (
            "FILE_MISSING",
            "`Input:X[2]`: `in/loop` cannot be read: Too many levels of symbolic links",
            "check the path and its permissions",
        ),
        ("INPUT_MISSING", "`Input:X[3]`: there is no file `in/none`", LOOKED_IN),
    ]


@pytest.mark.parametrize(
    ("type_", "pattern", "where"), [("file[]", "in/*.txt", "`Input:X[2]`"), ("file[]", "in/*f.txt", "`Input:X`")]
)
def test_a_name_that_is_no_text_is_refused_where_a_pattern_finds_it(
    project: Make, type_: str, pattern: str, where: str
) -> None:
    lab = lab_with(project, {"X": (type_, pattern)})
    Path(os.fsdecode(os.fsencode(lab.root) + b"/in/\xfff.txt")).write_text("x")
    hint = "rename the file; names are recorded in the log and must read the same everywhere"
    assert problems(lab) == [("NAME_INVALID", f"{where}: the name of 'in/\\udcfff.txt' is not UTF-8", hint)]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that cannot be read from its beginning")
def test_what_fails_while_it_is_read_is_named_too(project: Make) -> None:
    lab = lab_with(project, {"X": ("file", "in/memory")})
    (lab.root / "in/memory").symlink_to("/proc/self/mem")
    hint = "check the path and its permissions"
    assert problems(lab) == [("FILE_MISSING", "`Input:X`: `in/memory` cannot be read: Input/output error", hint)]


class Closed(StatCache):
    """As for a user who may not look into a folder; the superuser may look into each."""

    def sha256_of(self, path: str, special: str | None = None) -> str | None:
        raise PermissionError(13, "Permission denied", *([f"{path}/deep"] if path.endswith("in") else []))

    def sha256_in(self, root: str, paths: Sequence[str], special: str | None = None) -> Sequence[str | None]:
        return [self.sha256_of(f"{root}/{path}") for path in paths]


@pytest.mark.parametrize(("path", "named"), [("in", "in/deep"), ("deep", "deep")])
def test_a_closed_folder_is_named_and_be_it_deep_inside(project: Make, path: str, named: str) -> None:
    root = lab_with(project, {}).root
    eyes = InputObserver(root, Closed.load(root / "cache"))
    with pytest.raises(InvalidError) as refused:
        eyes.value("Input:X", Type("directory"), path, Place("w.yaml", 3, 5))
    message, hint = f"`Input:X`: `{named}` cannot be read: Permission denied", "check the path and its permissions"
    assert [(p.code, p.message, p.hint) for p in refused.value.diagnostics] == [("FILE_MISSING", message, hint)]


def test_one_value_alone_is_observed_or_refused(project: Make) -> None:
    lab = lab_with(project, {})
    place = Place("w.yaml", 3, 5)
    eyes = InputObserver(lab.root, StatCache.load(lab.root / "cache"))
    assert eyes.value("Input:X", Type("file"), "in/a.txt", place).path == "in/a.txt"
    with pytest.raises(InvalidError) as refused:
        eyes.value("Input:X", Type("file"), "in/z.txt", place)
    assert [(problem.message, problem.line) for problem in refused.value.diagnostics] == [
        ("`Input:X`: there is no file `in/z.txt`", 3)
    ]


# --- imports -----------------------------------------------------------------------------------------------------

OUTER = {
    "Files": ("file[]", "in/*.txt"), "Folder": ("directory", "in"), "Topic": ("string", "cats"), "N": ("integer", 2),
    "Maybe": ("string",), "NoFile": ("file",), "Grid": ("integer[][]", [[1, 2], [3]]), "Doc": ("json", None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "given", "expected"),
    [
        ("file[]", "${{ inputs.Files }}", ["in/a.txt", "in/b.txt"]),
        ("file[]", "${{ inputs.Files[:] }}", ["in/a.txt", "in/b.txt"]),
        ("integer[]", "${{ inputs.Grid[0][:] }}", [1, 2]),
        ("text", "${{ inputs.Files[1] }}", "in/b.txt"),
        ("directory", "${{ inputs.Folder }}", "in"),
        ("integer", "${{ inputs.Grid[0][1] }}", 2),
        ("number", "${{ inputs.N }}", 2),
        ("integer", "${{ inputs.N + 1 }}", 3),
        ("string", "on ${{ inputs.Topic }} and ${{ inputs.N }}", "on cats and 2"),
        ("string", "${{ workflow.name }}: ${{ inputs.Topic }}", "w: cats"),
        ("json", {"a": ["${{ inputs.N }}", {"b": "${{ inputs.Topic }}"}]}, {"a": [2, {"b": "cats"}]}),
        ("file[]", ["${{ inputs.Files[1] }}", "in/a.txt"], ["in/b.txt", "in/a.txt"]),
        ("file[]", "in/*.txt", ["in/a.txt", "in/b.txt"]),
        ("integer", "${{ first(inputs.Grid[1][1], inputs.N) }}", 2),
        ("integer", "${{ first(inputs.Grid[1][0], inputs.N) }}", 3),
        ("integer", "${{ first(inputs.Grid[1][1], inputs.Grid[5][0], inputs.Grid[0][0]) + 1 }}", 2),
        ("integer", "${{ first(inputs.Grid[1][1], inputs.Grid[1][0], inputs.N) }}", 3),
        ("boolean", "${{ exists(inputs.Grid[1][1]) }}", False),
        ("boolean", "${{ exists(inputs.Grid[1][0]) }}", True),
        ("string", "literal", "literal"),
    ],
)
def test_an_import_is_handed_what_it_is_given(project: Make, type_: str, given: Any, expected: Any) -> None:
    found = values(lab_with(project, OUTER, {"X": (type_,), "Own": ("integer", 7), "Open": ("file",)}, X=given))
    assert {id_: value for id_, value in found.items() if id_.startswith("Input:Sub/")} == {
        "Input:Sub/X": expected,
        "Input:Sub/Own": 7,
        "Input:Sub/Open": None,
    }


def test_what_is_handed_down_is_what_was_observed(project: Make) -> None:
    child = {"X": ("file[]",), "Y": ("file",)}
    lab = lab_with(project, OUTER, child, X="${{ inputs.Files }}", Y="${{ inputs.Files[0] }}")
    found = lab.opened().inputs
    files = found["Input:Files"]
    assert files.elements is not None
    assert (found["Input:Sub/X"], found["Input:Sub/Y"]) == (files, files.elements[0])


@pytest.mark.parametrize("type_", ["string", "file", "integer[]", "json"])
def test_an_input_that_was_not_given_is_handed_on_to_one_that_may_be_left_out(project: Make, type_: str) -> None:
    lab = lab_with(project, {"Maybe": (type_,)}, {"X": (type_,)}, X="${{ inputs.Maybe }}")
    assert values(lab) == {"Input:Maybe": None, "Input:Sub/X": None}


def test_one_with_a_default_is_never_handed_nothing(project: Make) -> None:
    lab = lab_with(project, {"Maybe": ("string",)}, {"X": ("string", "d")}, X="${{ inputs.Maybe }}")
    lab.write({"sub.yaml": lab.read("sub.yaml").replace('"default"', '"required": false, "default"')})
    assert [(code, message) for code, message, _ in problems(lab)] == [
        ("INPUT_TYPE", "`X`: `string` is expected, but it was not given")
    ]


@pytest.mark.parametrize(
    ("type_", "given", "expected"),
    [
        ("string", "${{ first(inputs.Files[0], inputs.Topic) }}",
         [("INPUT_TYPE", "`X`: `string` is expected, not `file`")]),
        ("file", "${{ first(inputs.Topic, inputs.NoFile) }}",
         [("INPUT_TYPE", "`X`: `file` is expected, not `string`")]),
        ("file", "${{ first(inputs.Folder, inputs.NoFile) }}",
         [("INPUT_TYPE", "`X`: `file` is expected, not `directory`")]),
        ("directory", "${{ first(inputs.Files[0], inputs.Folder) }}",
         [("INPUT_TYPE", "`X`: `directory` is expected, not `file`")]),
        ("file", "${{ first(inputs.Files, inputs.Files) }}", [("INPUT_TYPE", "`X`: `file` is expected, not `file[]`")]),
        ("integer", "${{ first(inputs.Topic, inputs.N) }}",
         [("INPUT_TYPE", "`X`: `integer` is expected, not `string`")]),
        ("integer", "${{ inputs.N / 4 }}", [("INPUT_TYPE", "`X`: `integer` is expected, not the number `0.5`")]),
        ("string", "${{ inputs.Maybe }}",
         [("INPUT_TYPE", "`X`: `string` is expected, but it was not given")]),
        ("file", "${{ inputs.NoFile }}", [("INPUT_TYPE", "`X`: `file` is expected, but it was not given")]),
        ("integer", "${{ inputs.Grid[1][1] }}", [("INDEX_OUT_OF_RANGE", "there is no element 1: the array has 1")]),
        ("integer", "${{ inputs.Grid[1][1] + inputs.Grid[5][0] }}",
         [("INDEX_OUT_OF_RANGE", "there is no element 1: the array has 1"),
          ("INDEX_OUT_OF_RANGE", "there is no element 5: the array has 2")]),
        ("integer", "${{ first(inputs.Grid[1][1], inputs.Grid[5][0]) }}",
         [("INDEX_OUT_OF_RANGE", "there is no element 5: the array has 2")]),
        ("integer", "${{ inputs.N // 0 }}", [("WRONG_TYPE", "`inputs.N // 0`: integer division or modulo by zero")]),
    ],
)  # fmt: skip
def test_what_does_not_fit_an_import_is_told_where_it_is_given(
    project: Make, type_: str, given: str, expected: list[tuple[str, str]]
) -> None:
    lab = lab_with(project, OUTER, {})
    sub = {"workflow": "s", "inputs": {"X": {"type": type_}}, "jobs": {"K": yaml_job()}}
    flow = {**json.loads(lab.read("workflow.yaml")), "imports": {"Sub": {"workflow": "sub.yaml", "with": {"X": given}}}}
    lab.write({"sub.yaml": json.dumps(sub), "workflow.yaml": json.dumps(flow)})
    assert [(code, message) for code, message, _ in problems(lab)] == expected


def test_what_is_made_from_something_missing_is_not_told_again(project: Make) -> None:
    outer = {"Gone": ("file", "in/z.txt"), "N": ("integer", 1)}
    child = {"X": ("file",), "Y": ("string",), "Z": ("file",), "Good": ("integer", 1)}
    lab = lab_with(
        project,
        outer,
        child,
        X="${{ inputs.Gone }}",
        Y="${{ exists(inputs.Gone) and 'y' or 'n' }}",
        Z="${{ first(inputs.Gone, inputs.Gone) }}",
        Good="${{ inputs.N / 4 }}",
    )
    assert [message for _, message, _ in problems(lab)] == [
        "`Input:Gone`: there is no file `in/z.txt`",
        "`Good`: `integer` is expected, not the number `0.25`",
    ]


def test_one_mistake_hides_no_other(project: Make) -> None:
    """A value that is missing, a part that cannot be read, an element that is not there."""
    inputs = {"A": {"type": "string"}, "B": declared("file", "none.txt"), "N": declared("integer", 1)}
    inputs["G"] = declared("integer[]", [1])
    sub = {"Q": {"type": "string"}, "X": {"type": "integer"}, "Y": {"type": "integer"}, "Good": declared("integer")}
    with_ = {"Q": "${{ inputs.A }}", "X": "${{ nonsense", "Y": "${{ inputs.G[3] }}", "Good": "${{ inputs.N / 4 }}"}
    flow = {"workflow": "w", "inputs": inputs, "imports": {"Sub": {"workflow": "sub.yaml", "with": with_}}, "jobs": {}}
    lab = project(json.dumps(flow), {"sub.yaml": json.dumps({"workflow": "s", "inputs": sub, "jobs": {}})})
    assert [(code, message) for code, message, _ in problems(lab)] == [
        ("INPUT_MISSING", "the input `A` (string) has no value"),
        ("INPUT_MISSING", "`Input:B`: there is no file `none.txt`"),
        ("EXPRESSION_SYNTAX", "`${{` without its `}}`"),
        ("INDEX_OUT_OF_RANGE", "there is no element 3: the array has 1"),
        ("INPUT_TYPE", "`Good`: `integer` is expected, not the number `0.25`"),
    ]


OF_Y = ("INPUT_MISSING", "`Input:Sub/Y`: there is no file `y.txt`")


@pytest.mark.parametrize(
    ("with_", "of_x", "expected"),
    [
        ([1], {}, [("WRONG_TYPE", "`with` of import `Sub` is a list, not a map")]),
        ({}, {"required": 7}, [("WRONG_TYPE", "`required` of input `X` is the number `7`, not a boolean"), OF_Y]),
        ({"X": 7}, {},
         [("INPUT_TYPE", "input `X` of import `Sub`: `file` is given as a path, not the number `7`"), OF_Y]),
        ({}, {}, [("INPUT_MISSING", "`Input:Sub/X`: there is no file `none.txt`"), OF_Y]),
    ],
)  # fmt: skip
def test_where_it_is_not_known_what_an_import_is_given_no_default_is_looked_for(
    project: Make, with_: Any, of_x: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    sub = {"X": {"type": "file", "default": "none.txt", **of_x}, "Y": declared("file", "y.txt")}
    flow = {"workflow": "w", "imports": {"Sub": {"workflow": "sub.yaml", "with": with_}}, "jobs": {}}
    lab = project(json.dumps(flow), {"sub.yaml": json.dumps({"workflow": "s", "inputs": sub, "jobs": {}})})
    assert [(code, message) for code, message, _ in problems(lab)] == expected


def test_all_is_observed_or_all_that_is_wrong_is_raised(project: Make) -> None:
    lab = lab_with(project, {"X": ("file", "in/a.txt"), "Y": ("file", "in/b.txt")})
    workflow = lab.opened().workflow
    eyes = InputObserver(lab.root, StatCache.load(lab.root / "cache"))
    found = eyes.observe(workflow, {"X": "in/a.txt", "Y": "in/b.txt"}, "Sub/")
    assert {id_: value.path for id_, value in found.items()} == {"Input:Sub/X": "in/a.txt", "Input:Sub/Y": "in/b.txt"}
    with pytest.raises(InvalidError) as refused:
        eyes.observe(workflow, {"X": "in/y.txt", "Y": "in/z.txt"})
    assert [problem.message for problem in refused.value.diagnostics] == [
        "`Input:X`: there is no file `in/y.txt`",
        "`Input:Y`: there is no file `in/z.txt`",
    ]
