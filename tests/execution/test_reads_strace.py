"""What programs read without declaring it, as strace sees it: scripts as people have them, run by the engine."""

from __future__ import annotations

import os
import py_compile
import shutil
import sys
from collections.abc import Callable
from importlib import metadata

import pytest

from project_lab import Lab, Ran
from whyrun.artifacts.hashing import bytes_sha256
from whyrun.log import events as ev
from whyrun.log.reads import Read, folder_sha256

pytestmark = [
    pytest.mark.real_start,
    pytest.mark.traced,
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
]

Make = Callable[..., Lab]


@pytest.fixture(autouse=True)
def _plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper such as that of pyenv reads files of its own."""
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:/usr/bin:/bin")


def ends(ran: Ran) -> dict[str, ev.StepComplete]:
    return {event.step_id: event for event in ran.of(ev.StepComplete)}


def observed(ran: Ran) -> dict[str, list[Read]]:
    return {step: event.observed or [] for step, event in ends(ran).items()}  # type: ignore[misc]


def file(path: str, text: str, by: str = "strace") -> Read:
    return Read(path, "file", bytes_sha256(text.encode()), by)  # type: ignore[arg-type]


HELPER = "def clean(text): return text.strip()\n"
TRAIN = """
import argparse, os, sys
sys.path.insert(0, os.environ["WHYRUN_PROJECT"])
import helper
parser = argparse.ArgumentParser()
parser.add_argument("--out")
parser.add_argument("--scale", default="1")
given = parser.parse_args()
text = open(os.path.join(os.environ["WHYRUN_PROJECT"], "data/x.csv")).read()
open(given.out, "w").write(helper.clean(text) * int(given.scale))
"""
SCRIPTS = """
    workflow: w
    loops: {n: {values: [1, 2]}}
    inputs: {Script: {type: file, default: train.py}}
    jobs:
      Train:
        for: [n]
        uses: shell
        with:
          run: python3 "$script" --out "$out_T" --scale "$n"
          script: ${{ inputs.Script }}
          n: ${{ n }}
        outputs: {T: {type: text}}
"""


def test_a_script_that_imports_a_helper_and_opens_a_file_of_the_project(project: Make) -> None:
    lab = project(SCRIPTS, {"train.py": TRAIN, "helper.py": HELPER, "data/x.csv": "x\n"})
    ran = lab.succeed()
    reads = [file("data/x.csv", "x\n"), file("helper.py", HELPER)]
    assert observed(ran) == {"Job:Train[1]": reads, "Job:Train[2]": reads}
    assert [event.traced for event in ends(ran).values()] == [True, True]  # they ran at the same time
    assert ran.heard.notes == []
    assert not (lab.root / "__pycache__").exists()  # it would change a folder that is an input
    more = lab.edit("workflow.yaml", "[1, 2]", "[1, 2, 3]").succeed()
    assert observed(more) == {"Job:Train[3]": reads}  # is known to read the same
    assert [event.traced for event in ends(more).values()] == [False]
    lab.edit("helper.py", "strip()", "upper()")
    py_compile.compile(str(lab.root / "helper.py"), doraise=True)
    edited = lab.succeed()  # the helper is loaded from its byte code
    reads[1] = file("helper.py", lab.read("helper.py"))
    assert observed(edited) == {f"Job:Train[{n}]": reads for n in (1, 2, 3)}
    assert [event.traced for event in ends(edited).values()][:1] == [True]
    assert lab.plan().planned == []


def test_packages_that_only_another_python_has_are_not_recorded(project: Make) -> None:
    """A plan compares the versions with those that are installed for this one."""
    workflow = """
    workflow: w
    jobs:
      Look:
        uses: shell
        with: {run: 'PYTHONPATH="$WHYRUN_PROJECT/other-packages" python3 -c "import thing, yaml"; echo 1 > "$out_T"'}
        outputs: {T: {type: text}}
    """
    ran = project(
        workflow, {"other-packages/thing.py": "", "other-packages/thing-1.0.dist-info/METADATA": ""}
    ).succeed()
    assert ends(ran)["Job:Look"].packages == {"pyyaml": metadata.version("pyyaml")}


def test_what_a_shell_step_lists_looks_for_and_executes(project: Make) -> None:
    run = """
        cd "$WHYRUN_PROJECT"
        ls data > "$out_T"
        test -e conf.json || true
        ./tool.sh
        python3 -c "import yaml, json"
        python3 versions.py
        (cat data/x.csv > scratch.txt; mv scratch.txt moved.txt; cat moved.txt; rm moved.txt)
        cat .git/HEAD; echo log >> log.txt; cat log.txt
        """
    workflow = f"""
    workflow: w
    jobs:
      Look:
        uses: shell
        with:
          run: |{run.replace(chr(10), chr(10) + "    ")}
        outputs: {{T: {{type: text}}}}
    """
    tool = "#!/bin/sh\ntrue\n"
    versions = (
        "import importlib.metadata, importlib_metadata\n"
        "assert importlib.metadata.version('msgspec') == importlib_metadata.version('msgspec')\n"
    )
    lab = project(workflow, {"data/x.csv": "x", "tool.sh": tool, "versions.py": versions, ".git/HEAD": "ref"})
    (lab.root / "tool.sh").chmod(0o755)
    ran = lab.succeed()
    packages = ends(ran)["Job:Look"].packages or {}
    assert {name: packages.get(name) for name in ("pyyaml", "importlib-metadata")} == {
        name: metadata.version(name) for name in ("pyyaml", "importlib-metadata")
    }
    assert observed(ran) == {
        "Job:Look": [
            Read("conf.json", "absent", by="strace"),
            Read("data", "folder", folder_sha256(["x.csv"]), "strace"),
            file("data/x.csv", "x"),
            file("tool.sh", tool),
            file("versions.py", versions),
        ]
    }


def test_a_python_step_is_traced_once_it_starts_a_program_or_loads_a_library_that_opens_files_from_c(
    project: Make,
) -> None:
    code = """
        import os, subprocess, sys
        PROJECT = os.environ["WHYRUN_PROJECT"]
        def program():
            open(f"{PROJECT}/data/x.csv").read()
            return {"T": subprocess.run([sys.executable, f"{PROJECT}/tool.py"], capture_output=True, text=True).stdout}
        def alone(): return {"T": open(f"{PROJECT}/data/x.csv").read()}
        def in_c():
            import duckdb
            (row,) = duckdb.sql(f"from read_csv('{PROJECT}/data/*.csv', header=false)").fetchall()
            return {"T": row[0]}
        """
    workflow = """
    workflow: w
    jobs:
      Program: {uses: python, with: {call: "steps:program"}, outputs: {T: {type: text}}}
      Alone: {uses: python, with: {call: "steps:alone"}, outputs: {T: {type: text}}}
      InC: {uses: python, with: {call: "steps:in_c"}, outputs: {T: {type: text}}}
    """
    tool = "import helper\nprint(helper.clean(' x '))\n"
    lab = project(workflow, {"steps.py": code, "tool.py": tool, "helper.py": HELPER, "data/x.csv": "x"})
    ran = lab.succeed()
    data = file("data/x.csv", "x", "python")
    assert observed(ran) == {
        "Job:Program": [data, file("helper.py", HELPER), file("tool.py", tool)],
        "Job:Alone": [data],
        "Job:InC": [Read("data", "folder", folder_sha256(["x.csv"]), "strace"), file("data/x.csv", "x")],
    }
    assert all(event.traced for event in ends(ran).values())


def test_trace_always_and_never(project: Make) -> None:
    files = {"train.py": TRAIN, "helper.py": HELPER, "data/x.csv": "x\n"}
    always = project(SCRIPTS, {**files, "whyrun.toml": 'trace = "always"\n'}).succeed()
    assert [event.traced for event in ends(always).values()] == [True, True]
    never = project(SCRIPTS, {**files, "whyrun.toml": 'trace = "never"\n'}).succeed()
    assert [(event.traced, event.observed) for event in ends(never).values()] == [(False, None)] * 2


def test_a_step_that_is_told_to_stop_can_clean_up_though_it_is_traced(project: Make) -> None:
    workflow = """
    workflow: w
    jobs:
      Slow:
        uses: shell
        with:
          run: |
            trap 'cat "$WHYRUN_PROJECT/data/x.csv" > "$WHYRUN_PROJECT/cleaned.txt"; exit 1' TERM
            touch "$WHYRUN_PROJECT/ready"
            while true; do sleep 0.05; done
        outputs: {T: {type: text}}
      Bad:
        uses: shell
        with: {run: 'while [ ! -e "$WHYRUN_PROJECT/ready" ]; do sleep 0.05; done; exit 1'}
        outputs: {T: {type: text}}
    """
    lab = project(workflow, {"data/x.csv": "x"})
    ran = lab.run(fail_fast=True)
    assert ran.failed == {"Job:Slow": ("INTERRUPTED", "Interrupted"), "Job:Bad": ("FAILED", "CommandFailed")}
    assert lab.read("cleaned.txt") == "x"


def test_where_strace_cannot_be_had_the_run_says_so_once(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bin_ = project(SCRIPTS, {"bin/x": ""}).root / "bin"
    (bin_ / "bash").symlink_to(shutil.which("bash") or "")
    (bin_ / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(bin_))
    lab = project(SCRIPTS, {"train.py": TRAIN, "helper.py": HELPER, "data/x.csv": "x\n"})
    ran = lab.succeed()
    assert ran.heard.notes == ["undeclared reads of programs are not seen: strace is not installed"]
    assert [(event.traced, event.observed) for event in ends(ran).values()] == [(False, None)] * 2


def test_strict_fails_a_step_that_reads_undeclared_files_and_the_line_of_its_message_mends_it(project: Make) -> None:
    files = {"train.py": TRAIN, "helper.py": HELPER, "data/x.csv": "x\n", "whyrun.toml": "strict = true\n"}
    lab = project(SCRIPTS, files)
    ran = lab.run(jobs=1)
    (first, second) = ran.of(ev.StepFailed)
    line = "code: [data/x.csv, helper.py]"
    assert (first.error_type, first.error, first.traced) == (
        "UndeclaredRead",
        f"`data/x.csv`, `helper.py` were read, and nothing declares them: write `{line}` in `Job:Train`",
        True,
    )
    assert (second.error_type, second.error) == (first.error_type, first.error)
    lab.edit("workflow.yaml", "    uses: shell", f"    uses: shell\n    {line}")
    assert observed(lab.succeed()) == {"Job:Train[1]": [], "Job:Train[2]": []}


def test_a_database_of_a_program_and_two_folders_that_are_open_at_once(project: Make) -> None:
    script = """
import os, sqlite3, sys
os.chdir(os.environ["WHYRUN_PROJECT"])
with sqlite3.connect("d.db") as read, sqlite3.connect("new.db") as written:
    print(read.execute("pragma user_version").fetchone())
    written.execute("create table t (x)")
with os.scandir("a") as a, os.scandir("b") as b:
    print(len(list(b)), len(list(a)))
"""
    workflow = """
    workflow: w
    inputs: {Script: {type: file, default: script.py}}
    jobs:
      Look:
        uses: shell
        with: {run: 'python3 "$script" > "$out_T"', script: "${{ inputs.Script }}"}
        outputs: {T: {type: text}}
    """
    lab = project(workflow, {"script.py": script, "d.db": b"", "a/1": "", "b/1": "", "b/2": ""})
    found = observed(lab.succeed())["Job:Look"]
    assert [read for read in found if read.kind != "absent"] == [  # SQLite looks for other files of the database
        Read("a", "folder", folder_sha256(["1"]), "strace"),
        Read("b", "folder", folder_sha256(["1", "2"]), "strace"),
        file("d.db", ""),
    ]


def test_children_of_multiprocessing_that_are_no_forks_are_traced(project: Make) -> None:
    code = """
        import os
        from multiprocessing import get_context
        PROJECT = os.environ["WHYRUN_PROJECT"]
        def read(name): return open(f"{PROJECT}/{name}").read()
        def go(kind):
            with get_context(kind).Pool(1) as pool:
                return {"T": pool.map(read, [f"{kind}.txt"])[0]}
        """
    workflow = """
    workflow: w
    jobs:
      Go:
        uses: python
        with: {call: "steps:go", kind: spawn}
        outputs: {T: {type: text}}
    """
    lab = project(workflow, {"steps.py": code, "spawn.txt": "s"})
    assert observed(lab.succeed()) == {"Job:Go": [file("spawn.txt", "s")]}


def test_a_known_file_that_is_deleted_while_an_untraced_step_runs_is_unknown(project: Make) -> None:
    workflow = """
    workflow: w
    loops: {n: {values: [1]}}
    jobs:
      Go:
        for: [n]
        uses: shell
        with:
          n: "${{ n }}"
          run: |
            cat "$WHYRUN_PROJECT/data/x.csv" "$WHYRUN_PROJECT/data/y.csv" > "$out_T" || true
            test "$n" = 1 || { rm -f "$WHYRUN_PROJECT/data/x.csv"; sleep 0.1; }
        outputs: {T: {type: text}}
    """
    lab = project(workflow, {"data/x.csv": "x", "data/y.csv": "y"})
    lab.succeed()
    ran = lab.edit("workflow.yaml", "[1]", "[1, 2]").succeed()
    assert [event.traced for event in ends(ran).values()] == [False]
    assert observed(ran) == {"Job:Go[2]": [Read("data/x.csv", "unknown", by="strace"), file("data/y.csv", "y")]}
    assert observed(lab.succeed())["Job:Go[2]"][0] == Read("data/x.csv", "absent", by="strace")
