"""The core is pure: it takes the world as data, and reads no file, clock, environment or random source.

Checked in the syntax tree: which modules are imported (a list of what is allowed, so that a new way to the outside has
to be argued for here), and which functions and methods are called.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from source_tree import imports_of, modules, shown, tree_of

PURE = (
    "json_values.py",
    "money.py",
    "notebook.py",
    "exports/formats/**/*.py",
    "exports/graph_pictures.py",
    "exports/record.py",
    "exports/texts.py",
    "graph/**/*.py",
    "planning/**/*.py",
    "snapshot/history/fold.py",
    "snapshot/history/fold_costs.py",
    "snapshot/history/fold_moves.py",
    "snapshot/history/fold_reads.py",
    "snapshot/observations.py",
    "snapshot/read_states.py",
    "snapshot/reads.py",
    "snapshot/records.py",
    "snapshot/results.py",
    "snapshot/snapshot.py",
    "snapshot/index.py",
    "snapshot/build.py",
    "snapshot/donors.py",
    "snapshot/suspects.py",
    "artifacts/hash_column.py",
    "artifacts/shared/result.py",
    "execution/run/rates.py",
    "execution/run/scheduler.py",
    "log/events.py",
    "log/reads.py",
    "log/outcomes.py",
    "connections/planned_value.py",
    "connections/text.py",
    "evidence/parity/fields.py",
    "evidence/verify/lines.py",
    "evidence/verify/report.py",
    "console/lines.py",
    "workflow/advice.py",
    "workflow/arrays.py",
    "workflow/model.py",
    "workflow/composition/shapes.py",
)
STANDARD = {
    "__future__", "array", "base64", "bisect", "collections", "collections.abc", "dataclasses", "datetime", "decimal",
    "difflib", "enum", "fnmatch", "fractions", "functools", "hashlib", "heapq", "html", "itertools", "json", "math",
    "operator", "re", "shlex", "string", "struct", "types", "typing", "unicodedata", "xml.sax.saxutils", "zlib",
}  # fmt: skip
THIRD_PARTY = {"msgspec", "msgspec.structs"}
# Ours: the pure modules themselves, and the pure part of others.
OURS = {
    "whyrun.errors", "whyrun.ids", "whyrun.lazy_regex", "whyrun.log.decoding", "whyrun.log.lean_events",
    "whyrun.workflow.expressions.expression",
    "whyrun.workflow.fields", "whyrun.workflow.inputs", "whyrun.workflow.model", "whyrun.workflow.values",
}  # fmt: skip
ONLY = {
    "whyrun.artifacts.hashing": {
        "bytes_sha256",
        "canonical_json",
        "canonical_list",
        "canonical_object",
        "digest",
        "value_sha256",
    },
    "whyrun.log": {"events", "lean_events", "outcomes"},
    "whyrun.project_config": {"Rate"},
    "pathlib": {"PurePosixPath"},
    "zlib": {"crc32"},
}
# Built-in functions that reach outside, or make results depend on where and when.
FORBIDDEN_CALLS = {"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint", "hash"}
FORBIDDEN_METHODS = {
    "now", "today", "utcnow", "fromtimestamp", "environ", "getenv", "cwd", "home", "read_text", "read_bytes",
    "write_text", "write_bytes", "is_file", "is_dir", "iterdir", "rglob", "unlink", "mkdir", "resolve_path", "urandom",
}  # fmt: skip


def _dotted(file: Path) -> str:
    return "whyrun." + shown(file).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


PURE_FILES = modules(*PURE)
PURE_MODULES = {_dotted(file) for file in PURE_FILES}


def impurities(tree: ast.Module) -> list[str]:
    found = []
    for module, name, line in imports_of(tree):
        if module in STANDARD | THIRD_PARTY | OURS | PURE_MODULES:
            continue
        if module in ONLY and name in ONLY[module]:
            continue
        found.append(f"line {line}: imports {module}" + (f".{name}" if name else ""))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            found.append(f"line {node.lineno}: calls {node.func.id}()")
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FORBIDDEN_METHODS
        ):
            found.append(f"line {node.lineno}: calls .{node.func.attr}()")
        elif isinstance(node, ast.Global):
            found.append(f"line {node.lineno}: changes a global")
    return found


@pytest.mark.parametrize("file", PURE_FILES, ids=shown)
def test_a_pure_module_reaches_nothing_outside(file: Path) -> None:
    assert impurities(tree_of(file)) == []


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("import os", "line 1: imports os"),
        ("import time", "line 1: imports time"),
        ("def f():\n    import random", "line 2: imports random"),
        ("from pathlib import Path", "line 1: imports pathlib.Path"),
        ("from subprocess import run", "line 1: imports subprocess.run"),
        ("from whyrun.artifacts.store import Store", "line 1: imports whyrun.artifacts.store.Store"),
        ("from whyrun.artifacts.hashing import file_sha256", "line 1: imports whyrun.artifacts.hashing.file_sha256"),
        ("from datetime import datetime\nx = datetime.now()", "line 2: calls .now()"),
        ("x = open('f')", "line 1: calls open()"),
        ("def f(p):\n    return p.read_text()", "line 2: calls .read_text()"),
        ("def f():\n    global x\n    x = 1", "line 2: changes a global"),
    ],
)
def test_the_check_would_notice(source: str, finding: str) -> None:
    assert impurities(ast.parse(source)) == [finding]
