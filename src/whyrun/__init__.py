"""Whyrun runs workflows whose steps are slow or paid for. It runs what is needed and explains why.

    import whyrun

    flow = whyrun.load("workflow.yaml")
    print(flow.explain())
    result = flow.run()

The public names are imported when they are first used, so that `import whyrun` is fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers treat this name as True; importing `typing` would cost time

__version__ = "0.1.0"

# public name → its module
_PUBLIC = {
    "load": "whyrun.api",
    "plan": "whyrun.api",
    "explain": "whyrun.api",
    "run": "whyrun.api",
    "compare": "whyrun.api",
    "validate": "whyrun.api",
    "LoadedWorkflow": "whyrun.api",
    "RunResult": "whyrun.execution.run.session",
    "Artifact": "whyrun.results",
    "Table": "whyrun.results",
    "CompareResult": "whyrun.execution.compare.compare",
    "Comparison": "whyrun.artifacts.compare.result",
    "Action": "whyrun.actions.base",
    "Cost": "whyrun.money",
    "Context": "whyrun.actions.base",
    "action": "whyrun.actions.base",
    "Connection": "whyrun.actions.parameters",
    "Directory": "whyrun.actions.parameters",
    "File": "whyrun.actions.parameters",
    "FileOrDirectory": "whyrun.actions.parameters",
    "Meta": "whyrun.actions.parameters",
    "Parameters": "whyrun.actions.parameters",
    "Secret": "whyrun.actions.parameters",
    "Plan": "whyrun.planning.plan",
    "PlanOptions": "whyrun.planning.plan",
    "PlannedJob": "whyrun.planning.plan",
    "compute_execution_plan": "whyrun.planning.plan",
    "render_explain": "whyrun.planning.answers.explain",
    "explain_json": "whyrun.planning.answers.explain",
    "PlanningSnapshot": "whyrun.snapshot.snapshot",
    "build_planning_snapshot": "whyrun.snapshot.build",
    "CanonicalId": "whyrun.ids",
    "parse_id": "whyrun.ids",
    "LogLevel": "whyrun.console.lines",
    "TaskStatus": "whyrun.console.lines",
    "WorkflowLogger": "whyrun.console.logger",
    "Diagnostic": "whyrun.errors",
    "InvalidError": "whyrun.errors",
    "StateError": "whyrun.errors",
    "WhyrunError": "whyrun.errors",
}

__all__ = [
    "Action",
    "Artifact",
    "CanonicalId",
    "CompareResult",
    "Comparison",
    "Connection",
    "Context",
    "Cost",
    "Diagnostic",
    "Directory",
    "File",
    "FileOrDirectory",
    "InvalidError",
    "LoadedWorkflow",
    "LogLevel",
    "Meta",
    "Parameters",
    "Plan",
    "PlanOptions",
    "PlannedJob",
    "PlanningSnapshot",
    "RunResult",
    "Secret",
    "StateError",
    "Table",
    "TaskStatus",
    "WhyrunError",
    "WorkflowLogger",
    "__version__",
    "action",
    "build_planning_snapshot",
    "compare",
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
    from whyrun.actions.parameters import Connection, Directory, File, FileOrDirectory, Meta, Parameters, Secret
    from whyrun.api import LoadedWorkflow, compare, explain, load, plan, run, validate
    from whyrun.artifacts.compare.result import Comparison
    from whyrun.console.lines import LogLevel, TaskStatus
    from whyrun.console.logger import WorkflowLogger
    from whyrun.errors import Diagnostic, InvalidError, StateError, WhyrunError
    from whyrun.execution.compare.compare import CompareResult
    from whyrun.execution.run.session import RunResult
    from whyrun.ids import CanonicalId, parse_id
    from whyrun.money import Cost
    from whyrun.planning.answers.explain import explain_json, render_explain
    from whyrun.planning.plan import Plan, PlannedJob, PlanOptions, compute_execution_plan
    from whyrun.results import Artifact, Table
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
