"""parse(render(x)) == x, for every x that can be made."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from whyrun.ids import CanonicalId, Segment, file_name, parse_id
from whyrun.log import events as ev
from whyrun.log.journal import FIRST_CHAIN, Journal, read_events
from whyrun.money import written
from whyrun.workflow.expressions.linear_regex import PatternError, compile_pattern

EXAMPLES = 5000 if os.environ.get("WHYRUN_SOAK") else 80

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False)
indices = st.integers(-(2**63), 2**63) | texts | numbers
segments = st.builds(Segment, names, st.lists(indices, max_size=3).map(tuple))
ids = st.builds(
    CanonicalId,
    st.sampled_from(["Input", "Job", "Artifact"]),
    st.lists(segments, max_size=2).map(tuple),
    st.lists(segments, min_size=1, max_size=3).map(tuple),
)


@settings(max_examples=EXAMPLES)
@given(ids)
def test_an_id_is_read_back_as_it_was(id_: CanonicalId) -> None:
    again = parse_id(str(id_))
    assert again == id_
    parts = ((*one.imports, *one.segments) for one in (again, id_))
    for segment, before in zip(*parts, strict=True):
        assert [type(index) for index in segment.indices] == [type(index) for index in before.indices]
    name = file_name(id_.path)
    assert "/" not in name
    assert len(name.encode()) <= 255


@settings(max_examples=EXAMPLES)
@given(ids, ids)
def test_two_ids_have_two_texts_and_two_file_names(one: CanonicalId, other: CanonicalId) -> None:
    assume(one != other or repr(one) != repr(other))
    assert str(one) != str(other)
    if one.path != other.path:
        assert file_name(one.path) != file_name(other.path)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
shas = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
decimals = st.decimals(0, 10**9, places=4).map(written)
members = st.lists(st.fixed_dictionaries({"id": texts, "sha256": shas}), max_size=2)
bindings = st.dictionaries(names, members, max_size=2)
read = st.dictionaries(texts, values, max_size=2)
events = st.one_of(
    st.builds(ev.InputRecorded, id=texts, sha256=shas, size=st.none() | st.integers(0, 2**40), value=values),
    st.builds(
        ev.StepStart, step_id=texts, driver=texts, attempt=st.integers(0, 9), fingerprint=shas, bindings=bindings
    ),
    st.builds(ev.Task, step_id=texts, status=texts, message=texts, details=values),
    st.builds(ev.RequestRecorded, step_id=texts, fingerprint=shas, key=texts, value=values),
    st.builds(
        ev.CostRecorded, step_id=texts, amount=st.none() | decimals, currency=texts, item=texts,
        quantity=st.none() | decimals, request=st.none() | texts,
    ),
    st.builds(ev.ConditionEvaluated, step_id=texts, expression=texts, inputs=read, result=st.booleans()),
    st.builds(ev.StepBlocked, step_id=texts, because=st.lists(texts, max_size=3)),
    st.builds(
        ev.ArtifactAvailable, artifact=texts, step_id=texts, sha256=shas, size=st.integers(0, 2**40), type=texts,
        suffix=texts, path=st.none() | texts, section=st.none() | texts, value=values, reused_from=st.none() | texts,
    ),
    st.builds(ev.FileDisplaced, path=texts, sha256=shas, section=st.none() | texts),
)  # fmt: skip


@settings(max_examples=EXAMPLES)
@given(st.lists(events, min_size=1, max_size=4))
def test_events_are_read_back_as_they_were(written: list[ev.Event]) -> None:
    before = [msgspec.structs.replace(event) for event in written]
    with tempfile.TemporaryDirectory(prefix="whyrun-fuzz-") as folder:
        journal = Journal.create(folder, "r0001", FIRST_CHAIN, lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
        for event in written:
            journal.append(event)
        journal.close()
        read = list(read_events(Path(folder) / "events.jsonl", "r0001"))
    blank = [msgspec.structs.replace(event, seq=0, ts="", session="", chain="") for event in read]
    assert blank == before
    assert [type(event) for event in read] == [type(event) for event in before]


# --- `matches` means what Python's `re` means --------------------------------------------------------------------

atoms = st.sampled_from(
    [
        *("a", "b", "ab", "[ab]", "[^a]", ".", r"\d", r"\w", r"\W", r"\s", "(a|b)", "(?:ab|a)", "(a)?", "^", "$", "é"),
        *("(?i:A)", "[a-c0-9_]", "x{2}", "a{1,2}", "(ab){0,2}", "b*?", r"\Z", "(?:)", "|", "(|a)", r"[\W\d]", r"\b"),
    ]
)
quantifiers = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{,2}", "*?"])
patterns = st.lists(st.tuples(atoms, quantifiers).map("".join), min_size=1, max_size=4).map("".join)


@settings(max_examples=EXAMPLES * 5)
@given(patterns, st.text("abAB1_ é\nx", min_size=1, max_size=6))
def test_patterns_match_what_they_match_in_python(pattern: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = re.compile(pattern).fullmatch(text) is not None
        except re.error:
            return
    try:
        found = compile_pattern(pattern).matches(text)
    except PatternError:
        return
    assert found == expected
