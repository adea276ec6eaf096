"""`whyrun keep`: let present results stand after a harmless change, without executing. The log records who said so and
why, and both fingerprints.

Jobs are judged in the order of the graph, as the planner does. Each kept job counts as up to date for those after it,
so one command can keep a whole chain. If one job is refused, nothing is recorded.
"""

from __future__ import annotations

import os
import platform
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from whyrun import __version__
from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.console.lines import TaskStatus
from whyrun.errors import Diagnostic, InvalidError, WhyrunError, error, exit_of, in_short
from whyrun.evidence.composition.run_folder import finish_run
from whyrun.evidence.queries.history import inputs_in_force
from whyrun.evidence.run_directory import RunDirectory, source_files
from whyrun.execution.dispatch.step_builder import manifest, recorded_bindings
from whyrun.execution.recording.publisher import path_and_section
from whyrun.execution.recording.recorded import recorded_artifacts
from whyrun.execution.recording.recorder import Recorder, Reporter
from whyrun.execution.run.preflight import complete_killed_run
from whyrun.graph.fingerprint import counted
from whyrun.graph.layers import compute_layers
from whyrun.graph.tables import Computed, JobTable, Slot
from whyrun.ids import whole_input
from whyrun.log import events as ev
from whyrun.log.decoding import observed_field
from whyrun.log.journal import Clock, utc_now
from whyrun.log.lock import RunLock
from whyrun.log.outcomes import fold_outcome
from whyrun.log.repair import repair
from whyrun.log.runs import RunRef, create_run
from whyrun.planning.answers.whatif import inputs_of_parameter
from whyrun.planning.consume import Consumption
from whyrun.planning.id_matching import match_nodes
from whyrun.planning.input_changes import InputChanged
from whyrun.planning.judge import CLEAN, Judge, Verdict
from whyrun.planning.reasons import MissingOutput, Reason, reason_json
from whyrun.project import Project
from whyrun.snapshot.reads import present_packages, present_reads
from whyrun.snapshot.records import Attempt, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot, leaf_inputs

# --- the run of a decision of the user: an adoption, or results that are kept. It executes nothing and has no plan ----
# It repairs the log first, as every run does, and leaves the evidence of any run: see `recorded`.


@dataclass(frozen=True, slots=True)
class DecisionRun:
    """One decision, while the lock of its workflow is held."""

    project: Project
    reporter: Reporter
    clock: Clock
    lock: RunLock

    def snapshot(self) -> PlanningSnapshot:
        """The present state, after a repair of the log if a run was killed."""
        state, store = self.project.state, self.project.store
        report = repair(state, self.lock, self.clock, lambda run: complete_killed_run(run, store, state.scratch))
        if report is not None:
            self.reporter.note(f"{report.run} was cut short; its log was repaired")
        return self.project.snapshot()

    @contextmanager
    def recorded(
        self,
        snapshot: PlanningSnapshot,
        mode: Literal["adopt", "decide"],
        options: Mapping[str, Any],
        shown: Sequence[tuple[int, Mapping[str, Any]]],
    ) -> Iterator[tuple[RunRef, Recorder]]:
        """Begin the run, and complete its evidence, also after an error. `shown`: its jobs with what they consume."""
        started = time.monotonic()
        graph, store = snapshot.dependency_graph, self.project.store
        manifest_data = manifest(graph, shown, snapshot.actions)
        sources = dict(graph.workflow.sources)
        run, journal = create_run(
            self.project.state,
            ev.RunStart(
                workflow=graph.workflow.name,
                workflow_sha256=bytes_sha256(canonical_json(sources)),
                mode=mode,
                options=dict(options),
                backend="local",
                engine_version=__version__,
                host=platform.node(),
                pid=os.getpid(),
                previous_chain="",
            ),
            self.clock,
            {"manifest.yaml": manifest_data, **source_files(sources)},
        )
        self.lock.announce(run.name, journal)
        directory = RunDirectory(run.path)
        recorder = Recorder(journal, directory, store, self.reporter, self.clock)
        try:
            size, sha256 = len(manifest_data), bytes_sha256(manifest_data)
            recorder.event(ev.ManifestMaterialized(path="manifest.yaml", size=size, sha256=sha256))
            yield run, recorder
        except BaseException as original:
            # A second error while the evidence is completed must not hide the first.
            try:
                self._finish(run, recorder, directory, started, original)
            except (OSError, WhyrunError) as second:
                original.add_note(f"completing the evidence of {run.name} failed as well: {second}")
            raise
        self._finish(run, recorder, directory, started)
        self.project.cache.settle()
        self.project.save_cache()

    def _finish(
        self,
        run: RunRef,
        recorder: Recorder,
        directory: RunDirectory,
        started: float,
        problem: BaseException | None = None,
    ) -> None:
        recorder.flush()
        end = ev.RunComplete(
            state="succeeded" if problem is None else "failed",
            counts=fold_outcome(run.events()).counts(),
            duration=round(time.monotonic() - started, 6),
            error=in_short(problem) if problem is not None else None,
            exit_code=int(exit_of(problem)) if problem is not None else None,
        )
        recorder.event(end)
        recorder.close()
        finish_run(directory, self.project.store)


@contextmanager
def decision_run(project: Project, reporter: Reporter, clock: Clock) -> Iterator[DecisionRun]:
    """Take the lock. Every error of the workflow itself is reported before."""
    project.actions  # noqa: B018
    with RunLock.of(project.state, clock) as lock:
        yield DecisionRun(project, reporter, clock, lock)


def user_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return str(os.getuid())


# --- `whyrun keep` ----------------------------------------------------------------------------------------------------


MOST_REFUSALS = 20  # that a message lists
LONGEST_REASON = 1000  # characters of `because`


@dataclass(frozen=True, slots=True)
class KeptJob:
    """A job instance whose outputs stand. `changes`: what its plan would have given as reasons."""

    id: str
    made_in: str
    old_fingerprint: str
    fingerprint: str
    changes: tuple[Reason, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "made_in": self.made_in,
            "old_fingerprint": self.old_fingerprint,
            "fingerprint": self.fingerprint,
            "changes": [reason_json(change) for change in self.changes],
        }


@dataclass(frozen=True, slots=True)
class KeepResult:
    """`clean`: jobs that were named and are up to date anyway."""

    run: str
    because: str
    by: str
    kept: tuple[KeptJob, ...]
    clean: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "because": self.because,
            "by": self.by,
            "kept": [job.to_json() for job in self.kept],
            "clean": list(self.clean),
        }


def keep_results(
    project: Project, ids: Sequence[str], because: str, reporter: Reporter, clock: Clock = utc_now
) -> KeepResult:
    """Keep the results of the jobs that these IDs and patterns match."""
    because = because.strip()
    if not because or len(because) > LONGEST_REASON:
        what = "is empty" if not because else f"has {len(because)} characters, more than {LONGEST_REASON}"
        raise error("USAGE", f"the reason {what}", hint="say why the result still holds, in a few words")
    if not ids:
        raise error("USAGE", "no job is named", hint="name the jobs whose results are to be kept, such as `Job:Report`")
    for text in ids:
        match_nodes(project.settled_graph(), text)  # an unknown ID is told before the lock is taken
    with decision_run(project, reporter, clock) as decision:
        snapshot = decision.snapshot()
        asked = frozenset(node for text in ids for node in match_nodes(snapshot.dependency_graph, text))
        judge = _KeepingJudge(project, snapshot, asked)
        judge.judge_all(compute_layers(snapshot.dependency_graph))
        judge.check()
        options, by = {"keep": sorted(set(ids)), "because": because}, user_name()
        shown = [(one.node, one.consumed.shown) for one in judge.kept]
        with decision.recorded(snapshot, "decide", options, shown) as (run, recorder):
            for one in judge.kept:
                one.record(recorder, snapshot, because, by)
    return KeepResult(run.name, because, by, tuple(one.facts for one in judge.kept), judge.clean)


@dataclass(frozen=True, slots=True)
class _Keepable:
    node: int
    table: JobTable
    position: int
    consumed: Consumption
    facts: KeptJob

    def record(self, recorder: Recorder, snapshot: PlanningSnapshot, because: str, by: str) -> None:
        """The outputs come first; the last event makes them count (see `RunFold.keep`)."""
        table, position = self.table, self.position
        record = snapshot.record(self.node)
        assert record is not None
        made = {output.id: output for output in record.latest.outputs}
        whole = {spec.key_at(position): made[table.artifact_id(a, position)] for a, spec in enumerate(table.artifacts)}
        for recorded in recorded_artifacts(table, position, whole).values():
            output = made[recorded.id]
            path, section = path_and_section(recorded.site)
            recorder.event(
                ev.ArtifactAvailable(
                    artifact=output.id,
                    step_id=self.facts.id,
                    sha256=output.sha256,
                    size=output.size,
                    type=output.type,
                    suffix=output.suffix,
                    path=path,
                    section=section,
                    value=output.value,
                    reused_from=run_name(record.latest.source_of(output.id)[0]),
                )
            )
        action, store = snapshot.actions[table.name], recorder.store
        reads = present_reads(snapshot, self.node, self.consumed.made_now)
        recorder.event(
            ev.ResultKept(
                step_id=self.facts.id,
                fingerprint=self.facts.fingerprint,
                old_fingerprint=self.facts.old_fingerprint,
                from_run=self.facts.made_in,
                because=because,
                by=by,
                bindings=recorded_bindings(table, position, self.consumed, action, store.put_bytes),
                observed=observed_field(reads, store.put_bytes) if reads else None,
                packages=present_packages(snapshot, self.node),
            )
        )
        recorder.status(action.name, TaskStatus.SKIPS, f"{self.facts.id} → kept from {self.facts.made_in}: {because}")


class _KeepingJudge(Judge):
    """Judges as the planner does, and takes the instances that are asked for as up to date if they can be kept."""

    def __init__(self, project: Project, snapshot: PlanningSnapshot, asked: frozenset[int]) -> None:
        super().__init__(snapshot, {})
        self.project, self.asked = project, asked
        self.kept: list[_Keepable] = []
        self.refused: dict[int, Diagnostic] = {}
        self._in_force = cache(self._inputs_in_force)

    @property
    def clean(self) -> tuple[str, ...]:
        """Instances that were asked for and are up to date without it, or inactive."""
        kept = {one.node for one in self.kept}
        return tuple(self.graph.job_id(node) for node in sorted(self.asked - kept))

    def judge(self, node: int) -> Verdict:
        verdict = super().judge(node)
        if node not in self.asked or verdict.state != "dirty":
            return verdict
        table, position = self.graph.table_at(node)
        consumed = self.consumer.consume(table, position)
        refusal = self._refusal(node, table, position, consumed, verdict)
        if refusal is not None:
            self.refused[node] = refusal.diagnostics[0]
            return verdict
        record = self.snapshot.record(node)
        assert record is not None
        latest, fingerprint = record.latest, self.fingerprint(table, position, consumed)
        facts = KeptJob(
            table.job_id(position), run_name(latest.made_in), latest.fingerprint, fingerprint, verdict.reasons
        )
        self.kept.append(_Keepable(node, table, position, consumed, facts))
        return CLEAN

    def check(self) -> None:
        """Raise if one cannot be kept, or if there is nothing to keep. Jobs that only wait for a refused one are not
        listed."""
        if self.refused:
            raise InvalidError(list(self.refused.values())[:MOST_REFUSALS])
        if not self.kept:
            inactive = [n for n in sorted(self.asked) if self.verdicts.get(n, CLEAN).state == "inactive"]
            one = self.graph.job_id(min(self.asked))
            if len(inactive) == len(self.asked):
                raise _refused(one, "it is inactive", f"`whyrun why {shlex.quote(one)}` says why")
            more = f" and {len(self.asked) - 1} more" if len(self.asked) > 1 else ""
            hint = "`whyrun explain` lists the jobs that would run"
            raise error("NOT_KEEPABLE", f"there is nothing to keep: {one}{more} would not run anyway", hint=hint)

    # -- refusals --

    def _refusal(
        self, node: int, table: JobTable, position: int, consumed: Consumption, verdict: Verdict
    ) -> WhyrunError | None:
        job, record = table.job_id(position), self.snapshot.record(node)
        run_it = f"run it: `whyrun run --target {shlex.quote(job)}`"
        if record is None or record.last_success() is None:
            return _refused(job, "it has no result yet", run_it)
        if not record.latest.ok:
            return _refused(job, f"its latest attempt failed in {run_name(record.latest.run)}", run_it)
        missing = next((reason for reason in verdict.reasons if isinstance(reason, MissingOutput)), None)
        if missing is not None:
            hint = run_it
            if missing.edited_path is not None and missing.artifact is not None:
                hint = f"adopt your version, or {run_it}"
            return _refused(job, f"an output is missing: {missing.text(job)}", hint)
        if consumed.problems:
            name, problem = next(iter(consumed.problems.items()))
            return _refused(job, f"`{name}` cannot be computed: {problem}", "correct the workflow")
        if consumed.waits or not consumed.known:
            return self._waiting(job, consumed)
        changed = self._changed_content(table, position, consumed, record.latest)
        if changed is not None:
            what = self._change_text(changed, job, verdict)
            return _refused(job, f"the content of what it reads has changed: {what}", run_it)
        return None

    def _waiting(self, job: str, consumed: Consumption) -> WhyrunError:
        first = self.graph.node(next(consumed.pending))
        upstream = self.graph.job_id(first)
        if first in self.refused:
            hint = f"see what is said of `{upstream}`"
        else:
            hint = f"keep or run that one first; together: `whyrun keep {shlex.quote(upstream)} {shlex.quote(job)}`"
        return _refused(job, f"what it reads is not known, because `{upstream}` is still to run", hint)

    def _changed_content(self, table: JobTable, position: int, consumed: Consumption, success: Attempt) -> str | None:
        """The first slot that reads content of an input or artifact that the last success did not read.

        Another name for the same content is no change of content; neither are parameters, unless an input that they
        are computed from has changed.
        """
        before = self.snapshot.consumed[(success.run, success.seq)]
        read = {sha256 for name, members in before.items() for sha256 in _contents(members) or () if name != ".action"}
        own = f"Input:{table.path(position)}."
        for slot in counted(table, self.snapshot.actions[table.name].uncounted):
            was, entry = before.get(slot.name), consumed.entries[slot.name]
            now = [one.sha256 for one in (entry if isinstance(entry, list) else [entry])]
            if was is not None and _contents(was) == now:
                continue
            was_bound = isinstance(was, dict) or any(not member["id"].startswith(own) for member in was or ())
            if slot.binding or was_bound:
                if was is not None or not read.issuperset(now):
                    return slot.name
            elif self._computed_from_changed(table, slot, position, success.run):
                return slot.name
        return None

    def _computed_from_changed(self, table: JobTable, slot: Slot, position: int, run: int) -> bool:
        """Whether an input or artifact that a parameter is computed from may have changed since the last success."""
        term = slot.column.at(position)
        if isinstance(term, Computed) and term.operands:
            return True
        then, now = self._in_force(run), {id_: value.sha256 for id_, value in leaf_inputs(self.graph.inputs)}
        named = inputs_of_parameter(self.graph, table, slot)
        return any(then.get(id_) != now.get(id_) for id_ in {*then, *now} if whole_input(id_) in named)

    def _inputs_in_force(self, run: int) -> Mapping[str, str]:
        state = self.project.state
        return {one.id: one.sha256 for one in inputs_in_force(state.runs(), run_name(run), state.tombstones())}

    def _change_text(self, slot: str, job: str, verdict: Verdict) -> str:
        name = slot.removeprefix(".")
        changes = (reason for reason in verdict.reasons if isinstance(reason, InputChanged) and reason.binding == name)
        return next((change.text(job) for change in changes), name)


def _contents(members: Any) -> list[str] | None:
    """The hashes of a recorded binding; None if its list is lost."""
    return [member["sha256"] for member in members] if isinstance(members, list) else None


def _refused(job: str, why: str, hint: str) -> WhyrunError:
    return error("NOT_KEEPABLE", f"the result of `{job}` cannot be kept: {why}", hint=hint)
