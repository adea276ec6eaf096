"""`whyrun keep` on the command line, and what other commands tell of it; see tests/execution/test_keep.py."""

from __future__ import annotations

import getpass
from pathlib import Path

from cli_lab import dedent, whyrun
from question_lab import plain, run, tale

import whyrun as package


def kept(tmp_path: Path) -> Path:
    """A tale whose script was edited without effect."""
    folder = tale(tmp_path)
    run(folder)
    file = folder / "workflow.yaml"
    file.write_text(
        file.read_text().replace("tr a-z A-Z", "tr a-z  A-Z").replace('cat "$loud" "$loud"', 'cat "$loud"{,}')
    )
    return folder


def test_a_pattern_keeps_what_would_run_and_every_question_tells_of_it(tmp_path: Path) -> None:
    folder = kept(tmp_path)
    me = getpass.getuser()
    answer = whyrun(folder, "keep", "Job:Shout[*]", "Job:Echo[*]", "--because", "only spelling")
    assert (answer.code, answer.err) == (0, "")
    lines = plain(answer.out).splitlines()
    assert lines[0] == "r0002 kept 2 results: only spelling"
    assert [line.split()[:3] for line in lines[1:3]] == [
        ["Job:Shout[0]", "INPUT_CHANGED", "Input:Shout[0].with.run"],
        ["Job:Echo[0]", "INPUT_CHANGED", "Input:Echo[0].with.run"],
    ]
    assert all(line.endswith("  made in r0001") for line in lines[1:3])
    assert lines[3:] == [
        "  Job:Echo[1] and 1 more: nothing to keep",
        "  `whyrun compare 'Job:Shout[0]'` executes it again and compares",
    ]
    assert (
        whyrun(folder, "plan").out.splitlines()[0].startswith("tale after r0002: nothing to do, 4 of 6 jobs up to date")
    )
    assert whyrun(folder, "why", "Job:Echo[0]").out.splitlines()[1] == (
        f"  last success  its result was kept, without running, in r0002 by {me}: only spelling; nothing that it "
        "consumes has changed"
    )
    history = plain(whyrun(folder, "history", "Artifact:Echo.Text[0]").out).splitlines()
    assert " ".join(history[1].split()) == f"r0002 TIME KEPT HASH… from r0001 by {me}: only spelling"
    assert (
        f"    kept         by {me}: only spelling (made in r0001)"
        in whyrun(folder, "show", "Job:Echo[0]").out.splitlines()
    )
    assert f"r0002 (kept), by {me}: only spelling" in whyrun(folder, "explain", "--trace", "Job:Echo[0]").out
    assert (
        " ".join(plain(whyrun(folder, "runs").out).splitlines()[1].split()) == "r0002 succeeded keep TIME 0.0s 2 kept"
    )
    assert whyrun(folder, "diff", "r0001", "r0002").out.endswith(
        "kept without running\n  Job:Echo[0]   in r0002\n  Job:Shout[0]  in r0002\n"
    )
    lineage = plain(whyrun(folder, "lineage", "Artifact:Echo.Text[0]").out).splitlines()
    assert lineage[:2] == [
        f"Artifact:Echo.Text[0]  HASH…  made in r0001, kept by {me} in r0002: only spelling",
        f"  loud ← Artifact:Shout.Loud[0]  HASH…  made in r0001, kept by {me} in r0002: only spelling",
    ]
    verified = whyrun(folder, "verify", "--replay", "all")
    assert (verified.code, verified.out.splitlines()[-1]) == (
        0, f"note: r0002 kept the result of Job:Shout[0] and 1 more without running, by {me}: only spelling",
    )  # fmt: skip
    compared = whyrun(folder, "compare", "--dry-run", "Job:Echo[0]")
    assert compared.out.splitlines()[1].endswith("→ to compare with r0002, kept")


def test_the_json_has_everything_and_a_refusal_its_code(tmp_path: Path) -> None:
    folder = kept(tmp_path)
    found = whyrun(folder, "keep", "workflow.yaml", "Job:Shout[0]", "--because", "spelling", "--json").json
    (job,) = found.pop("kept")
    assert found == {"run": "r0002", "because": "spelling", "by": getpass.getuser(), "clean": []}
    assert (job["id"], job["made_in"], [change["code"] for change in job["changes"]]) == (
        "Job:Shout[0]", "r0001", ["INPUT_CHANGED"],
    )  # fmt: skip
    refused = whyrun(folder, "keep", "Job:Shout[0]", "--because", "again", "--json")
    assert (refused.code, refused.json["diagnostics"][0]["code"]) == (2, "NOT_KEEPABLE")
    assert whyrun(folder, "keep", "Job:Shout[1]", "--because", "x").err == dedent("""
        error[NOT_KEEPABLE]: the result of `Job:Shout[1]` cannot be kept: it is inactive
           hint: `whyrun why 'Job:Shout[1]'` says why
        """)
    missing = whyrun(folder, "keep", "Job:Echo[0]")
    assert (missing.code, missing.err.splitlines()[0]) == (2, "error[USAGE]: missing option `--because`")


def test_from_python(tmp_path: Path) -> None:
    flow = package.load(kept(tmp_path) / "workflow.yaml")
    result = flow.keep(["Job:Shout[0]", "Job:Echo[0]"], because="spelling")
    assert [job.id for job in result.kept] == ["Job:Shout[0]", "Job:Echo[0]"]
    assert flow.plan().headlines() == {}
