"""What is generated in the docs is current; links lead somewhere; the picture shows what the commands still print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import PROJECT, normal, pages, shown

from whyrun.cli.main import COMMANDS
from whyrun.errors import CODES

sys.path.insert(0, str(PROJECT / "docs"))
import generate
import picture


def test_generated_parts_are_current() -> None:
    done = subprocess.run(
        [sys.executable, PROJECT / "docs" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), f"{done.stdout}{done.stderr}\nrun: python docs/generate.py"


def test_every_code_and_every_command_has_its_place() -> None:
    errors = (PROJECT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [code for code in CODES if f"| `{code}` |" not in errors] == []
    cli = (PROJECT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"## whyrun {name}\n" not in cli] == []


def test_error_types_that_we_establish_are_documented() -> None:
    """Every `StepError("Kind", …)` and `Problem(…, "Kind", …)` in the source stands in the table of errors.md."""
    errors = (PROJECT / "docs" / "errors.md").read_text(encoding="utf-8")
    kinds: set[str] = set()
    for file in (PROJECT / "src" / "whyrun" / "execution").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        kinds |= set(re.findall(r'StepError\(\s*"([A-Z]\w+)"', text))
        kinds |= set(re.findall(r'Problem\(\s*"[A-Z_]+",\s*"([A-Z]\w+)"', text))
    assert len(kinds) >= 10, kinds
    assert sorted(kind for kind in kinds if f"| `{kind}` |" not in errors) == []


def _anchors(page: Path) -> set[str]:
    found = set()
    for heading in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            broken.append(target)
    assert broken == []


def test_the_picture_shows_what_the_commands_print() -> None:
    assert normal(picture.described().splitlines()) == normal(picture.transcript().splitlines()), (
        "run: python docs/picture.py"
    )


def test_a_generated_part_keeps_what_stands_around_it() -> None:
    text = "before\n<!-- generated: exits -->\nold\n<!-- end -->\nafter\n"
    assert generate.generated(text) == f"before\n<!-- generated: exits -->\n{generate.exits()}<!-- end -->\nafter\n"
