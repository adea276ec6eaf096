"""What a runner executes, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from whyrun.execution.dispatch.code_guard import CodeGuard
from whyrun.execution.dispatch.run_secrets import RunSecrets
from whyrun.execution.dispatch.watch import WatchPolicy
from whyrun.execution.run.budget import Budget
from whyrun.planning.plan import Plan
from whyrun.planning.reasons import Forced
from whyrun.snapshot.snapshot import PlanningSnapshot


@dataclass(frozen=True, slots=True)
class Work:
    """What a runner executes: the plan, on the snapshot that it was made from."""

    snapshot: PlanningSnapshot
    plan: Plan
    code: CodeGuard
    secrets: RunSecrets


@dataclass(frozen=True, slots=True)
class Policy:
    """How a runner executes it: resource limits, and when and how it stops."""

    limits: Mapping[str, float]
    fail_fast: bool
    grace: float  # seconds between SIGTERM and SIGKILL
    watch: WatchPolicy
    budget: Budget | None = None


def forced_in(plan: Plan) -> set[int]:
    return {job.node for job in plan.planned if any(isinstance(reason, Forced) for reason in job.reasons)}
