"""Whyrun: workflows whose steps are slow or paid for. Re-run exactly what is needed, and say exactly why.

    import whyrun

    flow = whyrun.load("workflow.yaml")
    print(flow.explain())
    result = flow.run()

The names below are imported when they are first used: `import whyrun` itself costs nearly nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the name that type checkers know, without the import of `typing`

__version__ = "0.1.0"

# public name → the module that has it
_PUBLIC = {
    "load": "whyrun.api",
    "plan": "whyrun.api",
    "explain": "whyrun.api",
    "run": "whyrun.api",
    "validate": "whyrun.api",
    "LoadedWorkflow": "whyrun.api",
    "RunResult": "whyrun.execution.session",
    "Action": "whyrun.actions.base",
    "Context": "whyrun.actions.base",
    "action": "whyrun.actions.base",
    "Plan": "whyrun.planning.plan",
    "PlanOptions": "whyrun.planning.plan",
    "PlannedJob": "whyrun.planning.plan",
    "compute_execution_plan": "whyrun.planning.plan",
    "render_explain": "whyrun.planning.explain",
    "explain_json": "whyrun.planning.explain",
    "PlanningSnapshot": "whyrun.snapshot.snapshot",
    "build_planning_snapshot": "whyrun.snapshot.build",
    "CanonicalId": "whyrun.ids",
    "parse_id": "whyrun.ids",
    "Diagnostic": "whyrun.errors",
    "InvalidError": "whyrun.errors",
    "StateError": "whyrun.errors",
    "WhyrunError": "whyrun.errors",
}

__all__ = [
    "Action",
    "CanonicalId",
    "Context",
    "Diagnostic",
    "InvalidError",
    "LoadedWorkflow",
    "Plan",
    "PlanOptions",
    "PlannedJob",
    "PlanningSnapshot",
    "RunResult",
    "StateError",
    "WhyrunError",
    "__version__",
    "action",
    "build_planning_snapshot",
    "compute_execution_plan",
    "explain",
    "explain_json",
    "load",
    "parse_id",
    "plan",
    "render_explain",
    "run",
    "validate",
]

if TYPE_CHECKING:
    from typing import Any

    from whyrun.actions.base import Action, Context, action
    from whyrun.api import LoadedWorkflow, explain, load, plan, run, validate
    from whyrun.errors import Diagnostic, InvalidError, StateError, WhyrunError
    from whyrun.execution.session import RunResult
    from whyrun.ids import CanonicalId, parse_id
    from whyrun.planning.explain import explain_json, render_explain
    from whyrun.planning.plan import Plan, PlannedJob, PlanOptions, compute_execution_plan
    from whyrun.snapshot.build import build_planning_snapshot
    from whyrun.snapshot.snapshot import PlanningSnapshot


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'whyrun' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
