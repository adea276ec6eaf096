"""The file format of plans: parts, jobs, long lists as blobs, and the digest."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from whyrun.planning.plan import Plan, PlannedJob, PlanOptions, written_digest
from whyrun.planning.reasons import Forced
from whyrun.planning.reuse import Reuse

TOTALS = {"jobs": 3, "planned": 1, "reused": 1, "clean": 0, "deferred": 0, "inactive": 1}
FORCED = (Forced("layer:0"),)
WRITTEN_FORCED = [{"code": "FORCED", "by": "layer:0"}]


def plan(*jobs: PlannedJob, position: dict[str, Any] | None = None, **summary: Any) -> Plan:
    told = {"available": 2, "failed": [], "inputs_changed": [], "jobs": {"succeeded": 3}, **summary}
    return Plan("w", position, PlanOptions(2, (*"hgfedcba", "a"), (*"ponmlkji", "p")), TOTALS, told, jobs)


def wide(members: list[str]) -> tuple[dict[str, Any], bytes]:
    data = json.dumps(members, separators=(",", ":")).encode()
    sha = hashlib.sha256(data).hexdigest()
    return {"count": len(members), "digest": sha, "blob": sha}, data


def test_every_part_of_a_plan() -> None:
    made = plan(
        PlannedJob("Job:B", "shell", 2, "planned", FORCED, {"x": "Input:X"}, Reuse("r0001", "Job:B", {})),
        PlannedJob("Job:A", "shell", 0, "planned", FORCED, {"y": {"first": ["Input:Y"]}, "z": ["Input:Z"]}, None, True),
        PlannedJob("Job:C", "shell", 2, "deferred", FORCED),
        PlannedJob("Job:D", "shell", 3, "inactive", because={"source": "Artifact:B.C"}, bindings={"x": "Input:X"}),
        position={"run": "r0001", "seq": 7},
    )
    written = made.to_json()
    assert list(written) == [
        "version", "workflow", "digest", "log_position", "options", "snapshot", "totals", "layers", "jobs"
    ]  # fmt: skip
    assert {**written, "digest": None} == {
        "version": 1,
        "workflow": "w",
        "digest": None,
        "log_position": {"run": "r0001", "seq": 7},
        "options": {"up": 2, "targets": [*"abcdefgh"], "force": [*"ijklmnop"]},
        "snapshot": {"available": 2, "failed": [], "inputs_changed": [], "jobs": {"succeeded": 3}},
        "totals": TOTALS,
        "layers": [["Job:A"], ["Job:B"]],
        "jobs": [
            {
                "id": "Job:B", "action": "shell", "layer": 2, "state": "planned", "reuse": "r0001",
                "reasons": WRITTEN_FORCED, "bindings": {"x": "Input:X"},
            },
            {
                "id": "Job:A", "action": "shell", "layer": 0, "state": "planned", "conditional": True,
                "reasons": WRITTEN_FORCED, "bindings": {"y": {"first": ["Input:Y"]}, "z": ["Input:Z"]},
            },
            {
                "id": "Job:C", "action": "shell", "layer": 2, "state": "deferred",
                "reasons": WRITTEN_FORCED, "bindings": {},
            },
            {
                "id": "Job:D", "action": "shell", "layer": 3, "state": "inactive",
                "because": {"source": "Artifact:B.C"},
            },
        ],
    }  # fmt: skip
    assert made.blobs == {}
    assert json.loads(made.to_bytes()) == written
    assert made.to_bytes().endswith(b"}\n")
    assert made.headlines() == {"Job:B": "FORCED", "Job:A": "FORCED"}
    assert [(job.id, bindings) for job, bindings in made.written_bindings()] == [
        ("Job:B", {"x": "Input:X"}), ("Job:A", {"y": {"first": ["Input:Y"]}, "z": ["Input:Z"]})
    ]  # fmt: skip
    before = made.to_bytes()
    made.forget_written()
    assert made.to_bytes() == before


def test_the_digest_is_over_all_but_itself_and_the_log_position() -> None:
    job = PlannedJob("Job:A", "shell", 0, "planned", FORCED)
    first, second = plan(job), plan(job, position={"run": "r0009", "seq": 1})
    assert first.digest == second.digest
    assert first.to_json()["log_position"] is None
    assert json.loads(first.to_bytes())["log_position"] is None
    assert first.digest != plan(job, available=3).digest
    body = {name: part for name, part in first.to_json().items() if name not in ("digest", "log_position")}
    data = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert first.digest == "sha256:" + hashlib.sha256(data).hexdigest()


def test_a_plan_that_was_read_back_has_the_digest_that_it_was_written_with() -> None:
    made = plan(PlannedJob("Job:A", "shell", 0, "planned", FORCED), position={"run": "r0009", "seq": 1})
    read = json.loads(made.to_bytes())
    assert written_digest(read) == made.digest == read["digest"]
    assert written_digest({**read, "digest": "other", "log_position": None}) == made.digest
    body = {name: part for name, part in read.items() if name != "totals"}
    assert written_digest(body) not in (made.digest, None)


def test_content_that_is_never_written_has_no_digest() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert [written_digest({"version": wrong}) for wrong in (float("nan"), "\ud800", deep)] == [None] * 3


def test_lists_of_more_than_64_stand_beside_the_plan() -> None:
    short, long = [f"Input:X[{i}]" for i in range(64)], [f"Input:X[{i}]" for i in range(65)]
    note, data = wide(long)
    jobs = [
        PlannedJob(f"Job:{name}", "shell", 0, "planned", FORCED, {"x": members, "y": {"first": members}})
        for name, members in (("A", short), ("B", long), ("C", long))
    ]
    made = plan(*jobs, failed=long, inputs_changed=long)
    assert [job["bindings"] for job in made.to_json()["jobs"]] == [
        {"x": short, "y": {"first": short}}, {"x": note, "y": {"first": note}}, {"x": note, "y": {"first": note}}
    ]  # fmt: skip
    assert made.to_json()["snapshot"]["failed"] == made.to_json()["snapshot"]["inputs_changed"] == note
    assert made.blobs == {note["blob"]: data}
    few = plan(*jobs[:1], failed=short, inputs_changed=short)
    assert few.to_json()["snapshot"] == {
        "available": 2, "failed": short, "inputs_changed": short, "jobs": {"succeeded": 3}
    }  # fmt: skip
    assert few.blobs == {}
