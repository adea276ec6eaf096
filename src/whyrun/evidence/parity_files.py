"""Which files stand in the folders of two runs. Names are compared; what steps printed is looked at and not judged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from whyrun.evidence.parity_result import ABSENT, Difference, Note
from whyrun.ids import file_name
from whyrun.log import events as ev

if TYPE_CHECKING:
    from whyrun.evidence.parity_reading import RunEvidence

PRESENT = "present"
_SCRATCH = re.compile(r"steps/(?P<step>[^/]+)/scratch(?P<rest>/.*|$)")
_NAMED_BY_CHANCE = ("/tmp/", "/home/")  # what libraries put there has names of their own making


def compare_files_present(old: RunEvidence, new: RunEvidence) -> tuple[list[Difference], list[Note]]:
    found: list[Difference] = []
    notes: list[Note] = []
    cut_off = _cut_off(old) | _cut_off(new)
    for path in sorted(_told(old.files, new.files) | _told(new.files, old.files)):
        was, now = (PRESENT if path in side.files else ABSENT for side in (old, new))
        why = _not_judged(path, cut_off)
        if why is None:
            found.append(Difference("file", path, "", was, now))
        else:
            notes.append(Note(path, why, was, now))
    for path in sorted(old.missing & new.missing):
        found.append(Difference("file", path, "", ABSENT, ABSENT, ("every run has it, and neither of these does",)))
    for path in sorted(old.hashes.keys() & new.hashes.keys()):
        if path.startswith("steps/") and old.hashes[path] != new.hashes[path]:
            was, now = old.hashes[path], new.hashes[path]
            notes.append(Note(path, "what a step prints may hold times and places", was, now))
    return found, notes


def _told(ours: frozenset[str], theirs: frozenset[str]) -> set[str]:
    """What one has and the other does not. Of a folder that is empty only here, its files over there tell enough."""
    folders = {path[: slash.end()] for path in theirs for slash in re.finditer("/", path)}
    return {path for path in ours - theirs if not (path.endswith("/") and path in folders)}


def _not_judged(path: str, cut_off: set[str]) -> str | None:
    scratch = _SCRATCH.fullmatch(path)
    if scratch is None:
        return None
    if scratch["step"] in cut_off:
        return "how far a step came before it was stopped is chance"
    return "temporary files have names of chance" if scratch["rest"].startswith(_NAMED_BY_CHANCE) else None


def _cut_off(evidence: RunEvidence) -> set[str]:
    """Steps (as file names) that were stopped from outside: by a time limit, an interruption or a dead worker."""
    steps = {e.step_id for e in evidence.events if isinstance(e, ev.StatusContractViolation)}
    steps |= {e.step_id for e in evidence.events if isinstance(e, ev.StepFailed) and e.status != "FAILED"}
    return {file_name(step.removeprefix("Job:")) for step in steps}
