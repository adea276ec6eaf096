"""`whyrun why`: reason by reason, back to the root cause; also for clean and inactive jobs, inputs, and the past."""

from __future__ import annotations

from pathlib import Path

from cli_lab import dedent, whyrun
from question_lab import plain, run, tale


def test_the_reasons_are_followed_to_the_root_cause(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("broken\n")
    run(folder, code=1)
    answer = whyrun(folder, "why", "Artifact:Join.All")
    assert (answer.code, answer.err) == (0, "")
    assert plain(answer.out) == dedent("""
        Artifact:Join.All is made by Job:Join
        Job:Join is planned (layer 3), after r0002
          UPSTREAM_DIRTY  Job:Echo[0]
          because Job:Echo[0] is planned (layer 2)
            UPSTREAM_FAILED  Artifact:Shout.Loud[0]
            UPSTREAM_DIRTY   Job:Shout[0]
            because Job:Shout[0] is planned (layer 1)
              RETRY_PREVIOUS_FAILURE  r0002 attempt 1: CommandFailed: exit status 3: it is broken
              MISSING_OUTPUT          Artifact:Shout.Loud[0]
              INPUT_CHANGED           text ← Input:Words[0]  HASH… → HASH…
        """)
    found = whyrun(folder, "why", "Job:Join", "--json").json
    assert [(job["id"], job["depth"], job["state"], job["causes"]) for job in found["jobs"]] == [
        ("Job:Join", 0, "planned", ["Job:Echo[0]"]),
        ("Job:Echo[0]", 1, "planned", ["Job:Shout[0]"]),
        ("Job:Shout[0]", 2, "planned", []),
    ]
    assert (found["roots"], found["more"], found["at"], found["id"]) == (["Job:Shout[0]"], 0, None, "Job:Join")
    planned = {job["id"]: job for job in whyrun(folder, "plan", "--json").json["jobs"]}
    for job in found["jobs"]:  # the same reasons as in the plan, each with its text
        assert [{k: v for k, v in r.items() if k != "text"} for r in job["reasons"]] == planned[job["id"]]["reasons"]


def test_what_was_in_the_plan_of_an_earlier_run(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("uno\n")
    run(folder)
    (folder / "words/b.txt").unlink()
    (folder / "workflow.yaml").write_text((folder / "workflow.yaml").read_text().replace("Shout", "Cry"))
    assert plain(whyrun(folder, "why", "Job:Echo[0]", "--at", "r0002").out) == dedent("""
        Job:Echo[0] was planned (layer 2), in the plan of r0002
          UPSTREAM_DIRTY  Job:Shout[0]
          because Job:Shout[0] was planned (layer 1)
            INPUT_CHANGED  text ← Input:Words[0]  HASH… → HASH…
        """)
    assert plain(whyrun(folder, "why", "Job:Script", "--at", "r0002").out) == dedent(r"""
        Job:Script was up to date, in the plan of r0002
          last success  it succeeded in r0001; nothing that it consumes has changed
          same          Input:Script.action  "shell"
          same          mark ← Input:Mark  "!"
          same          Input:Script.with.run  "printf '{\"Mark\": \"%s\", \"Loud\": [true, false]}' \"$mark\" > \"$out_Story\"\n"
        """)  # noqa: E501  # lines as they are printed
    assert whyrun(folder, "why", "Job:Echo[1]", "--at", "r0002").out == dedent("""
        Job:Echo[1] was inactive, in the plan of r0002
          source_inactive  Artifact:Shout.Loud[1] is absent
          because Job:Shout[1] was inactive
            condition_false  jobs.Script.outputs.Story.Loud[word]  Artifact:Script.Story.Loud[1] = false
        """)
    # Now the job has another name.
    answer = whyrun(folder, "why", "Job:Shout[0]")
    assert (answer.code, answer.out) == (2, "")


def test_a_clean_job_is_answered_with_what_was_compared(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    assert plain(whyrun(folder, "why", "Job:Join").out) == dedent(r"""
        Job:Join is up to date, after r0001
          last success  it succeeded in r0001; nothing that it consumes has changed
          same          Input:Join.action  "shell"
          same          parts ← Artifact:Echo.Text[0]  HASH…
          same          Input:Join.with.run  "cat \"${parts[@]}\" > \"$out_All\"\nwc -l < \"$out_All\" | tr -d ' ' > \"$out_Lines\"\n"
        """)  # noqa: E501  # lines as they are printed
    found = whyrun(folder, "why", "Artifact:Join.Lines", "--json").json
    (job,) = found["jobs"]
    assert (found["job"], job["state"], job["last_success"]) == (
        "Job:Join", "clean", {"run": "r0001", "attempt": 1, "how": "executed"},
    )  # fmt: skip
    assert [entry["id"] for entry in job["compared"]] == [
        "Input:Join.action", "Artifact:Echo.Text[0]", "Input:Join.with.run",
    ]  # fmt: skip


def test_an_artifact_that_moved_on_is_named_with_the_run_that_made_it(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "out/loud-0.txt").write_text("MINE\n")
    assert plain(whyrun(folder, "why", "Job:Shout[0]").out) == dedent("""
        Job:Shout[0] is in the plan; its result is reused (layer 1), after r0001
          MISSING_OUTPUT  Artifact:Shout.Loud[0]  out/loud-0.txt (changed)
                          keep your version: whyrun adopt 'Artifact:Shout.Loud[0]' out/loud-0.txt
          reuse           r0001
        """)
    assert whyrun(folder, "adopt", "Artifact:Shout.Loud[0]", "out/loud-0.txt").code == 0
    assert plain(whyrun(folder, "why", "Job:Join").out) == dedent("""
        Job:Join is planned (layer 3), after r0002
          UPSTREAM_DIRTY  Job:Echo[0]
          because Job:Echo[0] is planned (layer 2)
            INPUT_CHANGED  loud ← Artifact:Shout.Loud[0]  HASH… → HASH…
                           Artifact:Shout.Loud[0] was adopted in r0002
        """)


def test_an_input_is_answered_with_its_readers_and_what_a_change_would_run(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    assert whyrun(folder, "why", "Input:Words[0]").out == dedent("""
        Input:Words[0] has not changed
        read by
          Job:Shout[0]  up to date
        if it changed, these would run
          Job:Shout[0]  INPUT_CHANGED
          Job:Echo[0]   UPSTREAM_DIRTY
          Job:Join      UPSTREAM_DIRTY
        """)
    answer = whyrun(folder, "why", "Input:Mark", "--set", "Mark=?")
    assert answer.out == dedent("""
        Input:Mark has changed since the last run
        read by
          Job:Script  planned  INPUT_CHANGED  mark ← Input:Mark  "!" → "?"
        """)
    assert whyrun(folder, "why", "Input:Words", "--at", "r0001", "--json").json == {
        "id": "Input:Words",
        "at": "r0001",
        "log_position": None,
        "changed": [],
        "readers": [
            {
                "job": "Job:Shout[0]", "state": "planned", "reason": "MISSING_OUTPUT",
                "text": "Artifact:Shout.Loud[0]",
            },
            {
                "job": "Job:Shout[1]", "state": "planned", "reason": "MISSING_OUTPUT",
                "text": "Artifact:Shout.Loud[1]",
            },
        ],
    }  # fmt: skip


SHEET = """\
workflow: sheet
inputs:
  Sheet: {type: "json[]", default: samples.csv, key: id}
loops: {sample: {each: inputs.Sheet}}
jobs:
  Deep:
    for: [sample]
    uses: shell
    with:
      n: "${{ int(inputs.Sheet[sample].n) }}"
      x: "${{ float(inputs.Sheet[sample].x) }}"
      run: 'echo "$n" > "$out_T"'
    outputs: {T: {type: text}}
"""


def test_an_element_of_a_sheet_with_numbers_is_read_by_its_own_instances(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(SHEET)
    (tmp_path / "samples.csv").write_text("id,n,x\na,20,-0.5\nb,21,1\n")
    run(tmp_path)
    assert whyrun(tmp_path, "why", "Input:Sheet[b]").out == dedent("""
        Input:Sheet[b] has not changed
        read by
          Job:Deep[b]  up to date
        if it changed, these would run
          Job:Deep[b]  INPUT_CHANGED
        """)
    assert whyrun(tmp_path, "show", "Input:Sheet[a]", "--json").json["read_by"] == ["Job:Deep[a]"]


CHAIN = """\
workflow: chain
inputs:
  X: {type: string, default: x}
  Y: {type: string, default: y}
jobs:
  A: {uses: shell, with: {x: "${{ inputs.X }}", run: 'echo "$x" > "$out_T"'}, outputs: {T: {type: text}}}
  B:
    uses: shell
    with: {a: "${{ jobs.A.outputs.T }}", y: "${{ inputs.Y }}", run: 'cat "$a" - <<< "$y" > "$out_T"'}
    outputs: {T: {type: text, path: b.txt}}
  C: {uses: shell, with: {b: "${{ jobs.B.outputs.T }}", run: 'cat "$b" > "$out_T"'}, outputs: {T: {type: text}}}
  D: {uses: shell, with: {y: "${{ inputs.Y }}", run: 'echo "$y" > "$out_T"'}, outputs: {T: {type: text}}}
"""


def test_what_a_change_would_run_is_what_the_plan_with_it_executes(tmp_path: Path) -> None:
    """Also what is only reused now. What runs anyway says so, and what the change does not reach is not told."""
    (tmp_path / "workflow.yaml").write_text(CHAIN)
    run(tmp_path)
    (tmp_path / "b.txt").unlink()
    assert whyrun(tmp_path, "why", "Input:X").out == dedent("""
        Input:X has not changed
        read by
          Job:A  up to date
        if it changed, these would run
          Job:A  INPUT_CHANGED
          Job:B  MISSING_OUTPUT
          Job:C  UPSTREAM_DIRTY
        """)
    told = whyrun(tmp_path, "why", "Input:X", "--json").json["would_run"]
    plan = whyrun(tmp_path, "plan", "--assume", "Input:X=changed", "--json").json
    assert [each["job"] for each in told] == [id_ for layer in plan["layers"] for id_ in layer]
    assert whyrun(tmp_path, "why", "Input:X", "--set", "Y=z").out == dedent("""
        Input:X has not changed
        read by
          Job:A  up to date
        if it changed, these would run
          Job:A  INPUT_CHANGED
          Job:B  MISSING_OUTPUT  planned anyway
          Job:C  UPSTREAM_DIRTY  planned anyway
        """)
    assert whyrun(tmp_path, "why", "Input:X", "--set", "Y=z", "--json").json["would_run"] == [
        {"job": "Job:A", "reason": "INPUT_CHANGED"},
        {"job": "Job:B", "reason": "MISSING_OUTPUT", "anyway": True},
        {"job": "Job:C", "reason": "UPSTREAM_DIRTY", "anyway": True},
    ]
    assert whyrun(tmp_path, "why", "Input:X", "--set", "X=z", "--json").json["would_run"] == []


def test_a_parameter_answers_for_its_job(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    text = (folder / "workflow.yaml").read_text()
    (folder / "workflow.yaml").write_text(text.replace("tr a-z A-Z", "rev"))
    lines = whyrun(folder, "why", "Input:Shout[0].with.run").out.splitlines()
    assert lines[:2] == [
        "Input:Shout[0].with.run belongs to Job:Shout[0]",
        "Job:Shout[0] is planned (layer 1), after r0001",
    ]
    reason = 'line 2: `tr a-z A-Z < "$text" > "$out_Loud"` → `rev < "$text" > "$out_Loud"`'
    assert lines[2] == f"  INPUT_CHANGED  Input:Shout[0].with.run  {reason}"


def test_mistakes_say_what_to_do(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    for words, message in (
        (["Join"], "error[NAME_INVALID]: `Join` is not a canonical ID: it has no kind"),
        (["Job:join"], "error[UNKNOWN_REFERENCE]: `Job:join` names nothing in this workflow"),
        (["Job:Shout[7]"], "error[UNKNOWN_REFERENCE]: `Job:Shout[7]` names nothing in this workflow"),
        (["Input:Words[7]"], "error[INDEX_OUT_OF_RANGE]: `Input:Words[7]`: there is no element 7: the array has 2"),
        (["Input:Word"], "error[UNKNOWN_REFERENCE]: `Input:Word` names nothing in this workflow"),
        (["Input:Join.with.nope"], "error[UNKNOWN_REFERENCE]: `Input:Join.with.nope` names nothing in this workflow"),
    ):
        answer = whyrun(folder, "why", *words)
        assert (answer.code, answer.out, answer.err.splitlines()[0]) == (2, "", message)
        assert answer.err.splitlines()[1].startswith("   hint: ")
    answer = whyrun(folder, "why", "Job:Join", "--at", "r0007")
    assert (answer.code, answer.err.splitlines()[0]) == (3, "error[RUN_UNKNOWN]: there is no run `r0007` of `tale`")


GATES = """\
workflow: gates
inputs:
  Level: {type: integer, default: 3}
  Both:  {type: integer, default: 1}
  Idle:  {type: string, default: x}
jobs:
  A:
    if: ${{ inputs.Level > 2 }}
    uses: shell
    with: {both: "${{ inputs.Both }}", run: 'echo "$both" > "$out_T"'}
    outputs: {T: {type: text}}
  B:
    if: ${{ inputs.Both > 0 }}
    uses: shell
    with: {run: 'echo b > "$out_T"'}
    outputs: {T: {type: text}}
"""


def test_an_input_that_only_conditions_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(GATES)
    run(tmp_path)
    assert whyrun(tmp_path, "why", "Input:Level").out == dedent("""
        Input:Level has not changed
        only these conditions read it; its value decides whether the jobs run
          Job:A  up to date
        """)
    assert whyrun(tmp_path, "why", "Input:Both").out == dedent("""
        Input:Both has not changed
        read by
          Job:A  up to date
          Job:B  up to date (only its condition reads it)
        if it changed, these would run
          Job:A  INPUT_CHANGED
        """)
    assert whyrun(tmp_path, "why", "Input:Level", "--json").json["readers"] == [
        {"job": "Job:A", "state": "clean", "condition_only": True}
    ]
    answer = whyrun(tmp_path, "plan", "--assume", "Input:Level=1")
    assert answer.err == "note: only the conditions of Job:A read Input:Level; its value decides whether they run\n"
    assert answer.out == dedent("""
        assuming Input:Level = 1 (now 3)
        gates after r0001: nothing to do, 1 of 2 jobs up to date, 1 inactive
        inactive
          Job:A   condition_false
        """)
    assert whyrun(tmp_path, "plan", "--assume", "Input:Both=changed").err == ""
    assert whyrun(tmp_path, "explain", "--assume", "Input:Idle=y").err == "note: no job reads Input:Idle\n"


def test_a_pattern_is_answered_match_by_match(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("uno\n")
    answer = whyrun(folder, "why", "Artifact:Shout.Loud[*]")
    assert (answer.code, answer.err) == (0, "")
    assert plain(answer.out) == dedent("""
        Artifact:Shout.Loud[0] is made by Job:Shout[0]
        Job:Shout[0] is planned (layer 1), after r0001
          INPUT_CHANGED  text ← Input:Words[0]  HASH… → HASH…

        Artifact:Shout.Loud[1] is made by Job:Shout[1]
        Job:Shout[1] is inactive, after r0001
          condition_false  jobs.Script.outputs.Story.Loud[word]  Artifact:Script.Story.Loud[1] = false
        """)
    found = whyrun(folder, "why", "Job:Shout[*]", "--json").json
    assert (found["id"], found["more"]) == ("Job:Shout[*]", 0)
    assert [(one["id"], one["jobs"][0]["state"]) for one in found["answers"]] == [
        ("Job:Shout[0]", "planned"), ("Job:Shout[1]", "inactive"),
    ]  # fmt: skip
    first = whyrun(folder, "why", "Input:Words[*]").out.splitlines()[0]
    assert first == "Input:Words[0] has changed since the last run"
    for words in ("Job:Shuot[*]", "Artifact:Shout.Lout[*]", "Input:Wrods[*]"):
        answer = whyrun(folder, "why", words)
        assert (answer.code, answer.err.splitlines()[0]) == (
            2, f"error[UNKNOWN_REFERENCE]: `{words}` names nothing in this workflow",
        )  # fmt: skip


WIDE = """\
workflow: wide
inputs: {Mark: {type: string, default: a}}
loops: {i: {count: 30}}
jobs:
  Part:
    for: [i]
    uses: shell
    with: {mark: "${{ inputs.Mark }}", run: 'echo "$mark" > "$out_T"'}
    outputs: {T: {type: text}}
  Whole:
    uses: shell
    with: {parts: "${{ jobs.Part.outputs.T[:] }}", run: 'cat "${parts[@]}" > "$out_T"'}
    outputs: {T: {type: text}}
"""


def test_a_wide_fan_in_is_reported_by_three_of_a_kind(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(WIDE)
    run(tmp_path)
    lines = whyrun(tmp_path, "why", "Job:Whole", "--set", "Mark=b").out.splitlines()
    assert lines[0] == "Job:Whole is planned (layer 1), after r0001"
    assert lines[21] == "  UPSTREAM_DIRTY  … and 10 more (`--all` lists them)"
    assert lines[22:] == [
        "  because Job:Part[0] is planned (layer 0)",
        '    INPUT_CHANGED  mark ← Input:Mark  "a" → "b"',
        "  because Job:Part[1] is planned (layer 0)",
        '    INPUT_CHANGED  mark ← Input:Mark  "a" → "b"',
        "  because Job:Part[2] is planned (layer 0), and 27 more like it (`--all` shows them)",
        '    INPUT_CHANGED  mark ← Input:Mark  "a" → "b"',
    ]
    found = whyrun(tmp_path, "why", "Job:Whole", "--set", "Mark=b", "--json").json
    assert (len(found["jobs"]), found["jobs"][3]["alike"], len(found["roots"]), found["more"]) == (4, 27, 30, 0)
    every = whyrun(tmp_path, "why", "Job:Part[*]").out.splitlines()
    assert sum(line.startswith("Job:Part[") for line in every) == 20
    assert every[-1] == "… 10 more match `Job:Part[*]` (`--offset 20` continues)"
    page = whyrun(tmp_path, "why", "Job:Part[*]", "--limit", "2", "--offset", "28")
    told = [line for line in page.out.splitlines() if line.startswith(("Job:", "…"))]
    assert told == ["Job:Part[28] is up to date, after r0001", "Job:Part[29] is up to date, after r0001"]
    beyond = whyrun(tmp_path, "why", "Job:Part[*]", "--offset", "30")
    assert beyond.out.splitlines() == ["`Job:Part[*]` has only 30 matches"]
    found = whyrun(tmp_path, "why", "Job:Part[*]", "--limit", "1", "--offset", "27", "--json").json
    assert ([answer["id"] for answer in found["answers"]], found["more"]) == (["Job:Part[27]"], 2)


def test_with_all_nothing_of_a_wide_fan_in_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(WIDE)
    run(tmp_path)
    changed = '    INPUT_CHANGED  mark ← Input:Mark  "a" → "b"'
    lines = whyrun(tmp_path, "why", "Job:Whole", "--all", "--set", "Mark=b").out.splitlines()
    assert lines == [
        "Job:Whole is planned (layer 1), after r0001",
        *(f"  UPSTREAM_DIRTY  Job:Part[{i}]" for i in range(30)),
        *(line for i in range(30) for line in (f"  because Job:Part[{i}] is planned (layer 0)", changed)),
    ]
    found = whyrun(tmp_path, "why", "Job:Whole", "--all", "--set", "Mark=b", "--json").json
    assert [reason.get("job") for reason in found["jobs"][0]["reasons"]] == [f"Job:Part[{i}]" for i in range(30)]
    assert [(job["id"], job.get("alike")) for job in found["jobs"][1:]] == [(f"Job:Part[{i}]", None) for i in range(30)]
    every = whyrun(tmp_path, "why", "Job:Part[*]", "--all").out.splitlines()
    assert [line for line in every if line.startswith(("Job:", "…"))] == [
        f"Job:Part[{i}] is up to date, after r0001" for i in range(30)
    ]


def test_every_changed_member_of_a_wide_fan_in_is_reported_with_all(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(WIDE)
    run(tmp_path)
    run(tmp_path, "--set", "Mark=b", "--up", "1")
    lines = plain(whyrun(tmp_path, "why", "Job:Whole", "--all", "--set", "Mark=b").out).splitlines()
    assert lines[1:] == [
        *(f"  INPUT_CHANGED  parts ← Artifact:Part.T[{i}]  HASH… → HASH…" for i in range(30)),
        *(f"                 Artifact:Part.T[{i}] was made in r0002" for i in range(30)),
    ]
    run(tmp_path, "--set", "Mark=b")
    clean = plain(whyrun(tmp_path, "why", "Job:Whole", "--all", "--set", "Mark=b").out).splitlines()
    same = [line for line in clean if line.startswith("  same ")]
    assert [line.split()[3] for line in same[1:-1]] == [f"Artifact:Part.T[{i}]" for i in range(30)]


MANY_READERS = """\
workflow: many
inputs: {A: {type: string, default: a}}
loops: {i: {count: 60}}
jobs:
  Step:
    for: [i]
    uses: shell
    with: {a: "${{ inputs.A }}", run: 'echo "$a" > "$out_T"'}
    outputs: {T: {type: text}}
"""


def test_the_readers_of_an_input_come_in_pages(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(MANY_READERS)

    def listed_jobs(*words: str) -> list[str]:
        answer = whyrun(tmp_path, "why", "Input:A", *words)
        assert (answer.code, answer.err) == (0, "")
        first, title, *rest, last = answer.out.splitlines()
        assert (first, title) == ("Input:A has not changed", "read by")
        assert last == "all jobs that would run if it changed are planned anyway"
        return [line.split("  ")[1] if "Job:" in line else line for line in rest]

    jobs = [f"Job:Step[{i}]" for i in range(60)]
    assert listed_jobs() == [*jobs[:50], "  … 10 more; --all shows them"]
    assert listed_jobs("--all") == jobs
    assert listed_jobs("--limit", "3") == [*jobs[:3], "  … 57 more; --all shows them"]
    assert listed_jobs("--limit", "3", "--offset", "3") == [*jobs[3:6], "  … 54 more (`--offset 6` continues)"]
    assert listed_jobs("--offset", "58") == jobs[58:]
    assert listed_jobs("--offset", "60") == ["  there are only 60"]
