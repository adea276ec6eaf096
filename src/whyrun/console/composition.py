"""Draws the data flow of a run from `composition_summary.json`: datasets, steps, rows, decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whyrun.console.lines import count, seconds
from whyrun.errors import printable


def composition_tree(summary: Mapping[str, Any]) -> str:
    return printable_lines(_lines(summary))


def printable_lines(lines: Iterator[str]) -> str:
    return "\n".join(printable(line).rstrip() for line in lines)


def _lines(summary: Mapping[str, Any]) -> Iterator[str]:
    plan = f", plan {summary['plan_id']}" if summary["plan_id"] else ""
    yield f"{summary['run']} {summary['state']}: {summary['composition_mode']}{plan}"
    yield "datasets"
    rows = [
        (
            f"Input:{dataset['dataset_key']}",
            dataset["role"] or "",
            dataset["path"] or "",
            _shape(dataset),
            ", ".join(_remarks(dataset)),
        )
        for dataset in summary["inputs_manifest"]
    ]
    yield from _table(rows)
    yield "steps"
    for step in summary["steps"]:
        yield from _step(step)
    if summary["decisions"]:
        yield "decisions"
        for decision in summary["decisions"]:
            yield f"  {_decision(decision)}"


def _remarks(dataset: Mapping[str, Any]) -> Iterator[str]:
    if dataset["filename"]:
        yield f"as `{dataset['filename']}`"
    if not dataset.get("used", True):
        yield "not used"


def _step(step: Mapping[str, Any]) -> Iterator[str]:
    took = f" in {seconds(step['duration'])}" if step["duration"] is not None and step["status"] == "completed" else ""
    source = f" from {step['from_run']}" if step.get("from_run") else ""
    yield f"  {step['step_id']}  {step['action']}  {step['status'].replace('_', ' ')}{took}{source}"
    if "error" in step:
        yield f"  │  {step['error'].splitlines()[0]}"
    if isinstance(step.get("because"), list):
        yield f"  │  because of {', '.join(step['because'])}"
    elif step.get("because"):
        because = step["because"]
        yield f"  │  because {because['source']} is absent" if "source" in because else "  │  its condition is false"
    shown = step["status"] in ("completed", "reused", "up_to_date", "failed", "timed_out", "interrupted")
    entries = [(f"{entry['name']} ←", entry["id"], _shape(entry)) for entry in step["bindings"]]
    made = [product for product in step["products"] if product["sha256"] is not None]
    entries += [("→", product["path"] or product["id"], _shape(product)) for product in made]
    lines = list(_table(entries, indent="")) if shown else []
    for number, line in enumerate(lines):
        yield f"  {'└─' if number == len(lines) - 1 else '├─'} {line}"


def _decision(decision: Mapping[str, Any]) -> str:
    source = f" (in {decision['from_run']})" if decision.get("from_run") else ""
    if decision["kind"] == "condition":
        condition = f"condition {decision['step_id']}: {decision['predicate']}"
        if decision["result"] is None:
            return f"{condition} was {decision['why']}"
        why = f"  ({decision['why']})" if decision["why"] else ""
        branches = f"took {_listed(decision['taken'])}, left {_listed(decision['not_taken'])}"
        return f"{condition} is {str(decision['result']).lower()}{why}: {branches}"
    rows = decision["rows"]
    if decision["kind"] == "merge":
        keys = decision["keys"]
        sides = [keys] if isinstance(keys, list) else [keys["primary"], keys["secondary"]]
        on = " = ".join(", ".join(side) for side in sides)
        expected = decision["cardinality"]["asked"]
        cardinality = f"{decision['cardinality']['found']}" + (f" (asked {expected})" if expected else "")
        keyless = [rows["null_key_left"], rows["null_key_right"]]
        without = f" ({keyless[0]} and {keyless[1]} without a key)" if any(keyless) else ""
        return (
            f"merge {decision['step_id']}: {decision['right']} into {decision['left']} on {on}, {decision['how']}, "
            f"{cardinality}: "
            f"{count(rows['left'], 'row')} and {count(rows['right'], 'row')}, {rows['matched_left']} matched, "
            f"{rows['unmatched_left']} and {rows['unmatched_right']} unmatched{without}, "
            + (f"{rows['out']} would be out: refused" if decision["refused"] else f"{rows['out']} out{source}")
        )
    into = " + ".join(f"{name} {number}" for name, number in rows["in"].items())
    gives = "→" if decision.get("operation") == "summarise" else "="  # the rows of a summary do not add up
    return f"{decision['kind']} {decision['step_id']}: {into} {gives} {count(rows['out'], 'row')}{source}"


def _shape(entry: Mapping[str, Any]) -> str:
    if entry["rows"] is None:
        return ""
    return f"{count(entry['rows'], 'row')} × {count(entry['columns'], 'column')}"


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(ids) or "nothing"


def _table(rows: Sequence[tuple[str, ...]], indent: str = "  ") -> Iterator[str]:
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(max((len(row) for row in rows), default=0))]
    for row in rows:
        yield indent + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
