"""The fold of a log and a look at the world, joined over a graph: what is looked at, and what is not there any more."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from asking_lab import expanded

from whyrun.errors import StateError, error
from whyrun.graph.fingerprint import SECTION_SUFFIX
from whyrun.graph.tables import Graph
from whyrun.snapshot.build import build_planning_snapshot
from whyrun.snapshot.records import Attempt, InputRecord, Output, Records, StepRecord
from whyrun.snapshot.snapshot import ActionFacts, BlobCheck, PlanningSnapshot
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import Type

WORKFLOW = """\
workflow: w
inputs: {Topic: {type: string}}
loops: {n: {values: [a, b, c]}}
jobs:
  A:
    for: [n]
    uses: shell
    with: {run: x, n: "${{ n }}"}
    outputs:
      Blob: {type: file}
      Doc: {type: json, leaves: {Sub: json, Title: string}}
      File: {type: text, path: "a/${{ n }}.txt"}
      Num: {type: integer}
      Part: {type: json, path: all.json, append: true}
      Pub: {type: json, path: "pub/${{ n }}.json", leaves: {Title: string}}
  B: {uses: shell, with: {run: x, blobs: "${{ jobs.A.outputs.Blob[:] }}"}, outputs: {Out: {type: text}}}
  C: {uses: shell, with: {run: x}, outputs: {Out: {type: text, path: c.txt}}}
"""
INPUTS = {"Input:Topic": InputValue(Type("string", 0), "cats", "7" * 64, None, None)}
Records_ = dict[str, StepRecord]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def outputs_of_a(n: str) -> list[Output]:
    return [
        Output(f"Artifact:A.Blob[{n}]", sha(f"Blob {n}"), 1, "file"),
        Output(f"Artifact:A.Doc[{n}]", sha(f"Doc {n}"), 2, "json"),
        Output(f"Artifact:A.Doc[{n}].Sub", sha(f"Sub {n}"), 3, "json", None, ({},)),
        Output(f"Artifact:A.Doc[{n}].Title", sha(f"Title {n}"), 3, "string", None, ("t",)),
        Output(f"Artifact:A.File[{n}]", sha(f"File {n}"), 4, "text", f"a/{n}.txt", (), ".txt"),
        Output(f"Artifact:A.Num[{n}]", sha(f"Num {n}"), 5, "integer", None, (7,)),
        Output(f"Artifact:A.Part[{n}]", sha(f"Part {n}"), 6, "json", f"all.json § A[{n}]", (), SECTION_SUFFIX),
        Output(f"Artifact:A.Pub[{n}]", sha(f"Pub {n}"), 7, "json", f"pub/{n}.json"),
        Output(f"Artifact:A.Pub[{n}].Title", sha(f"Of {n}"), 3, "string", None, ("t",)),
    ]


def good(run: int, seq: int, *outputs: Output, fingerprint: str = "f") -> Attempt:
    return Attempt(run, seq, 1, sha(fingerprint), True, outputs, 1.0)


def whole_log() -> Records_:
    steps = {f"Job:A[{n}]": StepRecord(good(1, seq, *outputs_of_a(n))) for seq, n in enumerate("abc", 2)}
    steps["Job:B"] = StepRecord(good(1, 5, Output("Artifact:B.Out", sha("B"), 8, "text", None, (), ".txt")))
    steps["Job:C"] = StepRecord(good(1, 6, Output("Artifact:C.Out", sha("C"), 9, "text", "c.txt", (), ".txt")))
    return steps


class Log:
    """Hands out what it is asked for, and remembers what that was."""

    def __init__(self, steps: Records_, inputs: Mapping[str, InputRecord] | None = None) -> None:
        self.records = Records(dict(steps), dict(inputs or {}), 1, 1, 99)
        self.asked: list[tuple[int, int]] = []
        self.looked_through = False
        self.refusal: StateError | None = None

    def consumed(self, attempts: Iterable[Attempt]) -> dict[tuple[int, int], Any]:
        self.asked = [(attempt.run, attempt.seq) for attempt in attempts]
        return {key: {"run": [{"id": "Input:Topic", "sha256": "0"}]} for key in self.asked}

    def check_ids(self) -> None:
        self.looked_through = True
        if self.refusal is not None:
            raise self.refusal


class Project:
    """Some files are changed and some blobs are lost; and what it was asked about."""

    counts_packages = False

    def __init__(self, changed: Mapping[str, str] | None = None, lost: Sequence[str] = ()) -> None:
        self.changed, self.lost = changed or {}, lost
        self.files: dict[str, str | None] = {}
        self.sections: dict[str, str | None] | None = None
        self.checks: list[list[BlobCheck]] = []

    def changed_files(self, paths: Sequence[str], sha256s: Sequence[str | None]) -> dict[str, str]:
        self.files = dict(zip(paths, sha256s, strict=True))
        return {path: how for path, how in self.changed.items() if path in self.files}

    def changed_sections(self, sites: Sequence[str], sha256s: Sequence[str | None]) -> dict[str, str]:
        self.sections = dict(zip(sites, sha256s, strict=True))
        return {site: how for site, how in self.changed.items() if site in self.sections}

    def lost_blobs(self, checks: Sequence[BlobCheck]) -> list[str]:
        self.checks.append(list(checks))
        return [check.key for check in checks if check.key in self.lost]


def facts(*deterministic: str) -> dict[str, ActionFacts]:
    return {name: ActionFacts("shell", "5" * 64, name in deterministic) for name in "ABC"}


def built(
    steps: Records_,
    opened: Project | None = None,
    *,
    deterministic: Sequence[str] = (),
    ask: Callable[[PlanningSnapshot], Mapping[str, str]] | None = None,
    graph: Graph | None = None,
    log: Log | None = None,
) -> PlanningSnapshot:
    graph = graph or expanded(WORKFLOW, INPUTS)
    return build_planning_snapshot(graph, log or Log(steps), opened or Project(), facts(*deterministic), None, ask)


def available(snapshot: PlanningSnapshot) -> dict[str, str]:
    """Output → for which rows it is there."""
    found: dict[str, str] = {}
    for table in snapshot.dependency_graph.tables:
        for spec, column in zip(table.artifacts, snapshot.shas[table.number], strict=True):
            name = f"{table.name}.{spec.output}{spec.leaf}"
            rows = [text.strip("[]") or "+" for text, found_ in zip(table.texts, column, strict=True) if found_]
            found[name] = "".join(rows)
    return found


ALL = {
    "A.Blob": "abc", "A.Doc": "abc", "A.Doc.Sub": "abc", "A.Doc.Title": "abc", "A.File": "abc", "A.Num": "abc",
    "A.Part": "abc", "A.Pub": "abc", "A.Pub.Title": "abc", "B.Out": "+", "C.Out": "+",
}  # fmt: skip


# --- what is looked at -------------------------------------------------------------------------------------------


def test_all_that_is_recorded_is_looked_for_where_it_should_be() -> None:
    opened = Project()
    snapshot = built(whole_log(), opened)
    files = {f"a/{n}.txt": sha(f"File {n}") for n in "abc"} | {f"pub/{n}.json": sha(f"Pub {n}") for n in "abc"}
    assert opened.files == {**files, "c.txt": sha("C")}
    assert opened.sections == {f"all.json § A[{n}]": sha(f"Part {n}") for n in "abc"}
    blobs = [("Blob", 1, "file"), ("Doc", 2, "json")]
    stored = [BlobCheck(sha(f"{o} {n}"), size, type_, None, sha(f"{o} {n}")) for o, size, type_ in blobs for n in "abc"]
    assert opened.checks[0] == [*stored, BlobCheck(sha("B"), 8, "text", None, sha("B"))]
    assert available(snapshot) == ALL
    assert (snapshot.files, snapshot.lost) == ({}, frozenset())


def test_what_is_not_recorded_is_not_looked_for() -> None:
    steps = whole_log()
    del steps["Job:A[b]"], steps["Job:B"], steps["Job:C"]
    opened = Project()
    snapshot = built(steps, opened)
    files = {f"a/{n}.txt": sha(f"File {n}") for n in "ac"} | {f"pub/{n}.json": sha(f"Pub {n}") for n in "ac"}
    assert opened.files == files
    assert opened.sections == {f"all.json § A[{n}]": sha(f"Part {n}") for n in "ac"}
    assert [check.sha256 for check in opened.checks[0]] == [sha(f"{o} {n}") for o in ("Blob", "Doc") for n in "ac"]
    assert available(snapshot) == {**dict.fromkeys(ALL, "ac"), "B.Out": "", "C.Out": ""}
    nothing = Project()
    assert available(built({}, nothing)) == dict.fromkeys(ALL, "")
    assert (nothing.files, nothing.sections, nothing.checks) == ({}, None, [[], []])


# --- what is not there any more ----------------------------------------------------------------------------------


def test_what_was_deleted_or_changed_is_not_available() -> None:
    changed = {"a/b.txt": "deleted", "all.json § A[c]": "changed", "c.txt": "changed"}
    snapshot = built(whole_log(), Project(changed))
    assert snapshot.files == changed
    assert available(snapshot) == {**ALL, "A.File": "ac", "A.Part": "ab", "C.Out": ""}


def test_stored_bytes_that_are_lost_are_not_available() -> None:
    lost = [sha("Blob a"), sha("Doc c"), sha("B")]
    snapshot = built(whole_log(), Project(lost=lost))
    assert snapshot.lost == frozenset(lost)
    assert available(snapshot) == {**ALL, "A.Blob": "bc", "A.Doc": "ab", "B.Out": ""}


def test_lost_bytes_are_no_loss_to_values_leaves_and_published_files_with_the_same_content() -> None:
    steps = whole_log()
    same = sha("Blob a")
    for number, output in enumerate(outputs_of_a("a")):
        if output.id.startswith(("Artifact:A.Num", "Artifact:A.File")) or output.id.endswith(".Title"):
            outputs = list(steps["Job:A[a]"].latest.outputs)
            outputs[number] = Output(output.id, same, 1, output.type, output.path, output.held, output.suffix)
            steps["Job:A[a]"].latest.outputs = tuple(outputs)
    snapshot = built(steps, Project(lost=[same]))
    assert available(snapshot) == {**ALL, "A.Blob": "bc"}


def test_what_actions_say_is_told_like_what_was_seen() -> None:
    seen: list[dict[str, str]] = []

    def ask(snapshot: PlanningSnapshot) -> dict[str, str]:
        seen.append(available(snapshot))
        return {"a/a.txt": "disowned"}

    lost = [sha("Blob a")]
    snapshot = built(whole_log(), Project({"a/b.txt": "deleted"}, lost), ask=ask)
    assert seen == [{**ALL, "A.File": "ac", "A.Blob": "bc"}]
    assert snapshot.files == {"a/b.txt": "deleted", "a/a.txt": "disowned"}
    assert available(snapshot) == {**ALL, "A.File": "c", "A.Blob": "bc"}
    quiet = built(whole_log(), Project({"a/b.txt": "deleted"}), ask=lambda snapshot: {})
    assert quiet.files == {"a/b.txt": "deleted"}


# --- what may be reused ------------------------------------------------------------------------------------------


def test_of_suspects_and_what_follows_the_consumed_inputs_are_read() -> None:
    steps = whole_log()
    before = good(1, 20, fingerprint="before")
    failed = Attempt(2, 30, 1, sha("g"), False, (), 0.0, "FAILED", "ValueError", "no")
    steps["Job:A[b]"] = StepRecord(failed, before, [before, failed])
    never = Attempt(2, 31, 1, sha("g"), False, (), 0.0, "FAILED", "ValueError", "no")
    steps["Job:C"] = StepRecord(never)
    log = Log(steps)
    snapshot = built(steps, log=log)
    assert log.asked == [(1, 2), (1, 20), (1, 4), (1, 5)]
    assert list(snapshot.consumed) == log.asked
    assert list(snapshot.suspects) == list(range(5))


def test_stored_bytes_of_all_earlier_results_are_looked_for_once() -> None:
    steps = {"Job:A[a]": whole_log()["Job:A[a]"]}
    old = good(1, 7, Output("Artifact:A.Blob[a]", sha("old"), 3, "file"), fingerprint="old")
    unpublished = Attempt(
        1, 8, 1, sha("g"), False, (Output("Artifact:A.File[a]", sha("g"), 4, "text", "a/a.txt"),), 0.0, "FAILED",
        "NotPublished", "no",
    )  # fmt: skip
    broken = Attempt(1, 9, 1, sha("h"), False, (Output("Artifact:A.Blob[a]", sha("h"), 4, "file"),), 0.0, "FAILED", "E")
    latest = steps["Job:A[a]"].latest
    steps["Job:A[a]"] = StepRecord(latest, None, [old, unpublished, broken, latest])
    opened = Project(lost=[sha("Blob a"), sha("old"), f"{sha('File a')} a/a.txt"])
    snapshot = built(steps, opened)
    assert [(check.key, check.size, check.type, check.path) for check in opened.checks[1]] == [
        (sha("old"), 3, "file", None),
        (f"{sha('g')} a/a.txt", 4, "text", "a/a.txt"),
        (sha("Doc a"), 2, "json", None),
        (f"{sha('File a')} a/a.txt", 4, "text", "a/a.txt"),
        (f"{sha('Part a')} all.json § A[a]", 6, "json", "all.json § A[a]"),
        (f"{sha('Pub a')} pub/a.json", 7, "json", "pub/a.json"),
    ]
    contents = ("old", "g", "Doc a", "File a", "Part a", "Pub a")
    assert [check.sha256 for check in opened.checks[1]] == [sha(text) for text in contents]
    assert snapshot.lost == frozenset(opened.lost)


def test_stored_bytes_that_an_adoption_took_the_place_of_are_looked_for_too() -> None:
    """Other steps may take them."""
    made = good(1, 7, Output("Artifact:A.Blob[a]", sha("made"), 3, "file"))
    mine = Attempt(2, 2, 0, sha("f"), True, (Output("Artifact:A.Blob[a]", sha("mine"), 4, "file"),), origin="adopted")
    opened = Project(lost=[sha("made")])
    snapshot = built({"Job:A[a]": StepRecord(mine, unadopted=[made])}, opened)
    assert [(check.key, check.size) for check in opened.checks[1]] == [(sha("mine"), 4), (sha("made"), 3)]
    assert snapshot.lost == {sha("made")}


def test_where_an_action_is_deterministic_every_step_may_lend_its_result() -> None:
    steps = {"Job:Gone": StepRecord(good(1, 2, Output("Artifact:Gone.X", sha("gone"), 1, "file")))}
    for deterministic, keys in (((), []), (("B",), [sha("gone")])):
        opened = Project()
        built(steps, opened, deterministic=deterministic)
        assert [check.key for check in opened.checks[1]] == keys


# --- IDs that the graph does not have ----------------------------------------------------------------------------


def refusal(log: Log) -> tuple[str, str]:
    with pytest.raises(StateError) as stopped:
        built({}, log=log)
    (problem,) = stopped.value.diagnostics
    return problem.code, problem.message


WRONG_OUTPUT = StepRecord(good(1, 2, Output("Page.Text", sha("x"), 1, "text")))


@pytest.mark.parametrize(
    ("steps", "inputs", "named"),
    [
        ({"Gone": StepRecord(good(1, 2))}, {}, "Gone"),
        ({**whole_log(), "Gone": StepRecord(good(1, 2))}, {}, "Gone"),
        ({}, {"Gone": InputRecord("x")}, "Gone"),
        ({}, {"Input:Topic": InputRecord("x"), "Input:a b": InputRecord("x")}, "Input:a b"),
        ({"Job:A[a]": WRONG_OUTPUT}, {}, "Page.Text"),
        ({**whole_log(), "Job:A[c]": WRONG_OUTPUT}, {}, "Page.Text"),
    ],
    ids=["step", "a step more", "input", "an input more", "output", "an output more"],
)
def test_an_id_that_does_not_parse_is_told(steps: Records_, inputs: dict[str, InputRecord], named: str) -> None:
    log = Log(steps, inputs)
    code, message = refusal(log)
    assert (code, message.startswith(f"the log names `{named}`: "), log.looked_through) == ("LOG_DAMAGED", True, True)
    log.refusal = error("LOG_DAMAGED", "it stands in line 3")  # type: ignore[assignment]
    assert refusal(log) == ("LOG_DAMAGED", "it stands in line 3")


def test_of_several_the_first_of_the_graph_is_told() -> None:
    graph = expanded(
        "workflow: w\nloops: {n: {count: 9}}\njobs:\n"
        "  A: {for: [n], uses: shell, with: {run: x}, outputs: {Out: {type: text}}}\n"
    )
    steps: Records_ = {}
    for n in range(9):
        named = f"Wrong{n}" if n in (1, 8) else f"Artifact:A.Out[{n}]"
        steps[f"Job:A[{n}]"] = StepRecord(good(1, n + 2, Output(named, sha(f"{n}"), 1, "text", None, (), ".txt")))
    with pytest.raises(StateError, match="the log names `Wrong1`"):
        built(steps, graph=graph)


def test_what_is_gone_from_the_graph_may_stand_in_the_log() -> None:
    steps = {**whole_log(), "Job:Gone[7]": StepRecord(good(1, 2, Output("Artifact:Gone.X[7]", sha("x"), 1, "file")))}
    log = Log(steps, {"Input:Topic": InputRecord("x"), "Input:Photos[3]": InputRecord("x")})
    other = StepRecord(good(1, 2, Output("Artifact:A.Other[a]", sha("x"), 1, "file")))
    assert available(built({}, log=log)) == ALL
    assert available(built({**whole_log(), "Job:A[a]": other}))["A.Blob"] == "bc"
    assert not log.looked_through
