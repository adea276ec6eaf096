"""A generated project on disk. The oracles check every plan and every run."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from crash_fork_server import forked_workers
from msgspec.structs import replace
from oracle_backend import Crash, Faults, LabBackend
from oracle_counts import Counts
from oracle_flow import MODULI, Flow, artifacts_of, flow_yaml, module_source, published_path
from oracle_judge import Disk, Judge, Verdict, raw_events
from oracle_truth import run_everything

from whyrun.console.logger import WorkflowLogger
from whyrun.errors import InvalidError
from whyrun.execution.backends.base import Backend
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.run.session import RunResult, run_workflow
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.planning.reasons import CODES
from whyrun.project import Project
from whyrun.snapshot.history.reader import History
from whyrun.snapshot.history.replay import replay_snapshot

PURE = Path(__file__).with_name("oracle_pure.py").read_text(encoding="utf-8")


class Lab:
    def __init__(self, project: Path, flow: Flow) -> None:
        self.project = project
        self.flow = flow
        self.style = 0
        self.counts = Counts()
        self.flows: dict[str, Flow] = {}  # run → the workflow that it ran
        self.write()

    # -- the project --

    @property
    def file(self) -> Path:
        return self.project / "lab.yaml"

    def write(self) -> None:
        self._actions: dict[str, str] | None = None
        (self.project / "in").mkdir(parents=True, exist_ok=True)
        self._put("pure.py", PURE)
        for module in MODULI:
            self._put(f"{module}.py", module_source(self.flow, module, self.style))
        for path, text in self.flow.files.items():
            self._put(path, text)
        self._put("lab.yaml", flow_yaml(self.flow, self.style))

    def _put(self, path: str, text: str) -> None:
        file = self.project / path
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")

    def opened(self) -> Project:
        return Project.open(self.file, state=str(self.project / ".whyrun"))

    def try_flow(self, flow: Flow, style: int | None = None) -> bool:
        """Take this workflow, unless it is invalid: then everything stays as it is."""
        before, old_style = self.flow, self.style
        self.flow, self.style = flow, self.style if style is None else style
        self.write()
        try:
            opened = self.opened()
            opened.graph, opened.actions  # noqa: B018
        except InvalidError:
            self.flow, self.style = before, old_style
            self.write()
            return False
        return True

    @property
    def runs(self) -> list[Path]:
        folder = self.project / ".whyrun" / "lab" / "runs"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    # -- planning, and what is checked with every plan --

    def judge(self) -> Judge:
        if self._actions is None:  # they change only with the project that `write` writes
            self._actions = {name: facts.sha256 for name, facts in self.opened().actions.items()}
        return Judge(self.flow, self.runs, self.flows, self._actions, self.project)

    def plan(self, options: PlanOptions = PlanOptions()) -> Plan:  # noqa: B008  # frozen
        plan = compute_execution_plan(self.opened().snapshot(), options)
        judge = self.judge()
        forced = {s for s in judge.instances if s in options.force or f"layer:{judge.layers[s]}" in options.force}
        verdicts = judge.judge_all(forced)
        planned = judge.planned(verdicts, options.up, options.targets)
        self.compare(plan, judge, verdicts, planned)
        self.counts.plans += 1
        self.counts.verdicts += len(verdicts)
        return plan

    def compare(self, plan: Plan, judge: Judge, verdicts: dict[str, Verdict], planned: set[str]) -> None:
        """State, layer, every reason, reuse and shown bindings of every instance, both directions."""
        written = plan.to_json()
        real = {job["id"]: _flat(job) for job in written["jobs"]}
        expected: dict[str, Any] = {}
        for step, verdict in verdicts.items():
            if verdict.state == "clean":
                continue
            state = "inactive" if verdict.state == "inactive" else "planned" if step in planned else "deferred"
            entry: dict[str, Any] = {"state": state, "layer": judge.layers[step]}
            if state != "inactive":
                entry["reasons"] = sorted(verdict.reasons, key=_in_order)
                entry["bindings"] = dict(verdict.shown)
                entry["conditional"] = verdict.conditional
                entry["reuse"] = None if verdict.reuse is None else verdict.reuse.told_by(step)
            expected[step] = entry
        different = {s for s in real.keys() | expected.keys() if real.get(s) != expected.get(s)}
        assert not different, "\n".join(
            f"{s}\n  planned:  {real.get(s)}\n  expected: {expected.get(s)}" for s in sorted(different)
        )
        totals = written["totals"]
        assert totals["jobs"] == len(judge.instances)
        states = {name: sum(e["state"] == name for e in expected.values()) for name in ("deferred", "inactive")}
        reused = sum(e["state"] == "planned" and e["reuse"] is not None for e in expected.values())
        assert totals == {
            "jobs": len(judge.instances),
            "planned": len(planned) - reused,
            "reused": reused,
            "clean": len(judge.instances) - len(expected),
            **states,
        }
        assert sum(totals.values()) == 2 * totals["jobs"]
        assert sorted(step for layer in written["layers"] for step in layer) == sorted(planned)
        assert all(job["reasons"] for job in written["jobs"] if job["state"] != "inactive")

    def check_caches(self, options: PlanOptions = PlanOptions()) -> None:  # noqa: B008  # frozen
        """Caches, authoring order and the short cut over suspects change no byte."""
        before = compute_execution_plan(self.opened().snapshot(), options).to_bytes()
        assert compute_execution_plan(self.opened().snapshot(), options).to_bytes() == before
        shutil.rmtree(self.project / ".whyrun" / "lab" / "index", ignore_errors=True)
        (self.project / ".whyrun" / "stat-cache").unlink(missing_ok=True)
        assert compute_execution_plan(self.opened().snapshot(), options).to_bytes() == before
        assert self.plan_without_short_cut(options).to_bytes() == before
        # An index of whatever has ended, which as short a log would not get; later runs are folded on top of it.
        for _ in range(2):
            opened = self.opened()
            history = History(opened.state, opened.store.read, worth_indexing=1)
            assert compute_execution_plan(opened.snapshot(history), options).to_bytes() == before
        style = self.style
        self.style = style + 7
        self.write()
        assert compute_execution_plan(self.opened().snapshot(), options).to_bytes() == before
        self.style = style
        self.write()

    def plan_without_short_cut(self, options: PlanOptions) -> Plan:
        """With every instance under suspicion: the snapshot's short cut must not be able to hide anything."""
        opened = self.opened()
        snapshot = opened.snapshot()
        records = snapshot.records.steps.values()
        consumed = opened.history().consumed(a for r in records if (a := r.last_success()) is not None)
        everything = replace(snapshot, suspects=range(snapshot.dependency_graph.size), consumed=consumed)
        return compute_execution_plan(everything, options)

    # -- running, and what is checked after every run --

    def run(
        self,
        options: PlanOptions = PlanOptions(),  # noqa: B008  # frozen
        faults: Faults = Faults(),  # noqa: B008  # frozen
        local: bool = False,
        backend: Backend | None = None,
    ) -> RunResult | None:
        """None: the host broke, as was asked for."""
        before = self.runs
        plan = self.plan(options)
        judge = self.judge()
        lost = {
            (one.run, one.seq, id_)
            for one in judge.tries
            for id_, event in one.outputs.items()
            if not judge.disk.bytes_there(event)
        }
        if backend is None and not local:
            backend = LabBackend(self.flow, faults)
        result: RunResult | None = None
        try:
            with forked_workers() if local else nullcontext():
                result = run_workflow(
                    self.opened(), options, RunOptions(jobs=2), WorkflowLogger(terminal=False), backend=backend
                )
        except Crash:
            assert faults.crash_at is not None
        new = [run for run in self.runs if run not in before]
        if not plan.planned:
            assert not new
            assert result is not None
            assert result.state == "nothing"
            return result
        (run,) = new
        self.flows[run.name] = self.flow
        self.check_run(run, plan, whole=result is not None and result.state != "interrupted")
        self.check_nothing_paid_twice(run, plan, judge, lost)
        self.check_replay(run)
        return result

    def check_run(self, run: Path, plan: Plan, whole: bool) -> None:
        """explained = planned = executed ∪ reused ∪ condition-skipped ∪ blocked ∪ not started."""
        written = json.loads((run / "plan.json").read_bytes())
        # A repair adds to the log before the run plans: then, and only then, the position differs.
        assert {**written, "log_position": None} == {**plan.to_json(), "log_position": None}
        events = raw_events(run)
        planned = {job.id: job for job in plan.planned}
        ways: dict[str, set[str]] = {}
        conditions: set[str] = set()
        blamed: dict[str, list[str]] = {}
        for e in events:
            if e["event"] == "step_start":
                ways.setdefault(e["step_id"], set()).add("executed")
            elif e["event"] == "step_skipped":
                ways.setdefault(e["step_id"], set()).add("reused" if e["why"] == "reused" else "inactive")
            elif e["event"] == "step_blocked":
                ways.setdefault(e["step_id"], set()).add("blocked")
                blamed[e["step_id"]] = e["because"]
            elif e["event"] == "condition_evaluated":
                conditions.add(e["step_id"])
        assert all(len(way) == 1 for way in ways.values()), ways
        assert ways.keys() <= planned.keys()
        if whole:
            assert ways.keys() == planned.keys()
        for step, way in ways.items():
            if planned[step].reuse is not None:
                # Its inputs are known, but what it is to come after may fail.
                needed = self.flow.jobs[_job_name(step)].needs
                assert way == {"reused"} or {_job_name(by) for by in blamed[step]} <= set(needed), (step, way)
        decided = {s for s in ways if planned[s].conditional and not ways[s] & {"blocked", "inactive"}}
        assert decided <= conditions <= {s for s in planned if planned[s].conditional}

    def check_nothing_paid_twice(self, run: Path, plan: Plan, judge: Judge, lost: set[Any]) -> None:
        """What was executed could not have been taken from an earlier run."""
        forced = {job.id for job in plan.planned if any(r.code == "FORCED" for r in job.reasons)}
        after = Judge(self.flow, [*self.runs[: self.runs.index(run) + 1]], self.flows, judge.actions, self.project)
        self.counts.count_run(run.name, plan, judge, after.tries, lost)
        for one in after.tries:
            if one.run != run.name or one.kind != "executed" or one.number != 1 or one.step in forced:
                continue
            wanted = after.signature_of_try(one)
            assert wanted is not None
            own = judge.last_with(one.step, wanted)
            if own is None or not own.ok:
                continue
            job, row = judge.instances[one.step]
            known = {a.id for a in artifacts_of(self.flow, job, row)} <= own.outputs.keys()
            there = not any((own.run, own.seq, id_) in lost for id_ in own.outputs)
            assert not (known and there), f"{one.step} was executed again, though {own.run} has the same"

    def check_replay(self, run: Path) -> None:
        """The log before this run and its snapshot give its plan again, to the byte."""
        events = raw_events(run)
        start = events[0]
        computed = next((e for e in events if e["event"] == "plan_computed"), None)
        if computed is None:
            return
        opened = self.opened()
        history = History(opened.state, opened.store.read, through=int(run.name[1:]) - 1)
        snapshot = replay_snapshot(opened.store.read(computed["snapshot_sha256"]), history)
        options = start["options"]
        again = PlanOptions(options["up"], tuple(options["targets"]), tuple(options["force"]))
        plan = compute_execution_plan(snapshot, again)
        assert plan.to_bytes() == (run / "plan.json").read_bytes()
        assert plan.digest == f"sha256:{computed['plan_sha256']}"

    def released(self) -> set[str]:
        """Steps that the last run blocked because of others that have nothing to do any more."""
        planned = {job.id for job in self.plan().planned}
        blocked = [e for e in raw_events(self.runs[-1]) if e["event"] == "step_blocked"] if self.runs else []
        return {e["step_id"] for e in blocked if e["step_id"] in planned and not planned.intersection(e["because"])}

    def check_truth(self) -> None:
        """After a run in which nothing went wrong by chance: everything is as if it had all been run from nothing."""
        self.counts.truths += 1
        plan = self.plan()
        states = {job.id: job.state for job in plan.jobs}
        judge = self.judge()
        truth = run_everything(self.flow, judge.instances.keys() - states.keys())
        expected = {
            step: "inactive" if end == "inactive" else "planned" for step, end in truth.ends.items() if end != "made"
        }
        assert states == expected, f"\n  states:   {states}\n  expected: {expected}"
        disk = Disk(self.project)
        for step, (job, row) in judge.instances.items():
            if truth.ends[step] != "made":
                continue
            latest = judge.latest(step)
            assert latest is not None
            assert latest.ok
            for artifact in artifacts_of(self.flow, job, row):
                assert latest.outputs[artifact.id]["sha256"] == truth.shas[artifact.id], artifact.id
                path = None if artifact.leaf else published_path(job, row, job.output(artifact.output))
                if path is not None:
                    assert (self.project / path).read_bytes() == truth.texts[artifact.id]
                elif artifact.id in truth.texts and "value" not in latest.outputs[artifact.id]:
                    sha = truth.shas[artifact.id]
                    assert (disk.store / sha[:2] / sha[2:]).read_bytes() == truth.texts[artifact.id]


def _job_name(step: str) -> str:
    return step.removeprefix("Job:").partition("[")[0]


def _flat(job: dict[str, Any]) -> dict[str, Any]:
    """A job of the plan as the judge says it."""
    found: dict[str, Any] = {"state": job["state"], "layer": job["layer"]}
    if job["state"] == "inactive":
        return found
    found["reasons"] = [(reason["code"], _particular(reason)) for reason in job["reasons"]]
    codes = [CODES.index(code) for code, _ in found["reasons"]]
    assert codes == sorted(codes), f"the reasons of {job['id']} are not in their order: {codes}"
    # One binding with many changed members has many reasons; the judge says it once.
    found["reasons"] = sorted(dict.fromkeys(found["reasons"]), key=_in_order)
    found["bindings"] = job["bindings"]
    found["conditional"] = job.get("conditional", False)
    found["reuse"] = job.get("reuse")
    return found


def _in_order(reason: tuple[str, str]) -> tuple[int, str]:
    return CODES.index(reason[0]), reason[1]


def _particular(reason: dict[str, Any]) -> str:
    match reason["code"]:
        case "RETRY_PREVIOUS_FAILURE":
            return f"{reason['run']}/{reason['attempt']}/{reason['error_type']}"
        case "MISSING_OUTPUT" | "UPSTREAM_FAILED":
            return str(reason.get("artifact", ""))
        case "INPUT_CHANGED":
            return str(reason["binding"])
        case "UPSTREAM_DIRTY":
            return str(reason["job"])
    return ""
