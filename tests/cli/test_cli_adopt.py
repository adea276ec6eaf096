"""`whyrun adopt` on the command line; the rules are in tests/execution/test_adopt.py."""

from __future__ import annotations

from pathlib import Path

from cli_lab import dedent, whyrun
from question_lab import plain, run, tale


def test_an_edited_published_file_is_kept_and_its_readers_run_again(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "out/loud-0.txt").write_text("MINE\n")
    answer = whyrun(folder, "adopt", "Artifact:Shout.Loud[0]", "out/loud-0.txt")
    assert (answer.code, answer.err) == (0, "")
    assert plain(answer.out) == dedent("""
        r0002 adopted Artifact:Shout.Loud[0]  HASH…  5B → out/loud-0.txt
          read by Job:Echo[0]; `whyrun explain` shows what runs again
        """)
    again = whyrun(folder, "adopt", "Artifact:Shout.Loud[0]", "out/loud-0.txt")
    assert plain(again.out) == "nothing to do: Artifact:Shout.Loud[0]  HASH…  5B is the current version already\n"
    run(folder)
    assert (folder / "out/all.txt").read_text() == "MINE\nMINE\n"
    headline = whyrun(folder, "plan").out.splitlines()[0]
    assert headline == "tale after r0003: nothing to do, 4 of 6 jobs up to date, 2 inactive"


def test_leaves_are_reported_and_json_has_everything(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "mine.json").write_text('{"Loud": [true, true]}')
    answer = whyrun(folder, "adopt", "Artifact:Script.Story", "mine.json", "workflow.yaml", "--json")
    found = answer.json
    sha256 = found.pop("sha256")
    assert len(sha256) == 64
    assert found == {
        "artifact": "Artifact:Script.Story",
        "run": "r0002",
        "size": 22,
        "type": "json",
        "path": "out/story.json",
        "leaves": {"Artifact:Script.Story.Loud[0]": True, "Artifact:Script.Story.Loud[1]": True},
        "displaced": [],
        "dependents": ["Job:Shout[0]", "Job:Shout[1]"],
    }
    assert whyrun(folder, "plan").out.splitlines()[0].startswith("tale after r0002: 3 of 6 jobs to run, 3 up to date")


def test_refusals_exit_with_2_and_say_what_to_do(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    answer = whyrun(folder, "adopt", "Artifact:Script.Story.Loud[0]", "out/story.json")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == dedent("""
        error[NOT_ADOPTABLE]: `Artifact:Script.Story.Loud[0]` cannot be put in place: it is a leaf, a part of a JSON output
           hint: adopt the whole: `whyrun adopt Artifact:Script.Story FILE.json`
        """)  # noqa: E501  # lines as they are printed
    answer = whyrun(folder, "adopt", "Artifact:Script.Story", "out/all.txt")
    assert (answer.code, answer.err.splitlines()[0].partition(": JSON")[0]) == (
        2, "error[NOT_ADOPTABLE]: `Artifact:Script.Story` cannot be put in place: `out/all.txt` does not fit: `Story` "
        "is not valid JSON",
    )  # fmt: skip
    assert whyrun(folder, "adopt", "Artifact:Shout.Loud[1]", "out/all.txt").err == dedent("""
        error[NOT_ADOPTABLE]: `Artifact:Shout.Loud[1]` cannot be put in place: `Job:Shout[1]` is inactive
           hint: `whyrun why 'Job:Shout[1]'` says why
        """)
    assert whyrun(folder, "adopt", "Artifact:Join.All", "nope.txt").err == dedent("""
        error[FILE_MISSING]: `nope.txt` does not exist
           hint: name the file whose content is to be adopted
        """)


def test_ids_with_brackets_are_quoted_for_the_shell_in_hints(tmp_path: Path) -> None:
    """Also where a job always fails: one of its outputs alone cannot be adopted, and the hint promises nothing else."""
    (tmp_path / "workflow.yaml").write_text(
        dedent("""
        workflow: two
        loops: {i: {count: 1}}
        jobs:
          Fails:
            for: [i]
            uses: shell
            with: {run: 'exit 1'}
            outputs: {A: {type: json, leaves: {Good: boolean}}, B: {type: text}}
          After:
            for: [i]
            uses: shell
            with: {b: "${{ jobs.Fails.outputs.B[i] }}", run: 'cat "$b" > "$out_C"'}
            outputs: {C: {type: text}}
        """)
    )
    run(tmp_path, code=1)
    hints = {
        id_: whyrun(tmp_path, "adopt", id_, "workflow.yaml").err.partition("hint: ")[2]
        for id_ in ("Artifact:Fails.B[0]", "Artifact:Fails.A[0].Good", "Artifact:After.C[0]")
    }
    assert hints == {
        "Artifact:Fails.B[0]": "an output is adopted together with the other outputs of a success: "
        "`whyrun run --target 'Job:Fails[0]'` makes one; if it fails, correct the job first\n",
        "Artifact:Fails.A[0].Good": "adopt the whole: `whyrun adopt 'Artifact:Fails.A[0]' FILE.json`\n",
        "Artifact:After.C[0]": "run it first: `whyrun run --target 'Job:Fails[0]'`\n",
    }
