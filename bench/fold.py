"""Folding a log of a million events, beside plain msgspec decoding of the same file in the same chunks.

As a script, `python bench/fold.py fold|decode|decode-lean RUN_FOLDER`, it does one of them in a fresh process
and prints the seconds of the work itself.
"""

from __future__ import annotations

import gc
import sys
import time
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any


def make_log(state: Path, steps: int) -> Path:
    """One run of `steps` steps with four events each, written by the real journal; returns its folder."""
    from whyrun.log import events as ev
    from whyrun.log.journal import FIRST_CHAIN, Journal
    from whyrun.log.outcomes import COUNTED

    folder = state / "runs" / "r0001"
    folder.mkdir(parents=True)
    moment = datetime(2026, 6, 23, 12, 3, 23, 123456, tzinfo=UTC)
    journal = Journal.create(folder, "r0001", FIRST_CHAIN, lambda: moment)
    journal.append(
        ev.RunStart(
            workflow="chains", workflow_sha256="0" * 64, mode="run", options={}, backend="local", engine_version="0",
            host="", pid=1, previous_chain=FIRST_CHAIN,
        )
    )  # fmt: skip
    journal.append(
        ev.PlanComputed(
            plan_sha256="0" * 64, snapshot_sha256="0" * 64, planned=steps, layers=10, log_position=None
        )
    )  # fmt: skip
    journal.append(ev.ManifestMaterialized(path="manifest.yaml", size=1, sha256="0" * 64))
    for i in range(steps):
        stage, chain = i % 10, i // 10
        step, made = f"Job:S{stage}[{chain}]", sha256(b"%d" % i).hexdigest()
        used = sha256(b"%d" % (i - 1)).hexdigest()
        source = f"Artifact:S{stage - 1}.Out[{chain}]" if stage else f"Input:Sources[{chain}]"
        journal.append(ev.CfgMaterialized(path=f"cfg/S{stage}%5B{chain}%5D.json", size=312, sha256=made))
        journal.append(
            ev.StepStart(
                step_id=step, driver="python", attempt=1, fingerprint=sha256(step.encode()).hexdigest(),
                bindings={"source": [{"id": source, "sha256": used}]},
            )
        )  # fmt: skip
        journal.append(
            ev.ArtifactAvailable(
                artifact=f"Artifact:S{stage}.Out[{chain}]", step_id=step, sha256=made, size=24, type="file",
                path=f"out/s{stage}-{chain}.txt",
            )
        )  # fmt: skip
        journal.append(
            ev.StepComplete(
                step_id=step, driver="python", output_dir=f"artifacts/S{stage}%5B{chain}%5D", duration=0.000123,
                status="EXECUTES",
            )
        )  # fmt: skip
        if i % 1000 == 0:
            journal.flush()
    journal.append(
        ev.RunComplete(state="succeeded", counts={**dict.fromkeys(COUNTED, 0), "completed": steps}, duration=1.0)
    )
    journal.close()
    return folder


def fold(folder: Path) -> int:
    from whyrun.log.runs import RunRef
    from whyrun.snapshot.history.reader import fold_run
    from whyrun.snapshot.records import Records

    records = Records()
    run = RunRef(folder.name, str(folder), int(folder.name[1:]))
    _, events = fold_run(records, run)
    return events


def decode(folder: Path) -> int:
    """What msgspec alone needs: untyped, a chunk of whole lines at a time, nothing kept."""
    import msgspec

    return _decode(folder, msgspec.json.Decoder())


def decode_lean(folder: Path) -> int:
    """The quickest decoding we know: into the fold's own lean records, with all that it does not need left out."""
    import msgspec

    from whyrun.log.lean_events import LeanEvent

    return _decode(folder, msgspec.json.Decoder(LeanEvent))


def _decode(folder: Path, decoder: Any) -> int:
    from whyrun.log.journal import CHUNK

    count, rest = 0, b""
    with (folder / "events.jsonl").open("rb") as file:
        while chunk := file.read(CHUNK):
            end = chunk.rfind(b"\n") + 1
            count += len(decoder.decode_lines(rest + chunk[:end]))
            rest = chunk[end:]
    return count


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    gc.disable()  # as the CLI does
    work = {"fold": fold, "decode": decode, "decode-lean": decode_lean}[what]
    began = time.perf_counter()
    events = work(folder)
    sys.stdout.write(f"{time.perf_counter() - began:.4f} s for {events} events\n")


if __name__ == "__main__":
    main()
