"""On every backend: all inputs reach a step, all outputs return, and steps do not see each other."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from backends_lab import EVERY_RUN, BackendLab, Ended, environment_of, run_files
from parity_lab import BACKENDS

from project_lab import ECHO, codes
from whyrun.log import events as ev

Make = Callable[..., BackendLab]

# --- what a step leaves behind -----------------------------------------------------------------------------------

UNTIDY = """
    workflow: untidy
    loops: {i: {count: 3}}
    jobs:
      Untidy:
        for: [i]
        uses: test/untidy
        with: {me: "${{ i }}"}
        outputs: {Saw: {type: json}}
"""
# First it looks, then it leaves as much as it can. What it saw must not tell whether another was there before it.
UNTIDY_ACTION = """
    import os
    import random
    import signal
    import subprocess
    import sys
    import tempfile
    import threading
    import time
    from pathlib import Path

    from whyrun import Action, Parameters

    SEEDED = random.Random(7).random()


    class Untidy(Action):
        name = "test/untidy"
        version = "1"
        outputs = {"Saw": "json"}

        class Params(Parameters):
            me: int

        def run(self, inputs, mode="dry-run", context=None, logger=None):
            me = inputs["me"]
            saw = self.look(context)
            print(f"worker {os.getppid()}")
            print(f"process {os.getpid()}")
            self.leave(me, context)
            return {"Saw": saw}

        def look(self, context):
            umask = os.umask(0)
            os.umask(umask)
            return {
                "attributes": sorted(vars(self)),
                "folder": os.path.samefile(os.getcwd(), context.work_dir),
                "files": {
                    name: sorted(os.listdir(path))
                    for name, path in (("work", "."), ("home", os.environ["HOME"]), ("tmp", tempfile.gettempdir()))
                },
                "variables": sorted(os.environ),
                "handlers": [str(signal.getsignal(signal.SIGUSR1)), str(signal.getsignal(signal.SIGALRM))],
                "terminated_by_us": getattr(signal.getsignal(signal.SIGTERM), "__name__", "") == "theirs",
                "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
                "timer": signal.getitimer(signal.ITIMER_REAL),
                "umask": umask,
                "seeded": random.random() == SEEDED,
                "argv": list(sys.argv),
                "path": [entry for entry in sys.path if "left" in entry],
                "recursion": sys.getrecursionlimit(),
                "input": sys.stdin.read() if sys.stdin is not None else "",
            }

        def leave(self, me, context):
            self.left = me
            folder = Path(tempfile.mkdtemp())
            for path in (Path("left.txt"), Path(os.environ["HOME"], ".left"), Path(tempfile.gettempdir(), "left")):
                path.write_text(str(me))
            Path("closed").mkdir()
            Path("closed/file").write_text("x")
            os.chmod("closed", 0o500)
            os.chdir(folder)
            os.environ["LEFT"] = str(me)
            os.environ["PATH"] = "/left"
            os.environ["TMPDIR"] = str(folder)
            del os.environ["LANG"]

            def theirs(*_):
                pass

            for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, theirs)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            os.umask(0o070)
            random.seed(7)
            sys.argv.append("left")
            sys.path.insert(0, "/left")
            sys.setrecursionlimit(5000)
            sys.stdout = None

            def speak():
                while True:
                    time.sleep(0.001)
                    try:
                        context.task("EXECUTES", f"left by {me}")
                    except Exception:
                        return

            threading.Thread(target=speak, daemon=True).start()
"""
CLEAN = {
    "attributes": ["params"],
    "folder": True,
    "files": {"work": [], "home": [], "tmp": []},
    "variables": ["HOME", "LANG", "PATH", "PYTHONDONTWRITEBYTECODE", "TMPDIR", "WHYRUN_PROJECT"],
    "handlers": [str(0), str(0)],
    "terminated_by_us": False,
    "blocked": [],
    "timer": [0.0, 0.0],
    "seeded": False,
    "argv": ["whyrun-worker"],
    "path": [],
    "recursion": 1000,
    "input": "",
}


def test_what_one_step_leaves_is_not_seen_by_the_next(backend: str, on_backend: Make) -> None:
    lab = on_backend(UNTIDY, {"actions/untidy.py": UNTIDY_ACTION})
    ended = lab.run_on_backend("--jobs", "1")
    saw = [lab.content(f"Artifact:Untidy.Saw[{i}]") for i in range(3)]
    for one in saw:
        one["handlers"] = ["0" if "SIG_DFL" in name else name for name in one["handlers"]]
    usual = saw[0]["umask"]
    assert usual != 0o070
    assert saw == [{**CLEAN, "umask": usual}] * 3
    # A thread that is left running speaks for its own step at most, and only while that runs.
    for event in ended.of(ev.Task):
        assert event.message == f"left by {event.step_id[-2]}"
    if backend != "sandbox":  # where every step has a worker of its own
        printed = [ended.file(f"steps/Untidy%5B{i}%5D/stdout.log").splitlines() for i in range(3)]
        assert len({worker for worker, _ in printed}) == 1, "it was one worker, so there was something to be seen"
        assert len({process for _, process in printed}) == 3


# --- inputs and outputs ------------------------------------------------------------------------------------------

THROUGH = """
    workflow: through
    inputs:
      Left: {type: file, default: data/same.txt}
      Right: {type: file, default: other/same.txt}
      Many: {type: "file[]", default: "many/*.txt"}
      Tree: {type: directory, default: tree}
      Odd: {type: file, default: 'data/a "b" ü.bin'}
      Number: {type: integer, default: 7}
      Words: {type: "string[]", default: [x, "y z", "ü"]}
    loops: {i: {each: inputs.Many}}
    jobs:
      Make:
        uses: python
        with: {call: "make:make"}
        outputs:
          Bytes: {type: file, path: out/bytes.bin}
          Tree: {type: directory, path: out/tree}
          Facts: {type: json, path: out/facts.json, leaves: {size: integer, "names[1]": string}}
          Word: {type: string}
          Empty: {type: file}
      Each:
        for: [i]
        uses: shell
        with: {run: 'tr a-z A-Z < "$one" > "$out_Loud"', one: "${{ inputs.Many[i] }}"}
        outputs: {Loud: {type: text}}
      Take:
        uses: python
        with:
          call: "echo:received"
          left: ${{ inputs.Left }}
          right: ${{ inputs.Right }}
          many: ${{ inputs.Many }}
          tree: ${{ inputs.Tree }}
          odd: ${{ inputs.Odd }}
          number: ${{ inputs.Number }}
          words: ${{ inputs.Words }}
          made: ${{ jobs.Make.outputs.Tree }}
          facts: ${{ jobs.Make.outputs.Facts }}
          size: ${{ jobs.Make.outputs.Facts.size }}
          name: ${{ jobs.Make.outputs.Facts.names[1] }}
          word: ${{ jobs.Make.outputs.Word }}
          empty: ${{ jobs.Make.outputs.Empty }}
          loud: ${{ jobs.Each.outputs.Loud[:] }}
          literal: {a: [1, null, "two"]}
        outputs: {Got: {type: json}}
      Swapped:
        uses: shell
        with:
          start: ${{ inputs.Right }}
          end: ${{ inputs.Left }}
          run: cat "$start" "$end" > "$out_Both"
        outputs: {Both: {type: text, path: out/both.txt}}
"""
MAKE = """
    import os

    def make(context):
        context.output("Bytes").write_bytes(bytes(range(256)) * 12000)
        tree = context.output("Tree")
        (tree / "deep" / "er").mkdir(parents=True)
        (tree / "deep" / "er" / "one ü.txt").write_text("1")
        (tree / "run.sh").write_text("#!/bin/sh\\n")
        os.chmod(tree / "run.sh", 0o755)
        context.output("Empty").touch()
        return {"Facts": {"size": 3, "names": ["a", "b"]}, "Word": "größer\\n"}
"""
FILES = {
    "make.py": MAKE,
    "echo.py": ECHO,
    "data/same.txt": "left",
    "other/same.txt": "right",
    "many/b.txt": "bb",
    "many/a.txt": "aa",
    "many/c.txt": "cc",
    "tree/x/deep.txt": "deep",
    "tree/top.txt": "top",
    'data/a "b" ü.bin': "odd",
}
STEPS = ("Each%5B0%5D", "Each%5B1%5D", "Each%5B2%5D", "Make", "Swapped", "Take")


@dataclass(frozen=True)
class Through:
    lab: BackendLab
    ended: Ended


@pytest.fixture(scope="module", params=list(BACKENDS))
def through(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Through]:
    lacks = BACKENDS[request.param].lacks
    if lacks is not None:
        pytest.skip(lacks)
    folder = tmp_path_factory.mktemp("through")
    with environment_of(request.param, folder) as environment:
        (folder / "project").mkdir()
        lab = BackendLab(folder / "project", request.param, environment)
        lab.write({"workflow.yaml": THROUGH, **FILES})
        yield Through(lab, lab.run_on_backend())


def test_lesson_23_all_inputs_arrive_under_their_own_names(through: Through) -> None:
    """Only the first of several inputs handed to a step; under the wrong name."""
    assert through.lab.content("Artifact:Take.Got") == {
        "left": "file:left",
        "right": "file:right",
        "many": ["file:aa", "file:bb", "file:cc"],
        "tree": "folder:top.txt=top x/deep.txt=deep",
        "odd": "file:odd",
        "number": 7,
        "words": ["x", "y z", "ü"],
        "made": "folder:deep/er/one ü.txt=1 run.sh=#!/bin/sh\n",
        "facts": {"size": 3, "names": ["a", "b"]},
        "size": 3,
        "name": "b",
        "word": "größer\n",
        "empty": "file:",
        "loud": ["file:AA", "file:BB", "file:CC"],
        "literal": {"a": [1, None, "two"]},
    }
    assert through.lab.read("out/both.txt") == "rightleft"


def test_lesson_24_all_outputs_come_back(through: Through) -> None:
    """Output files stayed in the sandbox."""
    lab, ended = through.lab, through.ended
    made = bytes(range(256)) * 12000
    assert (lab.root / "out/bytes.bin").read_bytes() == made
    assert lab.blob(hashlib.sha256(made).hexdigest()).read_bytes() == made
    assert (ended.folder / "artifacts/Make/Bytes.bin").resolve().read_bytes() == made
    assert lab.read("out/facts.json") == '{"names":["a","b"],"size":3}'
    assert lab.read("out/tree/deep/er/one ü.txt") == "1"
    assert os.stat(lab.root / "out/tree/run.sh").st_mode & stat.S_IXUSR
    available = {e.artifact: e.sha256 for e in ended.of(ev.ArtifactAvailable)}
    assert sorted(available) == [
        "Artifact:Each.Loud[0]", "Artifact:Each.Loud[1]", "Artifact:Each.Loud[2]", "Artifact:Make.Bytes",
        "Artifact:Make.Empty", "Artifact:Make.Facts", "Artifact:Make.Facts.names[1]", "Artifact:Make.Facts.size",
        "Artifact:Make.Tree", "Artifact:Make.Word", "Artifact:Swapped.Both", "Artifact:Take.Got",
    ]  # fmt: skip
    assert codes(lab.plan()) == {}, "and all of it is found where the log says"


def test_a_run_folder_holds_the_files_of_the_table_and_no_other(through: Through) -> None:
    assert run_files(through.ended.folder) == {
        *EVERY_RUN,
        *(f"cfg/{step}.json" for step in STEPS),
        *(f"steps/{step}/script.sh" for step in STEPS if step not in ("Make", "Take")),
        *(f"artifacts/Each%5B{i}%5D/Loud.txt" for i in range(3)),
        *(f"artifacts/Make/{name}" for name in ("Bytes.bin", "Facts.json", "Word", "Empty")),
        *(f"artifacts/Make/Tree/{name}" for name in ("run.sh", "deep/er/one ü.txt")),
        "artifacts/Swapped/Both.txt",
        "artifacts/Take/Got.json",
    }
    assert through.lab.left_over() == []


def test_what_is_made_again_at_the_same_place_is_identical(through: Through) -> None:
    again = through.lab.run_on_backend(command="compare")
    assert {(e.artifact, e.status) for e in again.of(ev.Comparison)} == {
        *((f"Artifact:Each.Loud[{i}]", "IDENTICAL") for i in range(3)),
        *((f"Artifact:Make.{name}", "IDENTICAL") for name in ("Bytes", "Tree", "Facts", "Word", "Empty")),
        ("Artifact:Swapped.Both", "IDENTICAL"),
        ("Artifact:Take.Got", "IDENTICAL"),
    }
    assert again.status["ok"] is True
    assert again.folder.name == "r0002"
    assert through.lab.left_over() == []
