"""`adopt` and `restore`: an adopted version stays current until the inputs change, and no file of the user is lost."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from cProfile import Profile
from pathlib import Path
from typing import Any

import pytest

from project_lab import Heard, Lab
from whyrun.errors import WhyrunError
from whyrun.evidence.queries.current import current_artifacts
from whyrun.evidence.run_directory import RunDirectory
from whyrun.execution.adopt.adopt import Adoption, adopt_file, restore_version
from whyrun.log import events as ev
from whyrun.log.journal import check_chain, utc_now
from whyrun.log.lock import RunLock
from whyrun.planning.answers.why import PlanView, why_job
from whyrun.planning.plan import compute_execution_plan

Make = Callable[..., Lab]

CHAIN = """
    workflow: chain
    inputs:
      Word: {type: string, default: one}
    jobs:
      Say:
        uses: shell
        with: {word: "say ${{ inputs.Word }}", run: 'echo "$word" > "$out_Text"; echo "$word" | wc -c > "$out_Size"'}
        outputs: {Text: {type: text, path: out/text.txt}, Size: {type: integer}}
      Upper:
        uses: shell
        with: {text: "${{ jobs.Say.outputs.Text }}", run: 'tr a-z A-Z < "$text" > "$out_Loud"'}
        outputs: {Loud: {type: text, path: out/loud.txt}}
"""


def adopt(lab: Lab, artifact: str, file: str, heard: Heard | None = None, sets: tuple[str, ...] = ()) -> Adoption:
    return adopt_file(lab.opened(sets), artifact, lab.root / file, heard or Heard())


def restore(lab: Lab, artifact: str, run: str) -> Adoption:
    return restore_version(lab.opened(), artifact, run, Heard())


def refusal(call: Callable[[], Any]) -> tuple[str, str, str | None, int]:
    with pytest.raises(WhyrunError) as caught:
        call()
    (found,) = caught.value.diagnostics
    return found.code, found.message, found.hint, int(caught.value.exit)


def test_lesson_8_an_adopted_version_stays_through_reuse_until_the_inputs_change(project: Make) -> None:
    lab = project(CHAIN)
    lab.succeed()
    lab.write({"out/text.txt": "mine\n"})
    adoption = adopt(lab, "Artifact:Say.Text", "out/text.txt")
    assert (adoption.run, adoption.dependents) == ("r0002", ("Job:Upper",))
    assert lab.plan().headlines() == {"Job:Upper": "INPUT_CHANGED"}
    assert lab.succeed().executed == ["Job:Upper"]
    assert lab.plan().headlines() == {}
    assert (lab.read("out/text.txt"), lab.read("out/loud.txt")) == ("mine\n", "MINE\n")

    # Deleting the published file does not bring the job's own version back.
    lab.write({"out/text.txt": None})
    assert lab.succeed().reused == {"Job:Say": "r0002"}
    assert lab.read("out/text.txt") == "mine\n"
    assert lab.plan().headlines() == {}

    # Other inputs make another version; with the old ones the adopted bytes are there again.
    assert lab.succeed(sets=["Word=two"]).executed == ["Job:Say", "Job:Upper"]
    assert lab.read("out/loud.txt") == "SAY TWO\n"
    again = lab.succeed()
    assert (again.executed, sorted(again.reused)) == ([], ["Job:Say", "Job:Upper"])
    assert (lab.read("out/text.txt"), lab.read("out/loud.txt")) == ("mine\n", "MINE\n")
    assert lab.plan().headlines() == {}


def test_the_run_of_an_adoption_leaves_complete_evidence_and_no_plan(project: Make) -> None:
    lab = project(CHAIN)
    lab.succeed()
    lab.write({"out/text.txt": "mine\n"})
    adoption = adopt(lab, "Artifact:Say.Text", "out/text.txt")
    folder = lab.run_folder("r0002")
    assert RunDirectory(folder).missing_files("adopt") == []
    assert sorted(p.name for p in folder.iterdir()) == [
        "artifacts", "commands.jsonl", "debug.log", "events.jsonl", "manifest.yaml", "metrics.jsonl", "source",
        "status.json", "whyrun.log",
    ]  # fmt: skip
    events = lab.events("r0002")
    assert [type(e) for e in events] == [ev.RunStart, ev.ManifestMaterialized, ev.ArtifactAdopted, ev.RunComplete]
    start, _, adopted, end = events
    assert isinstance(start, ev.RunStart)
    assert isinstance(adopted, ev.ArtifactAdopted)
    assert isinstance(end, ev.RunComplete)
    assert (start.mode, start.options) == ("adopt", {"artifact": "Artifact:Say.Text", "file": "out/text.txt"})
    first = next(e for e in lab.events("r0001") if isinstance(e, ev.StepStart) and e.step_id == "Job:Say")
    assert (adopted.artifact, adopted.step_id, adopted.sha256, adopted.size, adopted.type, adopted.path) == (
        "Artifact:Say.Text", "Job:Say", adoption.sha256, 5, "text", "out/text.txt",
    )  # fmt: skip
    assert (adopted.fingerprint, adopted.bindings) == (first.fingerprint, first.bindings)
    assert (end.state, end.counts["completed"]) == ("succeeded", 1)
    status = json.loads((folder / "status.json").read_bytes())
    assert (status["ok"], status["steps_total"], status["steps_completed"]) == (True, 1, 1)
    assert (folder / "artifacts/Say/Text.txt").read_text() == "mine\n"
    check_chain([lab.run_folder(run) / "events.jsonl" for run in lab.runs()])


def test_the_same_version_again_is_nothing_to_do(project: Make) -> None:
    lab = project(CHAIN)
    lab.succeed()
    assert adopt(lab, "Artifact:Say.Text", "out/text.txt").run is None
    assert lab.runs() == ["r0001"]


def test_a_file_from_elsewhere_is_published_and_what_stood_there_is_kept(project: Make) -> None:
    lab = project(CHAIN, {"mine.txt": "mine\n"})
    lab.succeed()
    lab.write({"out/text.txt": "another edit\n"})
    heard = Heard()
    adoption = adopt(lab, "Artifact:Say.Text", "mine.txt", heard)
    assert adoption.displaced == ("out/text.txt",)
    (displaced,) = [e for e in lab.events("r0002") if isinstance(e, ev.FileDisplaced)]
    assert lab.blob(displaced.sha256).read_text() == "another edit\n"
    assert len(heard.notes) == 1
    assert "`out/text.txt`" in heard.notes[0]
    assert lab.read("out/text.txt") == "mine\n"
    # The file is the user's own: it is copied, not taken or linked.
    assert lab.read("mine.txt") == "mine\n"
    assert not os.path.samefile(lab.root / "mine.txt", lab.root / "out/text.txt")
    assert stat.S_IMODE((lab.root / "out/text.txt").stat().st_mode) & stat.S_IWUSR


def test_a_value_output_is_parsed_and_recorded_with_its_value(project: Make) -> None:
    lab = project(CHAIN, {"size.txt": "42\n", "bad.txt": "many\n"})
    lab.succeed()
    adopt(lab, "Artifact:Say.Size", "size.txt")
    assert lab.content("Artifact:Say.Size") == 42
    assert lab.content("Artifact:Say.Text") == "say one\n"
    assert lab.plan().headlines() == {}
    code, message, _, exit_ = refusal(lambda: adopt(lab, "Artifact:Say.Size", "bad.txt"))
    assert (code, exit_) == ("NOT_ADOPTABLE", 2)
    assert message.startswith("`Artifact:Say.Size` cannot be put in place: `")
    why = "`Size` is declared as integer, but its file holds the text 'many': write a whole number, and nothing else"
    assert message.endswith(f"bad.txt` does not fit: {why}")
    assert lab.runs() == ["r0001", "r0002"]


FOLDERS = """
    workflow: folders
    jobs:
      Make:
        uses: shell
        with: {run: 'mkdir -p "$out_Site"; echo a > "$out_Site/a"'}
        outputs: {Site: {type: directory, path: out/site}}
"""


def test_a_folder_that_holds_the_state_is_not_adopted(project: Make) -> None:
    """It would hold itself, and more with each time."""
    lab = project(FOLDERS, {})
    lab.succeed()
    for folder in (lab.root, lab.root / ".whyrun"):
        with pytest.raises(WhyrunError, match=r"NOT_ADOPTABLE.*holds the state of Whyrun itself"):
            adopt_file(lab.opened(), "Artifact:Make.Site", folder, Heard())
    assert lab.runs() == ["r0001"]


def test_a_folder_is_adopted_as_a_folder(project: Make) -> None:
    lab = project(FOLDERS, {"file": "no folder"})
    lab.succeed()
    lab.write({"out/site/sub/b": "b\n"})
    adopt(lab, "Artifact:Make.Site", "out/site")
    assert lab.plan().headlines() == {}
    lab.write({"out/site/sub/b": "edited\n"})
    assert lab.plan().headlines() == {"Job:Make": "MISSING_OUTPUT"}
    assert lab.succeed().reused == {"Job:Make": "r0002"}
    assert (lab.read("out/site/a"), lab.read("out/site/sub/b")) == ("a\n", "b\n")
    restored = restore(lab, "Artifact:Make.Site", "r0001")
    assert restored.run == "r0004"
    assert sorted(p.name for p in (lab.root / "out/site").rglob("*")) == ["a"]
    assert lab.plan().headlines() == {}
    assert refusal(lambda: adopt(lab, "Artifact:Make.Site", "file"))[0] == "NOT_ADOPTABLE"


def test_a_folder_that_was_saved_is_adopted_from_where_the_note_says_that_it_is_kept(project: Make) -> None:
    workflow = """
        workflow: folders
        jobs:
          Make:
            uses: shell
            with: {run: 'mkdir -p "$out_Site"; echo a > "$out_Site/a"; echo a > "$out_Text"'}
            outputs: {Site: {type: directory, path: out/site}, Text: {type: text}}
    """
    lab = project(workflow)
    lab.succeed()
    lab.write({"out/site/sub/b": "mine\n"})
    (lab.root / "out/site/empty").mkdir()
    (saved,) = lab.succeed().of(ev.FileDisplaced)
    assert sorted(p.name for p in (lab.root / "out/site").rglob("*")) == ["a"]
    kept = os.path.relpath(lab.blob(saved.sha256), lab.root)

    adopted = adopt(lab, "Artifact:Make.Site", kept)
    assert (adopted.run, adopted.sha256, adopted.size, adopted.displaced) == ("r0003", saved.sha256, 7, ())
    assert (lab.read("out/site/a"), lab.read("out/site/sub/b")) == ("a\n", "mine\n")
    assert (lab.root / "out/site/empty").is_dir()
    assert lab.plan().headlines() == {}

    lab.blob(next(f.sha256 for f in lab.opened().store.read_tree(saved.sha256).files if f.path == "sub/b")).unlink()
    assert refusal(lambda: restore(lab, "Artifact:Make.Site", "r0003"))[0] == "STORE_DAMAGED"
    assert refusal(lambda: adopt(lab, "Artifact:Make.Site", kept))[0] == "STORE_DAMAGED"
    (text,) = [e.sha256 for e in lab.events("r0001") if getattr(e, "artifact", "") == "Artifact:Make.Text"]
    stored_file = os.path.relpath(lab.blob(text), lab.root)
    assert refusal(lambda: adopt(lab, "Artifact:Make.Site", stored_file))[0] == "NOT_ADOPTABLE"
    why = f"`Artifact:Make.Text` cannot be put in place: `{lab.root / kept}` lists a folder that was saved"
    assert refusal(lambda: adopt(lab, "Artifact:Make.Text", kept))[:2] == ("NOT_ADOPTABLE", why)
    assert lab.plan().headlines() == {}


STRING = """
    workflow: strings
    jobs:
      Name: {uses: shell, with: {run: 'echo Ada > "$out_N"'}, outputs: {N: {type: string, path: out/name}}}
      Use: {uses: shell, with: {n: "${{ jobs.Name.outputs.N }}", run: 'echo "$n" > "$out_T"'},
            outputs: {T: {type: text, path: out/letter}}}
"""


def test_a_string_is_read_as_it_was_published_and_from_a_file_of_ones_own_as_it_stands(project: Make) -> None:
    lab = project(STRING, {"own": '"quoted"\n'})
    lab.succeed()
    assert lab.read("out/name") == '"Ada"'
    assert adopt(lab, "Artifact:Name.N", "out/name").run is None  # it stands there
    lab.write({"out/name": '"Bob\\n"\n'})
    adopt(lab, "Artifact:Name.N", "out/name")
    lab.succeed()
    assert (lab.read("out/name"), lab.read("out/letter")) == ('"Bob\\n"', "Bob\n\n")
    lab.write({"out/name": "plain Eve\n"})
    adopt(lab, "Artifact:Name.N", "out/name")
    assert lab.read("out/name") == '"plain Eve"'
    adopt(lab, "Artifact:Name.N", "own")
    assert lab.read("out/name") == '"\\"quoted\\""'

    (lab.root / "out/name").write_bytes(b'"\xff"')
    assert refusal(lambda: adopt(lab, "Artifact:Name.N", "out/name"))[1].endswith("but its file is not UTF-8")
    lab.write({"out/name": '"' + "x" * 5000 + '"'})
    assert "does not fit: `N` has 5002 bytes" in refusal(lambda: adopt(lab, "Artifact:Name.N", "out/name"))[1]
    lab.write({"out/name": '"mine"'})
    (saved,) = lab.succeed().of(ev.FileDisplaced)
    adopt(lab, "Artifact:Name.N", os.path.relpath(lab.blob(saved.sha256), lab.root))
    assert lab.read("out/name") == '"mine"'


LEAVES = """
    workflow: leaves
    jobs:
      Script:
        uses: shell
        with: {run: 'echo ''{"Title": "t", "On": [true, false]}'' > "$out_Story"'}
        outputs:
          Story: {type: json, path: out/story.json, leaves: {"On[0]": boolean, "On[1]": boolean, Title: string}}
      Maybe:
        if: ${{ jobs.Script.outputs.Story.On[1] }}
        uses: shell
        with: {title: "${{ jobs.Script.outputs.Story.Title }}", run: 'echo "$title" > "$out_Text"'}
        outputs: {Text: {type: text}}
"""


WIDE = """
    workflow: wide
    inputs: {Made: {type: file, default: made.json}}
    jobs:
      J:
        uses: shell
        with: {made: "${{ inputs.Made }}", run: 'cat "$made" > "$out_All"'}
        outputs: {All: {type: json, leaves: {LEAVES}}}
"""


def test_the_leaves_of_an_adopted_json_are_adopted_with_it(project: Make) -> None:
    lab = project(LEAVES)
    lab.succeed()
    lab.write({"out/story.json": '{"Title": "mine", "On": [true, true]}'})
    adoption = adopt(lab, "Artifact:Script.Story", "out/story.json")
    assert adoption.leaves == {
        "Artifact:Script.Story.On[0]": True,
        "Artifact:Script.Story.On[1]": True,
        "Artifact:Script.Story.Title": "mine",
    }
    assert [(e.artifact, e.path) for e in lab.events("r0002") if isinstance(e, ev.ArtifactAdopted)] == [
        ("Artifact:Script.Story.On[0]", None),
        ("Artifact:Script.Story.On[1]", None),
        ("Artifact:Script.Story.Title", None),
        ("Artifact:Script.Story", "out/story.json"),
    ]
    assert lab.plan().headlines() == {"Job:Maybe": "MISSING_OUTPUT"}
    lab.succeed()
    assert lab.content("Artifact:Maybe.Text") == "mine\n"
    restore(lab, "Artifact:Script.Story", "r0001")
    assert lab.content("Artifact:Script.Story.On[1]") is False
    assert [job.state for job in lab.plan().jobs] == ["inactive"]


def test_twice_as_many_leaves_take_twice_as_much_work(project: Make) -> None:
    def calls(leaves: int) -> int:
        values = json.dumps({f"L{n}": n for n in range(leaves)})
        declared = ", ".join(f"L{n}: integer" for n in range(leaves))
        lab = project(WIDE.replace("LEAVES", declared), {"made.json": values, "mine.json": values.replace(" 0", " 7")})
        lab.succeed()
        profile = Profile()
        adoption = profile.runcall(adopt, lab, "Artifact:J.All", "mine.json")
        assert adoption.leaves["Artifact:J.All.L0"] == 7
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(600) < 2.3 * calls(300)


def test_a_json_that_lacks_a_leaf_or_has_the_wrong_type_is_refused(project: Make) -> None:
    lab = project(LEAVES)
    lab.succeed()
    lab.write({"lacks.json": '{"Title": "x", "On": [true]}', "wrong.json": '{"Title": "x", "On": [true, 1]}'})
    for name, problem in (
        ("lacks.json", "it lacks the declared `Story.On[1]`"),
        ("wrong.json", "`Story.On[1]` is declared as boolean, but is int: 1"),
    ):
        code, message, _, _ = refusal(lambda name=name: adopt(lab, "Artifact:Script.Story", name))  # type: ignore[misc]
        assert (code, message.endswith(problem)) == ("NOT_ADOPTABLE", True), message
    assert refusal(lambda: adopt(lab, "Artifact:Script.Story.Title", "wrong.json")) == (
        "NOT_ADOPTABLE",
        "`Artifact:Script.Story.Title` cannot be put in place: it is a leaf, a part of a JSON output",
        "adopt the whole: `whyrun adopt Artifact:Script.Story FILE.json`",
        2,
    )
    assert lab.runs() == ["r0001"]


def test_refused_while_an_upstream_is_still_to_run_or_another_output_is_not_there(project: Make) -> None:
    lab = project(CHAIN, {"mine.txt": "mine\n"})
    assert refusal(lambda: adopt(lab, "Artifact:Upper.Loud", "mine.txt")) == (
        "NOT_ADOPTABLE",
        "`Artifact:Upper.Loud` cannot be put in place: what `Job:Upper` consumes is not known yet, because `Job:Say` "
        "is still to run",
        "run it first: `whyrun run --target Job:Say`",
        2,
    )
    assert refusal(lambda: adopt(lab, "Artifact:Say.Text", "mine.txt")) == (
        "NOT_ADOPTABLE",
        "`Artifact:Say.Text` cannot be put in place: `Artifact:Say.Size`, another output of `Job:Say`, is not "
        "available for what the job consumes now",
        "an output is adopted together with the other outputs of a success: `whyrun run --target Job:Say` makes one; "
        "if it fails, correct the job first",
        2,
    )
    lab.succeed()
    # For other inputs the other output was never made.
    assert refusal(lambda: adopt(lab, "Artifact:Say.Text", "mine.txt", sets=("Word=two",)))[0] == "NOT_ADOPTABLE"
    assert lab.runs() == ["r0001"]


TWO = """
    workflow: two
    jobs:
      J:
        uses: shell
        with: {run: 'echo text > "$out_A"; echo "[1]" > "$out_B"'}
        outputs: {A: {type: text, path: out/a.txt}, B: {type: TYPE, path: PATH}}
"""


def two(type_: str, path: str) -> str:
    return TWO.replace("TYPE", type_).replace("PATH", path)


@pytest.mark.parametrize(
    ("type_", "old", "new"),
    [
        ("json", "out/b.json", "out/b.json, append: true"),  # a section has a form of its own
        ("file", "out/b.csv", "out/b.tsv"),
    ],
)
def test_refused_where_another_output_was_recorded_in_a_form_that_the_next_plan_would_not_take(
    project: Make, type_: str, old: str, new: str
) -> None:
    """Else the next run would make both again, and replace what was adopted."""
    lab = project(two(type_, old), {"mine.txt": "mine\n"})
    lab.succeed()
    lab.write({"workflow.yaml": two(type_, new), old: None})
    assert refusal(lambda: adopt(lab, "Artifact:J.A", "mine.txt"))[:2] == (
        "NOT_ADOPTABLE",
        "`Artifact:J.A` cannot be put in place: `Artifact:J.B`, another output of `Job:J`, is not available for what "
        "the job consumes now",
    )
    assert lab.succeed().executed == ["Job:J"]
    adopt(lab, "Artifact:J.A", "mine.txt")
    assert lab.plan().headlines() == {}
    assert lab.read("out/a.txt") == "mine\n"


def test_refused_for_inactive_jobs_unknown_ids_and_files_that_are_not_there(project: Make) -> None:
    lab = project(LEAVES, {"mine.txt": "mine\n"})
    lab.succeed()
    assert refusal(lambda: adopt(lab, "Artifact:Maybe.Text", "mine.txt")) == (
        "NOT_ADOPTABLE",
        "`Artifact:Maybe.Text` cannot be put in place: `Job:Maybe` is inactive",
        "`whyrun why Job:Maybe` says why",
        2,
    )
    assert refusal(lambda: adopt(lab, "Artifact:Maybe.Txt", "mine.txt"))[:1] == ("UNKNOWN_REFERENCE",)
    assert refusal(lambda: adopt(lab, "Job:Maybe", "mine.txt"))[:1] == ("NAME_INVALID",)
    assert refusal(lambda: adopt(lab, "Artifact:Script.Story", "nope.json"))[:1] == ("FILE_MISSING",)


def test_a_failing_job_can_be_helped_with_ones_own_version(project: Make) -> None:
    workflow = """
        workflow: broken
        jobs:
          Fail:
            uses: shell
            with: {run: exit 3}
            outputs: {Text: {type: text, path: out/text.txt}}
          Read:
            uses: shell
            with: {text: "${{ jobs.Fail.outputs.Text }}", run: 'cat "$text" > "$out_Copy"'}
            outputs: {Copy: {type: text}}
    """
    lab = project(workflow, {"mine.txt": "mine\n"})
    assert lab.run().exit_code == 1
    adopt(lab, "Artifact:Fail.Text", "mine.txt")
    assert lab.plan().headlines() == {"Job:Read": "MISSING_OUTPUT"}
    lab.succeed()
    assert (lab.content("Artifact:Read.Copy"), lab.read("out/text.txt")) == ("mine\n", "mine\n")


def test_the_other_outputs_are_put_back_where_only_ours_stands(project: Make) -> None:
    two = """
        workflow: two
        inputs: {Word: {type: string, default: one}}
        jobs:
          Both:
            uses: shell
            with: {word: "${{ inputs.Word }}", run: 'echo "a $word" > "$out_A"; echo "b $word" > "$out_B"'}
            outputs: {A: {type: text, path: out/a.txt}, B: {type: text, path: out/b.txt}}
    """
    lab = project(two, {"mine.txt": "mine\n"})
    lab.succeed()
    lab.succeed(sets=["Word=two"])
    adopt(lab, "Artifact:Both.A", "mine.txt")  # for `one` again, while the files are those of `two`
    assert (lab.read("out/a.txt"), lab.read("out/b.txt")) == ("mine\n", "b one\n")
    assert lab.plan().headlines() == {}
    # An edit of the user's own stays, and is theirs to adopt.
    lab.write({"out/a.txt": "edit a\n", "out/b.txt": "edit b\n"})
    adopt(lab, "Artifact:Both.A", "out/a.txt")
    assert lab.read("out/b.txt") == "edit b\n"
    assert lab.plan().headlines() == {"Job:Both": "MISSING_OUTPUT"}
    adopt(lab, "Artifact:Both.B", "out/b.txt")
    assert lab.plan().headlines() == {}
    assert (lab.read("out/a.txt"), lab.read("out/b.txt")) == ("edit a\n", "edit b\n")


def test_restore_takes_the_version_after_a_run_and_checks_its_bytes(project: Make) -> None:
    lab = project(CHAIN)
    lab.succeed()
    old = lab.snapshot().available_artifacts["Artifact:Upper.Loud"].sha256
    lab.write({"out/loud.txt": "mine\n"})
    adopt(lab, "Artifact:Upper.Loud", "out/loud.txt")
    assert restore(lab, "Artifact:Upper.Loud", "r0001").to_json() == {
        "artifact": "Artifact:Upper.Loud", "run": "r0003", "sha256": old, "size": 8, "type": "text",
        "path": "out/loud.txt", "leaves": {}, "displaced": [], "dependents": [],
    }  # fmt: skip
    assert lab.read("out/loud.txt") == "SAY ONE\n"
    adopted = lab.events("r0003")[2]
    assert isinstance(adopted, ev.ArtifactAdopted)
    assert adopted.by.endswith(", restored from r0001")

    restore(lab, "Artifact:Upper.Loud", "r0002")
    blob = lab.blob(old)
    blob.chmod(0o644)
    blob.write_text("OTHER!!\n")
    code, message, _, exit_ = refusal(lambda: restore(lab, "Artifact:Upper.Loud", "r0001"))
    assert (code, exit_) == ("STORE_DAMAGED", 3)
    assert "has other bytes" in message
    blob.unlink()
    assert refusal(lambda: restore(lab, "Artifact:Upper.Loud", "r0001"))[0] == "STORE_DAMAGED"
    assert refusal(lambda: restore(lab, "Artifact:Upper.Loud", "r0009"))[0] == "RUN_UNKNOWN"
    assert lab.read("out/loud.txt") == "mine\n"
    assert lab.runs() == ["r0001", "r0002", "r0003", "r0004"]


def test_restore_refuses_what_was_not_available_then(project: Make) -> None:
    lab = project(CHAIN)
    lab.succeed(targets=["Job:Say"])
    lab.succeed()
    assert refusal(lambda: restore(lab, "Artifact:Upper.Loud", "r0001")) == (
        "NOT_ADOPTABLE",
        "`Artifact:Upper.Loud` cannot be put in place: it was not available after r0001",
        "`whyrun history Artifact:Upper.Loud` lists its versions",
        2,
    )


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("out/t.csv", "out/t.json", "with the suffix `.csv`, and is declared as one with the suffix `.json` now"),
        ("out/t", "out/t.csv", "without a suffix, and is declared as one with the suffix `.csv` now"),
    ],
)
def test_restore_refuses_a_version_with_another_suffix(project: Make, old: str, new: str, why: str) -> None:
    """Who reads it would take it for what its name says."""
    lab = project(two("file", old))
    lab.succeed()
    lab.write({"workflow.yaml": two("file", new)})
    lab.succeed()
    assert refusal(lambda: restore(lab, "Artifact:J.B", "r0001")) == (
        "NOT_ADOPTABLE",
        f"`Artifact:J.B` cannot be put in place: in r0001 it was a file {why}",
        "restore a version with the same suffix",
        2,
    )
    assert restore(lab, "Artifact:J.B", "r0002").run is None, "it stands there"


def test_a_json_is_restored_as_the_section_that_it_is_now(project: Make) -> None:
    """It is read and written anew, so it has the bytes of a section."""
    lab = project(two("json", "out/b.json"))
    lab.succeed()
    lab.write({"workflow.yaml": two("json", "out/shared.json, append: true").replace("[1]", "[2]")})
    lab.succeed()
    restored = restore(lab, "Artifact:J.B", "r0001")
    assert (restored.run, restored.type) == ("r0003", "json")
    assert json.loads(lab.read("out/shared.json")) == {"J": [1]}
    assert lab.plan().headlines() == {}


def test_adopting_waits_for_nobody_and_repairs_what_a_killed_run_left(project: Make) -> None:
    lab = project(CHAIN, {"mine.txt": "mine\n"})
    lab.succeed()
    with RunLock(lab.opened().state.lock_path, utc_now):
        assert refusal(lambda: adopt(lab, "Artifact:Upper.Loud", "mine.txt"))[0] == "LOCKED"
    log = lab.run_folder("r0001") / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])  # killed while it wrote its end
    (lab.run_folder("r0001") / "status.json").unlink()
    heard = Heard()
    adoption = adopt(lab, "Artifact:Upper.Loud", "mine.txt", heard)
    assert (adoption.run, lab.runs()) == ("r0002", ["r0001", "r0002"])
    assert any(isinstance(e, ev.LogRepaired) for e in lab.events("r0001"))
    assert heard.notes == ["r0001 was cut short; its log was repaired"]
    check_chain([lab.run_folder(run) / "events.jsonl" for run in lab.runs()])


def test_a_path_outside_the_project_leaves_its_name_alone_in_the_log(project: Make, tmp_path: Path) -> None:
    lab = project(CHAIN)
    lab.succeed()
    outside = tmp_path / "elsewhere.txt"
    outside.write_text("mine\n")
    adopt_file(lab.opened(), "Artifact:Upper.Loud", outside, Heard())
    start = lab.events("r0002")[0]
    assert isinstance(start, ev.RunStart)
    assert start.options == {"artifact": "Artifact:Upper.Loud", "file": "elsewhere.txt"}
    for path in lab.run_folder("r0002").rglob("*"):
        if path.is_file():
            assert str(tmp_path) not in path.read_text()


def test_a_file_whose_name_begins_with_two_dots_lies_inside_the_project(project: Make) -> None:
    lab = project(CHAIN, {"..new/..mine.txt": "mine\n"})
    lab.succeed()
    adopt_file(lab.opened(), "Artifact:Upper.Loud", lab.root / "..new/..mine.txt", Heard())
    start = lab.events("r0002")[0]
    assert isinstance(start, ev.RunStart)
    assert start.options == {"artifact": "Artifact:Upper.Loud", "file": "..new/..mine.txt"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_leaves_the_version_recorded(project: Make) -> None:
    lab = project(CHAIN, {"mine.txt": "mine\n"})
    lab.succeed()
    (lab.root / "out").chmod(0o555)
    try:
        code, _, hint, _ = refusal(lambda: adopt(lab, "Artifact:Upper.Loud", "mine.txt"))
    finally:
        (lab.root / "out").chmod(0o755)
    assert (code, hint) == ("DISK_FAILED", "make room, or make it writable; `whyrun run` publishes it then")
    assert lab.succeed().reused == {"Job:Upper": "r0002"}
    assert lab.read("out/loud.txt") == "mine\n"


def test_only_the_adopted_output_is_adopted_and_by_the_run_that_did_it(project: Make) -> None:
    """A job of two outputs, one adopted; a run that takes the pair up again is a plain run."""
    lab = project(CHAIN)
    lab.succeed()
    lab.write({"out/text.txt": "mine\n"})
    adopt(lab, "Artifact:Say.Text", "out/text.txt")

    def sources() -> dict[str, tuple[str | None, str | None]]:
        snapshot = lab.snapshot()
        node = snapshot.dependency_graph.node_of["Job:Say"]
        plan = compute_execution_plan(snapshot)
        return {artifact.id: (artifact.run, artifact.origin) for artifact in current_artifacts(snapshot, plan, [node])}

    def success() -> dict[str, Any]:
        snapshot = lab.snapshot()
        known = PlanView(snapshot, compute_execution_plan(snapshot))
        answer = why_job(known, known.graph.node_of["Job:Say"]).jobs[0].to_json()
        return {k: v for k, v in answer["last_success"].items() if k != "attempt"}

    mine = {"Artifact:Say.Text": "r0002"}
    assert sources() == {"Artifact:Say.Text": ("r0002", "adopted"), "Artifact:Say.Size": ("r0001", None)}
    assert success() == {"run": "r0001", "how": "executed", "adopted": mine}
    lab.succeed(sets=["Word=two"])
    back = lab.succeed()
    assert back.result.run == "r0004"
    assert back.reused["Job:Say"] == "r0002"
    assert sources() == {"Artifact:Say.Text": ("r0002", "adopted"), "Artifact:Say.Size": ("r0004", "reused")}
    assert success() == {"run": "r0004", "how": "reused", "adopted": mine}
    # The second output, too: now all of it is adopted, by two runs.
    lab.write({"size": "7"})
    adopt(lab, "Artifact:Say.Size", "size")
    assert sources() == {"Artifact:Say.Text": ("r0002", "adopted"), "Artifact:Say.Size": ("r0005", "adopted")}
    assert success() == {"run": "r0005", "how": "adopted"}
