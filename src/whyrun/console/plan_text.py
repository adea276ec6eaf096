"""The short form of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from whyrun.planning.answers.explain import headline, job_lines
from whyrun.planning.answers.listing import Listed, Listing, closing_line, listed, summary_lines
from whyrun.planning.plan import Plan, PlannedJob
from whyrun.planning.reasons import More


def render_plan(
    plan: Plan, *, estimate: float | None = None, show_all: bool = False, listing: Listing | None = None
) -> str:
    """The short form: each job under its layer with its first reason. `explain` shows all reasons."""
    listing = listing or Listing(show_all=show_all)
    jobs = listed(plan, listing)
    text = [headline(plan, estimate), *(summary_lines(jobs) if jobs.summary else _short_lines(jobs))]
    closing = closing_line(plan, listing, jobs)
    return "\n".join(text if closing is None else [*text, closing])


def _short_lines(listed_jobs: Listed) -> Iterator[str]:
    width = max((len(job.id) for block in listed_jobs.blocks for job in block.jobs), default=0)
    for block in listed_jobs.blocks:
        yield block.title
        for job in block.jobs:
            yield f"  {job.id:<{width}}   {_short(job)}".rstrip()
        if block.total > len(block.jobs):
            yield f"  … and {block.total - len(block.jobs)} more (`--all` lists them)"


def _short(job: PlannedJob) -> str:
    if job.state == "inactive":
        return job_lines(job)[0][0]
    marks = []
    others = sum(reason.more if isinstance(reason, More) else 1 for reason in job.reasons) - 1
    if others:
        marks.append(f"+{others}")
    if job.reuse is not None:
        marks.append(f"reuse {job.reuse.run}")
    if job.conditional:
        marks.append("conditional")
    return f"{job.headline}" + (f" ({', '.join(marks)})" if marks else "")
