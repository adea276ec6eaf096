"""A research object crate after the profile Provenance Run Crate 0.5: the workflow, what ran, and the bytes. Pure.

The execution of the workflow is one action, and each attempt is one below it. Of a run with more than a thousand
attempts, each job is one action. Bytes lie under their hash, so that equal content is there once; what the store no
longer has is named by its hash alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from whyrun.exports.formats.markdown import markdown
from whyrun.exports.record import Attempt, Output, Rendered, RunRecord, Step, Subject
from whyrun.ids import by_number, without_indices

METADATA = "ro-crate-metadata.json"
ACTIONS = 1000
CONTEXT = ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"]
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
_PARAMETER = "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"
_WORKFLOW = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
_STATUS = "http://schema.org/{}ActionStatus"
_DECIDED = ("adopted", "kept")
_FAILED = ("failed", "timed_out", "interrupted", "blocked")
_KINDS = {
    "boolean": "Boolean", "integer": "Integer", "number": "Float", "text": "File", "string": "Text",
    "directory": "Dataset", "file": "File", "image": "File", "json": "File", "tabular": "File",
}  # fmt: skip
_UNSAFE = re.compile(r"[^A-Za-z0-9._/-]")
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,10}")
# Media types by suffix, and by type of an output without one.
_MEDIA = {
    ".csv": "text/csv", ".gif": "image/gif", ".html": "text/html", ".jpeg": "image/jpeg", ".jpg": "image/jpeg",
    ".json": "application/json", ".md": "text/markdown", ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf", ".png": "image/png", ".svg": "image/svg+xml", ".txt": "text/plain",
    ".webp": "image/webp", ".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml",
    "json": "application/json", "text": "text/plain",
}  # fmt: skip
_ANY_MEDIA = "application/octet-stream"
README = "README.md"
Reference = dict[str, str]


def render(subject: Subject) -> Rendered:
    crate = _Crate(subject.record(), subject)
    return Rendered(folder=crate.made())


def ref(id_: str) -> Reference:
    return {"@id": id_}


def quoted(text: str) -> str:
    """Percent-encoded, as it may stand in an `@id`."""
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)


@dataclass
class _Crate:
    record: RunRecord
    subject: Subject
    entities: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)  # path in the crate → bytes, or the path of a blob
    parts: dict[str, None] = field(default_factory=dict)  # data entities, in order
    # What is known of a content wherever it is met: (suffix, type), so that it lies in the crate once.
    known: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, id_: str, type_: str | list[str], **fields: Any) -> Reference:
        """An entity, once. Fields without a value are left out."""
        kept = {name: value for name, value in fields.items() if value not in (None, "", [])}
        self.entities.setdefault(id_, {"@id": id_, "@type": type_, **kept})
        return ref(id_)

    def made(self) -> Mapping[str, Any]:
        record = self.record
        for step in record.steps.values():
            for one in step.outputs:
                if one.value is msgspec.UNSET:
                    suffix = one.suffix.lower() if _SUFFIX.fullmatch(one.suffix) else ""
                    self.known.setdefault(one.sha256, (suffix, one.type))
        workflow = self.workflow()
        inputs = [self.input(one.id, one.sha256, one.value, one.size) for one in record.inputs]
        run = self.run(workflow, inputs)
        state = "unfinished" if record.unfinished else record.outcome
        self.entities |= {METADATA: {
            "@id": METADATA, "@type": "CreativeWork", "about": ref("./"),
            "conformsTo": [ref("https://w3id.org/ro/crate/1.1"), ref("https://w3id.org/workflowhub/workflow-ro-crate/1.0")],
        }}  # fmt: skip
        for id_, name in _PROFILES.items():
            self.add(id_, "CreativeWork", name=name, version=id_.rpartition("/")[2])
        actions = [id_ for id_, one in self.entities.items() if one["@type"] in ("CreateAction", "OrganizeAction")]
        self.files[README] = markdown(record)
        self.parts[README] = None
        self.add(README, "File", name="summary of the run", about=ref("./"), encodingFormat="text/markdown")
        root = {
            "@id": "./", "@type": "Dataset", "name": f"{record.workflow} {record.run}",
            "description": f"Run {record.run} of the workflow {record.workflow}: {state}.",
            "datePublished": (record.ended or record.last_ts)[:10],
            "license": "The run does not say under which license its content is.",
            "conformsTo": [ref(id_) for id_ in _PROFILES], "mainEntity": workflow,
            "mentions": [ref(id_) for id_ in actions], "hasPart": [ref(id_) for id_ in self.parts],
        }  # fmt: skip
        assert run in root["mentions"]
        graph = [self.entities.pop(METADATA), root, *map(_single, self.entities.values())]
        document = {"@context": CONTEXT, "@graph": graph}
        data = json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n"
        return {METADATA: data, **self.files}

    # --- the workflow ---

    def workflow(self) -> Reference:
        """The file of the workflow, with its parameters, its jobs as steps, and their actions as tools."""
        record = self.record
        sources = self.subject.sources()
        main = next(iter(sources), "workflow.yaml")
        for name, data in sources.items():
            path = f"source/{name}"
            self.files[path] = data
            self.parts[quoted(path)] = None
            if name != main:
                self.add(quoted(path), "File", name=name, encodingFormat=_media(name, ""))
        language = self.add("#language", "ComputerLanguage", name="Whyrun workflow", version=record.engine_version)
        main_id = quoted(f"source/{main}")
        self.parts.setdefault(main_id, None)
        jobs: dict[str, str] = {}
        for step in sorted(record.steps.values(), key=_begin):
            if step.attempts or (step.by and step.status in _DECIDED):  # a tool without an action is refused
                jobs.setdefault(step.job, step.action)
        steps, tools = [], {}
        for position, (job, action) in enumerate(jobs.items(), 1):
            tool = self.add(f"#action/{quoted(action or job)}", "SoftwareApplication", name=action or job)
            tools[tool["@id"]] = tool
            about = {"name": job, "position": str(position), "workExample": tool}
            steps.append(self.add(f"#step/{quoted(job)}", "HowToStep", **about))
        parameters = {without_indices(one.id): _kind(one.value, one.size) for one in record.inputs}
        outputs = {_output_name(one): _KINDS.get(one.type, "File") for step in record.steps.values()
                   for one in step.outputs if not one.is_leaf}  # fmt: skip
        return self.add(
            main_id, ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"], name=record.workflow,
            conformsTo=ref(_WORKFLOW), encodingFormat=_media(main, ""), programmingLanguage=language,
            identifier=f"sha256:{record.workflow_sha256}",
            version=record.workflow_sha256[:12],
            step=steps, hasPart=list(tools.values()),
            input=[self.parameter("input", name.partition(":")[2], kind) for name, kind in sorted(parameters.items())],
            output=[self.parameter("output", name, kind) for name, kind in sorted(outputs.items())],
        )  # fmt: skip

    def parameter(self, role: str, name: str, kind: str) -> Reference:
        about = {"name": name, "additionalType": kind, "conformsTo": ref(_PARAMETER)}
        return self.add(f"#{role}/{quoted(name)}", "FormalParameter", **about)

    # --- data ---

    def input(self, id_: str, sha256: str, value: Any, size: int | None) -> Reference:
        example = f"#input/{quoted(without_indices(id_).partition(':')[2])}"
        if value is not msgspec.UNSET:
            return self.value(id_, sha256, value, example)
        return self.file(id_, sha256, size=size, example=example)

    def output(self, one: Output) -> Reference:
        example = f"#output/{quoted(_output_name(one))}"
        if one.value is not msgspec.UNSET:
            return self.value(one.id, one.sha256, one.value, example)
        return self.file(one.id, one.sha256, size=one.size, example=example, published=one.path or "")

    def value(self, id_: str, sha256: str, value: Any, example: str) -> Reference:
        text = value if isinstance(value, str | int | float | bool) else json.dumps(value, sort_keys=True)
        known = ref(example) if example in self.entities else None
        own = f"#value/{quoted(id_)}/{sha256[:16]}"
        return self.add(own, "PropertyValue", name=id_, value="(empty)" if text == "" else text, exampleOfWork=known)

    def file(
        self, id_: str, sha256: str, *, size: int | None = None, example: str = "", published: str = ""
    ) -> Reference:
        """A file or folder by its content: in the crate if the store has it, else named by its hash."""
        suffix, type_ = self.known.get(sha256, ("", ""))
        blobs = {} if self.subject.metadata_only else self.subject.blobs(sha256)
        is_folder = type_ == "directory" or (bool(blobs) and "" not in blobs)
        path = f"data/{sha256[:2]}/{sha256}{suffix}"
        at = f"urn:hash::sha256:{sha256}" + ("/" if is_folder else "")
        if blobs:
            at = f"{path}/" if is_folder else path
            for below, (blob, _) in blobs.items():
                self.files[f"{at}{below}" if is_folder else path] = blob
            size = sum(bytes_ for _, bytes_ in blobs.values())
        self.parts[at] = None
        media = None if is_folder else _media(suffix, type_)
        kind, length = "Dataset" if is_folder else "File", None if size is None else str(size)
        self.add(at, kind, name=id_, sha256=sha256, contentSize=length, encodingFormat=media)
        entity = self.entities[at]
        for name, text in (("alternateName", id_), ("description", published and f"published as {published}")):
            if text and text not in (said := entity.setdefault(name, [])):
                said.append(text)
        if example in self.entities and ref(example) not in (works := entity.setdefault("exampleOfWork", [])):
            works.append(ref(example))
        return ref(at)

    # --- actions ---

    def run(self, workflow: Reference, inputs: list[Reference]) -> Reference:
        record = self.record
        engine = self.add("#whyrun", "SoftwareApplication", name="Whyrun", softwareVersion=record.engine_version)
        controls = list(self.controls())
        results = [self.output(one) for step in record.ordered() for one in step.outputs if not one.is_leaf]
        about = {
            "name": f"{record.workflow} {record.run}", "description": _described(record),
            "startTime": _time(record.started), "endTime": _time(record.ended),
            "actionStatus": _status(record.outcome), "error": record.error or None,
        }  # fmt: skip
        run = self.add(f"#run/{record.run}", "CreateAction", **about, instrument=workflow, object=_once(inputs),
                       result=_once(results))  # fmt: skip
        whole = about | {"name": f"execution of {record.run}", "description": None}
        self.add("#execution", "OrganizeAction", **whole, instrument=engine, object=controls, result=run)
        return run

    def controls(self) -> Iterator[Reference]:
        rows = list(self.record.attempts())
        if len(rows) > ACTIONS:
            yield from self.grouped(rows)
        else:
            for step, attempt in rows:
                yield self.control(step, [attempt], f"{quoted(step.id)}/{attempt.number}", step.id)
        for step in self.record.ordered():
            if step.status in _DECIDED and step.by:
                person = self.add(f"#person/{quoted(step.by)}", "Person", name=step.by)
                action = self.add(
                    f"#attempt/{quoted(step.id)}/0", "CreateAction", name=step.id,
                    description=f"{step.status} {step.note}",
                    instrument=ref(f"#action/{quoted(step.action or step.job)}"), agent=person, endTime=_time(step.at),
                    result=_once(self.output(one) for one in step.outputs if not one.is_leaf),
                    actionStatus=_status("succeeded"),
                )  # fmt: skip
                yield self.controlled(step, f"{quoted(step.id)}/0", action)

    def grouped(self, rows: list[tuple[Step, Attempt]]) -> Iterator[Reference]:
        """One action a job, because nobody reads a hundred thousand."""
        jobs: dict[str, list[tuple[Step, Attempt]]] = {}
        for step, attempt in rows:
            jobs.setdefault(step.job, []).append((step, attempt))
        for job, own in jobs.items():
            yield self.control(own[0][0], [attempt for _, attempt in own], f"{quoted(job)}/all", f"Job:{job}")

    def control(self, step: Step, attempts: list[Attempt], at: str, name: str) -> Reference:
        ends = [attempt.end for attempt in attempts]
        bad = next((attempt for attempt in attempts if attempt.status in _FAILED and not attempt.will_retry), None)
        last = attempts[-1]
        status = "running" if last.status == "running" else bad.status if bad is not None else last.status
        reasons = "; ".join(f"{code} {text}".rstrip() for code, text in step.reasons)
        many = f"{len(attempts)} executions" if len(attempts) > 1 else reasons
        failure = bad or (last if last.error_type else None)
        action = self.add(
            f"#attempt/{at}", "CreateAction", name=name, description=many,
            instrument=ref(f"#action/{quoted(step.action or step.job)}"), startTime=_time(attempts[0].start),
            endTime=None if None in ends else _time(max(end for end in ends if end is not None)),
            actionStatus=_status(status),
            error=f"{failure.error_type}: {failure.error}" if failure is not None and failure.error_type else None,
            object=_once(one for attempt in attempts for one in self.objects(attempt)),
            result=_once(self.output(one) for attempt in attempts for one in attempt.outputs if not one.is_leaf),
        )  # fmt: skip
        return self.controlled(step, at, action)

    def controlled(self, step: Step, at: str, action: Reference) -> Reference:
        instrument = ref(f"#step/{quoted(step.job)}")
        about = {"name": f"orchestrate {step.id}", "instrument": instrument, "object": action}
        return self.add(f"#control/{at}", "ControlAction", **about)

    def objects(self, attempt: Attempt) -> Iterator[Reference]:
        """What it read: inputs, artifacts, and parameters as values. The code of its action is its tool."""
        for name, bound in attempt.bindings.items():
            for member in bound if isinstance(bound, list) else self.subject.members(bound):
                id_, sha256 = member["id"], member.get("sha256", "")
                if name == ".action" or not sha256:
                    continue
                if "value" in member:
                    yield self.value(id_, sha256, member["value"], "")
                else:
                    yield self.file(id_, sha256)


def _single(entity: dict[str, Any]) -> dict[str, Any]:
    """A list of one is written as that one."""
    return {name: one[0] if isinstance(one, list) and len(one) == 1 else one for name, one in entity.items()}


def _media(name: str, type_: str) -> str:
    suffix = name[name.rfind(".") :].lower() if "." in name else ""
    return _MEDIA.get(suffix) or _MEDIA.get(type_, _ANY_MEDIA)


def _time(ts: str | None) -> str | None:
    """As the profile's check has times: milliseconds, and the zone as an offset."""
    return None if ts is None else f"{ts[:23]}+00:00"


def _begin(step: Step) -> tuple[str, Any]:
    return (step.attempts[0].start if step.attempts else step.at or "~"), by_number(step.id)


def _output_name(one: Output) -> str:
    return without_indices(one.id).partition(":")[2]


def _once(references: Iterable[Reference]) -> list[Reference]:
    return [ref(id_) for id_ in dict.fromkeys(one["@id"] for one in references)]


def _kind(value: Any, size: int | None) -> str:
    kinds = {bool: "Boolean", int: "Integer", float: "Float", str: "Text"}
    return kinds.get(type(value), "File" if size is not None or value is msgspec.UNSET else "PropertyValue")


def _status(outcome: str) -> str:
    if outcome == "running":
        return _STATUS.format("Active")
    return _STATUS.format("Failed" if outcome in _FAILED else "Completed")


def _described(record: RunRecord) -> str:
    parts = [f"{number} {status.replace('_', ' ')}" for status, number in record.counts().items()]
    parts += [f"{record.up_to_date} up to date"] if record.up_to_date else []
    spent = record.spent().text()
    mark = "unfinished; " if record.unfinished else ""
    return f"{mark}mode {record.mode}: {', '.join(parts) or 'nothing ran'}" + (f"; spent {spent}" if spent else "")
