"""What a log comes to, record by record: attempts, outputs, reuses, adoptions and remembered requests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from fold_lab import (
    ACCEPT,
    ADOPT,
    COMPARE,
    END,
    RUN,
    Event,
    adopted,
    decoded,
    done,
    failed,
    folded,
    made,
    request,
    reused,
    start,
)  # fmt: skip

from whyrun.artifacts.hashing import value_sha256
from whyrun.errors import StateError
from whyrun.snapshot.history.fold import RunFold
from whyrun.snapshot.records import Attempt, InputRecord, Output, Records, StepRecord

PAGE = "Job:Page"
TEXT, NOTE = "Artifact:Page.Text", "Artifact:Page.Note"
X, Y = Output(TEXT, "x", 1, "text"), Output(NOTE, "yy", 2, "text")
CUT_OFF = "the run ended before this step did"
INTERRUPTED: dict[str, Any] = {"status": "INTERRUPTED", "error_type": "Interrupted", "error": CUT_OFF}


def good(run: int, seq: int, fingerprint: str, *outputs: Output, number: int = 1, duration: float = 1.0) -> Attempt:
    return Attempt(run, seq, number, fingerprint, True, outputs, duration)


def bad(run: int, seq: int, fingerprint: str, *outputs: Output, number: int = 1, kind: str = "ValueError") -> Attempt:
    return Attempt(run, seq, number, fingerprint, False, outputs, 0.0, "FAILED", kind, "no")


def taken(run: int, seq: int, fingerprint: str, *outputs: Output, made: int = 0, duration: float = 1.0) -> Attempt:
    return Attempt(run, seq, 0, fingerprint, True, outputs, duration, origin="reused", made=made)


# --- attempts ----------------------------------------------------------------------------------------------------


SEVEN, NULL = value_sha256(7), value_sha256(None)


@pytest.mark.parametrize("kind", ["made", "adopted"])
def test_a_value_with_another_hash_than_its_own_is_a_damaged_log(kind: str) -> None:
    """A step would be given it, and its result would count as made of what has that hash."""
    event = made(LEAF, SEVEN, type="integer", value=8) if kind == "made" else adopted(LEAF, SEVEN, "f1", value=8)
    events = [RUN, start(PAGE, "f1"), event] if kind == "made" else [ADOPT, event]
    with pytest.raises(StateError) as problem:
        folded(events)
    (told,) = problem.value.diagnostics
    assert (told.code, told.file, told.line) == ("LOG_DAMAGED", "r0001/events.jsonl", len(events))
    assert told.message == f"the value of `{LEAF}` does not have the recorded hash"


def test_a_success_is_recorded_with_its_outputs_as_they_stand_in_the_log() -> None:
    events = [
        RUN,
        start(PAGE, "f1", 3),
        made(TEXT, "x", suffix=".md", path="out/page.md"),
        made(NOTE, "yy", type="json", path="all.json", section="page"),
        made("Artifact:Page.Count", SEVEN, type="int", value=7),
        made("Artifact:Page.Nothing", NULL, type="int", value=None),
        done(PAGE, 2.5),
        END,
    ]
    outputs = (
        Output(TEXT, "x", 1, "text", "out/page.md", (), ".md"),
        Output(NOTE, "yy", 2, "json", "all.json § page"),
        Output("Artifact:Page.Count", SEVEN, 64, "int", None, (7,)),
        Output("Artifact:Page.Nothing", NULL, 64, "int", None, (None,)),
    )
    record = StepRecord(Attempt(1, 2, 3, "f1", True, outputs, 2.5))
    assert folded(events) == Records({PAGE: record}, {}, 1, 1, 8)


def test_a_section_without_a_path_is_none_of_a_file() -> None:
    """The engine writes none. Whoever forges one gets no file that is called `None`."""
    strange = Output(TEXT, "x", 1, "text", " § page")
    made_so = folded([RUN, start(PAGE, "f1"), made(TEXT, "x", section="page"), done(PAGE), END])
    adopted_so = folded([ADOPT, adopted(TEXT, "x", "f1", section="page"), END])
    assert made_so.steps[PAGE].latest.outputs == adopted_so.steps[PAGE].latest.outputs == (strange,)


def test_a_failure_keeps_the_first_line_of_its_error_and_no_outputs() -> None:
    events = [RUN, start(PAGE, "f1"), made(TEXT, "x"), failed(PAGE, error="é" * 300 + "\nmore"), END]
    record = folded(events).steps[PAGE]
    assert record == StepRecord(Attempt(1, 2, 1, "f1", status="FAILED", error_type="ValueError", error="é" * 200))
    several = folded([RUN, start(PAGE, "f1"), failed(PAGE, error="one\ntwo\nthree"), END]).steps[PAGE]
    assert several.latest.error == "one"


def test_what_could_not_be_published_keeps_its_outputs() -> None:
    events = [RUN, start(PAGE, "f1"), made(TEXT, "x"), failed(PAGE, "NotPublished"), END]
    assert folded(events).steps == {PAGE: StepRecord(bad(1, 2, "f1", X, kind="NotPublished"))}


def test_steps_that_a_run_left_open_are_interrupted() -> None:
    events = [RUN, start(PAGE, "f1", 2), made(TEXT, "x")]
    records = folded(events)
    assert records == Records({PAGE: StepRecord(Attempt(1, 2, 2, "f1", **INTERRUPTED))}, {}, 1, 1, 3, frozenset({PAGE}))


def test_the_latest_attempt_the_last_success_and_each_fingerprint_are_kept() -> None:
    first = [RUN, start(PAGE, "f1"), made(TEXT, "x"), done(PAGE), END]
    second = [RUN, start(PAGE, "f2"), failed(PAGE), start(PAGE, "f2", 2), failed(PAGE), END]
    third = [RUN, start(PAGE, "f3"), failed(PAGE, status="INTERRUPTED"), END]
    fourth = [RUN, start(PAGE, "f1"), made(NOTE, "yy"), done(PAGE), END]
    one = good(1, 2, "f1", X)
    assert folded(first).steps == {PAGE: StepRecord(one)}
    two = bad(2, 4, "f2", number=2)
    assert folded(first, second).steps == {PAGE: StepRecord(two, one, [one, two])}
    three = Attempt(3, 2, 1, "f3", status="INTERRUPTED", error_type="ValueError", error="no")
    assert folded(first, second, third).steps == {PAGE: StepRecord(three, one, [one, two])}
    four = good(4, 2, "f1", Y)
    assert folded(first, second, third, fourth).steps == {PAGE: StepRecord(four, None, [two, four])}


def test_an_unsettled_attempt_is_no_attempt_of_its_fingerprint() -> None:
    open_ = [RUN, start(PAGE, "f1")]
    unsettled = Attempt(1, 2, 1, "f1", **INTERRUPTED)
    assert folded(open_).steps == {PAGE: StepRecord(unsettled)}
    again = good(2, 2, "f1", X)
    assert folded(open_, [RUN, start(PAGE, "f1"), made(TEXT, "x"), done(PAGE)]).steps == {PAGE: StepRecord(again)}
    still = Attempt(2, 2, 1, "f1", **INTERRUPTED)
    assert folded(open_, open_).steps == {PAGE: StepRecord(still, None, [])}


def test_a_success_with_the_same_fingerprint_is_the_only_one_left() -> None:
    run = [RUN, start(PAGE, "f1"), done(PAGE), END]
    assert folded(run, run).steps == {PAGE: StepRecord(good(2, 2, "f1"))}


# --- runs that compare -------------------------------------------------------------------------------------------

WENT_WELL: list[Event] = [
    {"event": "input_recorded", "id": "Input:Topic", "sha256": "t", "value": "cats"},
    start(PAGE, "f1"), made(TEXT, "x"), done(PAGE), END,
]  # fmt: skip


def test_a_run_that_only_compares_changes_nothing_but_the_position() -> None:
    inputs = {"Input:Topic": InputRecord("t", ("cats",))}
    assert folded([RUN, *WENT_WELL]) == Records({PAGE: StepRecord(good(1, 3, "f1", X))}, inputs, 1, 1, 6)
    assert folded([COMPARE, *WENT_WELL, END]) == Records({}, {}, 0, 1, 7)
    assert folded([RUN, *WENT_WELL], [COMPARE, start(PAGE, "f2"), request(PAGE, "f2", "id", 1), done(PAGE), END]) == (
        Records({PAGE: StepRecord(good(1, 3, "f1", X))}, inputs, 1, 2, 5)
    )


def test_one_that_accepts_new_results_takes_what_succeeded_and_leaves_what_failed() -> None:
    before = [RUN, start(PAGE, "f1"), made(TEXT, "x"), done(PAGE), END]
    inputs = {"Input:Topic": InputRecord("t", ("cats",))}
    new = good(2, 3, "f1", X)
    assert folded(before, [ACCEPT, *WENT_WELL]) == Records({PAGE: StepRecord(new)}, inputs, 1, 2, 6)
    stands = {PAGE: StepRecord(good(1, 2, "f1", X))}
    assert folded(before, [ACCEPT, start(PAGE, "f1"), failed(PAGE), END]).steps == stands
    assert folded(before, [ACCEPT, start(PAGE, "f1")]).steps == stands
    unpublished = [ACCEPT, start(PAGE, "f2"), made(NOTE, "yy"), failed(PAGE, "NotPublished"), END]
    made_new = bad(2, 2, "f2", Y, kind="NotPublished")
    one = good(1, 2, "f1", X)
    assert folded(before, unpublished).steps == {PAGE: StepRecord(made_new, one, [one, made_new])}


def test_an_input_without_a_value_is_held_without_one() -> None:
    event = {"event": "input_recorded", "id": "Input:Photo", "sha256": "p"}
    assert folded([RUN, event, END]) == Records({}, {"Input:Photo": InputRecord("p")}, 1, 1, 3)


# --- reuse -------------------------------------------------------------------------------------------------------

MADE = [RUN, start(PAGE, "f1"), made(TEXT, "x"), made(NOTE, "yy"), done(PAGE, 5.0), END]
OTHER = [RUN, start(PAGE, "f2"), made(TEXT, "z"), done(PAGE, 2.0), END]
ONE, TWO = good(1, 2, "f1", X, Y, duration=5.0), good(2, 2, "f2", Output(TEXT, "z", 1, "text"), duration=2.0)


def test_a_reuse_takes_the_place_of_what_it_reuses_when_it_has_all_its_outputs() -> None:
    begins = [RUN, reused(PAGE, "f1", from_run="r0001")]
    outputs = [made(TEXT, "x"), made(NOTE, "yy")]
    none = taken(3, 2, "f1", made=1, duration=5.0)
    assert folded(MADE, OTHER, begins).steps == {PAGE: StepRecord(none, None, [ONE, TWO])}
    half = taken(3, 2, "f1", X, made=1, duration=5.0)
    assert folded(MADE, OTHER, [*begins, *outputs[:1]]).steps == {PAGE: StepRecord(half, None, [ONE, TWO])}
    whole = taken(3, 2, "f1", X, Y, made=1, duration=5.0)
    assert folded(MADE, OTHER, [*begins, *outputs]).steps == {PAGE: StepRecord(whole, None, [TWO, whole])}
    only = taken(2, 2, "f1", X, Y, made=1, duration=5.0)
    assert folded(MADE, [*begins, *outputs]).steps == {PAGE: StepRecord(only)}


def test_a_reuse_of_another_step_takes_that_ones_time_and_waits_for_its_outputs() -> None:
    begins = [RUN, reused("Job:Twin", "f1", from_run="r0001", from_step=PAGE)]
    outputs = [made(f"Artifact:Twin.{name}", sha, step_id="Job:Twin") for name, sha in (("Text", "x"), ("Note", "yy"))]
    x, y = Output("Artifact:Twin.Text", "x", 1, "text"), Output("Artifact:Twin.Note", "yy", 2, "text")
    half = taken(2, 2, "f1", x, made=1, duration=5.0)
    assert folded(MADE, [*begins, *outputs[:1]]).steps["Job:Twin"] == StepRecord(half, None, [])
    whole = taken(2, 2, "f1", x, y, made=1, duration=5.0)
    assert folded(MADE, [*begins, *outputs]).steps == {PAGE: StepRecord(ONE), "Job:Twin": StepRecord(whole)}


def test_a_reuse_of_another_step_takes_what_that_one_made_with_the_same_fingerprint() -> None:
    begins = [RUN, reused("Job:Twin", "f2", from_run="r0002", from_step=PAGE)]
    text = made("Artifact:Twin.Text", "z", step_id="Job:Twin")
    whole = taken(3, 2, "f2", Output("Artifact:Twin.Text", "z", 1, "text"), made=2, duration=2.0)
    assert folded(MADE, OTHER, [*begins, text]).steps["Job:Twin"] == StepRecord(whole)
    unknown = [RUN, reused("Job:Twin", "f3", from_run="r0002", from_step=PAGE)]
    assert folded(MADE, OTHER, unknown).steps["Job:Twin"] == StepRecord(taken(3, 2, "f3", made=2, duration=0.0))


def test_a_reuse_waits_for_as_many_outputs_as_one_just_before_has_taken() -> None:
    """Also where they stand in the log one after the other."""
    begun = [RUN, reused(PAGE, "f1"), made(TEXT, "x")]
    first, second = taken(1, 2, "f1", X, duration=0.0), taken(1, 4, "f1", duration=0.0)
    assert folded([*begun, reused(PAGE, "f1")]).steps == {PAGE: StepRecord(second, None, [first])}
    twin = folded([*begun, reused("Job:Twin", "f1", from_step=PAGE)]).steps
    assert twin == {PAGE: StepRecord(first), "Job:Twin": StepRecord(second, None, [])}


def test_a_reuse_waits_for_all_outputs_of_its_own_earlier_result_and_of_the_one_it_takes() -> None:
    twin = [RUN, start("Job:Twin", "f1"), made("Artifact:Twin.Text", "x", step_id="Job:Twin"), done("Job:Twin"), END]
    begins = [RUN, reused(PAGE, "f1", from_run="r0002", from_step="Job:Twin")]
    half = taken(3, 2, "f1", X, made=2)
    assert folded(MADE, twin, [*begins, made(TEXT, "x")]).steps[PAGE] == StepRecord(half, None, [ONE])
    whole = taken(3, 2, "f1", X, Y, made=2)
    assert folded(MADE, twin, [*begins, made(TEXT, "x"), made(NOTE, "yy")]).steps[PAGE] == StepRecord(whole)


def test_the_outputs_of_reuses_are_found_however_they_come() -> None:
    """Event by event, and those of two steps in turn."""
    twin = {"step_id": "Job:Twin"}
    events = [
        RUN, reused(PAGE, "f1"), reused("Job:Twin", "f1"), made(TEXT, "x"), made("Artifact:Twin.Text", "x", **twin),
        made(NOTE, "yy"), END,
    ]  # fmt: skip
    fold = RunFold(Records(), 1, "r0001/events.jsonl")
    for event in decoded(1, events):
        fold.feed([event])
    fold.finish()
    found = {step: [(o.id, o.sha256) for o in record.latest.outputs] for step, record in fold.records.steps.items()}
    assert found == {PAGE: [(TEXT, "x"), (NOTE, "yy")], "Job:Twin": [("Artifact:Twin.Text", "x")]}
    assert folded(events).steps == fold.records.steps


def test_a_reuse_names_the_run_that_made_it() -> None:
    found = folded([RUN, reused(PAGE, "f1", from_run="r10002"), END])
    assert found.steps[PAGE].latest.made == 10002


def test_a_reuse_from_others_has_their_time_and_needs_nothing_of_its_own() -> None:
    shared = [RUN, reused(PAGE, "f3", shared={"duration": 9.0}), made(TEXT, "x"), END]
    assert folded(shared).steps == {PAGE: StepRecord(taken(1, 2, "f3", X, duration=9.0))}
    known = [RUN, reused(PAGE, "f1", shared={"duration": 9.0}), made(TEXT, "x"), made(NOTE, "yy"), END]
    assert folded(MADE, known).steps == {PAGE: StepRecord(taken(2, 2, "f1", X, Y, duration=9.0))}
    half = taken(2, 2, "f1", X, duration=9.0)
    assert folded(MADE, known[:3]).steps == {PAGE: StepRecord(half, None, [ONE])}


def test_a_reuse_of_what_is_not_known_here_is_whole_at_once() -> None:
    assert folded([RUN, reused(PAGE, "f1"), END]).steps == {PAGE: StepRecord(taken(1, 2, "f1", duration=0.0))}


def test_a_reuse_that_could_not_be_published_is_no_success_and_is_still_to_be_taken() -> None:
    unpublished = [
        RUN, reused(PAGE, "f1", from_run="r0001"), made(TEXT, "x"), made(NOTE, "yy"), failed(PAGE, "NotPublished"), END,
    ]  # fmt: skip
    latest = taken(3, 2, "f1", X, Y, made=1, duration=5.0)
    latest.ok, latest.status, latest.error_type, latest.error = False, "FAILED", "NotPublished", "no"
    found = folded(MADE, OTHER, unpublished).steps[PAGE]
    assert found == StepRecord(latest, TWO, [TWO, latest])
    assert found.by_fingerprint("f1") is found.latest
    first = Attempt(1, 2, 0, "f1", status="FAILED", error_type="NotPublished", error="no", origin="reused")
    alone = folded([RUN, reused(PAGE, "f1"), made(TEXT, "x"), failed(PAGE, "NotPublished"), END]).steps
    first.outputs = (X,)
    assert alone == {PAGE: StepRecord(first)}


def test_in_a_run_that_only_compares_a_reuse_changes_nothing() -> None:
    events = [COMPARE, reused(PAGE, "f1"), made(TEXT, "x"), failed(PAGE, "NotPublished"), END]
    assert folded(events).steps == {}
    assert folded(MADE, events).steps == {PAGE: StepRecord(ONE)}
    whole = [COMPARE, reused(PAGE, "f1"), made(TEXT, "x"), made(NOTE, "yy"), END]
    assert folded(MADE, OTHER, whole).steps == {PAGE: StepRecord(TWO, None, [ONE, TWO])}
    twin = [COMPARE, reused("Job:Twin", "f1", from_step=PAGE)]
    twin += [made(f"Artifact:Twin.{name}", "x", step_id="Job:Twin") for name in ("Text", "Note")]
    assert folded(MADE, twin).steps == {PAGE: StepRecord(ONE)}


# --- adoption ----------------------------------------------------------------------------------------------------


def test_an_adopted_output_stands_beside_the_others_of_its_fingerprint() -> None:
    found = folded(MADE, [ADOPT, adopted(TEXT, "mine", "f1", suffix=".md", path="out.md"), END])
    mine = Output(TEXT, "mine", 4, "text", "out.md", (), ".md")
    attempt = Attempt(2, 2, 0, "f1", True, (mine, Y), origin="adopted", apart={NOTE: (1, "")})
    assert found == Records({PAGE: StepRecord(attempt, unadopted=[ONE])}, {}, 2, 2, 3)
    assert (attempt.adopted, attempt.source_of(NOTE)) == ({TEXT: 2}, (1, ""))


def test_an_adopted_output_of_another_fingerprint_stands_alone() -> None:
    found = folded(MADE, [ADOPT, adopted(TEXT, SEVEN, "f2", path="all.json", section="page", value=7), END])
    mine = Output(TEXT, SEVEN, 64, "text", "all.json § page", (7,))
    attempt = Attempt(2, 2, 0, "f2", True, (mine,), origin="adopted")
    assert found.steps == {PAGE: StepRecord(attempt, None, [ONE, attempt])}


def test_an_adoption_of_all_outputs_leaves_none_apart() -> None:
    one = [RUN, start(PAGE, "f1"), made(TEXT, "x"), done(PAGE), END]
    found = folded(one, [ADOPT, adopted(TEXT, "mine", "f1"), END]).steps[PAGE]
    mine = Attempt(2, 2, 0, "f1", True, (Output(TEXT, "mine", 4, "text"),), origin="adopted")
    assert found == StepRecord(mine, unadopted=[good(1, 2, "f1", X)])


def test_an_adoption_hides_nothing_from_other_steps() -> None:
    """They see what it has taken the place of, until something else than an adoption has that fingerprint."""
    adoption = [ADOPT, adopted(TEXT, "mine", "f1"), END]
    again = [RUN, reused(PAGE, "f1", from_run="r0002"), made(TEXT, "mine"), made(NOTE, "yy"), END]
    second = [ADOPT, adopted(NOTE, "mine", "f1"), END]
    cut_off = [RUN, start(PAGE, "f1")]
    for later in ([], [again], [second], [again, second, again], [cut_off]):
        record = folded(MADE, adoption, *later).steps[PAGE]
        assert (record.unadopted, record.for_others()) == ([ONE], [ONE])
    record = folded(MADE, adoption, OTHER).steps[PAGE]
    assert (record.unadopted, record.for_others()) == ([ONE], [msgspec.structs.replace(TWO, run=3), ONE])
    anew = [RUN, start(PAGE, "f1"), made(TEXT, "x"), made(NOTE, "yy"), done(PAGE), END]
    broken = [RUN, start(PAGE, "f1"), failed(PAGE), END]
    shared = [RUN, reused(PAGE, "f1", shared={"duration": 9.0}), made(TEXT, "x"), made(NOTE, "yy"), END]
    for last in (anew, broken, shared):
        record = folded(MADE, adoption, last).steps[PAGE]
        assert (record.unadopted, record.for_others()) == (None, [record.latest])
    two = [ADOPT, adopted(TEXT, "mine", "f2"), END]
    record = folded(MADE, OTHER, adoption, two).steps[PAGE]
    assert record.for_others() == [ONE, TWO]
    assert folded(MADE, OTHER, adoption, two, anew).steps[PAGE].unadopted == [TWO]
    assert folded([ADOPT, adopted(TEXT, "mine", "f1"), END]).steps[PAGE].unadopted is None, "there was nothing before"


def test_a_step_that_takes_what_an_adoption_took_the_place_of_has_its_time() -> None:
    adoption = [ADOPT, adopted(TEXT, "mine", "f1"), END]
    begins = [RUN, reused("Job:Twin", "f1", from_run="r0001", from_step=PAGE)]
    twin = [made(f"Artifact:Twin.{name}", "x", step_id="Job:Twin") for name in ("Text", "Note")]
    latest = folded(MADE, adoption, [*begins, *twin, END]).steps["Job:Twin"].latest
    assert (latest.duration, latest.made, latest.adopted) == (ONE.duration, 1, {})


def test_outputs_that_were_not_adopted_are_named_in_order() -> None:
    names = [f"Artifact:Page.{letter}" for letter in "HAGBFCED"]
    several = [RUN, start(PAGE, "f1"), *(made(name, "x") for name in names), done(PAGE), END]
    apart = folded(several, [ADOPT, adopted(TEXT, "mine", "f1"), END]).steps[PAGE].latest.apart
    assert list((apart or {}).items()) == [(name, (1, "")) for name in sorted(names)]


def test_what_a_failure_left_behind_is_not_kept_beside_an_adopted_output() -> None:
    broken = [RUN, start(PAGE, "f1"), made(NOTE, "yy"), failed(PAGE), END]
    found = folded(broken, [ADOPT, adopted(TEXT, "mine", "f1"), END]).steps[PAGE]
    mine = Attempt(2, 2, 0, "f1", True, (Output(TEXT, "mine", 4, "text"),), origin="adopted")
    assert found == StepRecord(mine, unadopted=[bad(1, 2, "f1")])
    unpublished = [RUN, start(PAGE, "f1"), made(NOTE, "yy"), failed(PAGE, "NotPublished"), END]
    kept = folded(unpublished, [ADOPT, adopted(TEXT, "mine", "f1"), END]).steps[PAGE].latest
    assert ([o.id for o in kept.outputs], kept.apart) == ([NOTE, TEXT], {NOTE: (1, "")})


LEAF = "Artifact:Page.Text.Title"


def test_adopted_leaves_hold_with_their_whole_which_comes_last() -> None:
    leaf, whole = adopted(LEAF, SEVEN, "f1", value=7), adopted(TEXT, "mine", "f1")
    made_leaf = Output(LEAF, SEVEN, 64, "text", None, (7,))
    mine = Output(TEXT, "mine", 4, "text")
    assert folded([ADOPT, leaf]).steps == {}
    assert folded([ADOPT, leaf, whole, END]).steps == {
        PAGE: StepRecord(Attempt(1, 3, 0, "f1", True, (mine, made_leaf), origin="adopted"))
    }
    # Logs of the first versions have the whole first.
    first = folded([ADOPT, whole, leaf, END]).steps[PAGE]
    assert first == StepRecord(
        Attempt(1, 3, 0, "f1", True, (mine, made_leaf), origin="adopted", apart={TEXT: (1, "adopted")})
    )


def test_adopted_bytes_stay_adopted_when_their_own_step_reuses_them() -> None:
    adoption = [ADOPT, adopted(TEXT, "mine", "f1"), END]
    again = [made(TEXT, "mine"), made(NOTE, "yy")]
    mine = Output(TEXT, "mine", 4, "text")
    for begins in (reused(PAGE, "f1", from_run="r0002"), reused(PAGE, "f1", from_run="r0002", from_step=PAGE)):
        latest = folded(MADE, adoption, [RUN, begins, *again, END]).steps[PAGE].latest
        expected = taken(3, 2, "f1", mine, Y, made=2, duration=0.0)
        expected.apart = {TEXT: (2, "adopted")}
        assert latest == expected


def test_what_others_made_is_nobodys_adopted_version() -> None:
    adoption = [ADOPT, adopted(TEXT, "mine", "f1"), END]
    shared = [RUN, reused(PAGE, "f1", shared={"duration": 1.0}), made(TEXT, "mine"), made(NOTE, "yy"), END]
    assert folded(MADE, adoption, shared).steps[PAGE].latest.apart is None
    shared[1] = {**shared[1], "from_step": PAGE}
    assert folded(MADE, adoption, shared).steps[PAGE].latest.apart is None
    twin = [RUN, reused("Job:Twin", "f1", from_run="r0002", from_step=PAGE), END]
    assert folded(MADE, adoption, twin).steps["Job:Twin"].latest.apart is None


# --- remembered requests -----------------------------------------------------------------------------------------


def test_requests_are_remembered_by_fingerprint_until_its_success() -> None:
    begun = [RUN, start(PAGE, "f1", 4), request(PAGE, "f1", "id", 7)]
    unsettled = Attempt(1, 2, 4, "f1", **INTERRUPTED)
    assert folded(begun).steps == {PAGE: StepRecord(unsettled, None, [], {"f1": {"id": 7}}, {"id": "f1"})}
    other = [
        RUN, start(PAGE, "f2"), request(PAGE, "f2", "id", 8), request(PAGE, "f2", "url", "u"), failed(PAGE), END,
    ]  # fmt: skip
    failed_ = bad(2, 2, "f2")
    requests: dict[str, dict[str, Any]] = {"f1": {"id": 7}, "f2": {"id": 8, "url": "u"}}
    assert folded(begun, other).steps == {PAGE: StepRecord(failed_, None, None, requests, {"id": "f2", "url": "f2"})}
    back = [RUN, start(PAGE, "f1"), request(PAGE, "f1", "url", "v"), done(PAGE), END]
    success = good(3, 2, "f1")
    assert folded(begun, other, back).steps == {
        PAGE: StepRecord(success, None, [failed_, success], {"f2": {"id": 8, "url": "u"}}, {"id": "f2"})
    }


def test_what_a_request_remembered_is_there_while_its_step_is_open() -> None:
    records = Records()
    fold = RunFold(records, 1, "r0001/events.jsonl")
    fold.feed(decoded(1, [RUN, start(PAGE, "f1", 4), request(PAGE, "f1", "id", 7)]))
    placeholder = Attempt(1, 2, 4, "f1", **INTERRUPTED)
    assert records.steps == {PAGE: StepRecord(placeholder, None, None, {"f1": {"id": 7}}, {"id": "f1"})}
