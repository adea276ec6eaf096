"""Messages on invalid parameters: positions inside records, one message per loop, and the source of a value."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest
from cli_lab import dedent, whyrun

ACTIONS = """
    from whyrun import Action, Parameters

    class Poll(Parameters):
        every: int = 2
        url: str

    class Ask(Action):
        name = "ask"
        outputs = {"answer": "text"}
        class Params(Parameters):
            seed: int
            poll: Poll = Poll(url="/")
        def run(self, inputs):
            return {"answer": "x"}
        def get_output_files(self, inputs):
            return [f"out/{self.params.seed}.txt"]
        def get_output_contribution_key(self, inputs):
            return str(self.params.seed)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "actions").mkdir()
    (tmp_path / "actions" / "ask.py").write_text(dedent(ACTIONS))
    return tmp_path


def write(folder: Path, jobs: str) -> None:
    text = """
        workflow: w
        inputs: {Base: {type: string, default: b}, Poll: {type: json, default: {evry: 1}}}
        loops: {seed: {count: 300}}
        jobs:
    """
    (folder / "workflow.yaml").write_text(dedent(text) + indent(dedent(jobs), "  "))


def test_a_mistake_in_a_record_stands_where_it_is_written(folder: Path) -> None:
    write(
        folder,
        """
          A:
            uses: ask
            with:
              seed: 1
              poll:
                evry: 1
                url: "${{ inputs.Base }}/x"
            outputs: {answer: {type: text}}
        """,
    )
    answer = whyrun(folder, "validate")
    assert answer.code == 2
    assert [line for line in (answer.out + answer.err).splitlines() if not line.startswith("  ") or "hint" in line] == [
        "error[INVALID_PARAMETER] workflow.yaml:10:9: `poll` has no `evry`",
        "   hint: did you mean `every`? known: `every`, `url`",
        "workflow.yaml: 1 problem",
    ]


def test_a_mistake_in_a_loop_is_reported_once_and_no_hook_is_asked(folder: Path) -> None:
    write(
        folder,
        """
          A: {for: [seed], uses: ask, with: {seed: "s${{ seed }}"}, outputs: {answer: {type: text}}}
        """,
    )
    answer = whyrun(folder, "run")
    lines = answer.err.splitlines()
    assert answer.code == 2
    assert lines[0][20:] == '[ask] INVALID_PARAMETER Job:A[0] (and 299 more) → invalid: seed="s0"'
    problems = [line.partition(": ")[2] for line in lines if line.startswith("error")]
    assert problems == ['`seed` is "s0"; it takes an integer (in `Job:A[0]`, and in 299 more instances)']


@pytest.mark.parametrize(
    ("words", "origin"),
    [
        ("validate", "its default, workflow.yaml:2"),
        ("validate --set Base=q", "given by `--set`"),
        ("validate --inputs in.yaml", "given in `in.yaml`"),
    ],
)
def test_a_value_that_comes_from_an_input_is_corrected_there(folder: Path, words: str, origin: str) -> None:
    (folder / "in.yaml").write_text("Base: z\n")
    write(
        folder,
        """
          A: {uses: ask, with: {seed: "${{ inputs.Base }}"}, outputs: {answer: {type: text}}}
        """,
    )
    answer = whyrun(folder, *words.split())
    hints = [line.strip() for line in (answer.out + answer.err).splitlines() if "hint" in line]
    assert hints == [f"hint: the value comes from `Input:Base` ({origin}): correct it there"]


def test_a_wrong_literal_is_one_problem_and_no_hook_is_asked(folder: Path) -> None:
    write(
        folder,
        """
          A: {uses: ask, with: {seed: x}, outputs: {answer: {type: text}}}
          B: {uses: ask, with: {seed: 2, poll: "${{ inputs.Poll }}"}, outputs: {answer: {type: text}}}
        """,
    )
    answer = whyrun(folder, "validate")
    errors = [line.partition(": ")[2] for line in (answer.out + answer.err).splitlines() if line.startswith("error")]
    assert errors == ['`seed` is "x"; it takes an integer', "`poll` needs `url`", "`poll` has no `evry`"]


def test_an_action_that_is_there_and_cannot_be_used_says_why(folder: Path) -> None:
    (folder / "actions" / "gone.py").write_text(
        "import nowhere\nfrom whyrun import Action\nclass G(Action):\n    name = 'gone'\n"
        "    def estimate_runtime(self, inputs): return 1\n    def run(self, inputs): ...\n"
    )
    (folder / "actions" / "torn.py").write_text("class T(Action):\n    name = 'torn'\n    def run(self inputs): ...\n")
    write(
        folder,
        """
          A: {uses: gone, outputs: {answer: {type: text}}}
          B: {uses: torn, outputs: {answer: {type: text}}}
        """,
    )
    lines = [line[20:] for line in whyrun(folder, "run").err.splitlines() if " INVALID_USES " in line]
    gone = "ModuleNotFoundError: No module named 'nowhere' (actions/gone.py:1)"
    assert lines == [
        f"[gone] INVALID_USES gone → cannot be used: {gone}",
        "[torn] INVALID_USES torn → cannot be read: actions/torn.py:3: invalid syntax",
    ]
    torn = whyrun(folder, "actions", "torn")
    assert (torn.code, torn.out) == (2, "torn (actions/torn.py)\n  error: actions/torn.py:3: invalid syntax\n")
    broken = whyrun(folder, "actions", "gone")
    assert (broken.code, broken.out) == (2, f"gone (actions/gone.py)\n  error: {gone}\n")
