"""Issue 17, 12: steps changed each other's results, because library state lived on in a worker."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_lab import BACKENDS, Lab

import project_lab
from whyrun.execution.backends.base import step_environment
from whyrun.execution.backends.local import worker_process
from whyrun.execution.protocol.messages import StepFinished, StepLost

Make = Callable[..., project_lab.Lab]


@pytest.fixture(params=BACKENDS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path, backend=request.param)
    yield made
    made.backend.close()


def values(lab: Lab, function: str, steps: int, **more: Any) -> list[Any]:
    """What the output `o` of several steps of one job is."""
    commands = [lab.call(function, {"o": "json"}, step_id=f"Job:S[{n}]", **more) for n in range(steps)]
    words = lab.run(*commands)
    assert all(isinstance(word, StepFinished) and word.error_type is None for word in words), words
    return [json.loads(lab.bytes_of(word, "o")) for word in words if isinstance(word, StepFinished)]


@pytest.fixture
def curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed library with a current figure, like pyplot. It notes each process that imports it."""
    installed = tmp_path / "installed"
    installed.mkdir()
    (installed / "curves.py").write_text(
        "import os, random\n"
        f"with open({str(tmp_path / 'imported')!r}, 'a') as noted: noted.write(f'{{os.getpid()}}\\n')\n"
        "_current = []\n"
        "def plot(curve): _current.append(curve)\n"
        "def drawn(): return list(_current)\n"
    )

    def environment(home: str, tmp: str) -> dict[str, str]:
        given = step_environment(home, tmp)
        return {**given, "PYTHONPATH": ":".join(filter(None, (str(installed), given.get("PYTHONPATH"))))}

    monkeypatch.setattr(worker_process, "step_environment", environment)
    return str(installed)


PLOTS = """
    workflow: w
    loops: {n: {count: 4}}
    jobs:
      Plot:
        for: [n]
        uses: python
        with: {call: "steps:plot", n: "${{ n }}"}
        outputs: {Curves: {type: json, path: "out/${{ n }}.json"}}
"""


@pytest.mark.parametrize("jobs", [1, 4])
def test_four_steps_that_plot_draw_one_curve_each_however_many_workers_there_are(
    project: Make, curves: str, jobs: int
) -> None:
    """With `-j 1` the pictures had 1, 2, 3 and 4 curves, with `-j 4` others."""
    files = {
        "steps.py": """
            import logging
            import curves
            def plot(n):
                curves.plot(n)
                logging.basicConfig(level=10 + n)
                return {"Curves": [curves.drawn(), logging.getLogger().level]}
            """
    }
    lab = project(PLOTS, files)
    lab.succeed(jobs=jobs)
    drawn = [json.loads((lab.root / f"out/{n}.json").read_text()) for n in range(4)]
    assert drawn == [[[n], 10 + n] for n in range(4)]


LEAKS = {
    "a DuckDB table in memory": (
        "import duckdb\n"
        "def f():\n"
        "    (there,), = duckdb.execute('select count(*) from duckdb_tables()').fetchall()\n"
        "    duckdb.execute('create table t as select 1 as x')\n"
        "    return {'o': there}\n"
    ),
    "a figure of matplotlib": (
        "import matplotlib.pyplot as plt\ndef f():\n    plt.plot([1, 2])\n    return {'o': len(plt.gca().lines)}\n"
    ),
    "an option of pandas": (
        "import pandas as pd\n"
        "def f():\n"
        "    before = pd.get_option('display.max_rows')\n"
        "    pd.set_option('display.max_rows', before + 1)\n"
        "    return {'o': before}\n"
    ),
    "logging": (
        "import logging\n"
        "def f():\n"
        "    before = len(logging.getLogger().handlers)\n"
        "    logging.basicConfig(); logging.getLogger().addHandler(logging.NullHandler())\n"
        "    return {'o': before}\n"
    ),
    "the environment of C code": (
        "import ctypes, os\n"
        "def f():\n"
        "    getenv = ctypes.CDLL(None).getenv; getenv.restype = ctypes.c_char_p\n"
        "    before = getenv(b'LEAK')\n"
        "    os.putenv('LEAK', '1')\n"
        "    return {'o': before and before.decode()}\n"
    ),
    "a global of a module": "seen = []\ndef f():\n    seen.append(1)\n    return {'o': len(seen)}\n",
    "a global of the standard library": (
        "import json\ndef f():\n    json.seen = getattr(json, 'seen', 0) + 1\n    return {'o': json.seen}\n"
    ),
    "the import path": (
        "import sys\ndef f():\n    sys.path.insert(0, '/nowhere')\n    return {'o': sys.path.count('/nowhere')}\n"
    ),
    "the soft limit of descriptors": (
        "import resource\n"
        "def f():\n"
        "    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, soft - 1))\n"
        "    return {'o': [soft, hard]}\n"
    ),
}


@pytest.mark.parametrize("what", LEAKS)
def test_what_a_step_leaves_in_its_process_does_not_reach_the_next(tmp_path: Path, what: str) -> None:
    lab = Lab(tmp_path)
    lab.file("m.py", LEAKS[what])
    try:
        first, *others = values(lab, "m:f", 3)
    finally:
        lab.backend.close()
    assert others == [first, first]


def test_a_generator_of_a_project_module_gives_each_step_other_numbers(lab: Lab) -> None:
    """A fork would copy the state of the module, and with it the next number."""
    lab.file(
        "m.py",
        "import random\nimport numpy\nown, default = random.Random(), numpy.random.default_rng()\n"
        "def f():\n"
        "    return {'o': [own.random(), default.random(), random.random(), float(numpy.random.random())]}\n",
    )
    numbers = [number for step in values(lab, "m:f", 4) for number in step]
    assert len(set(numbers)) == 16


# --- processes ---------------------------------------------------------------------------------------------------

DEATHS = {
    "os._exit(3)": "the worker exited with status 3 while the step ran",
    "os._exit(0)": "the worker exited with status 0 while the step ran",
    "os.kill(os.getpid(), signal.SIGKILL)": "the worker was killed by SIGKILL",
    "os.kill(os.getpid(), signal.SIGSEGV)": "the worker was killed by SIGSEGV",
}
MORE: list[dict[str, Any]] = [{}, {"env": {"A": "1"}}]


@pytest.mark.parametrize("more", MORE, ids=["plain", "env"])
@pytest.mark.parametrize("death", DEATHS)
def test_a_step_that_dies_is_reported_by_its_worker_which_lives_on(lab: Lab, death: str, more: dict[str, Any]) -> None:
    lab.file(
        "m.py",
        "import os, signal, sys\n"
        "def worker():\n    return {'o': os.getppid()}\n"
        "def die(context):\n"
        "    print('last words', file=sys.stderr); open('half', 'w').write('x')\n"
        f"    context.metric('told', 1)\n    {death}\n",
    )
    before = values(lab, "m:worker", 1)
    (lost,) = lab.run(lab.call("m:die", step_id="Job:Die", **more))
    assert isinstance(lost, StepLost)
    assert (lost.reason, lost.last_stderr, lost.n) == (DEATHS[death], "last words\n", 2)
    assert lab.evidence() == {"Die/scratch/work/half": "x", "Die/stderr.log": "last words\n"}
    assert values(lab, "m:worker", 1) == before


def test_what_a_dead_step_had_started_is_ended(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import os, subprocess\n"
        "def die():\n"
        "    child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "    open('pid', 'w').write(str(child.pid)); os._exit(1)\n",
    )
    (lost,) = lab.run(lab.call("m:die"))
    assert isinstance(lost, StepLost)
    assert project_lab.has_ended(int(lab.evidence()["S/scratch/work/pid"]))


def test_peak_memory_is_that_of_the_steps_own_process(lab: Lab) -> None:
    lab.file("m.py", "def f(n):\n    block = bytearray(n)\n    return {'o': len(block)}\n")
    large, small = lab.run(
        lab.call("m:f", {"o": "json"}, with_={"n": 150_000_000}, step_id="Job:Large"),
        lab.call("m:f", {"o": "json"}, with_={"n": 1}, step_id="Job:Small"),
    )
    assert isinstance(large, StepFinished)
    assert isinstance(small, StepFinished)
    assert large.metrics["max_rss_bytes"] - small.metrics["max_rss_bytes"] > 100_000_000
    script = lab.one(lab.command("shell", {"run": "true"}, step_id="Job:Script"))
    assert script.metrics["max_rss_bytes"] < 150_000_000


# --- libraries ---------------------------------------------------------------------------------------------------

USES = (
    "import os, curves\ndef f():\n    curves.plot(1)\n    return {'o': [curves.drawn(), os.getpid(), os.getppid()]}\n"
)


@pytest.mark.real_start
def test_a_library_is_imported_once_and_its_state_is_new_in_each_step(curves: str, tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.file("m.py", USES)
    lab.file("bare.py", "import os, sys\ndef f():\n    return {'o': ['curves' in sys.modules, os.getppid()]}\n")
    try:
        first = values(lab, "m:f", 3)
        (bare,) = values(lab, "bare:f", 1)
        own_environment = values(lab, "m:f", 1, env={"A": "1"})
        again = values(lab, "m:f", 1)
    finally:
        lab.backend.close()
    assert [drawn for drawn, *_ in first + own_environment + again] == [[1]] * 5
    processes = [process for _, process, _ in first + own_environment + again]
    libraries = {parent for _, _, parent in first + again}
    assert len(libraries) == 1
    assert bare == [False, own_environment[0][2]], "forked from the process without libraries"
    assert bare[1] not in libraries
    assert [int(line) for line in (tmp_path / "imported").read_text().split()] == [*libraries, processes[3]]


STANDARD = """
import sys
BEFORE = sorted({"threading", "random", "subprocess", "tempfile"}.intersection(vars(sys)["modules"]))
import os
%s
def f():
    return {"o": [BEFORE, os.getppid()]}
"""


@pytest.mark.real_start
def test_a_worker_has_only_those_modules_of_python_that_steps_name(tmp_path: Path) -> None:
    """Each costs every fork: `threading` and `random` alone half of it."""
    lab = Lab(tmp_path)
    lab.file("bare.py", STANDARD % "")
    lab.file("named.py", STANDARD % "import subprocess")
    try:
        ((bare, worker),) = values(lab, "bare:f", 1)
        ((own_environment, parent),) = values(lab, "named:f", 1, env={"A": "1"})
        ((named, same),) = values(lab, "named:f", 1)
    finally:
        lab.backend.close()
    assert bare == own_environment == []
    assert named == ["subprocess", "threading"]
    assert worker == parent == same


NOT_AHEAD = {
    "it starts a thread": (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
        "",
    ),
    "it prints": ("print('welcome')\n", ""),
    "it imports a module of the project": ("import settings\n", ""),
    "whyrun.toml names it": ("", 'import_late = ["fussy"]\n'),
}


@pytest.mark.real_start
@pytest.mark.parametrize("why", NOT_AHEAD)
def test_a_library_that_cannot_stand_a_fork_is_imported_in_each_step(curves: str, tmp_path: Path, why: str) -> None:
    source, config = NOT_AHEAD[why]
    noted = tmp_path / "noted"
    Path(curves, "fussy.py").write_text(
        f"import os\nwith open({str(noted)!r}, 'a') as file: file.write(f'{{os.getpid()}}\\n')\n{source}"
    )
    lab = Lab(tmp_path)
    lab.file("settings.py", "")
    lab.file("m.py", "import os, fussy, curves\ndef f():\n    return {'o': [os.getpid(), os.getppid()]}\n")
    if config:
        lab.file("whyrun.toml", config)
    try:
        steps = values(lab, "m:f", 3)
    finally:
        lab.backend.close()
    assert len({parent for _, parent in steps}) == 1
    imports = [int(line) for line in noted.read_text().split()]
    assert imports[-3:] == [process for process, _ in steps]
    printed = lab.evidence()
    assert printed == ({f"S%5B{n}%5D/stdout.log": "welcome\n" for n in range(3)} if why == "it prints" else {})


# --- isolation: shared -------------------------------------------------------------------------------------------


def test_steps_of_a_shared_job_that_follow_each_other_have_one_process(lab: Lab) -> None:
    lab.file("m.py", "import os\nseen = []\ndef f():\n    seen.append(1)\n    return {'o': [len(seen), os.getpid()]}\n")
    first = values(lab, "m:f", 3, shared=True)
    assert [count for count, _ in first] == [1, 2, 3]
    (own,) = values(lab, "m:f", 1)
    (with_env,) = values(lab, "m:f", 1, shared=True, env={"A": "1"})
    again = values(lab, "m:f", 2, shared=True)
    assert [own[0], with_env[0], *(count for count, _ in again)] == [1, 1, 1, 2]
    assert len({process for _, process in (*first, own, with_env, *again)}) == 4


def test_a_pool_and_an_outside_request_work_in_a_shared_process(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import os\nfrom concurrent.futures import ProcessPoolExecutor\npool = ProcessPoolExecutor(1)\n"
        "def f():\n    return {'o': pool.submit(os.getpid).result()}\n"
        "def ask(context):\n    context.remember('id', 7)\n    return {'o': context.recall('id')}\n",
    )
    assert len(set(values(lab, "m:f", 3, shared=True))) == 1
    lab.backend.submit(lab.call("m:ask", {"o": "json"}, shared=True))
    lab.remembered()
    lab.backend.acknowledge("Job:S", "id")
    ended = lab.end_of("Job:S")
    assert isinstance(ended, StepFinished)
    assert lab.bytes_of(ended, "o") == b"7"


def test_a_shared_step_that_dies_is_lost_alone_and_others_follow(lab: Lab) -> None:
    lab.file("m.py", "import os\ndef f(n):\n    n == 2 and os._exit(4)\n    return {'o': n}\n")
    commands = [lab.call("m:f", {"o": "integer"}, with_={"n": n}, step_id=f"Job:S[{n}]", shared=True) for n in range(6)]
    words = lab.run(*commands)
    lost = [(word.step_id, word.reason) for word in words if isinstance(word, StepLost)]
    assert lost == [("Job:S[2]", "the worker exited with status 4 while the step ran")]
    assert [word.outputs[0].value for word in words if isinstance(word, StepFinished)] == [0, 1, 3, 4, 5]


SHARED = """
    workflow: w
    loops: {n: {count: 5}}
    jobs:
      Count:
        for: [n]
        uses: python
        isolation: shared
        with: {call: "steps:count", n: "${{ n }}"}
        outputs: {Seen: {type: integer, path: "out/${{ n }}"}}
"""


def test_isolation_shared_in_a_workflow(project: Make) -> None:
    lab = project(
        SHARED, {"steps.py": "seen = []\ndef count(n):\n    seen.append(n)\n    return {'Seen': len(seen)}\n"}
    )
    lab.succeed(jobs=1)
    assert [(lab.root / f"out/{n}").read_text() for n in range(5)] == ["1", "2", "3", "4", "5"]
    lab.edit("workflow.yaml", "isolation: shared", "isolation: process")
    assert lab.plan().headlines() == {}, "how a step is executed does not count"


def test_a_signal_reaches_the_step_wherever_it_runs(lab: Lab) -> None:
    lab.file("m.py", "import time\ndef f():\n    time.sleep(600)\n")
    for number, more in enumerate(({}, {"shared": True}, {"env": {"A": "1"}})):
        lab.backend.submit(lab.call("m:f", step_id=f"Job:S[{number}]", **more))
        lab.began(f"Job:S[{number}]")
        lab.backend.signal(f"Job:S[{number}]", signal.SIGTERM)
        ended = lab.end_of(f"Job:S[{number}]")
        assert isinstance(ended, StepFinished)
        assert (ended.error_type, ended.error) == ("StepCancelled", "the step was asked to stop (SIGTERM)")


def test_the_worker_has_one_thread_while_a_step_runs(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import os\ndef f(context):\n    context.metric('m', 1)\n"
        "    return {'o': len(os.listdir(f'/proc/{os.getppid()}/task'))}\n",
    )
    assert values(lab, "m:f", 2) == [1, 1]
    assert os.path.isdir("/proc/self/task")
