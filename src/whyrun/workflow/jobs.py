"""Jobs: first their shape (loops and outputs), which references need, then everything that may refer."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from whyrun.errors import did_you_mean
from whyrun.workflow.expression import parse_expression
from whyrun.workflow.fields import NAME, PARAMETER_NAME, meant_key
from whyrun.workflow.job_keys import JobDraft, JobKeys
from whyrun.workflow.model import Expression, JobDecl, Template
from whyrun.workflow.nodes import ListNode, MapNode, Node, Scalar, doubtful, kind_of, places_below, plain_value
from whyrun.workflow.scope import UNKNOWN_JOB, AnyKey, AnyName, JobShape, Names, OutputShape, Scope
from whyrun.workflow.template import is_whole_expression, parse_template, secrets_of, whole_expression

JOB_KEYS = (
    "uses",
    "with",
    "outputs",
    "for",
    "exclude",
    "include",
    "if",
    "needs",
    "env",
    "secrets",
    "code",
    "timeout",
    "retries",
    "resources",
    "sandbox",
    "deterministic",
    "description",
)
_OF_ACTIONS = ("run", "call", "script", "shell")  # parameters of the built-in actions
_ELSEWHERE = {
    **{name: f"`{name}` belongs under `with:`" for name in _OF_ACTIONS},
    **dict.fromkeys(("inputs", "args", "params", "parameters"), "parameters of the action stand under `with:`"),
    "steps": "a job is one step: make each a job of its own",
}
_USES = re.compile(r"[^\s$]+")
_PATH_ROOTS = frozenset({"inputs", "loops", "workflow"})
_CONDITION_ROOTS = frozenset({"inputs", "jobs", "loops", "env", "workflow"})
_ENV_ROOTS = frozenset({"inputs", "jobs", "loops", "secrets", "workflow"})
_WITH_ROOTS = _ENV_ROOTS | {"env"}


class Jobs(JobKeys):
    """The jobs of one file, in two passes."""

    # --- first pass -----------------------------------------------------------------------------------------------

    def draft(self, key: Scalar, node: Node, names: Names) -> JobDraft:
        """`names` has no jobs yet: output paths cannot refer to any."""
        what = f"job `{key.value}`"
        draft = JobDraft(key, {}, None, {}, UNKNOWN_JOB)
        entries = self.as_map(node, what, "write `uses:` and the other keys below it")
        if entries is None:
            draft.broken.add("for")
            return draft
        draft.fields = self.known_keys(entries, JOB_KEYS, what, _ELSEWHERE)
        draft.broken |= entries.twice
        for unknown, value in [(k.value, value) for k, value in entries.entries if k.value not in JOB_KEYS]:
            if unknown in _ELSEWHERE:
                draft.broken.add("with")
            elif meant_key(unknown, JOB_KEYS) is None:
                draft.broken |= {name for name in _may_be_meant(value, names) if name not in draft.fields}
        if "uses" not in draft.fields:
            self.problems.add(key.place, "MISSING_KEY", f"{what} has no `uses`", "name the action: `uses: shell`")
        draft.loops = self._for(draft, what, names)
        if draft.loops is None:
            draft.broken.add("for")
        shapes = self._outputs(draft, what, names)
        draft.shape = JobShape(draft.loops, shapes)
        return draft

    def _for(self, draft: JobDraft, what: str, names: Names) -> tuple[str, ...] | None:
        node = draft.fields.get("for")
        if node is None:
            return () if "for" not in draft.broken else None
        example = f"write `for: [{node.value}]`" if isinstance(node, Scalar) and node.value in names.loops else None
        declared = ", and what it goes through under `loops:` of the workflow"
        if not isinstance(node, ListNode):
            self.as_list(node, f"`for` of {what}", example or "write `for: [loop]`" + declared)
            return None
        found = self.strings(node, f"`for` of {what}", "a loop", "write its name" + declared)
        complete = len(found) == len(node.items)
        for index, (name, item) in enumerate(found):
            draft.places[f"for[{index}]"] = item.place
            if name not in names.loops:
                complete = False
                self.problems.add(
                    item.place,
                    "UNKNOWN_LOOP",
                    f"there is no loop `{name}`",
                    did_you_mean(name, sorted(names.loops)) or "declare it under `loops:`",
                )
        return tuple(name for name, _ in found) if complete and "for" not in draft.broken else None

    def _outputs(self, draft: JobDraft, what: str, names: Names) -> dict[str, OutputShape] | None:
        node = draft.fields.get("outputs")
        if node is None:
            return {} if "outputs" not in draft.broken else None
        entries = self.as_map(node, f"`outputs` of {what}", "write `outputs: {Picture: {type: image}}`")
        if entries is None:
            return None
        names, loops = _names_in(draft, names)
        scope = Scope(names, "in a `path:`", _PATH_ROOTS, loops=loops)
        shapes: dict[str, OutputShape] = {}
        for key, value in entries.entries:
            if not self.name(key, "an output"):
                draft.broken.add("outputs")  # `my-output` in an expression is a subtraction: nothing to say about that
                continue
            doubts = self.problems.doubts
            decl, kind = self.output(key, value, names, scope)
            if self.problems.doubts > doubts or doubtful(value) or key.value in entries.twice:
                draft.broken.add(f"outputs.{key.value}")
            sound = f"outputs.{key.value}" not in draft.broken
            shapes[key.value] = OutputShape(kind, decl.leaves if decl and sound else None)
            if decl is not None:
                draft.outputs[key.value] = decl
                draft.places[f"outputs.{key.value}"] = key.place
                for entry in ("path", "key"):
                    if isinstance(value, MapNode) and (written := value.get(entry)) is not None:
                        draft.places[f"outputs.{key.value}.{entry}"] = written.place
        return shapes if "outputs" not in draft.broken else None

    # --- second pass ----------------------------------------------------------------------------------------------

    def job(self, draft: JobDraft, names: Names) -> JobDecl:
        fields, places = draft.fields, draft.places
        what = f"job `{draft.key.value}`"
        for name, node in fields.items():
            places[name] = node.place
        names, loops = _names_in(draft, names)
        secrets = self.secrets(draft, what)
        known_secrets = AnyName(secrets) if "secrets" in draft.broken else secrets
        env_scope = Scope(names, "in `env:`", _ENV_ROOTS, loops=loops, secrets=known_secrets)
        env, env_names = self._env(draft, what, env_scope)
        with_scope = Scope(
            names, "in `with:`", _WITH_ROOTS, binding=True, loops=loops, env=env_names, secrets=known_secrets
        )
        if_scope = Scope(names, "in `if:`", _CONDITION_ROOTS, loops=loops, env=env_names, decides=True)
        uses = self._uses(draft, what)
        with_ = self._with(draft, what, with_scope, uses)
        code = self.code(draft, what)
        doubts = self.problems.doubts
        condition = self._condition(draft, what, if_scope)
        if self.problems.doubts > doubts:
            draft.broken.add("if")
        return JobDecl(
            name=draft.key.value,
            uses=uses,
            with_=with_,
            outputs=draft.outputs,
            loops=draft.loops or (),
            exclude=self.combinations(draft, what, "exclude"),
            include=self.combinations(draft, what, "include"),
            condition=condition,
            needs=self.needs(draft, what, names),
            env=env,
            secrets=secrets,
            code=code,
            timeout=self.duration(fields["timeout"], f"`timeout` of {what}") if "timeout" in fields else None,
            retries=self.retries(draft, what),
            resources=self.resources(draft, what),
            deterministic=self.boolean(fields["deterministic"], f"`deterministic` of {what}")
            if "deterministic" in fields
            else None,
            description=(self.string(fields["description"], "a description") or "") if "description" in fields else "",
            place=draft.key.place,
            places=places,
            broken=frozenset(draft.broken),
            sandbox=self.sandbox(draft, what),
        )

    def _uses(self, draft: JobDraft, what: str) -> str:
        node = draft.fields.get("uses")
        if node is None or "uses" in draft.broken:
            return ""
        uses = self.string(node, f"`uses` of {what}", "write the name of an action: `shell`, `python`, …")
        if uses is not None and not _USES.fullmatch(uses):
            self.wrong(node, f"`{uses}` cannot be the name of an action", "write `shell`, `python`, …", "INVALID_USES")
            return ""
        return uses or ""

    def _with(self, draft: JobDraft, what: str, scope: Scope, uses: str) -> dict[str, Template]:
        node = draft.fields.get("with")
        entries = (
            self.as_map(node, f"`with` of {what}", "write `name: value`, one a line") if node is not None else None
        )
        if node is not None and entries is None:
            draft.broken.add("with")
        found: dict[str, Template] = {}
        for key, value in entries.entries if entries else ():
            if not PARAMETER_NAME.fullmatch(key.value):
                self.problems.add(
                    key.place,
                    "NAME_INVALID",
                    f"`{key.value}` cannot be the name of a parameter",
                    "names are letters, digits, `_` and `-`, and do not begin with a digit",
                )
                draft.broken.add("with")
                continue
            draft.places[f"with.{key.value}"] = value.place
            draft.places[f"with.{key.value}#key"] = key.place
            draft.places.update(places_below(value, f"with.{key.value}"))
            doubts = self.problems.doubts
            if uses == "shell" and key.value == "run":
                found[key.value] = self._script(value, what)
            else:
                found[key.value] = parse_template(value, scope, self.problems)
            if self.problems.doubts > doubts or doubtful(value) or (entries and key.value in entries.twice):
                draft.broken.add(f"with.{key.value}")
        return found

    def _script(self, node: Node, what: str) -> Any:
        """A value must never become a command, so the script of `shell` is taken as it is written."""
        if isinstance(node, Scalar) and isinstance(node.value, str):
            at = node.value.find("${{")
            if at >= 0:
                end = node.value.find("}}", at)
                self.problems.add(
                    node.locate(at, (end + 2 if end > 0 else len(node.value)) - at),
                    "EXPRESSION_FORBIDDEN",
                    f"the script of {what} cannot hold an expression",
                    'give it an entry of its own in `with:`; the script gets it as a shell variable, `"$name"`',
                )
        return plain_value(node)

    def _env(self, draft: JobDraft, what: str, scope: Scope) -> tuple[dict[str, Template], dict[str, bool | None]]:
        """The values, and for each name whether it holds a secret (`Scope.env`)."""
        node = draft.fields.get("env")
        entries = self.as_map(node, f"`env` of {what}", "write `NAME: value`, one a line") if node is not None else None
        if node is not None and entries is None:
            draft.broken.add("env")
        found: dict[str, Template] = {}
        known: dict[str, bool | None] = {}
        for key, value in entries.entries if entries else ():
            known[key.value] = None
            if not NAME.fullmatch(key.value):
                self.problems.add(
                    key.place, "NAME_INVALID", f"`{key.value}` is no name of a variable", "use letters, digits and `_`"
                )
                continue
            if not isinstance(value, Scalar) or value.value is None:
                self.wrong(
                    value,
                    f"`env.{key.value}` is {kind_of(value)}",
                    "write a string, a number, a boolean or an expression",
                )
                continue
            draft.places[f"env.{key.value}"] = value.place
            doubts = self.problems.doubts
            template = parse_template(value, scope, self.problems)
            if self.problems.doubts > doubts or (entries and key.value in entries.twice):
                draft.broken.add(f"env.{key.value}")
                continue
            found[key.value] = template
            known[key.value] = bool(secrets_of(template))
        return found, AnyKey(known, None) if "env" in draft.broken else known

    def _condition(self, draft: JobDraft, what: str, scope: Scope) -> Expression | None:
        node = draft.fields.get("if")
        if node is None:
            return None
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return parse_expression(str(node.value), lambda at, width: node.place, scope, self.problems)
        if not is_whole_expression(node):
            self.wrong(node, f"`if` of {what} is no expression", "write `if: ${{ … }}`")
            return None
        return whole_expression(node, scope, self.problems)


def _names_in(draft: JobDraft, names: Names) -> tuple[Names, Collection[str]]:
    """What the job may use, and its loops. Where `for:` is broken, any loop passes, also one that it names in vain:
    one mistake, one message."""
    if draft.loops is not None:
        return names, draft.loops
    node = draft.fields.get("for")
    written = [item.value for item in node.items if isinstance(item, Scalar)] if isinstance(node, ListNode) else []
    known = type(names.loops)([*names.loops, *(name for name in written if isinstance(name, str))])
    return replace(names, loops=known), sorted(known)


def _may_be_meant(value: Node, names: Names) -> tuple[str, ...]:
    """The keys that a value under an unknown key may belong to (`matrix: [a]` for `for: [a]`): are they absent?"""
    if isinstance(value, MapNode):
        return "with", "outputs", "env"
    if isinstance(value, ListNode):
        return "for", "exclude", "include", "secrets"
    assert isinstance(value, Scalar)
    return ("for",) if value.value in list(names.loops) else ()
