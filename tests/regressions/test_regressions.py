"""Mistakes that earlier systems made. Each test names one, and fails if the mistake comes back."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import whyrun
from fork_server import run_command
from project_lab import ECHO, PAID, PAID_CODE, Heard, Lab, Process, codes, reasons
from scenarios.harness import Scenario, names, read_logs
from whyrun.errors import InvalidError, StateError
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.log import events as ev
from whyrun.planning.answers.explain import explain_json, render_explain
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.planning.reasons import CODES
from whyrun.snapshot.history.replay import replay_snapshot

Make = Callable[..., Lab]
Load = Callable[[str], Scenario]

LESSONS = range(1, 43)
TESTS = Path(__file__).parents[1]


def sha(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def functions(beginning: str) -> list[tuple[Path, ast.FunctionDef]]:
    """Every test whose name begins so, wherever it stands."""
    texts = {file: file.read_text() for file in sorted(TESTS.rglob("test_*.py"))}
    return [
        (file, node)
        for file, text in texts.items()
        if f"def {beginning}" in text
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith(beginning)
    ]


def test_every_lesson_has_its_test() -> None:
    """Most stand here. What has to be shown at every place, of secrets and of parity, stands where those are tested."""
    found = functions("test_lesson_")
    numbered = [node for _, node in found if re.match(r"test_lesson_\d\d_", node.name)]
    stated = {int(node.name[12:14]) for node in numbered if ast.get_docstring(node)}
    assert sorted(stated) == list(LESSONS)
    here = [node for file, node in found if file == Path(__file__)]
    assert all(ast.get_docstring(node) for node in here), "each states its lesson"


# --- planning ------------------------------------------------------------------------------------------------------


def test_lesson_01_a_parent_does_not_stand_in_for_a_missing_artifact(scenario: Load) -> None:
    """ "All caught up" while an artifact was missing, because a parent object or a manifest entry stood in for it."""
    story = scenario("missing-leaf").with_log()
    available = story.snapshot().available_artifacts
    assert "Artifact:Script.Story" in available
    assert "Artifact:Script.Story.Segments[0].HasTransition" not in available
    (run,) = story.opened.state.runs()
    (run.path / "manifest.yaml").write_text('{"jobs": [{"id": "Job:Script", "outputs": ["all of them"]}]}')
    assert reasons(story.plan())["Job:Script"] == [
        {"code": "MISSING_OUTPUT", "artifact": "Artifact:Script.Story.Segments[0].HasTransition"}
    ]


def test_lesson_02_a_failed_job_is_retried_though_some_outputs_exist(scenario: Load) -> None:
    """Failed job not retried, because some of its outputs existed."""
    story = scenario("failed-image").with_log()
    published = story.root / "out" / "preview-0.txt"
    published.parent.mkdir()
    published.write_text("a portrait, cinema")  # what the good run before published is still there
    (job, *_) = story.plan().planned
    assert (job.id, [r.code for r in job.reasons]) == (
        "Job:ThenImage[0]", ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT", "MISSING_OUTPUT", "INPUT_CHANGED"],
    )  # fmt: skip
    assert {"Artifact:ThenImage.Image[0]", "Artifact:ThenImage.Preview[0]"} == story.snapshot().failed_artifacts


def test_lesson_03_changing_one_photo_makes_only_its_own_job_dirty(scenario: Load) -> None:
    """Changing one array element re-ran every loop instance (index stripped before hashing)."""
    plan = scenario("then-and-now").after_success().with_changed("Input:ThenImages[2]").plan()
    assert plan.headlines() == {"Job:ThenImage[2]": "INPUT_CHANGED", "Job:Montage": "UPSTREAM_DIRTY"}


def test_lesson_04_instances_keep_their_own_bindings(project: Make) -> None:
    """Instance 0 got element 2: bindings of one loop instance overwritten by another's."""
    lab = project(
        """
        workflow: w
        inputs: {Words: {type: "string[]", default: [w0, w1, w2, w3, w4, w5, w6, w7]}}
        loops: {i: {each: inputs.Words}}
        jobs:
          Take:
            for: [i]
            uses: python
            with: {call: "echo:received", words: ["${{ inputs.Words[i] }}"], me: "${{ i }}"}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO},
    )
    ran = lab.succeed(jobs=2)
    for i in range(8):
        assert lab.content(f"Artifact:Take.Got[{i}]") == {"words": [f"w{i}"], "me": i}
        assert ran.cfg(f"Take[{i}]")["inputs"]["words[0]"]["id"] == f"Input:Words[{i}]"
    starts = {e.step_id: e.bindings["words[0]"][0]["id"] for e in ran.of(ev.StepStart)}
    assert starts == {f"Job:Take[{i}]": f"Input:Words[{i}]" for i in range(8)}


def test_lesson_05_fan_in_members_are_in_the_fingerprint(scenario: Load) -> None:
    """Fan-in members left out of the fingerprint: a changed member left the consumer clean."""
    story = scenario("wide-fan-in").with_log()
    (reason,) = reasons(story.plan())["Job:Sum"]
    assert reason["code"] == "INPUT_CHANGED"
    assert (reason["binding"], reason["source"]) == ("values", "Artifact:Part.Value[5]")
    # even where the list of members can no longer be read, the change is seen
    for blob in (story.source / "blobs").iterdir():
        (story.state / "store" / blob.name[:2] / blob.name[2:]).unlink()
    assert codes(story.plan()) == {"Job:Sum": ["INPUT_CHANGED"]}


WIRED = """
    workflow: w
    inputs: {A: {type: file, default: a.txt}, B: {type: file, default: b.txt}}
    jobs:
      Morph:
        uses: python
        with:
          call: "echo:received"
          start: ${{ inputs.A }}
          end: ${{ inputs.B }}
          strength: 3
        outputs: {Got: {type: json}}
"""


def test_lesson_06_swapped_wiring_is_noticed(project: Make) -> None:
    """Wiring swapped (start ↔ end image), same sources: not noticed, because hashes were sorted without names."""
    lab = project(WIRED, {"echo.py": ECHO, "a.txt": "A", "b.txt": "B"})
    lab.succeed()
    lab.edit("workflow.yaml", "start: ${{ inputs.A }}", "start: ${{ inputs.B }}")
    lab.edit("workflow.yaml", "end: ${{ inputs.B }}", "end: ${{ inputs.A }}")
    assert [(r["binding"], r["old_source"], r["source"]) for r in reasons(lab.plan())["Job:Morph"]] == [
        ("end", "Input:B", "Input:A"),
        ("start", "Input:A", "Input:B"),
    ]
    lab.succeed()
    assert lab.content("Artifact:Morph.Got") == {"start": "file:B", "end": "file:A", "strength": 3}


def test_lesson_07_a_removed_parameter_is_seen(project: Make) -> None:
    """A removed optional input or parameter was never seen."""
    lab = project(WIRED, {"echo.py": ECHO, "a.txt": "A", "b.txt": "B"})
    lab.succeed()
    lab.edit("workflow.yaml", "      strength: 3\n", "")
    (reason,) = reasons(lab.plan())["Job:Morph"]
    assert reason == {
        "code": "INPUT_CHANGED", "binding": "strength", "old_source": "Input:Morph.with.strength",
        "old": reason["old"], "old_value": 3,
    }  # fmt: skip
    lab.edit("workflow.yaml", "      end: ${{ inputs.B }}\n", "")
    assert [(r["binding"], r["old_source"], r.get("new")) for r in reasons(lab.plan())["Job:Morph"]] == [
        ("end", "Input:B", None),
        ("strength", "Input:Morph.with.strength", None),
    ]


CHAIN = """
    workflow: w
    inputs: {Words: {type: file, default: words.txt}, Title: {type: string, default: T}}
    jobs:
      Sort:
        uses: shell
        with: {words: "${{ inputs.Words }}", run: 'grep -v bad "$words" | sort -u > "$out_Sorted"'}
        outputs: {Sorted: {type: text}}
      Page:
        uses: shell
        with:
          sorted: ${{ jobs.Sort.outputs.Sorted }}
          title: ${{ inputs.Title }}
          run: echo "$title" > "$out_Text"; cat "$sorted" >> "$out_Text"
        outputs: {Text: {type: text, path: out/page.txt}}
      Copy:
        uses: shell
        with: {page: "${{ jobs.Page.outputs.Text }}", run: 'cat "$page" > "$out_Text"'}
        outputs: {Text: {type: text, path: out/copy.txt}}
"""


def test_lesson_08_a_users_own_version_stays(project: Make) -> None:
    """A user's edit of an artifact was overwritten by the plan after the next one."""
    lab = project(CHAIN, {"words.txt": "b\na\n", "mine.txt": "my page\n"})
    lab.succeed()
    adopt_file(lab.opened(), "Artifact:Page.Text", lab.root / "mine.txt", Heard())
    assert lab.read("out/page.txt") == "my page\n"
    assert lab.succeed().executed == ["Job:Copy"]
    assert lab.plan().headlines() == {}
    # an upstream that runs again and comes out the same
    lab.write({"words.txt": "a\nb\nb\n"})
    ran = lab.succeed()
    assert (ran.executed, ran.reused["Job:Page"]) == (["Job:Sort"], "r0002")
    # a deleted file
    lab.write({"out/page.txt": None})
    assert lab.succeed().executed == []
    assert (lab.read("out/page.txt"), lab.read("out/copy.txt")) == ("my page\n", "my page\n")
    # a parameter changed and set back
    lab.succeed(sets=["Title=Other"])
    assert lab.read("out/page.txt") == "Other\na\nb\n"
    assert lab.succeed().executed == []
    assert (lab.read("out/page.txt"), lab.read("out/copy.txt")) == ("my page\n", "my page\n")


def test_lesson_09_blocked_is_no_failure_of_the_job_itself(project: Make) -> None:
    """ "Blocked" recorded as failure of the job itself, masking its earlier good artifacts."""
    lab = project(CHAIN, {"words.txt": "b\na\n"})
    lab.succeed()
    lab.write({"words.txt": "bad\n"})
    ran = lab.run()
    assert ran.blocked == {"Job:Page": ["Job:Sort"], "Job:Copy": ["Job:Page"]}
    snapshot = lab.snapshot()
    assert {job: r.status for job, r in snapshot.latest_job_status.items()} == {
        "Job:Sort": "failed", "Job:Page": "succeeded", "Job:Copy": "succeeded",
    }  # fmt: skip
    assert set(snapshot.available_artifacts) == {"Artifact:Page.Text", "Artifact:Copy.Text"}
    lab.write({"words.txt": "b\na\n"})
    plan = lab.plan()
    assert codes(plan) == {"Job:Sort": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]}, "the good result is known again"
    ran = lab.succeed()
    assert (ran.executed, ran.reused) == ([], {"Job:Sort": "r0001"})


def test_lesson_10_an_identical_output_does_not_rerun_its_consumers(project: Make) -> None:
    """Identical regenerated output still re-ran all consumers (no early cut-off at run time)."""
    lab = project(CHAIN, {"words.txt": "b\na\n"})
    lab.succeed()
    lab.write({"words.txt": "a\na\nb\n"})
    ran = lab.succeed()
    assert (ran.executed, ran.reused) == (["Job:Sort"], {"Job:Page": "r0001", "Job:Copy": "r0001"})
    assert {step for step, _ in ran.starts} == {"Job:Sort"}


def test_lesson_11_availability_means_that_the_bytes_are_there(project: Make) -> None:
    """Availability never checked that the bytes were still there."""
    lab = project(CHAIN, {"words.txt": "b\na\n"})
    lab.succeed()
    assert lab.plan().headlines() == {}
    lab.blob(sha("a\nb\n")).unlink()
    lab.write({"out/copy.txt": None})
    assert reasons(lab.plan()) == {
        "Job:Sort": [{"code": "MISSING_OUTPUT", "artifact": "Artifact:Sort.Sorted", "change": "lost"}],
        "Job:Page": [{"code": "UPSTREAM_DIRTY", "job": "Job:Sort"}],
        "Job:Copy": [
            {"code": "MISSING_OUTPUT", "artifact": "Artifact:Copy.Text", "change": "deleted", "path": "out/copy.txt"},
            {"code": "UPSTREAM_DIRTY", "job": "Job:Page"},
        ],
    }
    assert lab.succeed().executed == ["Job:Sort"]
    assert lab.read("out/copy.txt") == "T\na\nb\n"


def test_lesson_12_what_was_planned_is_what_is_explained_and_stays_on_record(project: Make) -> None:
    """Explain recomputed reasons and printed something else than was planned; past reasons were not stored."""
    lab = project(CHAIN, {"words.txt": "b\na\n"})
    first = lab.succeed()
    lab.write({"words.txt": "c\n"})
    planned = lab.plan()
    told = render_explain(planned)
    second = lab.succeed()
    lab.write({"words.txt": "d\n", "out/page.txt": "edited"})  # the world moves on
    assert render_explain(second.plan) == told
    opened = lab.opened()
    for ran, through in ((first, 0), (second, 1)):
        assert ran.folder is not None
        stored = (ran.folder / "plan.json").read_bytes()
        (computed,) = ran.of(ev.PlanComputed)
        snapshot = replay_snapshot(opened.store.read(computed.snapshot_sha256), opened.history(through=through))
        again = compute_execution_plan(snapshot, PlanOptions())
        assert again.to_bytes() == stored == ran.plan.to_bytes()
        assert render_explain(again) == render_explain(ran.plan)
    assert json.loads((second.folder / "plan.json").read_bytes())["jobs"][0]["reasons"][0] == {  # type: ignore[operator]
        "code": "INPUT_CHANGED", "binding": "words", "source": "Input:Words", "old": sha("b\na\n"), "new": sha("c\n"),
    }  # fmt: skip


def test_lesson_13_parameters_and_new_seeds_are_noticed(project: Make) -> None:
    """Changed parameter, stale skip (key made of matrix values only); added seed, stale aggregate."""
    lab = project(
        """
        workflow: w
        inputs: {Alpha: {type: number, default: 0.05}, Seeds: {type: "integer[]", default: [1, 2]}}
        loops: {seed: {values: inputs.Seeds}}
        jobs:
          Learn:
            for: [seed]
            uses: python
            with: {call: "echo:received", seed: "${{ seed }}", alpha: "${{ inputs.Alpha }}"}
            outputs: {Got: {type: json}}
          Mean:
            uses: python
            with: {call: "echo:received", all: "${{ jobs.Learn.outputs.Got[:] }}"}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO},
    )
    lab.succeed()
    assert codes(lab.plan(sets=["Alpha=0.01"])) == {
        "Job:Learn[1]": ["INPUT_CHANGED"], "Job:Learn[2]": ["INPUT_CHANGED"],
        "Job:Mean": ["UPSTREAM_DIRTY", "UPSTREAM_DIRTY"],
    }  # fmt: skip
    lab.edit("workflow.yaml", "[1, 2]", "[1, 2, 3]")
    assert codes(lab.plan()) == {"Job:Learn[3]": ["MISSING_OUTPUT"], "Job:Mean": ["UPSTREAM_DIRTY"]}
    assert lab.succeed().executed == ["Job:Learn[3]", "Job:Mean"]
    assert [one["seed"] for one in lab.content("Artifact:Mean.Got")["all"]] == [1, 2, 3]


@pytest.mark.parametrize("name", names())
def test_lesson_14_reasons_are_put_into_words_in_one_place(name: str, tmp_path: Path) -> None:
    """Reason prose in three places that disagreed."""
    story = Scenario.load(name, tmp_path / name)
    if any((story.source / "runs").glob("r*")):
        story.with_log()
    plan = story.plan(**story.facts["options"])
    told = explain_json(plan)
    words = {
        (job["id"], reason["code"], reason["text"])
        for block in (*(layer["jobs"] for layer in told["layers"]), told["deferred"])
        for job in block
        for reason in job["reasons"]
    }
    text = render_explain(plan, show_all=True)
    for _, code, particulars in words:
        assert re.search(rf"{code} +{re.escape(particulars)}$", text, re.MULTILINE)


def test_lesson_14_no_other_module_spells_out_the_codes() -> None:
    """Reason prose in three places that disagreed. Each code is written once, in the class of the reason."""
    package = Path(whyrun.__file__).parent
    written = [
        node.value
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in CODES
    ]
    assert sorted(written) == sorted(CODES)


def test_lesson_15_cosmetic_edits_rerun_nothing(project: Make) -> None:
    """Reruns after cosmetic edits (comments, key order, whitespace in the workflow or an action's source)."""
    lab = project(WIRED, {"echo.py": ECHO, "a.txt": "A", "b.txt": "B"})
    lab.succeed()
    text = lab.read("workflow.yaml")
    lab.write({"workflow.yaml": "# why\n" + text.replace("      start: ${{ inputs.A }}\n", "").replace(
        "      strength: 3\n", "      strength:   3   # strong\n      start: '${{inputs.A}}'\n")})  # fmt: skip
    layout = "def received(\n    **given,\n):\n    '''Doc.'''"
    lab.write({"echo.py": '"""Docstring."""\n# comment\n' + ECHO.replace("def received(**given):", layout)})
    plan = lab.plan()
    assert (plan.headlines(), plan.totals["clean"]) == ({}, 1)


def test_lesson_16_an_input_edited_while_a_step_ran_is_not_what_it_read(project: Make) -> None:
    """Provenance taken after the step: an input edited while it ran was recorded as what it had read."""
    lab = project(
        """
        workflow: w
        inputs: {Text: {type: file, default: text.txt}}
        jobs:
          Read:
            uses: python
            with: {call: "reads:slowly", text: "${{ inputs.Text }}"}
            outputs: {Copy: {type: text, path: out/copy.txt}}
        """,
        {
            "text.txt": "before",
            "reads.py": """
                from pathlib import Path

                HERE = Path(__file__).parent

                def slowly(text):
                    copy = text.read_text()
                    if not (HERE / "quiet").exists():
                        (HERE / "text.txt").write_text("during")
                    return {"Copy": copy}
                """,
        },
    )
    ran = lab.run()
    assert ran.failed == {"Job:Read": ("FAILED", "InputChangedDuringRun")}
    assert not (lab.root / "out" / "copy.txt").exists(), "nothing is published"
    (start,) = ran.of(ev.StepStart)
    assert start.bindings["text"] == [{"id": "Input:Text", "sha256": sha("before"), "as": "f.txt"}]
    lab.write({"quiet": ""})
    lab.succeed()
    assert lab.read("out/copy.txt") == "during"


def test_lesson_17_no_locale_and_no_machine_path_in_hashes(project: Make) -> None:
    """Hash order that depends on the locale; paths of one machine inside fingerprints."""
    text = """
        workflow: w
        inputs: {Files: {type: "file[]", default: "f/*"}, Folder: {type: directory, default: f}}
        loops: {i: {each: inputs.Files}}
        jobs:
          One:
            for: [i]
            uses: python
            with: {call: "echo:received", file: "${{ inputs.Files[i] }}"}
            outputs: {Got: {type: json, path: "out/${{ i }}.json"}}
          All:
            uses: shell
            with: {files: "${{ inputs.Files }}", folder: "${{ inputs.Folder }}", run: 'cat "${files[@]}" > "$out_Text"'}
            outputs: {Text: {type: text}}
    """
    files = {"echo.py": ECHO, "f/B.txt": "1", "f/a.txt": "2", "f/ä.txt": "3", "f/_.txt": "4"}
    here, there = project(text, files), project(text, files)
    runs = []
    for lab in (here, there):
        ran = lab.succeed(jobs=1)
        runs.append(
            (
                ran.plan.digest,
                {e.step_id: (e.fingerprint, e.bindings) for e in ran.of(ev.StepStart)},
                {p.name: p.read_bytes() for p in (ran.folder / "cfg").iterdir()},  # type: ignore[operator]
                (ran.folder / "manifest.yaml").read_bytes(),  # type: ignore[operator]
            )
        )
        for path in ran.folder.rglob("*"):  # type: ignore[union-attr]
            if path.is_file() and not path.is_symlink() and path.name != "debug.log":
                assert str(lab.root).encode() not in path.read_bytes(), path
    assert runs[0] == runs[1]
    # by bytes: capitals, underscore, small letters, the rest; whatever the locale thinks
    assert [e.path for e in here.opened().inputs["Input:Files"].elements or ()] == [
        "f/B.txt", "f/_.txt", "f/a.txt", "f/ä.txt",
    ]  # fmt: skip
    script = (
        "import locale, sys\n"
        "from whyrun.project import Project\n"
        "from whyrun.planning.plan import compute_execution_plan\n"
        "locale.setlocale(locale.LC_ALL, '')\n"
        "print(compute_execution_plan(Project.open(sys.argv[1]).snapshot()).to_bytes().decode(), end='')\n"
    )
    here.write({"f/a.txt": "changed"})
    answers = {
        subprocess.run(
            [sys.executable, "-c", script, str(here.file)],
            env={**os.environ, "LC_ALL": locale, "PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True,
        ).stdout
        for locale, seed in (("C", "1"), ("C.UTF-8", "2"))
    }  # fmt: skip
    assert answers == {here.plan().to_bytes().decode()}


# --- running -------------------------------------------------------------------------------------------------------

MIXED = """
    workflow: w
    loops: {i: {count: 5}}
    jobs:
      Try:
        for: [i]
        uses: python
        with: {call: "tries:go", i: "${{ i }}"}
        outputs: {N: {type: integer}}
      Next:
        for: [i]
        uses: shell
        with: {n: "${{ jobs.Try.outputs.N[i] }}", run: 'printf "$n" > "$out_T"'}
        outputs: {T: {type: text}}
"""
TRIES = """
    import os

    def go(i):
        if i == 1:
            raise ValueError("one is wrong")
        if i == 3:
            os._exit(9)
        return {"N": i}
"""


def cli(lab: Lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = run_command(arguments, cwd=lab.root, env=os.environ, timeout=300)
    return subprocess.CompletedProcess(arguments, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_lesson_18_failed_jobs_give_exit_status_1(project: Make) -> None:
    """Exit status 0 although jobs failed."""
    lab = project(MIXED, {"tries.py": TRIES})
    ended = cli(lab, "run")
    assert ended.returncode == 1, ended
    status = json.loads((lab.run_folder("r0001") / "status.json").read_bytes())
    assert (status["ok"], status["exit_code"], status["steps_failed"]) == (False, 1, 2)
    lab.write({"tries.py": "def go(i):\n    return {'N': i}\n"})
    assert cli(lab, "run").returncode == 0


def test_lesson_19_one_exception_ends_only_its_own_branch(project: Make) -> None:
    """One exception ended all remaining, independent jobs."""
    lab = project(MIXED, {"tries.py": TRIES})
    ran = lab.run()
    assert ran.failed == {"Job:Try[1]": ("FAILED", "ValueError"), "Job:Try[3]": ("FAILED", "WorkerDied")}
    assert ran.executed == [f"Job:{job}[{i}]" for job in ("Next", "Try") for i in (0, 2, 4)]
    assert ran.blocked == {"Job:Next[1]": ["Job:Try[1]"], "Job:Next[3]": ["Job:Try[3]"]}


def test_lesson_21_success_is_folded_from_events_not_from_file_names(project: Make) -> None:
    """A run that succeeded said `ok: false`, because the status was guessed from file names."""
    lab = project(
        """
        workflow: w
        jobs:
          error:
            uses: shell
            with: {run: 'echo "FAILED Traceback ERROR" | tee "$out_failed" >&2'}
            outputs: {failed: {type: text, path: "out/status.json"}}
        """
    )
    ran = lab.succeed()
    status = ran.status()
    assert (status["ok"], status["state"], status["exit_code"], status["steps_failed"], status["error"]) == (
        True, "succeeded", 0, 0, None,
    )  # fmt: skip
    assert "FAILED" in (ran.folder / "steps" / "error" / "stderr.log").read_text()  # type: ignore[operator]
    # and what stands in status.json decides nothing
    (ran.folder / "status.json").write_text('{"ok": false, "state": "failed"}')  # type: ignore[operator]
    (ran.folder / "plan.json").unlink()  # type: ignore[operator]
    assert lab.plan().headlines() == {}


def test_lesson_22_outputs_are_checked_and_never_made_up(project: Make) -> None:
    """Declared outputs not checked; products made up so that a run looked complete."""
    lab = project(
        """
        workflow: w
        jobs:
          Quiet:
            uses: shell
            with: {run: 'true'}
            outputs: {Text: {type: text, path: out/text.txt}}
          Partial:
            uses: python
            with: {call: "parts:story"}
            outputs: {Story: {type: json, leaves: {"Parts[0].Title": string, "Parts[1].Title": string}}}
          Wrong:
            uses: python
            with: {call: "parts:wrong"}
            outputs: {N: {type: integer}}
        """,
        {"parts.py": "def story():\n    return {'Story': {'Parts': [{'Title': 'one'}]}}\n\n\n"
                     "def wrong():\n    return {'N': 'seven'}\n"},
    )  # fmt: skip
    ran = lab.run()
    assert ran.failed == {
        "Job:Quiet": ("FAILED", "MissingOutput"),
        "Job:Partial": ("FAILED", "MissingOutput"),
        "Job:Wrong": ("FAILED", "WrongOutputType"),
    }
    assert ran.of(ev.ArtifactAvailable) == []
    assert not (lab.root / "out").exists()
    errors = {e.step_id: e.error for e in ran.of(ev.StepFailed)}
    assert "`Story.Parts[1].Title`" in errors["Job:Partial"]
    assert "`Text`" in errors["Job:Quiet"]
    composed = project(COMPOSED.format(fit="true"), {"main.csv": "y\n1\n"})
    ran = composed.run()
    assert (ran.failed, ran.blocked) == ({"Job:Fit": ("FAILED", "MissingOutput")}, {"Job:Report": ["Job:Fit"]})
    assert not (composed.root / "out").exists()
    for step in composed_summary(composed)["steps"]:
        (product,) = step["products"]
        assert [product[key] for key in ("sha256", "size", "rows", "columns")] == [None] * 4


COMPOSED = """
    workflow: composed
    composition: {{mode: sequential, roles: {{Main: primary_dataset}}}}
    inputs: {{Main: {{type: dataset, default: main.csv}}}}
    jobs:
      Fit:
        uses: shell
        with: {{run: '{fit}', primary_dataset: "${{{{ inputs.Main }}}}"}}
        outputs: {{Table: {{type: dataset, path: out/table.csv}}}}
      Report:
        uses: shell
        with: {{run: 'exit 3', primary_dataset: "${{{{ jobs.Fit.outputs.Table }}}}"}}
        outputs: {{Text: {{type: text, path: out/report.txt}}}}
"""


def composed_summary(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((lab.run_folder("r0001") / "composition_summary.json").read_bytes())
    return found


def test_lesson_28_the_real_error_is_not_hidden_by_another(project: Make) -> None:
    """The real error hidden by an error in the error path."""
    lab = project(
        """
        workflow: w
        loops: {how: {values: [unprintable, cleanup, unpicklable]}}
        jobs:
          Break:
            for: [how]
            uses: python
            with: {call: "breaks:go", how: "${{ how }}"}
            outputs: {T: {type: text}}
        """,
        {
            "breaks.py": """
                import os, shutil

                class Unprintable(Exception):
                    def __str__(self):
                        raise RuntimeError("no words")

                class Unpicklable(Exception):
                    def __init__(self, a, b):
                        self.handle = open(os.devnull)
                        super().__init__("the real one")

                def go(how, context):
                    if how == "unprintable":
                        raise Unprintable
                    if how == "unpicklable":
                        raise Unpicklable(1, 2)
                    try:
                        raise ValueError("the real one")
                    finally:
                        shutil.rmtree(context.work_dir)
                """
        },
    )
    ran = lab.run(jobs=1)
    assert ran.failed == {
        "Job:Break[unprintable]": ("FAILED", "Unprintable"),
        "Job:Break[cleanup]": ("FAILED", "ValueError"),
        "Job:Break[unpicklable]": ("FAILED", "Unpicklable"),
    }
    told = {e.step_id: (e.error, e.traceback) for e in ran.of(ev.StepFailed)}
    assert told["Job:Break[cleanup]"][0].startswith("the real one")
    assert told["Job:Break[unpicklable]"][0] == "the real one"
    assert all("breaks.py" in trace for _, trace in told.values()), told
    assert ran.result.exit_code == 1


def test_lesson_29_every_control_acts_and_looking_touches_nothing(project: Make) -> None:
    """Flags parsed and ignored; `--dry-run` that executed."""
    lab = project(CHAIN, {"words.txt": "b\na\n"})
    before = sorted(str(p) for p in lab.root.rglob("*"))
    for arguments in (["plan"], ["plan", "--json"], ["explain"], ["run", "--dry-run"], ["validate"]):
        ended = cli(lab, *arguments)
        assert ended.returncode == 0, (arguments, ended)
    assert sorted(str(p) for p in lab.root.rglob("*") if "__pycache__" not in str(p)) == before
    lab.succeed()
    log = (lab.run_folder("r0001") / "events.jsonl").read_bytes()
    assert cli(lab, "run", "--dry-run", "--force", "Job:Sort").returncode == 0
    assert lab.runs() == ["r0001"]
    assert (lab.run_folder("r0001") / "events.jsonl").read_bytes() == log

    def planned(*arguments: str) -> list[str]:
        ended = cli(lab, "plan", "--json", *arguments)
        assert ended.returncode == 0, ended
        return [job["id"] for job in json.loads(ended.stdout)["jobs"] if job["state"] == "planned"]

    assert planned() == []
    assert planned("--force", "Job:Page") == ["Job:Page", "Job:Copy"]
    assert planned("--force", "layer:0", "--up", "1") == ["Job:Sort"]
    assert planned("--force", "Job:Sort", "--target", "Artifact:Page.Text") == ["Job:Sort", "Job:Page"]
    assert planned("--set", "Title=other") == ["Job:Page", "Job:Copy"]
    assert cli(lab, "plan", "--no-such-flag").returncode == 2


def test_lesson_30_a_torn_line_harms_no_reader_and_damage_stops_all(project: Make) -> None:
    """A torn log line made every later command fail, or was silently skipped by another reader."""
    lab = project(CHAIN, {"words.txt": "b\na\n"})
    lab.succeed()
    path = lab.run_folder("r0001") / "events.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    without_last = lab_plan_with(lab, path, b"".join(lines[:-1]))
    for cut in (1, len(lines[-1]) // 2, len(lines[-1]) - 1):
        assert lab_plan_with(lab, path, b"".join(lines[:-1]) + lines[-1][:cut]) == without_last
        assert len(lab.events("r0001")) == len(lines) - 1
    damaged = b"".join([*lines[:4], lines[4][: len(lines[4]) // 2] + b"\n", *lines[5:]])
    path.write_bytes(damaged)
    for reader in (lab.plan, lambda: lab.events("r0001"), lab.run):
        with pytest.raises(StateError) as refused:
            reader()  # type: ignore[operator]
        (diagnostic,) = refused.value.diagnostics
        assert (diagnostic.code, diagnostic.file, diagnostic.line) == ("LOG_DAMAGED", str(path), 5)
    assert path.read_bytes() == damaged, "nobody repairs what is not a torn tail"
    path.write_bytes(b"".join(lines[:4] + lines[5:]))  # a line lost
    with pytest.raises(StateError, match="LOG_DAMAGED"):
        lab.plan()
    path.write_bytes(whole)
    assert lab.plan().headlines() == {}


def lab_plan_with(lab: Lab, path: Path, log: bytes) -> bytes:
    path.write_bytes(log)
    return lab.plan().to_bytes()


def test_lesson_31_a_paid_request_survives_the_death_of_the_host(project: Make) -> None:
    """Paid requests lost on a crash, because their ids were logged only at the end."""
    lab = project(PAID, {"paid.py": PAID_CODE})
    run = Process(lab)
    run.wait_for_file("submitted")
    assert [e.value for e in lab.events("r0001") if isinstance(e, ev.RequestRecorded)] == ["req-1"], "before the wait"
    run.signal(signal.SIGKILL)
    run.end()
    lab.write({"answer": ""})
    ran = lab.succeed()
    assert lab.content("Artifact:Ask.Answer") == {"request": "req-1"}
    assert lab.read("orders") == "a cat\n", "paid once"
    assert ran.plan.headlines() == {"Job:Ask": "RETRY_PREVIOUS_FAILURE"}
    # success clears it, and a forced step asks anew
    lab.succeed(force=["Job:Ask"])
    assert lab.content("Artifact:Ask.Answer") == {"request": "req-2"}


SLOW = """
    workflow: w
    jobs:
      Slow:
        uses: python
        with: {call: "slow:go"}
        outputs: {T: {type: text}}
"""
SLOW_CODE = """
    import time
    from pathlib import Path

    HERE = Path(__file__).parent

    def go():
        (HERE / "began").write_text("x")
        if (HERE / "fast").exists():
            return {"T": "done"}
        time.sleep(600)
"""


def test_lesson_32_no_run_is_running_for_ever(project: Make) -> None:
    """No SIGINT handling: runs "running" for ever."""
    lab = project(SLOW, {"slow.py": SLOW_CODE})
    run = Process(lab)
    run.wait_for_file("began")
    run.signal(signal.SIGINT)
    assert run.end()[0] == 130
    (end,) = [e for e in lab.events("r0001") if isinstance(e, ev.RunComplete)]
    assert end.state == "interrupted"
    lab.write({"began": None})
    killed = Process(lab)
    killed.wait_for_file("began")
    killed.wait_for_start("Job:Slow")
    killed.signal(signal.SIGKILL)
    killed.end()
    before = lab.plan()
    assert reasons(before)["Job:Slow"][0] == {
        "code": "RETRY_PREVIOUS_FAILURE", "run": "r0002", "attempt": 1, "error_type": "Interrupted",
        "error": "the run ended before this step did",
    }  # fmt: skip
    assert {r.status for r in lab.snapshot().latest_job_status.values()} == {"failed"}
    lab.write({"fast": ""})
    ran = lab.succeed()
    assert ran.plan.digest == before.digest, "the plan is the same before and after the repair"
    repaired = lab.events("r0002")
    assert [type(e) for e in repaired[-3:]] == [ev.LogRepaired, ev.StepFailed, ev.RunComplete]
    status = json.loads((lab.run_folder("r0002") / "status.json").read_bytes())
    assert (status["state"], status["ok"], status["steps_interrupted"]) == ("interrupted", False, 1)


def test_lesson_33_a_failed_run_says_all_that_is_known(project: Make) -> None:
    """Evidence erased on failure: summary written with `unknown` and empty lists."""
    lab = project(COMPOSED.format(fit='cp "$primary_dataset" "$out_Table"'), {"main.csv": "y\n1\n2\n"})
    assert lab.run().exit_code == 1
    content = sha("y\n1\n2\n")
    summary = composed_summary(lab)
    assert [(summary[key]) for key in ("run", "state", "composition_mode")] == ["r0001", "failed", "sequential"]
    assert summary["inputs_manifest"] == [
        {"dataset_key": "Main", "role": "primary_dataset", "filename": None, "rel_path": None, "path": "main.csv",
         "fingerprint": f"sha256:{content}", "rows": 2, "columns": 1, "used": True}
    ]  # fmt: skip
    fit, report = summary["steps"]
    assert (fit["status"], fit["attempt"], fit["evidence"]) == ("completed", 1, "steps/Fit")
    assert fit["bindings"] == [
        {"name": "primary_dataset", "id": "Input:Main", "sha256": content, "rows": 2, "columns": 1}
    ]
    assert fit["products"] == [
        {"id": "Artifact:Fit.Table", "type": "dataset", "path": "out/table.csv", "sha256": content, "size": 6,
         "rows": 2, "columns": 1}
    ]  # fmt: skip
    assert (report["status"], report["attempt"], report["evidence"]) == ("failed", 1, "steps/Report")
    assert report["bindings"] == [
        {"name": "primary_dataset", "id": "Artifact:Fit.Table", "sha256": content, "rows": 2, "columns": 1}
    ]
    assert "3" in report["error"]
    assert report["duration"] > 0
    assert "unknown" not in json.dumps(summary)


def test_lesson_34_two_jobs_writing_one_file_are_refused(project: Make) -> None:
    """Two jobs writing one file: second silently skipped. It is refused while validating."""
    text = """
        workflow: w
        loops: {i: {count: 2}}
        jobs:
          One:
            uses: shell
            with: {run: 'printf x > "$out_T"'}
            outputs: {T: {type: text, path: out/same.txt}}
          Two:
            for: [i]
            uses: shell
            with: {run: 'printf x > "$out_T"'}
            outputs: {T: {type: text, path: "PATH"}}
    """
    for path, culprits in (
        ("out/same.txt", ("Artifact:One.T", "Artifact:Two.T[0]")),
        ("out/./same.txt", ("Artifact:One.T", "Artifact:Two.T[0]")),
        ("out/two.txt", ("Artifact:Two.T[0]", "Artifact:Two.T[1]")),
        ("out/same.txt/${{ i }}", ("out/same.txt",)),  # a file and a folder at the same place
        ("link/${{ 'same' if i == 1 else 'other' }}.txt", ("Artifact:One.T", "Artifact:Two.T[1]", "the link `link`")),
    ):
        lab = project(text.replace("PATH", path), {"out/other.txt": ""})
        if not (lab.root / "link").exists():
            (lab.root / "link").symlink_to("out")
        with pytest.raises(InvalidError) as refused:
            lab.run()
        assert {d.code for d in refused.value.diagnostics} == {"DUPLICATE_OUTPUT_PATH"}, path
        assert all(any(name in d.message + (d.hint or "") for d in refused.value.diagnostics) for name in culprits), (
            path, [d.message for d in refused.value.diagnostics])  # fmt: skip
        assert not (lab.root / ".whyrun").exists()


def test_lesson_35_editing_a_published_file_leaves_the_store_alone(project: Make) -> None:
    """Editing a published link changed the stored blob."""
    lab = project(CHAIN, {"words.txt": "b\na\n"})
    lab.succeed()
    page = lab.root / "out" / "page.txt"
    assert not page.is_symlink()
    blob = lab.blob(sha("T\na\nb\n"))
    assert page.stat().st_ino != blob.stat().st_ino
    with page.open("r+") as file:
        file.write("X")
    assert blob.read_text() == "T\na\nb\n"
    assert not blob.stat().st_mode & 0o222, "stored bytes are read-only"
    assert codes(lab.plan()) == {"Job:Page": ["MISSING_OUTPUT"]}
    lab.succeed()
    assert page.read_text() == "T\na\nb\n"


def test_lesson_36_two_runs_do_not_interleave(project: Make) -> None:
    """No lock: two runs interleaved."""
    lab = project(SLOW, {"slow.py": SLOW_CODE})
    first = Process(lab)
    first.wait_for_file("began")
    ended = cli(lab, "run")
    assert ended.returncode == 3
    assert "error[LOCKED]" in ended.stderr
    assert str(first.process.pid) in ended.stderr
    first.signal(signal.SIGINT)
    assert first.end()[0] == 130
    logs = read_logs(lab.opened().state.runs_dir)
    assert list(logs) == ["r0001"]
    assert [e.step_id for e in logs["r0001"] if isinstance(e, ev.StepStart)] == ["Job:Slow"]


# --- secrets -------------------------------------------------------------------------------------------------------

PASSWORD = "correct-horse-battery"
CONNECTED = """
    workflow: w
    jobs:
      Load:
        uses: python
        with: {call: "db:load", connection: "@mysql"}
        outputs: {Rows: {type: json, path: out/rows.json}}
      Plain:
        uses: python
        with: {call: "db:plain"}
        outputs: {Rows: {type: json}}
"""
CONNECTIONS = """
    connections:
      mysql:
        primary: {default: true, host: db, user: etl, password: "${WHYRUN_TEST_PASSWORD}"}
        other: {host: db2, user: etl, password: "${WHYRUN_TEST_API_KEY}"}
"""
DB_CODE = """
    import os

    def load(connection):
        print("the answer to everything is", connection["password"])
        print("password=unknown, api_key=none, token id 42")
        if os.path.exists(os.path.join(os.path.dirname(__file__), "down")):
            raise ConnectionError("no access with " + repr(connection))
        return {"Rows": {"length": len(connection["password"]), "variables": sorted(os.environ)}}

    def plain():
        return {"Rows": {"variables": sorted(os.environ)}}
"""


@pytest.fixture
def connected(project: Make, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("WHYRUN_TEST_PASSWORD", PASSWORD)
    monkeypatch.setenv("WHYRUN_TEST_API_KEY", "a-key-that-no-step-needs")
    return project(CONNECTED, {"connections.yaml": CONNECTIONS, "db.py": DB_CODE})


def files_with(root: Path, text: str) -> list[str]:
    paths = [path for path in root.rglob("*") if path.is_file()]
    return [str(path.relative_to(root)) for path in paths if text.encode() in path.read_bytes()]


def test_lesson_37_no_resolved_password_is_in_the_run_folder(connected: Lab) -> None:
    """Resolved passwords in plain text in the run folder."""
    ran = connected.succeed()
    assert connected.content("Artifact:Load.Rows")["length"] == len(PASSWORD)  # the step had it
    assert ran.cfg("Load")["with"]["connection"] == {
        "host": "db", "user": "etl", "password": {"$secret": "@mysql.primary.password"},
    }  # fmt: skip
    assert files_with(connected.root, PASSWORD) == []
    connected.write({"down": ""})
    failed = connected.run(force=["Job:Load"])
    assert failed.failed == {"Job:Load": ("FAILED", "ConnectionError")}
    assert files_with(connected.root, PASSWORD) == []
    assert not any(PASSWORD in line for _, line in [*ran.heard.lines, *failed.heard.lines])


def test_lesson_38_a_step_gets_the_secrets_that_it_refers_to_and_no_other_variable(connected: Lab) -> None:
    """Every variable that looks like a key shipped to the sandbox."""
    ran = connected.succeed()
    assert ran.cfg("Load")["secrets"] == ["@mysql.primary.password"]
    assert "secrets" not in ran.cfg("Plain")
    for step in ("Load", "Plain"):
        variables = connected.content(f"Artifact:{step}.Rows")["variables"]
        assert not [name for name in variables if name.startswith("WHYRUN_TEST_")]
    connected.edit("workflow.yaml", "@mysql", "@mysql.other")
    assert connected.succeed().cfg("Load")["secrets"] == ["@mysql.other.password"]


def test_lesson_39_redaction_is_by_value_and_not_by_the_name_of_a_key(connected: Lab) -> None:
    """Redaction by key name only (misses values, masks harmless ids). Redact by value, and scan the folder."""
    ran = connected.succeed()
    assert ran.folder is not None
    printed = (ran.folder / "steps" / "Load" / "stdout.log").read_text()
    assert printed == "the answer to everything is ***\npassword=unknown, api_key=none, token id 42\n"
    assert files_with(connected.root, PASSWORD) == []


# --- tests that proved nothing -------------------------------------------------------------------------------------


def test_lesson_41_no_test_rests_on_the_existence_of_a_file() -> None:
    """ "File exists" asserted where the content was invented."""

    def of_existence(node: ast.Assert) -> bool:
        call = node.test
        return (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in ("exists", "is_file", "is_dir", "is_symlink", "lexists", "isfile", "isdir")
        )

    resting = [
        node.name
        for _, node in functions("test_")
        if (asserted := [each for each in ast.walk(node) if isinstance(each, ast.Assert)])
        and all(map(of_existence, asserted))
    ]
    assert resting == ["test_the_package_says_that_it_is_typed"], "a file of which nothing but its presence counts"


def test_lesson_41_what_the_evidence_holds_is_found_again_in_other_ways(project: Make) -> None:
    """ "File exists" asserted where the content was invented."""
    lab = project(CHAIN, {"words.txt": "b\na\n"})
    ran = lab.succeed()
    folder = ran.folder
    assert folder is not None
    for event in (*ran.of(ev.ManifestMaterialized), *ran.of(ev.CfgMaterialized)):
        data = (folder / event.path).read_bytes()
        assert (event.size, event.sha256) == (len(data), sha256(data).hexdigest())
    made = {e.artifact: (e.sha256, e.size) for e in ran.of(ev.ArtifactAvailable)}
    linked = {path.resolve().read_bytes() for path in (folder / "artifacts").rglob("*") if path.is_symlink()}
    assert {(sha256(data).hexdigest(), len(data)) for data in linked} == set(made.values())
    published = {e.path: e.sha256 for e in ran.of(ev.ArtifactAvailable) if e.path}
    assert {path: sha(lab.read(path)) for path in published} == published
    commands = [json.loads(line) for line in (folder / "commands.jsonl").read_text().splitlines()]
    given = sorted((c["step_id"], c["attempt"]) for c in commands if c["cmd"] == "exec_step")
    assert given == sorted(ran.starts)
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    took = {m["step_id"]: m["value"] for m in metrics if m["metric"] == "step_duration_ms"}
    assert took == {e.step_id: pytest.approx(e.duration * 1000, abs=1) for e in ran.of(ev.StepComplete)}
    status = ran.status()
    assert (status["steps_completed"], status["steps_total"]) == (len(ran.executed), len(ran.plan.planned))
    first, *_, last = ran.events
    assert (status["started"], status["ended"]) == (first.ts, last.ts)


def test_lesson_42_no_block_of_the_documentation_escapes_those_that_are_run() -> None:
    """Documentation examples that did not run: every code block of README and docs is executed by the tests."""
    spec = importlib.util.spec_from_file_location("documented_blocks", TESTS / "docs" / "blocks.py")
    assert spec is not None
    assert spec.loader is not None
    blocks = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = blocks  # a dataclass looks for its module
    spec.loader.exec_module(blocks)
    root = TESTS.parent
    written = {root / "README.md", *(root / "docs").rglob("*.md")}
    assert written <= set(blocks.pages())
    fence = re.compile(r"^[ >]*(```+|~~~+)", re.MULTILINE)  # also one that is indented, quoted, or drawn otherwise
    counted = {page.name: len(fence.findall(page.read_text(encoding="utf-8"))) for page in written}
    assert counted == {page.name: 2 * len(list(blocks.blocks_of(page))) for page in written}
