"""Each step imports the modules of the project itself: none gets a module that it would not import."""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES

import pytest

from project_lab import Lab

# Which modules a worker has is a matter of its start.
pytestmark = pytest.mark.real_start

Make = Callable[..., Lab]


def said(lab: Lab) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((lab.root / "out").iterdir())}


SETTINGS = {
    "settings.py": "import os\nMODE = os.environ.get('MODE', 'none')\n",
    "steps.py": "import settings\ndef go(**given):\n    return {'T': settings.MODE}\n",
    "actions/acts.py": """
        import settings
        from whyrun import action
        @action("lab/mode", outputs={"T": "text"})
        def mode(): return {"T": settings.MODE}
        """,
}
ENVIRONMENTS = """
    workflow: w
    loops: {m: {values: [a, b]}}
    jobs:
      Plain: {uses: python, with: {call: "steps:go"}, outputs: {T: {type: text, path: out/plain}}}
      Called:
        for: [m]
        needs: [Plain]
        uses: python
        env: {MODE: "${{ m }}"}
        with: {call: "steps:go"}
        outputs: {T: {type: text, path: "out/called-${{ m }}"}}
      Act: {needs: [Called], uses: lab/mode, outputs: {T: {type: text, path: out/act}}}
      Acts:
        for: [m]
        needs: [Act]
        uses: lab/mode
        env: {MODE: "${{ m }}"}
        outputs: {T: {type: text, path: "out/acts-${{ m }}"}}
"""


def test_a_module_that_reads_the_environment_when_it_is_imported_reads_that_of_the_step(project: Make) -> None:
    lab = project(ENVIRONMENTS, SETTINGS)
    lab.succeed(jobs=1)
    expected = {"act": "none", "acts-a": "a", "acts-b": "b", "called-a": "a", "called-b": "b", "plain": "none"}
    assert said(lab) == expected


RUN = """
    import sys
    from os.path import dirname
    sys.path.insert(0, dirname(__file__))
    from util import X
    context.output("T").write_text(X)
    """
BORROWED = """
    import sys
    from pathlib import Path
    sys.path.insert(0, str(Path(__file__).parent / "one"))
    from util import X
    del sys.path[0]
    def go(): return {"T": X}
    """
FOLDERS = {
    "util.py": "X = 'root'\n",
    "one/util.py": "X = 'one'\n",
    "two/util.py": "X = 'two'\n",
    "one/run.py": RUN,
    "two/run.py": RUN,
    "borrowed.py": BORROWED,
    "plain.py": "from util import X\ndef go():\n    return {'T': X}\n",
}
STEPS = {
    "one": "script: one/run.py",
    "two": "script: two/run.py",
    "root": 'call: "plain:go"',
    "borrowed": 'call: "borrowed:go"',
}


def one_after_the_other(names: list[str]) -> str:
    jobs = [
        f"      J{number}: {{uses: python, needs: [{f'J{number - 1}' if number else ''}], with: {{{STEPS[name]}}}, "
        f"outputs: {{T: {{type: text, path: out/{number}-{name}}}}}}}"
        for number, name in enumerate(names)
    ]
    return "    workflow: w\n    jobs:\n" + "\n".join(jobs)


@pytest.mark.parametrize(
    "order",
    ["one two root", "root one two", "root two one root", "borrowed root", "root borrowed", "two borrowed one"],
)
def test_a_module_of_one_steps_own_folder_is_not_given_to_another(project: Make, order: str) -> None:
    """Whoever comes first, on one worker: `util` is another file for each of them."""
    names = order.split()
    lab = project(one_after_the_other(names), FOLDERS)
    lab.succeed(jobs=1)
    expected = {f"{number}-{name}": "one" if name == "borrowed" else name for number, name in enumerate(names)}
    assert said(lab) == expected


ONE = """
    workflow: w
    jobs:
      A: {uses: python, with: {call: 'm:go'}, outputs: {T: {type: text, path: out/t}}}
"""
LOADED = {
    "spec": """
        from importlib.util import module_from_spec, spec_from_file_location
        from pathlib import Path
        def go():
            spec = spec_from_file_location("k", Path(__file__).parent / "plug/k.py")
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return {"T": str(module.X)}
        """,
    "loader": """
        from importlib.machinery import SourceFileLoader
        from pathlib import Path
        def go():
            return {"T": str(SourceFileLoader("k", str(Path(__file__).parent / "plug/k.py")).load_module().X)}
        """,
}


@pytest.mark.parametrize("way", LOADED)
def test_a_file_that_is_loaded_by_its_path_is_the_one_of_now(project: Make, way: str) -> None:
    """Python believes a compiled file whose source has the same size and second."""
    lab = project(ONE, {"m.py": LOADED[way], "plug/k.py": "X = 1\n"})
    for number in range(1, 5):  # several times: a second may end in between
        (lab.root / "plug/k.py").write_text(f"X = {number}\n")
        lab.run(jobs=1)
        assert said(lab) == {"t": str(number)}


SHADOWS = {
    "a package beside the module": ("call: 'm:go'", "m.py", "m/__init__.py"),
    "a package beside the action": ("", "actions/text.py", "actions/text/__init__.py"),
}


@pytest.mark.parametrize("what", SHADOWS)
def test_what_runs_in_place_of_the_entry_counts(project: Make, what: str) -> None:
    with_, entry, shadow = SHADOWS[what]
    source = "from whyrun import action\n@action('lab/text', outputs={'T': 'text'})\ndef go(): return {'T': 'ONE'}\n"
    uses = f"uses: python, with: {{{with_}}}" if with_ else "uses: lab/text"
    workflow = f"    workflow: w\n    jobs:\n      A: {{{uses}, outputs: {{T: {{type: text, path: out/t}}}}}}"
    lab = project(workflow, {entry: source})
    lab.succeed()
    place = lab.root / shadow
    place.parent.mkdir()
    for text in ("two", "three"):
        place.write_text(source.replace("ONE", text))
        assert lab.plan().headlines() == {"Job:A": "INPUT_CHANGED"}
        lab.succeed()
        assert said(lab) == {"t": text}
        assert lab.plan().headlines() == {}


def test_a_compiled_module_beside_the_entry_counts(project: Make) -> None:
    """It is the one that runs."""
    lab = project(ONE, {"m.py": "def go():\n    return {'T': 'source'}\n"})
    found = [lab.opened().actions["A"].files]
    for content in (b"one", b"two"):
        (lab.root / f"m{EXTENSION_SUFFIXES[0]}").write_bytes(content)
        found.append(lab.opened().actions["A"].files)
    names = [{"m.py"}, *[{"m.py", f"m{EXTENSION_SUFFIXES[0]}"}] * 2]
    assert [set(files) for files in found] == names
    assert found[1] != found[2]
