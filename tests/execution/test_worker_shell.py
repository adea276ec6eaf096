"""`shell` and `python` steps: how values arrive, how outputs are returned, how they fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_lab import Lab

from whyrun.execution.protocol.messages import InputSpec, OutputSpec

NASTY = [
    "",
    " ",
    "a b",
    "  lead and trail  ",
    "'",
    "''",
    '"',
    "'\"'\"'",
    "\\",
    "\\\\",
    "\\'",
    "back\\",
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "&& touch pwned",
    "| touch pwned",
    "\n touch pwned\n",
    "';touch pwned;'",
    '";touch pwned;"',
    "$HOME",
    "${HOME}",
    "${x:=y}",
    "$((1+1))",
    "$'\\n'",
    "a\nb",
    "a\n",
    "\n",
    "\r\n",
    "\t",
    "*",
    "?",
    "[a-z]",
    "~",
    "~root",
    "!",
    "!!",
    "#",
    "# comment",
    "-n",
    "--help",
    "-e x",
    "%s%d",
    "a=b",
    "<(ls)",
    "> pwned",
    "{a,b}",
    "()",
    "é ü ñ",
    "日本語",
    "🙂",
    "\x01\x1b[31m\x7f",
    "\u2028",
    "%PATH%",
    "x" * 200_000,
]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.backend.close()


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_value_never_becomes_a_command(lab: Lab, shell: str) -> None:
    values = [value for value in NASTY if shell == "bash" or len(value) < 100_000]
    assert len(values) >= 50
    names = [f"v{i}" for i in range(len(values))]
    script = "".join(f'printf "%s\\0" "${name}"\n' for name in names)
    with_ = {"run": f'{{\n{script}}} > "$out_seen"\nls > "$out_files"\n', **dict(zip(names, values, strict=True))}
    if shell != "bash":
        with_["shell"] = shell
    word = lab.one(lab.command("shell", with_, {"seen": "file", "files": "text"}))
    assert word.error_type is None, word.error
    assert lab.bytes_of(word, "seen").decode().split("\0")[:-1] == values
    assert lab.bytes_of(word, "files") == b""


def test_lists_arrive_as_arrays_and_other_values_as_text(lab: Lab) -> None:
    run = 'printf "<%s>" "${list[@]}" "${none[@]}" "$yes" "$no" "$nil" "$n" "$x" "$obj" "${#files[@]}" > "$out_o"\n'
    run += 'cat "${files[@]}" "$one" >> "$out_o"; basename "${files[1]}" >> "$out_o"'
    with_ = {
        **{"run": run, "list": NASTY[:40], "none": [], "yes": True, "no": False, "nil": None, "n": 3, "x": 1.5},
        **{"obj": {"a": [1, "é"]}, "files": {"$input": "files"}, "one": {"$input": "one"}},
    }
    inputs: dict[str, InputSpec | list[InputSpec]] = {
        "files": [lab.artifact(b"A", "file", ".txt"), lab.artifact(b"B", "image", ".png")],
        "one": lab.project_input("sub/one.txt", "1"),
    }
    word = lab.one(lab.command("shell", with_, {"o": "text"}, inputs=inputs))
    assert word.error_type is None, word.error
    texts = [*NASTY[:40], "true", "false", "", "3", "1.5", '{"a":[1,"é"]}', "2"]
    assert lab.bytes_of(word, "o").decode() == "".join(f"<{text}>" for text in texts) + "AB1files.1.png\n"


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("echo no >&2; exit 3", "exit status 3: no"),
        ("false; echo never", "exit status 1"),
        ("false | true; echo never", "exit status 1"),
        ("kill -9 $$", "ended by SIGKILL"),
        ('echo "$undefined"', "exit status 1: ../script.sh: line 1: undefined: unbound variable"),
    ],
)
def test_a_failing_script_fails_the_step_with_the_last_lines_of_stderr(lab: Lab, run: str, message: str) -> None:
    word = lab.one(lab.command("shell", {"run": run}))
    assert (word.error_type, word.error) == ("CommandFailed", message)
    evidence = lab.evidence()
    assert evidence["S/script.sh"] == run
    assert "never" not in evidence.get("S/stdout.log", "")


def test_a_script_writes_typed_values_and_named_files(lab: Lab) -> None:
    run = 'echo 4 > "$out_n"; echo "two words" > "$out_s"; echo true > "$out_b"; basename "$out_pic" > "$out_pic"\n'
    run += 'mkdir "$out_d"; echo x > "$out_d/x"; echo \'{"a": {"b": 2}}\' > "$out_j"'
    outputs = {
        **{"n": "integer", "s": "string", "b": "boolean", "pic": OutputSpec("image", ".png"), "d": "directory"},
        **{"j": OutputSpec("json", ".json", {"a.b": "integer"})},
    }
    word = lab.one(lab.command("shell", {"run": run}, outputs))
    assert word.error_type is None, word.error
    values = {o.key: o.value for o in word.outputs if o.type in ("integer", "string", "boolean")}
    assert values == {"n": 4, "s": "two words", "b": True, "j.a.b": 2}
    assert lab.bytes_of(word, "pic") == b"pic.png\n"


@pytest.mark.parametrize(
    ("run", "outputs", "message"),
    [
        ('echo 3 > "$out_n"', {"n": "integer", "T": "file"}, '`T`: write it to "$out_T"'),
        (
            "mkdir out; touch out/table.csv notes.txt",
            {"T": OutputSpec("file", ".csv")},
            '`T`: write it to "$out_T"; files in its work folder are not kept: `out/table.csv`',
        ),
        (
            "touch a b c d",
            {"T": OutputSpec("file", ".csv"), "n": "integer"},
            '`T`, `n`: write them to "$out_T", "$out_n"; files in its work folder are not kept: `a`, `b`, `c`, …',
        ),
    ],
)
def test_a_script_that_misses_its_outputs_is_told_where_to_write_them(
    lab: Lab, run: str, outputs: dict[str, OutputSpec | str], message: str
) -> None:
    found = lab.failure(lab.command("shell", {"run": run}, outputs))
    assert found == ("MissingOutput", f"the step ended without its declared {message}")


def test_a_python_script_gets_inputs_and_context_and_may_exit_well(lab: Lab) -> None:
    lab.file("helper.py", "def double(x):\n    return 2 * x\n")
    lab.file(
        "scripts/s.py",
        "import sys\nfrom helper import double\n"
        "context.output('o').write_text(f\"{double(inputs['n'])} {inputs['f'].read_text()} {__name__}\")\nsys.exit()\n",
    )
    with_ = {"script": "scripts/s.py", "n": 4, "f": {"$input": "f"}}
    inputs = {"f": lab.artifact(b"file", "text", ".txt")}
    word = lab.one(lab.command("python", with_, {"o": "text"}, inputs=inputs))
    assert word.error_type is None, word.traceback
    assert lab.bytes_of(word, "o") == b"8 file __main__"
    lab.file("scripts/s.py", "import sys\nsys.exit('wrong')\n")
    word = lab.one(lab.command("python", {"script": "scripts/s.py"}))
    assert (word.error_type, word.error) == ("SystemExit", "the step called exit('wrong')")


def test_actions_of_the_project_are_functions_and_classes_with_a_fresh_instance_each(lab: Lab) -> None:
    lab.file(
        "actions/json.py",  # hides nobody's json
        "from whyrun import Action, action\nfrom . import _shared\nimport json as real\n"
        "@action('text/upper', outputs={'text': 'text', 'extra': 'json'})\n"
        "def upper(text: str) -> dict:\n    real.dumps(1)\n    return {'text': _shared.up(text), 'extra': 1}\n"
        "class Count(Action):\n    name, version = 'count', '1.2'\n    outputs = {'n': 'integer'}\n"
        "    calls = 0\n"
        "    def run(self, inputs, mode='dry-run', context=None):\n"
        "        self.calls += 1\n        return {'n': self.calls + inputs['by'] + (mode == 'run') * 100}\n",
    )
    lab.file("actions/_shared.py", "def up(text):\n    return text.upper()\n")
    word = lab.one(lab.command("text/upper", {"text": "abc"}, {"text": "text"}))
    assert word.error_type is None, word.traceback
    assert lab.bytes_of(word, "text") == b"ABC"
    for _ in range(2):
        assert lab.one(lab.command("count", {"by": 10}, {"n": "integer"})).outputs[0].value == 111
