"""What is told beside a plan, because it changes nothing in it: packages in other versions, and files to bind. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from whyrun.snapshot.reads import ObservedReads

MOST = 20  # of each kind


def told(reads: ObservedReads) -> Iterator[str]:
    for read in reads.unbound[:MOST]:
        yield f"Job:{read.job} reads {read.path}, which Job:{read.maker} makes: bind it"
    if len(reads.unbound) > MOST:
        yield f"… and {len(reads.unbound) - MOST} more that read what others make (`whyrun reads` lists them)"
    if reads.counts_packages:
        return  # then they are reasons
    for one in reads.outdated[:MOST]:
        jobs = "1 job" if one.jobs == 1 else f"{one.jobs} jobs"
        now = f"now {one.new}" if one.new else "which is not installed now"
        yield f'{jobs} ran with {one.name} {one.old}, {now}: not counted (whyrun.toml: packages = "count")'
    if len(reads.outdated) > MOST:
        yield f"… and {len(reads.outdated) - MOST} more packages"
