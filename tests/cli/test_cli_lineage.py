"""`whyrun lineage`: from a result back to inputs, parameters, code and people, as the log has it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli_lab import whyrun
from question_lab import plain, run, tale

from observed_lab import absent, file, folder, saw
from project_lab import Lab
from whyrun.artifacts.hashing import bytes_sha256


def events(folder: Path, name: str) -> dict[int, dict[str, Any]]:
    lines = (folder / ".whyrun/tale/runs" / name / "events.jsonl").read_text().splitlines()
    return {event["seq"]: event for event in map(json.loads, lines)}


def check_against_the_log(folder: Path, answer: dict[str, Any]) -> None:
    """Every hop is an attempt in the log that made this content from what the hop says it read."""
    for hop in answer["hops"]:
        log = events(folder, hop["recorded"]["run"])
        line = log[hop["recorded"]["seq"]]
        assert line["step_id"] == hop["job"]
        read = [(read["id"], read["sha256"]) for read in hop["reads"]]
        bound = {name: members for name, members in line["bindings"].items() if name != ".action"}
        assert read == [(member["id"], member["sha256"]) for _, members in sorted(bound.items()) for member in members]
        if hop["kind"] == "artifact":
            made = [e for e in log.values() if e.get("artifact") == hop["id"] and e["seq"] >= line["seq"]]
            assert [e["sha256"] for e in made] == [hop["sha256"]]


def test_a_result_and_everything_behind_it(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    answer = whyrun(folder, "lineage", "Artifact:Join.Lines")
    assert (answer.code, answer.err) == (0, "")
    assert plain(answer.out).splitlines() == [
        "Artifact:Join.Lines  HASH…  made by Job:Join in r0001 (shell HASH…)",
        "  parts ← Artifact:Echo.Text[0]  HASH…  made by Job:Echo[0] in r0001 (shell HASH…)",
        "    loud ← Artifact:Shout.Loud[0]  HASH…  made by Job:Shout[0] in r0001 (shell HASH…)",
        '      run ← Input:Shout[0].with.run = "if grep -q broken \\"$text\\"; then echo \\"it is broken\\" >&2; '
        'exit 3; fi\\ntr a-z A-Z < \\"$text\\" > \\…',
        "      text ← Input:Words[0]  HASH…",
        '    run ← Input:Echo[0].with.run = "cat \\"$loud\\" \\"$loud\\" > \\"$out_Text\\""',
        '  run ← Input:Join.with.run = "cat \\"${parts[@]}\\" > \\"$out_All\\"\\nwc -l < \\"$out_All\\" | '
        "tr -d ' ' > " + '\\"$out_Lines\\"\\n"',
    ]
    check_against_the_log(folder, whyrun(folder, "lineage", "Artifact:Join.Lines", "--json").json)


def test_a_result_keeps_its_origins_when_inputs_and_workflow_change(tmp_path: Path) -> None:
    """The fan-in was made from the first version of the loud text; then that changed, and the fan-in was not made
    again; then the workflow lost the job."""
    folder = tale(tmp_path)
    run(folder)
    before = whyrun(folder, "lineage", "Artifact:Join.All", "--json").json
    (folder / "words/a.txt").write_text("uno\n")
    run(folder, "--target", "Artifact:Shout.Loud[0]")
    assert whyrun(folder, "lineage", "Artifact:Join.All", "--json").json == before
    after = whyrun(folder, "lineage", "Artifact:Shout.Loud[0]", "--json").json
    assert [(hop["id"], hop["run"]) for hop in after["hops"]] == [("Artifact:Shout.Loud[0]", "r0002")]
    check_against_the_log(folder, after)
    old = whyrun(folder, "lineage", "Artifact:Shout.Loud[0]", "--at", "r0001", "--json").json
    assert [hop["sha256"] for hop in old["hops"]] == [before["hops"][2]["sha256"]]
    text = (folder / "workflow.yaml").read_text()
    (folder / "workflow.yaml").write_text(text.partition("  Join:")[0])
    assert whyrun(folder, "lineage", "Artifact:Join.All", "--json").json == before


def test_a_version_that_only_the_log_still_has(tmp_path: Path) -> None:
    """Forced twice, a step that is not deterministic has two versions with one fingerprint; the fold keeps the last."""
    (tmp_path / "workflow.yaml").write_text("""\
workflow: tale
jobs:
  Now:
    uses: shell
    with: {run: 'date +%N > "$out_T"'}
    outputs: {T: {type: text}}
  Copy:
    uses: shell
    with: {text: "${{ jobs.Now.outputs.T }}", run: 'cat "$text" > "$out_T"'}
    outputs: {T: {type: text}}
""")
    run(tmp_path)
    before = whyrun(tmp_path, "lineage", "Artifact:Copy.T", "--json").json
    assert [(hop["id"], hop["run"], hop["depth"]) for hop in before["hops"]] == [
        ("Artifact:Copy.T", "r0001", 0),
        ("Artifact:Now.T", "r0001", 1),
    ]
    run(tmp_path, "--force", "Job:Now", "--target", "Job:Now")
    assert whyrun(tmp_path, "lineage", "Artifact:Copy.T", "--json").json == before
    check_against_the_log(tmp_path, before)


def test_who_adopted_and_what_was_reused(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "mine.txt").write_text("MINE\n")
    assert whyrun(folder, "adopt", "Artifact:Shout.Loud[0]", "mine.txt").code == 0
    run(folder)
    lines = plain(whyrun(folder, "lineage", "Artifact:Join.All").out).splitlines()
    adopted = next(line for line in lines if "Artifact:Shout.Loud[0]" in line)
    assert adopted.startswith("    loud ← Artifact:Shout.Loud[0]  HASH…  adopted by ")
    assert adopted.endswith(" in r0002")
    answer = whyrun(folder, "lineage", "Artifact:Join.All", "--json").json
    check_against_the_log(folder, answer)
    hop = next(hop for hop in answer["hops"] if hop["id"] == "Artifact:Shout.Loud[0]")
    assert (hop["how"], hop["run"], "action" in hop) == ("adopted", "r0002", False)
    (folder / ".whyrun/tale/runs/r0003/work").mkdir(parents=True, exist_ok=True)
    (folder / "out/all.txt").unlink()
    run(folder)
    assert plain(whyrun(folder, "lineage", "Artifact:Join.All").out).startswith(
        "Artifact:Join.All  HASH…  made by Job:Join in r0003, reused in r0004\n"
    )


def test_long_bindings_and_deep_chains_are_cut_and_counted(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("""\
workflow: tale
loops: {n: {range: [1, 70]}}
jobs:
  Each:
    for: [n]
    uses: shell
    with: {n: "${{ n }}", run: 'echo "$n" > "$out_T"'}
    outputs: {T: {type: text}}
  All:
    uses: shell
    with: {parts: "${{ jobs.Each.outputs.T[:] }}", run: 'cat "${parts[@]}" > "$out_T"'}
    outputs: {T: {type: text}}
""")
    run(tmp_path)
    lines = whyrun(tmp_path, "lineage", "Artifact:All.T").out.splitlines()
    assert "  … and 62 more (`--all` shows them)" in lines
    whole = whyrun(tmp_path, "lineage", "Artifact:All.T", "--all").out.splitlines()
    assert sum("Artifact:Each.T[" in line for line in whole) == 70
    assert len(whyrun(tmp_path, "lineage", "Artifact:All.T", "--json").json["hops"]) == 71


def test_what_was_made_only_later_is_not_called_missing(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder, "--target", "Artifact:Shout.Loud[0]")
    run(folder)
    answer = whyrun(folder, "lineage", "Artifact:Join.All", "--at", "r0001")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error[USAGE]: `Artifact:Join.All` had not been made by the end of r0001"), answer.err
    assert "without `--at`" in answer.err


def test_what_has_no_lineage_says_what_to_do(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    for id_, line, hint in (
        ("Input:Mark", "error[USAGE]: `Input:Mark`: an input comes from you", "`whyrun why Input:Mark` tells"),
        ("Job:Join", "error[USAGE]: `Job:Join` has not been made yet", "`whyrun explain` shows"),
        ("Artifact:Joint.All", "error[UNKNOWN_REFERENCE]: `Artifact:Joint.All` names nothing", "Artifact:Join.All"),
        ("Artifact:Join", "error[UNKNOWN_REFERENCE]: `Artifact:Join` names nothing", "Artifact:Join."),
        ("Join", "error[NAME_INVALID]: `Join` is not a canonical ID", "write `Job:Join`"),
        ("Artifact:Echo.Text[*]", "error[USAGE]: `Artifact:Echo.Text[*]`: lineage takes one ID", "whyrun status"),
    ):
        answer = whyrun(folder, "lineage", id_)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith(line), answer.err
        assert hint in answer.err


def test_what_a_step_read_undeclared_is_one_of_the_origins(project: Callable[..., Lab]) -> None:
    lab = project(
        """
        workflow: tale
        jobs:
          Say: {uses: shell, with: {run: 'echo a > "$out_T"'}, outputs: {T: {type: text, path: out/a.txt}}}
          Count: {uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text}}}
        """,
        {"helper.py": "1", "data/x.csv": "x"},
    )
    lab.succeed()
    saw(lab, {"Job:Count": [absent("conf.json"), folder(lab, "data"), file(lab, "helper.py", "strace"),
                            file(lab, "out/a.txt")]})  # fmt: skip
    lab.write({"helper.py": "2"})  # the answer is that of the log
    assert plain(whyrun(lab.root, "lineage", "Artifact:Count.T").out).splitlines() == [
        "Artifact:Count.T  HASH…  made by Job:Count in r0001 (shell HASH…)",
        '  run ← Input:Count.with.run = "echo 1 > \\"$out_T\\""',
        "  observed ← conf.json  absent",
        "  observed ← data/  HASH…",
        "  observed ← helper.py  HASH…",
        "  observed ← out/a.txt  HASH…",
    ]
    (hop,) = whyrun(lab.root, "lineage", "Job:Count", "--json").json["hops"]
    reads = hop["observed"]
    assert [(read["path"], read["kind"], read["by"]) for read in reads] == [
        ("conf.json", "absent", "python"), ("data/", "folder", "python"), ("helper.py", "file", "strace"),
        ("out/a.txt", "file", "python"),
    ]  # fmt: skip
    assert reads[2]["sha256"] == bytes_sha256(b"1")
    edges = whyrun(lab.root, "graph", "--json").json["edges"]
    assert edges == [{"from": "Say", "to": "Count", "kind": "data", "slots": ["observed"]}]
