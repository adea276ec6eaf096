"""`whyrun describe [DATASET|ARTIFACT]...`: what is in a dataset, before anybody plans with it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.options import STATE_OPTION
from whyrun.cli.output import bytes_text, columns, print_json, print_lines
from whyrun.errors import error

if TYPE_CHECKING:
    from whyrun.facts.describe import DescribedFile, Facts

_SHOWN_LABELS = 12


@click.command("describe")
@click.argument("names", nargs=-1, metavar="[DATASET|ARTIFACT]... [FILE]")
@click.option("--manifest", metavar="FILE.json", help="An inputs manifest; a plan is not needed.")
@click.option("--full", is_flag=True, help="Also count rows that occur more than once.")
@click.option("--sample", type=click.IntRange(0, 1000), default=0, metavar="N", help="Show the first N rows, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the description as JSON.")
@STATE_OPTION
def command(
    names: tuple[str, ...], manifest: str | None, full: bool, sample: int, as_json: bool, state: str | None
) -> None:
    """Describe datasets: rows, columns, types, missing and distinct values, ranges, keys, labels, fingerprint.

    DATASET is a key of the manifest, an input such as `Input:Panel`, or a file. ARTIFACT is described as the latest
    run left it. Without names, all datasets are described. Nothing of the content is shown but the least and the
    largest number or date of a column; texts and rows only with --sample. Beyond 5 million rows, distinct values are
    estimated (`~`). A key is a column, or a pair of columns, whose values differ in every row.

    \b
    Example:
      whyrun describe --manifest inputs/manifest.json
      whyrun describe main --manifest inputs/manifest.json --json
      whyrun describe inputs/main.csv --full
      whyrun describe Artifact:merge.merged plan.json --manifest inputs/manifest.json
    """
    from whyrun.facts.describe import describe_all

    described = describe_all(_files(names, manifest, state), full=full, sample=sample)
    if as_json:
        print_json({"datasets": described})
    else:
        print_lines(line for facts in described for line in _lines(facts))
    if any("problem" in facts for facts in described):
        from whyrun.errors import Exit

        click.get_current_context().exit(Exit.INVALID)


def _files(names: Sequence[str], manifest: str | None, state: str | None) -> list[DescribedFile]:
    from whyrun.facts.describe import check_files, file_itself, of_manifest, of_project
    from whyrun.facts.plans import open_project
    from whyrun.project import DEFAULT_FILE

    existing = [word for word in names if os.path.isfile(word)]
    flows = [word for word in existing if _is_flow(word)]
    others = [word for word in names if word not in flows]
    if len(flows) > 1:
        raise error("USAGE", f"`{flows[1]}` is one argument too many", hint="name one workflow file or plan")
    if not flows and others and all(word in existing for word in others):
        return [file_itself(word) for word in others]
    workflow = bool(flows) or os.path.isfile(DEFAULT_FILE)
    check_files(others, named=workflow or manifest is not None)
    artifact = next((word for word in others if word.startswith("Artifact:")), None)
    if manifest is not None and not flows and artifact is None:
        return of_manifest(manifest, others)
    if manifest is not None and artifact is not None and not workflow:
        command = shlex.join(["whyrun", "describe", artifact, "plan.json", "--manifest", manifest])
        raise error("USAGE", f"`{artifact}` is the result of a plan, and none is named", hint=f"name it: `{command}`")
    project = open_project(flows[0] if flows else None, state=state, manifest=manifest)
    return of_project(project, others)


def _is_flow(path: str) -> bool:
    """Whether the file is a workflow or a plan, and not data."""
    import json

    if Path(path).suffix.lower() in (".yaml", ".yml"):
        return True
    if Path(path).suffix.lower() != ".json":
        return False
    try:
        root = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(root, dict) and bool({"steps", "jobs", "workflow"} & root.keys())


# --- text --------------------------------------------------------------------------------------------------------


def _lines(facts: Facts) -> Iterator[str]:
    from whyrun.artifacts.compare.result import counted

    about = (facts["id"], facts.get("role"), facts["path"] if facts["path"] != facts["id"] else "")
    yield "  ".join(filter(None, (*about, bytes_text(facts["size"]))))
    yield f"  {facts['fingerprint']}"
    if "problem" in facts:
        yield f"  error[{facts['code']}]: {facts['problem']}"
        yield f"     hint: {facts['hint']}"
        return
    duplicates = facts.get("duplicate_rows")
    more = "" if duplicates is None else f", {duplicates:,} of them repeated"
    yield f"  {counted(facts['rows'], 'row')}{more} × {counted(len(facts['columns']), 'column')} ({facts['format']})"
    labelled = any("label" in column for column in facts["columns"])
    header = ("column", "type", "missing", "distinct", "range", "label" if labelled else "")
    yield from columns([header, *(_row(column) for column in facts["columns"])], 4)
    keys = "; ".join(" + ".join(key) for key in facts["key_candidates"])
    yield f"  keys: {keys or 'no single column and no pair tells all rows apart'}"
    for column in facts["columns"]:
        if "value_labels" in column:
            shown = list(column["value_labels"].items())
            texts = ", ".join(f"{code} = {text}" for code, text in shown[:_SHOWN_LABELS])
            yield f"  values of {column['name']}: {texts}{', …' if len(shown) > _SHOWN_LABELS else ''}"
    if "sample" in facts:
        yield "  first rows"
        named = [column["name"] for column in facts["columns"]]
        yield from columns([named, *([_text(row[name]) for name in named] for row in facts["sample"])], 4)


def _row(column: Mapping[str, Any]) -> tuple[str, ...]:
    from whyrun.artifacts.compare.result import counted

    around = ""
    if "minimum" in column:
        around = f"{_text(column['minimum'])} … {_text(column['maximum'])}"
    elif "shortest" in column:
        least, most = column["shortest"], column["longest"]
        around = counted(most, "character") if least == most else f"{least:,} … {most:,} characters"
    distinct = f"{'~' if column.get('distinct_is_estimated') else ''}{column['distinct']:,}"
    return column["name"], column["type"], f"{column['missing']:,}", distinct, around, column.get("label", "")


def _text(value: Any) -> str:
    return "" if value is None else str(value)
