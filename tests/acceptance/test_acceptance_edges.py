"""Edge cases in which a run could report one thing and do another."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from project_lab import ECHO, Lab, reasons
from whyrun.errors import InvalidError
from whyrun.log import events as ev

Make = Callable[..., Lab]


def test_a_cancelled_retry_is_a_failure(project: Make) -> None:
    """--fail-fast while another step waits for its backoff: it failed, it is not "not started"."""
    lab = project(
        """
        workflow: w
        jobs:
          A:
            uses: shell
            retries: {max: 3, backoff: 60s}
            with: {run: exit 3}
            outputs: {T: {type: text}}
          B:
            uses: shell
            with: {run: 'until grep -q step_[f]ailed EVENTS; do sleep 0.02; done; exit 4'}
            outputs: {T: {type: text}}
          C:
            uses: shell
            with: {t: "${{ jobs.A.outputs.T }}", run: 'true'}
            outputs: {T: {type: text}}
        """
    )
    lab.edit("workflow.yaml", "EVENTS", str(lab.run_folder("r0001") / "events.jsonl"))
    ran = lab.run(fail_fast=True)
    assert ran.failed == {"Job:A": ("FAILED", "CommandFailed"), "Job:B": ("FAILED", "CommandFailed")}
    status = ran.status()
    assert (status["steps_failed"], status["steps_total"], ran.result.counts.not_started) == (2, 3, 1)


def test_a_worker_that_dies_is_noticed_and_its_step_retried(project: Make) -> None:
    lab = project(
        """
        workflow: w
        jobs:
          A:
            uses: python
            retries: {max: 1, backoff: 10ms}
            with: {call: "die:once"}
            outputs: {T: {type: text}}
        """,
        {
            "die.py": """
                import os, sys
                from pathlib import Path

                def once():
                    mark = Path(__file__).parent / "died"
                    if not mark.exists():
                        mark.write_text("x")
                        print("last words", file=sys.stderr, flush=True)
                        os.kill(os.getpid(), 9)
                    return {"T": "alive"}
                """
        },
    )
    ran = lab.succeed()
    assert [(e.error_type, e.will_retry) for e in ran.of(ev.StepFailed)] == [("WorkerDied", True)]
    assert [(e.step_id, e.last_stderr) for e in ran.of(ev.StatusContractViolation)] == [("Job:A", "last words\n")]
    assert lab.content("Artifact:A.T") == "alive"


def test_a_decided_first_does_not_wait_for_other_candidates(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {On: {type: boolean, default: true}}
        jobs:
          Gate:
            uses: shell
            with: {run: 'echo 1 > "$out_N"'}
            outputs: {N: {type: integer}}
          Fast:
            if: ${{ jobs.Gate.outputs.N == 1 }}
            uses: shell
            with: {run: 'printf f > "$out_T"'}
            outputs: {T: {type: text}}
          Slow:
            uses: shell
            timeout: 60s
            with: {run: 'until [ -e PICKED ]; do sleep 0.02; done; printf s > "$out_T"'}
            outputs: {T: {type: text}}
          Pick:
            uses: shell
            with:
              t: ${{ first(jobs.Fast.outputs.T, jobs.Slow.outputs.T) }}
              run: touch PICKED; cat "$t" > "$out_T"
            outputs: {T: {type: text}}
        """
    )
    mark = str(lab.root / "picked")
    lab.write({"workflow.yaml": lab.read("workflow.yaml").replace("PICKED", mark)})
    ran = lab.succeed(jobs=2)
    pick = next(job for job in ran.plan.planned if job.id == "Job:Pick")
    assert pick.bindings == {"t": {"first": ["Artifact:Fast.T", "Artifact:Slow.T"]}}
    assert ran.executed == ["Job:Fast", "Job:Gate", "Job:Pick", "Job:Slow"], "and Slow ended only after Pick began"
    assert lab.content("Artifact:Pick.T") == "f"


def test_needs_is_satisfied_by_inactive_instances(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {On: {type: boolean, default: false}}
        jobs:
          Mk:
            uses: shell
            with: {run: 'echo 1 > "$out_N"'}
            outputs: {N: {type: integer}}
          Off:
            if: ${{ inputs.On }}
            uses: shell
            with: {run: 'true'}
            outputs: {T: {type: text}}
          Later:
            if: ${{ jobs.Mk.outputs.N > 1 }}
            uses: shell
            with: {run: 'true'}
            outputs: {T: {type: text}}
          Work:
            needs: [Off, Later]
            uses: shell
            with: {run: 'printf done > "$out_T"'}
            outputs: {T: {type: text}}
        """
    )
    ran = lab.succeed()
    assert (ran.executed, ran.inactive) == (["Job:Mk", "Job:Work"], {"Job:Later": "condition_false"})


def test_indices_of_every_kind_survive_files_and_logs(project: Make) -> None:
    values = ["../x", "a/b", "", "ü", "x" * 300, ".", "7", 7, 1.5, "a b", "]", '"', "*"]
    lab = project(
        """
        workflow: w
        inputs: {V: {type: json, default: null}}
        loops: {v: {values: VALUES}}
        jobs:
          A:
            for: [v]
            uses: python
            with: {call: "echo:received", v: "${{ v }}"}
            outputs: {Got: {type: json}}
          All:
            uses: python
            with: {call: "echo:received", all: "${{ jobs.A.outputs.Got[:] }}"}
            outputs: {Got: {type: json}}
        """.replace("VALUES", __import__("json").dumps(values)),
        {"echo.py": ECHO},
    )
    lab.succeed()
    assert [one["v"] for one in lab.content("Artifact:All.Got")["all"]] == values
    assert lab.plan().headlines() == {}


def test_imports_within_imports_and_twice(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {T: {type: string, default: t}, Fs: {type: "file[]", default: "f/*.txt"}}
        imports:
          One: {workflow: ./sub/a.yaml, with: {Word: "${{ inputs.T }}", Files: "${{ inputs.Fs }}"}}
          Two: {workflow: ./sub/a.yaml, with: {Word: two, Files: [f/b.txt]}}
        jobs:
          J:
            uses: python
            with:
              call: "echo:received"
              a: ${{ jobs.One.L.outputs.Got[:] }}
              b: ${{ jobs.Two.L.outputs.Got[0] }}
              c: ${{ jobs.One.Deep.D.outputs.Got }}
            outputs: {Got: {type: json}}
        """,
        {
            "echo.py": ECHO,
            "f/a.txt": "A",
            "f/b.txt": "B",
            "sub/a.yaml": """
                workflow: a
                inputs: {Word: {type: string}, Files: {type: "file[]"}}
                loops: {f: {each: inputs.Files}}
                imports: {Deep: {workflow: ./deep/d.yaml, with: {Q: "${{ inputs.Word }}"}}}
                jobs:
                  L:
                    for: [f]
                    uses: python
                    with: {call: "echo:received", w: "${{ inputs.Word }}", f: "${{ inputs.Files[f] }}"}
                    outputs: {Got: {type: json, path: "l-${{ f }}.json"}}
                """,
            "sub/deep/d.yaml": """
                workflow: d
                inputs: {Q: {type: string}}
                jobs:
                  D:
                    uses: python
                    with: {call: "echo:received", q: "deep ${{ inputs.Q }}"}
                    outputs: {Got: {type: json, path: d.json}}
                """,
        },
    )
    ran = lab.succeed()
    assert ran.executed == [
        "Job:J", "Job:One/Deep/D", "Job:One/L[0]", "Job:One/L[1]", "Job:Two/Deep/D", "Job:Two/L[0]",
    ]  # fmt: skip
    assert lab.content("Artifact:J.Got") == {
        "a": [{"f": "file:A", "w": "t"}, {"f": "file:B", "w": "t"}],
        "b": {"f": "file:B", "w": "two"},
        "c": {"q": "deep t"},
    }
    published = [p.relative_to(lab.root).as_posix() for p in lab.root.rglob("*.json") if ".whyrun" not in p.parts]
    assert sorted(published) == ["One/Deep/d.json", "One/l-0.json", "One/l-1.json", "Two/Deep/d.json", "Two/l-0.json"]
    lab.write({"f/a.txt": "changed"})
    assert lab.plan().headlines() == {"Job:One/L[0]": "INPUT_CHANGED", "Job:J": "UPSTREAM_DIRTY"}


def test_code_edited_during_a_run_is_not_recorded_under_the_old_fingerprint(project: Make) -> None:
    lab = project(
        """
        workflow: w
        jobs:
          A:
            uses: python
            with: {call: "a:go"}
            outputs: {T: {type: text}}
          B:
            needs: [A]
            uses: python
            with: {call: "b:go"}
            outputs: {T: {type: text}}
        """,
        {
            "a.py": """
                from pathlib import Path

                def go():
                    (Path(__file__).parent / "b.py").write_text("def go():\\n    return {'T': 'new'}\\n")
                    return {"T": "ok"}
                """,
            "b.py": "def go():\n    return {'T': 'old'}\n",
        },
    )
    ran = lab.run()
    assert ran.failed == {"Job:B": ("FAILED", "InputChangedDuringRun")}
    assert reasons(lab.plan())["Job:B"][0]["code"] == "RETRY_PREVIOUS_FAILURE"
    lab.succeed()
    assert lab.content("Artifact:B.T") == "new"


def test_an_edit_of_the_same_size_within_a_second_is_what_runs(project: Make) -> None:
    """Python trusts compiled files by size and second; whyrun does not let it."""
    lab = project(
        """
        workflow: w
        jobs:
          A:
            uses: python
            with: {call: "code:go"}
            outputs: {N: {type: integer}}
        """,
        {"code.py": "def go():\n    return {'N': 0}\n"},
    )
    for n in range(3):
        lab.write({"code.py": f"def go():\n    return {{'N': {n}}}\n"})
        assert lab.succeed().executed == ["Job:A"]
        assert lab.content("Artifact:A.N") == n


def test_an_edit_of_a_package_around_the_called_module_is_seen(project: Make) -> None:
    """`call: "pkg.mod:f"` runs `pkg/__init__.py` too."""
    lab = project(
        """
        workflow: w
        jobs:
          A:
            uses: python
            with: {call: "pkg.sub.mod:f"}
            outputs: {N: {type: integer}}
        """,
        {
            "pkg/__init__.py": "import builtins\nbuiltins.outer = 1\n",
            "pkg/sub/__init__.py": "import builtins\nbuiltins.inner = 10\n",
            "pkg/sub/mod.py": "import builtins\ndef f():\n    return {'N': builtins.outer + builtins.inner}\n",
        },
    )
    lab.succeed()
    assert lab.content("Artifact:A.N") == 11
    lab.edit("pkg/__init__.py", "outer = 1", "outer = 2")
    assert lab.plan().headlines() == {"Job:A": "INPUT_CHANGED"}
    lab.succeed()
    lab.edit("pkg/sub/__init__.py", "inner = 10", "inner = 20")
    lab.succeed()
    assert lab.content("Artifact:A.N") == 22
    assert lab.plan().headlines() == {}


FILES = """
    workflow: w
    inputs:
      Fs: {type: "file[]", default: "in/*"}
    jobs:
      A:
        uses: python
        with: {call: "echo:received", files: "${{ inputs.Fs }}"}
        outputs: {Got: {type: json}}
"""


def refusals(lab: Lab, *sets: str) -> list[tuple[str, int | None, str]]:
    with pytest.raises(InvalidError) as caught:
        lab.plan(sets=sets)
    assert int(caught.value.exit) == 2
    return [(d.code, d.line, d.message) for d in caught.value.diagnostics]


def test_every_element_of_an_array_of_files_is_a_file(project: Make) -> None:
    lab = project(FILES, {"echo.py": ECHO, "in/a.txt": "a", "in/b/x.txt": "x", "in/c.txt": "c"})
    assert refusals(lab) == [("INPUT_TYPE", 4, "`Input:Fs[1]`: `in/b` is a folder, not a file")]
    lab.write({"in/b": None, "in/b.txt": "b"})
    lab.succeed()
    assert lab.content("Artifact:A.Got") == {"files": ["file:a", "file:b", "file:c"]}
    lab.write({"in/b.txt": None, "in/b.txt/x": "now a folder"})
    assert refusals(lab) == [("INPUT_TYPE", 4, "`Input:Fs[1]`: `in/b.txt` is a folder, not a file")]
    lab.edit("workflow.yaml", "file[]", "directory[]")
    assert refusals(lab) == [
        ("INPUT_TYPE", 4, "`Input:Fs[0]`: `in/a.txt` is a file, not a directory"),
        ("INPUT_TYPE", 4, "`Input:Fs[2]`: `in/c.txt` is a file, not a directory"),
    ]


def test_a_file_name_that_begins_with_two_dots_is_inside_the_project(project: Make) -> None:
    lab = project(FILES, {"echo.py": ECHO, "in/a": "a", "..notes": "n", "..more/x.txt": "x"})
    outside = lab.root.parent / "outside.txt"
    outside.write_text("o")
    given = [lab.root / "..notes", lab.root / "..more" / "x.txt", outside]
    sets = [f"Fs=[{', '.join(str(path) for path in given)}]"]
    assert lab.opened(sets).inputs["Input:Fs"].value == ["..notes", "..more/x.txt", str(outside)]
    lab.succeed(sets=sets)
    assert lab.content("Artifact:A.Got") == {"files": ["file:n", "file:x", "file:o"]}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user may enter; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything, so that as root this is looked at with another user's rights."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_unreadable_inputs_are_named_with_their_position(open_folder: Path) -> None:
    lab = Lab(open_folder).write(
        {
            "workflow.yaml": """
                workflow: w
                inputs:
                  D: {type: directory, default: closed}
                  E: {type: directory, default: open}
                  F: {type: file, default: secret.txt}
                  G: {type: "file[]", default: [fine.txt, secret.txt, closed/x.txt]}
                jobs:
                  A:
                    uses: shell
                    with: {d: "${{ inputs.D }}", run: 'true'}
                    outputs: {T: {type: text}}
                """,
            "closed/x.txt": "x",
            "open/inner/y.txt": "y",
            "secret.txt": "s",
            "fine.txt": "f",
        }
    )
    lab.plan()
    closed = [lab.root / "closed", lab.root / "open" / "inner", lab.root / "secret.txt"]
    for path in closed:
        path.chmod(0)
    try:
        with as_nobody():
            said = refusals(lab)
    finally:
        for path in closed:
            path.chmod(0o755)
    assert said == [
        ("FILE_MISSING", 4, "`Input:D`: `closed` cannot be read: Permission denied"),
        ("FILE_MISSING", 5, "`Input:E`: `open/inner` cannot be read: Permission denied"),
        ("FILE_MISSING", 6, "`Input:F`: `secret.txt` cannot be read: Permission denied"),
        ("FILE_MISSING", 7, "`Input:G[1]`: `secret.txt` cannot be read: Permission denied"),
        ("FILE_MISSING", 7, "`Input:G[2]`: `closed/x.txt` cannot be read: Permission denied"),
    ]


def test_a_problem_inside_an_input_folder_is_reported_with_its_path(project: Make) -> None:
    lab = project(FILES.replace('"file[]", default: "in/*"', "directory, default: in"), {"echo.py": ECHO, "in/a": "a"})
    os.symlink("/etc", lab.root / "in" / "away")
    assert refusals(lab) == [("PATH_OUTSIDE", 4, "`Input:Fs`: the link `in/away` leads out of its folder")]
    (lab.root / "in" / "away").unlink()
    os.mkfifo(lab.root / "in" / "pipe")
    assert refusals(lab) == [("INPUT_TYPE", 4, "`Input:Fs`: `in/pipe` is neither a file nor a folder")]
