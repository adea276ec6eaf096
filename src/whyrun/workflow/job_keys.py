"""The keys of a job that hold no values for its action: order, code, limits, combinations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whyrun.errors import did_you_mean
from whyrun.workflow.fields import NAME, PARAMETER_NAME, path_problem
from whyrun.workflow.model import LoopDecl, OutputDecl, Place, Retries, SandboxDecl
from whyrun.workflow.nodes import MapNode, Node, Problems, Scalar, doubtful, kind_of, plain_value
from whyrun.workflow.outputs import Outputs
from whyrun.workflow.scope import AnyKey, JobShape, Names

MAX_RETRIES = 1000
_SANDBOX = ("required", "network", "memory", "processes")
LEAST_MEMORY, LEAST_PROCESSES = 64 * 10**6, 8  # below them the worker itself does not come up in its sandbox
_MOST_MEMORY = 10**15  # bytes
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", re.IGNORECASE)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass(slots=True)
class JobDraft:
    """A job between the two passes."""

    key: Scalar
    fields: dict[str, Node]
    loops: tuple[str, ...] | None
    outputs: dict[str, OutputDecl]
    shape: JobShape
    places: dict[str, Place] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)  # see `JobDecl.broken`


class JobKeys(Outputs):
    def __init__(self, problems: Problems, loops: Mapping[str, LoopDecl | None]) -> None:
        super().__init__(problems)
        self.loop_decls = loops

    def secrets(self, draft: JobDraft, what: str) -> tuple[str, ...]:
        node = draft.fields.get("secrets")
        doubts = self.problems.doubts
        found = self.strings(node, f"`secrets` of {what}", "a secret", "write `[NAME]`") if node is not None else []
        if self.problems.doubts > doubts:
            draft.broken.add("secrets")
        for index, (name, item) in enumerate(found):
            draft.places[f"secrets[{index}]"] = item.place
            if not NAME.fullmatch(name):
                self.problems.add(
                    item.place, "NAME_INVALID", f"`{name}` is no name of a variable", "use letters, digits and `_`"
                )
        return tuple(name for name, _ in found)

    def needs(self, draft: JobDraft, what: str, names: Names) -> tuple[str, ...]:
        node = draft.fields.get("needs")
        found = self.strings(node, f"`needs` of {what}", "a job", "write `needs: [job]`") if node is not None else []
        jobs: list[str] = []
        for text, item in found:
            draft.places[f"needs[{len(jobs)}]"] = item.place
            inner: Names | None = names
            *imports, name = text.split(".")
            for part in imports:
                if inner is not None and part not in inner.imports and isinstance(inner.jobs, AnyKey):
                    inner = None  # perhaps it is an import that could not be read
                if inner is not None:
                    inner = inner.imports[part] if part in inner.imports else Names({}, frozenset(), {}, {})
            if inner is None:
                continue  # the imported file is broken, and that has been told
            if name not in inner.jobs:
                known = [*names.jobs, *(f"{i}.{j}" for i, n in names.imports.items() if n for j in n.jobs)]
                self.problems.add(
                    item.place, "UNKNOWN_REFERENCE", f"there is no job `{text}`", did_you_mean(text, known)
                )
            elif text == draft.key.value:
                self.problems.add(item.place, "CYCLE", f"{what} needs itself", "remove it")
            else:
                jobs.append(text.replace(".", "/"))
        return tuple(jobs)

    def code(self, draft: JobDraft, what: str) -> tuple[str, ...]:
        node = draft.fields.get("code")
        hint = "write `code: [scripts/*.py]`"
        doubts = self.problems.doubts
        found = self.strings(node, f"`code` of {what}", "a pattern", hint) if node is not None else []
        for index, (pattern, item) in enumerate(found):
            draft.places[f"code[{index}]"] = item.place
            problem = path_problem(pattern)
            if problem is not None:
                self.problems.add(item.place, "PATH_OUTSIDE", f"`{pattern}` in `code` is refused: {problem}", hint)
        if self.problems.doubts > doubts:
            draft.broken.add("code")
        return tuple(pattern for pattern, _ in found)

    def retries(self, draft: JobDraft, what: str) -> Retries:
        node = draft.fields.get("retries")
        if node is None:
            return Retries()
        if not isinstance(node, MapNode):
            return Retries(self._retry_count(node, what))
        fields = self.known_keys(node, ("max", "backoff"), f"`retries` of {what}")
        if "max" not in fields:
            self.problems.add(
                node.place, "MISSING_KEY", f"`retries` of {what} has no `max`", "write `{max: 2, backoff: 10s}`"
            )
        count = self._retry_count(fields["max"], what) if "max" in fields else 0
        backoff = self.duration(fields["backoff"], f"`backoff` of {what}", zero=True) if "backoff" in fields else 0.0
        return Retries(count, backoff or 0.0)

    def _retry_count(self, node: Node, what: str) -> int:
        count = plain_value(node)
        if type(count) is int and 0 <= count <= MAX_RETRIES:
            return count
        self.wrong(
            node,
            f"the retries of {what} are no number from 0 to {MAX_RETRIES}",
            "write `2` or `{max: 2, backoff: 10s}`",
        )
        return 0

    def resources(self, draft: JobDraft, what: str) -> dict[str, float]:
        node = draft.fields.get("resources")
        entries = self.as_map(node, f"`resources` of {what}", "write `{gpu: 1}`") if node is not None else None
        found: dict[str, float] = {}
        for key, value in entries.entries if entries else ():
            amount = plain_value(value)
            if not PARAMETER_NAME.fullmatch(key.value):
                self.problems.add(
                    key.place,
                    "NAME_INVALID",
                    f"`{key.value}` is no name of a resource",
                    "use letters, digits, `_` and `-`",
                )
            elif isinstance(amount, bool) or not isinstance(amount, int | float) or amount < 0:
                self.wrong(value, f"the resource `{key.value}` of {what} is no amount", "write a number from 0")
            else:
                found[key.value] = amount
        return found

    def sandbox(self, draft: JobDraft, what: str) -> SandboxDecl:
        """`required`, or what the job wants of a sandbox."""
        node = draft.fields.get("sandbox")
        if node is None or (isinstance(node, Scalar) and node.value == "required"):
            return SandboxDecl(required=node is not None)
        hint = "write `required`, or `{required: true, network: true, memory: 2GB, processes: 64}`"
        entries = self.as_map(node, f"`sandbox` of {what}", hint)
        found: dict[str, Any] = {}
        for key, value in entries.entries if entries else ():
            plain = plain_value(value)
            if key.value not in _SANDBOX:
                message, near = f"there is no `{key.value}` in `sandbox`", did_you_mean(key.value, _SANDBOX)
                self.problems.add(key.place, "UNKNOWN_KEY", message, near)
            elif key.value in ("required", "network"):
                found[key.value] = self.boolean(value, f"`{key.value}` in `sandbox` of {what}")
            elif key.value == "processes" and type(plain) is int and plain >= LEAST_PROCESSES:
                found[key.value] = plain
            elif key.value == "memory" and (amount := _bytes(plain)) is not None:
                found[key.value] = amount
            else:
                size = f"a size (`2GB`) from {LEAST_MEMORY // 10**6}MB to {_MOST_MEMORY // 10**12:,}TB"
                wanted = size if key.value == "memory" else f"a number from {LEAST_PROCESSES}"
                self.wrong(value, f"`{key.value}` in `sandbox` of {what} is not {wanted}", hint)
        return SandboxDecl(**found)

    def combinations(self, draft: JobDraft, what: str, kind: str) -> tuple[dict[str, Any], ...]:
        """`exclude` names a part of the loops or all, `include` all of them."""
        node = draft.fields.get(kind)
        hint = f"write `{kind}: [{{{', '.join(f'{loop}: …' for loop in draft.loops or ('loop',))}}}]`"
        listed = self.as_list(node, f"`{kind}` of {what}", hint) if node is not None else None
        found: list[dict[str, Any]] = []
        doubts = self.problems.doubts
        for index, item in enumerate(listed.items if listed else ()):
            entries = self.as_map(item, f"an entry of `{kind}` of {what}", hint)
            if entries is None:
                continue
            draft.places[f"{kind}[{index}]"] = item.place
            combination: dict[str, Any] = {}
            for key, value in entries.entries:
                if draft.loops is not None and key.value not in draft.loops:
                    self.problems.add(
                        key.place,
                        "UNKNOWN_LOOP",
                        f"{what} does not run for a loop `{key.value}`",
                        did_you_mean(key.value, draft.loops) or "name loops of the job's `for:`",
                    )
                elif self._fits_loop(key, value, what):
                    combination[key.value] = plain_value(value)
            missing = [loop for loop in draft.loops or () if entries.get(loop) is None]
            if not entries.entries or (kind == "include" and missing):
                names = ", ".join(f"`{loop}`" for loop in missing) or "a loop"
                self.problems.add(item.place, "MISSING_KEY", f"an entry of `{kind}` of {what} lacks {names}", hint)
            found.append(combination)
        if self.problems.doubts > doubts or (node is not None and (listed is None or doubtful(listed))):
            draft.broken.add(kind)
        return tuple(found)

    def _fits_loop(self, key: Scalar, node: Node, what: str) -> bool:
        value = plain_value(node)
        loop = self.loop_decls.get(key.value)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            self.wrong(node, f"the index of loop `{key.value}` is {kind_of(node)}", "write a string or a number")
            return False
        if loop is not None and loop.kind != "values" and not isinstance(value, int):
            self.wrong(node, f"the loop `{key.value}` counts in whole numbers", "write a number from 0")
            return False
        return True


def _bytes(value: Any) -> int | None:
    """`2GB` or a plain number of bytes; None where it is no size, too small a one, or more than any machine has."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    amount = int(min(float(match[1]), _MOST_MEMORY + 1) * _UNITS[match[2].upper()]) if match else value
    return amount if type(amount) is int and LEAST_MEMORY <= amount <= _MOST_MEMORY else None
