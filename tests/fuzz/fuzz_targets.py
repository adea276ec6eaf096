"""What is fuzzed: each target takes any bytes, and nothing but an error of ours with a code may come of it.

    target(data)        raises what it should not, or finds that parse(render(x)) is not x

They are driven by hypothesis in the suite (`test_fuzz_targets.py`) and by atheris at length (`fuzz.py`, `make fuzz`).
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from whyrun.artifacts.hashing import decode_tree, encode_tree
from whyrun.artifacts.shared.result import Refused, decode_result, encode_result
from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.cli.saved_plan import decode_plan
from whyrun.errors import InvalidError, WhyrunError
from whyrun.graph.expand import expand
from whyrun.graph.publishing.conflicts import path_problems
from whyrun.ids import IdPattern, artifact_id, file_name, parse_id
from whyrun.log.journal import read_events
from whyrun.log.lean_events import scan
from whyrun.planning.answers.plan_diff import plan_differences
from whyrun.snapshot.history.fold import RunFold
from whyrun.snapshot.observing.observe import InputObserver
from whyrun.snapshot.records import Records
from whyrun.workflow.composition.plan_file.dataset_plan import parse_plan
from whyrun.workflow.expressions.expression import ExpressionError, evaluate, parse_expression
from whyrun.workflow.expressions.functions import MAX_NUMBER, MAX_STRING
from whyrun.workflow.expressions.naming import ROOTS
from whyrun.workflow.inputs import known_inputs
from whyrun.workflow.model import Place, Type
from whyrun.workflow.nodes import Problems
from whyrun.workflow.parsing.parse import parse_workflow
from whyrun.workflow.scope import InputShape, Names, Scope

LARGEST = 1 << 16  # bytes: what is interesting is small, and large inputs are in tests/hostile
MOST_INSTANCES = 2000
_NOWHERE = Path("/nonexistent")
_NUMBER = re.compile(rb"[0-9]{1,30}")


def workflow(data: bytes) -> None:
    """A workflow file, with its defaults as inputs, up to the graph."""

    def read(key: str) -> str:
        if key == "workflow.yaml":
            return data.decode("utf-8")
        raise FileNotFoundError(2, "No such file or directory")

    try:
        found = parse_workflow("workflow.yaml", read)
    except WhyrunError as refused:
        _check_told(refused)
        return
    assert parse_workflow(found.source, found.sources.__getitem__).jobs.keys() == found.jobs.keys()
    if _is_large(data):
        return
    try:
        given, wrong = known_inputs(found, None, ())
        if wrong:
            raise InvalidError(wrong)
        if any(decl.type.is_path for decl in found.inputs.values()):
            return  # files are looked for elsewhere
        observed = InputObserver(_NOWHERE, StatCache.load(_NOWHERE)).observe(found, given)
        graph = expand(found, observed, path_problems)
    except WhyrunError as refused:
        _check_told(refused)
        return
    for table in graph.tables:
        for job in list(table.job_ids())[:50]:
            assert str(parse_id(job)) == job


def dataset_plan(data: bytes) -> None:
    """A dataset plan and its inputs manifest, with a line of `%` between them."""
    plan, _, manifest = data.decode("utf-8", "replace").partition("\n%%%\n")
    try:
        found = parse_plan("plan.json", "manifest.json", {"plan.json": plan, "manifest.json": manifest})
    except WhyrunError as refused:
        _check_told(refused)
        return
    assert found.composition is not None


def expression(data: bytes) -> None:
    """What stands between `${{` and `}}`, without anything to refer to but a loop variable."""
    text = data.decode("utf-8", "surrogateescape")
    problems = Problems()
    problems.begin_file("workflow.yaml")

    def place(offset: int, width: int) -> Place:
        return Place("workflow.yaml", 1, offset + 1, max(1, width), text[:200])

    scope = _scope()
    found = parse_expression(text, place, scope, problems)
    if found is None:
        for problem in problems:
            problem.render()
        return
    again = parse_expression(found.text, place, scope, Problems())
    assert again is not None
    assert (again.text, again.loops, len(again.refs)) == (found.text, found.loops, len(found.refs))
    if found.refs or found.secrets or found.env:
        return
    try:
        value = evaluate(found, (), {"n": 3, "workflow": {"name": "w"}})
    except ExpressionError:
        return
    assert not isinstance(value, int) or abs(value) <= MAX_NUMBER
    assert not isinstance(value, str | list) or len(value) <= MAX_STRING


def canonical_id(data: bytes) -> None:
    """The text of an ID, or a pattern of IDs."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        pattern = IdPattern(text)
        pattern.matches(text)
        pattern.matches("Job:a[1]")
    except WhyrunError as refused:
        _check_told(refused)
    try:
        found = parse_id(text)
    except WhyrunError as refused:
        _check_told(refused)
        return
    assert str(found) == text
    assert parse_id(str(found)) == found
    name = file_name(found.path)
    assert name not in ("", ".", "..")
    assert "/" not in name
    assert "\0" not in name
    assert len(os.fsencode(name)) <= 255
    if found.kind == "Job" and len(found.segments) == 1:
        assert parse_id(artifact_id(found, "Out")).kind == "Artifact"


def events(data: bytes) -> None:
    """The log of one run: read, written again, and folded."""
    with tempfile.TemporaryDirectory(prefix="whyrun-fuzz-") as folder:
        path = Path(folder) / "events.jsonl"
        path.write_bytes(data)
        try:
            for event in read_events(path, "r0001"):
                line = msgspec.json.encode(event)
                assert msgspec.json.decode(line, type=type(event)) == event
        except WhyrunError as refused:
            _check_told(refused)
        fold = RunFold(Records(), 1, str(path))
        try:
            for chunk in scan(path):
                fold.feed(chunk)
            fold.finish()
        except WhyrunError as refused:
            _check_told(refused)


def saved_plan(data: bytes) -> None:
    """A plan file, as `run --plan` and the comparison with the present plan read it."""
    try:
        found = decode_plan(data, "plan.json")
    except WhyrunError as refused:
        _check_told(refused)
        return
    plan_differences(found, found)
    assert decode_plan(msgspec.json.encode(found), "plan.json") == found


def folder(data: bytes) -> None:
    """The list of a folder's files, as it comes from a step or a shared store."""
    try:
        found = decode_tree(data)
    except ValueError:
        return
    assert decode_tree(encode_tree(found.files, found.empty_dirs)) == decode_tree(
        encode_tree(sorted(found.files, key=lambda f: f.path), sorted(found.empty_dirs))
    )
    for path in (*found.empty_dirs, *(file.path for file in found.files)):
        inside = os.path.normpath(os.path.join("/top", path))
        assert inside.startswith("/top/")


def shared_result(data: bytes) -> None:
    """What a shared store says of a fingerprint."""
    try:
        found = decode_result(data, "a" * 64)
    except Refused:
        return
    assert decode_result(encode_result(found), "a" * 64) == found


TARGETS: dict[str, Callable[[bytes], None]] = {
    "workflow": workflow,
    "dataset_plan": dataset_plan,
    "expression": expression,
    "canonical_id": canonical_id,
    "events": events,
    "saved_plan": saved_plan,
    "folder": folder,
    "shared_result": shared_result,
}


def _check_told(refused: WhyrunError) -> None:
    """What the user would see can be shown, and is no longer than a person reads."""
    for diagnostic in refused.diagnostics:
        text = diagnostic.render()
        text.encode("utf-8", "backslashreplace")
        assert len(text) < 10_000, f"a message of {len(text)} characters"


def _is_large(data: bytes) -> bool:
    """Loops of millions are allowed; here they would only take time."""
    return any(int(number) > MOST_INSTANCES for number in _NUMBER.findall(data))


def _scope() -> Scope:
    names = Names({"A": InputShape(Type("string")), "B": InputShape(Type("integer", 1))}, frozenset({"n"}), {}, {})
    return Scope(names, "in `with:`", frozenset(ROOTS), binding=True, loops=("n",), env={}, secrets=())
