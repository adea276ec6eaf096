"""`render_explain`: a whole page, and the text of each reason."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from project_lab import Lab
from whyrun.planning.answers.explain import (
    about,
    estimate_seconds,
    expected_durations,
    explain_json,
    headline,
    render_explain,
)
from whyrun.planning.input_changes import InputChanged
from whyrun.planning.plan import Plan, PlannedJob, PlanOptions
from whyrun.planning.reasons import (
    Forced,
    MissingOutput,
    More,
    Reason,
    RetryPreviousFailure,
    UpstreamDirty,
    UpstreamFailed,
)
from whyrun.planning.reuse import Reuse

THEN_AND_NOW = """\
workflow: then-and-now
inputs:
  ThenImages: {type: "image[]", default: "photos/*.png"}
  Topic:      {type: string, default: cinema}
  Segments:   {type: integer, default: 3}
loops:
  character: {each: inputs.ThenImages}
  segment:   {count: inputs.Segments}
jobs:
  Script:
    uses: python
    with: {call: "story:write", topic: "${{ inputs.Topic }}", segments: "${{ inputs.Segments }}"}
    outputs:
      Story: {type: json, leaves: {"Segments[segment].HasTransition": boolean}}
  ThenImage:
    for: [character]
    uses: python
    with: {call: "story:sepia", SourceImages: ["${{ inputs.ThenImages[character] }}"]}
    outputs: {Image: {type: image}}
  Clip:
    for: [segment]
    if: ${{ jobs.Script.outputs.Story.Segments[segment].HasTransition }}
    uses: shell
    with:
      start: ${{ first(jobs.Clip.outputs.Frame[segment-1], jobs.ThenImage.outputs.Image[0]) }}
      run: cp "$start" "$out_Frame"
    outputs: {Frame: {type: image, path: "out/frame-${{ segment }}.png"}}
  Montage:
    uses: shell
    with:
      portraits: ${{ jobs.ThenImage.outputs.Image[:] }}
      frames: ${{ jobs.Clip.outputs.Frame[:] }}
      run: cat "${portraits[@]}" "${frames[@]}" > "$out_Picture"
    outputs: {Picture: {type: image, path: out/montage.png}}
"""

STORY = """\
from pathlib import Path


def write(topic, segments):
    return {"Story": {"Segments": [{"HasTransition": topic != f"no {i}"} for i in range(segments)]}}


def sepia(SourceImages):
    if Path(__file__).with_name("disk-is-full").exists():  # undeclared on purpose: trouble of the machine
        raise OSError("cannot identify image file")
    return {"Image": SourceImages[0].read_bytes() + b" in sepia"}
"""


@pytest.fixture
def then_and_now(project: Callable[..., Lab]) -> Lab:
    photos = {f"photos/{i}.png": f"photo {i}" for i in range(3)}
    return project(THEN_AND_NOW, {"story.py": STORY, **photos})


def short(content: str) -> str:
    return f"{sha256(content.encode()).hexdigest()[:4]}…"


def page(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def test_the_page_of_the_contract(then_and_now: Lab) -> None:
    lab = then_and_now
    lab.succeed()
    lab.succeed(targets=["Job:ThenImage[1]"], force=["Job:ThenImage[1]"])
    lab.write({"disk-is-full": ""})
    assert lab.run(targets=["Job:ThenImage[0]"], force=["Job:ThenImage[0]"]).exit_code == 1
    lab.write({"photos/2.png": "photo 2 again", "disk-is-full": None})
    old, new = short("photo 2"), short("photo 2 again")
    assert render_explain(lab.plan(up=1), estimate=4.2) == page(f"""
        then-and-now after r0003: 2 of 8 jobs to run, 4 deferred by --up 1, 2 up to date  (~4 s)
        layer 0
          Job:ThenImage[0]   RETRY_PREVIOUS_FAILURE  r0003 attempt 1: OSError: cannot identify image file
                             MISSING_OUTPUT          Artifact:ThenImage.Image[0]
          Job:ThenImage[2]   INPUT_CHANGED           SourceImages[0] ← Input:ThenImages[2]  {old} → {new}
        deferred
          Job:Clip[0]        UPSTREAM_FAILED         Artifact:ThenImage.Image[0]
                             UPSTREAM_DIRTY          Job:ThenImage[0]
          Job:Clip[1]        UPSTREAM_DIRTY          Job:Clip[0]
          Job:Clip[2]        UPSTREAM_DIRTY          Job:Clip[1]
          Job:Montage        UPSTREAM_FAILED         Artifact:ThenImage.Image[0]
                             UPSTREAM_DIRTY          Job:Clip[0]
                             UPSTREAM_DIRTY          Job:Clip[1]
                             UPSTREAM_DIRTY          Job:Clip[2]
                             UPSTREAM_DIRTY          Job:ThenImage[0]
                             UPSTREAM_DIRTY          Job:ThenImage[2]
        """)


def test_inactive_jobs_show_their_condition_or_the_absent_source(then_and_now: Lab) -> None:
    lab = then_and_now
    lab.edit("workflow.yaml", "first(jobs.Clip.outputs.Frame[segment-1], jobs.ThenImage.outputs.Image[0])",
             "jobs.ThenImage.outputs.Image[segment]")  # fmt: skip
    lab.edit("workflow.yaml", "  Montage:\n", LAST_FRAME + "  Montage:\n")
    lab.succeed(sets=["Topic=no 1"])
    assert render_explain(lab.plan(sets=["Topic=no 1"])) == page("""
        then-and-now after r0001: nothing to do, 7 of 9 jobs up to date, 2 inactive
        inactive
          Job:Clip[1]   condition_false  jobs.Script.outputs.Story.Segments[segment].HasTransition  Artifact:Script.Story.Segments[1].HasTransition = false
          Job:Second    source_inactive  Artifact:Clip.Frame[1] is absent
        """)  # noqa: E501


LAST_FRAME = """\
  Second:
    uses: shell
    with: {frame: "${{ jobs.Clip.outputs.Frame[1] }}", run: cp "$frame" "$out_Frame"}
    outputs: {Frame: {type: image}}
"""


def test_a_value_set_back_is_marked_as_reused_and_counted_apart(then_and_now: Lab) -> None:
    lab = then_and_now
    lab.succeed(targets=["Job:ThenImage[*]"])
    lab.write({"photos/1.png": "another"})
    lab.succeed(targets=["Job:ThenImage[*]"])
    lab.write({"photos/1.png": "photo 1"})
    plan = lab.plan(targets=["Job:ThenImage[1]"])
    assert render_explain(plan).splitlines()[:4] == [
        "then-and-now after r0002: none of 8 jobs to run, 1 reused from earlier runs, 5 deferred by "
        "--target Job:ThenImage[1], 2 up to date",
        "layer 0",
        "  Job:ThenImage[1]   INPUT_CHANGED   SourceImages[0] ← Input:ThenImages[1]  "
        f"{short('another')} → {short('photo 1')}",
        "                     reuse           r0001",
    ]


def test_explain_and_plan_have_the_same_jobs_states_and_reasons(then_and_now: Lab) -> None:
    lab = then_and_now
    lab.succeed(up=2)
    lab.write({"photos/1.png": "another"})
    for options in ({}, {"up": 1}, {"targets": ["Job:Clip[1]"]}, {"force": ["layer:0"]}, {"sets": ["Topic=no 1"]}):
        plan = lab.plan(**options)
        explained, written = explain_json(plan), plan.to_json()
        jobs = [*(job for layer in explained["layers"] for job in layer["jobs"]), *explained["deferred"],
                *explained["inactive"]]  # fmt: skip
        assert {job["id"] for job in jobs} == {job["id"] for job in written["jobs"]}
        assert [[job["id"] for job in layer["jobs"]] for layer in explained["layers"]] == written["layers"]
        by_id = {job["id"]: job for job in written["jobs"]}
        for job in jobs:
            told = [{k: v for k, v in reason.items() if k != "text"} for reason in job.get("reasons", [])]
            assert told == by_id[job["id"]].get("reasons", [])
        text = render_explain(plan)
        shown = [line.split()[0] for line in text.splitlines() if line.startswith("  Job:")]
        assert sorted(shown) == sorted(by_id)
        assert sum(explained["totals"].values()) == 2 * explained["totals"]["jobs"]


def test_the_estimate_comes_from_logged_durations_or_is_not_given(then_and_now: Lab) -> None:
    lab = then_and_now
    plan, snapshot = lab.plan(), lab.snapshot()
    assert set(expected_durations(plan, snapshot).values()) == {None}
    assert estimate_seconds(plan, expected_durations(plan, snapshot), 2) is None
    lab.succeed()
    lab.write({"photos/3.png": "photo 3"})  # never run: as its sisters
    plan, snapshot = lab.plan(), lab.snapshot()
    durations = expected_durations(plan, snapshot)
    sisters = [snapshot.records.steps[f"Job:ThenImage[{i}]"].latest.duration for i in range(3)]
    montage = snapshot.records.steps["Job:Montage"].latest.duration
    assert durations == {"Job:ThenImage[3]": pytest.approx(sum(sisters) / 3), "Job:Montage": montage}
    assert estimate_seconds(plan, durations, 2) == pytest.approx(sum(sisters) / 3 + montage)


# --- each reason -------------------------------------------------------------------------------------------------

OLD, NEW = "3fa1" + "0" * 60, "9c02" + "0" * 60


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (RetryPreviousFailure("r0003", 1, "OSError", "no \x1b[31mspace"), "r0003 attempt 1: OSError: no �[31mspace"),
        (RetryPreviousFailure("r0003", 1, "E", ("word " * 50)[:200]), f"r0003 attempt 1: E: {'word ' * 39}word …"),
        (RetryPreviousFailure("r0003", 1, "E", ("words " * 40)[:200]), f"r0003 attempt 1: E: {'words ' * 33}…"),
        (
            MissingOutput("Artifact:A.B", "unreadable", "m.json § A"),
            "Artifact:A.B  m.json § A (the file is not a valid JSON object)",
        ),
        (MissingOutput(), "it has not succeeded yet"),
        (MissingOutput("Artifact:A.B[0]"), "Artifact:A.B[0]"),
        (MissingOutput("Artifact:A.B[0]", "deleted", "out/b"), "Artifact:A.B[0]  out/b (deleted)"),
        (MissingOutput("A.B", "unpublished", "out/b"), "A.B  out/b (not published there yet)"),
        (MissingOutput("Artifact:A.B[0]", "lost"), "Artifact:A.B[0] (its stored bytes are gone)"),
        (
            MissingOutput("Artifact:A.B[0]", "retyped", "out/b.md"),
            "Artifact:A.B[0]  out/b.md (it was made with another type, suffix or `append`)",
        ),
        (InputChanged("x", "Input:X[2]", None, OLD, NEW), "x ← Input:X[2]  3fa1… → 9c02…"),
        (InputChanged("x", "Input:X", "Input:Y", OLD, NEW), "x ← Input:X (was Input:Y)  3fa1… → 9c02…"),
        (InputChanged("x", "Input:X", None, OLD, NEW, 3, 4), "x ← Input:X  3 → 4"),
        (InputChanged("c", "Input:A[0].with.c", None, OLD, NEW, "a", None), 'Input:A[0].with.c  "a" → 9c02…'),
        (InputChanged("action", "Input:A[0].action", None, OLD, NEW), "Input:A[0].action  3fa1… → 9c02…"),
        (
            InputChanged("action", "Input:A[0].action", None, OLD, NEW, files=("helpers.py", "a/b.py")),
            "Input:A[0].action  3fa1… → 9c02…  (helpers.py, a/b.py)",
        ),
        (InputChanged("x", "Input:X", None, None, NEW), "x ← Input:X  9c02… (added)"),
        (  # the only member of a fan-in went: the words are those for several
            InputChanged("c", "Input:A[0].with.c", "Artifact:B.C[1]", OLD, NEW, None, {}),
            "c ← Artifact:B.C[1]  3fa1… (removed), {} (added)",
        ),
        (InputChanged("c", None, "Input:A[0].with.c", OLD, None, "a"), 'Input:A[0].with.c  "a" (removed)'),
        (InputChanged("x", "Input:X", None, OLD, OLD), "x ← Input:X  the same content in another place or form"),
        *(
            (InputChanged("x", "Input:X", None, OLD, OLD, old_as=old, new_as=new), f"x ← Input:X  {told}")
            for old, new, told in (
                ("f.csv", "f.tsv", "the same content in another place or form"),
                ("t.csv", "t.tsv", "the same content in another place or form"),
                ("t.txt", "t.txt[]", "the same content in another place or form"),
                ("f", "t", "given as text, not as a file"),
                ("f.csv", "t.txt[]", "given as text, not as a file"),
                ("t.txt[]", "f.txt", "given as a file, not as text"),
                ("t.txt", "d", "the same content in another place or form"),
                ("a", "at", "given as texts, not as files"),
                ("at[]", "a", "given as files, not as texts"),
                ("a", "a[]", "the same content in another place or form"),
                ("v", "at", "the same content in another place or form"),
            )
        ),
        (InputChanged("x"), "x  an empty list was added or removed"),
        (InputChanged("x", old=OLD), "x  3fa1… → another list"),
        (InputChanged("x", problem="division by zero"), "x cannot be computed: division by zero"),
        (UpstreamFailed("Artifact:A.B"), "Artifact:A.B"),
        (UpstreamDirty("Job:A"), "Job:A"),
        (Forced("layer:0"), "--force layer:0"),
        (More("INPUT_CHANGED", 7), "… and 7 more"),
    ],
)
def test_particulars_of_each_reason(reason: Reason, text: str) -> None:
    assert reason.text("Job:A[0]") == text


def test_a_null_that_was_consumed_is_shown_as_null() -> None:
    null = "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"
    reason = InputChanged("x", "Input:X", None, null, NEW, None, 1)
    assert reason.text("Job:A[0]") == "x ← Input:X  null → 1"


def test_a_long_value_is_cut() -> None:
    reason = InputChanged("x", "Input:X", None, OLD, NEW, "a" * 100, 1)
    assert reason.text("Job:A[0]") == f'x ← Input:X  "{"a" * 78}… → 1'


# --- headlines ---------------------------------------------------------------------------------------------------


def plan_with(totals: dict[str, int], jobs: tuple[PlannedJob, ...] = (), **options: Any) -> Plan:
    full = {"jobs": sum(totals.values()), "planned": 0, "reused": 0, "clean": 0, "deferred": 0, "inactive": 0, **totals}
    summary = {"available": 0, "failed": [], "inputs_changed": [], "jobs": {}}
    return Plan("flow", {"run": "r0003", "seq": 9}, PlanOptions(**options), full, summary, jobs)


@pytest.mark.parametrize(
    ("totals", "options", "text"),
    [
        ({"clean": 8}, {}, "nothing to do, 8 of 8 jobs up to date"),
        ({"clean": 1}, {}, "nothing to do, 1 of 1 job up to date"),
        ({"clean": 6, "inactive": 2}, {}, "nothing to do, 6 of 8 jobs up to date, 2 inactive"),
        ({"inactive": 2}, {}, "nothing to do, 0 of 2 jobs up to date, 2 inactive"),
        ({"planned": 3}, {}, "3 of 3 jobs to run  (~4 s)"),
        ({"clean": 3, "reused": 2}, {}, "none of 5 jobs to run, 2 reused from earlier runs, 3 up to date"),
        ({"clean": 3, "deferred": 2}, {"targets": ("Job:A",)},
         "none of 5 jobs to run, 2 deferred by --target Job:A, 3 up to date"),
        ({"planned": 1, "deferred": 2}, {"targets": ("Job:A", "Job:B"), "up": 2},
         "1 of 3 jobs to run, 2 deferred by --target … and --up 2  (~4 s)"),
        ({"planned": 1, "reused": 2, "clean": 3, "deferred": 4, "inactive": 5}, {"up": 1},
         "1 of 15 jobs to run, 2 reused from earlier runs, 4 deferred by --up 1, 5 inactive, 3 up to date  (~4 s)"),
    ],
)  # fmt: skip
def test_the_headline_accounts_for_every_job(totals: dict[str, int], options: dict[str, Any], text: str) -> None:
    assert headline(plan_with(totals, **options), 4.0) == f"flow after r0003: {text}"


def test_a_wide_plan_shows_the_first_of_each_block_and_says_how_to_see_all() -> None:
    jobs = tuple(PlannedJob(f"Job:A[{i}]", "shell", 0, "planned", (MissingOutput(),)) for i in range(250))
    plan = plan_with({"planned": 250}, jobs)
    lines = render_explain(plan).splitlines()
    assert len(lines) == 1 + 1 + 200 + 1
    assert lines[-2:] == [
        "  Job:A[199]   MISSING_OUTPUT  it has not succeeded yet",
        "  … and 50 more (`--all` lists them)",
    ]
    assert len(render_explain(plan, show_all=True).splitlines()) == 252


def test_a_long_list_of_deferred_jobs_is_collapsed() -> None:
    jobs = tuple(PlannedJob(f"Job:A[{i}]", "shell", 0, "deferred", (MissingOutput(),)) for i in range(25))
    plan = plan_with({"deferred": 25}, jobs, targets=("Job:B",))
    lines = render_explain(plan).splitlines()
    assert len(lines) == 1 + 1 + 10 + 1
    assert lines[-2:] == [
        "  Job:A[9]   MISSING_OUTPUT  it has not succeeded yet",
        "  … and 15 more (`--all` lists them)",
    ]
    assert len(render_explain(plan, show_all=True).splitlines()) == 27


def test_a_result_reused_from_another_job_names_it() -> None:
    job = PlannedJob("Job:A", "shell", 0, "planned", (MissingOutput(),), reuse=Reuse("r0002", "Job:B[1]", {}))
    assert render_explain(plan_with({"reused": 1}, (job,))).splitlines()[-1] == (
        "          reuse           r0002 (Job:B[1])"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.1 s"), (0.31, "0.3 s"), (4.2, "4 s"), (89, "89 s"), (90, "2 min"), (4000, "67 min"), (7260, "2 h 1 min")],
)
def test_durations_as_one_says_them(seconds: float, text: str) -> None:
    assert about(seconds) == text


def test_explain_json_is_plain_json(then_and_now: Lab) -> None:
    plan = then_and_now.plan()
    assert json.loads(json.dumps(explain_json(plan))) == explain_json(plan)
