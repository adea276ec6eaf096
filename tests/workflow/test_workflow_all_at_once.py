"""All problems are reported in one pass, of every kind; follow-up problems are not reported."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from whyrun.errors import Diagnostic, InvalidError
from whyrun.project import Project


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text).removeprefix("\n"))
    return folder


def reported(folder: Path, *, inputs: str | None = None, sets: tuple[str, ...] = ()) -> tuple[Diagnostic, ...]:
    """What `whyrun validate` says, with files named relative to the project."""
    opened = Project.open(folder / "w.yaml", inputs=folder / inputs if inputs else None, sets=sets)
    return tuple(replace(d, file=d.file and d.file.removeprefix(f"{folder}/")) for d in opened.problems)


def places(found: tuple[Diagnostic, ...]) -> list[tuple[str, str | None, int | None, int | None]]:
    return [(d.code, d.file, d.line, d.column) for d in found]


# --- one file with a mistake of every kind -----------------------------------------------------------------------

EVERY_KIND = {
    "steps.py": "def count(table): ...\n",
    "whyrun.toml": "[resources]\ngpu = 'many'\n",
    "given.yaml": "Count: three\nTopik: theatre\nGrid: [[1]]\n",
    "part.yaml": """
        workflow: part
        inputs: {Topic: {type: string}, Words: {type: "string[]"}}
        jobs:
          First: {uses: shell, with: {run: "true", word: "${{ inputs.Words[7] }}"}, outputs: {O: {type: file}}}
          Second: {uses: shell, with: {run: "true", b: "${{ jobs.Third.outputs.O }}"}, outputs: {O: {type: file}}}
          Third: {uses: shell, with: {run: "true", b: "${{ jobs.Second.outputs.O }}"}, outputs: {O: {type: file}}}
          Fourth: {uses: shel, retries: often}
        """,
    "w.yaml": """
        workflow: Demo
        inputs:
          Topic: {type: string}
          Count: {type: integer}
          Grid: {type: "integer[][]"}
          Photo: {type: image, default: photos/none.png}
          Broken: {type: strin}
          Words: {type: "string[]", default: [a, b]}
        loops:
          word: {each: inputs.Words}
          n: {count: inputs.Count}
          row: {each: "inputs.Grid[3]"}
          two: {range: 1-2}
        imports:
          Part: {workflow: part.yaml, with: {Topic: "${{ inputs.Topic }}", Words: "${{ inputs.Words }}", X: 1}}
        jobs:
          Unreadable:
            for: [word, none]
            uses: python
            with: {call: "steps:count", tabel: 1}
            outputs: {O: {type: file, path: x}}
          Reader:
            uses: shell
            timeout: soon
            with:
              run: "true"
              same: ${{ jobs.Unreadable.outputs.O[0, 0] }}
              wrong: ${{ jobs.Nowhere.outputs.O }}
              last: ${{ inputs.Words[2] }}
            outputs:
              O: {type: file, path: out/a.txt}
          Same:
            for: [two]
            uses: shell
            with: {run: "true"}
            outputs:
              P: {type: file, path: "out/${{ two }}.txt"}
              O: {type: file, path: out/a.txt}
          One: {uses: shell, with: {run: "true", b: "${{ jobs.Two.outputs.O[1] }}"}, outputs: {O: {type: file}}}
          Two:
            for: [two]
            uses: shell
            with: {run: "true", b: "${{ jobs.One.outputs.O }}", c: "${{ jobs.Same.outputs.P[3] }}"}
            outputs: {O: {type: file}}
          Counted: {for: [n], uses: shell, with: {run: "true", r: "${{ inputs.Words[n] }}", x: "${{ 1 + }}"}}
          Misspelt: {uses: shell, wiht: {run: "true"}, outputs: {O: {type: file, path: ../up.txt}}}
        extra: 1
        """,
}


def test_one_mistake_of_every_kind_in_one_pass(tmp_path: Path) -> None:
    folder = write(tmp_path, EVERY_KIND)
    assert places(reported(folder, inputs="given.yaml", sets=("Colour=red", "Word"))) == [
        ("NAME_INVALID", "w.yaml", 1, 11),  # `Demo`
        ("INPUT_MISSING", "w.yaml", 3, 3),  # `Topic`, though the name of the file is wrong
        ("INPUT_MISSING", "w.yaml", 6, 3),  # no such photo
        ("WRONG_TYPE", "w.yaml", 7, 18),  # `strin`
        ("INDEX_OUT_OF_RANGE", "w.yaml", 12, 3),  # `Grid[3]`
        ("INPUT_UNKNOWN", "w.yaml", 15, 98),  # the part has no `X`
        ("UNKNOWN_LOOP", "w.yaml", 18, 17),
        ("INVALID_PARAMETER", "w.yaml", 19, 11),  # `table` is missing
        ("INVALID_PARAMETER", "w.yaml", 20, 33),  # `tabel` is not known
        ("WRONG_TYPE", "w.yaml", 24, 14),  # `soon`
        ("UNKNOWN_REFERENCE", "w.yaml", 28, 23),
        ("INDEX_OUT_OF_RANGE", "w.yaml", 29, 17),
        ("DUPLICATE_OUTPUT_PATH", "w.yaml", 38, 29),
        ("CYCLE", "w.yaml", 39, 3),
        ("INDEX_OUT_OF_RANGE", "w.yaml", 43, 65),
        ("EXPRESSION_SYNTAX", "w.yaml", 45, 95),
        ("UNKNOWN_KEY", "w.yaml", 46, 27),  # `run` is not reported as missing
        ("PATH_OUTSIDE", "w.yaml", 46, 80),
        ("UNKNOWN_KEY", "w.yaml", 47, 1),
        ("INDEX_OUT_OF_RANGE", "part.yaml", 4, 55),
        ("CYCLE", "part.yaml", 5, 3),
        ("INVALID_USES", "part.yaml", 7, 18),
        ("WRONG_TYPE", "part.yaml", 7, 33),
        ("WRONG_TYPE", "whyrun.toml", 2, None),
        ("INPUT_TYPE", "given.yaml", 1, 8),
        ("INPUT_UNKNOWN", "given.yaml", 2, 1),
        ("INPUT_UNKNOWN", None, None, None),  # `--set Colour=red`
        ("USAGE", None, None, None),  # `--set Word`
    ]


def test_missing_inputs_are_not_reported_if_only_the_file_is_needed(tmp_path: Path) -> None:
    opened = Project.open(write(tmp_path, EVERY_KIND) / "w.yaml")
    with pytest.raises(InvalidError) as of_file:
        opened.workflow  # noqa: B018
    with pytest.raises(InvalidError) as of_graph:
        opened.graph  # noqa: B018
    missing = {d for d in of_graph.value.diagnostics if d.code == "INPUT_MISSING"}
    assert len(missing) == 4
    assert of_graph.value.diagnostics == opened.problems
    assert [d for d in opened.problems if d not in missing] == list(of_file.value.diagnostics)


# --- what is wrong only because of something else ----------------------------------------------------------------

FOLLOWING = {
    "a job that cannot be read": (
        """
        workflow: w
        jobs:
          A: 3
          B: {uses: shell, needs: [A], with: {run: "true", a: "${{ jobs.A.outputs.O[0] }}"}}
        """,
        [("WRONG_TYPE", 3, 6)],
    ),
    "a section that is no map": (
        """
        workflow: w
        inputs: [Topic]
        loops: 3
        imports: []
        jobs:
          A: {uses: shell, for: [n], with: {run: "true", a: "${{ inputs.Topic }}", n: "${{ n }}"}}
          B: {uses: shell, needs: [P.X], with: {run: "true", a: "${{ jobs.P.X.outputs.O }}"}}
        """,
        [("WRONG_TYPE", 2, 9), ("WRONG_TYPE", 3, 8), ("WRONG_TYPE", 4, 10)],
    ),
    "a misspelt section": (
        """
        workflow: w
        input: {Topic: {type: string, default: a}}
        jobs: {A: {uses: shell, with: {run: "true", a: "${{ inputs.Topic }}"}}}
        """,
        [("UNKNOWN_KEY", 2, 1)],
    ),
    "a section under another name": (
        """
        workflow: w
        parameters: {Topic: {type: string}}
        steps: {A: {uses: shell}}
        """,
        [("UNKNOWN_KEY", 2, 1), ("UNKNOWN_KEY", 3, 1)],
    ),
    "misspelt keys": (
        """
        workflow: w
        inputs: {Topic: {typ: string, defualt: a}}
        loops: {n: {cuont: 2}}
        jobs:
          A: {use: shell, fro: [n], wiht: {run: "true", n: "${{ n }}"}, output: {O: {tipe: file}}}
          B: {uses: shell, with: {run: "true", a: "${{ jobs.A.outputs.O[1] }}"}}
        """,
        [
            ("UNKNOWN_KEY", 2, 18),
            ("UNKNOWN_KEY", 2, 31),
            ("UNKNOWN_KEY", 3, 13),
            ("UNKNOWN_KEY", 5, 7),
            ("UNKNOWN_KEY", 5, 19),
            ("UNKNOWN_KEY", 5, 29),
            ("UNKNOWN_KEY", 5, 65),
            ("UNKNOWN_KEY", 5, 78),
        ],
    ),
    "a loop that is not there": (
        """
        workflow: w
        jobs:
          A:
            uses: shell
            for: [nop]
            with: {run: "true", n: "${{ nop }}", a: "${{ inputs.Words[nop] }}"}
            outputs: {O: {type: json, path: "out/${{ nop }}.json", leaves: {"X[nop]": string}}}
        inputs: {Words: {type: "string[]", default: [a]}}
        """,
        [("UNKNOWN_LOOP", 5, 11)],
    ),
    "a key that the language does not have": (
        """
        workflow: w
        loops: {n: {count: 2}}
        jobs:
          A: {uses: shell, matrix: [n], with: {run: "true", n: "${{ n }}"}, outputs: {O: {type: file}}}
          B: {uses: shell, with: {run: "true", a: "${{ jobs.A.outputs.O[1] }}"}}
        """,
        [("UNKNOWN_KEY", 4, 20)],
    ),
    "names that cannot be": (
        """
        workflow: w
        inputs: {my-topic: {type: string, default: a}}
        loops: {my-loop: {count: 2}}
        jobs:
          A: {uses: shell, for: [my-loop], with: {run: "true"}, outputs: {my-output: {type: file}}}
          B: {uses: shell, with: {run: "true", a: "${{ inputs.my-topic }}", b: "${{ jobs.A.outputs.my-output[0] }}"}}
        """,
        [("NAME_INVALID", 2, 10), ("NAME_INVALID", 3, 9), ("NAME_INVALID", 5, 67)],
    ),
    "a default that does not fit": (
        """
        workflow: w
        inputs: {N: {type: integer, default: three}}
        loops: {n: {count: inputs.N}}
        jobs: {A: {uses: shell, for: [n], with: {run: "true", n: "${{ inputs.N + 1 }}"}}}
        """,
        [("INPUT_TYPE", 2, 38)],
    ),
    "a number that is too large": (
        """
        workflow: w
        loops: {n: {count: 99999999999999999999}}
        jobs: {A: {uses: shell, for: [n], with: {run: "true"}}}
        """,
        [("WRONG_TYPE", 2, 20)],
    ),
    "keys that stand twice": (
        """
        workflow: w
        jobs:
          A: {uses: shell, with: {run: "true"}, outputs: {O: {type: file}}}
          A: {uses: shell, with: {run: "true"}, outputs: {P: {type: file}}}
          B: {uses: shell, with: {run: "true", a: "${{ jobs.A.outputs.P }}"}}
          C: {uses: shell, with: {a: 1}, with: {run: "true"}}
        """,
        [("DUPLICATE_KEY", 4, 3), ("DUPLICATE_KEY", 6, 34)],
    ),
    "variables and secrets that cannot be read": (
        """
        workflow: w
        jobs:
          A: {uses: shell, env: {X: [1]}, with: {run: "true", x: "${{ env.X }}"}}
          B: {uses: shell, env: 3, with: {run: "true", x: "${{ env.X }}"}}
          C: {uses: shell, secrets: TOKEN, with: {run: "true", x: "${{ secrets.TOKEN }}"}}
        """,
        [("WRONG_TYPE", 3, 29), ("WRONG_TYPE", 4, 25), ("WRONG_TYPE", 5, 29)],
    ),
    "a leaf that cannot be read": (
        """
        workflow: w
        jobs:
          A: {uses: shell, with: {run: "true"}, outputs: {O: {type: json, leaves: {"X[": string, Y: string}}}}
          B: {uses: shell, if: "${{ jobs.A.outputs.O.X[0] == 'x' }}", with: {run: "true"}}
        """,
        [("NAME_INVALID", 3, 76)],
    ),
    "a name of a job and of an import": (
        """
        workflow: w
        imports: {A: {workflow: part.yaml}}
        jobs:
          A: {uses: shell, with: {run: "true"}, outputs: {O: {type: file}}}
          B: {uses: shell, with: {run: "true", a: "${{ jobs.A.outputs.O }}", i: "${{ jobs.A.Inner.outputs.O }}"}}
        """,
        [("NAME_TAKEN", 4, 3)],
    ),
    "an import with a mistake in it": (
        """
        workflow: w
        imports: {P: {workflow: wrong.yaml, with: {Bad: 1, Good: 2}}}
        jobs:
          B: {uses: shell, with: {run: "true", a: "${{ jobs.P.None_.outputs.O }}", b: "${{ jobs.P.Inner.outputs.O }}"}}
          C: {uses: shell, with: {run: "true", a: "${{ jobs.P.Nope.outputs.O }}"}}
        """,
        [("UNKNOWN_REFERENCE", 5, 55), ("WRONG_TYPE", 2, 22), ("WRONG_TYPE", 4, 10)],
    ),
    "an element that is not there, handed to an import": (
        """
        workflow: w
        inputs: {Words: {type: "string[]", default: [a]}}
        imports: {P: {workflow: typed.yaml, with: {Word: "${{ inputs.Words[4] }}"}}}
        jobs: {}
        """,
        [("INDEX_OUT_OF_RANGE", 3, 55)],
    ),
}
BESIDE = {
    "part.yaml": """
        workflow: part
        jobs: {Inner: {uses: shell, with: {run: "true"}, outputs: {O: {type: file}}}}
        """,
    "wrong.yaml": """
        workflow: wrong
        inputs: {Bad: {type: nothing}, Good: {type: integer}}
        jobs:
          None_: []
          Inner: {uses: shell, with: {run: "true", n: "${{ inputs.Good }}"}, outputs: {O: {type: file}}}
        """,
    "typed.yaml": """
        workflow: typed
        inputs: {Word: {type: string}}
        jobs: {Inner: {uses: shell, with: {run: "true", w: "${{ inputs.Word }}"}}}
        """,
}


@pytest.mark.parametrize("case", FOLLOWING)
def test_follow_up_problems_are_not_reported(tmp_path: Path, case: str) -> None:
    text, expected = FOLLOWING[case]
    found = reported(write(tmp_path, {**BESIDE, "w.yaml": text}))
    assert [(d.code, d.line, d.column) for d in found] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("Count: 1\nWords: [a\n", [("YAML_SYNTAX", 3, 1)]),  # nothing is surely missing, or left at its default
        ("- Count\n", [("WRONG_TYPE", 1, 1)]),
        ("Count: 1\nCount: 2\nTopic: x\n", [("DUPLICATE_KEY", 2, 1)]),
        ("Topic: 3\nNope: 1\nWords: [a\n", [("YAML_SYNTAX", 4, 1)]),
    ],
)
def test_after_a_problem_with_the_inputs_file_no_input_is_missing(
    tmp_path: Path, given: str, expected: list[tuple[str, int, int]]
) -> None:
    text = """
        workflow: w
        inputs: {Count: {type: integer}, Topic: {type: string}, Words: {type: "string[]", default: []}}
        loops: {n: {count: inputs.Count}}
        jobs: {A: {uses: shell, for: [n], with: {run: "true", w: "${{ inputs.Words[n] }}"}}}
        """
    (tmp_path / "given.yaml").write_text(given)
    found = reported(write(tmp_path, {"w.yaml": text}), inputs="given.yaml")
    assert [(d.code, d.line, d.column) for d in found] == expected
    assert {d.file for d in found} == {"given.yaml"}


# --- syntax errors -----------------------------------------------------------------------------------------------


def test_a_syntax_error_is_the_only_problem_of_its_file_and_other_files_are_checked(tmp_path: Path) -> None:
    files = {
        "part.yaml": """
            workflow: part
            inputs: {Topic: {type: strin}}
            jobs: {A: {uses: shel}}
            """,
        "cut.yaml": """
            workflow: cut
            inputs: {Topic: {type: string}}
            jobs:
              A: {uses: shell, with: {run: "true"}, retries: often}
              B: {uses: shell, with: {run: "true"
            """,
        "given.yaml": "Words: 3\nNope: 1\n",
        "whyrun.toml": "nothing = 1\n",
        "w.yaml": """
            workflow: w
            inputs:
              Topic: {type: string, default: a}
              Words: {type: "string[]", default: [a]}
            imports:
              Part: {workflow: part.yaml, with: {Topic: a}}
              Cut: {workflow: cut.yaml}
            jobs:
              A: {uses: shel, with: {c: "${{ jobs.Cut.C.outputs.O }}"}, outputs: {O: {type: file, path: out/a}}}
              B: {uses: shell, with: {run: "true", w: "${{ inputs.Later }}"}, outputs: {O: {type: file, path: out/a}}}
            """,
    }
    assert places(reported(write(tmp_path, files), inputs="given.yaml")) == [
        ("INVALID_USES", "w.yaml", 9, 13),
        ("UNKNOWN_REFERENCE", "w.yaml", 10, 55),
        ("DUPLICATE_OUTPUT_PATH", "w.yaml", 10, 99),
        ("WRONG_TYPE", "part.yaml", 2, 24),
        ("INVALID_USES", "part.yaml", 3, 18),
        ("YAML_SYNTAX", "cut.yaml", 6, 1),
        ("UNKNOWN_KEY", "whyrun.toml", 1, None),
        ("INPUT_TYPE", "given.yaml", 1, 8),
        ("INPUT_UNKNOWN", "given.yaml", 2, 1),
    ]
    (tmp_path / "w.yaml").write_text("workflow: W\njobs: {A: {uses: shel}}\n  B: {}\n")
    assert places(reported(tmp_path)) == [("YAML_SYNTAX", "w.yaml", 3, 3), ("UNKNOWN_KEY", "whyrun.toml", 1, None)]


TYPOS = (
    lambda text, at, dice: text[:at] + text[at + 1 :],
    lambda text, at, dice: text[:at] + dice.choice("{}[]\"':,&*|>%@`\t#- \n!?") + text[at:],
    lambda text, at, dice: text[:at] + dice.choice("\"'}])") + text[at + 1 :],
    lambda text, at, dice: _indented(text, at, " " * dice.randint(1, 3)),
    lambda text, at, dice: _indented(text, at, "", drop=dice.randint(1, 3)),
)


def _indented(text: str, at: int, more: str, drop: int = 0) -> str:
    start = text.rfind("\n", 0, at) + 1
    spaces = len(text[start:]) - len(text[start:].lstrip(" "))
    return text[:start] + more + text[start + min(drop, spaces) :]


@pytest.mark.parametrize("seed", range(4))
def test_a_typo_that_makes_a_good_file_unreadable_is_the_only_problem(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    write(tmp_path, GOOD)
    good = (tmp_path / "w.yaml").read_text()
    unreadable = 0
    for _ in range(100):
        text = dice.choice(TYPOS)(good, dice.randrange(len(good)), dice)
        (tmp_path / "w.yaml").write_text(text)
        codes = [d.code for d in reported(tmp_path)]
        if "YAML_SYNTAX" in codes:
            assert codes == ["YAML_SYNTAX"], text
            unreadable += 1
    assert unreadable > 20


# --- several at once, each as if alone ---------------------------------------------------------------------------

GOOD = {
    "steps.py": "def count(table, limit=1): ...\n",
    "data/a.csv": "1\n",
    "part.yaml": """
        workflow: part
        inputs:
          Topic: {type: string}
          Words: {type: "string[]", default: [a, b]}
        jobs:
          First:
            uses: shell
            with: {run: "true", topic: "${{ inputs.Topic }}"}
            outputs: {O: {type: file}}
          Second:
            uses: shell
            with: {run: "true", word: "${{ inputs.Words[1] }}"}
            outputs: {O: {type: file, path: part/second.txt}}
        """,
    "w.yaml": """
        workflow: demo
        description: all is well
        inputs:
          Topic: {type: string, default: cinema}
          Table: {type: file, default: data/a.csv}
          Words: {type: "string[]", default: [a, b, c]}
          Count: {type: integer, default: 2}
          Spare: {type: integer, default: 3}
        loops:
          word: {each: inputs.Words}
          n: {count: inputs.Count}
          net: {values: [asia, cancer]}
          spare: {range: 0-2}
        imports:
          Part: {workflow: part.yaml, with: {Topic: "${{ inputs.Topic }}"}}
        jobs:
          Each:
            for: [word]
            uses: shell
            timeout: 5m
            with:
              run: "true"
              word: ${{ inputs.Words[word] }}
            outputs:
              O: {type: file, path: "out/each/${{ word }}.txt"}
          Net:
            for: [net, n]
            uses: shell
            retries: 2
            with: {run: "true", net: "${{ net }}"}
            outputs: {O: {type: json, leaves: {Title: string}}}
          Tally:
            uses: python
            with:
              call: "steps:count"
              table: ${{ inputs.Table }}
          Circle:
            uses: shell
            with: {run: "true", in: "${{ inputs.Topic }}"}
            outputs: {O: {type: file}}
          Round:
            uses: shell
            with: {run: "true", in: "${{ jobs.Circle.outputs.O }}"}
            outputs: {O: {type: file}}
          Gather:
            uses: shell
            env: {MODE: fast}
            with:
              run: "true"
              mode: ${{ env.MODE }}
              each: ${{ jobs.Each.outputs.O[:] }}
              one: ${{ jobs.Each.outputs.O[2] }}
              net: ${{ jobs.Net.outputs.O["asia", 1] }}
              part: ${{ jobs.Part.First.outputs.O }}
            if: ${{ jobs.Net.outputs.O["asia", 0].Title != "" }}
            outputs:
              Sum: {type: file, path: out/sum.txt}
              More: {type: file, path: out/more.txt}
          Script:
            uses: shell
            code: [steps.py]
            with: {run: "true"}
            needs: [Gather, Part.Second]
        """,
}

# name → file, text to replace (it occurs once), replacement, reported codes
MISTAKES: dict[str, tuple[str, str, str, list[str]]] = {
    "name": ("w.yaml", "workflow: demo", "workflow: Demo", ["NAME_INVALID"]),
    "description": ("w.yaml", "all is well", "[x]", ["WRONG_TYPE"]),
    "input file": ("w.yaml", "default: data/a.csv", "default: data/b.csv", ["INPUT_MISSING"]),
    "input missing": ("w.yaml", "Spare: {type: integer, default: 3}", "Spare: {type: integer}", ["INPUT_MISSING"]),
    "loop": ("w.yaml", "spare: {range: 0-2}", "spare: {range: 2-0}", ["WRONG_TYPE"]),
    "loop kind": ("w.yaml", "spare: {range: 0-2}", "spare: {rnage: 0-2}", ["UNKNOWN_KEY"]),
    "import": ("w.yaml", 'with: {Topic: "${{ inputs.Topic }}"}}', "with: {Topic: 3}}", ["INPUT_TYPE"]),
    "duration": ("w.yaml", "timeout: 5m", "timeout: soon", ["WRONG_TYPE"]),
    "unknown key": ("w.yaml", "timeout: 5m", "timeuot: 5m", ["UNKNOWN_KEY"]),
    "index of an input": ("w.yaml", "inputs.Words[word]", "inputs.Words[5]", ["INDEX_OUT_OF_RANGE"]),
    "no array": ("w.yaml", "inputs.Words[word]", "inputs.Topic[word]", ["INDEX_PARENT_NOT_ARRAY"]),
    "retries": ("w.yaml", "retries: 2", "retries: many", ["WRONG_TYPE"]),
    "loop variable": ("w.yaml", 'net: "${{ net }}"', 'net: "${{ word }}"', ["UNKNOWN_LOOP"]),
    "call": ("w.yaml", "steps:count", "steps:cuont", ["INVALID_PARAMETER"]),
    "parameter": ("w.yaml", "table: ${{ inputs.Table }}", "tabel: 1", ["INVALID_PARAMETER", "INVALID_PARAMETER"]),
    "circle": ("w.yaml", 'in: "${{ inputs.Topic }}"', 'in: "${{ jobs.Round.outputs.O }}"', ["CYCLE"]),
    "env": ("w.yaml", "MODE: fast", "MODE: [fast]", ["WRONG_TYPE"]),
    "selectors": ("w.yaml", "outputs.O[:]", "outputs.O", ["LOOP_MISMATCH"]),
    "index of a job": ("w.yaml", "Each.outputs.O[2]", "Each.outputs.O[3]", ["INDEX_OUT_OF_RANGE"]),
    "kind of index": ("w.yaml", '"asia", 1]', "0, 1]", ["INDEX_FORMAT_INVALID"]),
    "reference": ("w.yaml", "Part.First.outputs", "Part.Frist.outputs", ["UNKNOWN_REFERENCE"]),
    "expression": ("w.yaml", 'Title != "" }}', "Title != }}", ["EXPRESSION_SYNTAX"]),
    "leaf": ("w.yaml", "0].Title", "0].Titel", ["UNKNOWN_REFERENCE"]),
    "outside": ("w.yaml", "path: out/sum.txt", "path: ../sum.txt", ["PATH_OUTSIDE"]),
    "same path": ("w.yaml", "out/more.txt", "out/each/1.txt", ["DUPLICATE_OUTPUT_PATH"]),
    "output type": ("w.yaml", "More: {type: file", "More: {type: fil", ["WRONG_TYPE"]),
    "action": ("w.yaml", "code: [steps.py]", "code: [none.py]", ["FILE_MISSING"]),
    "twice": ("w.yaml", "needs: [Gather, Part.Second]", "code: [steps.py]", ["DUPLICATE_KEY"]),
    "needs": ("w.yaml", "Part.Second]", "Part.Third]", ["UNKNOWN_REFERENCE"]),
    "part: type": ("part.yaml", 'Words: {type: "string[]"', 'Words: {type: "strin[]"', ["WRONG_TYPE"]),
    "part: index": ("part.yaml", "inputs.Words[1]", "inputs.Words[2]", ["INDEX_OUT_OF_RANGE"]),
}

# These touch the same words, or the one makes the other's meaning unknown.
RELATED = [
    {"loop", "loop kind"},
    {"duration", "unknown key"},
    {"index of an input", "no array"},
    {"call", "parameter"},
    {"input file", "call"},
    {"outside", "same path"},
    {"expression", "leaf"},
    {"same path", "output type"},
    {"twice", "needs"},
    {"twice", "action"},
    {"part: type", "part: index"},
]


def planted(folder: Path, names: tuple[str, ...]) -> tuple[Diagnostic, ...]:
    files = {name: dedent(text).removeprefix("\n") for name, text in GOOD.items()}
    for name in names:
        file, old, new, _ = MISTAKES[name]
        assert files[file].count(old) == 1, name
        files[file] = files[file].replace(old, new)
    return reported(write(folder, files))


def test_each_mistake_alone_is_reported_alone(tmp_path: Path) -> None:
    assert planted(tmp_path, ()) == ()
    for name, (*_, codes) in MISTAKES.items():
        assert [d.code for d in planted(tmp_path, (name,))] == codes, name


def independent(names: tuple[str, ...]) -> bool:
    return not any(related <= set(names) for related in RELATED)


@pytest.mark.parametrize("seed", range(3))
def test_several_mistakes_at_once_are_reported_as_each_alone(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    alone = {name: set(planted(tmp_path, (name,))) for name in MISTAKES}
    pairs = dice.sample([pair for pair in itertools.combinations(MISTAKES, 2) if independent(pair)], 40)
    several = [tuple(dice.sample(list(MISTAKES), dice.randint(3, 5))) for _ in range(30)]
    for names in (*pairs, *filter(independent, several)):
        found = planted(tmp_path, names)
        assert len(found) == len(set(found))
        assert {replace(d, source_line=None) for d in found} == {
            replace(d, source_line=None) for name in names for d in alone[name]
        }, names


def test_every_command_that_plans_reports_the_same_problems_as_validate(tmp_path: Path) -> None:
    folder = write(tmp_path, {**EVERY_KIND, "whyrun.toml": ""})

    def reported_by(command: str) -> list[str]:
        words = [sys.executable, "-m", "whyrun.cli.main", command, "w.yaml", "--inputs", "given.yaml"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        return [line for line in done.stderr.splitlines() if line.startswith("error[")]

    assert len(reported_by("validate")) == 25
    assert reported_by("plan") == reported_by("status") == reported_by("run") == reported_by("validate")
