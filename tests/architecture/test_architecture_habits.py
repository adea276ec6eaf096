"""Habits, checked: module size, no swallowed exceptions, error codes, help with examples, no paths of a machine."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from source_tree import PACKAGE, PROJECT, modules, shown, tree_of

from whyrun.cli.main import COMMANDS, cli
from whyrun.errors import CODES

MODULE_LIMIT = 450


def test_no_module_is_larger_than_can_be_read_at_once() -> None:
    sizes = {shown(file): len(file.read_text(encoding="utf-8").splitlines()) for file in modules()}
    assert {name: size for name, size in sizes.items() if size > MODULE_LIMIT} == {}


def swallowed(tree: ast.Module) -> list[str]:
    """Bare `except:`, and broad handlers that neither raise nor use or print what they caught."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        if node.type is None:
            found.append(f"line {node.lineno}: bare except")
            continue
        named = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)}
        if not named & {"Exception", "BaseException"}:
            continue
        inside = [child for statement in node.body for child in ast.walk(statement)]
        raises = any(isinstance(child, ast.Raise) for child in inside)
        uses = any(isinstance(child, ast.Name) and child.id == node.name for child in inside)
        # `fail_loudly` prints the traceback and ends the command.
        prints = any(isinstance(child, ast.Name) and child.id == "fail_loudly" for child in inside)
        if not raises and not uses and not prints:
            found.append(f"line {node.lineno}: swallows every exception")
    return found


@pytest.mark.parametrize("file", modules(), ids=shown)
def test_no_exception_is_swallowed(file: Path) -> None:
    assert swallowed(tree_of(file)) == []


def test_the_check_for_swallowed_exceptions_would_notice() -> None:
    bare = ast.parse("try:\n    f()\nexcept:\n    pass")
    broad = ast.parse("try:\n    f()\nexcept (ValueError, Exception) as e:\n    g()")
    fine = ast.parse("try:\n    f()\nexcept Exception as e:\n    g(e)")
    assert (swallowed(bare), swallowed(broad), swallowed(fine)) == (
        ["line 3: bare except"],
        ["line 3: swallows every exception"],
        [],
    )


def test_no_stubs_and_no_notes_to_self() -> None:
    found = [
        f"{shown(file)}:{number}"
        for file in modules()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line)
    ]
    assert found == []


# --- codes -------------------------------------------------------------------------------------------------------


def test_every_error_code_is_used() -> None:
    """A code in the table that nothing raises is a promise that nobody keeps."""
    used: set[str] = set()
    for file in modules():
        if shown(file) == "errors.py":
            continue
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.add(node.value)
    assert sorted(set(CODES) - used) == []


# --- the command line --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_shows_an_example_of_its_use(name: str) -> None:
    context = click.Context(cli, info_name="whyrun")
    command = cli.get_command(context, name)
    assert command is not None
    text = command.get_help(click.Context(command, info_name=name, parent=context))
    assert re.search(rf"Examples?:\n(.*\n)*\s+whyrun {name}\b", text), text


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_json(name: str) -> None:
    command = cli.get_command(click.Context(cli, info_name="whyrun"), name)
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts}
    assert "--json" in options


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []], ids=str)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import json, sys\n"
        "from whyrun.cli.main import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    heavy = ("rich", "yaml", "msgspec", "asyncio", "multiprocessing", "subprocess", "PIL", "numpy")
    assert sorted(name for name in loaded if name.split(".")[0] in heavy) == []
    own = sorted(name for name in loaded if name.split(".")[0] == "whyrun")
    assert own == [
        "whyrun", "whyrun.cli", "whyrun.cli.broken_pipe", "whyrun.cli.main", "whyrun.errors", "whyrun.lazy_regex",
    ]  # fmt: skip


def test_importing_the_package_is_light() -> None:
    program = "import json, sys, whyrun; print(json.dumps(sorted(m for m in sys.modules if m.startswith('whyrun'))))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert json.loads(done.stdout) == ["whyrun"]


# Modules that a plan with nothing to do does not need. Each costs 0.3 to 15 ms at the start of every command.
NOT_FOR_A_PLAN = (
    "asyncio", "concurrent", "difflib", "importlib.util", "logging", "mmap", "multiprocessing", "numpy", "PIL",
    "rich", "shlex", "signal", "socket", "subprocess", "tempfile", "tomllib",
    "whyrun.artifacts.compare", "whyrun.artifacts.shared", "whyrun.artifacts.stat_cache.parallel_stat",
    "whyrun.connections.resolve", "whyrun.console.lines", "whyrun.console.render", "whyrun.evidence",
    "whyrun.execution", "whyrun.graph.problems.partial", "whyrun.log.tombstones", "whyrun.planning.answers.why",
    "whyrun.snapshot.actions.output_hooks", "whyrun.snapshot.actions.parameter_checks", "whyrun.workflow.composition",
)  # fmt: skip
# The modules and packages of Whyrun that it does need. Each costs 0.1 to 1 ms. Where this number is too small, import
# the new module late, or raise the number for a module that every plan needs.
OWN_MODULES_OF_A_PLAN = 143


def test_a_plan_with_nothing_to_do_imports_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "import json, sys\n"
        "from whyrun.cli.main import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    for command in ("init", "run", "plan", "plan"):
        if command == "plan":
            time.sleep(0.2)  # what was written in this very tick is not trusted: the first plan reads it again
        arguments = [sys.executable, "-c", program, command]
        done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    assert "nothing to do, 4 of 5 jobs up to date" in done.stdout
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in loaded if name.startswith(tuple(f"{heavy}." for heavy in NOT_FOR_A_PLAN))] == []
    assert sorted({*loaded} & {*NOT_FOR_A_PLAN}) == []
    own = [name for name in loaded if name.split(".")[0] == "whyrun"]
    assert len(own) <= OWN_MODULES_OF_A_PLAN, own


def test_the_installed_command_collects_no_garbage_while_it_starts() -> None:
    program = (
        "import gc, sys\n"
        "from whyrun.cli import entry\n"
        "assert 'whyrun.cli.main' not in sys.modules\n"
        "before = gc.get_stats()\n"
        "sys.argv = ['whyrun', '--version']\n"
        "try:\n"
        "    entry.main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "assert gc.get_stats() == before\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.startswith("whyrun, version ")


# --- the repository ----------------------------------------------------------------------------------------------

# Spelled in parts, so that this file does not find itself.
MACHINE_PATHS = re.compile(
    r"(?<![\w.*/%-])("
    + "|".join(["/wo" + "rk/", "/ho" + "me/[a-z]", "/Us" + "ers/", "/ro" + "ot/", "/op" + "t/[a-z]"])
    + ")"
)
TEXT = {".py", ".md", ".yaml", ".yml", ".toml", ".json", ".jsonl", ".sh", ".txt", ".svg", ".cfg", ""}
FOLDERS = ("src", "tests", "docs", "examples", "bench", ".ci")


def test_no_path_of_any_one_machine_stands_in_the_project() -> None:
    files = [file for file in PROJECT.iterdir() if file.is_file() and file.name != ".git"]  # a worktree has such a file
    for folder in FOLDERS:
        files += [file for file in (PROJECT / folder).rglob("*") if file.is_file()]
    found = []
    for file in files:
        if file.suffix not in TEXT or {"__pycache__", ".whyrun"} & set(file.parts):
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if MACHINE_PATHS.search(line):
                found.append(f"{file.relative_to(PROJECT)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
