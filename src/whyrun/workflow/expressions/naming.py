"""The names in an expression: references, loop variables, secrets, `env` and `workflow`."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from whyrun.errors import did_you_mean
from whyrun.workflow.expressions.functions import kind_of_type
from whyrun.workflow.expressions.references import ReferenceReader, Refused, Resolved, chain_of, check_loop
from whyrun.workflow.model import Expression, FanIn, First, OutputRef, Value
from whyrun.workflow.nodes import Problems
from whyrun.workflow.scope import Names, Scope, Text

ROOTS = ("inputs", "jobs", "secrets", "env", "workflow")
Body = Callable[[Sequence[Any], Mapping[str, Any]], Any]


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()  # the value of a reference that is out of range or inactive


class SecretRef(msgspec.Struct, frozen=True):
    """A placeholder for the value of a secret, which only the step itself receives."""

    name: str


class NameCompiler(ABC):
    """Compiles names, and collects the references of the expression."""

    def __init__(self, text: Text, scope: Scope, problems: Problems) -> None:
        self.text = text
        self.scope = scope
        self.problems = problems
        self.reader = ReferenceReader(text, scope, problems)
        self.refs: list[Value] = []
        self.optional: set[int] = set()
        self.loops: set[str] = set()
        self.secrets: set[str] = set()
        self.env: set[str] = set()
        self.kinds: dict[ast.expr, str | None] = {}  # kinds of the values of references, see `functions`

    def refuse(self, node: ast.AST, message: str, hint: str | None = None) -> Refused:
        return self.reader.refuse(self.text.place(node), "EXPRESSION_FORBIDDEN", message, hint)

    def refuse_misspelt(self) -> None:
        """Refuse a reference to a result of an import that is written like its ID or like its file."""
        if not self.scope.names.imports or "jobs" not in self.scope.roots:
            return
        from whyrun.workflow.expressions.misspelt import meant_reference  # imported late: few workflows import others

        text = self.text.text
        if (meant := meant_reference(text, self.scope.names)) is not None:
            place = self.text.locate(0, len(text))
            raise self.reader.refuse(place, "UNKNOWN_REFERENCE", f"`{text}` is no reference", f"write `{meant}`")

    def named(self, node: ast.expr) -> Body:
        root, parts = chain_of(node)
        if not isinstance(root, ast.Name):
            raise self.refuse(node, "only references have parts and indices", "compute it in a job")
        if root.id in ("inputs", "jobs"):
            resolved = self.reference(node)
            self.need_value(resolved, node)
            if resolved.type is not None:
                self.kinds[node] = kind_of_type(resolved.type.base, resolved.is_list)
            return self.slot(resolved.ref)
        if root.id == "secrets":
            raise self.refuse(
                node,
                "an expression cannot compute with a secret",
                "use `${{ secrets.NAME }}` alone or inside a longer string",
            )
        if root.id in ("env", "workflow"):
            self._need_root(root)
            part = self.reader.name_at(parts, 0, root, f"`{root.id}.NAME`")
            if len(parts) > 1:
                raise self.refuse(node, f"`{root.id}.{part.attr}` has no parts")
            return self._env(part) if root.id == "env" else self._workflow(part)
        return self._loop_variable(root, parts, node)

    def _loop_variable(self, root: ast.Name, parts: Sequence[ast.expr], node: ast.expr) -> Body:
        name = root.id
        if name not in self.scope.names.loops:
            raise self.reader.refuse(
                self.text.place(root), "UNKNOWN_REFERENCE", f"there is no `{name}` here", self._hint_for(name)
            )
        check_loop(name, self.text.place(root), self.scope, self.problems)
        if parts:
            raise self.refuse(node, f"the loop variable `{name}` has no parts")
        self.loops.add(name)
        return lambda values, names: names[name]

    def _hint_for(self, name: str) -> str | None:
        if name in ("true", "false", "null"):
            return f"write `{ {'true': 'True', 'false': 'False', 'null': 'None'}[name] }`"
        if name in self.scope.names.inputs:
            return f"did you mean `inputs.{name}`?"
        if name in self.scope.names.jobs:
            return f"did you mean `jobs.{name}.outputs.…`?"
        return did_you_mean(name, [*ROOTS, *sorted(self.scope.loops)])

    def reference(self, node: ast.expr) -> Resolved:
        root, _ = chain_of(node)
        assert isinstance(root, ast.Name)
        self._need_root(root)
        return self.reader.read(node)

    def slot(self, ref: Value) -> Body:
        index = len(self.refs)
        self.refs.append(ref)
        return lambda values, names: values[index]

    def _need_root(self, root: ast.Name) -> None:
        if root.id not in self.scope.roots:
            allowed = ", ".join(f"`{name}`" for name in (*ROOTS, "loops") if name in self.scope.roots)
            raise self.refuse(root, f"`{root.id}` cannot be used {self.scope.where}", f"allowed here: {allowed}")

    def need_value(self, resolved: Resolved, node: ast.expr) -> None:
        if resolved.is_value:
            return
        raise self.reader.refuse(
            self.text.place(node),
            "WRONG_TYPE",
            f"`{self.source(node)}` has type `{resolved.type}`: expressions and strings cannot contain it",
            self._instead_of_file(resolved)
            if self.scope.decides
            else "give it an entry of its own in `with:`, as one whole `${{ … }}`",
        )

    def _instead_of_file(self, resolved: Resolved) -> str:
        """What a condition can read instead of a file."""
        if isinstance(resolved.ref, OutputRef):
            name = resolved.ref.output
            if str(resolved.type) == "json":
                return f"declare the part that decides as a leaf: `{name}: {{type: json, leaves: {{Part: string}}}}`"
            return f"a condition reads values: declare the output as one, `{name}: {{type: string}}`"
        return (
            "a condition reads values, not files: give an input of type `string` or `boolean`, or let a job read the "
            "file and declare an output of such a type"
        )

    def source(self, node: ast.AST) -> str:
        start, end = self.text.span(node)
        return self.text.text[start:end]

    def first(self, node: ast.Call, *, need_value: bool) -> tuple[First, list[Resolved]]:
        if not node.args or node.keywords:
            raise self.refuse(node, "`first` needs references", "write `first(a, b)`")
        candidates: list[Resolved] = []
        refused = False
        for argument in node.args:
            try:
                candidates.append(self._candidate(argument, "first"))
                if need_value:
                    self.need_value(candidates[-1], argument)
            except Refused:
                refused = True
        if refused:
            raise Refused
        return First(tuple(r.ref for r in candidates), self.text.place(node)), candidates

    def fan_in(self, node: ast.Call, *, need_value: bool) -> tuple[FanIn, Resolved]:
        """`named(selection)`, `where(selection, predicate)`, `named(where(…))`."""
        name = called(node)
        example = (
            "write `where(jobs.J.outputs.X[:, :], seed % 5 == 0)`"
            if name == "where"
            else ("write `named(jobs.J.outputs.X[:])`")
        )
        if "jobs" not in self.scope.roots:
            raise self.refuse(node, f"`{name}` cannot be used {self.scope.where}", "use it in `with:` of a job")
        if node.keywords or len(node.args) != (2 if name == "where" else 1):
            raise self.refuse(
                node, f"`{name}` takes {'a selection and a condition' if name == 'where' else 'a selection'}", example
            )
        inner = node.args[0]
        if name == "named" and called(inner) == "where":
            assert isinstance(inner, ast.Call)
            found, resolved = self.fan_in(inner, need_value=need_value)
            return FanIn(found.ref, True, found.predicate, found.loops, self.text.place(node)), resolved
        if root_name(inner) not in ("inputs", "jobs"):
            raise self.refuse(inner, f"`{name}` takes a selection", example)
        resolved = self.reference(inner)
        if not resolved.fan_in:
            raise self.refuse(inner, f"`{name}` takes many elements, and this is one", "select with `[:]`")
        if need_value:
            self.need_value(resolved, inner)
        loops = resolved.loops
        if loops is None:
            raise Refused  # the job could not be read
        predicate = None
        if name == "where":
            if not loops:
                raise self.refuse(inner, "these elements have no loop variables", "`where` chooses instances of jobs")
            names = Names(self.scope.names.inputs, frozenset(loops), {}, {})
            scope = Scope(names, "in the condition of `where`", frozenset({"inputs", "loops"}), loops=loops)
            predicate = self.predicate(node.args[1], scope)
        return FanIn(resolved.ref, name == "named", predicate, loops, self.text.place(node)), resolved

    @abstractmethod
    def predicate(self, node: ast.expr, scope: Scope) -> Expression:
        """The condition of `where(…)`, or `Refused`."""

    def _candidate(self, node: ast.expr, function: str) -> Resolved:
        if root_name(node) not in ("inputs", "jobs"):
            raise self.refuse(node, f"`{function}` takes references only", "write `inputs.…` or `jobs.…`")
        resolved = self.reference(node)
        if resolved.fan_in:
            raise self.refuse(
                node, f"`{function}` takes one element, and `[:]` is a list", "use `len(…) > 0` to ask for any"
            )
        return resolved

    def exists(self, node: ast.Call) -> Body:
        if len(node.args) != 1:
            raise self.refuse(node, f"`exists` takes 1 argument, not {len(node.args)}")
        resolved = self._candidate(node.args[0], "exists")
        self.optional.add(len(self.refs))
        slot = self.slot(resolved.ref)
        return lambda values, names: slot(values, names) is not ABSENT

    def secret(self, node: ast.expr) -> Body:
        root, parts = chain_of(node)
        assert isinstance(root, ast.Name)
        if "secrets" not in self.scope.roots:
            raise self.refuse(node, f"a secret cannot be used {self.scope.where}", "use secrets in `with:` and `env:`")
        part = self.reader.name_at(parts, 0, root, "`secrets.NAME`")
        if len(parts) > 1:
            raise self.refuse(node, "a secret has no parts", "use it as a whole")
        name = part.attr
        if name not in self.scope.secrets:
            raise self.reader.refuse(
                self.text.attribute_place(part),
                "UNKNOWN_REFERENCE",
                f"the job does not declare the secret `{name}`",
                did_you_mean(name, list(self.scope.secrets)) or f"add it to the job: `secrets: [{name}]`",
            )
        self.secrets.add(name)
        secret = SecretRef(name)
        return lambda values, names: secret

    def _env(self, part: ast.Attribute) -> Body:
        name = part.attr
        declared = self.scope.env if self.scope.env is not None else {}
        if name not in declared:
            raise self.reader.refuse(
                self.text.attribute_place(part),
                "UNKNOWN_REFERENCE",
                f"the job declares no `env` variable `{name}`",
                f"write `secrets.{name}`"
                if name in self.scope.secrets
                else did_you_mean(name, list(declared)) or "declare it under the job's `env:`",
            )
        if declared[name] is None:
            raise Refused  # its problem is reported
        if declared[name]:
            raise self.refuse(part, f"`env.{name}` holds a secret", "use `${{ secrets.NAME }}` itself")
        self.env.add(name)
        return lambda values, names: names["env"][name]

    def _workflow(self, part: ast.Attribute) -> Body:
        if part.attr != "name":
            raise self.reader.refuse(
                self.text.attribute_place(part),
                "UNKNOWN_REFERENCE",
                f"`workflow` has no `{part.attr}`",
                "use `workflow.name`",
            )
        return lambda values, names: names["workflow"]["name"]


def called(node: ast.expr) -> str | None:
    """The function that a call names."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None


def root_name(node: ast.expr) -> str | None:
    root, _ = chain_of(node)
    return root.id if isinstance(root, ast.Name) else None
