"""Check the links of a run folder into the store: do they exist, and do they point to the blobs of the log?

A broken link loses no data, because all links can be made again from the log.
"""

from __future__ import annotations

import os
from pathlib import Path

from whyrun.artifacts.store import Store
from whyrun.evidence.run_directory import Artifact, RunDirectory, linked_artifact, stored_tree
from whyrun.evidence.verify.report import Findings, VerifyProblem
from whyrun.log import events as ev

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
