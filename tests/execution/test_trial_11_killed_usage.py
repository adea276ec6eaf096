"""What a step used that was killed after its timeout: its processes are asked before they die."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable

from project_lab import Lab
from whyrun.execution.backends.local.worker_process import used_by

# It holds 40 MB and computes until it is killed.
FLOW = """
    workflow: w
    jobs:
      Slow:
        uses: shell
        timeout: 1s
        with: {run: 'x=$(head -c 40000000 /dev/zero | tr "\\\\0" a); while :; do :; done'}
"""


def test_a_step_that_timed_out_has_processor_time_and_memory(project: Callable[..., Lab]) -> None:
    """Issue 17, number 11. The summary had neither."""
    ran = project(FLOW).run()
    assert ran.failed == {"Job:Slow": ("TIMED_OUT", "TimedOut")}
    usage = ran.result.usage
    assert usage.cpu_seconds > 0
    assert (usage.peak_step, usage.peak_bytes > 1_000_000) == ("Job:Slow", True)
    assert ran.folder is not None
    metrics = [json.loads(line) for line in (ran.folder / "metrics.jsonl").read_text().splitlines()]
    found = {metric["metric"]: metric["value"] for metric in metrics}
    assert found["cpu_seconds"] == usage.cpu_seconds
    assert found["max_rss_bytes"] == usage.peak_bytes


def test_processes_are_added_up_and_those_that_are_gone_say_nothing() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        found = used_by([process.pid, os.getpid()])
        own = used_by([os.getpid()])
        assert found["max_rss_bytes"] == own["max_rss_bytes"] > used_by([process.pid])["max_rss_bytes"] > 0
        assert own["cpu_seconds"] > 0
        process.kill()
    assert used_by([process.pid]) == used_by([]) == {}
