"""Commands in hints work when they are pasted: they use the same workflow, inputs and folder."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from cli_lab import Answer, whyrun

FLOW = """\
workflow: {name}
inputs: {{N: {{type: string, default: a}}}}
jobs:
  Report:
    uses: shell
    with: {{n: "${{{{ inputs.N }}}}", run: 'echo "$n" > "$out_X"'}}
    outputs: {{X: {{type: text, path: out/{name}.txt}}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, file in (("main", "workflow.yaml"), ("other", "other.yaml")):
        (tmp_path / file).write_text(FLOW.format(name=name))
    assert whyrun(tmp_path, "run", "-q").code == 0
    assert whyrun(tmp_path, "run", "-q", "other.yaml", "--set", "N=c").code == 0
    return tmp_path


def pasted(folder: Path, answer: Answer, lead: str) -> Answer:
    (line,) = [line.partition(lead)[2] for line in answer.out.splitlines() if lead in line]
    command, *words = shlex.split(line)
    assert command == "whyrun"
    return whyrun(folder, *words)


@pytest.mark.parametrize("command", [("explain",), ("why", "Job:Report")])
def test_a_version_is_kept_of_the_workflow_and_inputs_that_were_asked_about(
    folder: Path, command: tuple[str, ...]
) -> None:
    (folder / "out" / "other.txt").write_text("mine\n")
    done = pasted(folder, whyrun(folder, *command, "other.yaml", "--set", "N=c"), "keep your version: ")
    assert (done.code, done.err) == (0, "")
    assert (folder / "out" / "main.txt").read_text() == "a\n"
    assert whyrun(folder, "plan", "other.yaml", "--set", "N=c").out.splitlines() == [
        "other after r0002: nothing to do, 1 of 1 job up to date"
    ]


def test_seen_from_another_folder(folder: Path) -> None:
    elsewhere = folder / "else where"
    elsewhere.mkdir()
    (folder / "out" / "other.txt").write_text("mine\n")
    asked = whyrun(elsewhere, "explain", "../other.yaml", "--set", "N=c")
    assert pasted(elsewhere, asked, "keep your version: ").code == 0
    run = whyrun(elsewhere, "run", "-q", "../other.yaml", "--set", "N=c")
    assert (run.code, (folder / "out" / "other.txt").read_text()) == (0, "mine\n")


def test_an_adopted_version_that_an_earlier_result_replaces_is_reported_of_and_can_be_had_back(folder: Path) -> None:
    for value in ("X", "a"):
        assert whyrun(folder, "run", "-q", "--set", f"N={value}").code == 0
    (folder / "out" / "main.txt").write_text("mine\n")
    assert whyrun(folder, "adopt", "Artifact:Report.X", "out/main.txt").code == 0
    explained = whyrun(folder, "explain", "--set", "N=X")
    assert explained.out.splitlines() == [
        "main after r0004: none of 1 job to run, 1 reused from earlier runs",
        "layer 0",
        '  Job:Report   INPUT_CHANGED  n ← Input:N  "a" → "X"',
        "               adopted        Artifact:Report.X is your version of r0004, and is replaced by an earlier "
        "result; to have it back:",
        "                              whyrun restore Artifact:Report.X --from r0004 --set N=X",
        "               reuse          r0002",
    ]
    ran = whyrun(folder, "run", "--set", "N=X")
    assert (
        "note: adopted artifacts that will be replaced by an earlier result: Artifact:Report.X; `whyrun restore` "
        "brings an adopted version back"
    ) in ran.err.splitlines()
    assert (folder / "out" / "main.txt").read_text() == "X\n"
    back = whyrun(folder, "run", "--set", "N=a")  # the adopted version is what counts for `a`: nothing is replaced
    assert "adopted artifacts" not in back.err
    assert (folder / "out" / "main.txt").read_text() == "mine\n"


def test_an_adopted_version_whose_upstream_is_still_to_run_may_stay(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("""\
workflow: w
inputs: {In: {type: file, default: in.txt}}
jobs:
  A: {uses: shell, with: {f: "${{ inputs.In }}", run: 'wc -w < "$f" > "$out_N"'}, outputs: {N: {type: text}}}
  B: {uses: shell, with: {n: "${{ jobs.A.outputs.N }}", run: 'cat "$n" > "$out_T"'},
      outputs: {T: {type: text, path: b.txt}}}
""")
    (tmp_path / "in.txt").write_text("one two\n")
    assert whyrun(tmp_path, "run", "-q").code == 0
    (tmp_path / "b.txt").write_text("mine\n")
    assert whyrun(tmp_path, "adopt", "Artifact:B.T", "b.txt").code == 0
    (tmp_path / "in.txt").write_text("one  two\n")
    assert whyrun(tmp_path, "explain").out.splitlines()[-3:] == [
        "  Job:B   UPSTREAM_DIRTY  Job:A",
        "          adopted         Artifact:B.T is your version of r0002, and stays only if the results upstream do "
        "not change; to have it back after the run:",
        "                          whyrun restore Artifact:B.T --from r0002",
    ]
    ran = whyrun(tmp_path, "run")
    note = "note: adopted artifacts that will be kept only if the results of upstream jobs do not change: Artifact:B.T"
    assert [line for line in ran.err.splitlines() if line.startswith(note)]
    assert (tmp_path / "b.txt").read_text() == "mine\n"


def test_an_earlier_result_with_the_content_that_was_adopted_replaces_nothing(folder: Path) -> None:
    for value in ("X", "a"):
        assert whyrun(folder, "run", "-q", "--set", f"N={value}").code == 0
    (folder / "out" / "main.txt").write_text("X\n")
    assert whyrun(folder, "adopt", "Artifact:Report.X", "out/main.txt").code == 0
    assert whyrun(folder, "explain", "--set", "N=X").out.splitlines()[2:] == [
        '  Job:Report   INPUT_CHANGED  n ← Input:N  "a" → "X"',
        "               reuse          r0002",
    ]


def test_all_of_a_job_with_two_loops_is_what_was_meant(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("""\
workflow: two
loops: {i: {count: 2}, k: {count: 2}}
jobs:
  C: {for: [i, k], uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text}}}
  F: {for: [i], uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text}}}
""")
    refused = whyrun(tmp_path, "plan", "--force", "Job:C[*]")
    assert refused.code == 2
    assert refused.err.splitlines()[-1].strip() == "hint: write `--force 'Job:C[*][*]'`"


def test_show_takes_one_id(folder: Path) -> None:
    refused = whyrun(folder, "show", "Job:*")
    assert (refused.code, refused.err.splitlines()) == (
        2,
        [
            "error[USAGE]: `Job:*`: `show` takes one ID, not a pattern",
            "   hint: `whyrun why` and `whyrun status` take a pattern",
        ],
    )


def test_adopting_names_the_readers_of_that_output_alone(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("""\
workflow: w
inputs: {L: {type: "integer[]", default: [1]}, J: {type: json, default: {a: [1]}}}
jobs:
  Flag: {uses: shell, with: {run: 'echo 1 > "$out_V"; echo 2 > "$out_W"'},
         outputs: {V: {type: integer}, W: {type: integer}}}
  A: {uses: shell, with: {v: "${{ jobs.Flag.outputs.V }}", run: 'echo $v > "$out_T"'}, outputs: {T: {type: text}}}
  B:
    uses: shell
    with: {j: "${{ inputs.J }}", l: "${{ inputs.L }}", w: "${{ jobs.Flag.outputs.W }}", run: 'echo $w > "$out_T"'}
    outputs: {T: {type: text}}
""")
    assert whyrun(tmp_path, "run", "-q").code == 0
    (tmp_path / "w.txt").write_text("5\n")
    adopted = whyrun(tmp_path, "adopt", "Artifact:Flag.W", "w.txt", "--json")
    assert adopted.json["dependents"] == ["Job:B"]
    assert whyrun(tmp_path, "show", "Artifact:Flag.V", "--json").json["read_by"] == ["Job:A"]


def test_hints_of_making_room_name_the_workflow(folder: Path) -> None:
    (folder / "workflow.yaml").unlink()
    for word in ("d", "e"):
        assert whyrun(folder, "run", "-q", "other.yaml", "--set", f"N={word}").code == 0
    prune = ("runs", "prune", "other.yaml", "--keep", "1", "--set", "N=e")
    for answer in (whyrun(folder, *prune), whyrun(folder, *prune, "--delete")):
        (hint,) = [line for line in answer.out.splitlines() if line.startswith("hint:")]
        words = shlex.split(hint.partition("`whyrun ")[2].partition("`")[0])
        assert words[:2] == ["gc", "other.yaml"]
        assert whyrun(folder, *words).code == 0


def test_what_is_said_after_an_adoption_names_the_workflow(tmp_path: Path) -> None:
    flow = (
        FLOW.format(name="other")
        + """\
  Read:
    uses: shell
    with: {x: "${{ jobs.Report.outputs.X }}", run: 'cat "$x" > "$out_X"'}
    outputs: {X: {type: text}}
"""
    )
    (tmp_path / "other.yaml").write_text(flow)
    assert whyrun(tmp_path, "run", "-q", "other.yaml").code == 0
    (tmp_path / "mine.txt").write_text("mine")
    told = whyrun(tmp_path, "adopt", "Artifact:Report.X", "mine.txt", "other.yaml").out
    command = told.partition("`whyrun ")[2].partition("`")[0]
    assert shlex.split(command) == ["explain", "other.yaml"]
    assert "Job:Read" in whyrun(tmp_path, *shlex.split(command)).out


def test_a_hint_offers_no_pattern_where_one_id_is_taken(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("""\
workflow: one
loops: {i: {count: 2}}
jobs:
  F: {for: [i], uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text}}}
""")
    assert whyrun(tmp_path, "run", "--quiet").code == 0
    for words, id_, what in (
        (("explain", "--trace"), "Job:F", "`--trace`"),
        (("show",), "Job:F", None),
        (("restore", "--from", "r0001"), "Artifact:F.T", "this command"),
    ):
        refused = whyrun(tmp_path, *words, id_)
        first = f"Job:{id_[4:]}[0]" if id_.startswith("Job:") else f"{id_}[0]"
        assert (refused.code, refused.err.splitlines()) == (
            2,
            [
                f"error[UNKNOWN_REFERENCE]: `{id_}` names nothing in this workflow",
                f"   hint: it has instances: name one, such as `{first}`",
            ],
        )
        assert whyrun(tmp_path, *words, first).code == 0
        if what is not None:
            refused = whyrun(tmp_path, *words, f"{id_}[*]")
            assert (refused.code, refused.err.splitlines()) == (
                2,
                [
                    f"error[USAGE]: `{id_}[*]`: {what} takes one ID, not a pattern",
                    f"   hint: name one, such as `{first}`",
                ],
            )


def test_a_file_that_does_not_exist_is_answered_with_what_was_meant(tmp_path: Path) -> None:
    def hint(folder: Path, *words: str) -> str:
        return whyrun(folder, *words).err.splitlines()[-1].strip()

    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "study.yml").write_text("workflow: w\njobs: {}\n")
    expected = "hint: this is an ID and not a file; to plan or run only this, write `--target 'Job:F[0]'`"
    assert hint(tmp_path, "plan", "Job:F[0]") == expected
    assert hint(tmp_path, "plan", "study.yaml") == "hint: did you mean `study.yml`?"
    assert hint(tmp_path, "plan") == "hint: there is `study.yml`: name it"
    (tmp_path / "workflow.yml").write_text("workflow: w\njobs: {}\n")
    assert hint(tmp_path, "plan") == "hint: did you mean `workflow.yml`?"
    (tmp_path / "workflow.yaml").write_text("workflow: w\njobs: {}\n")
    assert hint(inner, "plan") == "hint: there is one in a folder above: name it `../workflow.yaml`"
