"""Corners where a run could say one thing and do another."""

from __future__ import annotations

from collections.abc import Callable

from project_lab import ECHO, Lab, reasons
from whyrun.log import events as ev

Make = Callable[..., Lab]


def test_a_retry_that_was_called_off_is_a_failure(project: Make) -> None:
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
            with: {run: 'sleep 0.4; exit 4'}
            outputs: {T: {type: text}}
          C:
            uses: shell
            with: {t: "${{ jobs.A.outputs.T }}", run: 'true'}
            outputs: {T: {type: text}}
        """
    )
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


def test_a_first_that_is_decided_does_not_wait_for_its_other_candidates(project: Make) -> None:
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
            with: {run: 'sleep 1.5; date +%s%N > "$out_T"'}
            outputs: {T: {type: text}}
          Pick:
            uses: shell
            with: {t: "${{ first(jobs.Fast.outputs.T, jobs.Slow.outputs.T) }}", run: 'date +%s%N > "$out_T"'}
            outputs: {T: {type: text}}
        """
    )
    ran = lab.succeed(jobs=2)
    pick = next(job for job in ran.plan.planned if job.id == "Job:Pick")
    assert pick.bindings == {"t": {"first": ["Artifact:Fast.T", "Artifact:Slow.T"]}}
    assert int(lab.content("Artifact:Pick.T")) < int(lab.content("Artifact:Slow.T"))


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


def test_indices_of_every_kind_survive_the_way_through_files_and_logs(project: Make) -> None:
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


def test_code_edited_while_the_run_goes_on_is_not_run_under_the_old_fingerprint(project: Make) -> None:
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
