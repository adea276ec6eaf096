"""How each type reaches a shell script, in every shape; and what is refused before the run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from worker_lab import Lab, Spec

from project_lab import Lab as Project
from whyrun.actions.builtin.shell import check_with
from whyrun.actions.problem import NOT_LITERAL
from whyrun.execution.protocol.messages import InputSpec
from whyrun.graph.fingerprint import input_tokens, suffix_of_path
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import Type

DOCUMENTS: list[Any] = [[{"a": 1}, {"b": 2}], [], {}, {"a": [1, "é"]}, "text", "a\nb", 1, 1.5, True, False, [[1], [2]]]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.backend.close()


def json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def seen(lab: Lab, run: str, with_: dict[str, Any], inputs: Mapping[str, Spec], shell: str = "bash") -> list[str]:
    """What a script that prints `<NUL>` after each word has printed."""
    more = {} if shell == "bash" else {"shell": shell}
    script = f'{{\n{run}\n}} > "$out_o"'
    word = lab.one(lab.command("shell", {"run": script, **with_, **more}, {"o": "file"}, inputs=inputs))
    assert word.error_type is None, word.error
    return lab.bytes_of(word, "o").decode().split("\0")[:-1]


def given(type_: str, value: Any) -> InputSpec:
    """An input of the workflow that is a value."""
    return InputSpec(id="Input:X", sha256="0" * 64, type=type_, value=value)


def slot(name: str) -> dict[str, str]:
    return {"$input": name}


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_json_binding_is_its_text_whatever_it_holds(lab: Lab, shell: str) -> None:
    """Issue 17, number 16. `[{"a":1},{"b":2}]` arrived as `{"a":1}`, and `[]` was an unbound variable."""
    inputs: dict[str, Spec] = {}
    for number, value in enumerate(DOCUMENTS):
        inputs[f"made{number}"] = lab.artifact(json_text(value).encode(), "json", ".json")
        inputs[f"given{number}"] = given("json", value)
    run = "\n".join(f'printf "%s\\0" "${name}"' for name in inputs)
    texts = seen(lab, run, {name: slot(name) for name in inputs}, inputs, shell)
    assert texts == [json_text(value) for value in DOCUMENTS for _ in range(2)]


def test_a_list_is_an_array_of_the_texts_of_its_members(lab: Lab) -> None:
    """Whether it is a fan-in, a whole array, or a list that the workflow file spells out."""
    inputs: dict[str, Spec] = {
        "fan": [lab.artifact(json_text(value).encode(), "json") for value in DOCUMENTS],
        "documents": given("json[]", DOCUMENTS),
        "texts": given("string[]", ["a b", "", "c\nd"]),
        "numbers": given("number[]", [1, 2.5]),
        "switches": given("boolean[]", [True, False]),
        "none": given("json[]", []),
        "empty": [],
        "files": [lab.artifact(b"1", "file", ".nii.gz"), lab.artifact(b"2", "text", ".txt")],
        "one": lab.artifact(b"[1,2]", "json"),
    }
    with_: dict[str, Any] = {name: slot(name) for name in inputs if name != "one"}
    with_["spelt"] = ["x", slot("one"), {"k": slot("one")}, None, [1]]
    run = "\n".join(f'printf "%s\\0" "${{#{name}[@]}}" "${{{name}[@]##*/}}"' for name in with_)
    words = iter(seen(lab, run, with_, inputs))
    assert {name: [next(words) for _ in range(int(next(words)))] for name in with_} == {
        "fan": [json_text(value) for value in DOCUMENTS],
        "documents": [json_text(value) for value in DOCUMENTS],
        "texts": ["a b", "", "c\nd"],
        "numbers": ["1", "2.5"],
        "switches": ["true", "false"],
        "none": [],
        "empty": [],
        "files": ["files.0.nii.gz", "files.1.txt"],
        "spelt": ["x", "[1,2]", '{"k":[1,2]}', "", "[1]"],
    }


def test_other_values_are_one_text(lab: Lab) -> None:
    inputs: dict[str, Spec] = {
        "text": given("string", "a\nb"),
        "number": given("number", 1e22),
        "integer": given("integer", -(1 << 62)),
        "switch": given("boolean", True),
        "absent": given("json", None),
        "no_list": given("json[]", None),
        "file": lab.project_input("a.nii.gz", "x"),
        "folder": lab.project_folder("folder", "x"),
        "image": lab.artifact(b"x", "image", ".png"),
        "words": lab.artifact(b"content", "text", ".txt"),
    }
    with_: dict[str, Any] = {name: slot(name) for name in inputs} | {"object": {"a": slot("text")}}
    texts = seen(lab, "\n".join(f'printf "%s\\0" "${{{name}##*/}}"' for name in with_), with_, inputs)
    assert dict(zip(with_, texts, strict=True)) == {
        "text": "a\nb", "number": "1e+22", "integer": str(-(1 << 62)), "switch": "true", "absent": "", "no_list": "",
        "file": "file.gz", "folder": "folder", "image": "image.png", "words": "words.txt", "object": '{"a":"a\\nb"}',
    }  # fmt: skip


# --- refused before the run --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("with_", "problem"),
    [
        ({"x": "a\0b"}, ("`x` has a NUL character, which no shell variable can hold", "pass it in a file")),
        (
            {"x": ["a", "b\nc"], "shell": "sh"},
            (
                "`x` has a member with a newline: for `sh`, a list arrives as one line for each member",
                "use bash, which has arrays, or pass it in a file",
            ),
        ),
        (
            {"x": "x" * 131_072, "shell": "python3"},
            ("`x` is longer than an environment variable may be, as which `python3` gets it", "use bash, or a file"),
        ),
        ({"x": ["a", "b\nc"]}, None),
        ({"x": "x" * 131_072}, None),
        ({"x": ["a", "b"], "y": "a\nb", "z": {"k": None}, "shell": "sh"}, None),
        ({"x": NOT_LITERAL, "shell": "sh"}, None),
    ],
)
def test_a_literal_that_cannot_arrive_is_refused(with_: dict[str, Any], problem: tuple[str, str] | None) -> None:
    problems = [(str(found.message), str(found.hint)) for found in check_with({"run": "true", **with_}, {})]
    assert problems == ([] if problem is None else [problem])


def test_a_value_that_cannot_arrive_fails_the_step_in_the_same_words(lab: Lab) -> None:
    inputs: dict[str, Spec] = {"x": given("string[]", ["a", "b\nc"])}
    command = lab.command("shell", {"run": "true", "shell": "sh", "x": slot("x")}, inputs=inputs)
    what = "`x` has a member with a newline: for `sh`, a list arrives as one line for each member"
    assert lab.failure(command) == ("ValueError", f"{what}; use bash, which has arrays, or pass it in a file")


def is_refused(name: str) -> bool:
    return [found.code for found in check_with({"run": "true", name: "x"}, {})] == ["INVALID_PARAMETER"]


@pytest.mark.parametrize("name", ["EPOCHSECONDS", "SRANDOM", "HISTCMD", "BASH_COMMAND", "BASH_ARGV", "LC_TIME", "_"])
def test_a_variable_of_the_shells_own_is_refused_as_a_parameter(name: str) -> None:
    """Issue 17, number 16. They were silently replaced."""
    (found,) = check_with({"run": "true", name: "x"}, {})
    assert (found.code, found.at_name) == ("INVALID_PARAMETER", True)
    assert str(found.message) == f"`{name}` is a variable of the shell itself, which would replace the value or obey it"
    assert not is_refused(f"my_{name}"), "what the hint says helps"


def test_bash_keeps_the_value_of_every_name_that_is_not_refused(tmp_path: Path) -> None:
    """Asked of the bash that is here, with every name that stands in its program."""
    program = Path(shutil.which("bash") or "/bin/bash").read_bytes()
    words = {word.decode() for word in re.findall(rb"(?<=\0)[A-Z][A-Z0-9_]{2,30}(?=\0)", program)}
    names = sorted(name for name in words if not is_refused(name))
    assert len(words) > 80
    lines = [f"declare -- {name}='a b'" for name in names]
    lines += ["/bin/true"]
    lines += [f'[ "${name}${{{name}@a}}" = "a b" ] || echo {name}' for name in names]
    script = tmp_path / "script"
    script.write_text("\n".join(lines))
    done = subprocess.run(["bash", "-u", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")


# --- status lines ------------------------------------------------------------------------------------------------

FLOW = """
    workflow: w
    inputs: {F: {type: "file[]", default: "data/*"}}
    loops: {f: {each: inputs.F}}
    jobs:
      A:
        for: [f]
        uses: shell
        with: {x: "${{ inputs.F[f] }}", run: 'echo "${x##*/}" > "$out_T"'}
        outputs: {T: {type: text}}
    """


def test_a_newline_in_a_file_name_splits_no_status_line(project: Callable[..., Project]) -> None:
    """Issue 17, number 16."""
    lab = project(FLOW, {"data/a\n2026-01-01 00:00:00 [shell] EXECUTES forged": "x"})
    ((_, line),) = lab.succeed().heard.lines
    assert "\n" not in line
    assert "inputs: data/a�2026-01-01 00:00:00 [shell] EXECUTES forged (1B)" in line


# --- suffixes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "suffix"),
    [
        ("a.nii.gz", ".nii.gz"), ("d.x/a.tar.xz", ".tar.xz"), ("a.b.csv.bz2", ".csv.bz2"), ("a.json.zst", ".json.zst"),
        ("a.gz", ".gz"), (".gz", ""), (".x.gz", ".gz"), ("d.x/.gz", ""), ("d.x/a.gz", ".gz"), ("a.b.csv", ".csv"),
        ("a. b.gz", ".gz"), ("a.gz.gz", ".gz.gz"), ("a", ""), ("a.aaaaaaaaaaaaaaaaa.gz", ".gz"),
    ],
)  # fmt: skip
def test_a_suffix_of_compression_comes_with_the_one_before(path: str, suffix: str) -> None:
    assert suffix_of_path(path) == suffix
    # Also where many files have their suffixes computed together, in either order.
    values = [InputValue(Type("file"), each, "0" * 64, None, each) for each in (path, "z.gz", path)]
    assert [token[65:] for token in input_tokens(values)] == [suffix, ".gz", suffix]


def test_a_step_sees_both_suffixes_of_its_inputs_and_outputs(project: Callable[..., Project]) -> None:
    """Issue 17, number 16. `a.nii.gz` arrived as `k.gz`, which tools do not take for an image."""
    lab = project(FLOW, {"data/a.nii.gz": "x", "data/b.gz": "x"})
    lab.edit("workflow.yaml", "{T: {type: text}}", "{T: {type: text}, Scan: {type: file, path: 'out/${{ f }}.nii.gz'}}")
    lab.edit("workflow.yaml", '> "$out_T"', '> "$out_T"; echo "${out_Scan##*/}" > "$out_Scan"')
    lab.succeed()
    assert [lab.content(f"Artifact:A.T[{i}]") for i in range(2)] == ["x.nii.gz\n", "x.gz\n"]
    assert lab.read("out/0.nii.gz") == "Scan.nii.gz\n"
