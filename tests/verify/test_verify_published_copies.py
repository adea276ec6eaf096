"""A lost blob is no problem if the artifact's current published file has its bytes; earlier paths do not count."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import Lab
from whyrun.evidence.verify.verify import verify

FLOW = """
    workflow: w
    jobs:
      A: {uses: shell, with: {run: 'echo one > "$out_T"'}, outputs: {T: {type: text, path: out/a.txt}}}
"""


TWO = """
    workflow: w
    jobs:
      A: {uses: shell, with: {run: 'echo one > "$out_T"'}, outputs: {T: {type: text, path: out/a.txt}}}
      B: {needs: [A], uses: shell, with: {run: 'echo one > "$out_T"'}, outputs: {T: {type: text}}}
"""

FOLDER = """
    workflow: w
    jobs:
      A: {uses: shell, with: {run: 'echo one > "$out_T"'}, outputs: {T: {type: text, path: out/a.txt}}}
      B:
        needs: [A]
        uses: shell
        with: {run: 'mkdir "$out_D"; echo one > "$out_D/b.txt"'}
        outputs: {D: {type: directory}}
"""

SECTION = """
    workflow: w
    jobs:
      A: {uses: shell, with: {run: 'printf 1 > "$out_T"'}, outputs: {T: {type: text, path: out/a.txt}}}
      B:
        needs: [A]
        uses: shell
        with: {run: 'printf 1 > "$out_S"'}
        outputs: {S: {type: json, path: out/b.json, append: true}}
"""

VALUE = """
    workflow: w
    jobs:
      A: {uses: shell, with: {run: 'printf 1 > "$out_T"'}, outputs: {T: {type: text, path: out/a.txt}}}
      B: {needs: [A], uses: shell, with: {run: 'printf 1 > "$out_V"'}, outputs: {V: {type: integer}}}
"""


def problems(lab: Lab) -> list[tuple[str, str | None, str]]:
    found = verify(lab.opened().state, lab.root, lambda run: None).problems
    return [(problem.run, problem.subject, problem.what) for problem in found]


def test_a_file_at_an_earlier_published_path_does_not_count(project: Callable[..., Lab]) -> None:
    lab = project(FLOW, {})
    lab.succeed()
    lab.edit("workflow.yaml", "out/a.txt", "out/b.txt")
    lab.succeed()
    (event,) = [event for event in lab.events("r0002") if event.__class__.__name__ == "ArtifactAvailable"]
    store = lab.opened().store
    blob = store.path(event.sha256)
    lab.root.joinpath(blob).unlink()
    assert problems(lab) == []  # `out/b.txt` has them
    (lab.root / "out" / "b.txt").unlink()
    assert (lab.root / "out" / "a.txt").read_text() == "one\n"
    assert problems(lab) == [("r0001", "Artifact:A.T", "its bytes are not in the store")]


def lose(lab: Lab, artifact: str) -> None:
    """Its blob, which others with the same content have in common with it."""
    shas = {event.sha256 for event in lab.events("r0001") if getattr(event, "artifact", None) == artifact}
    (sha,) = shas
    lab.root.joinpath(lab.opened().store.path(sha)).unlink()


@pytest.mark.parametrize("flow", [TWO, FOLDER, SECTION], ids=["unpublished", "in a folder", "a section"])
def test_a_published_file_counts_only_for_its_own_artifact(project: Callable[..., Lab], flow: str) -> None:
    lab = project(flow, {})
    lab.succeed()
    lose(lab, "Artifact:A.T")
    assert lab.read("out/a.txt") in ("one\n", "1")
    # Told with the first artifact that had them.
    assert problems(lab) == [("r0001", "Artifact:A.T", "its bytes are not in the store")]


def test_older_versions_that_share_the_lost_blob_do_not_matter(project: Callable[..., Lab]) -> None:
    lab = project(FOLDER, {})
    lab.succeed()
    lab.edit("workflow.yaml", 'echo one > "$out_D', 'echo two > "$out_D')
    lab.succeed()
    lose(lab, "Artifact:A.T")
    assert problems(lab) == []  # `out/a.txt` has them
    lab.write({"out/a.txt": "other\n"})
    assert problems(lab) == [("r0001", "Artifact:A.T", "its bytes are not in the store")]


def test_a_value_is_in_the_log_and_needs_no_bytes(project: Callable[..., Lab]) -> None:
    lab = project(VALUE, {})
    lab.succeed()
    lose(lab, "Artifact:A.T")
    assert problems(lab) == []
