"""Check `composition_summary.json`: it is derived, so it is made anew from the log and compared.

Figures are not compared if they cannot be made anew: of data that cannot be counted again (it is not in the store any
more, or is damaged, which is reported elsewhere), and of results of runs that were pruned.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from whyrun.artifacts.store import Store
from whyrun.evidence.composition.run_folder import RecordedFacts, composes, summary_bytes
from whyrun.evidence.composition.summary import SCHEMA_VERSION, SUMMARY_FILE
from whyrun.evidence.verify.report import SUMMARY_AGAIN, Checked, Findings, VerifyProblem
from whyrun.log.journal import STATUS_FILE


def check_summaries(
    folders: Iterable[Path], store: Store, damaged: Container[str], findings: Findings, checked: Checked
) -> None:
    """`folders`: of runs whose logs and manifests have been checked. `damaged`: hashes of blobs with other bytes."""
    facts: RecordedFacts | None = None
    for folder in folders:
        if composes(folder) and (folder / STATUS_FILE).exists():  # else the next run completes the folder
            facts = facts or RecordedFacts(folder.parent, store, damaged)
            _check(folder, facts, findings, checked)


def _check(folder: Path, facts: RecordedFacts, findings: Findings, checked: Checked) -> None:
    run = facts.run(folder.name)
    if run is None:
        return  # its log or manifest is damaged

    def problem(what: str, expected: str | None = None, found: str | None = None) -> None:
        file = str(folder / SUMMARY_FILE)
        findings.add(VerifyProblem("file", folder.name, file, what, expected=expected, found=found, hint=SUMMARY_AGAIN))

    try:
        content = (folder / SUMMARY_FILE).read_bytes()
    except OSError as refused:
        problem("the file is missing" if isinstance(refused, FileNotFoundError) else f"it is not a file: {refused}")
        return
    checked.files += 1
    expected = summary_bytes(run, facts)
    if content == expected:
        return
    try:
        ours, theirs = json.loads(expected), json.loads(content)
    except (ValueError, RecursionError) as wrong:
        problem(f"the file is not a summary: {wrong}")
        return
    if isinstance(theirs, dict) and theirs.get("schema_version") != SCHEMA_VERSION:
        findings.note(f"the summary of {folder.name} is of another version of whyrun and is not made anew")
        return
    difference = next(_differences("", _comparable(ours, facts), _comparable(theirs, facts)), None)
    if difference is not None:
        where, mine, other = difference
        what = f"`{where}` is not what the log says" if where else "the file is not a summary"
        problem(what, _text(mine), _text(other))
    elif ours == theirs:
        problem("the file has other bytes than the summary that the log gives")
    else:
        findings.note(f"the summary of {folder.name} has figures that cannot be made anew: the data or runs are gone")


def _comparable(value: Any, facts: RecordedFacts) -> Any:
    """The value without what cannot be made anew."""
    if isinstance(value, list):
        return [_comparable(one, facts) for one in value if not (_is_lost(one, facts) and "kind" in one)]
    if not isinstance(value, dict):
        return value
    comparable = {name: _comparable(one, facts) for name, one in value.items()}
    content = str(value.get("sha256") or value.get("fingerprint")).removeprefix("sha256:")
    unknown = ("rows", "columns") if content in facts.uncounted else ("duration",) if _is_lost(value, facts) else ()
    return {name: one for name, one in comparable.items() if name not in unknown}


def _is_lost(value: Any, facts: RecordedFacts) -> bool:
    return isinstance(value, dict) and value.get("from_run") in facts.lost


def _differences(where: str, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    """(place, our value, theirs) of each difference. `decisions[0].rows.matched_left` is a place."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in (*ours, *(name for name in theirs if name not in ours)):
            yield from _differences(f"{where}.{name}".lstrip("."), ours.get(name), theirs.get(name))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for at, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _differences(f"{where}[{at}]", mine, other)
    elif ours != theirs or type(ours) is not type(theirs):
        yield where, ours, theirs


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:199] + "…"
