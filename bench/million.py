"""States that would take an hour to make by running: of a million steps, of a thousand runs.

The files are as the steps would have left them, and the log is as the runs would have written it, by the same
functions. Both whyrun and ninja plan over the same files. ninja's log has one line an output: when it was made, and a
hash of its command. All steps have the same command here, so that the hash of one, taken from a real build, is that of
all.

As a script, so that the bench itself stays small: `python bench/million.py steps|runs FOLDER NUMBER`.
"""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import workload

if TYPE_CHECKING:
    from whyrun.graph.tables import JobTable
    from whyrun.log.journal import Journal
    from whyrun.project import Project

FLUSH = 5000  # steps
CHAINS_OF_RUNS = 100  # where there are many runs


def make_files(folder: Path, chains: int, *, keyed: bool = False) -> None:
    """Stage by stage, so that no output is older than what it was made from."""
    workload.whyrun_project(folder, chains, keyed=keyed)
    (folder / "out").mkdir()
    for stage in range(workload.DEPTH):
        for i in range(chains):
            path = f"{folder}/out/s{stage}-{workload.name_of(i, keyed=True) if keyed else i}.txt"
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(descriptor, _content(i, stage))
            os.close(descriptor)


def _content(chain: int, stage: int) -> bytes:
    return f"source {chain}\n".encode() + b"".join(b"stage %d\n" % s for s in range(stage + 1))


def write_log(folder: Path, more_runs: int = 0) -> int:
    """The log of one run that executed everything, and of so many more that each executed one chain again; how many
    steps that were."""
    from whyrun.project import Project

    opened = Project.open(f"{folder}/workflow.yaml")
    writer = _LogWriter(opened)
    graph = opened.graph
    everything = [(table, position) for table in graph.tables for position in range(len(table))]
    number = writer.write_run(everything, inputs=True)
    for run in range(more_runs):
        number += writer.write_run([(table, run % len(table)) for table in graph.tables])
    return number


class _LogWriter:
    """Writes events by the functions that a run writes them with."""

    def __init__(self, opened: Project) -> None:
        from whyrun.planning.artifact_states import Available
        from whyrun.planning.consume import Consumer
        from whyrun.planning.judge import Judge

        self.project, self.snapshot = opened, opened.snapshot()
        self.graph = self.snapshot.dependency_graph
        self.judge = Judge(self.snapshot, {})
        made = [[""] * len(table) for table in self.graph.tables]  # by table and row: the hash of its one output
        self.consumer, self.made = Consumer(self.graph, lambda at: Available(made[at.table][at.position])), made

    def write_run(self, steps: Sequence[tuple[JobTable, int]], *, inputs: bool = False) -> int:
        from whyrun import __version__
        from whyrun.log import events as ev
        from whyrun.log.journal import utc_now
        from whyrun.log.runs import create_run

        start = ev.RunStart(
            workflow=self.graph.workflow.name, workflow_sha256="0" * 64, mode="run", options={}, backend="local",
            engine_version=__version__, host=platform.node(), pid=os.getpid(), previous_chain="",
        )  # fmt: skip
        _, journal = create_run(self.project.state, start, utc_now, {})
        if inputs:
            self._inputs(journal)
        for number, (table, position) in enumerate(steps):
            self._step(journal, table, position)
            if number % FLUSH == 0:
                journal.flush()
        journal.append(ev.RunComplete(state="succeeded", counts={"completed": len(steps)}, duration=1.0))
        journal.sync()
        journal.close()
        return len(steps)

    def _inputs(self, journal: Journal) -> None:
        from whyrun.log import events as ev
        from whyrun.snapshot.snapshot import changed_inputs, leaf_inputs

        values = dict(leaf_inputs(self.graph.inputs))
        for id_ in sorted(changed_inputs(self.graph.inputs, {})):
            journal.append(ev.InputRecorded(id=id_, sha256=values[id_].sha256))

    def _step(self, journal: Journal, table: JobTable, position: int) -> None:
        from whyrun.execution.dispatch.step_builder import recorded_bindings
        from whyrun.ids import file_name
        from whyrun.log import events as ev

        found = self.consumer.consume(table, position)
        data = _content(position, int(table.name[1:]))
        step, sha = table.job_id(position), sha256(data).hexdigest()
        self.made[table.number][position] = sha
        action, paths = self.snapshot.actions[table.name], table.outputs[0].paths
        assert paths is not None
        journal.append(
            ev.StepStart(
                step_id=step, driver="python", attempt=1, fingerprint=self.judge.fingerprint(table, position, found),
                bindings=recorded_bindings(table, position, found, action, lambda data: sha256(data).hexdigest()),
            )
        )  # fmt: skip
        journal.append(
            ev.ArtifactAvailable(
                artifact=table.artifact_id(0, position), step_id=step, sha256=sha, size=len(data), type="file",
                path=paths[position], suffix=".txt",
            )
        )  # fmt: skip
        output_dir = f"artifacts/{file_name(table.path(position))}"
        journal.append(
            ev.StepComplete(step_id=step, driver="python", output_dir=output_dir, duration=0.001, status="EXECUTES")
        )


def ninja_log(folder: Path, chains: int, ninja: Path) -> None:
    """`build.ninja` over the files that are there, and the log of a build that made them."""
    (folder / "build.ninja").write_text("\n".join(_rules(chains)) + "\n")
    one = folder / "one"
    one.mkdir()
    (one / "build.ninja").write_text("rule step\n  command = true\nbuild out.txt: step\n")
    subprocess.run([ninja, "--quiet"], cwd=one, check=True)
    head, line, *_ = (one / ".ninja_log").read_text().split("\n")
    hashed = line.split("\t")[-1]
    with (folder / ".ninja_log").open("w") as log:
        log.write(f"{head}\n")
        for stage in range(workload.DEPTH):
            for i in range(chains):
                path = f"out/s{stage}-{i}.txt"
                log.write(f"0\t1\t{os.stat(folder / path).st_mtime_ns}\t{path}\t{hashed}\n")


def _rules(chains: int) -> Iterator[str]:
    yield from ("rule step", "  command = true")
    for i in range(chains):
        before = f"src/{i:06d}.txt"
        for stage in range(workload.DEPTH):
            yield f"build out/s{stage}-{i}.txt: step {before}"
            before = f"out/s{stage}-{i}.txt"


if __name__ == "__main__":
    what, where, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    gc.disable()  # as the CLI does
    if what == "runs":
        make_files(where, CHAINS_OF_RUNS)
        write_log(where, number - 1)
    else:
        make_files(where, number // workload.DEPTH)
        write_log(where)
