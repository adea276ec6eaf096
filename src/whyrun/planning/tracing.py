"""Which jobs of a plan are to be traced once: what only a trace sees may have changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from whyrun.graph.tables import InputAt, JobTable
from whyrun.planning.input_changes import InputChanged
from whyrun.planning.plan import PlannedJob
from whyrun.snapshot.snapshot import PlanningSnapshot

SCRIPT_PARAMETERS = frozenset({"run", "script", "call"})
SCRIPT_SUFFIXES = (".py", ".ipynb", ".sh", ".bash", ".R", ".r", ".Rmd", ".qmd", ".jl", ".pl", ".rb", ".js", ".m", ".do")


def jobs_to_trace(snapshot: PlanningSnapshot, planned: Iterable[PlannedJob]) -> frozenset[str]:
    """The jobs of which no instance was traced, or whose script, action, packages or undeclared reads have changed
    since the last success of a planned instance."""
    found: set[str] = set()
    for job in planned:
        table, position = snapshot.dependency_graph.table_at(job.node)
        if table.name in found or job.reuse is not None:
            continue
        code_changed = any(_is_of_code(table, position, reason) for reason in job.reasons)
        if code_changed or not snapshot.reads.is_traced(table.name) or _packages_changed(snapshot, job.node):
            found.add(table.name)
    return frozenset(found)


def _is_of_code(table: JobTable, position: int, reason: object) -> bool:
    if not isinstance(reason, InputChanged):
        return False
    if reason.read is not None or reason.source == f"Input:{table.path(position)}.action":
        return True
    slot = next((slot for slot in table.slots if slot.name == reason.binding), None)
    if slot is None:
        return False
    term = slot.column.at(position)
    if isinstance(term, InputAt):
        return term.value.path is not None and term.value.path.endswith(SCRIPT_SUFFIXES)
    return slot.name in SCRIPT_PARAMETERS


def _packages_changed(snapshot: PlanningSnapshot, node: int) -> bool:
    record = snapshot.record(node)
    success = record.last_success() if record is not None else None
    return success is not None and bool(snapshot.reads.changed_packages(success))
