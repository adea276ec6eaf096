"""Mistakes that only a run shows: what is told of the failure leads to its cause, and following it mends the step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import Lab
from whyrun.execution.recording.failure_notes import FailedStep, failure_note
from whyrun.log import events as ev

WORKFLOW = """\
workflow: study
inputs:
  Data: {type: file, default: data.csv}
  Fit: {type: file, default: scripts/fit.py}
  Scripts: {type: directory, default: scripts}
  Topic: {type: string, default: tea}
  Reads: {type: "file[]", default: "reads/*.txt"}
loops: {s: {count: 2}, r: {each: inputs.Reads}}
jobs:
  Made: {uses: shell, with: {run: 'echo > $out_T'}, outputs: {T: {type: text, path: out/t.txt}}}
  Fit:
    JOB
"""
FILES = {
    "data.csv": "a,b\n",
    "reads/a.txt": "a\n",
    "scripts/fit.py": "import helper\n",
    "scripts/helper.py": "",
    "scripts/options.py": (
        "import argparse, sys\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\n"
        "print(open(p.parse_args().data).read())\n"
    ),
    "scripts/read.py": "open('data.csv')\n",
    "scripts/read.sh": "cat\n",
    "scripts/results.py": "def one():\n    return 1\n\n\ndef both():\n    return {'Answer': 1}\n",
}
SCRATCH = "`data.csv` is in the project folder, but each step runs in a scratch folder of its own: "
BIND = SCRATCH + "write `data: ${{ inputs.Data }}` under `with:`"
DECLARE = (
    SCRATCH.replace("data.csv", "scripts/read.sh")
    + 'write `Read: {type: file, default: "scripts/read.sh"}` under `inputs:`, and `read: ${{ inputs.Read }}` under '
    '`with:`; the script reads `"$read"`'
)
AS_IT_IS = "write `uses: shell`, `workdir: project`, and in `run:` the command `python3 {}` with its arguments"
# the job; the first line of the error; the note; the job after following the note
CASES = {
    "a relative path in a script": (
        "{uses: shell, with: {run: 'cat data.csv > $out_T'}, outputs: {T: {type: text}}}",
        "exit status 1: cat: data.csv: No such file or directory",
        BIND + '; the script reads `"$data"`',
        "{uses: shell, with: {data: \"${{ inputs.Data }}\", run: 'cat $data > $out_T'}, outputs: {T: {type: text}}}",
    ),
    "a relative path in python": (
        "{uses: python, with: {script: scripts/read.py}}",
        "[Errno 2] No such file or directory: 'data.csv'",
        BIND,
        None,
    ),
    "a script by its path": (
        "{uses: shell, with: {run: 'bash scripts/read.sh'}}",
        "exit status 127: bash: scripts/read.sh: No such file or directory",
        DECLARE,
        None,
    ),
    "a script without its neighbours": (
        "{uses: shell, with: {fit: \"${{ inputs.Fit }}\", run: 'python3 $fit'}}",
        "exit status 1: ModuleNotFoundError: No module named 'helper'",
        "`helper` is in `scripts`, but a script that is an input comes without its neighbours: "
        + AS_IT_IS.format("scripts/fit.py"),
        "{uses: shell, workdir: project, with: {run: 'python3 scripts/fit.py'}}",
    ),
    "a script of a folder that imports its neighbour": (
        "{uses: python, with: {script: scripts/fit.py}}",
        "No module named 'helper'",
        "`helper` is in `scripts`, but `script:` imports from the project folder: " + AS_IT_IS.format("scripts/fit.py"),
        "{uses: shell, workdir: project, with: {run: 'python3 scripts/fit.py'}}",
    ),
    "the name of an output": (
        "{uses: shell, with: {run: 'echo > $Text'}, outputs: {Text: {type: text}}}",
        "exit status 1: ../script.sh: line 1: Text: unbound variable",
        "the path of the output `Text` is `$out_Text`",
        "{uses: shell, with: {run: 'echo > $out_Text'}, outputs: {Text: {type: text}}}",
    ),
    "the name of an input": (
        "{uses: shell, with: {run: 'echo $Topic'}}",
        "exit status 1: ../script.sh: line 1: Topic: unbound variable",
        "a script reads what is bound: write `Topic: ${{ inputs.Topic }}` under `with:`",
        "{uses: shell, with: {Topic: \"${{ inputs.Topic }}\", run: 'echo $Topic'}}",
    ),
    "a loop variable": (
        "{uses: shell, for: [s], with: {run: 'echo $s'}}",
        "exit status 1: ../script.sh: line 1: s: unbound variable",
        "a script reads what is bound: write `s: ${{ s }}` under `with:`",
        "{uses: shell, for: [s], with: {s: \"${{ s }}\", run: 'echo $s'}}",
    ),
    "a misspelt variable": (
        "{uses: shell, with: {topic: \"${{ inputs.Topic }}\", run: 'echo $topci'}}",
        "exit status 1: ../script.sh: line 1: topci: unbound variable",
        "did you mean `$topic`?",
        "{uses: shell, with: {topic: \"${{ inputs.Topic }}\", run: 'echo $topic'}}",
    ),
    "words of Snakemake": (
        "{uses: shell, with: {run: 'sort {input} > $out_T'}, outputs: {T: {type: text}}}",
        "exit status 2: sort: cannot read: {input}: No such file or directory",
        '`{input}` is text to bash: write "$name", an entry of `with:`',
        "{uses: shell, with: {data: \"${{ inputs.Data }}\", run: 'sort $data > $out_T'}, outputs: {T: {type: text}}}",
    ),
    "a program that is not there": (
        "{uses: shell, with: {run: 'no-such-samtools sort'}}",
        "exit status 127: ../script.sh: line 1: no-such-samtools: command not found",
        "`no-such-samtools` is not on the `PATH` of the step, which is that of the shell that started `whyrun`",
        None,
    ),
    "a script with a command line": (
        '{uses: python, with: {script: scripts/options.py, data: "${{ inputs.Data }}"}}',
        "the step called exit(2): options.py: error: the following arguments are required: --data",
        "`script:` gives values as `inputs`, not as a command line: "
        + AS_IT_IS.format("scripts/options.py")
        + ', such as `--name "$value"`',
        '{uses: shell, workdir: project, with: {data: "${{ inputs.Data }}", '
        "run: 'python3 scripts/options.py --data \"$data\"'}}",
    ),
    "a published file of another job": (
        "{uses: shell, needs: [Made], with: {run: 'cat out/t.txt'}}",
        "exit status 1: cat: out/t.txt: No such file or directory",
        "`out/t.txt` is published by another job, and a step reads what is bound: bind `${{ jobs.Made.outputs.T }}`",
        "{uses: shell, with: {t: \"${{ jobs.Made.outputs.T }}\", run: 'cat $t'}}",
    ),
    "a loop variable as a file": (
        '{uses: shell, for: [r], with: {read: "${{ r }}", run: \'cat "$read"\'}}',
        "exit status 1: cat: 0: No such file or directory",
        "`r` is the position of the element: write `read: ${{ inputs.Reads[r] }}` under `with:`",
        '{uses: shell, for: [r], with: {read: "${{ inputs.Reads[r] }}", run: \'cat "$read"\'}}',
    ),
    "an output with a dot": (
        "{uses: shell, with: {run: 'echo > ${out.T}'}, outputs: {T: {type: text}}}",
        "exit status 1: ../script.sh: line 1: ${out.T}: bad substitution",
        "the path of the output `T` is `$out_T`",
        "{uses: shell, with: {run: 'echo > $out_T'}, outputs: {T: {type: text}}}",
    ),
    "a folder that nobody made": (
        "{uses: shell, with: {run: 'echo > $out_D/x'}, outputs: {D: {type: directory}}}",
        "exit status 1: ../script.sh: line 1: scratch/out/D/x: No such file or directory",
        'make the folder first: `mkdir -p "$out_D"`',
        "{uses: shell, with: {run: 'mkdir -p $out_D; echo > $out_D/x'}, outputs: {D: {type: directory}}}",
    ),
    "a variable of the user's own shell": (
        "{uses: shell, with: {run: 'echo $MY_LEVEL'}}",
        "exit status 1: ../script.sh: line 1: MY_LEVEL: unbound variable",
        "variables of your shell do not reach a step: write `env: {MY_LEVEL: …}`, and for a secret also "
        "`secrets: [MY_LEVEL]` and `${{ secrets.MY_LEVEL }}` as its value",
        "{uses: shell, env: {MY_LEVEL: high}, with: {run: 'echo $MY_LEVEL'}}",
    ),
    "a command that fails without a word": (
        "{uses: shell, with: {run: 'grep -q nothing /dev/null'}}",
        "exit status 1",
        "a script stops at the first command that fails, also in a pipe; `set -x` at its beginning shows which",
        "{uses: shell, with: {run: 'set -x; grep -q nothing /dev/null || true'}}",
    ),
    "a result that names no output": (
        "{uses: python, with: {call: 'scripts.results:one'}, outputs: {Answer: {type: json}}}",
        'an action returns {"Answer": …} or nothing, not int',
        "",
        "{uses: python, with: {call: 'scripts.results:both'}, outputs: {Answer: {type: json}}}",
    ),
    "a text where a number is due": (
        "{uses: shell, with: {run: 'echo abc > $out_N'}, outputs: {N: {type: integer}}}",
        "`N` is declared as integer, but its file holds the text 'abc': write a whole number, and nothing else",
        "",
        "{uses: shell, with: {run: 'echo 5 > $out_N'}, outputs: {N: {type: integer}}}",
    ),
    "a word where a boolean is due": (
        "{uses: shell, with: {run: 'echo yes > $out_B'}, outputs: {B: {type: boolean}}}",
        "`B` is declared as boolean, but its file holds the text 'yes': write `true` or `false`, and nothing else",
        "",
        "{uses: shell, with: {run: 'echo true > $out_B'}, outputs: {B: {type: boolean}}}",
    ),
    "nothing where a number is due": (
        "{uses: shell, with: {run: ': > $out_N'}, outputs: {N: {type: number}}}",
        "`N` is declared as number, but its file is empty: write a number, and nothing else",
        "",
        "{uses: shell, with: {run: 'echo 1.5 > $out_N'}, outputs: {N: {type: number}}}",
    ),
}
ONCE = "\n  ".join(f"J{number}: {job}" for number, (job, *_) in enumerate(CASES.values()))


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, dict[str, tuple[str, str]]]:
    """All of them as jobs of one workflow, which is run once: job → type and message of its error."""
    lab = Lab(tmp_path_factory.mktemp("failures"))
    lab.write({"workflow.yaml": WORKFLOW.replace("Fit:\n    JOB", ONCE), **FILES})
    failed = lab.run().of(ev.StepFailed)
    return lab, {event.step_id: (event.error_type, event.error) for event in failed}


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
def test_a_failure_names_its_cause(first_run: tuple[Lab, dict[str, tuple[str, str]]], number: int) -> None:
    lab, errors = first_run
    _, first_line, note, _ = list(CASES.values())[number]
    step = next(id_ for id_ in errors if id_.partition("[")[0] == f"Job:J{number}")
    kind, error = errors[step]
    assert error.splitlines()[0] == first_line
    opened = lab.opened()
    table, _ = opened.graph.table_at(opened.graph.node_of[step])
    assert failure_note(FailedStep(opened.graph, table, "local", kind, error, lab.root)) == note
    reason = next(job for job in lab.plan().planned if job.id == step).reasons[0]
    assert reason.code == "RETRY_PREVIOUS_FAILURE"
    assert first_line[:150] in reason.text(step)


def test_following_each_note_mends_the_step(project: Callable[..., Lab]) -> None:
    mended = [job for *_, job in CASES.values() if job is not None]
    jobs = "\n  ".join(f"J{number}: {job}" for number, job in enumerate(mended))
    lab = project(WORKFLOW.replace("Fit:\n    JOB", jobs), FILES)
    assert len(lab.succeed().executed) == len(mended) + 2  # one has two instances, and one job is beside them


def test_the_note_is_in_the_line_of_the_step(first_run: tuple[Lab, object]) -> None:
    lab, _ = first_run
    lines = [line for status, line in lab.run(targets=["Job:J0"]).heard.lines if status == "FAILED"]
    assert len(lines) == 1
    assert "exit status 1: cat: data.csv: No such file or directory" in lines[0]
    assert SCRATCH in lines[0]


def test_no_note_is_made_of_a_file_that_is_nowhere(project: Callable[..., Lab]) -> None:
    lab = project(WORKFLOW.replace("Fit:\n    JOB", "J: {uses: shell, with: {run: 'cat nowhere.csv'}}"), FILES)
    graph = lab.opened().graph
    error = "exit status 1: cat: nowhere.csv: No such file or directory"
    assert failure_note(FailedStep(graph, graph.tables[0], "local", "CommandFailed", error, lab.root)) == ""


def test_an_error_of_one_word_that_is_a_megabyte_long_is_looked_through_once(project: Callable[..., Lab]) -> None:
    """And not once from each of its letters, for which the run would stand still for hours."""
    lab = project(WORKFLOW.replace("Fit:\n    JOB", "J: {uses: shell, with: {run: 'exit 1'}}"), FILES)
    graph = lab.opened().graph
    for word in ("x" * 1_000_000, "1" * 1_000_000, "x1." * 300_000):
        assert failure_note(FailedStep(graph, graph.tables[0], "local", "ValueError", word, lab.root)) == ""
