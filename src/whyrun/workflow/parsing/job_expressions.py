"""The readers of job keys that declare names or hold expressions, and the job that they fill: `JobDraft`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from whyrun.errors import did_you_mean
from whyrun.workflow.expressions.expression import parse_expression
from whyrun.workflow.expressions.template import (
    almost_expression,
    is_whole_expression,
    parse_template,
    refuse_almost,
    secrets_of,
    whole_expression,
)
from whyrun.workflow.fields import NAME, PARAMETER_NAME, USES, in_list
from whyrun.workflow.model import Expression, LoopDecl, OutputDecl, Place, Template
from whyrun.workflow.nodes import ListNode, MapNode, Node, Scalar, has_duplicates, kind_of, places_below, plain_value
from whyrun.workflow.parsing.loops import misplaced
from whyrun.workflow.parsing.outputs import Outputs, outputs_example
from whyrun.workflow.parsing.result_loops import wrong_nesting
from whyrun.workflow.scope import UNKNOWN_JOB, AnyKey, AnyName, JobShape, Names, OutputShape, Scope

_PATH_ROOTS = frozenset({"inputs", "loops", "workflow"})
_CONDITION_ROOTS = frozenset({"inputs", "jobs", "loops", "env", "workflow"})
_ENV_ROOTS = frozenset({"inputs", "jobs", "loops", "secrets", "workflow"})
_WITH_ROOTS = _ENV_ROOTS | {"env"}


def _own_entry(written: str) -> str:
    """How the script of `shell` gets the value of an expression: `${{ inputs.Topic }}` as `"$topic"`."""
    inner = written.strip("${} ")
    name = inner.rpartition(".")[2].lower()
    if not NAME.fullmatch(name) or "(" in inner:
        return 'give it an entry of its own in `with:`; the script gets it as a shell variable, `"$name"`'
    return f'write `{name}: ${{{{ {inner} }}}}` under `with:`, and `"${name}"` in the script'


class JobDraft(msgspec.Struct):
    """A job while it is read. `values` collects the fields of its `JobDecl`."""

    key: Scalar
    names: Names  # what its expressions may refer to; the first pass knows no jobs
    what: str  # the job in messages
    fields: dict[str, Node] = msgspec.field(default_factory=dict)
    loops: tuple[str, ...] | None = None  # None where `for:` is broken
    output_shapes: dict[str, OutputShape] | None = None  # None where `outputs:` is broken
    shape: JobShape = UNKNOWN_JOB
    env: dict[str, bool | None] = msgspec.field(default_factory=dict)  # name → whether it holds a secret (`Scope.env`)
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    places: dict[str, Place] = msgspec.field(default_factory=dict)
    broken: set[str] = msgspec.field(default_factory=set)  # see `JobDecl.broken`
    refused: frozenset[str] = frozenset()  # names that its expressions may not begin with, though others' may

    def scope(self, where: str, roots: frozenset[str], *, binding: bool = False, decides: bool = False) -> Scope:
        """What expressions under one of its keys may use. A broken declaration makes every name valid."""
        names, loops = self._known_loops()
        secrets: tuple[str, ...] = self.values.get("secrets", ())
        return Scope(
            names,
            where,
            roots - self.refused,
            binding=binding,
            loops=loops,
            env=AnyKey(self.env, None) if "env" in self.broken else self.env,
            secrets=AnyName(secrets) if "secrets" in self.broken else secrets,
            decides=decides,
            of_import=self.what.startswith("import "),
        )

    def _known_loops(self) -> tuple[Names, Collection[str]]:
        """If `for:` is broken, every loop is valid, also an undeclared one that it names: one mistake, one message."""
        if self.loops is not None:
            return self.names, self.loops
        node = self.fields.get("for")
        written = [item.value for item in node.items if isinstance(item, Scalar)] if isinstance(node, ListNode) else []
        known = type(self.names.loops)([*self.names.loops, *(name for name in written if isinstance(name, str))])
        return replace(self.names, loops=known), sorted(known)


class JobExpressions(Outputs):
    loop_decls: Mapping[str, LoopDecl | None]

    # --- what other jobs and the job's own expressions refer to ---------------------------------------------------

    def loops(self, job: JobDraft, node: Node) -> tuple[str, ...]:
        """`for`. Sets `job.loops`."""
        job.loops = self._loops(job, node)
        if job.loops is None:
            job.broken.add("for")
        return job.loops or ()

    def _loops(self, job: JobDraft, node: Node) -> tuple[str, ...] | None:
        known = job.names.loops
        example = f"write `for: [{node.value}]`" if isinstance(node, Scalar) and node.value in known else None
        declared = ", and declare the loop under `loops:` of the workflow"
        if not isinstance(node, ListNode):
            self.as_list(node, f"`for` of {job.what}", example or "write `for: [loop]`" + declared)
            return None
        loops = self.strings(node, f"`for` of {job.what}", "a loop", "write its name" + declared)
        complete = len(loops) == len(node.items)
        for index, (name, item) in enumerate(loops):
            job.places[f"for[{index}]"] = item.place
            if name not in known:
                complete = False
                hint = did_you_mean(name, sorted(known)) or "declare it under `loops:`"
                self.problems.add(item.place, "UNKNOWN_LOOP", f"there is no loop `{name}`", hint)
        names = tuple(name for name, _ in loops)
        wrong = misplaced(names, self.loop_decls)
        wrong = wrong or wrong_nesting(names, self.loop_decls)
        if complete and wrong is not None:
            number, message, hint = wrong
            self.problems.add(loops[number][1].place, "LOOP_MISMATCH", message, hint)
            return None
        return names if complete and "for" not in job.broken else None

    def outputs(self, job: JobDraft, node: Node) -> dict[str, OutputDecl]:
        """`outputs`. Sets `job.output_shapes`."""
        outputs: dict[str, OutputDecl] = {}
        entries = self.as_map(node, f"`outputs` of {job.what}", f"write `outputs: {{{outputs_example(node)}}}`")
        shapes: dict[str, OutputShape] = {}
        duplicates = entries.duplicates if entries else set()
        scope = job.scope("in a `path:`", _PATH_ROOTS)
        for key, value in entries.entries if entries else ():
            if not self.name(key, "an output"):
                # In an expression `my-output` is a subtraction, so nothing can be said about references to it.
                job.broken.add("outputs")
                continue
            failures = self.problems.failures
            decl, kind = self.output(key, value, scope.names, scope)
            path = f"outputs.{key.value}"
            if self.problems.failures > failures or has_duplicates(value) or key.value in duplicates:
                job.broken.add(path)
            shapes[key.value] = OutputShape(kind, decl.leaves if decl and path not in job.broken else None)
            if decl is not None:
                outputs[key.value] = decl
                job.places[path] = key.place
                for entry in ("path", "key"):
                    if isinstance(value, MapNode) and (written := value.get(entry)) is not None:
                        job.places[f"{path}.{entry}"] = written.place
        job.output_shapes = shapes if entries is not None and "outputs" not in job.broken else None
        return outputs

    def uses(self, job: JobDraft, node: Node) -> str:
        if "uses" in job.broken:
            return ""
        if is_whole_expression(node):
            scope = job.scope("in `uses:`", frozenset({"inputs"}))
            computed = parse_template(node, scope, self.problems)
            job.values["uses_by"] = computed if isinstance(computed, Expression) else None
            return ""
        uses = self.string(node, f"`uses` of {job.what}", "write the name of an action: `shell`, `python`, …")
        if uses is not None and not USES.fullmatch(uses):
            self.wrong(node, f"`{uses}` cannot be the name of an action", "write `shell`, `python`, …", "INVALID_USES")
            return ""
        return uses or ""

    def secrets(self, job: JobDraft, node: Node) -> tuple[str, ...]:
        failures = self.problems.failures
        secrets = self.strings(node, f"`secrets` of {job.what}", "a secret", f"write `{in_list(node, 'NAME')}`")
        if self.problems.failures > failures:
            job.broken.add("secrets")
        for index, (name, item) in enumerate(secrets):
            job.places[f"secrets[{index}]"] = item.place
            if not NAME.fullmatch(name):
                self._variable_name(item)
        return tuple(name for name, _ in secrets)

    def env(self, job: JobDraft, node: Node) -> dict[str, Template]:
        """`env`. Sets `job.env`."""
        entries = self.as_map(node, f"`env` of {job.what}", "write `NAME: value`, one per line")
        if entries is None:
            job.broken.add("env")
            return {}
        scope = job.scope("in `env:`", _ENV_ROOTS)
        values: dict[str, Template] = {}
        for key, value in entries.entries:
            job.env[key.value] = None
            if not NAME.fullmatch(key.value):
                self._variable_name(key)
                continue
            if not isinstance(value, Scalar) or value.value is None:
                hint = "write a string, a number, a boolean or an expression"
                self.wrong(value, f"`env.{key.value}` is {kind_of(value)}", hint)
                continue
            job.places[f"env.{key.value}"] = value.place
            failures = self.problems.failures
            template = parse_template(value, scope, self.problems)
            if self.problems.failures > failures or key.value in entries.duplicates:
                job.broken.add(f"env.{key.value}")
                continue
            values[key.value] = template
            job.env[key.value] = bool(secrets_of(template))
        return values

    def _variable_name(self, name: Scalar) -> None:
        message = f"`{name.value}` cannot be the name of a variable"
        self.problems.add(name.place, "NAME_INVALID", message, "use letters, digits and `_`")

    # --- what refers to it ----------------------------------------------------------------------------------------

    def with_(self, job: JobDraft, node: Node) -> dict[str, Template]:
        entries = self.as_map(node, f"`with` of {job.what}", "write `name: value`, one per line")
        if entries is None:
            job.broken.add("with")
            return {}
        scope = job.scope("in `with:`", _WITH_ROOTS, binding=True)
        parameters: dict[str, Template] = {}
        for key, value in entries.entries:
            if not PARAMETER_NAME.fullmatch(key.value):
                message = f"`{key.value}` cannot be the name of a parameter"
                hint = "names are letters, digits, `_` and `-`, and do not begin with a digit"
                self.problems.add(key.place, "NAME_INVALID", message, hint)
                job.broken.add("with")
                continue
            path = f"with.{key.value}"
            job.places[path] = value.place
            job.places[f"{path}#key"] = key.place
            job.places.update(places_below(value, path))
            failures = self.problems.failures
            if job.values.get("uses") == "shell" and key.value == "run":
                parameters[key.value] = self._script(value, job.what, scope)
            else:
                parameters[key.value] = parse_template(value, scope, self.problems)
            if self.problems.failures > failures or has_duplicates(value) or key.value in entries.duplicates:
                job.broken.add(path)
        return parameters

    def _script(self, node: Node, what: str, scope: Scope) -> Any:
        """The script of `shell` is not a template: a value must never become a command."""
        if isinstance(node, Scalar) and isinstance(node.value, str):
            at = node.value.find("${{")
            end = node.value.find("}}", at) + 2
            almost = almost_expression(node.value, scope) if at < 0 else None
            if almost is not None:
                at, end = almost.span()
            if at >= 0:
                self.problems.add(
                    node.locate(at, (end if end > at else len(node.value)) - at),
                    "EXPRESSION_FORBIDDEN",
                    f"the script of {what} cannot hold an expression",
                    _own_entry(node.value[at:end]),
                )
        return plain_value(node)

    def condition(self, job: JobDraft, node: Node) -> Expression | None:
        """`if`."""
        failures = self.problems.failures
        condition = self._condition(node, job.what, job.scope("in `if:`", _CONDITION_ROOTS, decides=True))
        if self.problems.failures > failures:
            job.broken.add("if")
        return condition

    def _condition(self, node: Node, what: str, scope: Scope) -> Expression | None:
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return parse_expression(str(node.value), lambda at, width: node.place, scope, self.problems)
        if not is_whole_expression(node):
            if isinstance(node, Scalar) and (almost := almost_expression(node.text, scope)) is not None:
                refuse_almost(node, almost, self.problems)
                return None
            text = node.text.replace("${{", "").replace("}}", "").strip() if isinstance(node, Scalar) else ""
            inside = " ".join(text.split()) if text and not {"$", "{"} & set(text) else "…"
            self.wrong(node, f"`if` of {what} is not an expression", f"write `if: ${{{{ {inside} }}}}`")
            return None
        return whole_expression(node, scope, self.problems)
