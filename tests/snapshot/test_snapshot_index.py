"""Records from the index are those that were put into it, and joined to a graph they say the same, column by column."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from project_lab import PATIENCE, Lab
from whyrun.graph.expand import expand
from whyrun.graph.tables import Graph
from whyrun.log.runs import STAT_CACHE
from whyrun.planning.plan import compute_execution_plan
from whyrun.snapshot.build import foreign_steps, join_tables
from whyrun.snapshot.history.reader import History
from whyrun.snapshot.index import MANY, IndexedSteps, JobBlock, Shape, into_blocks
from whyrun.snapshot.records import Attempt, Output, StepRecord
from whyrun.workflow.parsing.parse import parse_workflow

WORKFLOW = """\
workflow: indexed
loops: {word: {values: [asia, "7", "a]b"]}, number: {count: 12}}
jobs:
  Plain: {for: [number], uses: shell, with: {run: "true"}, outputs: {Out: {type: file, path: "out/${{ number }}.txt"}}}
  Words: {for: [word, number], uses: shell, with: {run: "true"}, outputs: {A: {type: file}, B: {type: json}}}
  Alone: {uses: shell, with: {run: "true"}, outputs: {Out: {type: text}}}
"""


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(scope="module")
def graph() -> Graph:
    return expand(parse_workflow("workflow.yaml", lambda _: WORKFLOW), {})


def outputs_of(graph: Graph, step: str) -> list[Output]:
    table, position = graph.table_at(graph.node_of[step])
    return [
        Output(table.artifact_id(a, position), sha(f"{step} {a}"), len(step), spec.type, None, (), suffix)
        for a, spec in enumerate(table.artifacts)
        for suffix in [table.output_of(a).suffix if spec.type in ("file", "json") else ""]
    ]


def record_of(graph: Graph, step: str, kind: str) -> StepRecord:
    """Something that a log can say of a step."""
    outputs = outputs_of(graph, step) if step in graph.node_of else []
    good = Attempt(1, 2, 1, sha(step), True, tuple(outputs), 0.5)
    match kind:
        case "failed":
            bad = Attempt(2, 3, 1, sha(step), False, (), 0.1, "FAILED", "ValueError", "no")
            return StepRecord(bad, success=good, settled=[bad])
        case "incomplete":
            return StepRecord(Attempt(1, 2, 1, sha(step), True, tuple(outputs[1:])))
        case "retyped":
            return StepRecord(
                Attempt(1, 2, 1, sha(step), True, tuple(Output(o.id, o.sha256, 1, "int") for o in outputs))
            )
        case "odd":
            return StepRecord(Attempt(1, 2, 1, "no fingerprint", True, tuple(outputs)))
        case "strange":
            return StepRecord(
                Attempt(1, 2, 1, sha(step).upper(), True, (Output("Artifact:Other.X", sha("x"), 1, "file"),))
            )
        case "upper":  # of the right length, but such a hash would not come back from bytes
            return StepRecord(Attempt(1, 2, 1, sha(step).upper(), True, tuple(outputs)))
        case "upper output":
            others = [Output(o.id, o.sha256.upper(), o.size, o.type, None, (), o.suffix) for o in outputs]
            return StepRecord(Attempt(1, 2, 1, sha(step), True, tuple(others)))
        case "reused":
            again = Attempt(3, 4, 0, sha(step), True, tuple(outputs), 0.5, origin="reused", made=1)
            return StepRecord(again, requests={sha(step): {"id": 7}})
        case "adopted":
            mine = Attempt(3, 4, 0, sha(step), True, tuple(outputs), origin="adopted")
            return StepRecord(mine, unadopted=[good])
    return StepRecord(good)


KINDS = ["good"] * 6 + ["failed", "incomplete", "retyped", "odd", "strange", "upper", "upper output", "reused"]
KINDS += ["adopted", "never"]


@st.composite
def logs(draw: st.DrawFn, steps: list[str]) -> dict[str, str]:
    """Step → what is recorded of it; nothing for most of a graph, or something for all of it, in any order."""
    usual = draw(st.sampled_from(KINDS))
    order = (
        draw(st.permutations([*steps, "Job:Gone", "Job:Gone[1]", "Job:Plain[99]", "Jab:Plain[1]", "Job:"]))
        if draw(st.booleans())
        else steps
    )
    chosen = dict.fromkeys(order, usual)
    chosen.update(draw(st.dictionaries(st.sampled_from(steps), st.sampled_from(KINDS), max_size=8)))
    return {step: kind for step, kind in chosen.items() if kind != "never"}


class _Kept(msgspec.Struct):
    blocks: list[JobBlock]
    others: dict[str, StepRecord]
    records: bytes


def through_the_file(steps: Mapping[str, StepRecord], *, lost: bool = False) -> IndexedSteps:
    blocks, beside, parts = into_blocks(steps)
    data = msgspec.msgpack.encode(_Kept(blocks, beside, b"".join(parts)))
    kept, log = (msgspec.msgpack.decode(data, type=_Kept) for _ in range(2))
    others = msgspec.msgpack.decode(msgspec.msgpack.encode(dict(steps)), type=dict[str, StepRecord])
    return IndexedSteps(kept.blocks, kept.others, lambda a, b: b"" if lost else log.records[a:b], lambda: others)


def columns(graph: Graph, steps: Mapping[str, StepRecord]) -> list[object]:
    return [
        (list(t.rows), t.present, list(t.fingerprints), [list(c) for c in t.shas], [list(c) for c in t.sizes])
        for t in join_tables(graph, steps)
    ]


def check_an_index(graph: Graph, kinds: Mapping[str, str], changed: list[str], *, lost: bool) -> None:
    """`kinds`: step → what is recorded of it; `changed`: steps that a later run folds on."""
    steps = {step: record_of(graph, step, kind) for step, kind in kinds.items()}
    assert columns(graph, through_the_file(steps)) == columns(graph, steps)
    found = through_the_file(steps, lost=lost)
    # One that is folded on, as a later run does: records are changed in place, and new ones come.
    for step in changed:
        for some in (steps, found):
            record = some.get(step)
            if record is None:
                some[step] = record_of(graph, step, "reused")
            else:
                record.latest = Attempt(9, 9, 2, sha(f"{step} again"), True, tuple(outputs_of(graph, step)))
    assert columns(graph, found) == columns(graph, steps)
    assert foreign_steps(graph, found) == foreign_steps(graph, steps) == sorted(set(steps) - set(graph.node_of))
    assert foreign_steps(graph, through_the_file(steps)) == foreign_steps(graph, steps)
    assert len(found) == len(steps) == len(list(found)) == len(list(through_the_file(steps)))
    assert all((step in found) == (step in steps) for step in [*graph.node_of, "Job:Gone", "Jab:Plain[1]", "x", ""])
    assert found.get("Job:None") is None
    assert dict(found.items()) == steps
    assert (set(found), found.keys() - steps.keys(), len(list(found.values()))) == (set(steps), set(), len(steps))
    assert dict(through_the_file(found).items()) == dict(through_the_file(steps, lost=lost).items()) == steps
    with pytest.raises(KeyError):
        found["Job:None"]
    with pytest.raises(TypeError):
        del found["Job:Alone"]


@given(data=st.data())
def test_an_index_says_what_was_put_into_it(graph: Graph, data: st.DataObject) -> None:
    kinds = data.draw(logs(list(graph.node_of)))
    lost = data.draw(st.booleans())
    changed = data.draw(st.lists(st.sampled_from(list(graph.node_of)), max_size=5, unique=True))
    check_an_index(graph, kinds, changed, lost=lost)


FOREIGN = ["Job:Gone", "Job:Gone[1]", "Job:Plain[99]", "Jab:Plain[1]", "Job:"]


@pytest.mark.parametrize("lost", [False, True], ids=["there", "lost"])
@pytest.mark.parametrize("usual", [*sorted(set(KINDS)), "each"])
def test_an_index_says_what_is_recorded_of_each_step(graph: Graph, usual: str, lost: bool) -> None:
    """The same for a log of each kind, and for one with all of them, in another order than that of the loops."""
    steps = [*reversed(list(graph.node_of)), *FOREIGN]
    kinds = {step: KINDS[i % len(KINDS)] if usual == "each" else usual for i, step in enumerate(steps)}
    kinds["Job:Plain[4]"], kinds["Job:Words[7][3]"] = "good", "never"
    recorded = {step: kind for step, kind in kinds.items() if kind != "never"}
    changed = ["Job:Words[7][3]", "Job:Plain[4]", "Job:Alone", "Job:Plain[11]"]
    check_an_index(graph, recorded, changed, lost=lost)


def test_most_records_of_a_log_are_never_read(graph: Graph) -> None:
    steps = {step: record_of(graph, step, "good") for step in reversed(list(graph.node_of))}
    blocks, others, parts = into_blocks(steps)
    data = b"".join(parts)
    assert (others, len(parts), bool(data)) == ({}, len(blocks), True)
    words = [f"[{word}][{i}]" for word in ('"7"', '"a]b"', "asia") for i in range(12)]
    assert [(block.job, block.texts) for block in blocks] == [
        ("Words", sorted(words)),
        ("Plain", [f"[{i}]" for i in range(12)]),
        ("Alone", [""]),
    ]
    asked: list[tuple[int, int]] = []

    def read(first: int, end: int) -> bytes:
        asked.append((first, end))
        return data[first:end]

    found = IndexedSteps(blocks, others, read, dict)
    columns_only = [(t.present, t.fingerprints, t.shas) for t in join_tables(graph, found)]
    assert [present for present, _, _ in columns_only] == [len(table) for table in graph.tables]
    assert (found.beside(), asked) == ({}, [])
    assert found.get("Job:Plain[3]") == steps["Job:Plain[3]"]
    assert found.beside() == {"Plain": {"[3]": steps["Job:Plain[3]"]}}
    (only,) = asked
    assert data[slice(*only)] == msgspec.msgpack.encode(steps["Job:Plain[3]"])


def test_a_step_that_is_not_there_has_the_default_that_is_asked_for(graph: Graph) -> None:
    found = through_the_file({step: record_of(graph, step, "good") for step in graph.node_of})
    default = record_of(graph, "Job:Alone", "failed")
    for step in ("Job:None", "Job:Plain[99]", "Job:Plain", "Jab:Plain[1]"):
        assert (found.get(step, default), found.get(step), step in found) == (default, None, False)
    assert [step in found for step in (7, None, "Job:Plain[1]")] == [False, False, True]


def test_who_asks_for_many_records_of_a_block_gets_it_read_at_once() -> None:
    before = {"Job:Before": StepRecord(Attempt(1, 2, 1, sha("before"), True))}
    steps = {f"Job:Many[{i}]": StepRecord(Attempt(1, 2, 1, sha(f"{i}"), True)) for i in range(MANY + 10)}
    blocks, others, parts = into_blocks(before | steps)
    data, asked = b"".join(parts), list[tuple[int, int]]()

    def read(first: int, end: int) -> bytes:
        asked.append((first, end))
        return data[first:end]

    found = IndexedSteps(blocks, others, read, dict)
    for i in range(MANY + 10):
        assert found[f"Job:Many[{i}]"] == steps[f"Job:Many[{i}]"]
        assert found[f"Job:Many[{i}]"] is found[f"Job:Many[{i}]"]
    assert (len(asked), asked[-1], len(found)) == (MANY + 1, (len(parts[0]), len(data)), MANY + 11)


def test_what_is_lost_is_read_from_the_log_and_only_once(graph: Graph) -> None:
    steps = {step: record_of(graph, step, "good") for step in graph.node_of}
    blocks, others, _ = into_blocks(steps)
    read = list[int]()

    def recover() -> dict[str, StepRecord]:
        read.append(1)
        return dict(steps)

    found = IndexedSteps(blocks, others, lambda first, end: b"", recover)
    assert found["Job:Plain[3]"] == steps["Job:Plain[3]"]
    assert (dict(found.items()), len(read)) == (steps, 1)


def test_in_a_block_are_the_instances_that_most_are_like() -> None:
    def made(name: str, i: int) -> StepRecord:
        outputs = (Output(f"Artifact:J.{name}[{i}]", sha(f"{i}"), 1, "file"),)
        return StepRecord(Attempt(1, 2, 1, sha(f"{i}"), True, outputs))

    for names in ("BAAA", "ABBB"):
        steps = {f"Job:J[{i}]": made(name, i) for i, name in enumerate(names)}
        (block,), others, _ = into_blocks(steps)
        assert (block.texts, list(others)) == (["[1]", "[2]", "[3]"], ["Job:J[0]"])


@pytest.mark.parametrize(("fingerprint", "sha256"), [("short", sha("a")), (sha("f"), "short")])
def test_one_odd_record_keeps_no_other_out_of_the_block(fingerprint: str, sha256: str) -> None:
    def made(i: int, fingerprint: str, sha256: str) -> StepRecord:
        outputs = (Output(f"Artifact:J.A[{i}]", sha256, 1, "file"),)
        return StepRecord(Attempt(1, 2, 1, fingerprint, True, outputs))

    steps = {f"Job:J[{i}]": made(i, sha(f"{i}"), sha("a")) for i in range(3)}
    (block,), others, _ = into_blocks({**steps, "Job:J[3]": made(3, fingerprint, sha256)})
    assert (block.texts, list(others)) == (["[0]", "[1]", "[2]"], ["Job:J[3]"])


def test_the_rows_of_a_block_stand_in_the_order_of_most_loops() -> None:
    rows = ["[1][3]", "[1][10]", "[2]", "[10]", "[5x]", "[a]", "[b][10]", "[b][1]", "[b][2]"]
    steps = {f"Job:J{row}": StepRecord(Attempt(1, 2, 1, sha(row), True)) for row in reversed(rows)}
    (block,), _, _ = into_blocks(steps)
    assert block.texts == rows


@pytest.mark.parametrize(
    ("step", "fingerprint", "artifacts", "shape"),
    [
        ("Job:J[1]", sha("f"), {"Artifact:J.A[1]": sha("a")}, (("A", "", "file", ".x"),)),
        ("Job:J[1]", sha("f"), {"Artifact:J.A[1].B[0].c": sha("a")}, (("A", ".B[0].c", "file", ".x"),)),
        ("Job:J", sha("f"), {"Artifact:J.A": sha("a")}, (("A", "", "file", ".x"),)),
        ("Job:J", sha("f"), {"Artifact:J.A.b[0]": sha("a")}, (("A", ".b[0]", "file", ".x"),)),
        ("Job:P/J[1]", sha("f"), {"Artifact:P/J.A[1]": sha("a")}, (("A", "", "file", ".x"),)),
        ("Job:J[1]", sha("f"), {}, ()),
        ("Job:J[1]", "short", {"Artifact:J.A[1]": sha("a")}, None),
        ("Job:J[1]", sha("f"), {"Artifact:J.A[1]": "short"}, None),
        ("Job:J[1]", sha("f"), {"Artifact:J.A[2]": sha("a")}, None),
        ("Job:J[1]", sha("f"), {"Artifact:K.A[1]": sha("a")}, None),
        ("Job:J", sha("f"), {"Artifact:K.A": sha("a")}, None),
        ("Job:J[1]", sha("f"), {"Artifact:J.A[1]": sha("a"), "Artifact:J.B[2]": sha("b")}, None),
        ('Job:J["of two\nlines"]', sha("f"), {}, None),
        ("Jab:J[1]", sha("f"), {}, None),
    ],
)
def test_what_does_not_look_like_the_output_of_its_step_stands_beside_the_blocks(
    step: str, fingerprint: str, artifacts: dict[str, str], shape: Shape | None
) -> None:
    outputs = tuple(Output(id_, sha256, 1, "file", suffix=".x") for id_, sha256 in artifacts.items())
    record = StepRecord(Attempt(1, 2, 1, fingerprint, True, outputs))
    usual = {f"Job:Usual[{i}]": StepRecord(Attempt(1, 2, 1, sha(f"{i}"), True)) for i in range(2)}
    blocks, others, _ = into_blocks({**usual, step: record})
    assert [block.shape for block in blocks] == ([()] if shape is None else [(), shape])
    assert others == ({step: record} if shape is None else {})


COPIES = """\
workflow: copies
inputs: {Sources: {type: "file[]", default: "src/*.txt"}}
loops: {each: {each: inputs.Sources}}
jobs:
  Copy:
    for: [each]
    uses: shell
    with: {run: 'cp "$source" "$out_Out"', source: "${{ inputs.Sources[each] }}"}
    outputs: {Out: {type: file, path: "out/${{ each }}.txt"}}
  Kept:
    for: [each]
    uses: shell
    with: {run: 'cp "$source" "$out_Out"', source: "${{ jobs.Copy.outputs.Out[each] }}"}
    outputs: {Out: {type: file}}
"""


def indexed_plan(lab: Lab) -> bytes:
    """Planned with an index of the whole log, which so short a one does not get otherwise."""
    opened = lab.opened()
    history = History(opened.state, opened.store.read, worth_indexing=1)
    return compute_execution_plan(opened.snapshot(history)).to_bytes()


@pytest.mark.parametrize(
    "story",
    [
        lambda lab: None,
        lambda lab: lab.write({"src/01.txt": "edited"}),
        lambda lab: lab.write({"src/005.txt": "in between"}),
        lambda lab: lab.write({"src/00.txt": None}),
        lambda lab: lab.write({"out/2.txt": None}),
        lambda lab: lab.write({"out/2.txt": "edited"}),
        lambda lab: [path.unlink() for path in (lab.root / ".whyrun/store").glob("??/*")],
        lambda lab: lab.write({"workflow.yaml": COPIES.replace("type: file}", "type: text}")}),
    ],
    ids=["nothing", "edited", "inserted", "removed", "lost", "changed", "blobs", "retyped"],
)
def test_plans_with_and_without_the_index_are_the_same(
    project: Callable[..., Lab], story: Callable[[Lab], object]
) -> None:
    lab = project(COPIES, {f"src/{i:02}.txt": f"{i}" for i in range(4)})
    lab.succeed()
    lab.write({"src/03.txt": "second"})
    lab.succeed()
    index = lab.opened().state.index_dir / "fold"
    deadline = time.monotonic() + PATIENCE
    while not index.exists() and time.monotonic() < deadline:  # a log of this very tick gets none
        indexed_plan(lab)
    assert index.exists()
    story(lab)
    with_index = indexed_plan(lab)
    assert lab.plan().to_bytes() == with_index
    index.unlink()
    (lab.opened().state.index_dir / "memo").unlink(missing_ok=True)
    (lab.opened().state_dir / STAT_CACHE).unlink(missing_ok=True)
    assert lab.plan().to_bytes() == with_index
