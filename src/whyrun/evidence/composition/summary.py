"""`composition_summary.json`: how data moved in a run. From the run's manifest and events, and summaries before it.

Whatever happened, it says all that is known so far: a step that failed has its error, one that never started says so,
and nothing is made up. What is up to date or reused is told as the run said that made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from whyrun.evidence.composed_conditions import condition_decisions, inactive_because
from whyrun.evidence.composed_events import Composed
from whyrun.ids import file_name, output_of
from whyrun.log import events as ev

SCHEMA_VERSION = 1
SUMMARY_FILE = "composition_summary.json"
_STATUS = {"open": "interrupted", "completed": "completed", "failed": "failed", "timed_out": "timed_out",
           "interrupted": "interrupted", "skipped": "inactive", "blocked": "blocked"}  # fmt: skip
_NOT_PLANNED = {"clean": "up_to_date", "deferred": "deferred", "inactive": "inactive"}
_DECIDING = {"data/merge": "merge", "data/append": "append", "data/aggregate": "aggregate"}

Shape = dict[str, int]  # rows, columns


class Beside(Protocol):
    """What a summary needs beside the run's own files."""

    def count(self, sha256: str, suffix: str) -> Shape | None:
        """Rows and columns of stored data; None where that cannot be told."""

    def members(self, wide: Mapping[str, Any]) -> list[Any]:
        """Of a list that stands apart from its event; empty where it is lost."""

    def told(self, run: str) -> Mapping[str, Any] | None:
        """The summary of an earlier run."""


def composition_summary(
    run: str, section: Mapping[str, Any], events: Iterable[ev.Event], previous: Mapping[str, Any] | None, beside: Beside
) -> dict[str, Any]:
    """`section` is `composition` of the manifest; `previous` the summary of the run before, if there is one."""
    seen = Composed()
    for event in events:
        seen.add(event)
    return _Summary(run, section, seen, previous or {}, beside).written()


class _Summary:
    def __init__(
        self, run: str, section: Mapping[str, Any], seen: Composed, previous: Mapping[str, Any], beside: Beside
    ) -> None:
        self.run, self.section, self.seen, self.previous, self.beside = run, section, seen, previous, beside
        self.shapes = dict(_known_shapes(previous))
        for step in section["steps"]:
            self.shapes.update(self._told_shapes(step["step_id"]))

    def written(self) -> dict[str, Any]:
        end = self.seen.outcome.end
        steps = [self._step(step) for step in self.section["steps"]]
        told = zip(steps, self.section["steps"], strict=True)
        decisions = [decision for step, planned in told for decision in self._decisions(step, planned)]
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

    def _told_shapes(self, step: str) -> Iterable[tuple[str, Shape]]:
        """Content → rows and columns, as the action of a step counted them."""
        tasks = self.seen.tasks.get(step, ())
        given = {slot: source for slot, _, source in self._given(self.seen.bindings.get(step, {}))} if tasks else {}
        for _, details in tasks:
            for name, shape in _shapes(details.get("read")):
                if name in given:
                    yield given[name]["sha256"], shape
            for name, shape in _shapes(details.get("wrote")):
                for artifact, made in self.seen.artifacts.get(step, {}).items():
                    if output_of(artifact) == name:
                        yield made.sha256, shape

    def _shape(self, sha256: str | None, type_: str, suffix: str) -> dict[str, int | None]:
        found = self.shapes.get(sha256 or "")
        if found is None and sha256 is not None and type_ == "dataset":
            found = self.beside.count(sha256, suffix)
            if found is not None:
                self.shapes[sha256] = found
        return {"rows": found["rows"], "columns": found["columns"]} if found else {"rows": None, "columns": None}

    # -- parts --

    def _dataset(self, dataset: Mapping[str, Any]) -> dict[str, Any]:
        suffix = _suffix(dataset["path"] or "")
        told = {key: dataset[key] for key in ("dataset_key", "role", "filename", "rel_path", "path", "used")}
        fingerprint = f"sha256:{dataset['sha256']}" if dataset["sha256"] else None
        return {**told, "fingerprint": fingerprint, **self._shape(dataset["sha256"], "dataset", suffix)}

    def _step(self, step: Mapping[str, Any]) -> dict[str, Any]:
        id_ = step["step_id"]
        status = self._status(step)
        found: dict[str, Any] = {"step_id": id_, "action": step["action"], "status": status}
        bindings, duration = self.seen.bindings.get(id_, {}), self.seen.durations.get(id_)
        if status == "up_to_date":
            kept = step["kept"]
            found["from_run"], bindings, duration = kept["run"], kept["bindings"], kept["duration"]
        elif status == "reused":
            found["from_run"], duration = self.seen.reused[id_][0], self._told_of(id_, step).get("duration")
        found |= {"attempt": self.seen.attempts.get(id_), "duration": duration}
        found["bindings"] = self._bindings(id_, bindings)
        found["parameters"] = self._parameters(id_, bindings)
        found["products"] = [self._product(step, product, status) for product in step["products"]]
        failure = self.seen.outcome.failures.get(id_)
        if failure is not None and status in ("failed", "timed_out", "interrupted"):
            found["error"] = f"{failure.error_type}: {failure.error}"
        if status == "blocked":
            found["because"] = self.seen.because[id_]
        if status == "inactive":
            found["because"] = inactive_because(step, self.seen)
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

    def _told_of(self, id_: str, step: Mapping[str, Any]) -> Mapping[str, Any]:
        """A step whose result is an earlier one, as the summary has it of the run that made this result."""
        run, name = self.seen.reused[id_] if id_ in self.seen.reused else (step["kept"]["run"], id_)
        # Where it had another name then, the summary before this one has it under its own.
        for summary, wanted in ((self.beside.told(run) or {}, name), (self.previous, id_)):
            for told in summary.get("steps", ()):
                made_there = summary["run"] == run and told["status"] == "completed"
                if told["step_id"] == wanted and (made_there or told.get("from_run") == run):
                    own = [each for each in summary["decisions"] if each["step_id"] == wanted]
                    return {**told, "decisions": [each for each in own if each["kind"] != "condition"]}
        return {}  # a file of the user's own, for one

    def _given(self, bindings: Mapping[str, Any]) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
        return given_sources(bindings, self.section, self.beside)

    def _bindings(self, step: str, bindings: Mapping[str, Any]) -> list[dict[str, Any]]:
        found = []
        for slot, name, source in self._given(bindings):
            if name.startswith(".") or _is_parameter(step, source["id"]):
                continue
            suffix = str(source.get("as", ""))[1:]
            entry = {"name": slot, "id": source["id"], "sha256": source["sha256"]}
            if "value" in source:
                entry["value"] = source["value"]
            found.append({**entry, **self._shape(source["sha256"], "dataset" if suffix else "", suffix)})
        return found

    def _parameters(self, step: str, bindings: Mapping[str, Any]) -> dict[str, Any]:
        """By name: the value, where it is small enough to stand in the log, else its hash."""
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

    def _decisions(self, step: Mapping[str, Any], planned: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Only of the actions that come with Whyrun: those of a user may put anything into their details."""
        id_, kind = step["step_id"], _DECIDING.get(step["action"])
        if step["status"] in ("up_to_date", "reused"):
            kept = self._told_of(id_, planned).get("decisions", ())
            return [{**decision, "step_id": id_, "from_run": step["from_run"]} for decision in kept]
        found = []
        for status, details in self.seen.tasks.get(id_, ()):
            if kind is not None and details.get("decision") == kind:
                told = {name: value for name, value in details.items() if name not in ("decision", "read", "wrote")}
                found.append({"kind": kind, "step_id": id_, **told, "refused": status == "FAILED"})
        return found


def given_sources(
    bindings: Mapping[str, Any], section: Mapping[str, Any], beside: Beside
) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
    """(slot, name of the binding, source): `secondary_dataset[1]` is the slot of a list's second member."""
    for name, recorded in bindings.items():
        members = _members_of(recorded, section, beside)
        for number, source in enumerate(members):
            listed = len(members) > 1 or "listed" in source
            yield f"{name}[{number}]" if listed else name, name, source


def _members_of(recorded: Any, section: Mapping[str, Any], beside: Beside) -> list[Mapping[str, Any]]:
    """What one binding consists of; of a list of datasets that is bound as a whole, each of them."""
    found: list[Mapping[str, Any]] = []
    for source in beside.members(recorded) if isinstance(recorded, dict) else recorded:
        if source.get("as", "v").startswith("a"):  # an array, be it of texts
            for dataset in section["datasets"]:
                id_, form = f"Input:{dataset['dataset_key']}", f"f{_suffix(dataset['path'])}"
                if id_.startswith(f"{source['id']}["):
                    found.append({"id": id_, "sha256": dataset["sha256"], "as": form, "listed": True})
        elif "sha256" in source:
            found.append(source)
    return found


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


def _suffix(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    return name[name.rindex(".") :] if "." in name[1:] else ""
