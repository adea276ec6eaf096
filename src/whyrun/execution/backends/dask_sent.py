"""What the Dask backend knows of what it has sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whyrun.execution.backends.dask_cluster import Future
from whyrun.execution.backends.remote import RemoteJob
from whyrun.execution.commands import StepNeeds


def is_plain(job: RemoteJob) -> bool:
    """Whether it may be sent together with others: it waits for no secrets and occupies nothing."""
    return not job.secrets and not job.needs.resources


class Task:
    """A task of the cluster: one step, or some short ones."""

    def __init__(self, future: Future, steps: list[Sent]) -> None:
        self.future = future
        self.steps = steps
        self.over = False  # nothing more is wanted of it
        self.missed = 0  # looks at the cluster that did not find its worker
        for sent in steps:
            sent.task = self

    @property
    def worker(self) -> str | None:
        """Where it is, as far as any of its steps has been heard of."""
        return next((sent.worker for sent in self.steps if sent.worker is not None), None)


class Sent:
    """A step that the cluster has."""

    def __init__(self, job: RemoteJob, number: int) -> None:
        self.job = job
        self.number = number  # of its task
        self.worker: str | None = None
        self.task: Task | None = None
        self.expected = 0  # the number of its next message
        self.began = 0.0
        self.told_to_end = False  # by the host


def asked_of_cluster(needs: StepNeeds, offered: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The resources that the cluster's workers offer; the others are Whyrun's own to count."""
    wanted = {name: amount for name, amount in needs.resources.items() if any(name in offer for offer in offered)}
    if wanted and not any(all(offer.get(name, 0) >= amount for name, amount in wanted.items()) for offer in offered):
        told = ", ".join(f"{name}: {amount:g}" for name, amount in wanted.items())
        raise ValueError(f"no worker of the cluster has {told}")
    return wanted
