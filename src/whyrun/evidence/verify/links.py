"""The links of a run folder into the store: do they stand where the log says, and lead where it says?

Nothing is lost with one: all of them are made anew from the log. But who looks at the outputs of a run follows them.
"""

from __future__ import annotations

import os
from pathlib import Path

from whyrun.artifacts.store import Store
from whyrun.evidence.run_directory import Artifact, RunDirectory, linked_artifact, stored_tree
from whyrun.evidence.verify_report import Findings, Problem
from whyrun.log import events as ev

LINKS_AGAIN = (
    "links into the store: nothing is lost. Delete what stands in their place, and `status.json` of that run, and the "
    "next `whyrun run` makes them again. No job runs again"
)


class LinkCheck:
    """`artifacts/<step>/…`, run by run. Give it the events that make and end steps, in their order."""

    def __init__(self, store: Store, findings: Findings) -> None:
        self._store = store
        self._findings = findings
        self._run = ""
        self._up = ""
        self._directory: RunDirectory | None = None
        self._made: dict[str, dict[str, Artifact]] = {}

    def begin(self, run: str, folder: Path) -> None:
        """Looked for are links only where `status.json` is: it comes after the last of them."""
        directory = RunDirectory(folder)
        self._run, self._up, self._made = run, directory.way_to(self._store), {}
        self._directory = directory if directory.status.exists() else None

    def made(self, event: ev.ArtifactAvailable | ev.ArtifactAdopted) -> None:
        artifact = linked_artifact(event) if self._directory is not None else None
        if artifact is not None:
            self._made.setdefault(event.step_id, {})[artifact.name] = artifact

    def dropped(self, step: str) -> None:
        """What an attempt made that failed, or that there is another of, is not linked to."""
        self._made.pop(step, None)

    def ended(self, step: str) -> None:
        for artifact in self._made.pop(step, {}).values():
            self._check(artifact)

    def run_ended(self) -> None:
        """What was reused and adopted is told of without an end of its own."""
        for step in list(self._made):
            self.ended(step)

    def compare(self, run: str, place: str, target: str) -> bool:
        """Whether the link is as it should be; else it is told."""
        try:
            found = os.readlink(place)
        except (FileNotFoundError, NotADirectoryError):
            self._findings.add(Problem("link", run, place, "the link is not there", expected=target, hint=LINKS_AGAIN))
            return False
        except OSError:
            found = "(it is no link)"
        if found != target:
            what = "the link leads elsewhere"
            self._findings.add(Problem("link", run, place, what, expected=target, found=found, hint=LINKS_AGAIN))
        return found == target

    def _check(self, artifact: Artifact) -> None:
        assert self._directory is not None
        blob = self._store.path(artifact.sha256)
        readable = artifact.type != "directory" or (os.path.isfile(blob) and os.access(blob, os.R_OK))  # no pipe, say
        tree = stored_tree(artifact, self._store) if readable else None
        if tree is None and artifact.type == "directory":
            return  # nobody can say what its links are; that its bytes are lost is told
        for place, target in self._directory.links_of(artifact, tree, self._up):
            self.compare(self._run, place, target)
