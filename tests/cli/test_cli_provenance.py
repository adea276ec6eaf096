"""Provenance on the command line: adopted artifacts, inputs and options of a run, leftover files."""

from __future__ import annotations

from pathlib import Path

from cli_lab import dedent, other_lines, whyrun
from question_lab import plain, run, tale

SHARED = """\
workflow: shared
inputs:
  A: {type: integer, default: 1}
loops: {n: {count: 2}}
jobs:
  Fit:
    for: [n]
    uses: python
    with: {call: "fit:fit", n: "${{ n }}", a: "${{ inputs.A }}"}
    outputs:
      meta: {type: json, path: out/meta.json, append: true}
      graph: {type: text, path: "out/g-${{ n }}.txt"}
"""


def shared(folder: Path) -> Path:
    """Two jobs, each with a file of its own and a section of a file of both; both have run."""
    (folder / "workflow.yaml").write_text(SHARED)
    (folder / "fit.py").write_text('def fit(n, a):\n    return {"meta": {"n": n, "a": a}, "graph": f"g{n}{a}"}\n')
    run(folder)
    return folder


def test_adopting_one_of_two_outputs_says_nothing_of_the_other(tmp_path: Path) -> None:
    folder = shared(tmp_path)
    (folder / "mine.txt").write_text("mine\n")
    assert whyrun(folder, "adopt", "Artifact:Fit.graph[0]", "mine.txt").code == 0
    explained = whyrun(folder, "explain", "--set", "A=2")
    assert explained.out.splitlines()[2:6] == [
        "  Job:Fit[0]   INPUT_CHANGED  a ← Input:A  1 → 2",
        "               adopted        Artifact:Fit.graph[0] is your version of r0002, and is made again; to have it "
        "back:",
        "                              whyrun restore 'Artifact:Fit.graph[0]' --from r0002 --set A=2",
        "  Job:Fit[1]   INPUT_CHANGED  a ← Input:A  1 → 2",
    ]
    layers = whyrun(folder, "explain", "--set", "A=2", "--json").json["layers"]
    assert [job.get("replaces_adopted") for job in layers[0]["jobs"]] == [{"Artifact:Fit.graph[0]": "r0002"}, None]
    replaced = whyrun(folder, "run", "-q", "--set", "A=2")
    assert (replaced.code, replaced.err) == (
        0,
        "note: adopted artifacts that will be made again: Artifact:Fit.graph[0]; `whyrun restore` brings an adopted "
        "version back\n",
    )
    back = whyrun(folder, "run", "-q")
    assert (back.code, back.err) == (0, "")
    assert plain(whyrun(folder, "status", "Job:Fit[0]").out) == dedent("""
        shared after r0004: nothing to do, 2 of 2 jobs up to date
        jobs: 2 succeeded
        artifacts
          Artifact:Fit.graph[0]  available  r0002 adopted  5B   out/g-0.txt
          Artifact:Fit.meta[0]   available  r0004 reused   13B  out/meta.json § Fit[0]
        """)
    assert whyrun(folder, "why", "Job:Fit[0]").out.splitlines()[:2] == [
        "Job:Fit[0] is up to date, after r0004",
        "  last success  its result was reused in r0004, Artifact:Fit.graph[0] was adopted in r0002; nothing that "
        "it consumes has changed",
    ]
    shown = whyrun(folder, "show", "Job:Fit[0]", "--json").json
    assert (shown["latest_attempt"]["status"], shown["latest_attempt"]["adopted"]) == (
        "reused",
        {"Artifact:Fit.graph[0]": "r0002"},
    )
    assert [(one["run"], one["origin"]) for one in shown["outputs"]] == [("r0002", "adopted"), ("r0004", "reused")]


def test_a_shared_file_that_is_no_json_is_not_called_deleted(tmp_path: Path) -> None:
    folder = shared(tmp_path)
    file = folder / "out/meta.json"
    text = file.read_text()
    file.write_text(text.replace("}", "}x", 1))
    explained = whyrun(folder, "explain").out.splitlines()
    wrong = "(the file is not a valid JSON object)"
    assert explained[2] == f"  Job:Fit[0]   MISSING_OUTPUT  Artifact:Fit.meta[0]  out/meta.json § Fit[0] {wrong}"
    assert {a["id"]: a.get("change") for a in whyrun(folder, "status", "Job:Fit[0]", "--json").json["artifacts"]} == {
        "Artifact:Fit.graph[0]": None,
        "Artifact:Fit.meta[0]": "unreadable",
    }
    failed = whyrun(folder, "run", "--json", "-q")
    assert failed.code == 1
    message = (
        "SECTION_FILE_INVALID: `out/meta.json` cannot take a section: `,` or `}` is expected at line 5, column 4; "
        "correct it or move it away, and the next run publishes the result"
    )
    assert [failure["error"] for failure in failed.json["failed"]] == [message] * 2
    again = whyrun(folder, "run")
    assert f"  Job:Fit[0] and 1 more  NotPublished: {message}" in other_lines(again.err)
    file.write_text(text)
    assert whyrun(folder, "run", "-q").code == 0
    assert file.read_text() == text


def test_a_run_shows_the_inputs_that_it_was_given(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    run(folder, "--set", "Mark=?")
    (folder / "words/a.txt").write_text("three\n")
    run(folder, "--set", "Mark=?")

    def given(name: str) -> list[tuple[str, str, object]]:
        found = whyrun(folder, "show", name, "--json").json["inputs"]
        return [(one["id"], one["run"], one.get("value", one.get("size"))) for one in found]

    words = [("Input:Words[0]", "r0001", 4), ("Input:Words[1]", "r0001", 4)]
    assert given("r0001") == [("Input:Mark", "r0001", "!"), *words]
    assert given("r0002") == [("Input:Mark", "r0002", "?"), *words]
    assert given("r0003") == [("Input:Mark", "r0002", "?"), ("Input:Words[0]", "r0003", 6), words[1]]
    text = plain(whyrun(folder, "show", "r0003").out).splitlines()
    at = text.index("  inputs")
    assert [line.split() for line in text[at + 1 : at + 4]] == [
        ["Input:Mark", '"?"', "since", "r0002"],
        ["Input:Words[0]", "HASH…", "6B", "since", "r0003"],
        ["Input:Words[1]", "HASH…", "4B", "since", "r0001"],
    ]


def test_a_run_notes_what_removed_jobs_have_left(tmp_path: Path) -> None:
    folder = shared(tmp_path)
    workflow = folder / "workflow.yaml"
    workflow.write_text(workflow.read_text().replace("count: 2", "count: 1"))
    answer = whyrun(folder, "run", "--set", "A=2")
    note = "note: 2 published files or sections belong to no job any more: `whyrun status --set A=2` lists them"
    assert (answer.code, other_lines(answer.err)[-1]) == (0, note)
    left = "no job makes it any more"
    assert whyrun(folder, "status", "--set", "A=2").out.splitlines()[-3:] == [
        "leftover published files: keep them, or delete them yourself",
        f"  out/g-1.txt             Artifact:Fit.graph[1] from r0001; {left}",
        f"  out/meta.json § Fit[1]  Artifact:Fit.meta[1] from r0001; {left}",
    ]
    (folder / "out/g-1.txt").unlink()
    answer = whyrun(folder, "run", "-q")
    assert answer.err == "note: 1 published file or section belongs to no job any more: `whyrun status` lists it\n"
    # Another job publishes there now: it is nobody's leftover.
    workflow.write_text(SHARED.replace("Fit:", "Fitted:"))
    (folder / "out/meta.json").write_text("{}")
    assert whyrun(folder, "run", "-q").err == ""
