"""Every block of code in the README and the docs is run or checked.

`UPDATE_DOCS=1` writes what commands now print where it differs; `UPDATE_DOCS=all` also where only times and hashes do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from blocks import PROJECT, Block, agrees, blocks_of, exchanges, pages, shown

from fork_server import shell_environment
from whyrun.errors import WhyrunError
from whyrun.project_config import read_project_config
from whyrun.workflow.nodes import Problems
from whyrun.workflow.parsing.parse import parse_workflow
from whyrun.workflow.yaml_source import read_yaml

PAGES = [page for page in pages() if any(True for _ in blocks_of(page))]
SKIPPED = 4  # blocks marked `<!-- skip: why -->`, over all pages; a new one has to be argued for here
UPDATE = os.environ.get("UPDATE_DOCS", "")


class Scratch:
    """The folder in which the blocks of one page run, one after the other."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent
        self.made = 0
        self.folder = parent
        self.corrections: list[tuple[Block, str]] = []
        variables = {"HOME": str(parent), "LANG": "C.UTF-8", "COLUMNS": "110", "TERM": "dumb"}
        self.environment = shell_environment(parent / "bin", variables)
        self.start("empty")

    def start(self, project: str) -> None:
        self.made += 1
        self.folder = self.parent / f"scratch{self.made}" / (project if project != "empty" else "project")
        if project == "empty":
            self.folder.mkdir(parents=True)
        else:
            shutil.copytree(
                PROJECT / "examples" / project, self.folder, ignore=shutil.ignore_patterns(".whyrun", "out")
            )

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )


def check_console(block: Block, scratch: Scratch, update: str = UPDATE) -> None:
    parts = exchanges(block.text)
    assert parts, f"{block.place}: a console block without a command"
    rewritten: list[str] = []
    wrong: list[str] = []
    for number, part in enumerate(parts, 1):
        done = scratch.run(["bash", "-c", part.command])
        expected_exit = int(block.directives.get("exit", "0")) if number == len(parts) else 0
        assert done.returncode == expected_exit, f"{block.place}: `{part.command}` → {done.returncode}\n{done.stdout}"
        actual = done.stdout.splitlines()
        fits = agrees(part.output, actual) and (update != "all" or list(part.output) == actual)
        if not fits:
            wrong.append(f"{block.place}: `{part.command}` printed\n" + "\n".join(actual))
        rewritten += ["$ " + part.command.replace("\n", "\n> "), *(part.output if fits else actual)]
    if wrong and update:
        scratch.corrections.append((block, "\n".join(rewritten) + "\n"))
    else:
        assert not wrong, "\n\n".join(wrong)


def check_yaml(block: Block, scratch: Scratch) -> None:
    if "fragment" in block.directives:
        problems = Problems()
        assert read_yaml(block.text, block.place, problems) is not None
        assert list(problems) == [], block.place
        return
    text = block.text
    if not text.startswith("workflow:"):
        text = f"workflow: part\n{text}"
    if "\njobs:" not in text:
        text += "jobs: {Nothing: {uses: shell, with: {run: 'true'}}}\n"
    sources = {"workflow.yaml": text}

    def read(key: str) -> str:
        return sources[key] if key in sources else (scratch.folder / key).read_text(encoding="utf-8")

    code = block.directives.get("refused")
    if code is None:
        parse_workflow("workflow.yaml", read)
        return
    with pytest.raises(WhyrunError) as refused:
        parse_workflow("workflow.yaml", read)
    assert [d.code for d in refused.value.diagnostics] == code.split(), block.place


def check_python(block: Block, scratch: Scratch) -> None:
    if "file" in block.directives:
        compile(block.text, block.place, "exec")
        return
    done = scratch.run([sys.executable, "-c", block.text])
    assert done.returncode == 0, f"{block.place}\n{done.stdout}"


def check_pycon(block: Block, scratch: Scratch) -> None:
    """All such blocks of a page are one session, which runs where the first of them stands."""
    session = scratch.parent / "session.txt"
    if session.exists():
        return
    blocks = [other for other in blocks_of(PROJECT / block.page) if other.language == "pycon"]
    session.write_text("\n".join(other.text for other in blocks), encoding="utf-8")
    done = scratch.run([sys.executable, "-m", "doctest", "-o", "ELLIPSIS", str(session)])
    assert done.returncode == 0, f"{block.place}\n{done.stdout}"


def check_json(block: Block, scratch: Scratch) -> None:
    del scratch
    for line in block.text.strip().split("\n\n"):
        json.loads(line)


def check_toml(block: Block, scratch: Scratch) -> None:
    tomllib.loads(block.text)
    (scratch.folder / "whyrun.toml").write_text(block.text, encoding="utf-8")
    read_project_config(scratch.folder)


CHECKS: dict[str, Callable[[Block, Scratch], None]] = {
    "console": check_console,
    "yaml": check_yaml,
    "python": check_python,
    "pycon": check_pycon,
    "json": check_json,
    "toml": check_toml,
}


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_block_of_a_page_holds(page: Path, tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    for block in blocks_of(page):
        if "project" in block.directives:
            scratch.start(block.directives["project"])
        if "skip" in block.directives:
            continue
        if "checked" in block.directives:
            assert (PROJECT / block.directives["checked"]).is_file(), block.place
            continue
        assert block.language in CHECKS, f"{block.place}: no way to check `{block.language}`"
        CHECKS[block.language](block, scratch)
        if "file" in block.directives:
            target = scratch.folder / block.directives["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
    if scratch.corrections:
        correct(page, scratch.corrections)


def correct(page: Path, corrections: list[tuple[Block, str]]) -> None:
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    for block, right in reversed(corrections):  # from the end, so that the numbers of earlier lines stay
        lines[block.line : block.line + block.text.count("\n")] = [right]
    page.write_text("".join(lines), encoding="utf-8")


def test_what_is_not_checked_is_counted_and_explained() -> None:
    skipped = [block for page in PAGES for block in blocks_of(page) if "skip" in block.directives]
    assert all(len(block.directives["skip"]) > 10 for block in skipped), "say why"
    assert len(skipped) == SKIPPED, [block.place for block in skipped]


def test_a_console_block_that_lies_is_noticed(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    check_console(Block("page", 1, "console", "$ echo one\none\n", {}), scratch, update="")
    with pytest.raises(AssertionError, match=r"printed\s+two"):
        check_console(Block("page", 1, "console", "$ echo two\none\n", {}), scratch, update="")
    with pytest.raises(AssertionError, match="→ 3"):
        check_console(Block("page", 1, "console", "$ exit 3\n", {}), scratch, update="")
