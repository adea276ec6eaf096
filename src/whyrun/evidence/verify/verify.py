"""`whyrun verify`: is the evidence of a workflow unchanged? The chain of its log, the bytes of its artifacts, the files
of its run folders; and on request, whether its recorded plans can be reproduced.

Logs are read in blocks, one run at a time. Only outcomes, hashes and problems stay in memory. Nothing is written or
repaired. Published files are not checked, because users may change them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from whyrun import __version__
from whyrun.artifacts.hashing import bytes_sha256, canonical_json, file_sha256
from whyrun.artifacts.store import Store
from whyrun.errors import Diagnostic, WhyrunError
from whyrun.evidence.run_directory import RunDirectory, source_files
from whyrun.evidence.verify.bytes import PLAN_FILE, BlobCheck, Mention, Recorded, check_file, check_plan, plan_file
from whyrun.evidence.verify.consistency import EventConsistency, FileConsistency, kept_notes
from whyrun.evidence.verify.lines import LineCheck, check_end, described, tombstone_problem
from whyrun.evidence.verify.report import NOT_WHOLE, SOURCE_GONE, Checked, Findings, Verification, VerifyProblem
from whyrun.ids import split_site
from whyrun.log import events as ev
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE
from whyrun.log.journal import EVENTS_FILE, FIRST_CHAIN, STATUS_FILE, last_chain, last_event, read_blocks, read_events
from whyrun.log.lock import holder, running_run
from whyrun.log.outcomes import RunOutcome, status_of
from whyrun.log.runs import LAST_LOST_HINT, LAST_NOT_THERE, NOT_THERE, RunRef, WorkflowState, run_name
from whyrun.log.tombstones import Tombstone
from whyrun.snapshot.history.reader import fold_run, fold_runs
from whyrun.snapshot.records import Records


class _Sources(msgspec.Struct):
    """The part of a snapshot blob that is read."""

    sources: dict[str, str]


_decode_sources = msgspec.json.Decoder(_Sources).decode

Replay = Callable[[str], None]  # recomputes the plan of a run; raises if it differs from the recorded plan


def verify(
    state: WorkflowState, project: Path, replay: Replay, only: str | None = None, replayed: Collection[str] = ()
) -> Verification:
    """Check all runs, or `only` one and its links to its neighbours; recompute the plans of the runs `replayed`."""
    verifier = _Verifier(state, project)
    verification = verifier.verify(replay, only, replayed)
    if not verification.sound and state.tombstones() != verifier.stones:
        # Runs were pruned while they were read: check once more without them.
        kept = {run.name for run in state.runs()}
        return _Verifier(state, project).verify(replay, only, [name for name in replayed if name in kept])
    return verification


class _Verifier:
    def __init__(self, state: WorkflowState, project: Path) -> None:
        self.state = state
        self.running = running_run(state)  # asked first: a run that ends meanwhile is only checked less thoroughly
        self.lost_last = state.lost_last_run()
        self.runs, self.stones = state.runs_and_tombstones()
        self.store = Store(state.store)
        self.findings = Findings()
        self.checked = Checked()
        self.blobs = BlobCheck(self.store, project, self.findings, self.checked)
        self.plans: dict[str, str] = {}  # run with a recorded plan → the version of whyrun that recorded it
        self.damaged_from: int | None = None  # the first run with a damaged log
        self.not_replayed: list[str] = []  # runs whose plans were computed from the log of a pruned run

    def verify(self, replay: Replay, only: str | None, replayed: Collection[str]) -> Verification:
        chain: str | None = FIRST_CHAIN
        before, expected = "an empty log", 1
        chosen = self.state.run(only) if only is not None else None
        all_runs: list[RunRef | Tombstone] = [*self.runs, *self.stones]
        for run in sorted(all_runs, key=lambda one: one.number):
            if run.number != expected and chosen is None:
                self._lost(expected, run.number - 1)
                chain = None  # the run that it continues is missing
            if isinstance(run, Tombstone):
                chain, before, expected = self._tombstone(run, chosen, chain, before), run.run, run.number + 1
                continue
            if chosen is not None and run.number != chosen.number:
                chain = self._neighbour(run, chosen, chain, before)
            else:
                chain = self._run(run, chain, before)
            before, expected = run.name, run.number + 1
        if self.lost_last is not None and chosen is None:
            folder = str(self.state.runs_dir / self.lost_last)
            what = f"the run {LAST_NOT_THERE}"
            self.findings.add(VerifyProblem("run", self.lost_last, folder, what, hint=LAST_LOST_HINT))
        self.blobs.finish(self._current)
        for name in replayed:
            self._replay(name, replay)
        if self.not_replayed:
            some = ", ".join(self.not_replayed[:3]) + (", …" if len(self.not_replayed) > 3 else "")
            plans = f"the plan of {some} is" if len(self.not_replayed) == 1 else f"the plans of {some} are"
            self.findings.note(f"{plans} not computed again: made from the log of runs that were pruned")
        findings = self.findings
        return Verification(
            self.state.workflow, chain, self.checked, tuple(findings.problems), findings.count, tuple(findings.notes)
        )

    # --- one run -------------------------------------------------------------------------------------------------

    def _run(self, run: RunRef, chain: str | None, before: str) -> str | None:
        """Check one run, and return the last link of its chain; None if that is unknown."""
        self.checked.runs += 1
        has_status = (run.path / STATUS_FILE).exists()  # checked before reading: `status.json` is written last
        lines = LineCheck(str(run.events_path), run.name, chain, before, self.findings.add)
        outcome = RunOutcome()
        recorded: dict[str, Recorded] = {}  # file of the run folder → its last hash in the log
        plans: list[tuple[ev.PlanComputed, int]] = []  # the first one, and those of stages
        repaired = False
        size = 0
        twice = EventConsistency(run.name, lines.file, self.state.workflow, outcome)
        blocks = _Blocks(run)
        for block in blocks:
            size += len(block)
            events, numbers = lines.feed(block)
            for event, line in zip(events, numbers, strict=True):
                # The most frequent events come first: a log may have a million. These do not change the outcome.
                twice.add(event, line)
                if type(event) is ev.CfgMaterialized or type(event) is ev.ManifestMaterialized:
                    recorded[event.path] = (event.sha256, event.size, line)
                elif type(event) is ev.ArtifactAvailable:
                    self.blobs.artifact(event, run.name, lines.file, line)
                else:
                    outcome.add(event)
                    self.blobs.event(event, run.name, lines.file, line)
                    if type(event) is ev.PlanComputed:
                        plans.append((event, line))
                    elif type(event) is ev.LogRepaired:
                        repaired = True
            if events:
                outcome.last_ts = events[-1].ts
        self.checked.events += lines.lines
        if lines.damaged:
            self._damaged(run)
        if not lines.lines:
            self._damaged(run)
            what = "there is no log" if not run.events_path.exists() else "the log is empty, which a kill cannot cause"
            self.findings.add(VerifyProblem("run", run.name, lines.file, what))
            return None
        if blocks.refused is not None:
            self._damaged(run)
            self.findings.add(VerifyProblem("log", run.name, lines.file, blocks.refused.message, blocks.refused.line))
        if not lines.damaged and blocks.refused is None:
            self._fold(run, lines.file)
            for problem in twice.problems:  # one damage is reported once
                if not self.findings.has_line(run.name, problem.line):
                    self.findings.add(problem)
                    self._damaged(run)
        self.findings.notes += kept_notes(run.name, twice.kept)
        if plans:
            self.plans[run.name] = outcome.start.engine_version if outcome.start is not None else ""
        if run.name == self.running or (blocks.refused is None and self._goes_on(run, outcome)):
            self.findings.note(f"{run.name} is running{self._by()}: its events so far are checked, its files are not")
            return lines.chain
        ends_well = blocks.refused is None and self._end(run, outcome, lines, size, repaired, has_status)
        whole = ends_well and not lines.damaged
        sound = self._folder(run, outcome, recorded, plans, whole)
        if whole and outcome.end is not None:
            files = FileConsistency(run.path, twice, self.findings, whole=has_status and not repaired)
            files.commands(sound)
            files.metrics()
        return lines.chain

    def _fold(self, run: RunRef, file: str) -> None:
        """Read the run as every command reads it: what planning would refuse must not pass as sound."""
        try:
            fold_run(Records(), run)
        except WhyrunError as refused:
            first = refused.diagnostics[0]
            if first.code == "RUN_PRUNED":
                return  # pruned while it was read
            self._damaged(run)
            if not self.findings.has_line(run.name, first.line):
                self.findings.add(VerifyProblem("log", run.name, file, first.message, first.line))

    def _goes_on(self, run: RunRef, outcome: RunOutcome) -> bool:
        """Whether the last run started after the lock was checked: it is running, or ended after its log was read."""
        if outcome.end is not None or run is not self.runs[-1]:
            return False
        return running_run(self.state) == run.name or _has_ended(run)

    def _end(
        self, run: RunRef, outcome: RunOutcome, lines: LineCheck, size: int, repaired: bool, has_status: bool
    ) -> bool:
        """Whether the end of the log has no problem. The traces of a kill are not damage."""
        torn = os.stat(run.events_path).st_size - size
        ended = outcome.end is not None
        is_last = run is self.runs[-1]
        end = check_end(lines, torn, ended=ended, repaired=repaired, is_last=is_last, has_status=has_status)
        if end.problem is not None:
            self._damaged(run)
            self.findings.add(end.problem)
        if end.note is not None:
            self.findings.note(end.note)
        return end.problem is None

    def _folder(
        self,
        run: RunRef,
        outcome: RunOutcome,
        recorded: dict[str, Recorded],
        plans: list[tuple[ev.PlanComputed, int]],
        whole: bool,
    ) -> dict[str, str]:
        """Check the files of a run folder; the hash of each file that the log names and that has this hash."""
        sound: dict[str, str] = {}
        for path, expected in recorded.items():
            if check_file(run.path, path, expected, run.name, self.findings, self.checked):
                sound[path] = expected[0]
        for event, line in plans:
            mention = Mention(run.name, str(run.events_path), line, *described(event))
            planned = check_plan(run.path, event, mention, self.findings, self.checked)
            self.blobs.plan_lists(planned, mention)
            self._totals(event, planned, mention)
            if event.stage is None:
                self._sources(run, outcome, event, mention)
        checked = {*recorded, EVENTS_FILE, *((PLAN_FILE,) if plans else ())}
        mode = outcome.start.mode if outcome.start is not None else "adopt"
        missing = [name for name in RunDirectory(run.path).missing_files(mode) if name not in checked]
        if "status.json" in missing:
            if outcome.end is not None:
                self.findings.note(f"{run.name} has no `status.json`: the next run completes its folder")
        else:
            for name in missing:
                absent = run.path / name
                kind = "folder" if name == "source" else "file"
                exists = os.path.lexists(absent)
                what = f"it is not a {kind}: move it away" if exists else f"the {kind} is missing"
                hint = SOURCE_GONE if name == "source" else NOT_WHOLE
                self.findings.add(VerifyProblem("run", run.name, str(absent), what, hint=hint))
            if whole:  # a damaged log has another outcome
                self._status(run, outcome)
        return sound

    def _totals(self, event: ev.PlanComputed, plan: Any, mention: Mention) -> None:
        """Check the two numbers that the event repeats from the plan."""
        if plan is None:
            return  # reported
        layers = plan["layers"]
        totals = {"planned": sum(map(len, layers)), "layers": len(layers)}
        for name, expected in totals.items():
            if expected != (found := getattr(event, name)):
                what, where = f"`{name}` is not that of `{plan_file(event)}`", (mention.line, mention.event)
                self.findings.add(
                    VerifyProblem("log", mention.run, mention.file, what, *where, None, str(expected), str(found))
                )

    def _sources(self, run: RunRef, outcome: RunOutcome, plan: ev.PlanComputed, mention: Mention) -> None:
        """Check `source/` against the snapshot of the plan. Comparisons and decisions have no stored snapshot."""
        try:
            sources = _decode_sources(self.store.read(plan.snapshot_sha256)).sources
        except (WhyrunError, *UNREADABLE):
            return  # reported as a damaged blob
        recorded = outcome.start.workflow_sha256 if outcome.start is not None else None
        actual = bytes_sha256(canonical_json(sources))
        if recorded not in (None, actual):
            what = "`workflow_sha256` is not the hash of the sources in the run's snapshot"
            self.findings.add(
                VerifyProblem("log", run.name, mention.file, what, 1, "run_start", None, actual, recorded)
            )
        if not (run.path / "source").is_dir():
            return  # reported as a whole
        for name, data in source_files(sources).items():
            path = run.path / name
            if path.is_file():
                self.checked.files += 1
                expected, found = bytes_sha256(data), file_sha256(path)
                what = "the file is not the one in the run's snapshot"
            else:
                expected, found, what = None, None, "the file is missing"
            if expected != found or expected is None:
                problem = VerifyProblem("run", run.name, str(path), what, None, None, None, expected, found)
                self.findings.add(replace(problem, hint=SOURCE_GONE))

    def _status(self, run: RunRef, outcome: RunOutcome) -> None:
        path = run.path / "status.json"
        self.checked.files += 1
        try:
            actual = decoded(msgspec.json.decode, path.read_bytes())
        except (OSError, *UNREADABLE) as wrong:
            self.findings.add(VerifyProblem("status", run.name, str(path), f"the file is not a status: {wrong}"))
            return
        expected = status_of(outcome)
        if actual == expected:
            return
        if not isinstance(actual, dict):
            self.findings.add(VerifyProblem("status", run.name, str(path), "the file is not a status"))
            return
        ours = {name: value for name, value in expected.items() if name not in actual or actual[name] != value}
        theirs = {name: value for name, value in actual.items() if name not in expected or name in ours}
        names = [f"`{name}`" for name in {**ours, **theirs}]
        which = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        what = f"{which} {'does' if len(names) == 1 else 'do'} not match the events"
        self.findings.add(VerifyProblem("status", run.name, str(path), what, expected=_text(ours), found=_text(theirs)))

    # --- between runs --------------------------------------------------------------------------------------------

    def _tombstone(self, stone: Tombstone, chosen: RunRef | None, chain: str | None, before: str) -> str:
        """Check the tombstone of a pruned run: the chain goes through it. Returns its last link."""
        file, line = str(self.state.tombstones_path), self.stones.index(stone) + 1
        problem = tombstone_problem(stone.run, stone.previous_chain, file, line, chain, before)
        if (chosen is None or stone.number == chosen.number + 1) and problem is not None:
            self.findings.add(problem)
            self._damaged_at(stone.number)
        if chosen is None:
            self.checked.pruned += 1
            for saved in stone.displaced:
                self.blobs.saved(saved.sha256, Mention(stone.run, file, line, "file_displaced", saved.path))
            for version in stone.adopted:
                mention = Mention(stone.run, file, line, "artifact_adopted", version.artifact)
                self.blobs.adopted(version.sha256, version.type, mention)
        return stone.chain

    def _neighbour(self, run: RunRef, chosen: RunRef, chain: str | None, before: str) -> str | None:
        """Check only the chain between the chosen run and its neighbours."""
        if run.number < chosen.number:
            return _last_link(run)
        if run.number == chosen.number + 1 and chain is not None:
            start = _first_event(run)
            if isinstance(start, ev.RunStart) and start.previous_chain != chain:
                what = f"the run does not follow {before} (`previous_chain`): that was removed, replaced or changed"
                file = str(run.events_path)
                self.findings.add(
                    VerifyProblem("log", run.name, file, what, 1, "run_start", None, chain, start.previous_chain)
                )
                self._damaged(chosen)
        return chain

    def _lost(self, first: int, last: int) -> None:
        for number in range(first, last + 1):
            name = run_name(number)
            self.findings.add(VerifyProblem("run", name, str(self.state.runs_dir / name), f"the run {NOT_THERE}"))
        self._damaged_at(first)

    def _damaged(self, run: RunRef) -> None:
        self._damaged_at(run.number)

    def _damaged_at(self, number: int) -> None:
        if self.damaged_from is None or number < self.damaged_from:
            self.damaged_from = number

    def _by(self) -> str:
        by = holder(self.state.lock_path)
        return f" (pid {by.pid})" if by is not None else ""

    def _current(self, lost: Container[str]) -> Mapping[str, Collection[str | None]] | None:
        paths: dict[str, list[str | None]] = {}
        try:
            for sha, path in self._latest():
                if sha in lost:
                    paths.setdefault(sha, []).append(path)
        except WhyrunError:
            return None  # the log is damaged, so no missing version is known to be superseded
        return paths

    def _latest(self) -> Iterator[tuple[str, str | None]]:
        """(hash, published path or None) of every artifact's latest version, and of the files in folder artifacts."""
        for record in fold_runs(self.runs).steps.values():
            success = record.last_success()
            for output in success.outputs if success is not None else ():
                if output.held:
                    continue  # the log has the value
                path, key = split_site(output.path) if output.path is not None else (None, None)
                path = path if key is None else None
                yield output.sha256, path
                if output.type == "directory" and self.store.has(output.sha256):
                    for file in self.store.read_tree(output.sha256).files:
                        yield file.sha256, None if path is None else f"{path}/{file.path}"

    # --- plans ---------------------------------------------------------------------------------------------------

    def _replay(self, name: str, replay: Replay) -> None:
        if name not in self.plans:
            return  # a comparison, a decision, or a run that was killed before its plan was recorded
        if self.damaged_from is not None and int(name[1:]) >= self.damaged_from:
            self.findings.note(f"the plan of {name} is not computed again: the log that it was made from is damaged")
            return
        try:
            replay(name)
        except WhyrunError as refused:
            first = refused.diagnostics[0]
            if first.code == "RUN_PRUNED":
                self.not_replayed.append(name)
                return
            if first.code == "STORE_DAMAGED" and self.findings.has_blob(first.file):
                self.findings.note(f"the plan of {name} is not computed again: a blob that it was made from is damaged")
                return
            damaged = os.path.basename(os.path.dirname(first.file or ""))
            if first.code == "LOG_DAMAGED" and first.file is not None and damaged != name:  # another run
                self.findings.add(VerifyProblem("log", damaged, first.file, first.message, first.line))
                return
            then = self.plans[name]
            versions = f" (recorded by whyrun {then}, computed by {__version__})" if then != __version__ else ""
            file = first.file if first.file is not None else str(self.state.runs_dir / name / EVENTS_FILE)
            self.findings.add(VerifyProblem("plan", name, file, first.message + versions, first.line, "plan_computed"))
            return
        self.checked.plans += 1


class _Blocks:
    """The blocks of a log, up to the first that cannot be read."""

    def __init__(self, run: RunRef) -> None:
        self.run = run
        self.refused: Diagnostic | None = None  # why reading stopped: synced lines are lost

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from read_blocks(self.run.events_path)
        except (FileNotFoundError, IsADirectoryError):
            return  # reported as a run without a log
        except WhyrunError as damage:
            self.refused = damage.diagnostics[0]


def _has_ended(run: RunRef) -> bool:
    try:
        return isinstance(last_event(run.events_path), ev.RunComplete)
    except WhyrunError:
        return False


def _last_link(run: RunRef) -> str | None:
    try:
        return last_chain(run.events_path)
    except (FileNotFoundError, WhyrunError):
        return None  # another run is damaged: there is nothing to compare with


def _first_event(run: RunRef) -> ev.AnyEvent | None:
    try:
        return next(read_events(run.events_path, run.name), None)
    except (FileNotFoundError, WhyrunError):
        return None


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
