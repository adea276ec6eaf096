"""Reads the runs that an export is about: their logs, and for reasons the plans that the logs name."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from whyrun.exports.record import RecordedInput, RunRecord, fold
from whyrun.exports.texts import Cleaner
from whyrun.log import events as ev
from whyrun.log.journal import STAGES_FILE
from whyrun.log.runs import RunRef, log_without_start

if TYPE_CHECKING:
    from whyrun.project import Project

LONGEST_TREE = 8 << 20  # bytes of a blob that may list the files of a folder: larger ones are not read for it


@dataclass(frozen=True, slots=True)
class RunSubject:
    """A run in the log of a project."""

    project: Project
    run: RunRef
    link: str = ""
    namespace: str = ""
    metadata_only: bool = False
    verify: bool = False

    def record(self) -> RunRecord:
        from whyrun.evidence.queries.history import inputs_in_force

        record = _read(self.project, self.run)
        cleaner = self._cleaner()
        runs, pruned = self.project.state.runs_and_tombstones()
        for one in inputs_in_force(runs, self.run.name, pruned):
            record.inputs.append(RecordedInput(one.id, one.sha256, one.size, cleaner.json(one.value)))
        return record

    def records(self) -> Iterator[RunRecord]:
        for run in self.project.state.runs():
            if run.number <= self.run.number:
                yield _read(self.project, run)

    def members(self, long: Mapping[str, Any]) -> list[dict[str, Any]]:
        from whyrun.errors import WhyrunError
        from whyrun.log.decoding import read_long_list

        try:
            members = read_long_list(dict(long), self.project.store.read)
        except WhyrunError:
            return []  # `whyrun verify` tells of it
        cleaner = self._cleaner()
        return [cleaner.member(member) if isinstance(member, dict) else {"id": str(member)} for member in members]

    def _cleaner(self) -> Cleaner:
        """That of the whole run: a value is the same wherever it is shown."""
        start = next((event for event in self.run.events() if isinstance(event, ev.RunStart)), None)
        return cleaner_of(self.project, "" if start is None else start.host)

    def blobs(self, sha256: str) -> Mapping[str, tuple[str, int]]:
        from whyrun.errors import WhyrunError

        store = self.project.store
        try:
            found = {"": sha256}
            if os.path.getsize(store.path(sha256)) <= LONGEST_TREE and store.has_tree(sha256):
                found = {file.path: file.sha256 for file in store.read_tree(sha256).files}
            for each in found.values():
                store.check(each)
            return {name: (store.path(each), os.path.getsize(store.path(each))) for name, each in found.items()}
        except (WhyrunError, OSError):
            return {}

    def checks(self) -> Mapping[str, list[str]] | None:
        if not self.verify:
            return None
        from whyrun.evidence.verify.report import Kind
        from whyrun.evidence.verify.verify import verify
        from whyrun.facts.plans import plan_of_run

        def replay(run: str) -> None:
            plan_of_run(self.project, run)

        name, cleaner = self.run.name, self._cleaner()
        found = verify(self.project.state, self.project.folder, replay, name, [name])
        problems: dict[str, list[str]] = {kind: [] for kind in get_args(Kind)}
        for one in found.problems:
            line = "" if one.line is None else f":{one.line}"
            problems[one.kind].append(cleaner.text(f"{os.path.abspath(one.file)}{line}: {one.what}"))
        return problems

    def sources(self) -> Mapping[str, bytes]:
        """Of the latest run up to this one that has them: a comparison executes what a run has read."""
        for run in reversed([run for run in self.project.state.runs() if run.number <= self.run.number]):
            folder = run.path / "source"
            if folder.is_dir():
                paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
                found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
                main = os.path.relpath(self.project.file, self.project.folder)
                return {name: found[name] for name in sorted(found, key=lambda name: (name != main, name))}
        return {}


def chosen_run(project: Project, name: str | None) -> RunRef:
    """This run, else the last one. RUN_UNKNOWN if there is none."""
    from whyrun.errors import error

    if name is not None:
        return project.state.run(name)
    runs = project.state.runs()
    if not runs:
        hint = "start the first run with `whyrun run`"
        raise error("RUN_UNKNOWN", f"`{project.workflow.name}` has not run yet", hint=hint)
    return runs[-1]


def cleaner_of(project: Project, host: str) -> Cleaner:
    return Cleaner(os.path.abspath(project.folder), host, [os.path.expanduser("~"), tempfile.gettempdir()])


def _read(project: Project, run: RunRef) -> RunRecord:
    from whyrun.log.lock import running_run

    is_running = running_run(project.state) == run.name  # asked before the log is read
    computed: list[str] = []  # the digests of the plan and of its stages
    start: ev.RunStart | None = None
    try:
        for event in run.events():
            if isinstance(event, ev.RunStart):
                start = event
            elif isinstance(event, ev.PlanComputed):
                computed.append(event.plan_sha256)
                if not (run.path / STAGES_FILE).exists():
                    break  # the rest of the log may be long
    except FileNotFoundError:
        raise log_without_start(run) from None
    if start is None:
        raise log_without_start(run)
    cleaner = cleaner_of(project, start.host)
    plan = plan_of(run, computed)
    return fold(project.state.workflow, run.name, run.events(), cleaner, plan=plan, is_running=is_running)


def plan_of(run: RunRef, computed: Sequence[str]) -> Mapping[str, Any] | None:
    """The content of `plan.json`, if it is the plan that the log names: a changed file says nothing.

    `computed`: the digests of the plan and of its stages, as the log has them.
    """
    from whyrun.evidence.run_directory import RunDirectory
    from whyrun.planning.plan import written_digest

    if not computed:
        return None
    try:
        plan: dict[str, Any] = json.loads((run.path / "plan.json").read_bytes())
        recorded = f"sha256:{computed[0]}"
        if not plan.get("digest") == recorded == written_digest(plan):
            return None
        for stage in RunDirectory(run.path).stage_plans(computed):
            plan["jobs"] += stage["jobs"]
            plan["totals"]["clean"] += stage["totals"]["clean"]
        return plan
    except (OSError, ValueError, AttributeError):
        return None
