"""`composition_summary.json`: how data moved in a run. From the run's manifest and events, and the summary before it.

Whatever happened, it says all that is known so far: a step that failed has its error, one that never started says so,
and nothing is made up. What is up to date is told as the run said that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from whyrun.artifacts.hashing import value_sha256
from whyrun.ids import file_name, output_of
from whyrun.log import events as ev
from whyrun.log.outcomes import RunOutcome

SCHEMA_VERSION = 1
SUMMARY_FILE = "composition_summary.json"
_STATUS = {"open": "interrupted", "completed": "completed", "failed": "failed", "timed_out": "timed_out",
           "interrupted": "interrupted", "skipped": "inactive", "blocked": "blocked"}  # fmt: skip
_NOT_PLANNED = {"clean": "up_to_date", "deferred": "deferred", "inactive": "inactive"}
_DECISIONS = ("merge", "append", "aggregate")

Shape = dict[str, int]  # rows, columns
Count = Callable[[str, str], Shape | None]  # (hash, suffix) → what the stored data has


class Composed:
    """What the events of a run say of its steps, folded one by one."""

    def __init__(self) -> None:
        self.outcome = RunOutcome()
        self.bindings: dict[str, Mapping[str, Any]] = {}
        self.attempts: dict[str, int] = {}
        self.reused: dict[str, str] = {}
        self.durations: dict[str, float] = {}
        self.artifacts: dict[str, dict[str, ev.ArtifactAvailable]] = {}
        self.conditions: dict[str, ev.ConditionEvaluated] = {}
        self.tasks: dict[str, list[dict[str, Any]]] = {}
        self.because: dict[str, list[str]] = {}

    def add(self, event: ev.Event) -> None:
        self.outcome.add(event)
        match event:
            case ev.StepStart():
                self.bindings[event.step_id] = event.bindings or {}
                self.attempts[event.step_id] = event.attempt
                self.tasks.pop(event.step_id, None)  # what an earlier attempt said is no more
                self.artifacts.pop(event.step_id, None)
            case ev.StepSkipped() if event.why == "reused":
                self.bindings[event.step_id] = event.bindings or {}
                self.reused[event.step_id] = event.from_run or ""
            case ev.ArtifactAvailable() if output_of(event.artifact) is not None:
                self.artifacts.setdefault(event.step_id, {})[event.artifact] = event
            case ev.StepComplete() | ev.StepFailed():
                self.durations[event.step_id] = event.duration
            case ev.StepBlocked():
                self.because[event.step_id] = event.because
            case ev.ConditionEvaluated():
                self.conditions[event.step_id] = event
            case ev.Task() if isinstance(event.details, dict):
                self.tasks.setdefault(event.step_id, []).append(event.details)
            case _:
                pass


def composition_summary(
    run: str, section: Mapping[str, Any], events: Iterable[ev.Event], previous: Mapping[str, Any] | None, count: Count
) -> dict[str, Any]:
    """`section` is `composition` of the manifest; `previous` the summary of the run before, if there is one."""
    seen = Composed()
    for event in events:
        seen.add(event)
    return _Summary(run, section, seen, previous or {}, count).written()


class _Summary:
    def __init__(
        self, run: str, section: Mapping[str, Any], seen: Composed, previous: Mapping[str, Any], count: Count
    ) -> None:
        self.run, self.section, self.seen, self.count = run, section, seen, count
        self.before = {step["step_id"]: step for step in previous.get("steps", ())}
        self.decided_before: dict[str, list[dict[str, Any]]] = {}
        for decision in previous.get("decisions", ()):
            self.decided_before.setdefault(decision["step_id"], []).append(decision)
        self.shapes = dict(_known_shapes(previous))
        for step in section["steps"]:
            self.shapes.update(self._told_shapes(step["step_id"]))

    def written(self) -> dict[str, Any]:
        end = self.seen.outcome.end
        steps = [self._step(step) for step in self.section["steps"]]
        decisions = [decision for step in steps for decision in self._decisions(step)]
        return {
            "schema_version": SCHEMA_VERSION,
            "run": self.run,
            "state": end.state if end is not None else "interrupted",
            "composition_mode": self.section["mode"],
            "plan_id": self.section["plan_id"],
            "plan_rel_path": self.section["rel_path"],
            "inputs_manifest": [self._dataset(dataset) for dataset in self.section["datasets"]],
            "steps": steps,
            "decisions": [*decisions, *self._conditions()],
        }

    # -- rows --

    def _told_shapes(self, step: str) -> Iterable[tuple[str, Shape]]:
        """Content → rows and columns, as the action of a step counted them."""
        for details in self.seen.tasks.get(step, ()):
            for name, shape in _shapes(details.get("read")):
                for source in _sources(self.seen.bindings.get(step, {}).get(name)):
                    yield source["sha256"], shape
            for name, shape in _shapes(details.get("wrote")):
                for artifact, made in self.seen.artifacts.get(step, {}).items():
                    if output_of(artifact) == name:
                        yield made.sha256, shape

    def _shape(self, sha256: str | None, type_: str, suffix: str) -> dict[str, int | None]:
        found = self.shapes.get(sha256 or "")
        if found is None and sha256 is not None and type_ == "dataset":
            found = self.count(sha256, suffix)
            if found is not None:
                self.shapes[sha256] = found
        return {"rows": found["rows"], "columns": found["columns"]} if found else {"rows": None, "columns": None}

    # -- parts --

    def _dataset(self, dataset: Mapping[str, Any]) -> dict[str, Any]:
        suffix = _suffix(dataset["path"] or "")
        told = {key: dataset[key] for key in ("dataset_key", "role", "filename", "rel_path", "path")}
        fingerprint = f"sha256:{dataset['sha256']}" if dataset["sha256"] else None
        return {**told, "fingerprint": fingerprint, **self._shape(dataset["sha256"], "dataset", suffix)}

    def _step(self, step: Mapping[str, Any]) -> dict[str, Any]:
        id_ = step["step_id"]
        status = self._status(step)
        before = self.before.get(id_, {})
        found: dict[str, Any] = {"step_id": id_, "action": step["action"], "status": status}
        if status == "up_to_date":
            found["from_run"] = step.get("kept", {}).get("run")
            bindings, duration = before.get("bindings", []), step.get("kept", {}).get("duration")
            found |= {"attempt": None, "duration": duration, "bindings": bindings}
            found["parameters"] = before.get("parameters", {})
        else:
            if id_ in self.seen.reused:
                found["from_run"] = self.seen.reused[id_]
            duration = self.seen.durations.get(id_)
            found |= {"attempt": self.seen.attempts.get(id_), "duration": duration, "bindings": self._bindings(id_)}
            found["parameters"] = self._parameters(id_)
        found["products"] = [self._product(step, product, status) for product in step["products"]]
        failure = self.seen.outcome.failures.get(id_)
        if failure is not None and status in ("failed", "timed_out", "interrupted"):
            found["error"] = f"{failure.error_type}: {failure.error}"
        if status == "blocked":
            found["because"] = self.seen.because[id_]
        if "because" in step:
            found["because"] = step["because"]
        ran = id_ in self.seen.attempts
        found["evidence"] = f"steps/{file_name(id_.removeprefix('Job:'))}" if ran else None
        return found

    def _status(self, step: Mapping[str, Any]) -> str:
        if step["state"] != "planned":
            return _NOT_PLANNED[step["state"]]
        outcome = self.seen.outcome.steps.get(step["step_id"])
        if outcome is None:
            return "not_started"
        if outcome == "skipped" and step["step_id"] in self.seen.reused:
            return "reused"
        return _STATUS[outcome]

    def _bindings(self, step: str) -> list[dict[str, Any]]:
        found = []
        for name, sources in self.seen.bindings.get(step, {}).items():
            for source in _sources(sources):
                if name.startswith(".") or _is_parameter(step, source["id"]):
                    continue
                suffix = str(source.get("as", ""))[1:]
                entry = {"name": name, "id": source["id"], "sha256": source["sha256"]}
                if "value" in source:
                    entry["value"] = source["value"]
                found.append({**entry, **self._shape(source["sha256"], "dataset" if suffix else "", suffix)})
        return found

    def _parameters(self, step: str) -> dict[str, Any]:
        """By name: the value, where it is small enough to stand in the log, else its hash."""
        found = {}
        for name, sources in self.seen.bindings.get(step, {}).items():
            for source in _sources(sources):
                if _is_parameter(step, source["id"]):
                    found[name] = source["value"] if "value" in source else {"sha256": source["sha256"]}
        return found

    def _product(self, step: Mapping[str, Any], product: Mapping[str, Any], status: str) -> dict[str, Any]:
        made: dict[str, Any] = {"sha256": None, "size": None}
        suffix = _suffix(product["path"] or "")
        event = self.seen.artifacts.get(step["step_id"], {}).get(product["id"])
        if event is not None and status in ("completed", "reused"):
            made, suffix = {"sha256": event.sha256, "size": event.size}, event.suffix or suffix
        elif status == "up_to_date":
            made = dict(step.get("kept", {}).get("outputs", {}).get(product["id"], made))
        return {**product, **made, **self._shape(made["sha256"], product["type"], suffix)}

    # -- decisions --

    def _decisions(self, step: Mapping[str, Any]) -> list[dict[str, Any]]:
        id_ = step["step_id"]
        if step["status"] in ("up_to_date", "reused"):
            kept = [d for d in self.decided_before.get(id_, ()) if d["kind"] in _DECISIONS]
            return [{**decision, "from_run": step.get("from_run")} for decision in kept]
        found = []
        for details in self.seen.tasks.get(id_, ()):
            if details.get("decision") in _DECISIONS:
                told = {name: value for name, value in details.items() if name not in ("decision", "read", "wrote")}
                found.append({"kind": details["decision"], "step_id": id_, **told})
        return found

    def _conditions(self) -> list[dict[str, Any]]:
        steps = {step["step_id"]: step for step in self.section["steps"]}
        branches = {id_ for c in self.section["conditions"] for id_ in (*c["true_steps"], *c["false_steps"])}
        found = [self._branching(condition, steps) for condition in self.section["conditions"]]
        for id_, step in steps.items():
            if "condition" in step and id_ not in branches:
                found.append(self._own_condition(step))
        return found

    def _branching(self, condition: Mapping[str, Any], steps: Mapping[str, Any]) -> dict[str, Any]:
        """A condition step of a dataset plan: it stands as `if` on the steps of both branches."""
        result: bool | None = None
        inputs: dict[str, Any] = {}
        for ids, when in ((condition["true_steps"], True), (condition["false_steps"], False)):
            for id_ in ids:
                held, values = self._held(steps[id_]) if id_ in steps else (None, {})
                if held is not None:
                    result = when if held else not when
                inputs = values or inputs
        branches = (condition["true_steps"], condition["false_steps"])
        taken, left = ([], []) if result is None else branches if result else branches[::-1]
        return self._decision(condition["step_id"], condition["predicate"], inputs, result, taken, left)

    def _own_condition(self, step: Mapping[str, Any]) -> dict[str, Any]:
        held, inputs = self._held(step)
        id_ = step["step_id"]
        taken, left = ([], []) if held is None else ([id_], []) if held else ([], [id_])
        return self._decision(id_, step["condition"], inputs, held, taken, left)

    def _held(self, step: Mapping[str, Any]) -> tuple[bool | None, dict[str, Any]]:
        """Whether the condition of a step held, and by which values; None where it was not evaluated."""
        event = self.seen.conditions.get(step["step_id"])
        if event is not None:
            return event.result, event.inputs
        because = step.get("because", {})
        if "condition" in because:
            return False, dict(because["inputs"])
        decided = step.get("decided") and step["state"] in ("planned", "clean")
        return (True, {}) if decided else (None, {})

    def _decision(
        self, step_id: str, predicate: str, inputs: Mapping[str, Any], result: bool | None, taken: Any, left: Any
    ) -> dict[str, Any]:
        if not inputs and result is not None:  # known before the run: as it was told when it was evaluated
            for decision in self.decided_before.get(step_id, ()):
                if decision["kind"] == "condition" and decision["result"] == result:
                    inputs = {id_: found["value"] for id_, found in decision["inputs"].items()}
        values = ", ".join(f"{id_} = {value!r}" for id_, value in sorted(inputs.items()))
        why = "it was not evaluated: what it reads is not known" if result is None else values
        return {
            "kind": "condition",
            "step_id": step_id,
            "predicate": predicate,
            "inputs": {id_: {"value": value, "sha256": value_sha256(value)} for id_, value in inputs.items()},
            "result": result,
            "taken": list(taken),
            "not_taken": list(left),
            "why": why,
        }


def _is_parameter(step: str, source: str) -> bool:
    return source.startswith(f"Input:{step.removeprefix('Job:')}.with.")


def _known_shapes(previous: Mapping[str, Any]) -> Iterable[tuple[str, Shape]]:
    for dataset in previous.get("inputs_manifest", ()):
        yield str(dataset["fingerprint"]).removeprefix("sha256:"), dataset
    for step in previous.get("steps", ()):
        for entry in (*step["bindings"], *step["products"]):
            if entry["sha256"] is not None and entry["rows"] is not None:
                yield entry["sha256"], entry


def _shapes(told: Any) -> Iterable[tuple[str, Shape]]:
    """Only what has the form: an action of the user's may put anything into its details."""
    for name, shape in told.items() if isinstance(told, dict) else ():
        if isinstance(shape, dict) and isinstance(shape.get("rows"), int) and isinstance(shape.get("columns"), int):
            yield name, {"rows": shape["rows"], "columns": shape["columns"]}


def _sources(recorded: Any) -> list[Mapping[str, Any]]:
    """The members of one binding. A list of more than 64 stands apart from the event, and is not gone through."""
    return [each for each in recorded if "sha256" in each] if isinstance(recorded, list) else []


def _suffix(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    return name[name.rindex(".") :] if "." in name[1:] else ""
