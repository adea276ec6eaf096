"""An output that would overwrite a file of the workflow is refused: nothing runs, and no file changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_lab import dedent, tree, whyrun

FLOW = """
workflow: demo
imports:
  Part: {workflow: ./flows/part.yaml}
jobs:
  Say:
    uses: python
    with: {call: "mod:say"}
    outputs:
      T:
        type: TYPE
        path: PATH
"""
PART = """
workflow: part
jobs:
  Inner: {uses: shell, with: {run: 'echo x > "$out_O"'}, outputs: {O: {type: text}}}
"""
MODULE = "import helper\n\n\ndef say():\n    return {'T': 'text'}\n"
HINT = "choose another path for the output"


def project(folder: Path, path: str, flow: str = FLOW, type_: str = "text") -> Path:
    files = {
        "workflow.yaml": flow.replace("PATH", path).replace("TYPE", type_),
        "flows/part.yaml": PART,
        "mod.py": MODULE,
        "helper.py": "",
        "code/more.txt": "more\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


REFUSED = {
    "workflow.yaml": "`workflow.yaml` is the file of this workflow",
    "./workflow.yaml": "`workflow.yaml` is the file of this workflow",
    "./flows//part.yaml": "`flows/part.yaml` is a file that this workflow imports",
    "flows": "`flows` is the folder of `flows/part.yaml`, which is a file that this workflow imports",
    "workflow.yaml/x.txt": "`workflow.yaml/x.txt` would need a folder at `workflow.yaml`, which is the file of this "
    "workflow",
    "whyrun.toml": "`whyrun.toml` is the settings file of the project",
    "connections.yaml": "`connections.yaml` is the connections file of the project",
    "mod.py": "`mod.py` is code that `Say` uses",
    "helper.py": "`helper.py` is code that `Say` uses",
}


@pytest.mark.parametrize("path", REFUSED)
def test_an_output_on_top_of_it_is_refused_by_every_command(tmp_path: Path, path: str) -> None:
    folder = project(tmp_path, path)
    before = tree(folder)
    expected = (
        f"error[DUPLICATE_OUTPUT_PATH] workflow.yaml:12:15: {REFUSED[path]}; publishing there would replace it\n"
        f"   12 |         path: {path}\n"
        f"      |               {'^' * len(path)}\n"
        f"   hint: {HINT}\n"
    )
    checked = whyrun(folder, "validate")
    assert (checked.code, checked.out, checked.err) == (2, "", f"{expected}workflow.yaml: 1 problem\n")
    for command in ("plan", "run"):
        answer = whyrun(folder, command)
        line, _, errors = answer.err.partition("error[")  # a run has a status line as well
        assert (answer.code, answer.out, f"error[{errors}") == (2, "", expected), command
        assert line.count(" → DUPLICATE_OUTPUT_PATH: ") == (command == "run")
    assert tree(folder) == before, "no run folder, no state, and each file as it was"


def diagnostic_lines(folder: Path, *words: str) -> list[str]:
    answer = whyrun(folder, *(words or ("validate", "--json")))
    assert answer.code == 2, answer
    return [f"{d['code']} {d['file']}:{d['line']} {d['message']} ({d['hint']})" for d in answer.json["diagnostics"]]


@pytest.mark.parametrize("type_", ["directory", "file"])
def test_a_folder_output_that_contains_it_is_refused(tmp_path: Path, type_: str) -> None:
    """The workflow's file is in a folder of the project here."""
    (tmp_path / "whyrun.toml").write_text("")
    project(tmp_path, "flow", type_=type_)
    (tmp_path / "flow/flows").mkdir(parents=True)
    for name in ("workflow.yaml", "flows/part.yaml"):
        (tmp_path / name).rename(tmp_path / "flow" / name)
    assert diagnostic_lines(tmp_path, "validate", "flow/workflow.yaml", "--json") == [
        "DUPLICATE_OUTPUT_PATH flow/workflow.yaml:12 `flow` is the folder of `flow/flows/part.yaml`, which is a file "
        f"that this workflow imports; publishing there would replace it ({HINT})"
    ]
    # A `whyrun.toml` beside the workflow's file would make another folder the project.
    for path, what in (
        ("flow/whyrun.toml", "the settings file of the project"),
        ("flow/workflow.yaml", "the file of this workflow"),
    ):
        file = tmp_path / "flow/workflow.yaml"
        file.write_text(FLOW.replace("PATH", path).replace("TYPE", "file"))
        assert diagnostic_lines(tmp_path, "validate", "flow/workflow.yaml", "--json") == [
            f"DUPLICATE_OUTPUT_PATH flow/workflow.yaml:12 `{path}` is {what}; "
            f"publishing there would replace it ({HINT})"
        ]
    file.write_text(FLOW.replace("PATH", "workflow.yaml").replace("TYPE", "file"))
    assert whyrun(tmp_path, "validate", "flow/workflow.yaml").code == 0, "there is no such file of its own"


LOOP = """
workflow: demo
loops:
  name: {values: [other, NAME, third]}
jobs:
  Say:
    for: [name]
    uses: shell
    code: [code/*.txt]
    with: {run: "true"}
    outputs:
      T: {type: file, path: "PATH"}
"""


@pytest.mark.parametrize(
    ("name", "path", "clash", "what"),
    [
        ("workflow", "${{ name }}.yaml", "workflow.yaml", "the file of this workflow"),
        ("flow", "work${{ name }}.yaml", "workflow.yaml", "the file of this workflow"),
        ("more", "code/${{ name }}.txt", "code/more.txt", "code that `Say` uses"),
        ("code", "./${{ name }}/more.txt", "code/more.txt", "code that `Say` uses"),
        ("code", "${{ name }}/${{ 'more' }}.txt", "code/more.txt", "code that `Say` uses"),
    ],
)
def test_an_instance_whose_path_comes_out_as_one_is_refused(
    tmp_path: Path, name: str, path: str, clash: str, what: str
) -> None:
    folder = project(tmp_path, path, LOOP.replace("NAME", name))
    assert diagnostic_lines(folder) == [
        f"DUPLICATE_OUTPUT_PATH workflow.yaml:12 `{clash}` is {what}; publishing there would replace it ({HINT})"
    ]


def test_a_file_of_sections_is_refused_too(tmp_path: Path) -> None:
    flow = LOOP.replace("type: file", "append: true, type: json").replace("code: [code/*.txt]", "code: [code/*]")
    folder = project(tmp_path, "code/more.json", flow)
    (folder / "code/more.json").write_text("{}")
    assert diagnostic_lines(folder) == [
        "DUPLICATE_OUTPUT_PATH workflow.yaml:12 `code/more.json` is code that `Say` uses; publishing there would "
        f"replace it ({HINT})"
    ]


def test_a_way_up_and_down_again_is_refused_as_ever(tmp_path: Path) -> None:
    (found,) = diagnostic_lines(project(tmp_path, "a/../workflow.yaml"))
    assert found.startswith("PATH_OUTSIDE workflow.yaml:12 ")


def test_the_file_of_inputs_is_refused(tmp_path: Path) -> None:
    folder = project(tmp_path, "given.yaml", FLOW.replace("jobs:", "inputs: {Word: {type: string}}\njobs:"))
    (folder / "given.yaml").write_text("Word: one\n")
    assert diagnostic_lines(folder, "validate", "--inputs", "given.yaml", "--json") == [
        "DUPLICATE_OUTPUT_PATH workflow.yaml:13 `given.yaml` is a file that is given with this workflow; publishing "
        f"there would replace it ({HINT})"
    ]


def test_a_file_that_is_named_by_a_way_up_is_the_file_that_it_leads_to(tmp_path: Path) -> None:
    """Whatever folder that way begins in: nothing of the workflow lies there, so an output may replace it."""
    folder = project(tmp_path / "here", "given.yaml", FLOW.replace("jobs:", "inputs: {Word: {type: string}}\njobs:"))
    (folder / "given.yaml").write_text("Word: one\n")
    (folder / "out").mkdir()
    for given, way in (("out/../given.yaml", ""), ("../here/given.yaml", ", given as `../here/given.yaml`")):
        assert diagnostic_lines(folder, "validate", "--inputs", given, "--json") == [
            f"DUPLICATE_OUTPUT_PATH workflow.yaml:13 `given.yaml` is a file that is given with this workflow{way}; "
            f"publishing there would replace it ({HINT})"
        ]
    project(folder, "out", (folder / "workflow.yaml").read_text().replace("given.yaml", "PATH"))
    answer = whyrun(folder, "validate", "--inputs", "out/../given.yaml")
    assert (answer.code, answer.err) == (0, "")


def test_imports_are_where_they_are_read_when_a_way_up_follows_a_link(tmp_path: Path) -> None:
    """`link/..` is the folder that the linked one lies in."""
    folder = project(tmp_path, "deep/flows/part.yaml")
    (folder / "deep" / "er").mkdir(parents=True)
    for name in ("workflow.yaml", "flows"):
        (folder / name).rename(folder / "deep" / name)
    (folder / "link").symlink_to("deep/er")
    assert diagnostic_lines(folder, "validate", "link/../workflow.yaml", "--json") == [
        "DUPLICATE_OUTPUT_PATH workflow.yaml:12 `deep/flows/part.yaml` is a file that this workflow imports, through "
        f"the link `link`; publishing there would replace it ({HINT})"
    ]


def test_it_is_reported_together_with_all_else_that_is_wrong(tmp_path: Path) -> None:
    folder = project(tmp_path, "workflow.yaml", FLOW + "  Other: {uses: shel}\n")
    assert [line.split(" ")[0] for line in diagnostic_lines(folder)] == ["DUPLICATE_OUTPUT_PATH", "INVALID_USES"]


def test_names_that_only_look_alike_are_fine(tmp_path: Path) -> None:
    for path in ("workflow.yaml2", "out/workflow.yaml", "flows/part.yam", "flows/more/part.yaml", "Workflow.yaml"):
        assert whyrun(project(tmp_path, path), "validate").code == 0, path


def test_assumed_inputs_are_checked_as_well(tmp_path: Path) -> None:
    flow = FLOW.replace("jobs:", "inputs: {Name: {type: string, default: out}}\njobs:")
    folder = project(tmp_path, '"${{ inputs.Name }}.py"', flow)
    answer = whyrun(folder, "plan", "--assume", "Input:Name=mod")
    assert (answer.code, answer.err) == (2, dedent("""
        error[DUPLICATE_OUTPUT_PATH] workflow.yaml:13:15: `mod.py` is code that `Say` uses; publishing there would replace it
           13 |         path: "${{ inputs.Name }}.py"
              |               ^^^^^^^^^^^^^^^^^^^^^^^
           hint: choose another path for the output
        """))  # fmt: skip  # noqa: E501


def test_a_file_that_is_a_link_is_also_where_it_leads(tmp_path: Path) -> None:
    folder = project(tmp_path, "real/helper.py")
    (folder / "real").mkdir()
    (folder / "helper.py").rename(folder / "real" / "helper.py")
    (folder / "helper.py").symlink_to("real/helper.py")
    before = tree(folder)
    answer = whyrun(folder, "run")
    assert (answer.code, answer.err.splitlines()[0].partition(": ")[2]) == (
        2,
        "`real/helper.py` is code that `Say` uses, through the link `helper.py`; publishing there would replace it",
    )
    assert tree(folder) == before
