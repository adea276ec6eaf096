"""One thing differs in the second run, and exactly that is reported. Both runs are real, from empty states."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from parity_lab import TALK, Talks, differences, named, parity, parity_of, run

from project_lab import Lab, Ran
from whyrun.evidence.parity.fields import ABSENT

MadeProject = Callable[..., Lab]


def folder_of(ran: Ran) -> Path:
    assert ran.folder is not None
    return ran.folder


def test_two_runs_of_the_same_are_equal(talks: Talks) -> None:
    found = parity_of(talks.run(), talks.run())
    assert (differences(found), found.not_judged, found.equal, found.headline) == ([], (), True, None)
    assert found.compared == {
        "events": (12, 12),
        "cfg": (1, 1),
        "commands": (1, 1),
        "artifacts": (3, 3),
        "metrics": (1, 1),
        "files": (13, 13),
    }


def test_what_steps_read_undeclared_is_compared_where_both_were_traced(talks: Talks) -> None:
    traced = replace(talks, trace="first")
    found = parity_of(traced.run(), traced.run(share=0.5))
    assert [named[:3] for named in differences(found)] == [("event", "step_complete Job:Talk", "observed.mood.json")]
    assert parity_of(traced.run(), talks.run(share=0.5)).equal


# --- what a step makes -------------------------------------------------------------------------------------------


def test_another_row_of_a_table(talks: Talks) -> None:
    found = parity_of(talks.run(), talks.run(table="id,word\n1,a\n2,b\n3,c\n"))
    assert differences(found) == [("artifact", "Artifact:Talk.Table", "sha256")]
    assert found.differences[0].details == ("1 row added", "2 rows → 3, 2 columns", "row 3 (3, c) added")


def test_another_type_and_another_name_of_a_column(talks: Talks) -> None:
    found = parity_of(talks.run(), talks.run(table="id,name\n1,a\nx,b\n"))
    assert differences(found) == [("artifact", "Artifact:Talk.Table", "sha256")]
    assert found.differences[0].details[:5] == (
        "1 column added, 1 removed, 1 cell changed",
        "2 rows, 2 columns",
        "column `id`: BIGINT → VARCHAR",
        "column `word`: VARCHAR → not there",
        "column `name`: not there → VARCHAR",
    )


def test_the_same_cells_in_other_bytes_are_a_difference_too(talks: Talks) -> None:
    """A consumer is given other bytes, so its fingerprint is another: that may not pass for the same."""
    found = parity_of(talks.run(), talks.run(table='id,word\n"1",a\n2,b\n'))
    assert differences(found) == [("artifact", "Artifact:Talk.Table", "sha256")]
    assert found.differences[0].details == (
        "different bytes, but the same content", "2 rows, 2 columns", "the cells are the same, but written differently",
    )  # fmt: skip


def test_another_value_in_a_leaf_and_in_the_whole(talks: Talks) -> None:
    found = parity_of(talks.run(), talks.run(size=3))
    assert differences(found) == [
        ("artifact", "Artifact:Talk.Facts", "sha256"),
        ("artifact", "Artifact:Talk.Facts.size", "value", 2, 3),
    ]
    assert found.differences[0].details == ("1 value changed", "$.size: 2 → 3")


def test_another_file_in_a_folder_and_what_follows_for_its_reader(project: MadeProject) -> None:
    workflow = """
        workflow: folders
        jobs:
          Make:
            uses: python
            with: {call: "make:make"}
            outputs: {Folder: {type: directory}}
          List:
            uses: shell
            with: {folder: "${{ jobs.Make.outputs.Folder }}", run: 'echo listed > "$out_Text"'}
            outputs: {Text: {type: text}}
    """
    code = """
        from pathlib import Path

        def make(context):
            folder = context.output("Folder")
            folder.mkdir()
            for name in (Path(__file__).parent / "names.txt").read_text().split():
                (folder / name).write_text(name)
    """
    files = {"make.py": code, "whyrun.toml": 'trace = "never"\n'}
    runs = [project(workflow, {**files, "names.txt": names}).succeed() for names in ("a b", "a c")]
    found = parity_of(*runs)
    assert differences(found) == [
        ("artifact", "Artifact:Make.Folder", "sha256"),
        ("cfg", "cfg/List.json", "sha256"),
        ("event", "step_start Job:List (attempt 1)", "bindings.folder[0].sha256"),
        ("event", "step_start Job:List (attempt 1)", "fingerprint"),
        ("file", "artifacts/Make/Folder/b", "", "present", ABSENT),
        ("file", "artifacts/Make/Folder/c", "", ABSENT, "present"),
    ]
    assert found.differences[0].details == ("1 file added, 1 removed", "b removed", "c added")


# --- what a step says --------------------------------------------------------------------------------------------


def test_one_more_task(talks: Talks) -> None:
    found = parity_of(talks.run(), talks.run(tasks=["bye"]))
    said = {"status": "EXECUTES", "message": "bye ann", "details": {"letters": 3}}
    assert differences(found) == [("event", "task Job:Talk", "", ABSENT, said)]


def test_one_task_of_several_that_are_alike_is_missing(talks: Talks) -> None:
    """Events are a multiset: two are not one."""
    found = parity_of(talks.run(tasks=["bye", "bye"]), talks.run(tasks=["bye"]))
    assert named(found) == ["event task Job:Talk -"]


def test_another_task(talks: Talks) -> None:
    found = parity_of(talks.run(tasks=["bye"]), talks.run(tasks=["farewell"]))
    assert differences(found) == [
        ("event", "task Job:Talk", "details.letters", 3, 8),
        ("event", "task Job:Talk", "message", "bye ann", "farewell ann"),
    ]


def test_the_order_in_which_a_step_speaks_is_free(talks: Talks) -> None:
    assert differences(parity_of(talks.run(tasks=["a", "b"]), talks.run(tasks=["b", "a"]))) == []


def test_another_row_count(talks: Talks) -> None:
    found = parity_of(talks.run(), talks.run(rows=3))
    assert differences(found) == [("metric", "rows_written Job:Talk", "value", 2, 3)]


def test_durations_are_not_judged_and_fractions_are_told(talks: Talks) -> None:
    found = parity_of(talks.run(), talks.run(waited=7, share=0.75))
    assert differences(found) == []
    assert [note.to_json() for note in found.not_judged] == [
        {"name": "share Job:Talk", "why": "a fraction, not a count", "old": 0.5, "new": 0.75}
    ]


def test_what_a_step_prints_is_told_and_not_judged(talks: Talks) -> None:
    found = parity_of(talks.run(), talks.run(print="said at noon"))
    assert differences(found) == []
    assert [(note.name, note.why) for note in found.not_judged] == [
        ("steps/Talk/stdout.log", "printed text may contain times and paths")
    ]


def test_that_a_step_wrote_to_stderr_at_all_is_judged(talks: Talks) -> None:
    found = parity_of(talks.run(), talks.run(streams=["stderr"]))
    assert differences(found) == [("file", "steps/Talk/stderr.log", "", ABSENT, "present")]


# --- how a step ends ---------------------------------------------------------------------------------------------


def test_another_message_of_the_same_error(talks: Talks) -> None:
    found = parity_of(talks.run(fail="no wine"), talks.run(fail="no bread"))
    assert differences(found) == [
        ("event", "step_failed Job:Talk", "error", "no wine", "no bread"),
        ("event", "step_failed Job:Talk", "traceback", "ValueError: no wine", "ValueError: no bread"),
        ("status", "status.json", "error", "Job:Talk: ValueError: no wine", "Job:Talk: ValueError: no bread"),
    ]


def test_another_ending(talks: Talks) -> None:
    """The failure is the headline; all that is missing because of it follows."""
    found = parity_of(talks.run(), talks.run(fail="no wine"))
    assert named(found) == [
        "event step_failed Job:Talk +",
        "event artifact_available Artifact:Talk.Facts -",
        "event artifact_available Artifact:Talk.Facts.size -",
        "event artifact_available Artifact:Talk.Table -",
        "event step_complete Job:Talk -",
        "event run_complete counts.completed",
        "event run_complete counts.failed",
        "event run_complete state",
        "file artifacts/Talk/Facts.json -",
        "file artifacts/Talk/Table.csv -",
        "status status.json error",
        "status status.json exit_code",
        "status status.json ok",
        "status status.json state",
        "status status.json steps_completed",
        "status status.json steps_failed",
    ]
    assert found.headline is found.differences[0]


# --- what was to be done -----------------------------------------------------------------------------------------


def test_another_parameter_is_another_workflow_plan_manifest_and_cfg(talks: Talks) -> None:
    workflow = TALK.replace('name: "${{ inputs.Name }}"', 'name: "${{ inputs.Name }}a"')
    found = parity_of(talks.run(), talks.run(workflow))
    assert named(found)[:7] == [
        "event run_start workflow_sha256",
        "event plan_computed plan_sha256",
        "event plan_computed snapshot_sha256",
        "manifest manifest.yaml sha256",
        "cfg cfg/Talk.json sha256",
        "command Job:Talk (attempt 1) inputs.name -",
        "event step_start Job:Talk (attempt 1) bindings.name[0].id",
    ]
    assert ("event", "task Job:Talk", "message", "hello ann", "hello anna") in differences(found)


def test_another_input_is_the_headline(talks: Talks) -> None:
    found = parity_of(talks.run(), talks.run(sets=("Name=eve",)))
    assert differences(found)[:2] == [
        ("event", "input_recorded Input:Name", "value", "ann", "eve"),
        ("event", "input_recorded Input:Name", "sha256"),
    ]
    assert {difference.kind for difference in found.differences} == {"event", "cfg", "artifact"}


def test_other_code_is_another_fingerprint(talks: Talks) -> None:
    changed = talks.project()
    changed.edit("talk.py", '"hello"', '"HELLO"')
    found = parity_of(talks.run(), changed.run())
    assert [name for name in named(found) if "step_start" in name] == [
        "event step_start Job:Talk (attempt 1) bindings..action[0].files.talk.py",
        "event step_start Job:Talk (attempt 1) bindings..action[0].sha256",
        "event step_start Job:Talk (attempt 1) fingerprint",
    ]


# --- what stands in the folder -----------------------------------------------------------------------------------


def test_a_file_that_is_gone(talks: Talks) -> None:
    old, new = talks.run(), talks.run()
    (folder_of(new) / "steps/Talk/stdout.log").unlink()
    (folder_of(new) / "debug.log").unlink()
    assert differences(parity_of(old, new)) == [
        ("file", "debug.log", "", "present", ABSENT),
        ("file", "steps/Talk/stdout.log", "", "present", ABSENT),
    ]


def test_a_cfg_that_is_gone(talks: Talks) -> None:
    old, new = talks.run(), talks.run()
    (folder_of(old) / "cfg/Talk.json").unlink()
    assert differences(parity_of(old, new)) == [("file", "cfg/Talk.json", "", ABSENT, "present")]


def test_files_that_neither_has_and_every_run_must_have(talks: Talks) -> None:
    """Two runs that lost the same are not equal: they prove nothing any more."""
    old, new = talks.run(), talks.run()
    for ran in (old, new):
        (folder_of(ran) / "status.json").unlink()
        (folder_of(ran) / "cfg/Talk.json").unlink()
    assert differences(parity_of(old, new)) == [
        ("file", "cfg/Talk.json", "", ABSENT, ABSENT),
        ("file", "status.json", "", ABSENT, ABSENT),
    ]


def test_a_file_more_and_an_empty_folder_more(talks: Talks) -> None:
    old, new = talks.run(), talks.run()
    (folder_of(new) / "remote").mkdir()
    (folder_of(old) / "bundle.tar").write_bytes(b"")
    assert differences(parity_of(old, new)) == [
        ("file", "bundle.tar", "", "present", ABSENT),
        ("file", "remote/", "", ABSENT, "present"),
    ]


# --- what is chance ----------------------------------------------------------------------------------------------

RACE = """
    workflow: race
    inputs: {Last: {type: string, default: "A"}}
    jobs:
      A: {uses: python, with: {call: "race:fail", name: A}, outputs: {Out: {type: string}}}
      B: {uses: python, with: {call: "race:fail", name: B}, outputs: {Out: {type: string}}}
"""
RACE_CODE = """
    import time
    from pathlib import Path

    HERE = Path(__file__).parent
    LOG = HERE / ".whyrun/race/runs/r0001/events.jsonl"

    def fail(name):
        deadline = time.monotonic() + 300
        while name == (HERE / "last").read_text() and '"step_failed"' not in LOG.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        raise ValueError(f"{name} broke")
"""


def test_which_of_two_failures_came_first_is_told_and_not_judged(project: MadeProject) -> None:
    runs = [project(RACE, {"race.py": RACE_CODE, "last": last}).run(jobs=2) for last in ("A", "B")]
    assert [ran.status()["error"] for ran in runs] == ["Job:B: ValueError: B broke", "Job:A: ValueError: A broke"]
    found = parity_of(*runs)
    assert differences(found) == []
    assert [note.to_json() for note in found.not_judged] == [
        {
            "name": "status.json",
            "why": "the same failures, in another order",
            "old": "Job:B: ValueError: B broke",
            "new": "Job:A: ValueError: A broke",
        }
    ]


LEAVES = """
    workflow: leaves
    jobs:
      Leave:
        uses: python
        timeout: TIME
        with: {call: "leave:leave"}
        outputs: {Out: {type: file}}
"""
LEAVES_CODE = """
    import json
    import time
    from pathlib import Path

    def leave(context):
        mood = json.loads((Path(__file__).parent / "mood.json").read_text())
        for name in mood["leave"]:
            path = context.work_dir.parent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("half")
        time.sleep(600 if mood["wait"] else 0)
        raise ValueError("no")
"""


@pytest.mark.parametrize(
    ("wait", "names", "judged"),
    [
        (False, ("work/a", "work/b"), ["file steps/Leave/scratch/work/a -", "file steps/Leave/scratch/work/b +"]),
        (False, ("tmp/tmpx81", "tmp/tmpq02"), []),
        (True, ("work/a", "work/b"), []),
    ],
    ids=["failed", "temporary", "timed-out"],
)
def test_what_a_step_leaves_behind(project: MadeProject, wait: bool, names: tuple[str, str], judged: list[str]) -> None:
    """Of a step that failed by itself it is evidence; how far one came that was stopped is chance."""
    moods = [json.dumps({"leave": ["work/always", name], "wait": wait}) for name in names]
    workflow = LEAVES.replace("TIME", "6s" if wait else "10m")
    runs = [project(workflow, {"leave.py": LEAVES_CODE, "mood.json": mood}).run() for mood in moods]
    assert [status for ran in runs for status, _ in ran.failed.values()] == ["TIMED_OUT" if wait else "FAILED"] * 2
    found = parity_of(*runs)
    assert named(found) == judged
    scratch = [f"steps/Leave/scratch/{name}" for name in sorted(names)]
    assert [note.name for note in found.not_judged] == ([] if judged else scratch)


def test_a_worker_that_dies_leaves_the_same_twice(project: MadeProject) -> None:
    """What it last wrote may differ: how much came out before the end is chance."""
    workflow = """
        workflow: dies
        jobs:
          Die: {uses: python, with: {call: "die:die"}, outputs: {Out: {type: file}}}
    """
    code = """
        import os, signal, sys
        from pathlib import Path

        def die():
            print((Path(__file__).parent / "last.txt").read_text(), file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    runs = [project(workflow, {"die.py": code, "last.txt": last}).run() for last in ("one word", "two words")]
    assert [ran.failed for ran in runs] == [{"Job:Die": ("FAILED", "WorkerDied")}] * 2
    found = parity_of(*runs)
    assert differences(found) == []
    assert [note.name for note in found.not_judged] == ["steps/Die/stderr.log"]


def test_two_folders_of_one_state(talks: Talks) -> None:
    """A later run follows from the one before it: its plan has other reasons, and it records only what has changed."""
    lab = talks.project()
    runs = [lab.run(), lab.run(force=["Job:Talk"])]
    found = parity(folder_of(runs[0]), folder_of(runs[1]))
    assert named(found) == [
        "event run_start options.force",
        "event input_recorded Input:Name -",
        "event plan_computed plan_sha256",
    ]


def test_two_comparisons_of_the_same(talks: Talks) -> None:
    """Runs of mode `compare` have no plan; what they found is compared."""
    folders = []
    for rows in (2, 2, 3):
        lab = talks.project()
        lab.succeed()
        lab.write({"mood.json": json.dumps({"table": "id,word\n" + "1,a\n" * rows})})
        assert run(lab.root, "compare", "--quiet").returncode == 1
        folders.append(lab.run_folder("r0002"))
    assert differences(parity(folders[0], folders[1])) == []
    found = parity(folders[0], folders[2])
    assert [name for name in named(found) if not name.startswith("status")] == [
        "artifact Artifact:Talk.Table sha256",
        "event comparison Artifact:Talk.Table details",
        "event comparison Artifact:Talk.Table summary",
    ]
