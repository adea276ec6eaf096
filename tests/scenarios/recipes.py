"""How each scenario came to be: the files, the runs, what was changed afterwards, and the question asked of it.

The logs in the folders were written by real runs of these recipes (`make.py`). They are kept, so that a later change of
the engine is judged against logs that it did not write. The tests also run each recipe afresh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from project_lab import Lab
from whyrun.log import events as ev

Log = list[ev.AnyEvent]


@dataclass(frozen=True)
class Recipe:
    why: str
    files: dict[str, str]
    history: Callable[[Lab], None] = lambda lab: None
    edit: Callable[[dict[str, Log]], None] = lambda logs: None  # for what no run of ours writes
    options: dict[str, Any] = field(default_factory=dict)  # up, targets, force


# --- the running example of the contract --------------------------------------------------------------------------

THEN_AND_NOW = """\
workflow: then-and-now
description: Portraits then and now
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
      Story:
        type: json
        leaves:
          "Segments[segment].HasTransition": boolean
  ThenImage:
    for: [character]
    uses: image/sepia
    with:
      caption: "a portrait, ${{ inputs.Topic }}"
      SourceImages: ["${{ inputs.ThenImages[character] }}"]
    outputs: {Image: {type: image}}
  Clip:
    for: [segment]
    if: ${{ jobs.Script.outputs.Story.Segments[segment].HasTransition }}
    uses: shell
    with:
      start: ${{ first(jobs.Clip.outputs.Frame[segment-1], jobs.ThenImage.outputs.Image[0]) }}
      run: cat "$start" > "$out_Frame"; echo frame >> "$out_Frame"
    timeout: 5m
    retries: {max: 2, backoff: 10s}
    outputs: {Frame: {type: image, path: "out/frame-${{ segment }}.png"}}
  Montage:
    uses: image/montage
    with:
      portraits: ${{ jobs.ThenImage.outputs.Image[:] }}
      frames: ${{ jobs.Clip.outputs.Frame[:] }}
    outputs: {Picture: {type: image, path: out/montage.png}}
"""

STORY = """\
def write(topic, segments):
    return {"Story": {"topic": topic, "Segments": [{"HasTransition": True} for _ in range(segments)]}}
"""

IMAGE = '''\
"""Pictures that are lines of text, so that a test can read them."""

from pathlib import Path

from whyrun.actions.base import action


@action("image/sepia", outputs={"Image": "image"})
def sepia(caption, SourceImages):
    data = SourceImages[0].read_bytes()
    # Undeclared on purpose: it makes a failure that no input explains.
    if data.startswith(b"broken") or (Path(__file__).parent.parent / "decoder-is-broken").exists():
        raise OSError("cannot identify image file")
    return {"Image": data + b" in sepia: " + caption.encode() + b"\\n"}


@action("image/montage", outputs={"Picture": "image"})
def montage(portraits, frames):
    return {"Picture": b"".join(path.read_bytes() for path in [*portraits, *frames])}
'''

TN = {
    "workflow.yaml": THEN_AND_NOW,
    "story.py": STORY,
    "actions/image.py": IMAGE,
    "photos/a.png": "photo a",
    "photos/b.png": "photo b",
    "photos/c.png": "photo c",
}


def success(lab: Lab) -> None:
    lab.succeed(jobs=1)


def one_photo_changed(lab: Lab) -> None:
    success(lab)
    lab.write({"photos/c.png": "photo c, retouched"})


def leaf_was_never_recorded(logs: dict[str, Log]) -> None:
    """What a log of a writer that forgets leaves would look like."""
    logs["r0001"][:] = [
        e for e in logs["r0001"]
        if not (isinstance(e, ev.ArtifactAvailable) and e.artifact == "Artifact:Script.Story.Segments[0].HasTransition")
    ]  # fmt: skip


def page_30(lab: Lab) -> None:
    """r0003 failed at ThenImage[0], which nothing but the machine explains; then photo 2 was changed."""
    success(lab)
    assert lab.succeed(jobs=1, force=["Job:Script"]).executed == ["Job:Script"]
    lab.write({"decoder-is-broken": ""})
    assert lab.run(jobs=1, force=["Job:ThenImage[0]"]).exit_code == 1
    lab.write({"decoder-is-broken": None, "photos/c.png": "photo c, retouched"})


def topic_changed(lab: Lab) -> None:
    success(lab)
    lab.edit("workflow.yaml", "default: cinema", "default: theatre")


def topic_set_back(lab: Lab) -> None:
    topic_changed(lab)
    lab.succeed(jobs=1)
    lab.edit("workflow.yaml", "default: theatre", "default: cinema")


def photo_broke(lab: Lab) -> None:
    success(lab)
    lab.write({"photos/a.png": "broken"})
    assert lab.run(jobs=1).exit_code == 1


WITH_PREVIEW = {
    **TN,
    "workflow.yaml": THEN_AND_NOW.replace(
        "    outputs: {Image: {type: image}}\n",
        '    outputs: {Image: {type: image}, Preview: {type: text, path: "out/preview-${{ character }}.txt"}}\n',
    ),
    "actions/image.py": IMAGE.replace(
        'outputs={"Image": "image"}', 'outputs={"Image": "image", "Preview": "text"}'
    ).replace('b"\\n"}', 'b"\\n", "Preview": caption}'),
}

NO_SECOND_TRANSITION = {
    **TN,
    "story.py": STORY.replace('"HasTransition": True', '"HasTransition": i != 1').replace("for _ in", "for i in"),
}

# --- three layers, two branches ------------------------------------------------------------------------------------

BRANCHES = """\
workflow: branches
inputs:
  Sources: {type: "file[]", default: "sources/*.txt"}
  Level:   {type: integer, default: 1}
  Title:   {type: string, default: Report}
loops:
  source: {each: inputs.Sources}
jobs:
  Fetch:
    for: [source]
    uses: shell
    with:
      source: ${{ inputs.Sources[source] }}
      run: grep -v bad "$source" > "$out_Raw"
    outputs: {Raw: {type: text}}
  Clean:
    for: [source]
    uses: shell
    with:
      raw: ${{ jobs.Fetch.outputs.Raw[source] }}
      level: ${{ inputs.Level }}
      run: cat "$raw" > "$out_Tidy"; echo "level $level" >> "$out_Tidy"
    outputs: {Tidy: {type: text, path: "out/tidy-${{ source }}.txt"}}
  Report:
    uses: shell
    with:
      title: ${{ inputs.Title }}
      parts: ${{ jobs.Clean.outputs.Tidy[:] }}
      run: echo "$title" > "$out_Page"; cat "${parts[@]}" >> "$out_Page"
    outputs: {Page: {type: text, path: out/report.txt}}
"""

BR = {"workflow.yaml": BRANCHES, "sources/x.txt": "x one\n", "sources/y.txt": "y one\n"}


def level_and_title_changed(lab: Lab) -> None:
    success(lab)
    lab.edit("workflow.yaml", "default: 1}", "default: 2}").edit("workflow.yaml", "default: Report}", "default: Story}")


def first_source_is_bad(lab: Lab) -> None:
    lab.write({"sources/x.txt": "bad\n"})
    assert lab.run(jobs=1).exit_code == 1


def killed_in_the_second_fetch(logs: dict[str, Log]) -> None:
    """The log as a kill leaves it: the last start has no end, and the run has none either."""
    log = logs["r0001"]
    start = next(i for i, e in enumerate(log) if isinstance(e, ev.StepStart) and e.step_id == "Job:Fetch[1]")
    del log[start + 1 :]


# --- more members than an event lists ------------------------------------------------------------------------------

WIDE = """\
workflow: wide
inputs:
  Factor: {type: integer, default: 1}
loops:
  item: {range: 0-69}
jobs:
  Part:
    for: [item]
    uses: python
    with: {call: "parts:make", item: "${{ item }}", factor: "${{ 2 if item == 5 and inputs.Factor > 1 else 1 }}"}
    outputs: {Value: {type: text}}
  Sum:
    uses: python
    with: {call: "parts:join", values: "${{ jobs.Part.outputs.Value[:] }}"}
    outputs: {Total: {type: text, path: out/total.txt}}
"""

PARTS = """\
def make(item, factor):
    return {"Value": f"{item * factor} "}


def join(values):
    return {"Total": "".join(path.read_text() for path in values)}
"""

WIDE_FILES = {"workflow.yaml": WIDE, "parts.py": PARTS}


def member_changed_by_an_up_run(lab: Lab) -> None:
    success(lab)
    lab.edit("workflow.yaml", "default: 1}", "default: 2}")
    assert lab.succeed(jobs=1, up=1).executed == ["Job:Part[5]"]


RECIPES: dict[str, Recipe] = {
    "first-run": Recipe("Nothing ran yet: everything is planned, because nothing has been made.", TN),
    "then-and-now": Recipe("After one good run: nothing to do.", TN, success),
    "missing-leaf": Recipe(
        "The story is recorded, one declared leaf of it is not: MISSING_OUTPUT names the leaf, nothing is inferred.",
        TN, success, leaf_was_never_recorded,
    ),
    "failed-image": Recipe(
        "ThenImage[0] failed in the last run; its published preview of the run before is still there and says nothing.",
        WITH_PREVIEW, photo_broke,
    ),
    "up-boundary": Recipe(
        "Dirty roots in layers 1 and 2, layer 0 clean, --up 1: the dirty jobs of layer 1 and nothing else.",
        BR, level_and_title_changed, options={"up": 1},
    ),
    "upstream-failed": Recipe(
        "One source is bad: its branch is blocked and never ran, the other branch is done.", BR, first_source_is_bad
    ),
    "one-photo-changed": Recipe("One element changed: its own instance and what follows it.", TN, one_photo_changed),
    "page-30": Recipe("The example of the contract, to the word.", TN, page_30, options={"up": 1}),
    "inactive": Recipe(
        "The second segment has no transition: Clip[1] is inactive, and Clip[2] starts from the portrait.",
        NO_SECOND_TRANSITION, success,
    ),
    "deferred-by-target": Recipe(
        "The topic changed, which touches nearly all; only the script is asked for.",
        TN, topic_changed, options={"targets": ["Artifact:Script.Story"]},
    ),
    "forced-layer": Recipe(
        "Everything is up to date, and layer 1 is forced.", TN, success, options={"force": ["layer:1"]}
    ),
    "reuse-certain": Recipe(
        "The topic was changed, run, and set back: every result is known from r0001, nothing is executed.",
        TN, topic_set_back,
    ),
    "wide-fan-in": Recipe(
        "70 members, one of which was changed by an --up run: the reason names the member.",
        WIDE_FILES, member_changed_by_an_up_run,
    ),
    "killed-run": Recipe(
        "A run was killed and not repaired: its open step counts as interrupted.",
        BR, success, killed_in_the_second_fetch,
    ),
}  # fmt: skip
