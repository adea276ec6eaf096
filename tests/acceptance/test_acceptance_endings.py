"""How runs end: never with a false success, and without any effect if the request is invalid."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from project_lab import Lab, Process, codes
from whyrun.errors import InvalidError
from whyrun.execution.backends.registry import RunOptions
from whyrun.log.events import StepFailed

Make = Callable[..., Lab]

COOPERATIVE = """
    workflow: coop
    jobs:
      Long:
        uses: python
        with: {call: "long:work", project: PROJECT}
        outputs: {Text: {type: text, path: out.txt}}
"""
LONG = """
import pathlib, time
def work(project, context):
    pathlib.Path(project, "began").touch()
    done = 0
    while done < 6000 and not context.cancelled:
        time.sleep(0.05)
        done += 1
    return {"Text": f"{done} of 6000"}
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_partial_result_of_an_interrupted_step_does_not_count(project: Make, number: signal.Signals) -> None:
    lab = project(COOPERATIVE, {"long.py": LONG})
    lab.edit("workflow.yaml", "PROJECT", f'"{lab.root}"')
    process = Process(lab)
    process.wait_for_file("began")
    process.signal(number)
    code, _ = process.end()
    assert code == 130
    assert not (lab.root / "out.txt").exists()
    (failed,) = [e for e in lab.events("r0001") if isinstance(e, StepFailed)]
    assert (failed.step_id, failed.status, failed.error_type) == ("Job:Long", "INTERRUPTED", "Interrupted")
    assert codes(lab.plan()) == {"Job:Long": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]}


GPU = """
    workflow: gpu
    jobs:
      Big:
        uses: shell
        resources: {gpu: 2}
        with: {run: 'echo x > "$out_Text"'}
        outputs: {Text: {type: text}}
"""


def test_a_job_that_wants_more_than_the_limit_is_refused_before_anything_runs(project: Make) -> None:
    lab = project(GPU, {})
    with pytest.raises(InvalidError, match="`Big` needs gpu: 2, but the limit is 1"):
        lab.run(limits={"gpu": 1})
    assert lab.runs() == []
    assert lab.run(limits={"gpu": 2}).executed == ["Job:Big"]


def test_a_limit_that_no_job_uses_is_refused(project: Make) -> None:
    with pytest.raises(InvalidError, match="no job uses the resource `gpx`"):
        project(GPU, {}).run(limits={"gpx": 1})


@pytest.mark.parametrize("options", [{"jobs": -3}, {"limits": {"gpu": "x"}}, {"limits": {"gpu": -1}}])
def test_invalid_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidError, match="USAGE"):
        RunOptions(**options)  # type: ignore[arg-type]


def test_broken_settings_are_found_before_there_is_a_run(project: Make) -> None:
    lab = project(GPU, {"whyrun.toml": "resources = [\n"})
    with pytest.raises(InvalidError, match="not valid TOML"):
        lab.run()
    assert lab.runs() == []


PUBLISH = """
    workflow: publish
    jobs:
      Paid:
        uses: shell
        retries: 3
        with: {run: 'echo x > "$out_Text"'}
        outputs: {Text: {type: text, path: out/x.txt}}
"""


def test_a_result_that_cannot_be_published_fails_once_and_names_the_path(project: Make) -> None:
    """Executing the step again would not help, and may cost; and no path of the machine stands in the evidence."""
    lab = project(PUBLISH, {})
    (lab.root / "out").mkdir()
    os.mkfifo(lab.root / "out/x.txt")  # it cannot be saved, so it is not written over
    ran = lab.run()
    (failed,) = ran.of(StepFailed)
    assert (failed.error_type, failed.will_retry) == ("NotPublished", False)
    assert str(lab.root) not in failed.error + failed.traceback
    assert ran.exit_code == 1
