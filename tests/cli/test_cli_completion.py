"""`whyrun completion`: its candidates, and the scripts in real shells."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_lab import pairs, whyrun

from whyrun.cli.commands.completion import SCRIPTS, ids_in
from whyrun.cli.main import COMMANDS
from whyrun.project import Project

PATIENCE = 300.0  # seconds until a shell that prints nothing counts as stuck
PROMPT = "ready> "
KILL_LINE, SHOW_LINE = "\x15", "\x14"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pairs` after one run."""
    folder = pairs(tmp_path_factory.mktemp("completion") / "pairs")
    assert whyrun(folder, "run", "--quiet").code == 0
    return folder


def values(folder: Path, line: str) -> list[str]:
    answer = whyrun(folder, "completion", "bash", "--line", line)
    assert (answer.code, answer.err) == (0, "")
    return answer.out.splitlines()


# --- answers -----------------------------------------------------------------------------------------------------


JOBS = ["Job:Join", "Job:Shout[0]", "Job:Shout[1]"]
ARTIFACTS = ["Artifact:Join.All", "Artifact:Shout.Loud[0]", "Artifact:Shout.Loud[1]"]
INPUTS = ["Input:Mark", "Input:Words[0]", "Input:Words[1]"]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("whyrun ", ["plain", *COMMANDS]),
        ("whyrun ex", ["plain", "explain", "export"]),
        ("whyrun --ver", ["plain", "--version"]),
        ("whyrun explain --fo", ["plain", "--force"]),
        ("whyrun completion ", ["plain", "bash", "zsh", "fish"]),
        ("whyrun schema p", ["plain", "plan"]),
        ("whyrun why ", ["plain", *ARTIFACTS, *INPUTS, *JOBS]),
        ("whyrun why Job:Sh", ["plain", "Job:Shout[0]", "Job:Shout[1]"]),
        ("whyrun why 'Job:Sh", ["plain", "Job:Shout[0]", "Job:Shout[1]"]),
        ("whyrun why Job:Shout\\[1", ["plain", "Job:Shout[1]"]),
        ("whyrun why Job:Join --at ", ["plain", "r0001"]),
        ("whyrun show ", ["plain", "r0001", *ARTIFACTS, *INPUTS, *JOBS]),
        ("whyrun history ", ["plain", *ARTIFACTS, *JOBS]),
        ("whyrun status workflow.yaml J", ["plain", *JOBS]),
        ("whyrun log r0001 --job ", ["plain", *JOBS]),
        ("whyrun log ", ["plain", "r0001"]),
        ("whyrun diff r0001 r", ["plain", "r0001"]),
        ("whyrun adopt ", ["plain", *ARTIFACTS]),
        ("whyrun explain --target J", ["plain", *JOBS]),
        ("whyrun explain --target=Job:J", ["plain", "--target=Job:Join"]),
        ("whyrun runs ", ["plain", "prune"]),
        ("whyrun runs prune --ke", ["plain", "--keep"]),
        ("whyrun runs w", ["file"]),
        ("whyrun why Job:Join ", ["file"]),
        ("whyrun run --inputs ", ["file"]),
        ("whyrun run --state ", ["dir"]),
        ("whyrun run --set ", ["plain"]),
        ("whyrun why Job:None", ["plain"]),
        ("whyrun why --state nowhere ", ["plain"]),
        ("whyrun explian --target ", ["plain"]),
        ("whyrun why Job:Join workflow.yaml --at r", ["plain", "r0001"]),
        ("whyrun status missing.yaml J", ["plain"]),
    ],
)
def test_a_line_is_completed_with_words_that_the_command_takes(ran: Path, line: str, answer: list[str]) -> None:
    assert values(ran, line) == answer


def test_without_a_workflow_there_are_no_runs_and_no_ids(tmp_path: Path) -> None:
    assert values(tmp_path, "whyrun why ") == ["plain"]
    (tmp_path / "workflow.yaml").write_text("workflow: [")
    assert values(tmp_path, "whyrun show ") == ["plain"]


def test_indexes_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    folder = pairs(tmp_path / "many")
    for number in range(11):
        (folder / f"words/c{number}.txt").write_text("more\n")
    assert whyrun(folder, "run", "--quiet").code == 0
    assert values(folder, "whyrun why Job:Shout") == ["plain", *(f"Job:Shout[{number}]" for number in range(13))]


def test_ids_come_from_all_of_the_latest_runs(tmp_path: Path) -> None:
    folder = pairs(tmp_path / "twice")
    assert whyrun(folder, "run", "--quiet").code == 0
    assert whyrun(folder, "run", "--quiet", "--force", "Job:Join").code == 0
    assert values(folder, "whyrun log --job ") == ["plain", *JOBS]
    assert values(folder, "whyrun log ") == ["plain", "r0002", "r0001"]


def test_a_completion_writes_nothing(tmp_path: Path) -> None:
    folder = pairs(tmp_path / "untouched")
    before = sorted(folder.rglob("*"))
    assert values(folder, "whyrun why ") == ["plain"]
    assert sorted(folder.rglob("*")) == before


def test_of_a_long_log_only_the_first_events_are_read(ran: Path) -> None:
    runs = Project.open(ran / "workflow.yaml").state.runs()
    assert ids_in(runs, ("Input:",)) == INPUTS
    assert ids_in(runs, ("Input:",), most=2) == INPUTS[:1]  # `run_start` and the first input


def test_a_damaged_log_completes_nothing_and_prints_no_error(tmp_path: Path) -> None:
    folder = pairs(tmp_path / "damaged")
    assert whyrun(folder, "run", "--quiet").code == 0
    log = folder / ".whyrun/pairs/runs/r0001/events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"event":"input_recorded"', b'"event":"no_event"', 1))
    assert values(folder, "whyrun why ") == ["plain"]
    assert values(folder, "whyrun why Job:Join --at ") == ["plain", "r0001"]


def test_each_shell_has_its_form_of_a_candidate(ran: Path) -> None:
    asked = {shell: whyrun(ran, "completion", shell, "--line", "whyrun hist").out for shell in SCRIPTS}
    text = COMMANDS["history"][1]
    assert asked == {
        "bash": "plain\nhistory\n",
        "zsh": f"plain\nhistory:{text}\n",
        "fish": f"plain\nhistory\t{text}\n",
    }
    assert whyrun(ran, "completion", "zsh", "--line", "whyrun why Job:J").out == "plain\nJob\\:Join\n"


def test_json_has_the_script_or_the_candidates(ran: Path) -> None:
    for shell, script in SCRIPTS.items():
        assert whyrun(ran, "completion", shell).out == script
        assert whyrun(ran, "completion", shell, "--json").json == {"shell": shell, "script": script}
    assert whyrun(ran, "completion", "fish", "--json", "--line", "whyrun explain --js").json == {
        "kind": "plain",
        "candidates": [{"value": "--json", "help": "Print the same as JSON."}],
    }
    files = whyrun(ran, "completion", "fish", "--json", "--line", "whyrun run ")
    assert files.json == {"kind": "file", "candidates": []}


def test_a_shell_that_is_not_supported_is_refused(tmp_path: Path) -> None:
    answer = whyrun(tmp_path, "completion", "tcsh")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error[USAGE]: invalid value for `{bash|zsh|fish}`: `tcsh` is not one of ")


def test_names_of_commands_are_completed_without_importing_them(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom whyrun.cli.commands.completion import complete\ncomplete('whyrun e')\n"
        "print(*sorted(name for name in sys.modules if name.startswith('whyrun')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    own = [
        "whyrun", "whyrun.cli", "whyrun.cli.broken_pipe", "whyrun.cli.commands", "whyrun.cli.commands.completion",
        "whyrun.cli.main", "whyrun.errors", "whyrun.lazy_regex",
    ]  # fmt: skip
    assert done.stdout.split() == own


# --- shells ------------------------------------------------------------------------------------------------------


def installed(shell: str) -> str:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    return program


def shell_environment(**more: str) -> dict[str, str]:
    """With the `whyrun` of this environment on PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name != "WHYRUN_STATE"}
    return {**kept, "PATH": path, "LC_ALL": "C.UTF-8", "TERM": "xterm", **more}


class Terminal:
    """An interactive shell in a terminal, which shows its command line between `<` and `>` on Ctrl-T."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.seen = ""

    def read_until(self, text: str) -> str:
        """What the shell prints up to this text."""
        while text not in self.seen:
            assert select.select([self.descriptor], [], [], PATIENCE)[0], f"nothing more came after {self.seen!r}"
            self.seen += os.read(self.descriptor, 65536).decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def completed(self, typed: str) -> str:
        """The command line after these keys and TAB."""
        os.write(self.descriptor, f"{KILL_LINE}{typed}\t{SHOW_LINE}".encode())
        self.read_until("<<")
        line = self.read_until(">>")
        self.read_until(PROMPT)
        return line


@contextmanager
def terminal(command: list[str], folder: Path, env: Mapping[str, str]) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        command, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        opened = Terminal(ours)
        opened.read_until(PROMPT)
        yield opened
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


# typed → the command line after TAB
COMPLETED = {
    "whyrun expl": "whyrun explain ",
    "whyrun explain --js": "whyrun explain --json ",
    "whyrun show r": "whyrun show r0001 ",
    "whyrun why Job:Jo": "whyrun why Job:Join ",
    "whyrun why 'Job:Shout[1": "whyrun why 'Job:Shout[1]' ",
    "whyrun why Job:Shout\\[1": "whyrun why Job:Shout\\[1\\] ",
    "whyrun why Job:Sh\t1": "whyrun why Job:Shout\\[1\\] ",
    "whyrun why Artifact:J": "whyrun why Artifact:Join.All ",
    "whyrun explain --target Job:Jo": "whyrun explain --target Job:Join ",
    "whyrun explain --target=Job:Jo": "whyrun explain --target=Job:Join ",
    "whyrun run work": "whyrun run workflow.yaml ",
    "whyrun run --state wo": "whyrun run --state words/",
    "whyrun frob ": "whyrun frob ",
}


def test_bash_completes(ran: Path, tmp_path: Path) -> None:
    rc = tmp_path / "rc"
    rc.write_text(
        f"PS1='{PROMPT}'\nbind 'set enable-bracketed-paste off'\n"
        """bind -x '"\\C-t": printf "<<%s>>\\n" "$READLINE_LINE"'\n"""
        'eval "$(whyrun completion bash)"\n'
    )
    command = [installed("bash"), "--noprofile", "--rcfile", str(rc), "-i"]
    with terminal(command, ran, shell_environment()) as bash:
        assert {typed: bash.completed(typed) for typed in COMPLETED} == COMPLETED


def test_zsh_completes(ran: Path, tmp_path: Path) -> None:
    (tmp_path / ".zshrc").write_text(
        f"PS1='{PROMPT}'\nunset zle_bracketed_paste\nautoload -U compinit\ncompinit -u -D\n"
        "show-line() { print -r -- \"<<$BUFFER>>\"; zle reset-prompt }\nzle -N show-line\nbindkey '^T' show-line\n"
        'eval "$(whyrun completion zsh)"\n'
    )
    env = shell_environment(ZDOTDIR=str(tmp_path))
    with terminal([installed("zsh"), "-i"], ran, env) as zsh:
        assert {typed: zsh.completed(typed) for typed in COMPLETED} == COMPLETED


def test_fish_completes(ran: Path, tmp_path: Path) -> None:
    script = tmp_path / "whyrun.fish"
    script.write_text(SCRIPTS["fish"])
    lines = [
        "whyrun hist",
        "whyrun explain --js",
        "whyrun why 'Job:Sh",
        "whyrun why --at r",
        "whyrun explain --target=Job:J",
        "whyrun run work",
        "whyrun run --state wo",
        "whyrun frob ",
    ]
    program = 'source $argv[1]; for line in $argv[2..]; echo "? $line"; complete -C $line; end'
    done = subprocess.run(
        [installed("fish"), "--no-config", "-c", program, script, *lines],
        cwd=ran, env=shell_environment(HOME=str(tmp_path)), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "? whyrun hist",
        f"history\t{COMMANDS['history'][1]}",
        "? whyrun explain --js",
        "--json\tPrint the same as JSON.",
        "? whyrun why 'Job:Sh",
        "Job:Shout[0]",
        "Job:Shout[1]",
        "? whyrun why --at r",
        "r0001",
        "? whyrun explain --target=Job:J",
        "--target=Job:Join",
        "? whyrun run work",
        "workflow.yaml",
        "? whyrun run --state wo",
        "words/\tDirectory",
        "? whyrun frob ",
    ]
