"""A result that cannot be published: the step fails, but the next run reuses its result and does not pay again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from project_lab import Heard, Lab, Ran, codes
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.log import events as ev

Make = Callable[..., Lab]

# `Paid` counts its executions outside of the project's own records.
PAID = """
    workflow: paid
    inputs: {Word: {type: string, default: one}}
    jobs:
      Paid:
        uses: shell
        retries: {max: 3, backoff: 1ms}
        with: {word: "${{ inputs.Word }}", count: COUNT, run: 'echo x >> "$count"; echo "$word" > "$out_Text"; echo log > "$out_Log"'}
        outputs: {Log: {type: text, path: logs/paid.txt}, Text: {type: text, path: out/text.txt}}
      Upper:
        uses: shell
        with: {text: "${{ jobs.Paid.outputs.Text }}", run: 'tr a-z A-Z < "$text" > "$out_Loud"'}
        outputs: {Loud: {type: text}}
"""  # noqa: E501

TAIL = "; the result is kept, and the next run publishes it"


@contextmanager
def pipe_in_its_place(lab: Lab) -> Iterator[str]:
    out, aside = lab.root / "out", lab.root / "aside"
    stood = out.exists()
    if stood:
        out.rename(aside)
    out.mkdir()
    os.mkfifo(out / "text.txt")
    yield (
        "WRONG_TYPE: `out/text.txt` is neither a file nor a folder, so it cannot be saved before it is overwritten "
        "(move it away, then run again)"
    )
    (out / "text.txt").unlink()
    out.rmdir()
    if stood:
        aside.rename(out)


@contextmanager
def no_room_for_it(lab: Lab) -> Iterator[str]:
    """A file system that takes no more, as far as one file is concerned: only where it is to be published."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    out = lab.root / "out"
    out.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(out)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("a file system cannot be mounted here")
    try:
        (out / "ballast").write_bytes(b"\0" * 4096)
        yield "OSError: No space left on device"
    finally:
        subprocess.run(["umount", "--lazy", str(out)], check=True)


@contextmanager
def read_only_folder(lab: Lab) -> Iterator[str]:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (lab.root / "out").mkdir(mode=0o555)
    yield "PermissionError: Permission denied"
    (lab.root / "out").chmod(0o755)


WAYS = (pipe_in_its_place, no_room_for_it, read_only_folder)


def paid(project: Make, more: str = "", old: str = "retries: {max: 3, backoff: 1ms}") -> Lab:
    lab = project(PAID)
    lab.edit("workflow.yaml", "COUNT", str(lab.root / "executions"))
    lab.edit("workflow.yaml", old, more or old)
    return lab


def executions(lab: Lab) -> int:
    return len(lab.read("executions").splitlines())


def failure(ran: Ran) -> ev.StepFailed:
    (failed,) = ran.of(ev.StepFailed)
    return failed


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_step_fails_once_and_the_next_run_only_publishes(project: Make, way: Callable[[Lab], object]) -> None:
    lab = paid(project)
    with way(lab) as why:  # type: ignore[attr-defined]
        ran = lab.run()
        failed = failure(ran)
        assert (failed.step_id, failed.status, failed.error_type, failed.will_retry) == (
            "Job:Paid", "FAILED", "NotPublished", False,
        )  # fmt: skip
        assert failed.error == f"`out/text.txt` could not be written: {why}{TAIL}"
        assert str(lab.root) not in failed.error + failed.traceback
        assert (ran.exit_code, ran.result.state, ran.blocked) == (1, "failed", {"Job:Upper": ["Job:Paid"]})
        assert ran.status()["error"] == f"Job:Paid: NotPublished: {failed.error}"
        assert not (ran.folder / "artifacts").exists()  # type: ignore[operator]
        assert executions(lab) == 1, "no retry by executing"

        # While it cannot be written, every further run says so, and executes nothing.
        again = lab.run()
        assert (again.starts, again.reused, again.failed) == ([], {}, {"Job:Paid": ("FAILED", "NotPublished")})
        assert (again.exit_code, again.blocked, executions(lab)) == (1, {"Job:Upper": ["Job:Paid"]}, 1)
        assert (again.status()["steps_failed"], again.status()["steps_skipped"]) == (1, 0)
        assert again.status()["error"] == f"Job:Paid: NotPublished: {failed.error}"

    plan = lab.plan()
    assert codes(plan) == {
        "Job:Paid": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT", "MISSING_OUTPUT"],
        "Job:Upper": ["MISSING_OUTPUT"],
    }
    assert {job["id"]: job.get("reuse") for job in plan.to_json()["jobs"]} == {"Job:Paid": "r0001", "Job:Upper": None}
    last = lab.succeed()
    assert (last.reused, last.executed, executions(lab)) == ({"Job:Paid": "r0001"}, ["Job:Upper"], 1)
    assert [text for status, text in last.heard.lines if status == "SKIPS" and "reused from r0001" in text] != []
    assert (lab.read("out/text.txt"), lab.read("logs/paid.txt")) == ("one\n", "log\n")
    assert lab.plan().planned == []


def test_a_link_that_appears_during_the_run_is_not_followed(project: Make) -> None:
    """It was not there when the run looked, before it started anything; and no run mends it, so none is promised to."""
    lab = paid(project)
    lab.edit("workflow.yaml", "echo x >>", f"ln -s / {lab.root}/out; echo x >>")
    ran = lab.run()
    assert (ran.exit_code, ran.failed) == (1, {"Job:Paid": ("FAILED", "NotPublished")})
    assert failure(ran).error == (
        "`out/text.txt` could not be written: PATH_OUTSIDE: `out/text.txt` would be written through the link `out`, "
        "which leads out of the project; the result is kept: remove the link or choose another path, then run again"
    )
    (lab.root / "out").unlink()
    last = lab.succeed()
    assert (last.reused, executions(lab), lab.read("out/text.txt")) == ({"Job:Paid": "r0001"}, 1, "one\n")


def test_changes_are_still_reported_against_the_older_success(project: Make) -> None:
    lab = paid(project)
    lab.succeed()
    with pipe_in_its_place(lab):
        lab.run(sets=["Word=two"])
    plan = lab.plan(sets=["Word=two"])
    assert codes(plan)["Job:Paid"] == ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT", "MISSING_OUTPUT", "INPUT_CHANGED"]
    # With the old input the old result is taken, with the new one the unpublished; nothing is executed for either.
    assert lab.succeed().reused == {"Job:Paid": "r0001"}
    assert lab.read("out/text.txt") == "one\n"
    ran = lab.succeed(sets=["Word=two"])
    assert (ran.reused, ran.executed, executions(lab)) == ({"Job:Paid": "r0002"}, ["Job:Upper"], 2)
    assert lab.read("out/text.txt") == "two\n"


def test_a_forced_step_is_executed_again(project: Make) -> None:
    lab = paid(project)
    with pipe_in_its_place(lab):
        lab.run()
    assert lab.succeed(force=["Job:Paid"]).executed == ["Job:Paid", "Job:Upper"]
    assert executions(lab) == 2


def test_without_its_stored_bytes_the_step_is_executed_again(project: Make) -> None:
    lab = paid(project)
    with pipe_in_its_place(lab):
        (made, _) = lab.run().of(ev.ArtifactAvailable)
    blob = lab.blob(made.sha256)
    blob.parent.chmod(0o755)
    blob.unlink()
    (lab.root / "logs/paid.txt").unlink(missing_ok=True)
    assert [job.reuse for job in lab.plan().planned] == [None, None]
    assert lab.succeed().executed == ["Job:Paid", "Job:Upper"]


def test_a_reuse_that_cannot_be_published_is_repeated_by_the_next_run(project: Make) -> None:
    lab = paid(project)
    lab.succeed()
    before = lab.plan(sets=["Word=two"])
    with pipe_in_its_place(lab):
        ran = lab.run()
        assert (ran.starts, ran.failed) == ([], {"Job:Paid": ("FAILED", "NotPublished")})
        assert failure(ran).will_retry is False
        assert (ran.exit_code, ran.result.counts.failed, ran.result.counts.reused) == (1, 1, 0)
        assert [status for status, _ in ran.heard.lines] == ["FAILED"]
    plan = lab.plan()
    assert codes(plan)["Job:Paid"] == ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT", "MISSING_OUTPUT"]
    # What it last consumed in a success is as it was before.
    changed = [r for r in lab.plan(sets=["Word=two"]).planned[0].reasons if r.code == "INPUT_CHANGED"]
    assert changed == [r for r in before.planned[0].reasons if r.code == "INPUT_CHANGED"]
    last = lab.succeed()
    assert (last.executed, last.reused["Job:Paid"], executions(lab)) == ([], "r0001", 1)
    assert lab.plan().planned == []


def test_with_fail_fast_a_reuse_that_cannot_be_published_stops_the_run(project: Make) -> None:
    lab = paid(project)
    lab.succeed()
    with pipe_in_its_place(lab):
        ran = lab.run(fail_fast=True, jobs=1, force=["Job:Upper"])
    assert (ran.exit_code, ran.failed, ran.starts) == (1, {"Job:Paid": ("FAILED", "NotPublished")}, [])


def test_a_deterministic_job_reuses_a_result_that_another_could_not_publish(project: Make) -> None:
    lab = project("""
        workflow: twins
        jobs:
          One: {uses: shell, deterministic: true, with: {run: 'echo same > "$out_T"'}, outputs: {T: {type: text, path: a/t.txt}}}
          Two: {uses: shell, deterministic: true, with: {run: 'echo same > "$out_T"'}, outputs: {T: {type: text, path: b/t.txt}}}
    """)  # noqa: E501
    (lab.root / "a").mkdir()
    os.mkfifo(lab.root / "a/t.txt")
    assert lab.run(targets=["Job:One"]).failed == {"Job:One": ("FAILED", "NotPublished")}
    ran = lab.run(targets=["Job:Two"])
    assert (ran.exit_code, ran.reused) == (0, {"Job:Two": "r0001"})
    assert lab.read("b/t.txt") == "same\n"


def test_adopted_bytes_that_cannot_be_published_again_stay_their_own_instances(project: Make) -> None:
    lab = project(
        """
        workflow: twins
        jobs:
          One: {uses: shell, deterministic: true, with: {run: 'echo same > "$out_T"'}, outputs: {T: {type: text, path: a/t.txt}}}
          Two: {uses: shell, deterministic: true, with: {run: 'echo same > "$out_T"'}, outputs: {T: {type: text, path: b/t.txt}}}
        """,  # noqa: E501
        {"mine.txt": "mine\n"},
    )
    lab.succeed(targets=["Job:One"])
    adopt_file(lab.opened(), "Artifact:One.T", lab.root / "mine.txt", Heard())
    lab.write({"a": None})
    (lab.root / "a").mkdir()
    os.mkfifo(lab.root / "a/t.txt")
    assert lab.run(targets=["Job:One"]).failed == {"Job:One": ("FAILED", "NotPublished")}
    (lab.root / "a/t.txt").unlink()
    last = lab.succeed()
    assert (last.reused, last.executed) == ({"Job:One": "r0002", "Job:Two": "r0001"}, [])
    assert (lab.read("a/t.txt"), lab.read("b/t.txt")) == ("mine\n", "same\n")


def test_another_output_can_be_adopted_beside_what_could_not_be_published(project: Make) -> None:
    lab = paid(project)
    lab.write({"mine.txt": "mine\n"})
    with pipe_in_its_place(lab):
        lab.run()
    adopt_file(lab.opened(), "Artifact:Paid.Log", lab.root / "mine.txt", Heard())
    assert (lab.read("logs/paid.txt"), lab.read("out/text.txt")) == ("mine\n", "one\n")
    assert lab.succeed().executed == ["Job:Upper"]
    assert executions(lab) == 1


def test_an_error_of_the_step_itself_with_that_name_is_no_result(project: Make) -> None:
    lab = project(
        """
        workflow: own
        jobs:
          Bad: {uses: python, with: {call: "bad:fail"}, outputs: {T: {type: text}}}
          Mute: {uses: python, with: {call: "bad:fail", why: no outputs}}
        """,
        {"bad.py": "class NotPublished(Exception):\n    pass\n\ndef fail(why=''):\n    raise NotPublished(why)\n"},
    )
    assert {kind for _, kind in lab.run().failed.values()} == {"NotPublished"}
    assert [job.reuse for job in lab.plan().planned] == [None, None]
    assert sorted(step for step, _ in lab.run().starts) == ["Job:Bad", "Job:Mute"]


def test_a_log_with_an_unpublished_result_of_a_step_that_never_began_is_incomplete(
    project: Make, tmp_path: Path
) -> None:
    lab = paid(project)
    with pipe_in_its_place(lab):
        lab.run()
    log = lab.run_folder("r0001") / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b'"step_start"' not in line and b'"artifact_available"' not in line]
    renumbered = [b'{"seq":%d,' % (n + 1) + line.partition(b",")[2] for n, line in enumerate(kept)]
    log.write_bytes(b"".join(renumbered))
    with pytest.raises(Exception, match="`Job:Paid` failed without a `step_start`"):
        lab.plan()


def test_an_overwritten_link_is_kept_as_the_text_of_its_target(project: Callable[..., Lab]) -> None:
    """What it led to stays; and nobody takes the text for what stood there."""
    lab = project("""
        workflow: w
        jobs:
          A: {uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text, path: out/t.txt}}}
    """, {"out/x": "", "other.txt": "mine"})  # fmt: skip
    (lab.root / "out/t.txt").symlink_to("../other.txt")
    (note,) = lab.succeed().heard.notes
    told, _, place = note.rpartition(": ")
    why = "was not as this workflow left it; the existing link is kept as the text of its target"
    assert told == f"`out/t.txt` {why}"
    assert Path(place).read_text() == "../other.txt"
    assert (lab.read("out/t.txt"), lab.read("other.txt")) == ("1\n", "mine")
