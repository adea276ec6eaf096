"""No command is without a test that calls it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from whyrun.cli.main import COMMANDS

TESTS = Path(__file__).resolve().parents[1]


# `connections`, `gc` and `parity` are tested beside what they show.
FILES = (*TESTS.glob("cli/test_*.py"), *TESTS.glob("*/test_*_cli.py"), TESTS / "gc/test_gc_commands.py")


def _called(file: Path) -> set[str]:
    """The first text that a file gives to a call: `whyrun(folder, "why", …)`, `run_command(["why", …], …)`."""
    found: set[str] = set()
    for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call):
            words = [each.elts[0] if isinstance(each, ast.List) and each.elts else each for each in call.args[:2]]
            texts = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            found.update(texts[:1])
    return found


CALLED = {file.name: _called(file) for file in FILES}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_called_by_a_test_of_the_command_line(command: str) -> None:
    assert [name for name, words in CALLED.items() if command in words] != [], f"write tests/cli/test_cli_{command}.py"
