"""The brute-force oracle: what every artifact should contain, from running everything from nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from oracle_evaluate import ABSENT, NOTHING, Evaluator, Item, Look, Waiting, given_to_step, plain_sha, text_sha
from oracle_flow import (
    MODULI,
    Artifact,
    Flow,
    Found,
    Indices,
    Job,
    artifacts_of,
    job_id,
    rows,
)
from oracle_pure import produce


@dataclass
class Truth:
    """By step ID: how it ends; by artifact ID: the hash of what it should be."""

    ends: dict[str, str] = field(default_factory=dict)  # made, inactive, failed, blocked
    shas: dict[str, str] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)  # bytes of whole outputs


def bytes_of(type_: str, value: Any) -> bytes:
    if type_ == "text":
        return str(value).encode()
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def at_leaf(document: Any, leaf: Found) -> Any:
    for name, indices in leaf:
        for key in (name, *indices):
            document = document[key]
    return document


_PART = re.compile(r"([A-Za-z]+)|\[([0-9]+)\]|\[\"([^\"]+)\"\]|\[([^\]]+)\]")


def at_leaf_text(document: Any, text: str) -> Any:
    """The same for a leaf written as text: `Keys["7"].On`."""
    for name, number, quoted, word in _PART.findall(text):
        document = document[int(number) if number else name or quoted or word]
    return document


def artifact_item(flow: Flow, artifact: Artifact, sha256: str, value: Any) -> Item:
    """How an artifact with this content is handed over."""
    output = flow.jobs[artifact.job].output(artifact.output)
    if artifact.leaf or output.type in ("string", "integer", "boolean"):
        return Item(artifact.id, sha256, "v", value, value)
    if output.type == "json":
        return Item(artifact.id, sha256, "v", NOTHING, value)
    content = {"file": value, "suffix": output.shown_suffix}
    return Item(artifact.id, sha256, f"t{output.shown_suffix}", NOTHING, content)  # of files, only texts are made


def run_everything(flow: Flow, clean: Container[str] = ()) -> Truth:
    """`clean`: steps that are up to date. A failed `needs` keeps others from running, but never makes these dirty."""
    truth = Truth()
    values: dict[Artifact, Any] = {}
    walking: set[str] = set()

    def end_of(job: Job, row: Indices) -> str:
        step = job_id(job.name, row)
        if step not in truth.ends:
            assert step not in walking, f"a circle through {step}"
            walking.add(step)
            truth.ends[step] = execute(job, row)
        return truth.ends[step]

    def look(artifact: Artifact) -> Look:
        end = end_of(flow.jobs[artifact.job], artifact.row)
        if end == "inactive":
            return ABSENT
        if end != "made":
            return Waiting(False)  # failed, not absent: it blocks
        return artifact_item(flow, artifact, truth.shas[artifact.id], values[artifact])

    def execute(job: Job, row: Indices) -> str:
        found = Evaluator(flow, look).consume(job, row)
        if found.inactive:
            return "inactive"
        needed = [end_of(flow.jobs[name], r) for name in job.needs for r in rows(flow, flow.jobs[name])]
        if job_id(job.name, row) in clean:
            needed = []
        if found.pending or "failed" in needed or "blocked" in needed:
            return "blocked"
        try:
            names = [output.name for output in job.outputs]
            made = produce(flow.versions[job.module], MODULI[job.module], given_to_step(job, found), names)
        except ValueError:
            return "failed"
        for artifact, type_ in artifacts_of(flow, job, row).items():
            value = at_leaf(made[artifact.output], artifact.leaf)
            values[artifact] = value
            data = bytes_of(type_, value)
            truth.shas[artifact.id] = text_sha(value) if type_ == "text" else plain_sha(value)
            if not artifact.leaf:
                truth.texts[artifact.id] = data
        return "made"

    for job in flow.jobs.values():
        for row in rows(flow, job):
            end_of(job, row)
    return truth


def declared(job: Job, flow: Flow, row: Indices) -> tuple[Any, ...]:
    """What an instance declares, as far as it belongs to its fingerprint."""
    outputs = tuple(sorted((o.name, o.type, o.shown_suffix) for o in job.outputs))
    leaves = tuple(sorted((a.key, type_) for a, type_ in artifacts_of(flow, job, row).items() if a.leaf))
    return outputs, leaves
