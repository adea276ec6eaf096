"""Which jobs of a plan are shown: all, a page, those with a reason, or a summary. Pure.

A plan may have a million jobs. Beyond `SUMMARISED` jobs, the listing counts them by job and reasons, unless the user
chooses some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from whyrun.errors import column_width, padded
from whyrun.graph.tables import Graph
from whyrun.ids import IdPattern, any_index, shape_of, without_indices
from whyrun.planning.plan import Plan, PlannedJob

SUMMARISED = 1000  # jobs: of more, a summary is shown
SHOWN = 200  # jobs of one block; `--all` shows every one
DEFERRED = 10  # jobs of the block `deferred`
SHAPES = 5  # patterns in a note
STATUSES = ("planned", "reused", "open", "deferred", "inactive")


class Listing(msgspec.Struct, frozen=True):
    """The jobs that the user wants to see. A job must match every option that is given."""

    reasons: tuple[str, ...] = ()  # only jobs with one of these codes
    nodes: frozenset[int] | None = None  # only these jobs
    statuses: tuple[str, ...] = ()
    limit: int | None = None
    offset: int = 0
    show_all: bool = False
    summary: bool = False
    whole: Callable[[PlannedJob], PlannedJob] | None = None  # adds the particulars that the plan only counts

    @property
    def chooses(self) -> bool:
        return bool(self.reasons or self.statuses or self.nodes is not None)

    @property
    def pages(self) -> bool:
        return self.limit is not None or self.offset > 0

    def wants(self, job: PlannedJob) -> bool:
        return (
            (not self.reasons or any(reason.code in self.reasons for reason in job.reasons))
            and (self.nodes is None or job.node in self.nodes)
            and (not self.statuses or status_of(job) in self.statuses)
        )

    def page(self, jobs: Sequence[PlannedJob]) -> Sequence[PlannedJob]:
        return jobs[self.offset : None if self.limit is None else self.offset + self.limit]


class Block(msgspec.Struct, frozen=True):
    """Jobs under one title. `total` counts also those that are not shown."""

    title: str
    jobs: Sequence[PlannedJob]
    total: int


class Listed(msgspec.Struct, frozen=True):
    blocks: Sequence[Block]
    chosen: int  # matching jobs on all pages
    summary: bool  # the jobs are counted, not listed


def status_of(job: PlannedJob) -> str:
    return "reused" if job.state == "planned" and job.reuse is not None else job.state


def listed(plan: Plan, listing: Listing) -> Listed:
    chosen = [job for job in plan.jobs if listing.wants(job)] if listing.chooses else plan.jobs
    summary = listing.summary or (len(chosen) > SUMMARISED and not listing.show_all and not listing.pages)
    if listing.pages:
        # In the order of the blocks, so that all pages together are the whole list.
        in_order = [job for _, jobs in plan_blocks(chosen) for job in jobs]
        blocks = [Block(title, jobs, len(jobs)) for title, jobs in plan_blocks(listing.page(in_order))]
    else:
        whole = listing.show_all or listing.chooses or summary
        blocks = [
            Block(title, jobs if whole else jobs[: DEFERRED if title == "deferred" else SHOWN], len(jobs))
            for title, jobs in plan_blocks(chosen)
        ]
    if listing.whole is not None:
        blocks = [Block(block.title, list(map(listing.whole, block.jobs)), block.total) for block in blocks]
    return Listed(blocks, len(chosen), summary)


def plan_blocks(jobs: Sequence[PlannedJob]) -> list[tuple[str, list[PlannedJob]]]:
    """The jobs under their titles: one block for each layer with planned jobs, then open, deferred and inactive."""
    layers: dict[int, list[PlannedJob]] = {}
    others: dict[str, list[PlannedJob]] = {"open": [], "deferred": [], "inactive": []}
    for job in jobs:
        if job.state == "planned":
            layers.setdefault(job.layer, []).append(job)
        else:
            others[job.state].append(job)
    blocks = [(f"layer {number}", layers[number]) for number in sorted(layers)]
    return blocks + [(title, jobs) for title, jobs in others.items() if jobs]


# --- patterns ----------------------------------------------------------------------------------------------------


def narrow_patterns(graph: Graph, texts: Iterable[str]) -> Iterator[str]:
    """A note for each pattern that stands for fewer jobs or artifacts than a reader would think, such as `Job:*`."""
    for text in dict.fromkeys(texts):
        if "*" not in text or not text.startswith(("Job:", "Artifact:")):
            continue
        pattern, what = IdPattern(text), "jobs" if text.startswith("Job:") else "artifacts"
        ids = [id_ for id_ in (graph.node_of if what == "jobs" else graph.artifact_of) if pattern.reads_as(id_)]
        others = [id_ for id_ in ids if not pattern.matches(id_)]
        if others:
            wider = [f"`{shape}`" for shape in dict.fromkeys(shape_of(text, id_) for id_ in others)]
            few, others_text = len(ids) - len(others), ", ".join([*wider[:SHAPES], *(["…"] if wider[SHAPES:] else [])])
            why = "because a `*` is one whole name or index"
            yield f"`{text}` stands for {few} of {len(ids)} {what}, {why}; the others: {others_text}"


# --- text --------------------------------------------------------------------------------------------------------


def summary_rows(jobs: Sequence[PlannedJob]) -> list[tuple[str, str, str]]:
    """One row for all instances of a job with the same reasons: (`Job:Fit[*]`, `120 jobs`, their codes)."""
    counted: dict[tuple[str, tuple[str, ...]], int] = {}
    patterns: dict[str, str] = {}
    for job in jobs:
        name = without_indices(job.id)
        if name not in patterns:
            patterns[name] = any_index(job.id)
        key = name, _codes(job)
        counted[key] = counted.get(key, 0) + 1
    return [
        (patterns[name], "1 job" if number == 1 else f"{number} jobs", ", ".join(codes))
        for (name, codes), number in counted.items()
    ]


def _codes(job: PlannedJob) -> tuple[str, ...]:
    codes = list(dict.fromkeys(reason.code for reason in job.reasons))
    if job.state == "inactive":
        codes.append("source_inactive" if "source" in job.because else "condition_false")
    if job.reuse is not None:
        codes.append("reuse")
    if job.conditional:
        codes.append("conditional")
    return tuple(codes)


def summary_lines(shown: Listed) -> Iterator[str]:
    rows = {block.title: summary_rows(block.jobs) for block in shown.blocks}
    names = column_width(row[0] for block in rows.values() for row in block)
    counts = max((len(row[1]) for block in rows.values() for row in block), default=0)
    for title, block in rows.items():
        yield title
        for pattern, number, codes in block:
            yield f"  {padded(pattern, names)}   {number:>{counts}}   {codes}".rstrip()


def closing_line(plan: Plan, listing: Listing, shown: Listed) -> str | None:
    """What the listing leaves out, and the options that show it."""
    if listing.pages:
        first, number = listing.offset + 1, sum(len(block.jobs) for block in shown.blocks)
        if not number:
            return f"no jobs from {first} on: there are {shown.chosen}"
        last = listing.offset + number
        on = f" (`--offset {last}` continues)" if last < shown.chosen else ""
        return f"jobs {first} to {last} of {shown.chosen}{on}"
    if listing.chooses and not shown.chosen:
        return f"none of the {len(plan.jobs)} jobs in the plan is chosen by these options"
    if shown.summary:
        return (
            f"a summary of {shown.chosen} jobs; `--limit N --offset M` lists a page of them, `--all` every one, "
            "`--job ID`, `--reason CODE` and `--status S` some"
        )
    return f"{shown.chosen} of the {len(plan.jobs)} jobs in the plan" if listing.chooses else None
