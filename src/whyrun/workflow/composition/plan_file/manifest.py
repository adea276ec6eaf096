"""Reads the inputs manifest: the data files of a dataset plan, by key."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from whyrun.errors import did_you_mean
from whyrun.workflow.composition.plan_file.json_source import JsonFields, json_kind_of
from whyrun.workflow.fields import (
    PARAMETER_NAME,
    PARAMETER_PATTERN,
    Key,
    Schema,
    names_of,
    object_schema,
    text_schema,
)
from whyrun.workflow.model import ROLES, Dataset
from whyrun.workflow.nodes import MapNode, Node, Problems, Scalar

SCHEMA_VERSION = 2
ID, ID_PATTERN = PARAMETER_NAME, PARAMETER_PATTERN
ID_HINT = "use letters, digits, `_` and `-`, and begin with a letter or `_`"
INSIDE = r"^(?!/|~|[A-Za-z]:)(?!(.*/)?\.\.(/|$))[^\\]+$"  # for schemas: a path that stays in its folder
_FINGERPRINT = re.compile(r"sha256:([0-9a-f]{64})")
_DRIVE = re.compile(r"[A-Za-z]:")
_DATASET = 'write `{"dataset_key": "main", "role": "primary_dataset", "rel_path": "main.csv"}`'
_EXAMPLE = f'{{"schema_version": {SCHEMA_VERSION}, "datasets": […]}}'

DATASET_KEYS = (
    Key(
        name="dataset_key",
        meaning="The name that plans use: `input:<dataset_key>`.",
        schema=text_schema(ID_PATTERN),
        required=True,
    ),
    Key(
        name="role",
        meaning="What the file is for. Roles are only labels.",
        schema={"enum": list(ROLES)},
        required=True,
    ),
    Key(name="filename", meaning="The original name of the file; for people only.", schema={"type": "string"}),
    Key(
        name="rel_path",
        meaning="The path of the file, relative to the folder of the manifest, which it cannot leave.",
        schema=text_schema(INSIDE),
        required=True,
    ),
    Key(
        name="fingerprint",
        meaning="The hash of its content; a file with another hash is refused.",
        schema=text_schema("^sha256:[0-9a-f]{64}$"),
    ),
    Key(name="description", meaning="What is in it.", schema={"type": "string"}),
)
MANIFEST_KEYS = (
    Key(name="schema_version", meaning="The version of the format.", schema={"const": SCHEMA_VERSION}, required=True),
    Key(
        name="datasets",
        meaning="The data files, each with its own key.",
        schema={"type": "array", "items": object_schema(DATASET_KEYS, "One data file.")},
        required=True,
    ),
    Key(name="description", meaning="What the files are.", schema={"type": "string"}),
)
_MANIFEST_NAMES, _DATASET_NAMES = names_of(MANIFEST_KEYS), names_of(DATASET_KEYS)

SCHEMA_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def manifest_schema() -> Schema:
    """JSON Schema, draft 2020-12."""
    root = object_schema(MANIFEST_KEYS, "The data files that a dataset plan may use.")
    return {"$schema": SCHEMA_DRAFT, "title": "Whyrun inputs manifest", **root}


@dataclass(frozen=True, slots=True)
class Manifest:
    datasets: dict[str, Dataset]
    complete: bool  # False: there may be more datasets, so unknown ones are not reported


def read_manifest(node: Node | None, problems: Problems, locate: Callable[[str], str]) -> Manifest:
    """The readable datasets. `locate` turns a `rel_path` into a path relative to the project folder."""
    if node is None:
        return Manifest({}, False)
    return _ManifestReader(problems, locate).manifest(node)


class _ManifestReader(JsonFields):
    def __init__(self, problems: Problems, locate: Callable[[str], str]) -> None:
        super().__init__(problems)
        self.locate = locate

    def manifest(self, node: Node) -> Manifest:
        root = self.as_map(node, "the inputs manifest", f"write `{_EXAMPLE}`")
        if root is None:
            return Manifest({}, False)
        fields = self.known_keys(root, _MANIFEST_NAMES, "the inputs manifest")
        self._version(root, fields.get("schema_version"))
        if "datasets" not in fields:
            message = "the inputs manifest has no `datasets`"
            self.problems.add(root.place, "MISSING_KEY", message, f"write `{_EXAMPLE}`")
            return Manifest({}, False)
        listed = self.as_list(fields["datasets"], "`datasets` of the inputs manifest", f"{_DATASET} in a list")
        datasets: dict[str, Dataset] = {}
        complete = listed is not None and not root.duplicates
        for item in listed.items if listed else ():
            key, dataset = self._dataset(item)
            if key is None or not ID.fullmatch(key.value):
                complete = False
            elif key.value in datasets:
                hint = f"the first is in line {datasets[key.value].place.line}; give each a key of its own"
                message = f"there is a dataset `{key.value}` already"
                self.problems.add(key.place, "MANIFEST_KEY_DUPLICATE", message, hint)
                complete = False  # one of the two should have another key
            else:
                datasets[key.value] = dataset
        return Manifest(datasets, complete)

    def _version(self, root: MapNode, node: Node | None) -> None:
        hint = f'write `"schema_version": {SCHEMA_VERSION}`'
        if node is None:
            self.problems.add(root.place, "MANIFEST_VERSION", "the inputs manifest does not say its version", hint)
        elif not isinstance(node, Scalar) or type(node.value) is not int or node.value != SCHEMA_VERSION:
            shown = f"version `{node.text}`" if isinstance(node, Scalar) else json_kind_of(node)
            self.problems.add(node.place, "MANIFEST_VERSION", f"{shown} of the inputs manifest is not known", hint)

    def _dataset(self, item: Node) -> tuple[Scalar | None, Dataset]:
        """Its key, if it has one, and its readable part: references to a broken dataset are not reported."""
        unknown = Dataset("", None, None, None, None, None, item.place, item.place)
        entries = self.as_map(item, "a dataset", _DATASET)
        if entries is None:
            return None, unknown
        fields = self.known_keys(entries, _DATASET_NAMES, "a dataset")
        key = self._key(entries, fields.get("dataset_key"))
        what = f"dataset `{key.value}`" if key is not None else "a dataset"
        filename = self.string(fields["filename"], f"`filename` of {what}") if "filename" in fields else None
        fingerprint = self._fingerprint(fields.get("fingerprint"), what)
        role = self._role(entries, fields.get("role"), what)
        rel_path = self._rel_path(entries, fields.get("rel_path"), what)
        place = fields["rel_path"].place if "rel_path" in fields else item.place
        of_fingerprint = fields["fingerprint"].place if "fingerprint" in fields else place
        path = self.locate(rel_path) if rel_path is not None else None
        name = key.value if key is not None else ""
        return key, Dataset(name, role, filename, rel_path, path, fingerprint, place, of_fingerprint)

    def _key(self, entries: MapNode, node: Node | None) -> Scalar | None:
        if node is None:
            self.problems.add(entries.place, "MISSING_KEY", "a dataset has no `dataset_key`", _DATASET)
            return None
        key = self.string(node, "`dataset_key`")
        if key is None:
            return None
        assert isinstance(node, Scalar)
        if not ID.fullmatch(key):
            self.problems.add(node.place, "MANIFEST_KEY_INVALID", f"`{key}` cannot be the key of a dataset", ID_HINT)
        return node

    def _role(self, entries: MapNode, node: Node | None, what: str) -> str | None:
        known = ", ".join(f"`{role}`" for role in ROLES)
        if node is None:
            self.problems.add(entries.place, "MISSING_KEY", f"{what} has no `role`", f"one of {known}")
            return None
        role = self.string(node, f"`role` of {what}", f"one of {known}")
        if role is not None and role not in ROLES:
            message = f"there is no role `{role}`"
            self.problems.add(node.place, "MANIFEST_ROLE_UNKNOWN", message, did_you_mean(role, ROLES))
            return None
        return role

    def _rel_path(self, entries: MapNode, node: Node | None, what: str) -> str | None:
        if node is None:
            hint = "say where the file is, from the folder of the manifest"
            self.problems.add(entries.place, "MISSING_KEY", f"{what} has no `rel_path`", hint)
            return None
        path = self.string(node, f"`rel_path` of {what}")
        problem = None if path is None else _path_problem(path)
        if problem is not None:
            hint = "write a path that stays inside the folder of the manifest: `inputs/main.csv`"
            self.problems.add(node.place, "MANIFEST_PATH_OUTSIDE", f"`rel_path` of {what}: {problem}", hint)
            return None
        return path

    def _fingerprint(self, node: Node | None, what: str) -> str | None:
        if node is None:
            return None
        text = self.string(node, f"`fingerprint` of {what}")
        match = None if text is None else _FINGERPRINT.fullmatch(text)
        if text is not None and match is None:
            hint = "write `sha256:` and the 64 hex digits of the file's hash, or leave it out"
            self.problems.add(node.place, "MANIFEST_FINGERPRINT_INVALID", f"`{text[:80]}` is not a fingerprint", hint)
        return match[1] if match else None


def _path_problem(path: str) -> str | None:
    if not path or path != path.strip():
        return "it is empty, or begins or ends with a space"
    if any(character in path for character in "\0\n\r\\"):
        return "it has a character that paths cannot have"
    if path.startswith(("/", "~")) or _DRIVE.match(path):
        return f"`{path}` is not relative"
    parts = path.split("/")
    if ".." in parts:
        return f"`{path}` leaves the folder of the manifest"
    if not [part for part in parts if part not in ("", ".")]:
        return f"`{path}` is a folder"
    return None
