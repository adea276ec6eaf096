"""Runs: order, blocking, retries, timeouts, resources, interruption, locks, and the files they leave."""

from __future__ import annotations

import signal
from collections.abc import Callable
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from project_lab import ECHO, MEET, PAID, PAID_CODE, Lab, Process, Ran, codes, processes_with, reasons, wait_until
from whyrun.errors import Exit, InvalidError, StateError
from whyrun.log import events as ev

Make = Callable[..., Lab]
MUST_EXIST = {"events.jsonl", "metrics.jsonl", "status.json", "manifest.yaml", "plan.json", "commands.jsonl", "source"}


def evidence_is_complete(ran_folder: Path) -> bool:
    return {path.name for path in ran_folder.iterdir()} >= MUST_EXIST


# --- failing and blocking ------------------------------------------------------------------------------------------

BRANCHES = """
    workflow: w
    inputs: {Words: {type: "string[]", default: [good, bad, fine]}}
    loops: {i: {each: inputs.Words}}
    jobs:
      Check:
        for: [i]
        uses: shell
        with:
          word: ${{ inputs.Words[i] }}
          run: echo "looking at $word" >&2; [ "$word" != bad ]; printf "$word" > "$out_W"
        outputs: {W: {type: text}}
      Use:
        for: [i]
        uses: shell
        with: {w: "${{ jobs.Check.outputs.W[i] }}", run: 'cat "$w" > "$out_U"'}
        outputs: {U: {type: text, path: "out/${{ i }}.txt"}}
      All:
        uses: shell
        with: {us: "${{ jobs.Use.outputs.U[:] }}", run: 'cat "${us[@]}" > "$out_A"'}
        outputs: {A: {type: text}}
"""


def test_a_failure_blocks_its_dependents_and_nothing_else(project: Make) -> None:
    lab = project(BRANCHES)
    ran = lab.run()
    assert ran.exit_code == 1
    assert ran.executed == ["Job:Check[0]", "Job:Check[2]", "Job:Use[0]", "Job:Use[2]"]
    assert ran.failed == {"Job:Check[1]": ("FAILED", "CommandFailed")}
    assert ran.blocked == {"Job:Use[1]": ["Job:Check[1]"], "Job:All": ["Job:Use[1]"]}
    (failed,) = ran.of(ev.StepFailed)
    assert failed.error == "exit status 1: looking at bad"
    status = ran.status()
    assert {key: status[key] for key in ("ok", "state", "exit_code", "steps_total", "steps_completed", "steps_failed",
                                         "steps_skipped", "steps_blocked", "steps_interrupted")} == {
        "ok": False, "state": "failed", "exit_code": 1, "steps_total": 7, "steps_completed": 4, "steps_failed": 1,
        "steps_skipped": 0, "steps_blocked": 2, "steps_interrupted": 0,
    }  # fmt: skip
    assert "Job:Check[1]" in status["error"]
    assert evidence_is_complete(ran.folder)  # type: ignore[arg-type]
    assert codes(lab.plan()) == {
        "Job:Check[1]": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"],
        "Job:Use[1]": ["MISSING_OUTPUT", "UPSTREAM_FAILED", "UPSTREAM_DIRTY"],
        "Job:All": ["MISSING_OUTPUT", "UPSTREAM_DIRTY"],
    }
    assert lab.run().failed == {"Job:Check[1]": ("FAILED", "CommandFailed")}, "a failure is retried, not remembered"
    lab.edit("workflow.yaml", "[good, bad, fine]", "[good, better, fine]")
    assert lab.succeed().executed == ["Job:All", "Job:Check[1]", "Job:Use[1]"]


def test_fail_fast_starts_nothing_more(project: Make) -> None:
    lab = project(BRANCHES.replace("[good, bad, fine]", "[bad, good, fine]"))
    ran = lab.run(jobs=1, fail_fast=True)
    assert ran.exit_code == 1
    assert ran.failed == {"Job:Check[0]": ("FAILED", "CommandFailed")}
    assert ran.result.counts.not_started == 6
    assert ran.executed == []


def test_a_missing_declared_output_is_a_failure(project: Make) -> None:
    lab = project(
        """
        workflow: w
        jobs:
          Half:
            uses: shell
            with: {run: 'printf x > "$out_One"'}
            outputs: {One: {type: text}, Two: {type: text}}
        """
    )
    ran = lab.run()
    assert ran.failed == {"Job:Half": ("FAILED", "MissingOutput")}
    assert ran.of(ev.ArtifactAvailable) == []
    assert "`Two`" in ran.of(ev.StepFailed)[0].error


# --- needs ---------------------------------------------------------------------------------------------------------

NEEDS = """
    workflow: w
    inputs: {Word: {type: string, default: one}}
    jobs:
      Setup:
        uses: shell
        with: {word: "${{ inputs.Word }}", run: 'sleep 0.2; [ "$word" != bad ]; date +%s%N > "$out_T"'}
        outputs: {T: {type: text}}
      Work:
        uses: shell
        needs: [Setup]
        with: {run: 'date +%s%N > "$out_T"'}
        outputs: {T: {type: text}}
"""


def test_needs_only_orders_jobs(project: Make) -> None:
    lab = project(NEEDS)
    lab.succeed()
    assert int(lab.content("Artifact:Setup.T")) < int(lab.content("Artifact:Work.T"))
    lab.edit("workflow.yaml", "default: one", "default: two")
    assert codes(lab.plan()) == {"Job:Setup": ["INPUT_CHANGED"]}
    assert lab.succeed().executed == ["Job:Setup"]


def test_needs_blocks_on_failure_and_is_part_of_a_target(project: Make) -> None:
    lab = project(NEEDS.replace("default: one", "default: bad"))
    assert codes(lab.plan(targets=["Job:Work"])) == {"Job:Setup": ["MISSING_OUTPUT"], "Job:Work": ["MISSING_OUTPUT"]}
    ran = lab.run()
    assert (ran.exit_code, ran.blocked) == (1, {"Job:Work": ["Job:Setup"]})


# --- env, secrets, code -------------------------------------------------------------------------------------------


def test_env_reaches_the_step_and_counts_as_parameter(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {Level: {type: integer, default: 3}}
        jobs:
          Show:
            uses: shell
            env: {LEVEL: "${{ inputs.Level }}", PLAIN: word}
            with: {run: 'printf "$LEVEL $PLAIN ${HOME##*/} ${SHELL-unset} ${WHYRUN_TEST_LEAK-unset}" > "$out_Text"'}
            outputs: {Text: {type: text}}
        """
    )
    lab.succeed()
    level, plain, _, *rest = lab.content("Artifact:Show.Text").split()
    assert (level, plain, rest[-1]) == ("3", "word", "unset")
    lab.edit("workflow.yaml", "PLAIN: word", "PLAIN: other")
    (change,) = reasons(lab.plan())["Job:Show"]
    assert (change["code"], change["binding"], change["source"], change["old_value"], change["new_value"]) == (
        "INPUT_CHANGED", "env.PLAIN", "Input:Show.env.PLAIN", "word", "other",
    )  # fmt: skip


SECRET = "s3cr3t-value-of-the-test"
SECRETS = """
    workflow: w
    jobs:
      Call:
        uses: shell
        secrets: [WHYRUN_TEST_TOKEN]
        env: {AUTH: "Bearer ${{ secrets.WHYRUN_TEST_TOKEN }}"}
        with:
          token: ${{ secrets.WHYRUN_TEST_TOKEN }}
          run: |
            echo "using $token"; echo "with $AUTH" >&2
            printf "%s %s" "${#token}" "${AUTH%% *}" > "$out_Text"
        outputs: {Text: {type: text}}
      Other:
        uses: shell
        with: {run: 'printf "${WHYRUN_TEST_TOKEN-unset}" > "$out_Text"'}
        outputs: {Text: {type: text}}
"""


def test_secrets(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = project(SECRETS)
    monkeypatch.delenv("WHYRUN_TEST_TOKEN", raising=False)
    assert set(lab.plan().headlines()) == {"Job:Call", "Job:Other"}, "a plan needs no secrets"
    with pytest.raises(InvalidError) as refused:
        lab.run()
    assert [d.code for d in refused.value.diagnostics] == ["SECRET_MISSING"]
    assert refused.value.exit is Exit.INVALID
    assert lab.runs() == []
    monkeypatch.setenv("WHYRUN_TEST_TOKEN", SECRET)
    ran = lab.succeed()
    assert lab.content("Artifact:Call.Text") == f"{len(SECRET)} Bearer"
    assert lab.content("Artifact:Other.Text") == "unset"
    assert files_with(lab.root, SECRET) == []
    assert "using" in (ran.folder / "steps" / "Call" / "stdout.log").read_text()  # type: ignore[operator]
    monkeypatch.setenv("WHYRUN_TEST_TOKEN", "another-value-of-the-token")
    assert lab.plan().headlines() == {}, "the value of a secret is no part of the fingerprint"


def test_a_secret_in_a_failure_or_an_output(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHYRUN_TEST_TOKEN", SECRET)
    lab = project(
        """
        workflow: w
        jobs:
          Raise:
            uses: python
            secrets: [WHYRUN_TEST_TOKEN]
            with: {call: "leak:fail", token: "${{ secrets.WHYRUN_TEST_TOKEN }}"}
            outputs: {Text: {type: text}}
          Write:
            uses: python
            secrets: [WHYRUN_TEST_TOKEN]
            with: {call: "leak:write", token: "${{ secrets.WHYRUN_TEST_TOKEN }}"}
            outputs: {Text: {type: text}}
        """,
        {"leak.py": "def fail(token):\n    raise ValueError('no access with ' + token)\n\n\n"
                    "def write(token):\n    return {'Text': 'my token is ' + token}\n"},
    )  # fmt: skip
    ran = lab.run()
    assert ran.failed == {"Job:Raise": ("FAILED", "ValueError"), "Job:Write": ("FAILED", "SecretInOutput")}
    assert files_with(lab.root, SECRET) == []


def files_with(root: Path, text: str) -> list[str]:
    return [
        str(path.relative_to(root)) for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes()
    ]  # fmt: skip


def test_code_globs_belong_to_the_action(project: Make) -> None:
    lab = project(
        """
        workflow: w
        jobs:
          Tool:
            uses: shell
            code: ["scripts/*.sh"]
            with: {run: 'printf done > "$out_Text"'}
            outputs: {Text: {type: text}}
        """,
        {"scripts/a.sh": "echo a", "scripts/notes.txt": "1"},
    )
    lab.succeed()
    lab.write({"scripts/notes.txt": "2"})
    assert lab.plan().headlines() == {}
    lab.write({"scripts/b.sh": "echo b"})
    (change,) = reasons(lab.plan())["Job:Tool"]
    assert (change["code"], change["binding"], change["source"]) == ("INPUT_CHANGED", "action", "Input:Tool.action")
    lab.succeed()
    lab.write({"scripts/a.sh": "echo A"})
    assert codes(lab.plan()) == {"Job:Tool": ["INPUT_CHANGED"]}


# --- time ----------------------------------------------------------------------------------------------------------


def test_a_timeout_kills_the_whole_tree_and_keeps_the_scratch(project: Make, tmp_path: Path) -> None:
    mark = "600." + "".join(c for c in sha256(str(tmp_path).encode()).hexdigest() if c.isdigit())[:8]
    lab = project(
        f"""
        workflow: w
        jobs:
          Slow:
            uses: shell
            timeout: 6s
            with: {{run: 'printf part > "$out_Text"; sleep {mark} & sleep {mark}'}}
            outputs: {{Text: {{type: text}}}}
          After:
            uses: shell
            with: {{text: "${{{{ jobs.Slow.outputs.Text }}}}", run: 'cat "$text" > "$out_Text"'}}
            outputs: {{Text: {{type: text}}}}
        """
    )
    ran = lab.run()
    assert ran.exit_code == 1
    assert ran.failed == {"Job:Slow": ("TIMED_OUT", "TimedOut")}
    assert ran.blocked == {"Job:After": ["Job:Slow"]}
    wait_until(lambda: processes_with(f"sleep\0{mark}") == [])
    scratch = ran.folder / "steps" / "Slow" / "scratch"  # type: ignore[operator]
    assert [p.read_text() for p in scratch.rglob("*") if p.is_file() and p.name.startswith("Text")] == ["part"]
    (reason, *_) = reasons(lab.plan())["Job:Slow"]
    assert (reason["code"], reason["error_type"]) == ("RETRY_PREVIOUS_FAILURE", "TimedOut")
    assert any(status == "TIMED_OUT" for status, _ in ran.heard.lines)


def test_each_retry_is_a_separate_attempt(project: Make) -> None:
    lab = project(
        """
        workflow: w
        jobs:
          Flaky:
            uses: python
            retries: {max: 3, backoff: 10ms}
            with: {call: "flaky:go"}
            outputs: {N: {type: integer}}
          Use:
            uses: shell
            with: {n: "${{ jobs.Flaky.outputs.N }}", run: 'printf "$n" > "$out_T"'}
            outputs: {T: {type: text}}
        """,
        {"flaky.py": """
            from pathlib import Path

            COUNT = Path(__file__).parent / "count"

            def go():
                n = int(COUNT.read_text()) + 1 if COUNT.exists() else 1
                COUNT.write_text(str(n))
                if n < 3:
                    raise RuntimeError(f"try {n}")
                return {"N": n}
            """},
    )  # fmt: skip
    ran = lab.succeed()
    assert ran.starts == [("Job:Flaky", 1), ("Job:Flaky", 2), ("Job:Flaky", 3), ("Job:Use", 1)]
    assert [(e.error, e.will_retry) for e in ran.of(ev.StepFailed)] == [("try 1", True), ("try 2", True)]
    assert ran.blocked == {}
    assert lab.content("Artifact:Use.T") == "3"
    assert lab.plan().headlines() == {}
    lab.write({"count": "-9"})
    ran = lab.run(force=["Job:Flaky"])
    assert [(e.error, e.will_retry) for e in ran.of(ev.StepFailed)] == [
        ("try -8", True), ("try -7", True), ("try -6", True), ("try -5", False),
    ]  # fmt: skip
    assert ran.blocked == {"Job:Use": ["Job:Flaky"]}
    (reason, *_) = reasons(lab.plan())["Job:Flaky"]
    assert (reason["code"], reason["run"], reason["attempt"], reason["error"]) == (
        "RETRY_PREVIOUS_FAILURE", "r0002", 4, "try -5",
    )  # fmt: skip


def test_resource_limits_keep_jobs_from_running_together(project: Make) -> None:
    lab = project(
        """
        workflow: w
        loops: {i: {count: 3}}
        jobs:
          Gpu:
            for: [i]
            uses: python
            resources: {gpu: 1}
            with: {call: "steps:meet", me: "${{ i }}"}
            outputs: {T: {type: text}}
        """,
        {"steps.py": MEET, "expected": "1"},
    )
    lab.succeed(limits={"gpu": 1})
    assert overlaps(lab) == 0
    lab.write({"expected": "2", **{f"began-{i}": None for i in range(3)}})
    lab.succeed(limits={"gpu": 2}, force=["Job:Gpu[*]"])
    assert overlaps(lab) > 0


def overlaps(lab: Lab) -> int:
    spans = sorted(tuple(map(int, lab.content(f"Artifact:Gpu.T[{i}]").split())) for i in range(3))
    return sum(later[0] < earlier[1] for earlier, later in pairwise(spans))


# --- reuse ---------------------------------------------------------------------------------------------------------


def test_deterministic_results_are_reused_across_jobs(project: Make) -> None:
    text = """
        workflow: w
        inputs: {Words: {type: "string[]", default: [a, b]}}
        loops: {i: {each: inputs.Words}}
        jobs:
          Hash:
            for: [i]
            uses: shell
            deterministic: true
            with: {word: "${{ inputs.Words[i] }}", run: 'printf "$word$word" > "$out_T"'}
            outputs: {T: {type: text, path: "out/${{ i }}.txt"}}
    """
    lab = project(text)
    lab.succeed()
    lab.edit("workflow.yaml", "[a, b]", "[b, c, a]")
    plan = lab.plan()
    assert [(j.id, j.reuse and (j.reuse.run, j.reuse.step)) for j in plan.planned] == [
        ("Job:Hash[0]", ("r0001", "Job:Hash[1]")),
        ("Job:Hash[1]", None),
        ("Job:Hash[2]", ("r0001", "Job:Hash[0]")),
    ]
    ran = lab.succeed()
    assert (ran.executed, ran.reused) == (["Job:Hash[1]"], {"Job:Hash[0]": "r0001", "Job:Hash[2]": "r0001"})
    assert [lab.read(f"out/{i}.txt") for i in range(3)] == ["bb", "cc", "aa"]
    assert {e.step_id: e.from_step for e in ran.of(ev.StepSkipped)} == {
        "Job:Hash[0]": "Job:Hash[1]", "Job:Hash[2]": "Job:Hash[0]",
    }  # fmt: skip
    undeclared = project(text.replace("deterministic: true", "reuse: instance"))
    undeclared.succeed()
    undeclared.edit("workflow.yaml", "[a, b]", "[b, a]")
    assert undeclared.succeed().executed == ["Job:Hash[0]", "Job:Hash[1]"], "each keeps to its own results"


# --- shapes --------------------------------------------------------------------------------------------------------


def test_imports_with_inputs(project: Make) -> None:
    lab = project(
        """
        workflow: main
        inputs: {Topic: {type: string, default: cinema}}
        imports:
          Intro: {workflow: ./parts/intro.yaml, with: {Subject: "${{ inputs.Topic }}", Loud: true}}
        jobs:
          Join:
            uses: python
            with: {call: "echo:received", story: "${{ jobs.Intro.Script.outputs.Got }}"}
            outputs: {Got: {type: json}}
        """,
        {
            "echo.py": ECHO,
            "parts/intro.yaml": """
                workflow: intro
                inputs:
                  Subject: {type: string, required: true}
                  Loud: {type: boolean, default: false}
                  Size: {type: integer, default: 7}
                jobs:
                  Script:
                    uses: python
                    with:
                      call: "echo:received"
                      about: on ${{ inputs.Subject }}
                      loud: ${{ inputs.Loud }}
                      size: ${{ inputs.Size }}
                    outputs: {Got: {type: json, path: script.json}}
                """,
        },
    )
    ran = lab.succeed()
    assert ran.executed == ["Job:Intro/Script", "Job:Join"]
    assert lab.content("Artifact:Intro/Script.Got") == {"about": "on cinema", "loud": True, "size": 7}
    assert lab.content("Artifact:Join.Got") == {"story": {"about": "on cinema", "loud": True, "size": 7}}
    assert (lab.root / "Intro" / "script.json").is_file()
    planned = {job["id"]: job["bindings"] for job in ran.plan.to_json()["jobs"]}
    assert planned == {
        "Job:Intro/Script": {"loud": "Input:Intro/Loud", "size": "Input:Intro/Size"},
        "Job:Join": {"story": "Artifact:Intro/Script.Got"},
    }
    assert lab.plan().headlines() == {}
    lab.edit("workflow.yaml", "default: cinema", "default: opera")
    assert codes(lab.plan()) == {"Job:Intro/Script": ["INPUT_CHANGED"], "Job:Join": ["UPSTREAM_DIRTY"]}
    with pytest.raises(InvalidError) as refused:
        lab.plan(sets=["Intro/Topic=x"])
    assert refused.value.diagnostics[0].code == "INPUT_UNKNOWN"


def test_exclude_and_include(project: Make) -> None:
    lab = project(
        """
        workflow: w
        loops:
          net: {values: [asia, cancer]}
          seed: {range: 0-1}
        jobs:
          Learn:
            for: [net, seed]
            exclude: [{net: asia, seed: 1}]
            include: [{net: alarm, seed: 7}]
            uses: python
            with: {call: "echo:received", at: ["${{ net }}", "${{ seed }}"]}
            outputs: {Got: {type: json}}
          Best:
            for: [net]
            uses: python
            with: {call: "echo:received", all: "${{ jobs.Learn.outputs.Got[net, :] }}"}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO},
    )
    ran = lab.succeed()
    assert ran.executed == [
        "Job:Best[asia]", "Job:Best[cancer]",
        "Job:Learn[alarm][7]", "Job:Learn[asia][0]", "Job:Learn[cancer][0]", "Job:Learn[cancer][1]",
    ]  # fmt: skip
    assert lab.content("Artifact:Learn.Got[alarm][7]") == {"at": ["alarm", 7]}
    assert lab.content("Artifact:Best.Got[asia]") == {"all": [{"at": ["asia", 0]}]}
    assert lab.content("Artifact:Best.Got[cancer]") == {"all": [{"at": ["cancer", 0]}, {"at": ["cancer", 1]}]}


def test_directories_and_globs(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs:
          Site: {type: directory, default: site}
          Pages: {type: "text[]", default: "pages/*.md"}
        jobs:
          Copy:
            uses: shell
            with:
              site: ${{ inputs.Site }}
              run: mkdir "$out_Tree"; cp -r "$site"/. "$out_Tree"; echo new > "$out_Tree/extra.txt"
            outputs: {Tree: {type: directory, path: out/tree}}
          Look:
            uses: python
            with: {call: "echo:received", tree: "${{ jobs.Copy.outputs.Tree }}", pages: "${{ inputs.Pages }}"}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO, "site/a.txt": "A", "site/sub/b.txt": "B", "pages/2.md": "two", "pages/10.md": "ten"},
    )
    lab.succeed()
    assert lab.content("Artifact:Look.Got") == {
        "tree": "folder:a.txt=A extra.txt=new\n sub/b.txt=B",
        "pages": ["file:ten", "file:two"],  # sorted by name
    }
    assert lab.read("out/tree/sub/b.txt") == "B"
    assert lab.plan().headlines() == {}
    lab.write({"site/sub/b.txt": "changed"})
    assert codes(lab.plan()) == {"Job:Copy": ["INPUT_CHANGED"], "Job:Look": ["UPSTREAM_DIRTY"]}
    lab.write({"site/sub/b.txt": "B", "pages/3.md": "three"})
    assert codes(lab.plan()) == {"Job:Look": ["INPUT_CHANGED"]}
    lab.write({"pages/3.md": None, "out/tree/a.txt": "edited"})
    assert reasons(lab.plan())["Job:Copy"] == [
        {"code": "MISSING_OUTPUT", "artifact": "Artifact:Copy.Tree", "change": "changed", "path": "out/tree"}
    ]
    ran = lab.succeed()
    assert ran.reused == {"Job:Copy": "r0001"}
    assert lab.read("out/tree/a.txt") == "A"


def test_json_leaves_and_value_outputs_in_expressions(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {Parts: {type: integer, default: 2}}
        loops: {part: {count: inputs.Parts}}
        jobs:
          Script:
            uses: python
            with: {call: "tale:write", parts: "${{ inputs.Parts }}"}
            outputs:
              Mood: {type: string}
              Story: {type: json, leaves: {"Parts[part].Title": string, "Parts[part].Length": integer}}
          Film:
            for: [part]
            if: ${{ jobs.Script.outputs.Story.Parts[part].Length > 1 and jobs.Script.outputs.Mood != "sad" }}
            uses: python
            with:
              call: "echo:received"
              title: ${{ upper(jobs.Script.outputs.Story.Parts[part].Title) }}
              line: "part ${{ part }} of ${{ inputs.Parts }}: ${{ jobs.Script.outputs.Story.Parts[part].Length * 2 }}"
              leaf: ${{ jobs.Script.outputs.Story.Parts[part].Title }}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO, "tale.py": """
            def write(parts):
                return {"Mood": "gay", "Story": {"Parts": [{"Title": f"t{i}", "Length": i + 1} for i in range(parts)]}}
            """},
    )  # fmt: skip
    ran = lab.succeed()
    assert ran.inactive == {"Job:Film[0]": "condition_false"}
    assert lab.content("Artifact:Film.Got[1]") == {"title": "T1", "line": "part 1 of 2: 4", "leaf": "t1"}
    recorded = [e for e in ran.of(ev.ArtifactAvailable) if e.step_id == "Job:Script" and e.type != "json"]
    values = {e.artifact: e.value for e in recorded}
    assert values == {
        "Artifact:Script.Mood": "gay",
        "Artifact:Script.Story.Parts[0].Title": "t0", "Artifact:Script.Story.Parts[0].Length": 1,
        "Artifact:Script.Story.Parts[1].Title": "t1", "Artifact:Script.Story.Parts[1].Length": 2,
    }  # fmt: skip
    assert lab.plan().totals == {"jobs": 3, "planned": 0, "reused": 0, "clean": 2, "deferred": 0, "inactive": 1}
    # a leaf that changed moves its own reader only
    lab.edit("tale.py", 'f"t{i}"', 'f"t{i}" if i else "zero"')
    ran = lab.succeed()
    assert (ran.executed, ran.reused) == (["Job:Script"], {"Job:Film[1]": "r0001"})


# --- interruption, locks, others' files ----------------------------------------------------------------------------

SLOW = """
    workflow: w
    jobs:
      Quick:
        uses: shell
        with: {run: 'printf quick > "$out_T"'}
        outputs: {T: {type: text, path: out/quick.txt}}
      Slow:
        uses: python
        with: {call: "slow:go", quick: "${{ jobs.Quick.outputs.T }}"}
        outputs: {T: {type: text}}
      Later:
        uses: shell
        with: {t: "${{ jobs.Slow.outputs.T }}", run: 'cat "$t" > "$out_T"'}
        outputs: {T: {type: text}}
"""

STUBBORN = """
    import signal, time
    from pathlib import Path

    HERE = Path(__file__).parent

    def go(quick):
        if (HERE / "stubborn").exists():
            signal.signal(signal.SIGTERM, lambda *_: (HERE / "asked").touch())
        (HERE / "began").write_text("x")
        if (HERE / "fast").exists():
            return {"T": "done"}
        time.sleep(600)
"""


def interrupted_run(lab: Lab) -> Ran:
    """The last run, read back from its folder."""
    name = lab.runs()[-1]
    from project_lab import Heard

    return Ran(None, Heard(), lab.run_folder(name), lab.events(name))  # type: ignore[arg-type]


def test_the_first_ctrl_c_ends_gracefully_with_complete_evidence(project: Make) -> None:
    lab = project(SLOW, {"slow.py": STUBBORN})
    run = Process(lab)
    run.wait_for_file("began")
    run.signal(signal.SIGINT)
    code, told = run.end()
    assert code == 130, "and a step that heeds SIGTERM is not waited for"
    ran = interrupted_run(lab)
    assert ran.executed == ["Job:Quick"]
    assert ran.failed == {"Job:Slow": ("INTERRUPTED", "Interrupted")}
    assert ran.blocked == {}, "what was not started is not started"
    (end,) = ran.of(ev.RunComplete)
    assert end.state == "interrupted"
    assert isinstance(ran.events[-1], ev.RunComplete)
    assert evidence_is_complete(ran.folder)  # type: ignore[arg-type]
    status = ran.status()
    assert (status["state"], status["exit_code"]) == ("interrupted", 130)
    assert (status["ok"], status["steps_interrupted"]) == (False, 1)
    assert "interrupted" in told
    assert reasons(lab.plan())["Job:Slow"][0] == {
        "code": "RETRY_PREVIOUS_FAILURE", "run": "r0001", "attempt": 1, "error_type": "Interrupted",
        "error": "interrupted",
    }  # fmt: skip
    lab.write({"fast": ""})
    assert lab.succeed().executed == ["Job:Later", "Job:Slow"]


def test_the_second_ctrl_c_ends_at_once(project: Make) -> None:
    lab = project(SLOW, {"slow.py": STUBBORN, "stubborn": ""})
    run = Process(lab)
    run.wait_for_file("began")
    run.signal(signal.SIGINT)
    run.wait_for_file("asked")
    assert run.process.poll() is None, "the stubborn step is given its time after the first"
    run.signal(signal.SIGINT)
    code, _ = run.end()
    assert code == 130
    ran = interrupted_run(lab)
    assert ran.failed == {"Job:Slow": ("INTERRUPTED", "Interrupted")}
    assert evidence_is_complete(ran.folder)  # type: ignore[arg-type]


def test_two_runs_at_once_are_refused(project: Make) -> None:
    lab = project(SLOW, {"slow.py": STUBBORN})
    run = Process(lab)
    run.wait_for_file("began")
    run.wait_for_start("Job:Slow")
    with pytest.raises(StateError) as refused:
        lab.run()
    (diagnostic,) = refused.value.diagnostics
    assert (diagnostic.code, refused.value.exit) == ("LOCKED", Exit.STATE)
    assert str(run.process.pid) in diagnostic.message + (diagnostic.hint or "")
    plan = lab.plan()
    assert plan.headlines() == {"Job:Slow": "MISSING_OUTPUT", "Job:Later": "MISSING_OUTPUT"}, "planning needs no lock"
    assert [job.id for job in plan.jobs if job.is_running] == ["Job:Slow"]
    second = Process(lab)
    assert second.end()[0] == 3
    run.signal(signal.SIGINT)
    assert run.end()[0] == 130
    assert lab.runs() == ["r0001"]


def test_a_foreign_file_is_saved_before_it_is_overwritten(project: Make) -> None:
    lab = project(SLOW, {"slow.py": STUBBORN, "fast": "", "out/quick.txt": "the user's own"})
    ran = lab.succeed()
    mine = sha256(b"the user's own").hexdigest()
    assert [(e.path, e.sha256) for e in ran.of(ev.FileDisplaced)] == [("out/quick.txt", mine)]
    assert lab.blob(mine).read_text() == "the user's own"
    assert lab.read("out/quick.txt") == "quick"
    assert any("out/quick.txt" in note for note in ran.heard.notes)
    lab.succeed(force=["Job:Quick"])
    assert [e for e in lab.events("r0002") if isinstance(e, ev.FileDisplaced)] == []


def test_a_retry_within_a_run_recalls_and_another_prompt_does_not(project: Make) -> None:
    lab = project(PAID, {"paid.py": PAID_CODE, "answer": "", "fail-once": ""})
    ran = lab.succeed()
    assert ran.starts == [("Job:Ask", 1), ("Job:Ask", 2)]
    assert lab.content("Artifact:Ask.Answer") == {"request": "req-1"}
    lab.edit("workflow.yaml", "a cat", "a dog")
    lab.succeed()
    assert lab.content("Artifact:Ask.Answer") == {"request": "req-2"}
    assert lab.read("orders") == "a cat\na dog\n"
