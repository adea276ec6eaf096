"""`whyrun show`: the facts about one job, artifact, input or run."""

from __future__ import annotations

import json
from pathlib import Path

from cli_lab import dedent, whyrun
from question_lab import plain, run, tale


def test_a_job_with_its_bindings_latest_attempt_and_outputs(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("broken\n")
    run(folder, code=1)
    answer = whyrun(folder, "show", "Job:Shout[0]")
    assert (answer.code, answer.err) == (0, "")
    assert plain(answer.out) == dedent(r"""
        Job:Shout[0]  (job)
          action         shell
          action sha256  HASH
          layer          1
          if             jobs.Script.outputs.Story.Loud[word]
          state          planned
          reasons
            RETRY_PREVIOUS_FAILURE  r0002 attempt 1: CommandFailed: exit status 3: it is broken
            MISSING_OUTPUT          Artifact:Shout.Loud[0]
            INPUT_CHANGED           text ← Input:Words[0]  HASH… → HASH…
          bindings
            text  Input:Words[0]
          parameters
            run  "if grep -q broken \"$text\"; then echo \"it is broken\" >&2; exit 3; fi\ntr a-z A-Z < \"$text\" > \…
          latest attempt
            run          r0002
            attempt      1
            status       FAILED
            duration  0.0s
            fingerprint  HASH…
            error        CommandFailed: exit status 3: it is broken
            logs         .whyrun/tale/runs/r0002/steps/Shout%5B0%5D/stderr.log
            see          whyrun log r0002 --job 'Job:Shout[0]'
          outputs
            Artifact:Shout.Loud[0]  failed  r0002  out/loud-0.txt
        """)
    found = whyrun(folder, "show", "Job:Echo[1]", "--json").json
    assert (found["state"], found["because"], found["latest_attempt"]) == (
        "inactive", {"source": "Artifact:Shout.Loud[1]"}, None,
    )  # fmt: skip
    assert [output["state"] for output in found["outputs"]] == ["inactive"]
    assert "bindings" not in found


def test_artifacts_with_value_path_versions_and_readers(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("uno\ndue\n")
    run(folder)
    assert plain(whyrun(folder, "show", "Artifact:Join.Lines").out) == dedent("""
        Artifact:Join.Lines  (artifact)
          state      available
          type       integer
          job        Job:Join
          job state  up to date
          run        r0002
          sha256     HASH
          size       1B
          value      4
          versions   2
        """)
    assert plain(whyrun(folder, "show", "Artifact:Script.Story").out) == dedent("""
        Artifact:Script.Story  (artifact)
          state      available
          type       json
          job        Job:Script
          job state  up to date
          run        r0001
          sha256     HASH
          size       36B
          path       out/story.json
          versions   1
        """)
    found = whyrun(folder, "show", "Artifact:Script.Story.Loud[0]", "--json").json
    assert (found["value"], found["read_by"]) == (True, ["Job:Shout[0]"])


def test_inputs_elements_and_parameters(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("uno\n")
    assert plain(whyrun(folder, "show", "Input:Words[0]").out) == dedent("""
        Input:Words[0]  (input)
          type             text
          sha256           HASH
          path             words/a.txt
          size             4B
          recorded sha256  HASH
          changed
            Input:Words[0]
          read by
            Job:Shout[0]
        """)
    words = whyrun(folder, "show", "Input:Words", "--json").json
    assert (words["elements"], words["changed"], words["read_by"]) == (
        2, ["Input:Words[0]"], ["Job:Shout[0]", "Job:Shout[1]"],
    )  # fmt: skip
    mark = whyrun(folder, "show", "Input:Mark", "--json").json
    assert (mark["value"], mark["type"], mark["changed"], mark["read_by"]) == ("!", "string", [], ["Job:Script"])
    assert plain(whyrun(folder, "show", "Input:Echo[0].with.run").out) == dedent(r"""
        Input:Echo[0].with.run  (parameter)
          job     Job:Echo[0]
          value   "cat \"$loud\" \"$loud\" > \"$out_Text\""
          sha256  HASH
        """)
    assert whyrun(folder, "show", "Input:Echo[0].action", "--json").json["value"] == "shell"


def test_an_input_whose_change_would_make_the_workflow_invalid_still_has_readers(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    text = (folder / "workflow.yaml").read_text()
    text = text.replace("word: {each: inputs.Words}", "word: {count: inputs.Count}")
    more = "  Count: {type: integer, default: 2}\n  Extra: {type: text, required: false}\n"
    text = text.replace("loops:", f"{more}loops:")
    (folder / "workflow.yaml").write_text(text)
    found = whyrun(folder, "show", "Input:Count", "--json").json  # a third instance would have no word
    assert found["read_by"] == ["Job:Echo[0]", "Job:Echo[1]", "Job:Shout[0]", "Job:Shout[1]"]
    answer = whyrun(folder, "why", "Input:Count")
    assert (answer.code, answer.out.splitlines()[:2]) == (0, ["Input:Count has not changed", "read by"])
    extra = whyrun(folder, "show", "Input:Extra", "--json")
    assert (extra.code, extra.json["value"], extra.json["read_by"]) == (0, None, [])


def test_a_run_with_its_reasons_and_files(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("uno\n")
    run(folder, "--fail-fast")
    found = whyrun(folder, "show", "r0002", "--json").json
    assert (found["kind"], found["run"], found["state"], found["completed"]) == ("run", "r0002", "succeeded", 3)
    assert found["options"] == {"up": None, "targets": [], "force": [], "fail_fast": True}
    assert found["reasons"] == {"INPUT_CHANGED": 1, "UPSTREAM_DIRTY": 2}
    assert list(found["files"]) == [
        "artifacts/", "cfg/", "commands.jsonl", "debug.log", "events.jsonl", "manifest.yaml", "metrics.jsonl",
        "plan.json", "source/", "status.json", "steps/", "whyrun.log",
    ]  # fmt: skip
    text = whyrun(folder, "show", "r0002").out
    assert text.splitlines()[:3] == ["r0002  (run)", "  state        succeeded", "  mode         run"]
    answer = whyrun(folder, "show", "r0003")
    assert (answer.code, answer.out) == (3, "")
    assert answer.err == dedent("""
        error[RUN_UNKNOWN]: there is no run `r0003` of `tale`
           hint: the latest is `r0002`
        """)


def test_a_failed_attempt_shows_how_long_it_took_as_far_as_anybody_saw_its_end(tmp_path: Path) -> None:
    flow = """
        workflow: ends
        jobs:
          Die: {uses: shell, with: {run: "sleep 0.2; kill -KILL $PPID"}, outputs: {out: {type: text}}}
        """
    (tmp_path / "workflow.yaml").write_text(dedent(flow))
    assert whyrun(tmp_path, "run").code == 1
    (path,) = tmp_path.glob(".whyrun/ends/runs/r0001/events.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    (end,) = [event for event in map(json.loads, lines) if event["event"] == "step_failed"]
    shown = whyrun(tmp_path, "show", "Job:Die", "--json").json["latest_attempt"]
    assert (shown["error"], shown["duration"]) == ("WorkerDied: the worker was killed by SIGKILL", end["duration"])
    assert shown["duration"] >= 0.2
    # As a kill of the command itself would leave the log: nobody saw the end of the step.
    path.write_bytes(b"".join(line for line in lines[: end["seq"] - 1] if b'"status_contract_violation"' not in line))
    shown = whyrun(tmp_path, "show", "Job:Die", "--json").json["latest_attempt"]
    assert (shown["status"], shown["duration"]) == ("INTERRUPTED", None)
    assert "duration" not in whyrun(tmp_path, "show", "Job:Die").out
