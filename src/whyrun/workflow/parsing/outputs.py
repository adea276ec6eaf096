"""Declarations of outputs: types, published paths, sections and leaves."""

from __future__ import annotations

import posixpath
import re

from msgspec.structs import replace

from whyrun.errors import did_you_mean
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.expressions.template import parse_template
from whyrun.workflow.fields import (
    LIKE_A_PATH,
    Fields,
    Key,
    example_of_type,
    list_schema,
    names_of,
    object_schema,
    path_problem,
)
from whyrun.workflow.model import (
    BASE_TYPES,
    VALUE_TYPES,
    At,
    CompareDecl,
    Expression,
    Formatted,
    LeafDecl,
    Loop,
    OutputDecl,
    Selector,
    Template,
    Type,
)
from whyrun.workflow.nodes import ListNode, Node, Scalar, kind_of
from whyrun.workflow.scope import Names, Scope

ARRAY_TYPES = tuple(f"{base}[]" for base in BASE_TYPES if base != "boolean")
LEAF_TYPES = (*sorted(VALUE_TYPES), "json")
_LEAF_PART = lazy_regex(r"\.?([A-Za-z_][A-Za-z0-9_]*)")
_LEAF_INDEX = lazy_regex(r'\[\s*(?:([0-9]{1,9})|([A-Za-z_][A-Za-z0-9_]*)|"((?:[^"\\]|\\.)*)")\s*\]')

COMPARE_KEYS = (
    Key(name="keys", meaning="The columns that identify a row of a table.", schema=list_schema()),
    Key(
        name="tolerance",
        meaning="Numbers that differ by no more than this are equal: relative for large numbers, absolute for small "
        "ones.",
        schema={"type": "number", "minimum": 0},
    ),
)
OUTPUT_KEYS = (
    Key(
        name="type",
        meaning="The type. `file[]`: any number of files, each an artifact of its own.",
        schema={"enum": [*BASE_TYPES, *ARRAY_TYPES]},
        required=True,
    ),
    Key(
        name="path",
        meaning="Where it is published, inside the project folder; it may contain loop variables and inputs. Of an "
        "array: a folder.",
        schema={"type": "string"},
    ),
    Key(
        name="leaves",
        meaning='Parts that are artifacts of their own: `"Segments[segment].Title": string`.',
        schema={"type": "object", "additionalProperties": {"enum": list(LEAF_TYPES)}},
    ),
    Key(
        name="append",
        meaning="Whether it is a section of a JSON file that several outputs share.",
        schema={"type": "boolean"},
    ),
    Key(
        name="key",
        meaning="The key of the section; it may contain loop variables and inputs. Default: the ID of the job.",
        schema={"type": "string", "minLength": 1},
    ),
    Key(
        name="compare",
        meaning="How `whyrun compare` compares it. It does not count for whether a job is up to date.",
        schema=object_schema(COMPARE_KEYS),
    ),
)
_OUTPUT_NAMES, _COMPARE_NAMES = names_of(OUTPUT_KEYS), names_of(COMPARE_KEYS)


def _output_example(node: Node) -> str:
    """A value where a declaration is due, as a declaration of this type or with this path."""
    text = node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
    if example_of_type(text) == text:  # and no array
        return f"{{type: {text}}}"
    if LIKE_A_PATH.search(text) and path_problem(text) is None:
        return f'{{type: file, path: "{text}"}}'
    return "{type: file}"


def outputs_example(node: Node) -> str:
    """A list where a map is due, as declarations of what it names."""
    named = [item.text for item in node.items if isinstance(item, Scalar)] if isinstance(node, ListNode) else []
    if not named or not all(map(str.isidentifier, named)):
        return "Picture: {type: image}"
    return ", ".join(f"{name}: {{type: file}}" for name in named)


class Outputs(Fields):
    def output(self, key: Scalar, node: Node, names: Names, scope: Scope) -> tuple[OutputDecl | None, str | None]:
        """The declaration, and the type even if another key of it is wrong."""
        what = f"output `{key.value}`"
        entries = self.as_map(node, what, f"write `{key.value}: {_output_example(node)}`")
        if entries is None:
            return None, None
        fields = self.known_keys(entries, _OUTPUT_NAMES, what, place="output")
        if "type" not in fields:
            self.problems.add(key.place, "MISSING_KEY", f"{what} has no `type`", "add one: `type: file`")
            return None, None
        declared = self.type(fields["type"], f"the type of {what}")
        if declared is not None and declared.depth and not self._check_array(fields, what, declared):
            declared = None
        path = self.path(fields["path"], what, scope) if "path" in fields else None
        leaves: tuple[LeafDecl, ...] = ()
        if "leaves" in fields:
            leaves = self.leaves(fields["leaves"], what, names)
            if declared is not None and str(declared) != "json":
                self.wrong(
                    fields["leaves"], f"{what} has type `{declared}`; only `json` has leaves", "declare `type: json`"
                )
        append = self.boolean(fields["append"], f"`append` of {what}") if "append" in fields else False
        section = self.section_key(fields["key"], what, scope) if "key" in fields else None
        if append:
            self._check_section(fields["append"], what, str(declared) if declared else None)
        elif append is False and "key" in fields:
            hint = "`key:` names a section of a shared file: add `append: true`"
            self.wrong(fields["key"], f"{what} has a `key`, but is not a section", hint)
        compare = self.compare(fields["compare"], what) if "compare" in fields else None
        if declared is None:
            return None, None
        type_ = str(declared)
        decl = OutputDecl(key.value, type_, path, leaves, key.place, bool(append), section, compare)
        return decl, type_

    def _check_array(self, fields: dict[str, Node], what: str, declared: Type) -> bool:
        """Whether an output may be this array; else it is reported."""
        if declared.depth > 1:
            message, hint = "an array of arrays", "make the job run `for:` a loop, and each instance write one array"
        elif declared.base == "boolean":
            message, hint = "an array of `boolean`", "use `json[]`, or `string[]` with words of your own"
        else:
            return True
        self.wrong(fields["type"], f"{what} is {message}, which no output can be", hint)
        return False

    def compare(self, node: Node, what: str) -> CompareDecl | None:
        what = f"`compare` of {what}"
        entries = self.as_map(node, what, "write `compare: {keys: [id], tolerance: 1e-6}`")
        if entries is None:
            return None
        fields = self.known_keys(entries, _COMPARE_NAMES, what)
        keys = self.strings(fields["keys"], f"`keys` of {what}", "the key", "write `[id]`") if "keys" in fields else []
        tolerance = fields.get("tolerance")
        if tolerance is None:
            return CompareDecl(tuple(text for text, _ in keys))
        value = tolerance.value if isinstance(tolerance, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            self.wrong(tolerance, f"the tolerance of {what} is not a number from 0", "write `tolerance: 1e-6`")
            return None
        return CompareDecl(tuple(text for text, _ in keys), float(value))

    def _check_section(self, node: Node, what: str, type_: str | None) -> None:
        if type_ is not None and type_ != "json":
            self.wrong(node, f"{what} has type `{type_}`; only `json` can be a section", "declare `type: json`")

    def section_key(self, node: Node, what: str, scope: Scope) -> Template | None:
        if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.value:
            kind = "empty" if isinstance(node, Scalar) and node.value == "" else f"{kind_of(node)}, not a string"
            self.wrong(node, f"the key of {what} is {kind}", 'write `"${{ network }}"`, or leave it out')
            return None
        return parse_template(node, replace(scope, where="in a `key:`"), self.problems)

    def path(self, node: Node, what: str, scope: Scope) -> Template | None:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.wrong(node, f"the path of {what} is {kind_of(node)}, not a string", "write `out/picture.png`")
            return None
        before = len(self.problems)
        template = parse_template(node, scope, self.problems)
        if isinstance(template, Expression) or len(self.problems) > before:
            return template
        # The evaluated path is checked again at expansion; here only the written parts are checked.
        parts = template.parts if isinstance(template, Formatted) else (template,)
        written = "".join(part if isinstance(part, str) else "x" for part in parts)
        problem = path_problem(written)
        if problem is not None:
            self.wrong(
                node, f"the path of {what} is refused: {problem}", "write a path like `out/picture.png`", "PATH_OUTSIDE"
            )
            return None
        return posixpath.normpath(template) if isinstance(template, str) else template

    def leaves(self, node: Node, what: str, names: Names) -> tuple[LeafDecl, ...]:
        entries = self.as_map(node, f"`leaves` of {what}", 'write `"Title": string`, one per line')
        leaves: list[LeafDecl] = []
        for key, value in entries.entries if entries else ():
            path = self._leaf_path(key, names)
            kind = self.string(value, f"the type of leaf `{key.value}`")
            if kind is not None and kind not in LEAF_TYPES:
                self.wrong(value, f"there is no leaf type `{kind}`", did_you_mean(kind, LEAF_TYPES))
                kind = None
            if path is not None and kind is not None:
                leaves.append(LeafDecl(path, key.value, kind, key.place))
        return tuple(leaves)

    def _leaf_path(self, key: Scalar, names: Names) -> tuple[tuple[str, tuple[Selector, ...]], ...] | None:
        text, position = key.value, 0
        parts: list[tuple[str, tuple[Selector, ...]]] = []
        while position < len(text):
            match = _LEAF_PART.match(text, position)
            if match is None or (text[position] == ".") != bool(parts):
                self._bad_leaf(key)
                return None
            position = match.end()
            selectors: list[Selector] = []
            while position < len(text) and text[position] == "[":
                index = _LEAF_INDEX.match(text, position)
                if index is None:
                    self._bad_leaf(key)
                    return None
                if index[2] and index[2] not in names.loops:
                    self.problems.add(
                        key.locate(index.start(2), len(index[2])),
                        "UNKNOWN_LOOP",
                        f"there is no loop `{index[2]}`",
                        did_you_mean(index[2], sorted(names.loops)) or "declare it under `loops:`",
                    )
                    return None
                selectors.append(_leaf_selector(index))
                position = index.end()
            parts.append((match[1], tuple(selectors)))
        if not parts:
            self._bad_leaf(key)
            return None
        return tuple(parts)

    def _bad_leaf(self, key: Scalar) -> None:
        self.problems.add(
            key.place,
            "NAME_INVALID",
            f"`{key.value}` is not a path of a leaf",
            "write `Name`, `Name.Part`, `Name[0].Part` or `Name[loop].Part`",
        )


def _leaf_selector(match: re.Match[str]) -> Selector:
    if match[1] is not None:
        return At(int(match[1]))
    if match[2] is not None:
        return Loop(match[2])
    return At(re.sub(r"\\(.)", r"\1", match[3]))
