"""Modules that no import statement in the project's folder names: that steps load them is seen, and nothing guesses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import Lab, Ran, codes
from whyrun.artifacts.hashing import bytes_sha256
from whyrun.log import events as ev

# Which modules a step's process has imported before is a matter of its start.
pytestmark = [pytest.mark.real_start, pytest.mark.traced]

Make = Callable[..., Lab]


def job(name: str, with_: str) -> str:
    return f"  {name}:\n    uses: python\n    with: {{{with_}}}\n    outputs: {{o: {{type: text}}}}\n"


def observed(ran: Ran) -> dict[str, dict[str, str | None]]:
    """Step → path → the hash of its content, or its kind where that has none."""
    found: dict[str, dict[str, str | None]] = {}
    for event in ran.of(ev.StepComplete):
        if isinstance(event.observed, list):
            found[event.step_id] = {read.path: read.sha256 or read.kind for read in event.observed}
    return found


def sha(text: str) -> str:
    return bytes_sha256(text.encode())


CALLS = ("Lib", "Load", "Run", "Resolve", "Named")
WORKFLOW = (
    "workflow: moved\njobs:\n"
    + job("Script", "script: scripts/s.py")
    + job("Anywhere", "script: sub/main.py")
    + "".join(job(name, f'call: "{name.lower()}:go"') for name in CALLS)
)
PROJECT = {
    "scripts/s.py": (
        "import os, sys\nsys.path.insert(0, os.path.dirname(__file__)); import shelp\n"
        "context.output('o').write_text(shelp.TEXT)\n"
    ),
    "scripts/shelp.py": "TEXT = 'Script one'\n",
    "scripts/unrelated.py": "X = 1\n",
    "lib.py": (
        "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).parent / 'more'))\n"
        "import lhelp\ndef go(): return {'o': lhelp.TEXT}\n"
    ),
    "more/lhelp.py": "TEXT = 'Lib one'\n",
    "load.py": (
        "import runpy\nfrom pathlib import Path\n"
        "def go(): return {'o': runpy.run_path(str(Path(__file__).parent / 'tools' / 'tool.py'))['TEXT']}\n"
    ),
    "tools/tool.py": "TEXT = 'Load one'\n",
    "run.py": "import runpy\ndef go(): return {'o': runpy.run_module('tools.report')['TEXT']}\n",
    "tools/report/__main__.py": "TEXT = 'Run one'\n",
    "resolve.py": "import pkgutil\ndef go(): return {'o': pkgutil.resolve_name('other:TEXT')}\n",
    "other.py": "TEXT = 'Resolve one'\n",
    "named.py": "import importlib\ndef go(): return {'o': importlib.import_module('plug' + 'ins.csv').TEXT}\n",
    "plugins/csv.py": "TEXT = 'Named one'\n",
    "sub/main.py": (
        "import sys\nfrom pathlib import Path\n"
        "above = Path(__file__).parent.parent\n"
        # Of folders only: Python would look into a file as into an archive, if it came before the right folder.
        "sys.path += [str(folder) for folder in above.iterdir() if folder.is_dir()]\n"
        "import anywhere\ncontext.output('o').write_text(anywhere.TEXT)\n"
    ),
    "far/anywhere.py": "TEXT = 'Anywhere one'\n",
}
HELPERS = {
    "Script": "scripts/shelp.py",
    "Lib": "more/lhelp.py",
    "Load": "tools/tool.py",
    "Run": "tools/report/__main__.py",
    "Resolve": "other.py",
    "Named": "plugins/csv.py",
    "Anywhere": "far/anywhere.py",
}


def test_a_plan_names_the_helper_that_was_edited_however_it_is_found(project: Make) -> None:
    lab = project(WORKFLOW, PROJECT)
    reads = observed(lab.succeed())
    lab.edit("scripts/unrelated.py", "X = 1", "X = 2")
    assert codes(lab.plan()) == {}
    for name, file in HELPERS.items():
        old = lab.read(file)
        assert reads[f"Job:{name}"][file] == sha(old)
        lab.edit(file, " one", " two")
        new = sha(lab.read(file))
        (planned,) = lab.plan().jobs
        assert (planned.id, [reason.text(planned.id) for reason in planned.reasons]) == (
            f"Job:{name}",
            [f"observed ← {file}  {sha(old)[:4]}… → {new[:4]}…"],
        )
        lab.write({file: old})
    assert codes(lab.plan()) == {}
    for new in ("plugins/csv/__init__.py", "plugins/__init__.py", "plugins.py"):  # each would go first
        lab.write({new: ""})
        assert codes(lab.plan())["Job:Named"] == ["INPUT_CHANGED"], new
        lab.write({new: None})
    for file in HELPERS.values():
        lab.edit(file, " one", " two")
    assert sorted(lab.succeed().executed) == sorted(f"Job:{name}" for name in HELPERS)
    assert {name: lab.content(f"Artifact:{name}.o") for name in HELPERS} == {name: f"{name} two" for name in HELPERS}
    assert codes(lab.plan()) == {}


def test_a_new_module_that_would_go_first_is_a_change(project: Make) -> None:
    lab = project("workflow: w\njobs:\n" + job("Go", 'call: "m:go"'), {
        "m.py": (
            "import sys\nfrom pathlib import Path\nsys.path += [str(Path(__file__).parent / n) for n in ('a', 'b')]\n"
            "import shelp\ntry:\n    import fast\nexcept ImportError:\n    fast = None\n"
            "def go(): return {'o': shelp.TEXT if fast is None else fast.TEXT}\n"
        ),
        "b/shelp.py": "TEXT = 'b'\n",
        "a/other.py": "",
    })  # fmt: skip
    absent = dict.fromkeys(
        f"{folder}{name}"
        for folder in ("", "a/", "b/")
        for name in ("fast.py", "fast/__init__.py", "shelp.py", "shelp/__init__.py")
    )
    del absent["b/shelp.py"]
    expected = {**dict.fromkeys(absent, "absent"), "b/shelp.py": sha("TEXT = 'b'\n")}
    assert observed(lab.succeed()) == {"Job:Go": expected}
    for new in ("a/shelp.py", "b/shelp/__init__.py", "shelp.py", "a/fast.py"):
        lab.write({new: "TEXT = 'new'\n"})
        assert list(codes(lab.plan())) == ["Job:Go"], new
        assert lab.succeed().executed == ["Job:Go"]
        assert lab.content("Artifact:Go.o") == "new"
        lab.write({new: None})
        lab.succeed()  # reused
    assert lab.content("Artifact:Go.o") == "b"


SOURCE = """
    import inspect, logging, tokenize, traceback, warnings

    # a comment
    def source(): return {"o": inspect.getsource(source)}

    def opened():
        with tokenize.open(__file__) as file:
            return {"o": file.read()[:20]}

    def shown():
        try:
            raise ValueError("shown")
        except ValueError:
            logging.getLogger("x").exception("seen")
            traceback.print_exc()
        warnings.warn("mind this")
        return {"o": "1"}
"""


def test_source_that_a_step_reads_counts_with_its_comments_and_lines_that_are_only_shown_do_not(project: Make) -> None:
    names = ("source", "opened", "shown")
    workflow = "workflow: w\njobs:\n" + "".join(job(name.title(), f'call: "m:{name}"') for name in names)
    lab = project(workflow, {"m.py": SOURCE})
    text = sha(lab.read("m.py"))
    assert observed(lab.succeed()) == {"Job:Source": {"m.py": text}, "Job:Opened": {"m.py": text}}
    lab.edit("m.py", "# a comment", "# another comment")
    assert codes(lab.plan()) == {"Job:Source": ["INPUT_CHANGED"], "Job:Opened": ["INPUT_CHANGED"]}
    assert lab.succeed().executed == ["Job:Opened", "Job:Source"]
    assert codes(lab.plan()) == {}
