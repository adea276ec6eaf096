"""Check what a run folder derives from the log: its links into the store, and `composition_summary.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from whyrun.artifacts.store import Store
from whyrun.evidence.composition.run_folder import RecordedFacts, composes, summary_bytes
from whyrun.evidence.composition.summary import SCHEMA_VERSION, SUMMARY_FILE
from whyrun.evidence.run_directory import Artifact, RunDirectory, linked_artifact, stored_tree
from whyrun.evidence.verify.report import SUMMARY_AGAIN, Checked, Findings, VerifyProblem
from whyrun.log import events as ev
from whyrun.log.journal import STATUS_FILE

# --- check the links of a run folder into the store -------------------------------------------------------------------
# Do they exist, and do they point to the blobs of the log?
# A broken link loses no data, because all links can be made again from the log.


LINKS_AGAIN = (
    "links into the store: nothing is lost. Delete whatever is at their paths, and `status.json` of that run: the next "
    "`whyrun run` makes the links again. No job runs again"
)


class LinkCheck:
    """Checks `artifacts/<step>/…`, run by run. Feed it the events of artifacts and of ended steps in order."""

    def __init__(self, store: Store, findings: Findings) -> None:
        self._store = store
        self._findings = findings
        self._run = ""
        self._up = ""
        self._directory: RunDirectory | None = None
        self._made: dict[str, dict[str, Artifact]] = {}

    def begin(self, run: str, folder: Path) -> None:
        """Start a run. Its links are checked only if it has a `status.json`, which is written after them."""
        directory = RunDirectory(folder)
        self._run, self._up, self._made = run, directory.relative_store(self._store), {}
        self._directory = directory if directory.status.exists() else None

    def add(self, event: ev.ArtifactAvailable | ev.ArtifactAdopted) -> None:
        artifact = linked_artifact(event) if self._directory is not None else None
        if artifact is not None:
            self._made.setdefault(event.step_id, {})[artifact.name] = artifact

    def drop(self, step: str) -> None:
        """Forget the artifacts of a failed or repeated attempt: they have no links."""
        self._made.pop(step, None)

    def check_step(self, step: str) -> None:
        for artifact in self._made.pop(step, {}).values():
            self._check(artifact)

    def check_run(self) -> None:
        """Check the remaining steps: reused and adopted ones have no `step_complete`."""
        for step in list(self._made):
            self.check_step(step)

    def compare(self, run: str, link: str, target: str) -> bool:
        """Whether the link is right; reports a problem if not."""
        try:
            actual = os.readlink(link)
        except (FileNotFoundError, NotADirectoryError):
            self._findings.add(
                VerifyProblem("link", run, link, "the link is missing", expected=target, hint=LINKS_AGAIN)
            )
            return False
        except OSError:
            actual = "(not a link)"
        if actual != target:
            what = "the link points elsewhere"
            self._findings.add(VerifyProblem("link", run, link, what, expected=target, found=actual, hint=LINKS_AGAIN))
        return actual == target

    def _check(self, artifact: Artifact) -> None:
        assert self._directory is not None
        blob = self._store.path(artifact.sha256)
        # `isfile`: reading a pipe would block.
        readable = artifact.type != "directory" or (os.path.isfile(blob) and os.access(blob, os.R_OK))
        tree = stored_tree(artifact, self._store) if readable else None
        if tree is None and artifact.type == "directory":
            return  # its links are unknown; the lost bytes are reported elsewhere
        for link, target in self._directory.links_of(artifact, tree, self._up):
            self.compare(self._run, link, target)


# --- the summary of a composition: derived, so it is made anew from the log and compared ------------------------------


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
