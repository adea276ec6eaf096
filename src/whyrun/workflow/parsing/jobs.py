"""The jobs of one file, in two passes: first the shapes that references need, then everything that may refer."""

from __future__ import annotations

from whyrun.workflow.fields import meant_key
from whyrun.workflow.model import JobDecl
from whyrun.workflow.nodes import ListNode, MapNode, Node, Scalar
from whyrun.workflow.parsing.job_expressions import JobDraft
from whyrun.workflow.parsing.job_keys import JOB_KEY_NAMES, JOB_KEYS, JobReader, Read
from whyrun.workflow.scope import JobShape, Names

_ACTION_PARAMETERS = ("run", "call", "script", "shell")  # of the built-in actions
_ELSEWHERE = {
    **{name: f"`{name}` belongs under `with:`" for name in _ACTION_PARAMETERS},
    **dict.fromkeys(("inputs", "args", "params", "parameters"), "write parameters of the action under `with:`"),
    "steps": "a job is one step: make each a job of its own",
}


class Jobs(JobReader):
    """Reads jobs by the table of keys."""

    def draft(self, key: Scalar, node: Node, names: Names) -> JobDraft:
        """The first pass. `names` has no jobs yet: output paths cannot refer to any."""
        job = JobDraft(key, names)
        entries = self.as_map(node, job.what, "write `uses:` and the other keys below it")
        if entries is None:
            job.broken.add("for")
            return job
        job.fields = self.known_keys(entries, JOB_KEY_NAMES, job.what, _ELSEWHERE)
        job.broken |= entries.duplicates
        for unknown, value in [(k.value, value) for k, value in entries.entries if k.value not in JOB_KEY_NAMES]:
            if unknown in _ELSEWHERE:
                job.broken.add("with")
            elif meant_key(unknown, JOB_KEY_NAMES) is None:
                job.broken |= {name for name in _may_be_meant(value, names) if name not in job.fields}
        if "uses" not in job.fields:
            self.problems.add(key.place, "MISSING_KEY", f"{job.what} has no `uses`", "name the action: `uses: shell`")
        job.loops = None if "for" in job.broken else ()
        job.output_shapes = None if "outputs" in job.broken else {}
        self._read(job, Read.SHAPE)
        job.shape = JobShape(job.loops, job.output_shapes)
        return job

    def job(self, job: JobDraft, names: Names) -> JobDecl:
        """The second pass, which knows the names of all jobs."""
        job.names = names
        for name, node in job.fields.items():
            job.places[name] = node.place
        self._read(job, Read.NAMES)
        self._read(job, Read.VALUES)
        return JobDecl(
            name=job.key.value, place=job.key.place, places=job.places, broken=frozenset(job.broken), **job.values
        )

    def _read(self, job: JobDraft, phase: Read) -> None:
        for row in JOB_KEYS:
            if row.when is phase and row.name in job.fields:
                job.values[row.field] = row.read(self, job, job.fields[row.name])


def _may_be_meant(value: Node, names: Names) -> tuple[str, ...]:
    """The keys that a value under an unknown key may belong to: `matrix: [a]` may be meant as `for: [a]`."""
    if isinstance(value, MapNode):
        return "with", "outputs", "env"
    if isinstance(value, ListNode):
        return "for", "exclude", "include", "secrets"
    assert isinstance(value, Scalar)
    return ("for",) if value.value in list(names.loops) else ()
