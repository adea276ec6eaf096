"""`status.json` names the failure that came first in the log, also where steps failed several times."""

from __future__ import annotations

import json
from pathlib import Path

from project_lab import Lab
from whyrun.log.outcomes import fold_outcome, status_of


def test_the_status_written_by_the_run_is_the_fold_of_its_log(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write(
        {
            "workflow.yaml": """
            workflow: demo
            jobs:
              Early:
                uses: shell
                with:
                  run: |
                    if grep step_[f]ailed EVENTS; then until grep "exit status [2]" EVENTS; do sleep 0.02; done; fi
                    exit 1
                retries: {max: 1, backoff: 10ms}
              Late:
                uses: shell
                with: {run: 'until grep "exit status [1]" EVENTS; do sleep 0.02; done; exit 2'}
            """
        }
    )
    # Each waits for the failure of the other to stand in the log.
    events = str(lab.run_folder("r0001") / "events.jsonl")
    lab.write({"workflow.yaml": lab.read("workflow.yaml").replace("EVENTS", events)})
    ran = lab.run(jobs=2)
    assert ran.exit_code == 1
    assert ran.folder is not None
    # Early fails first, but for good only after Late.
    assert ran.status()["error"] == "Job:Late: CommandFailed: exit status 2"
    written = json.loads((ran.folder / "status.json").read_text())
    assert written == json.loads(json.dumps(status_of(fold_outcome(lab.events("r0001")))))
