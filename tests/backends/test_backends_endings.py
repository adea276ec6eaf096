"""On every backend, however a run ends: the same files, the whole error, and a next plan that does the rest."""

from __future__ import annotations

import json
import os
import secrets
import signal
from collections.abc import Callable

from backends_lab import EVERY_RUN, BackendLab, Ended, named, run_files

from project_lab import codes, has_ended, wait_until
from whyrun.log import events as ev

Make = Callable[..., BackendLab]

# --- steps that end badly, by themselves -------------------------------------------------------------------------

BADLY = """
    workflow: badly
    jobs:
      Good:
        uses: python
        with: {call: "bad:good"}
        outputs: {Word: {type: text, path: out/word.txt}}
      Fails:
        uses: python
        retries: {max: 1, backoff: 10ms}
        with: {call: "bad:fails", word: "${{ jobs.Good.outputs.Word }}"}
        outputs: {Never: {type: text, path: out/never.txt}, Nothing: {type: json}}
      Blocked:
        uses: shell
        with: {run: 'cp "$never" "$out_Copy"', never: "${{ jobs.Fails.outputs.Never }}"}
        outputs: {Copy: {type: text}}
      Forgets:
        uses: shell
        with: {run: 'echo half > "$out_One"'}
        outputs: {One: {type: text, path: out/one.txt}, Two: {type: text}}
      Slow:
        uses: shell
        timeout: 8s
        with: {run: 'echo begun; sleep 600 & sleep 600'}
        outputs: {Never: {type: text}}
      Dies:
        uses: python
        retries: {max: 1, backoff: 10ms}
        with: {call: "bad:dies"}
        outputs: {Never: {type: text}}
      Pays:
        uses: python
        retries: {max: 1, backoff: 10ms}
        with: {call: "bad:pays"}
        outputs: {Paid: {type: json}}
"""
BADLY_CODE = """\
    import os
    import signal
    import sys

    def good():
        return {"Word": "good"}

    class OwnError(Exception):
        pass

    def fails(word, context):
        context.task("EXECUTES", "trying")
        print("about to fail", file=sys.stderr)
        context.output("Never").write_text("half")
        open("half.txt", "w").write("half of it")
        try:
            deeper({"größe": word.read_text()})
        except KeyError as problem:
            raise OwnError("two lines,\\nthe second “größer”") from problem

    def deeper(words):
        return words["none"]

    def dies(context):
        context.task("EXECUTES", "dying")
        print("last words", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGKILL)

    def pays(context):
        request = context.recall("request")
        if request is None:
            context.remember("request", {"id": "q-1"})
            os.kill(os.getpid(), signal.SIGKILL)
        return {"Paid": request}
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "bad.py", line 17, in fails
    deeper({"größe": word.read_text()})
  File "bad.py", line 22, in deeper
    return words["none"]
KeyError: 'none'
The above exception was the direct cause of the following exception:
Traceback (most recent call last):
  File "bad.py", line 19, in fails
    raise OwnError("two lines,\\nthe second “größer”") from problem
bad.OwnError: two lines,
the second “größer”
"""


def unmarked(traceback: str) -> str:
    """Without the lines that point at a part of the line above, which each Python draws in its own way."""
    return "".join(line for line in traceback.splitlines(keepends=True) if line.strip(" ~^\n"))


def test_steps_that_end_badly_leave_the_whole_evidence(backend: str, on_backend: Make) -> None:
    lab = on_backend(BADLY, {"bad.py": BADLY_CODE})
    ended = lab.run_on_backend("--jobs", "2", code=1)
    assert sorted(ended.failures) == [
        ("Job:Dies", "FAILED", "WorkerDied", False),
        ("Job:Dies", "FAILED", "WorkerDied", True),
        ("Job:Fails", "FAILED", "OwnError", False),
        ("Job:Fails", "FAILED", "OwnError", True),
        ("Job:Forgets", "FAILED", "MissingOutput", False),
        ("Job:Pays", "FAILED", "WorkerDied", True),
        ("Job:Slow", "TIMED_OUT", "TimedOut", False),
    ]
    assert ended.completed == ["Job:Good", "Job:Pays"]
    assert [(e.step_id, e.because) for e in ended.of(ev.StepBlocked)] == [("Job:Blocked", ["Job:Fails"])]
    failed = [e for e in ended.of(ev.StepFailed) if e.step_id == "Job:Fails"]
    assert [(e.error, unmarked(e.traceback)) for e in failed] == [("two lines,\nthe second “größer”", TRACEBACK)] * 2
    assert [e.error for e in ended.of(ev.StepFailed) if e.step_id == "Job:Slow"] == ["timeout: 8s"]
    violations = sorted((e.step_id, e.reason, e.last_stderr) for e in ended.of(ev.StatusContractViolation))
    killed = "the worker was killed by SIGKILL"
    assert violations == [
        ("Job:Dies", killed, "last words\n"), ("Job:Dies", killed, "last words\n"), ("Job:Pays", killed, ""),
    ]  # fmt: skip
    assert sorted(e.message for e in ended.of(ev.Task)) == ["dying", "dying", "trying", "trying"]
    # What was paid for before the worker died is not paid for again.
    (request,) = ended.of(ev.RequestRecorded)
    assert (request.step_id, request.key, request.value) == ("Job:Pays", "request", {"id": "q-1"})
    assert lab.content("Artifact:Pays.Paid") == {"id": "q-1"}
    steps = ("Good", "Fails", "Forgets", "Slow", "Dies", "Pays")
    assert run_files(ended.folder) == {
        *EVERY_RUN,
        *(f"cfg/{step}.json" for step in steps),
        "artifacts/Good/Word.txt",
        "artifacts/Pays/Paid.json",
        "steps/Fails/stderr.log",
        "steps/Fails/scratch/work/half.txt",
        "steps/Fails/scratch/out/Never.txt",
        "steps/Forgets/script.sh",
        "steps/Forgets/scratch/out/One.txt",
        "steps/Slow/script.sh",
        "steps/Slow/stdout.log",
        "steps/Dies/stderr.log",
    }
    assert ended.file("steps/Fails/stderr.log") == b"about to fail\n" * 2
    assert ended.file("steps/Fails/scratch/work/half.txt") == b"half of it"
    assert ended.file("steps/Fails/scratch/out/Never.txt") == b"half"
    assert ended.file("steps/Slow/stdout.log") == b"begun\n"
    assert ended.file("steps/Dies/stderr.log") == b"last words\n" * 2
    status = ended.status
    assert {name: value for name, value in status.items() if name not in ("started", "ended", "error")} == {
        "ok": False, "state": "failed", "exit_code": 1, "steps_total": 7, "steps_completed": 2, "steps_failed": 4,
        "steps_skipped": 0, "steps_blocked": 1, "steps_interrupted": 0, "backend": backend,
    }  # fmt: skip
    assert sorted(p.name for p in (lab.root / "out").iterdir()) == ["word.txt"], "what is half done is not published"
    assert lab.left_over() == []
    assert lab.plan().headlines() == {
        "Job:Fails": "RETRY_PREVIOUS_FAILURE",
        "Job:Blocked": "MISSING_OUTPUT",
        "Job:Forgets": "RETRY_PREVIOUS_FAILURE",
        "Job:Slow": "RETRY_PREVIOUS_FAILURE",
        "Job:Dies": "RETRY_PREVIOUS_FAILURE",
    }


def test_lesson_20_a_backend_that_is_not_ready_begins_no_step(backend: str, on_backend: Make) -> None:
    """After a failed `prepare` the remaining steps ran and the run reported success."""
    lab = on_backend(BADLY, {"bad.py": BADLY_CODE, "whyrun.toml": 'prepare = "echo not today >&2; exit 3"\n'})
    before = codes(lab.plan())
    ended = lab.run_on_backend(code=1)
    assert {type(e) for e in ended.events} == {ev.RunStart, ev.PlanComputed, ev.ManifestMaterialized, ev.RunComplete}
    error = "PrepareFailed: `echo not today >&2; exit 3` ended with exit status 3\nnot today"
    assert (ended.status["ok"], ended.status["state"], ended.status["error"]) == (False, "failed", error)
    assert run_files(ended.folder) == EVERY_RUN
    assert lab.left_over() == []
    assert codes(lab.plan()) == before


# --- ended from outside ------------------------------------------------------------------------------------------

WAITING = """
    workflow: waiting
    loops: {i: {count: 2}}
    jobs:
      First:
        uses: shell
        with: {run: 'echo first > "$out_Word"'}
        outputs: {Word: {type: text, path: out/first.txt}}
      Wait:
        for: [i]
        uses: python
        retries: 3
        with: {call: "waiting:wait", me: "${{ i }}", word: "${{ jobs.First.outputs.Word }}"}
        outputs: {Word: {type: text, path: "out/${{ i }}.txt"}}
      Last:
        uses: shell
        with: {run: 'cat "${words[@]}" > "$out_All"', words: "${{ jobs.Wait.outputs.Word[:] }}"}
        outputs: {All: {type: text}}
"""
# A name of its process by which it is found from outside, whatever it is in.
WAITING_CODE = """
    import ctypes
    import signal
    import sys
    import time

    def wait(me, word, context):
        ctypes.CDLL(None).prctl(15, b"MARK%d" % me, 0, 0, 0)
        asked = []
        if DEAF:
            signal.signal(signal.SIGTERM, lambda *_: asked.append(f"{me} was asked"))
        print("some words", file=sys.stderr)
        open("partial", "w").write("partial")
        context.task("EXECUTES", f"{me} waits")
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            time.sleep(0.02)
            while asked:
                context.task("EXECUTES", asked.pop())
"""


def waiting(on_backend: Make, deaf: bool = False, retries: bool = True) -> tuple[BackendLab, str]:
    mark = f"w{secrets.token_hex(5)}-"
    text = WAITING if retries else WAITING.replace("        retries: 3\n", "")
    code = WAITING_CODE.replace("MARK", mark).replace("DEAF", str(deaf))
    return on_backend(text, {"waiting.py": code}), mark


def check_interrupted(lab: BackendLab, mark: str, ended: Ended, backend: str) -> None:
    assert ended.code == 130, ended.said
    both = {"Job:Wait[0]", "Job:Wait[1]"}
    failures = {(e.step_id, e.status, bool(e.will_retry)) for e in ended.of(ev.StepFailed)}
    assert failures == {(step, "INTERRUPTED", False) for step in both}
    assert len(ended.of(ev.StepFailed)) == 2
    assert ended.completed == ["Job:First"]
    assert ended.of(ev.StepBlocked) == []
    assert {name: value for name, value in ended.status.items() if name not in ("started", "ended", "error")} == {
        "ok": False, "state": "interrupted", "exit_code": 130, "steps_total": 4, "steps_completed": 1,
        "steps_failed": 0, "steps_skipped": 0, "steps_blocked": 0, "steps_interrupted": 2, "backend": backend,
    }  # fmt: skip
    assert run_files(ended.folder) == {
        *EVERY_RUN,
        *(f"cfg/{step}.json" for step in ("First", "Wait%5B0%5D", "Wait%5B1%5D")),
        "artifacts/First/Word.txt",
        "steps/First/script.sh",
        *(f"steps/Wait%5B{i}%5D/{name}" for i in range(2) for name in ("stderr.log", "scratch/work/partial")),
    }
    for i in range(2):
        assert ended.file(f"steps/Wait%5B{i}%5D/stderr.log") == b"some words\n"
    wait_until(lambda: all(has_ended(pid) for i in range(2) for pid in named(f"{mark}{i}")))
    assert lab.left_over() == []
    assert lab.plan().headlines() == {
        "Job:Wait[0]": "RETRY_PREVIOUS_FAILURE",
        "Job:Wait[1]": "RETRY_PREVIOUS_FAILURE",
        "Job:Last": "MISSING_OUTPUT",
    }


def test_ctrl_c_ends_what_runs_and_the_evidence_is_complete(backend: str, on_backend: Make) -> None:
    lab, mark = waiting(on_backend)
    running = lab.start("--jobs", "2")
    running.wait_for_task("0 waits")
    running.wait_for_task("1 waits")
    running.signal(signal.SIGINT)
    check_interrupted(lab, mark, running.ended(), backend)


def test_a_second_ctrl_c_waits_for_nobody(backend: str, on_backend: Make) -> None:
    lab, mark = waiting(on_backend, deaf=True)
    running = lab.start("--jobs", "2")
    running.wait_for_task("0 waits")
    running.wait_for_task("1 waits")
    running.signal(signal.SIGINT)
    running.wait_for_task("0 was asked")
    running.wait_for_task("1 was asked")
    running.signal(signal.SIGINT)
    check_interrupted(lab, mark, running.ended(), backend)


def test_fail_fast_ends_what_runs_elsewhere(backend: str, on_backend: Make) -> None:
    lab, mark = waiting(on_backend, retries=False)
    running = lab.start("--jobs", "2", "--fail-fast")
    running.wait_for_task("0 waits")
    running.wait_for_task("1 waits")
    (worker,) = named(f"{mark}0")
    os.kill(worker, signal.SIGKILL)
    ended = running.ended()
    assert ended.code == 1, ended.said
    assert sorted((s, status) for s, status, *_ in ended.failures) == [
        ("Job:Wait[0]", "FAILED"), ("Job:Wait[1]", "INTERRUPTED"),
    ]  # fmt: skip
    assert [(e.step_id, e.reason) for e in ended.of(ev.StatusContractViolation)] == [
        ("Job:Wait[0]", "the worker was killed by SIGKILL")
    ]
    (complete,) = ended.of(ev.RunComplete)
    assert complete.state == "failed"
    wait_until(lambda: named(f"{mark}1") == [])
    assert lab.left_over() == []
    assert json.loads(ended.file("status.json"))["steps_interrupted"] == 1
