"""Lineage as OpenLineage 2-0-2 run events, one JSON object a line: the run as parent, each attempt as its child. Pure.

A dataset is a canonical ID: an input, or a declared output of a job, with its leaves as fields. IDs of runs are UUIDs
made of the log's chain, the step and the attempt, so every export of a run names it the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from whyrun.exports.record import Attempt, Output, Rendered, RunRecord, Step, Subject
from whyrun.ids import artifact_id, job_of, parse_id

SPEC = "https://openlineage.io/spec/"
EVENT = f"{SPEC}2-0-2/OpenLineage.json#/$defs/RunEvent"
# Facet → the version of its schema; its definition has the name of the file.
_VERSIONS = {
    "DatasetVersionDatasetFacet": "1-0-1",
    "ErrorMessageRunFacet": "1-0-1",
    "JobTypeJobFacet": "2-0-4",
    "OutputStatisticsOutputDatasetFacet": "1-0-2",
    "ParentRunFacet": "1-2-0",
    "ProcessingEngineRunFacet": "1-1-1",
    "SchemaDatasetFacet": "1-2-0",
}
# Our own facets are described in docs/exports.md.
RUN_FACET, STEP_FACET = "urn:whyrun:openlineage:run:1", "urn:whyrun:openlineage:step:1"
_ENDS = {"failed": "FAIL", "timed_out": "FAIL", "interrupted": "ABORT", "running": "RUNNING"}
_WITHOUT_ATTEMPT = ("reused", "kept", "adopted")


def render(subject: Subject) -> Rendered:
    record = subject.record()
    lines = [json.dumps(event, ensure_ascii=False, sort_keys=True) for event in openlineage(record, subject)]
    return Rendered("".join(f"{line}\n" for line in lines).encode())


def openlineage(record: RunRecord, subject: Subject) -> list[dict[str, Any]]:
    return list(_Events(record, subject).all())


def run_uuid(*names: object) -> str:
    """A UUID of version 5 in the namespace of OIDs, made of names."""
    oids = bytes.fromhex("6ba7b8129dad11d180b400c04fd430c8")
    digest = bytearray(hashlib.sha1(oids + "|".join(map(str, names)).encode(), usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@dataclass(slots=True)
class _Events:
    record: RunRecord
    subject: Subject

    @property
    def namespace(self) -> str:
        return self.subject.namespace or f"whyrun:{self.record.workflow}"

    @property
    def producer(self) -> str:
        return f"urn:whyrun:engine:{self.record.engine_version}"

    def all(self) -> Iterator[dict[str, Any]]:
        record = self.record
        yield self.event("START", record.started, self.run(), self.parent_job())
        rows = [*self.attempts(), *self.others()]
        yield from (event for *_, event in sorted(rows, key=lambda row: row[:2]))
        ended = record.ended or record.last_ts
        facets = {} if not record.error else {"errorMessage": self.error(record.error, "")}
        yield self.event(_ENDS.get(record.outcome, "COMPLETE"), ended, self.run(**facets), self.parent_job())

    def attempts(self) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """(time, order among equal times, event)"""
        for order, (step, attempt) in enumerate(self.record.attempts()):
            run, job = self.child(step, attempt), self.job(step)
            inputs = list(self.inputs(attempt))
            yield attempt.start, order, self.event("START", attempt.start, run, job, inputs)
            end = _ENDS.get(attempt.status, "COMPLETE")
            if attempt.error_type:
                run = self.child(step, attempt, error=self.error(attempt.error, attempt.traceback))
            at = max(attempt.start, attempt.end or self.record.ended or self.record.last_ts)
            yield at, order, self.event(end, at, run, job, inputs, list(self.outputs(attempt.outputs)))

    def others(self) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """Steps that have a result without being executed."""
        for order, step in enumerate(self.record.ordered()):
            if step.status in _WITHOUT_ATTEMPT and step.at is not None:
                run, job = self.child(step, None), self.job(step)
                yield step.at, order, self.event("START", step.at, run, job)
                outputs = list(self.outputs(step.outputs))
                yield step.at, order, self.event("COMPLETE", step.at, run, job, [], outputs)

    def event(
        self,
        kind: str,
        at: str,
        run: Mapping[str, Any],
        job: Mapping[str, Any],
        inputs: list[dict[str, Any]] | None = None,
        outputs: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        return {
            "eventType": kind, "eventTime": at, "producer": self.producer, "schemaURL": EVENT, "run": run, "job": job,
            "inputs": inputs or [], "outputs": outputs or [],
        }  # fmt: skip

    def facet(self, name: str, /, **fields: Any) -> dict[str, Any]:
        return self.own_facet(f"{SPEC}facets/{_VERSIONS[name]}/{name}.json#/$defs/{name}", **fields)

    def own_facet(self, schema: str, /, **fields: Any) -> dict[str, Any]:
        return {"_producer": self.producer, "_schemaURL": schema, **fields}

    # --- runs and jobs ---

    def run_id(self, step: str = "", attempt: int = 0) -> str:
        return run_uuid(self.record.start_chain, step, attempt)

    def engine(self) -> dict[str, Any]:
        version = self.record.engine_version
        return self.facet("ProcessingEngineRunFacet", name="whyrun", version=version, openlineageAdapterVersion=version)

    def run(self, **facets: Any) -> dict[str, Any]:
        record = self.record
        own = self.own_facet(
            RUN_FACET, run=record.run, mode=record.mode, state=record.state, outcome=record.outcome,
            unfinished=record.unfinished, counts=record.counts(), upToDate=record.up_to_date,
            plan=record.plan_sha256, workflow=record.workflow_sha256, spent=record.spent().to_json(),
            spentUnknown=record.spent().unknown,
        )  # fmt: skip
        return {
            "runId": self.run_id(),
            "facets": {"processing_engine": self.engine(), "whyrun_run": own, **facets},
        }

    def child(self, step: Step, attempt: Attempt | None, error: dict[str, Any] | None = None) -> dict[str, Any]:
        parent = {"run": {"runId": self.run_id()}, "job": {"namespace": self.namespace, "name": self.record.workflow}}
        own = self.own_facet(
            STEP_FACET, step=step.id, status=step.status if attempt is None else attempt.status, action=step.action,
            note=step.note, reasons=[{"code": code, "text": text} for code, text in step.reasons],
        )  # fmt: skip
        if attempt is not None:
            spent = {"spent": attempt.spent.to_json(), "spentUnknown": attempt.spent.unknown}
            own |= {"attempt": attempt.number, "fingerprint": attempt.fingerprint, "willRetry": attempt.will_retry}
            own |= spent
        facets = {
            "parent": self.facet("ParentRunFacet", **parent, root=parent),
            "processing_engine": self.engine(),
            "whyrun_step": own,
        }
        if error is not None:
            facets["errorMessage"] = error
        return {"runId": self.run_id(step.id, 0 if attempt is None else attempt.number), "facets": facets}

    def error(self, message: str, traceback: str) -> dict[str, Any]:
        trace = {"stackTrace": traceback} if traceback else {}
        return self.facet("ErrorMessageRunFacet", message=message, programmingLanguage="PYTHON", **trace)

    def parent_job(self) -> dict[str, Any]:
        return self._job(self.record.workflow, "WORKFLOW")

    def job(self, step: Step) -> dict[str, Any]:
        return self._job(step.job, "JOB")

    def _job(self, name: str, kind: str) -> dict[str, Any]:
        facet = self.facet("JobTypeJobFacet", processingType="BATCH", integration="WHYRUN", jobType=kind)
        return {"namespace": self.namespace, "name": name, "facets": {"jobType": facet}}

    # --- datasets ---

    def inputs(self, attempt: Attempt) -> Iterator[dict[str, Any]]:
        """What an attempt read, each dataset once. Parameters are no datasets."""
        versions: dict[str, str | None] = {}
        for bound in attempt.bindings.values():
            for member in bound if isinstance(bound, list) else self.subject.members(bound):
                dataset = _dataset_of(member["id"])
                if dataset is not None:
                    whole = member.get("sha256") if dataset == member["id"] else None
                    versions[dataset] = versions.get(dataset) or whole
        for name in sorted(versions):
            sha256 = versions[name]
            facets = {} if sha256 is None else {"version": self.version(sha256)}
            yield {"namespace": self.namespace, "name": name, "facets": facets}

    def outputs(self, outputs: list[Output]) -> Iterator[dict[str, Any]]:
        """The declared outputs and the elements of arrays; leaves are their fields."""
        fields: dict[str, list[dict[str, str]]] = {}
        for output in outputs:
            whole = _dataset_of(output.id)
            if whole is not None and whole != output.id:
                fields.setdefault(whole, []).append({"name": output.id.removeprefix(f"{whole}."), "type": output.type})
        for output in sorted(outputs, key=lambda one: one.id):
            if output.id != _dataset_of(output.id):
                continue
            columns = fields.get(output.id) or [{"name": output.id.partition(".")[2], "type": output.type}]
            statistics = self.facet("OutputStatisticsOutputDatasetFacet", size=output.size, fileCount=1)
            yield {
                "namespace": self.namespace,
                "name": output.id,
                "facets": {
                    "schema": self.facet("SchemaDatasetFacet", fields=sorted(columns, key=lambda one: one["name"])),
                    "version": self.version(output.sha256),
                },
                "outputFacets": {"outputStatistics": statistics},
            }

    def version(self, sha256: str) -> dict[str, Any]:
        return self.facet("DatasetVersionDatasetFacet", datasetVersion=f"sha256:{sha256}")


def _dataset_of(id_: str) -> str | None:
    """The dataset that an ID of a binding belongs to; None for a parameter."""
    parsed = parse_id(id_)
    if id_.startswith("Artifact:"):
        return id_ if len(parsed.segments) == 2 else artifact_id(parse_id(job_of(id_)), parsed.segments[1].name)
    return id_ if len(parsed.segments) == 1 else None
