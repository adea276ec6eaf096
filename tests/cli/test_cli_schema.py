"""`whyrun schema`, the help pages, and the cost of a cold start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from cli_lab import pairs, whyrun

from whyrun.cli.commands.init import WORKFLOW

OWN = ["init", "validate", "schema", "plan", "explain", "run"]


def test_the_schema_accepts_real_workflows_and_refuses_a_wrong_key(tmp_path: Path) -> None:
    answer = whyrun(tmp_path, "schema")
    assert (answer.code, answer.err) == (0, "")
    schema = answer.json
    jsonschema.Draft202012Validator.check_schema(schema)
    checker = jsonschema.Draft202012Validator(schema)
    for text in (WORKFLOW, (pairs(tmp_path / "p") / "workflow.yaml").read_text()):
        checker.validate(yaml.safe_load(text))
    wrong = {**yaml.safe_load(WORKFLOW), "jbos": {}}
    assert not checker.is_valid(wrong)


@pytest.mark.parametrize("command", OWN)
def test_every_help_page_has_an_example(tmp_path: Path, command: str) -> None:
    answer = whyrun(tmp_path, command, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert f"\n  Example:\n    whyrun {command}" in answer.out


def test_the_overview_names_every_command_without_importing_one(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom whyrun.cli.main import COMMANDS, cli\n"
        "try:\n    cli.main(['--help'], standalone_mode=False)\nfinally:\n"
        "    import json\n"
        "    print(json.dumps([list(COMMANDS), sorted(m for m in sys.modules if m.split('.')[0] in "
        "('whyrun', 'rich', 'yaml', 'msgspec', 'asyncio'))]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    commands, modules = json.loads(done.stdout.splitlines()[-1])
    assert modules == [
        "whyrun", "whyrun.cli", "whyrun.cli.broken_pipe", "whyrun.cli.main", "whyrun.errors", "whyrun.lazy_regex",
    ]  # fmt: skip
    assert [line.split()[0] for line in done.stdout.split("Commands:\n")[1].splitlines()[: len(commands)]] == commands


def test_import_whyrun_brings_nothing_else() -> None:
    script = "import sys; before = set(sys.modules); import whyrun; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "['__future__', 'whyrun']\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["frob"], "error[USAGE]: there is no command `frob`\n   hint: `whyrun --help` lists the commands\n"),
        (["explan"], "error[USAGE]: there is no command `explan`\n   hint: did you mean `explain`?\n"),
        (["plan", "--targt", "Job:A"],
         "error[USAGE]: `whyrun plan` has no option `--targt`\n   hint: did you mean `--target`?\n"),
        (["why"], "error[USAGE]: missing argument `ID`\n"
         "   hint: usage: `whyrun why [OPTIONS] ID [FILE]`; see `whyrun why --help`\n"),
        (["plan", "--up"], "error[USAGE]: option `--up` requires an argument\n"
         "   hint: `whyrun COMMAND --help` shows how a command is used\n"),
        (["run", "--jobs", "-1"], "error[USAGE]: invalid value for `--jobs` / `-j`: -1 is not in the range x>=0\n"
         "   hint: usage: `whyrun run [OPTIONS] [FILE]`; see `whyrun run --help`\n"),
        (["plan", "a.yaml", "b.yaml"], "error[USAGE]: got unexpected extra argument (b.yaml)\n"
         "   hint: usage: `whyrun plan [OPTIONS] [FILE]`; see `whyrun plan --help`\n"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_exits_2_and_says_what_is_wrong(tmp_path: Path, words: list[str], message: str) -> None:
    answer = whyrun(tmp_path, *words)
    assert (answer.code, answer.out, answer.err) == (2, "", message)
