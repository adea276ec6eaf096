"""Scripts that know nothing of Whyrun, what steps read undeclared, and locked packages: the same at every place.

Three scripts with a command line of their own and a shared helper ran here once, so the log knows what they read. Then
the helper is edited, and the next run is somewhere else: it leaves the same evidence as one that is here, too.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest
from parity_lab import BACKENDS, loopback_e2b

from environment_lab import WHEELS, locked, why_no_uv
from project_lab import Lab, Ran, codes
from whyrun.artifacts.hashing import bytes_sha256
from whyrun.execution.backends.base import Backend
from whyrun.log import events as ev

pytestmark = [
    pytest.mark.real_start,
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
    pytest.mark.skipif(why_no_uv() is not None, reason=str(why_no_uv())),
]

Make = Callable[..., Lab]

WORKFLOW = """
    workflow: elsewhere
    defaults: {workdir: project}
    inputs: {Rows: {type: integer, default: 3}}
    jobs:
      Make:
        uses: shell
        with: {run: 'python3 make.py --rows "$rows" --out data/made.csv', rows: "${{ inputs.Rows }}"}
        outputs: {Table: {type: file, path: data/made.csv}}
      Train:
        uses: shell
        with:
          run: python3 train.py --table data/made.csv --model results/model.txt
          table: ${{ jobs.Make.outputs.Table }}
        outputs: {Model: {type: text, path: results/model.txt}}
      Report:
        uses: shell
        with: {run: 'python3 report.py results/model.txt > results/report.txt', m: "${{ jobs.Train.outputs.Model }}"}
        outputs: {Text: {type: text, path: results/report.txt}}
      Look:
        uses: python
        workdir: scratch
        with: {call: "steps:look"}
        outputs: {Seen: {type: json}}
      Locked:
        uses: python
        environment: {python: locked.txt}
        with: {call: "steps:packages"}
        outputs: {Version: {type: string}}
"""
SCRIPT = "import argparse\nimport helper\nparser = argparse.ArgumentParser()\n"
FILES = {
    **WHEELS,
    "locked.txt": locked("tinylib==1.0"),
    "make.py": SCRIPT
    + "parser.add_argument('--rows', type=int)\nparser.add_argument('--out')\ngiven = parser.parse_args()\n"
    + "open(given.out, 'w').writelines(f'{helper.WORD},{n}\\n' for n in range(given.rows))\n",
    "train.py": SCRIPT
    + "import glob, os\nparser.add_argument('--table')\nparser.add_argument('--model')\ngiven = parser.parse_args()\n"
    + "extra = [open(path).read() for path in sorted(glob.glob('parts/*.txt'))]\n"
    + "conf = open('conf.json').read() if os.path.exists('conf.json') else 'none'\n"
    + "with open(given.model, 'w') as file:\n    print(open(given.table).read(), *extra, conf, file=file)\n",
    "report.py": "import sys\nprint(open(sys.argv[1]).read().upper())\n",
    "helper.py": "WORD = 'one'\n",
    "parts/a.txt": "part a",
    "steps.py": """
        import importlib, os
        from pathlib import Path

        def look():
            project = Path(os.environ["WHYRUN_PROJECT"])
            word = importlib.import_module("help" + "er").WORD
            return {"Seen": [word, sorted(os.listdir(project / "parts")), (project / "parts/a.txt").read_text()]}

        def packages():
            import tinylib
            return {"Version": tinylib.VERSION + open("parts/a.txt").read()}
        """,
}


@contextmanager
def e2b() -> Iterator[Backend]:
    from whyrun.execution.backends.e2b.backend import e2b_backend

    with loopback_e2b() as variables, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield e2b_backend("data")


def dask() -> AbstractContextManager[Backend]:
    from whyrun.execution.backends.dask.backend import dask_backend

    return nullcontext(dask_backend())


def sandbox() -> AbstractContextManager[Backend]:
    from whyrun.execution.backends.sandbox.backend import sandbox_backend, why_unavailable

    if (why := why_unavailable()) is not None:
        pytest.skip(why)
    return nullcontext(sandbox_backend())


PLACES: dict[str, Callable[[], AbstractContextManager[Backend]]] = {"sandbox": sandbox, "dask": dask, "e2b": e2b}


def reads(ran: Ran) -> dict[str, list[tuple[str, str | None]]]:
    """Step → the paths that it read undeclared, with their hashes or kinds."""
    found: dict[str, list[tuple[str, str | None]]] = {}
    for event in ran.of(ev.StepComplete):
        seen = event.observed if isinstance(event.observed, list) else []
        found[event.step_id] = [(read.path, read.sha256 or read.kind) for read in seen]
    return found


@pytest.fixture(scope="module", autouse=True)
def _plain_python() -> Iterator[None]:
    """A wrapper such as that of pyenv reads files of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{os.path.dirname(sys.executable)}:/usr/bin:/bin")
        yield


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return edited(Lab(tmp_path_factory.mktemp("here"))).succeed()


def edited(lab: Lab) -> Lab:
    """The scripts ran here, and their helper was edited."""
    lab.write({"workflow.yaml": WORKFLOW, **FILES}).succeed()
    lab.edit("helper.py", "one", "two")
    planned = {job.id: [reason.text(job.id).partition("  ")[0] for reason in job.reasons] for job in lab.plan().jobs}
    helper = "observed ← helper.py"
    assert planned == {
        "Job:Look": [helper],
        "Job:Make": [helper],
        "Job:Report": ["Job:Train"],  # which imports it no more than `Job:Locked`
        "Job:Train": [helper, "Job:Make"],
    }
    return lab


@pytest.mark.parametrize("place", list(PLACES))
def test_a_run_elsewhere_reads_and_leaves_the_same(place: str, here: Ran, tmp_path: Path) -> None:
    lacks = BACKENDS[place].lacks
    if lacks is not None:
        pytest.skip(lacks)
    lab = edited(Lab(tmp_path / "there"))
    with PLACES[place]() as backend:
        ran = lab.succeed(backend=backend, force=["Job:Locked"])
    assert ran.executed == ["Job:Locked", "Job:Look", "Job:Make", "Job:Report", "Job:Train"]
    assert lab.read("results/report.txt").startswith("TWO,0\nTWO,1\nTWO,2\n")
    assert lab.content("Artifact:Locked.Version") == "1.0part a"
    own = {step: found for step, found in reads(ran).items() if step != "Job:Locked"}
    assert own == reads(here)
    assert reads(ran)["Job:Locked"] == [("parts/a.txt", bytes_sha256(b"part a"))]
    assert dict(own["Job:Train"])["conf.json"] == "absent"
    assert {"helper.py", "parts", "parts/a.txt"} <= dict(own["Job:Look"]).keys()
    assert codes(lab.plan()) == {}
    lab.write({"parts/b.txt": "part b"})
    assert sorted(codes(lab.plan())) == ["Job:Look", "Job:Report", "Job:Train"]
    lab.write({"parts/b.txt": None, "conf.json": "{}"})
    assert sorted(codes(lab.plan())) == ["Job:Report", "Job:Train"]
