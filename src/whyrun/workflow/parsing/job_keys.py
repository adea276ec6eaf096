"""The table of job keys: one row per key says how it is read, its JSON Schema, what it means, and whether it counts.

`file` reads a job by this table. The JSON Schema (in `parse`) and the docs print it. To add a key, write a row, its
reader, and a field of `JobDecl`.

Whether a key counts is stated here for the docs, not decided: `graph/fingerprint.py` decides it. For each key,
`tests/workflow/test_job_keys.py` changes the value and holds the row to the fingerprint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from whyrun.errors import did_you_mean
from whyrun.workflow.fields import (
    NAME_PATTERN,
    PARAMETER_NAME,
    PARAMETER_PATTERN,
    Key,
    Schema,
    in_list,
    list_schema,
    map_schema,
    names_of,
    object_schema,
    path_problem,
)
from whyrun.workflow.model import LoopDecl, Retries
from whyrun.workflow.nodes import MapNode, Node, Problems, Scalar, has_duplicates, kind_of, plain_value
from whyrun.workflow.parsing.job_expressions import JobDraft
from whyrun.workflow.parsing.loops import is_open
from whyrun.workflow.parsing.running_keys import (
    CONTAINER_KEYS,
    ENVIRONMENT_KEYS,
    ISOLATIONS,
    REUSE_SCOPES,
    SANDBOX_KEYS,
    WORKDIRS,
    RunningKeys,
)
from whyrun.workflow.scope import AnyKey, Names, jobs_below

MAX_RETRIES = 1000


class JobReader(RunningKeys):
    """The readers of all job keys. A key that is absent is not read: `JobDecl` has its default."""

    def __init__(self, problems: Problems, loops: Mapping[str, LoopDecl | None]) -> None:
        super().__init__(problems)
        self.loop_decls = loops

    def needs(self, job: JobDraft, node: Node) -> tuple[str, ...]:
        names = job.names
        needed: list[str] = []
        for text, item in self.strings(
            node, f"`needs` of {job.what}", "a job", f"write `needs: {in_list(node, 'job')}`"
        ):
            job.places[f"needs[{len(needed)}]"] = item.place
            inner: Names | None = names
            *imports, name = text.split(".")
            for part in imports:
                if inner is not None and part not in inner.imports and isinstance(inner.jobs, AnyKey):
                    inner = None  # it may be an import that could not be read
                if inner is not None:
                    inner = inner.imports[part] if part in inner.imports else Names({}, frozenset(), {}, {})
            if inner is None:
                continue  # the imported file is broken, and that is reported
            if name in inner.imports:
                within = inner.imports[name]
                if text == job.key.value:
                    self.problems.add(item.place, "CYCLE", f"{job.what} needs itself", "remove it")
                elif within is not None:
                    needed.extend(jobs_below(within, text.replace(".", "/") + "/"))
            elif name not in inner.jobs:
                known = [
                    *names.jobs,
                    *names.imports,
                    *(f"{i}.{j}" for i, n in names.imports.items() if n for j in n.jobs),
                ]
                hint = did_you_mean(text, known)
                self.problems.add(item.place, "UNKNOWN_REFERENCE", f"there is no job `{text}`", hint)
            elif text == job.key.value:
                self.problems.add(item.place, "CYCLE", f"{job.what} needs itself", "remove it")
            else:
                needed.append(text.replace(".", "/"))
        return tuple(needed)

    def code(self, job: JobDraft, node: Node) -> tuple[str, ...]:
        hint = "write `code: [scripts/*.py]`"
        failures = self.problems.failures
        patterns = self.strings(node, f"`code` of {job.what}", "a pattern", hint)
        for index, (pattern, item) in enumerate(patterns):
            job.places[f"code[{index}]"] = item.place
            problem = path_problem(pattern)
            if problem is not None:
                self.problems.add(item.place, "PATH_OUTSIDE", f"`{pattern}` in `code` is refused: {problem}", hint)
        if self.problems.failures > failures:
            job.broken.add("code")
        return tuple(pattern for pattern, _ in patterns)

    def timeout(self, job: JobDraft, node: Node) -> float | None:
        return self.duration(node, f"`timeout` of {job.what}")

    def retries(self, job: JobDraft, node: Node) -> Retries:
        what = f"`retries` of {job.what}"
        if not isinstance(node, MapNode):
            return Retries(self._retry_count(node, what))
        fields = self.known_keys(node, names_of(RETRIES_KEYS), what, place="retries")
        if "max" not in fields:
            self.problems.add(node.place, "MISSING_KEY", f"{what} has no `max`", "write `{max: 2, backoff: 10s}`")
        count = self._retry_count(fields["max"], what) if "max" in fields else 0
        backoff = None
        if "backoff" in fields:
            backoff = self.duration(fields["backoff"], f"`backoff` of {job.what}", zero=True)
        return Retries(count, backoff or 0.0)

    def _retry_count(self, node: Node, what: str) -> int:
        count = plain_value(node)
        if type(count) is int and 0 <= count <= MAX_RETRIES:
            return count
        is_quoted = isinstance(count, str) and count.isdecimal()
        hint = f"write `{count}`, without quotes" if is_quoted else "write `2` or `{max: 2, backoff: 10s}`"
        self.wrong(node, f"{what} is not a whole number from 0 to {MAX_RETRIES}", hint)
        return 0

    def resources(self, job: JobDraft, node: Node) -> dict[str, float]:
        entries = self.as_map(node, f"`resources` of {job.what}", "write `{gpu: 1}`")
        amounts: dict[str, float] = {}
        for key, value in entries.entries if entries else ():
            amount = plain_value(value)
            if not PARAMETER_NAME.fullmatch(key.value):
                message = f"`{key.value}` cannot be the name of a resource"
                self.problems.add(key.place, "NAME_INVALID", message, "use letters, digits, `_` and `-`")
            elif isinstance(amount, bool) or not isinstance(amount, int | float) or amount < 0:
                message = f"the resource `{key.value}` of {job.what} is not an amount"
                self.wrong(value, message, "write a number from 0")
            else:
                amounts[key.value] = amount
        return amounts

    def deterministic(self, job: JobDraft, node: Node) -> bool | None:
        return self.boolean(node, f"`deterministic` of {job.what}")

    def description(self, job: JobDraft, node: Node) -> str:
        return self.string(node, "a description") or ""

    def tags(self, job: JobDraft, node: Node) -> tuple[str, ...]:
        return tuple(
            tag
            for tag, _ in self.strings(
                node, f"`tags` of {job.what}", "the tag", f"write `tags: {in_list(node, 'slow')}`"
            )
        )

    # --- combinations of loops ------------------------------------------------------------------------------------

    def exclude(self, job: JobDraft, node: Node) -> tuple[dict[str, Any], ...]:
        return self._combinations(job, node, "exclude")

    def include(self, job: JobDraft, node: Node) -> tuple[dict[str, Any], ...]:
        return self._combinations(job, node, "include")

    def _combinations(self, job: JobDraft, node: Node, kind: str) -> tuple[dict[str, Any], ...]:
        """An entry of `exclude` names some or all loops, an entry of `include` names all of them."""
        hint = f"write `{kind}: [{{{', '.join(f'{loop}: …' for loop in job.loops or ('loop',))}}}]`"
        listed = self.as_list(node, f"`{kind}` of {job.what}", hint)
        combinations: list[dict[str, Any]] = []
        failures = self.problems.failures
        if over := next((loop for loop in job.loops or () if is_open(loop, self.loop_decls)), None):
            message = f"`{kind}` of {job.what} cannot name combinations: the values of `{over}` are known only in a run"
            self.problems.add(node.place, "LOOP_MISMATCH", message, "use `if:`, or leave them out of the result")
        for index, item in enumerate(listed.items if listed else ()):
            entries = self.as_map(item, f"an entry of `{kind}` of {job.what}", hint)
            if entries is None:
                continue
            job.places[f"{kind}[{index}]"] = item.place
            combination: dict[str, Any] = {}
            for key, value in entries.entries:
                if job.loops is not None and key.value not in job.loops:
                    message = f"{job.what} does not run for a loop `{key.value}`"
                    near = did_you_mean(key.value, job.loops) or "name loops of the job's `for:`"
                    self.problems.add(key.place, "UNKNOWN_LOOP", message, near)
                elif self._fits_loop(key, value):
                    combination[key.value] = plain_value(value)
            missing = [loop for loop in job.loops or () if entries.get(loop) is None]
            if not entries.entries or (kind == "include" and missing):
                names = ", ".join(f"`{loop}`" for loop in missing) or "a loop"
                self.problems.add(item.place, "MISSING_KEY", f"an entry of `{kind}` of {job.what} lacks {names}", hint)
            combinations.append(combination)
        if self.problems.failures > failures or listed is None or has_duplicates(listed):
            job.broken.add(kind)
        return tuple(combinations)

    def _fits_loop(self, key: Scalar, node: Node) -> bool:
        value = plain_value(node)
        loop = self.loop_decls.get(key.value)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            self.wrong(node, f"the index of loop `{key.value}` is {kind_of(node)}", "write a string or a number")
            return False
        if loop is not None and loop.kind != "values" and not isinstance(value, int):
            self.wrong(node, f"the loop `{key.value}` counts in whole numbers", "write a number from 0")
            return False
        return True


# --- the table ---------------------------------------------------------------------------------------------------


class Read(IntEnum):
    """When a key is read. Keys of one phase are read in the order of the table."""

    SHAPE = 1  # before any other job is read: references to this job need it
    NAMES = 2  # before the job's own expressions, which need it
    VALUES = 3


class JobKey(Key, frozen=True, kw_only=True):
    """One row. Only the docs and the test of the table read `in_fingerprint` and `reruns`."""

    field: str  # of `JobDecl`
    read: Callable[[JobReader, JobDraft, Node], Any]
    when: Read = Read.VALUES
    in_fingerprint: bool = False
    reruns: str = ""  # what a change of its value re-runs, for the docs; empty: all or nothing, by `in_fingerprint`


def _combinations_schema() -> Schema:
    entry = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": NAME_PATTERN},
        "additionalProperties": {"type": ["string", "number"]},
    }
    return {"type": "array", "items": entry}


_RETRY_COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_RETRIES}
_DURATION: Schema = {"$ref": "#/$defs/duration"}
RETRIES_KEYS = (
    Key(name="max", meaning="How often to try again.", schema=_RETRY_COUNT, required=True),
    Key(name="backoff", meaning="The pause before the second attempt; it doubles each time.", schema=_DURATION),
)
JOB_KEYS = (
    JobKey(
        name="uses",
        field="uses",
        read=JobReader.uses,
        when=Read.NAMES,
        schema={"type": "string", "pattern": r"^([^\s$]+|\s*\$\{\{.*\}\}\s*)$"},
        required=True,
        in_fingerprint=True,
        meaning="The action: `shell`, `python`, or one of the project or of a plugin; also `${{ inputs.NAME }}`.",
    ),
    JobKey(
        name="with",
        field="with_",
        read=JobReader.with_,
        schema={"type": "object", "propertyNames": {"pattern": PARAMETER_PATTERN}},
        in_fingerprint=True,
        meaning="Parameters and bindings of the action; one whole `${{ reference }}` is a binding.",
    ),
    JobKey(
        name="for",
        field="loops",
        read=JobReader.loops,
        when=Read.SHAPE,
        schema=list_schema(NAME_PATTERN),
        reruns="only new instances",
        meaning="The loops that the job runs for: one instance per combination of their values.",
    ),
    JobKey(
        name="exclude",
        field="exclude",
        read=JobReader.exclude,
        schema=_combinations_schema(),
        reruns="only new instances",
        meaning="Combinations to leave out; an entry names some or all loops of the job.",
    ),
    JobKey(
        name="include",
        field="include",
        read=JobReader.include,
        schema=_combinations_schema(),
        reruns="only new instances",
        meaning="Combinations to add; an entry names all loops of the job.",
    ),
    JobKey(
        name="outputs",
        field="outputs",
        read=JobReader.outputs,
        when=Read.SHAPE,
        schema=map_schema("output"),
        in_fingerprint=True,
        reruns="only if an output is then missing",
        meaning="What the job makes.",
    ),
    JobKey(
        name="if",
        field="condition",
        read=JobReader.condition,
        schema={"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": r"^\s*\$\{\{[\s\S]*\}\}\s*$"}]},
        meaning="Whether an instance is active; the expression reads inputs and declared leaves.",
    ),
    JobKey(
        name="needs",
        field="needs",
        read=JobReader.needs,
        schema=list_schema(r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"),
        meaning="Jobs to wait for, with all instances; `Import.Job` is a job of an import, `Import` all its jobs.",
        details="A failure there blocks; inactive instances do not.",
    ),
    JobKey(
        name="secrets",
        field="secrets",
        read=JobReader.secrets,
        when=Read.NAMES,
        schema=list_schema(NAME_PATTERN),
        meaning="Environment variables of the host that are used as `${{ secrets.NAME }}` and never recorded.",
    ),
    JobKey(
        name="env",
        field="env",
        read=JobReader.env,
        when=Read.NAMES,
        schema={
            "type": "object",
            "propertyNames": {"pattern": NAME_PATTERN},
            "additionalProperties": {"type": ["string", "number", "boolean"]},
        },
        in_fingerprint=True,
        meaning="Environment variables of the step; they count like parameters.",
    ),
    JobKey(
        name="code",
        field="code",
        read=JobReader.code,
        schema=list_schema(),
        in_fingerprint=True,
        meaning="Patterns of files whose content belongs to the action.",
        details="`*` and `**` do not match names that begin with a dot. `**` does not follow links to folders (name "
        "the link: `tools/linked/**`). `__pycache__` never counts.",
    ),
    JobKey(
        name="timeout",
        field="timeout",
        read=JobReader.timeout,
        schema=_DURATION,
        meaning="How long one attempt may take: `30s`, `5m`, `1h30m`; a plain number is seconds.",
        details="After that the whole process group is killed.",
    ),
    JobKey(
        name="retries",
        field="retries",
        read=JobReader.retries,
        schema={
            "anyOf": [_RETRY_COUNT, object_schema(RETRIES_KEYS, "The count, and the pause before the second attempt.")]
        },
        meaning="How often to try again after a failure: `2`, or `{max: 2, backoff: 10s}`.",
        details="The pause doubles each time.",
    ),
    JobKey(
        name="resources",
        field="resources",
        read=JobReader.resources,
        schema={
            "type": "object",
            "propertyNames": {"pattern": PARAMETER_PATTERN},
            "additionalProperties": {"type": "number", "minimum": 0},
        },
        meaning="What an instance occupies while it runs: `{gpu: 1}`.",
        details="Limits are set in `whyrun.toml` or on the command line.",
    ),
    JobKey(
        name="sandbox",
        field="sandbox",
        read=JobReader.sandbox,
        schema={"anyOf": [{"const": "required"}, object_schema(SANDBOX_KEYS, "Settings of the sandbox.")]},
        meaning="`required`, or settings for any sandbox that the job gets: `{network: true, memory: 2GB}`.",
        details="See [the sandbox](backends.md#the-sandbox). Memory is from 64MB to 1,000TB, `disk` at least 1MB, "
        "`processes` at least 8.",
    ),
    JobKey(
        name="workdir",
        field="workdir",
        read=JobReader.workdir,
        schema={"enum": list(WORKDIRS)},
        in_fingerprint=True,
        meaning="`scratch`, the steps run in an empty folder; or `project`, they run in the project folder.",
        details="See [scripts as they are](scripts.md).",
    ),
    JobKey(
        name="environment",
        field="environment",
        read=JobReader.environment,
        schema=object_schema(ENVIRONMENT_KEYS, "The packages that the steps run with."),
        in_fingerprint=True,
        meaning="The packages that the steps run with: `{python: requirements.txt}`.",
        details="See [environments](environments.md).",
    ),
    JobKey(
        name="container",
        field="container",
        read=JobReader.container,
        schema=object_schema(CONTAINER_KEYS, "The container in which the script of a `shell` job runs."),
        in_fingerprint=True,
        meaning='The container in which the script of a `shell` job runs: `{image: "debian:12"}`.',
        details="The content of the image counts. See [containers](environments.md#containers).",
    ),
    JobKey(
        name="isolation",
        field="isolation",
        read=JobReader.isolation,
        schema={"enum": list(ISOLATIONS)},
        meaning="`process`, each step has a process of its own; or `shared`, consecutive steps of the job have one.",
        details="See [a process for each step](actions.md#a-process-for-each-step).",
    ),
    JobKey(
        name="deterministic",
        field="deterministic",
        read=JobReader.deterministic,
        schema={"type": "boolean"},
        meaning="The same fingerprint gives the same bytes, so results of other jobs and instances may be reused.",
    ),
    JobKey(
        name="reuse",
        field="reuse",
        read=JobReader.reuse,
        schema={"enum": list(REUSE_SCOPES)},
        meaning="Whose results it may take: `instance`, `job` (the default: also free ones of its job), `anywhere`.",
        details="See [results follow their content](planning.md#results-follow-their-content).",
    ),
    JobKey(
        name="description",
        field="description",
        read=JobReader.description,
        schema={"type": "string"},
        meaning="A sentence for people.",
    ),
    JobKey(
        name="tags",
        field="tags",
        read=JobReader.tags,
        schema=list_schema(),
        meaning="Labels for people and tools: `[slow, nightly]`.",
    ),
)
JOB_KEY_NAMES = names_of(JOB_KEYS)
