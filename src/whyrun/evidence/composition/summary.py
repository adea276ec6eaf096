"""`composition_summary.json`: how data moved in a run, from manifests, events and stored data alone.

A failed or killed run has a summary, too: failed steps have their error, steps that never started say so. Steps that
are up to date or reused are described by the manifest and the events of the run that made the result. No summary is
made from another summary, so that a changed one cannot pass its figures on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from whyrun.actions.builtin import BUILTIN
from whyrun.evidence.composition.conditions import ComposedEvents, condition_decisions, inactive_because
from whyrun.ids import file_name, output_of

SCHEMA_VERSION = 1
SUMMARY_FILE = "composition_summary.json"
_STATUS = {"open": "interrupted", "completed": "completed", "failed": "failed", "timed_out": "timed_out",
           "interrupted": "interrupted", "skipped": "inactive", "blocked": "blocked"}  # fmt: skip
_NOT_PLANNED = {"clean": "up_to_date", "deferred": "deferred", "inactive": "inactive"}
_DECIDING = {"data/merge": "merge", "data/append": "append", "data/aggregate": "aggregate"}
_NOT_DECIDED = ("decision", "read", "wrote", "level")  # details of the task that are no part of the decision
_OF_USERS = ("python", "shell")  # built-in, but they run code of the user

Shape = dict[str, int]  # rows, columns


@dataclass(frozen=True, slots=True)
class ComposedRun:
    """The facts of one run: `composition` of its manifest, and its events."""

    name: str
    section: Mapping[str, Any]
    seen: ComposedEvents

    def planned(self, step: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = next(each for each in self.section["steps"] if each["step_id"] == step)
        return found

    def action_of(self, step: str) -> str:
        return str(self.planned(step)["action"])


class SummaryContext(Protocol):
    """What a summary needs besides the run's own files."""

    def count(self, sha256: str, suffix: str) -> Shape | None:
        """Rows and columns of stored data; None if they cannot be counted."""

    def members(self, wide: Mapping[str, Any]) -> list[Any]:
        """The members of a long list, which is a blob of its own; empty if the blob is lost."""

    def run(self, name: str) -> ComposedRun | None:
        """The facts of a run; None if it composed nothing, or if they are lost."""

    def runs_between(self, first: str, last: str) -> Iterable[str]:
        """The runs after `first` and before `last`, the latest first."""


def composition_summary(run: ComposedRun, context: SummaryContext) -> dict[str, Any]:
    return _Summary(run, context).to_json()


class _Summary:
    def __init__(self, run: ComposedRun, context: SummaryContext) -> None:
        self.run, self.section, self.seen, self.context = run.name, run.section, run.seen, context
        self.shapes: dict[str, Shape] = {}
        self.made: dict[str, tuple[ComposedRun, str]] = {}  # step → the run and step that made its result
        for step in self.section["steps"]:
            id_ = step["step_id"]
            self.shapes.update(self._counted_shapes(run, id_))
            maker = self._maker(id_, step)
            if maker is not None:
                self.made[id_] = maker
                self.shapes.update(self._counted_shapes(*maker))

    def to_json(self) -> dict[str, Any]:
        end = self.seen.outcome.end
        steps = [self._step(step) for step in self.section["steps"]]
        pairs = zip(steps, self.section["steps"], strict=True)
        decisions = [decision for step, planned in pairs for decision in self._decisions(step, planned)]
        return {
            "schema_version": SCHEMA_VERSION,
            "run": self.run,
            "state": end.state if end is not None else "interrupted",
            "composition_mode": self.section["mode"],
            "plan_id": self.section["plan_id"],
            "plan_rel_path": self.section["rel_path"],
            "inputs_manifest": [self._dataset(dataset) for dataset in self.section["datasets"]],
            "steps": steps,
            "decisions": [*decisions, *condition_decisions(self.section, self.seen)],
        }

    # -- rows --

    def _counted_shapes(self, run: ComposedRun, step: str) -> Iterable[tuple[str, Shape]]:
        """(hash, rows and columns) as the action of a step counted them."""
        tasks = run.seen.tasks.get(step, ()) if _counts(run.action_of(step)) else ()
        bindings = run.seen.bindings.get(step, {})
        given = {slot: one for slot, _, one in given_sources(bindings, run.section, self.context)} if tasks else {}
        for _, details in tasks:
            for name, shape in _shapes(details.get("read")):
                if name in given:
                    yield given[name]["sha256"], shape
            for name, shape in _shapes(details.get("wrote")):
                for artifact, made in run.seen.artifacts.get(step, {}).items():
                    if output_of(artifact) == name:
                        yield made.sha256, shape

    def _shape(self, sha256: str | None, type_: str, suffix: str) -> dict[str, int | None]:
        shape = self.shapes.get(sha256 or "")
        if shape is None and sha256 is not None and type_ == "dataset":
            shape = self.context.count(sha256, suffix)
            if shape is not None:
                self.shapes[sha256] = shape
        return {"rows": shape["rows"], "columns": shape["columns"]} if shape else {"rows": None, "columns": None}

    # -- parts --

    def _dataset(self, dataset: Mapping[str, Any]) -> dict[str, Any]:
        suffix = _suffix(dataset["path"] or "")
        declared = {key: dataset[key] for key in ("dataset_key", "role", "filename", "rel_path", "path", "used")}
        fingerprint = f"sha256:{dataset['sha256']}" if dataset["sha256"] else None
        return {**declared, "fingerprint": fingerprint, **self._shape(dataset["sha256"], "dataset", suffix)}

    def _step(self, step: Mapping[str, Any]) -> dict[str, Any]:
        id_ = step["step_id"]
        status = self._status(step)
        record: dict[str, Any] = {"step_id": id_, "action": step["action"], "status": status}
        bindings, duration = self.seen.bindings.get(id_, {}), self.seen.durations.get(id_)
        if status == "up_to_date":
            kept = step["kept"]
            record["from_run"], bindings, duration = kept["run"], kept["bindings"], kept["duration"]
        elif status == "reused":
            record["from_run"], duration = self.seen.reused[id_][0], self._earlier_duration(id_)
        record |= {"attempt": self.seen.attempts.get(id_), "duration": duration}
        record["bindings"] = self._bindings(id_, bindings)
        record["parameters"] = self._parameters(id_, bindings)
        record["products"] = [self._product(step, product, status) for product in step["products"]]
        failure = self.seen.outcome.failures.get(id_)
        if failure is not None and status in ("failed", "timed_out", "interrupted"):
            record["error"] = f"{failure.error_type}: {failure.error}"
        if status == "blocked":
            record["because"] = self.seen.because[id_]
        if status == "inactive":
            record["because"] = inactive_because(step, self.seen)
        ran = id_ in self.seen.attempts
        record["evidence"] = f"steps/{file_name(id_.removeprefix('Job:'))}" if ran else None
        return record

    def _status(self, step: Mapping[str, Any]) -> str:
        if step["state"] != "planned":
            return _NOT_PLANNED[step["state"]]
        outcome = self.seen.outcome.steps.get(step["step_id"])
        if outcome is None:
            return "not_started"
        if outcome == "skipped" and step["step_id"] in self.seen.reused:
            return "reused"
        return _STATUS[outcome]

    def _maker(self, id_: str, step: Mapping[str, Any]) -> tuple[ComposedRun, str] | None:
        """The run and the step that made the result of a step that is up to date or reused. None if no step of a run
        that composes made it, for example for an adopted file."""
        status = self._status(step)
        if status not in ("up_to_date", "reused"):
            return None
        name, made = self.seen.reused[id_] if status == "reused" else (str(step["kept"]["run"]), id_)
        before = self.run
        while (run := self.context.run(name)) is not None:
            if run.seen.outcome.steps.get(made) == "completed":
                return run, made
            # The step had another name then: a run in between reused its result under this name.
            for between in self.context.runs_between(name, before):
                taken = self.context.run(between)
                if taken is not None and taken.seen.reused.get(made, ("", ""))[0] == name:
                    made, before = taken.seen.reused[made][1], between
                    break
            else:
                return None
        return None

    def _earlier_duration(self, id_: str) -> float | None:
        run, name = self.made.get(id_, (None, ""))
        return run.seen.durations.get(name) if run is not None else None

    def _given(self, bindings: Mapping[str, Any]) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
        return given_sources(bindings, self.section, self.context)

    def _bindings(self, step: str, bindings: Mapping[str, Any]) -> list[dict[str, Any]]:
        entries = []
        for slot, name, source in self._given(bindings):
            if name.startswith(".") or _is_parameter(step, source["id"]):
                continue
            suffix = str(source.get("as", ""))[1:]
            entry = {"name": slot, "id": source["id"], "sha256": source["sha256"]}
            if "value" in source:
                entry["value"] = source["value"]
            entries.append({**entry, **self._shape(source["sha256"], "dataset" if suffix else "", suffix)})
        return entries

    def _parameters(self, step: str, bindings: Mapping[str, Any]) -> dict[str, Any]:
        """Name → the value if the log has it, else its hash."""
        return {
            name: source["value"] if "value" in source else {"sha256": source["sha256"]}
            for _, name, source in self._given(bindings)
            if _is_parameter(step, source["id"])
        }

    def _product(self, step: Mapping[str, Any], product: Mapping[str, Any], status: str) -> dict[str, Any]:
        made: dict[str, Any] = {"sha256": None, "size": None}
        suffix = _suffix(product["path"] or "")
        event = self.seen.artifacts.get(step["step_id"], {}).get(product["id"])
        if event is not None and status in ("completed", "reused"):
            made, suffix = {"sha256": event.sha256, "size": event.size}, event.suffix or suffix
        elif status == "up_to_date":
            made = dict(step["kept"]["outputs"].get(product["id"], made))
        return {**product, **made, **self._shape(made["sha256"], product["type"], suffix)}

    # -- decisions --

    def _decisions(self, step: Mapping[str, Any], planned: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        id_ = step["step_id"]
        if step["status"] not in ("up_to_date", "reused"):
            return self._decided(id_, planned, self.section, self.seen)
        if id_ not in self.made:
            return ()
        run, name = self.made[id_]
        decisions = self._decided(name, run.planned(name), run.section, run.seen)
        return [{**decision, "step_id": id_, "from_run": step["from_run"]} for decision in decisions]

    def _decided(
        self, id_: str, planned: Mapping[str, Any], section: Mapping[str, Any], seen: ComposedEvents
    ) -> list[dict[str, Any]]:
        """Decisions of built-in actions. Details of user actions may contain anything, so they are skipped; but what a
        worker checked for such an action comes before all that the action says: one task for each merge."""
        kind, tasks = _DECIDING.get(planned["action"]), seen.tasks.get(id_, [])
        if "merged" in planned:
            given = given_sources(seen.bindings.get(id_, {}), section, self.context)
            sides = sum(name.split("[")[0] in planned["merged"] for _, name, _ in given)
            kind, tasks = "merge", tasks[: max(sides - 1, 0)]
        decisions = []
        for status, details in tasks:
            if kind is not None and details.get("decision") == kind:
                facts = {name: value for name, value in details.items() if name not in _NOT_DECIDED}
                decisions.append({"kind": kind, "step_id": id_, **facts, "refused": status == "FAILED"})
        return decisions


def _counts(action: str) -> bool:
    """Whether the action counts rows itself. Code of users may say anything in the details of a task."""
    return action in BUILTIN and action not in _OF_USERS


def given_sources(
    bindings: Mapping[str, Any], section: Mapping[str, Any], context: SummaryContext
) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
    """(slot, binding name, source). `secondary_dataset[1]` is the slot of the second member of a list."""
    for name, recorded in bindings.items():
        members = _members_of(recorded, section, context)
        for number, source in enumerate(members):
            listed = len(members) > 1 or "listed" in source
            yield f"{name}[{number}]" if listed else name, name, source


def _members_of(recorded: Any, section: Mapping[str, Any], context: SummaryContext) -> list[Mapping[str, Any]]:
    """The sources of one binding. A list of datasets that is bound as a whole gives each dataset."""
    sources: list[Mapping[str, Any]] = []
    for source in context.members(recorded) if isinstance(recorded, dict) else recorded:
        if source.get("as", "v").startswith("a"):  # an array
            for dataset in section["datasets"]:
                id_, form = f"Input:{dataset['dataset_key']}", f"f{_suffix(dataset['path'])}"
                if id_.startswith(f"{source['id']}["):
                    sources.append({"id": id_, "sha256": dataset["sha256"], "as": form, "listed": True})
        elif "sha256" in source:
            sources.append(source)
    return sources


def _is_parameter(step: str, source: str) -> bool:
    return source.startswith(f"Input:{step.removeprefix('Job:')}.with.")


def _shapes(details: Any) -> Iterable[tuple[str, Shape]]:
    """Skip everything of another form: details of user actions may contain anything."""
    for name, shape in details.items() if isinstance(details, dict) else ():
        if isinstance(shape, dict) and isinstance(shape.get("rows"), int) and isinstance(shape.get("columns"), int):
            yield name, {"rows": shape["rows"], "columns": shape["columns"]}


def _suffix(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    return name[name.rindex(".") :] if "." in name[1:] else ""
