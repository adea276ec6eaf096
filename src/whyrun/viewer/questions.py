"""Views 6 to 9: what would run if, what differs between runs, datasets, parameters across runs, and the search."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from whyrun.viewer.contents import NamedContents, artifacts_of, content, known_content, preview_of
from whyrun.viewer.current import OUTCOME_OF, STATE_OF, CurrentState, Params, State, reopened
from whyrun.viewer.runs import state_letters

if TYPE_CHECKING:
    from whyrun.facts.plans import Planned
    from whyrun.log.runs import RunRef
    from whyrun.project import Project

JOBS = 2000  # of an assumed plan
REMEMBERED = 16  # answers to what-if questions
CONTENTS = 500  # artifacts of a comparison
COMPARED_CONTENTS = 100  # of which the stored bytes are compared
COMPARED_RUNS = 50
VALUES = 30  # columns of results
HITS = 50


# --- what if ---------------------------------------------------------------------------------------------------------


class WhatIf:
    """Plans for other inputs and options: one at a time, and only the newest question is answered."""

    def __init__(self) -> None:
        self._newest = 0
        self._count = threading.Lock()
        self._busy = threading.Lock()
        self._known: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()

    def answer(self, state: CurrentState, params: Params) -> dict[str, Any]:
        from whyrun.errors import error

        key = (state.version, params.query())
        with self._count:
            self._newest += 1
            own = self._newest
        with self._busy:
            if key not in self._known:
                if own != self._newest:
                    raise error("USAGE", "a newer question has come", hint="ask again")
                self._known[key] = _what_if(state, params)
                while len(self._known) > REMEMBERED:
                    self._known.popitem(last=False)
            return self._known[key]


def _what_if(state: CurrentState, params: Params) -> dict[str, Any]:
    from whyrun.facts.plans import planned
    from whyrun.planning.answers.explain import explain_json
    from whyrun.planning.answers.listing import Listing
    from whyrun.planning.plan import PlanOptions

    assume, force, targets = (params.many(name) for name in ("assume", "force", "target"))
    up = params.number("up", 0) or None
    project = reopened(state.project)  # a state of its own: other views go on meanwhile
    for text in assume:
        _refuse_path(project, text)
    found = planned(project, PlanOptions(up, targets, force), assume=assume, tell=lambda note: None)
    more = max(0, len(found.plan.jobs) - JOBS)
    answer = explain_json(found.plan, Listing(limit=JOBS) if more else None)
    if found.assumptions:
        answer["assuming"] = [str(one) for one in found.assumptions]
    words = ["explain"]
    for name, texts in (("--assume", assume), ("--force", force), ("--target", targets)):
        for text in texts:
            words += [name, text]
    words += ["--up", str(up)] if up else []
    now = state_letters(state.found.plan, state.graph)
    then = state_letters(found.plan, found.snapshot.dependency_graph)
    return {
        "command": state.command(*words),
        "answer": answer,
        "more": more,
        "totals": dict(found.plan.totals),
        "estimate": found.estimate() if found.plan.totals["planned"] else None,
        "now": {"totals": dict(state.found.plan.totals), "estimate": _estimate(state.found)},
        "assuming": [str(one) for one in found.assumptions],
        "states": {job: letters for job, letters in then.items() if now.get(job) != letters},
        "gone": [job for job in now if job not in then],
        "same_as_now": now == then,
    }


def _estimate(found: Planned) -> float | None:
    return found.estimate() if found.plan.totals["planned"] else None


def _refuse_path(project: Project, text: str) -> None:
    """Files only as changed: a path would tell the page whether a file exists, and what is in it."""
    from whyrun.errors import error
    from whyrun.graph.inputs import lookup
    from whyrun.planning.answers.whatif import CHANGED
    from whyrun.workflow.inputs import IndexProblem

    id_, _, value = text.partition("=")
    if value == CHANGED:
        return
    try:
        is_path = lookup(project.inputs, id_).type.is_path
    except (IndexProblem, KeyError):
        return  # an unknown input: the plan says so
    if is_path:
        raise error("USAGE", f"`{id_}` is a file: the page can only assume that it changed",
                    hint=f"`whyrun explain --assume {id_}=PATH` takes a path in the project")  # fmt: skip


# --- two runs --------------------------------------------------------------------------------------------------------


def diff_view(state: CurrentState, params: Params) -> dict[str, Any]:
    """`diff --json` of two runs, with the durations of their steps and the contents that differ."""
    from whyrun.evidence.queries.history import summarize_run
    from whyrun.facts.history import content_differences, difference

    names = [params.one("old"), params.one("new")]
    runs = [state.project.state.run(name) for name in names]
    diff = difference(state.project, *names)
    answer, words = diff.to_json(), ["diff", *names]
    if len(diff.artifacts) <= COMPARED_CONTENTS:
        compared = content_differences(state.project, diff)
        answer, words = (
            {**answer, "contents": {id_: one.to_json() for id_, one in compared.items()}},
            [*words, "--content"],
        )
    durations = [_durations(run) for run in runs]
    both = [
        {"id": id_, "old": durations[0].get(id_), "new": durations[1].get(id_)}
        for id_ in sorted(durations[0].keys() | durations[1].keys())
    ]
    return {
        "command": state.command(*words),
        "answer": answer,
        "runs": [summarize_run(run, False).to_json() for run in runs],
        "durations": both[:JOBS],
        "contents": [
            {"id": one.id, "old": _side(state, one.id, one.old), "new": _side(state, one.id, one.new)}
            for one in [*diff.artifacts, *diff.inputs][:CONTENTS]
        ],
    }


def _durations(run: RunRef) -> dict[str, float]:
    from whyrun.log import events as ev

    return {e.step_id: e.duration for e in run.events() if isinstance(e, ev.StepComplete | ev.StepFailed)}


def _side(state: CurrentState, id_: str, side: dict[str, Any] | None) -> dict[str, Any] | None:
    from whyrun.viewer.why import type_of

    if side is None or "sha256" not in side:
        return side
    if "value" in side:
        return {"kind": "value", **side}
    return content(state, side["sha256"], *type_of(state, id_))


def content_view(state: CurrentState, params: Params, named: NamedContents) -> dict[str, Any]:
    """Two stored versions of one artifact, compared as `whyrun compare` does."""
    from whyrun.artifacts.compare.files import compare_files
    from whyrun.artifacts.compare.result import CompareSettings
    from whyrun.viewer.why import diff_of

    sides = [known_content(state, params.one(name), named) for name in ("old", "new")]
    store = state.project.store
    body: dict[str, Any] = {"command": None, "id": params.maybe("id")}
    body |= {name: preview_of(state, side) for name, side in zip(("old", "new"), sides, strict=True)}
    if all(store.has(side.sha256) for side in sides) and sides[1].type != "directory":
        old, new = (Path(store.path(side.sha256)) for side in sides)
        body |= compare_files(old, new, sides[1].type, sides[1].suffix, CompareSettings()).to_json()
        body |= diff_of(state, body["old"], body["new"])
    return body


# --- where results come from -----------------------------------------------------------------------------------------


def lineage_view(state: CurrentState, params: Params) -> dict[str, Any]:
    """`lineage --json` of an artifact or a job, with what a page needs to show each version."""
    from whyrun.facts.lineage import lineage
    from whyrun.viewer.why import type_of

    id_ = params.one("id")
    facts = lineage(state.project, id_, state.at)
    contents: dict[str, Any] = {}
    for hop in facts["hops"][:CONTENTS]:
        for one in (hop, *hop["reads"]):
            if one.get("sha256") and one["id"] and "value" not in one and one["sha256"] not in contents:
                contents[one["sha256"]] = content(state, one["sha256"], *type_of(state, one["id"]))
    words = ["lineage", id_, *(["--at", state.at] if state.at else [])]
    answer = {"workflow": state.project.workflow.name, **facts}
    return {"command": state.command(*words), "id": id_, "answer": answer, "contents": contents}


def results_view(state: CurrentState, params: Params) -> dict[str, Any]:
    """`table --json` of patterns; without one, the patterns that there are."""
    from whyrun.facts.table import possible_patterns, table_of

    patterns = params.many("pattern")
    known = possible_patterns(state.graph)
    of_state = partial(artifacts_of, state)
    table = table_of(state.project, state.graph, of_state, patterns) if patterns else {"patterns": known}
    answer = {"workflow": state.project.workflow.name, **table}
    return {"command": state.command_now("table", *patterns), "patterns": known, "answer": answer}


# --- datasets, parameters --------------------------------------------------------------------------------------------


def datasets_view(state: State, params: Params) -> dict[str, Any]:
    """How the datasets of a run were composed."""
    from whyrun.evidence.composition.run_folder import composes
    from whyrun.facts.show import composition_facts

    at = getattr(state, "at", None)
    through = int(at[1:]) if at else None
    kept = [run for run in state.project.state.runs() if through is None or run.number <= through]
    runs = [run.name for run in kept if (run.path / "manifest.yaml").is_file() and composes(run.path)]
    name = params.maybe("run") or (runs[-1] if runs else None)
    answer = None
    if name is not None and (params.maybe("run") is not None or not _is_running(state, name)):
        answer = composition_facts(state.project, name)
    command = state.command("show", "--composition", name) if name and isinstance(state, CurrentState) else None
    return {"command": command, "run": name, "runs": runs, "answer": answer}


def _is_running(state: State, name: str) -> bool:
    from whyrun.evidence.queries.history import run_end
    from whyrun.log.lock import running_run

    # A run holds its lock for a moment longer than its log goes.
    return running_run(state.project.state) == name and run_end(state.project.state.run(name)) is None


def parameters_view(state: State, params: Params) -> dict[str, Any]:
    """The values of inputs, and the numbers that came of them, by run."""
    from whyrun.evidence.queries.history import summarize_run
    from whyrun.log import events as ev

    inputs: dict[str, Any] = {}
    results: dict[str, Any] = {}
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = []
    at = getattr(state, "at", None)

    def values_of(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.InputRecorded):
            inputs[event.id] = event.value if event.sha256 and _is_scalar(event.value) else None
        elif isinstance(event, ev.ArtifactAvailable) and _is_scalar(event.value) and "[" not in event.artifact:
            results[event.artifact] = event.value

    for run in state.project.state.runs():
        if at is not None and run.number > int(at[1:]):
            break
        summary = summarize_run(run, False, values_of).to_json()
        values = {f"input {id_}": value for id_, value in inputs.items() if value is not None}
        values |= {f"metric {name}": summary[name] for name in ("duration", "completed", "reused", "failed")}
        values |= {f"result {id_}": value for id_, value in list(results.items())[:VALUES]}
        rows.append((summary, values))
    rows = rows[-COMPARED_RUNS:]
    names = list(dict.fromkeys(name for _, values in rows for name in values))
    names.sort(key=lambda name: ("input", "metric", "result").index(name.partition(" ")[0]))
    return {
        "command": None,
        "columns": [{"kind": name.partition(" ")[0], "name": name.partition(" ")[2]} for name in names],
        "rows": [
            {"run": run["run"], "state": run["state"], "values": [values.get(name) for name in names]}
            for run, values in rows
        ],
    }


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float | bool) and len(str(value)) <= 200


# --- search ----------------------------------------------------------------------------------------------------------


def search_view(state: CurrentState, params: Params) -> dict[str, Any]:
    text = params.one("q").strip().lower()
    hits: list[dict[str, Any]] = []
    more = 0
    for hit in _hits(state, text) if text else ():
        if len(hits) < HITS:
            hits.append(hit)
        else:
            more += 1
    return {"command": None, "q": params.one("q"), "hits": hits, "more": more}


def _hits(state: CurrentState, text: str) -> Iterator[dict[str, Any]]:
    def hit(kind: str, id_: str, about: str, href: str) -> dict[str, Any]:
        return {"kind": kind, "id": id_, "text": about, "href": f"#/{href}/{quote(id_, safe='')}"}

    for run in reversed(state.project.state.runs()):
        if text in run.name and (state.at is None or run.number <= int(state.at[1:])):
            yield hit("run", run.name, "run", "run")
    for table in state.graph.tables:
        for position, job in enumerate(table.job_ids()):
            if text in job.lower():
                node = table.base + position
                about = f"{STATE_OF[state.states[node]]} · {OUTCOME_OF[state.outcomes[node]]} · {table.decl.uses}"
                yield hit("job", job, about, "why")
    for id_, value in state.graph.inputs.items():
        if text in id_.lower() or (value.path is not None and text in value.path.lower()):
            yield hit("input", id_, str(value.type), "why")
    for table in state.graph.tables:
        for a, spec in enumerate(table.artifacts):
            for id_ in table.artifact_ids(a):
                if text in id_.lower():
                    yield hit("artifact", id_, spec.type, "artifact")
    for node, letter in enumerate(state.outcomes):
        if letter == "f":
            record = state.record(node)
            if record is not None and text in f"{record.latest.error_type}: {record.latest.error}".lower():
                error = f"{record.latest.error_type}: {record.latest.error}"
                yield hit("error", state.graph.job_id(node), error[:200], "why")
