"""The jobs of one file, in two passes: first the shapes that references need, then everything that may refer.

Also `defaults:`, the keys for all jobs of the file.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from whyrun.workflow.fields import Schema, meant_key, names_of, object_schema, without_colon
from whyrun.workflow.model import JobDecl
from whyrun.workflow.nodes import ListNode, MapNode, Node, Scalar
from whyrun.workflow.parsing.job_expressions import JobDraft
from whyrun.workflow.parsing.job_keys import JOB_KEY_NAMES, JOB_KEYS, JobReader, Read
from whyrun.workflow.scope import JobShape, Names

_ACTION_PARAMETERS = ("run", "call", "script", "shell")  # of the built-in actions
# Our own keys in a wrong place. Words of other tools are in `foreign_words`.
_JOB_KEYS_ELSEWHERE = {
    **{name: f"`{name}` belongs under `with:`" for name in _ACTION_PARAMETERS},
    **{
        name: f"`{name}` belongs to an output: `outputs: {{NAME: {{type: file, {name}: …}}}}`"
        for name in ("path", "leaves")
    },
    **{name: f"`{name}:` belongs at the top of the file" for name in ("workflow", "jobs", "imports", "composition")},
}


# What a job does, reads and makes, and whether it runs at all, is said of each job; `defaults:` says how jobs run.
_OF_EACH_JOB = frozenset({"with", "for", "exclude", "include", "outputs", "if", "needs", "description"})
DEFAULT_KEYS = tuple(replace(row, required=False) for row in JOB_KEYS if row.name not in _OF_EACH_JOB)
DEFAULT_KEY_NAMES = names_of(DEFAULT_KEYS)
_REFUSED = frozenset({"jobs", "loops"})  # in expressions: they may be there for one job and not for another
_NO_DEFAULTS = {
    **{name: f"`{name}` is different for each job: write it below the name of the job" for name in _OF_EACH_JOB},
    **{name: f"`{name}` belongs under `with:` of a job" for name in _ACTION_PARAMETERS},
}


def defaults_schema() -> Schema:
    return object_schema(DEFAULT_KEYS)


class Defaults(msgspec.Struct, frozen=True):
    """`defaults:` of a file. `broken`: keys that could not be read; nothing more is said of them for any job."""

    fields: dict[str, Node] = {}
    broken: frozenset[str] = frozenset()


class Jobs(JobReader):
    """Reads jobs by the table of keys."""

    def defaults(self, node: Node, names: Names) -> Defaults:
        """Each value is read once here, so that a mistake in it is reported once and not for every job."""
        entries = self.as_map(node, "`defaults`", "write keys of jobs below it: `timeout: 5m`")
        if entries is None:
            return Defaults({}, frozenset(DEFAULT_KEY_NAMES))
        fields = self.known_keys(entries, DEFAULT_KEY_NAMES, "`defaults`", _NO_DEFAULTS, "job")
        if not entries.entries:
            return Defaults()
        trial = JobDraft(entries.entries[0][0], names, "`defaults`", fields, loops=(), refused=_REFUSED)
        broken = set(entries.duplicates)
        for phase in (Read.NAMES, Read.VALUES):
            for row in DEFAULT_KEYS:
                failures = self.problems.failures
                if row.when is phase and row.name in fields:
                    trial.values[row.field] = row.read(self, trial, fields[row.name])
                    broken |= {row.name} if self.problems.failures > failures else set()
        sound = {name: value for name, value in fields.items() if name not in broken}
        return Defaults(sound, frozenset(broken))

    def draft(self, key: Scalar, node: Node, names: Names, defaults: Defaults) -> JobDraft:
        """The first pass. `names` has no jobs yet: output paths cannot refer to any."""
        job = JobDraft(key, names, what=f"job `{key.value}`")
        hint = "write `uses:` and the other keys below it"
        if isinstance(node, Scalar) and (without := without_colon(node.text, JOB_KEY_NAMES)) is not None:
            hint = f"write `{without[0]}: {without[1]}`"
        entries = self.as_map(node, job.what, hint)
        if entries is None:
            job.broken.add("for")
            return job
        job.fields = self.known_keys(entries, JOB_KEY_NAMES, job.what, _JOB_KEYS_ELSEWHERE, "job")
        job.broken |= entries.duplicates | {name for name in defaults.broken if name not in job.fields}
        for unknown, value in [(k.value, value) for k, value in entries.entries if k.value not in JOB_KEY_NAMES]:
            from whyrun.workflow.foreign_words import foreign_words  # imported late: only this mistake needs it

            if unknown in foreign_words("job"):
                job.broken.add(foreign_words("job")[unknown].ours)
            elif unknown in _JOB_KEYS_ELSEWHERE:
                job.broken.add("with" if unknown in _ACTION_PARAMETERS else "outputs")
            elif meant_key(unknown, JOB_KEY_NAMES) is None:
                job.broken |= {name for name in _may_be_meant(value, names) if name not in job.fields}
        job.fields = {
            **{name: value for name, value in defaults.fields.items() if name not in job.fields},
            **job.fields,
        }
        if "uses" not in job.fields and "uses" not in defaults.broken:
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
