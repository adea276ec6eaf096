"""A section of a shared file is an artifact of its own: it alone is compared."""

from __future__ import annotations

import json
from collections.abc import Callable

from compare_lab import compare

from project_lab import Lab
from whyrun.log import events as ev

Project = Callable[..., Lab]

WORKFLOW = """
    workflow: w
    loops: {n: {count: 2}}
    jobs:
      J:
        for: [n]
        uses: python
        with: {call: "tell:it", n: "${{ n }}"}
        outputs: {M: {type: json, path: results/metadata.json, append: true}}
"""

CODE = """
    def it(n):
        return {"M": {"n": n, "score": 0.5}}
"""


def test_only_the_section_is_compared(project: Project) -> None:
    lab = project(WORKFLOW, {"tell.py": CODE})
    lab.succeed()
    # Somebody's own key in the same file is nobody's artifact.
    shared = json.loads(lab.read("results/metadata.json"))
    lab.write({"results/metadata.json": json.dumps({**shared, "mine": 1})})
    lab.edit("tell.py", "0.5", "0.5 + n")
    before = lab.read("results/metadata.json")
    found = compare(lab)
    assert found.lines == [
        "[python] DIFFERENT Job:J[1] in #s → outputs: results/metadata.json § J[1] (1 value changed)",
        "[python] IDENTICAL Job:J[0] in #s → outputs: results/metadata.json § J[0] (unchanged)",
    ]
    (different,) = [e for e in found.of(ev.Comparison) if e.status == "DIFFERENT"]
    assert different.details == ["$.score: 0.5 → 1.5"]
    assert lab.read("results/metadata.json") == before
    accepted = compare(lab, "Job:J[1]", accept=True)
    assert accepted.result.exit_code == 1
    now = json.loads(lab.read("results/metadata.json"))
    assert now == {"mine": 1, "J[0]": {"n": 0, "score": 0.5}, "J[1]": {"n": 1, "score": 1.5}}
