"""Code that changes where imports are looked for, or loads files by name: whatever its texts can mean belongs to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from code_lab import write

from project_lab import Lab, reasons
from whyrun.actions.code.import_facts import read_facts
from whyrun.actions.code.imports import project_code
from whyrun.actions.registry.registry import action_fingerprint
from whyrun.errors import InvalidError

Make = Callable[..., Lab]

HERE = "import os, site, sys, runpy, importlib\nfrom pathlib import Path\nHERE = Path(__file__).parent\n"
INSERT = "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def fingerprint(folder: Path, script: str, code: tuple[str, ...] = ()) -> tuple[str, list[str]]:
    sha256, facts = action_fingerprint("python", {"script": script}, folder, code)
    return sha256, sorted(facts["source"])


def counted(folder: Path, script: str, code: tuple[str, ...] = ()) -> list[str]:
    """The `.py` files of the project whose edit changes the fingerprint: just those that the facts name."""
    before, named = fingerprint(folder, script, code)
    seen = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        path.write_text(f"{text}\nEDITED = 1\n")
        if fingerprint(folder, script, code)[0] != before:
            seen.append(path.relative_to(folder).as_posix())
        path.write_text(text)
    assert fingerprint(folder, script, code) == (before, named)
    assert [name for name in seen if name in named] == [name for name in named if name.endswith(".py")]
    return seen


# --- folders that literals name ------------------------------------------------------------------------------------

FOLDERS = [
    ("sys.path.insert(0, os.path.dirname(__file__))", "scripts"),
    ("sys.path[:0] = [str(HERE)]", "scripts"),
    ("os.sys.path.append(str(HERE))", "scripts"),
    ("getattr(sys, 'path').append(str(HERE))", "scripts"),
    ("from sys import path\npath.append(str(HERE))", "scripts"),
    ("import sys as s\ns.path += [str(HERE)]", "scripts"),
    ("def f():\n    if never:\n        sys.path.append(str(HERE))", "scripts"),
    ("sys.path.append('lib')", "lib"),
    ("sys.path.append('lib/deep')", "lib/deep"),
    ("sys.path.insert(0, str(Path(__file__).parent / 'lib'))", "scripts/lib"),
    ("sys.path.insert(0, str(HERE.parent / 'lib'))", "lib"),
    ("sys.path.insert(0, str(HERE / 'lib' / 'deep'))", "scripts/lib/deep"),
    ("LIB = HERE / 'lib'\nDEEP = LIB / 'deep'\nsys.path.append(str(DEEP))", "scripts/lib/deep"),
    ("sys.path.insert(0, os.path.join(os.path.dirname(__file__), 'lib'))", "scripts/lib"),
    ("sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'lib'))", "lib"),
    ("sys.path.insert(0, os.path.join(os.path.dirname(__file__), '../lib'))", "lib"),
    ("sys.path.insert(0, os.path.dirname(__file__) + '/lib')", "scripts/lib"),
    ("sys.path.insert(0, f'{HERE}/../lib/')", "lib"),
    ("sys.path.insert(0, '%s/lib' % HERE)", "scripts/lib"),
    ("sys.path.insert(0, '{}/lib'.format(HERE))", "scripts/lib"),
    ("sys.path.insert(0, 'FOLDER/lib')", "lib"),
    ("site.addsitedir('lib')", "lib"),
    ("from site import addsitedir as add\nadd('lib')", "lib"),
    ("os.environ['PYTHONPATH'] = 'other:lib'", "lib"),
    ("import importlib.machinery\nFINDER = importlib.machinery.PathFinder.find_spec('x', ['lib'])", "lib"),
]


@pytest.mark.parametrize(("code", "place"), FOLDERS)
@pytest.mark.parametrize("words", ["import shelp", "def f():\n    from shelp import x", "from shelp.part import y"])
def test_an_import_is_looked_for_where_the_code_can_mean(folder: Path, code: str, place: str, words: str) -> None:
    """Below, above and beside that folder are modules of the same name that it cannot mean."""
    helper = f"{place}/shelp/part.py" if "part" in words else f"{place}/shelp.py"
    source = f"{HERE}{code.replace('FOLDER', str(folder))}\n{words}\n"
    write(folder, {"scripts/s.py": source, helper: "", f"{place}/other.py": "", "elsewhere/shelp.py": "", "top.py": ""})
    assert counted(folder, "scripts/s.py") == sorted(["scripts/s.py", helper])


def test_all_of_several_count_and_the_package_and_what_they_import(folder: Path) -> None:
    write(
        folder,
        {
            "scripts/deep/s.py": f"{INSERT}sys.path.append('lib')\nimport shelp\n",
            "scripts/deep/shelp.py": "from shelp_b import x\n",
            "scripts/shelp.py": "",
            "shelp.py": "",
            "lib/shelp/__init__.py": "from . import part\n",
            "lib/shelp/part.py": "",
            "lib/shelp/unused.py": "",
            "lib/shelp_b.py": "import top\n",
            "top.py": "",
            "lib/json.py": "",
            "unused.py": "",
        },
    )
    assert counted(folder, "scripts/deep/s.py") == [
        "lib/shelp/__init__.py",
        "lib/shelp/part.py",
        "lib/shelp_b.py",
        "scripts/deep/s.py",
        "scripts/deep/shelp.py",
        "scripts/shelp.py",
        "shelp.py",
        "top.py",
    ]


def test_what_is_installed_may_be_hidden_by_a_file(folder: Path) -> None:
    write(folder, {"scripts/s.py": f"{INSERT}import json, msgspec\n", "scripts/json.py": "", "scripts/msgspec.py": ""})
    assert counted(folder, "scripts/s.py") == ["scripts/json.py", "scripts/msgspec.py", "scripts/s.py"]


def test_a_change_of_the_path_holds_for_all_modules(folder: Path) -> None:
    """Here the one that changes it is imported, itself by way of another such folder, or named by `code:`."""
    write(
        folder,
        {
            "s.py": "import paths\nimport shelp\n",
            "paths.py": "import sys\nsys.path.append('one')\nimport more\n",
            "one/more.py": "import sys\nsys.path.append('two')\n",
            "two/shelp.py": "",
            "two/other.py": "",
        },
    )
    assert counted(folder, "s.py") == ["one/more.py", "paths.py", "s.py", "two/shelp.py"]
    write(folder, {"paths.py": "", "beside.py": "import sys\nsys.path.append('two')\n"})
    assert counted(folder, "s.py", ("beside.py",)) == ["beside.py", "paths.py", "s.py", "two/shelp.py"]


def test_a_new_file_that_would_go_first_is_a_change(folder: Path) -> None:
    write(folder, {"scripts/s.py": f"{INSERT}import shelp\n", "shelp.py": ""})
    before = fingerprint(folder, "scripts/s.py")
    write(folder, {"scripts/shelp.py": ""})
    assert fingerprint(folder, "scripts/s.py")[0] != before[0]


def test_docstrings_that_a_module_found_so_reads_count(folder: Path) -> None:
    write(folder, {"scripts/s.py": f'{INSERT}import shelp\ndef f():\n    "one"\n', "scripts/shelp.py": "X = 1"})
    plain = fingerprint(folder, "scripts/s.py")
    write(folder, {"scripts/s.py": f'{INSERT}import shelp\ndef f():\n    "two"\n'})
    assert fingerprint(folder, "scripts/s.py") == plain
    write(folder, {"scripts/shelp.py": "def g(f): return f.__doc__"})
    reading = fingerprint(folder, "scripts/s.py")
    write(folder, {"scripts/s.py": f'{INSERT}import shelp\ndef f():\n    "one"\n'})
    assert fingerprint(folder, "scripts/s.py")[0] != reading[0]


# --- files that literals name --------------------------------------------------------------------------------------

FILES = [
    "spec = importlib.util.spec_from_file_location('x', 'lib/tool.py')",
    "from importlib.util import spec_from_file_location as spec\nspec('x', str(HERE.parent / 'lib' / 'tool.py'))",
    "NAME = 'tool'\nspec = importlib.util.spec_from_file_location(NAME, HERE.parent / 'lib' / f'{NAME}.py')",
    "from importlib.machinery import SourceFileLoader\nSourceFileLoader('x', os.path.join('lib', 'tool.py'))",
    "from importlib import machinery\nmachinery.SourceFileLoader('x', 'lib/tool.py')",
    "runpy.run_path('lib/tool.py')",
    "TOOL = f'{HERE}/../lib/tool.py'\nrunpy.run_path(TOOL)",
    "for name in ('lib.tool', 'lib.gone'):\n    importlib.import_module(name)",
    "NAME = 'lib.tool'\n__import__(NAME)",
    "NAME = 'lib.tool'\nrunpy.run_module(NAME)",
    "for name in ['lib/tool.py']:\n    importlib.import_module(name[:-3].replace('/', '.'))",
    "sys.path.append('lib')\nfor name in ('tool',):\n    importlib.import_module(name)",
    "NAME = 'lib.tool'\nimportlib.util.find_spec(NAME)",
    "from pkgutil import resolve_name\nfor name in ('lib.tool:f', 'lib.gone:g'):\n    resolve_name(name)",
    "import pydoc\nNAME = 'lib.tool.f'\npydoc.locate(NAME)",
    "import imp\nimp.load_source('x', 'lib/tool.py')",
    "exec(open(HERE.parent / 'lib' / 'tool.py').read())",
    "exec(compile(Path('lib/tool.py').read_text(), 'tool', 'exec'))",
    "from importlib.resources import files\nexec(files('lib').joinpath('tool.py').read_text())",
    "importlib.import_module('lib' + '.tool')",
    "importlib.import_module('lib.%s' % 'tool')",
    "for name in ('tool', 'gone'):\n    importlib.import_module(f'lib.{name}')",
    "PACKAGE = 'lib'\nimportlib.import_module('.tool', PACKAGE)",
]


@pytest.mark.parametrize("code", FILES)
def test_files_and_modules_that_are_named_count(folder: Path, code: str) -> None:
    write(folder, {"scripts/s.py": f"{HERE}{code}\n", "lib/tool.py": "", "lib/other.py": "", "scripts/other.py": ""})
    assert counted(folder, "scripts/s.py") == ["lib/tool.py", "scripts/s.py"]


def test_a_relative_name_is_relative_to_the_file(folder: Path) -> None:
    load = "import importlib\nfor name in ('.one', '..two'): importlib.import_module(name, __package__)\n"
    write(folder, {"a/b/s.py": load, "a/b/one.py": "", "a/two.py": "", "one.py": "", "two.py": "", "a/one.py": ""})
    assert counted(folder, "a/b/s.py") == ["a/b/one.py", "a/b/s.py", "a/two.py"]


@pytest.mark.parametrize(
    "load", ["import_module('.' + LAZY[name], __name__)", "import_module(f'{__name__}.{LAZY[name]}')"]
)
def test_a_part_of_a_name_may_be_a_module_beside_the_file(folder: Path, load: str) -> None:
    """As packages do whose names are imported when first asked for."""
    lazy = f"import importlib\nLAZY = {{'Thing': 'part'}}\ndef __getattr__(name): return importlib.{load}\n"
    files = {"kit/__init__.py": lazy, "kit/part.py": "", "kit/other.py": "", "elsewhere/part.py": ""}
    write(folder, {**files, "s.py": "from kit import Thing\n"})
    assert counted(folder, "s.py") == ["kit/__init__.py", "kit/part.py", "s.py"]


@pytest.mark.parametrize(
    "read",
    [
        "import pkgutil\npkgutil.get_data('kit', 'words.txt')",
        "from pkgutil import get_data\nget_data('kit', 'words.txt')",
        "import importlib.resources\nimportlib.resources.files('kit')",
        "from importlib import resources\nresources.files('kit')",
        "from importlib.resources import files\nfiles('kit')",
    ],
)
def test_a_package_that_is_asked_for_its_data_is_imported(folder: Path, read: str) -> None:
    write(folder, {"s.py": f"{read}\n", "kit/__init__.py": "", "kit/other.py": "", "kit/words.txt": ""})
    assert counted(folder, "s.py") == ["kit/__init__.py", "s.py"]


def test_a_folder_that_is_run_is_its_main_module(folder: Path) -> None:
    write(folder, {"s.py": "import runpy\nrunpy.run_path('tool')\n", "tool/__main__.py": "", "tool/other.py": ""})
    assert counted(folder, "s.py") == ["s.py", "tool/__main__.py"]


# --- what cannot be read -------------------------------------------------------------------------------------------

COMPUTED = "import os, sys\nsys.path.append(os.environ['WHERE'])\n"
TREE = {
    "scripts/any/where/shelp.py": "import top, beside\n",
    "scripts/any/where/beside.py": "",
    "scripts/other/shelp/__init__.py": "from .part import x\n",
    "scripts/other/shelp/part.py": "",
    "scripts/other/shelp/more.py": "",
    "scripts/other.py": "",
    "scripts/.hidden/shelp.py": "",
    "scripts/env/pyvenv.cfg": "",
    "scripts/env/lib/shelp.py": "",
    "scripts/site-packages/shelp.py": "",
    "scripts/node_modules/shelp.py": "",
    "top.py": "",
    "shelp/not_near.py": "",
    "unrelated.py": "",
}
NAMED_SO = [
    "scripts/any/where/beside.py",
    "scripts/any/where/shelp.py",
    "scripts/other/shelp/__init__.py",
    "scripts/other/shelp/part.py",
    "scripts/s.py",
    "top.py",
]


def test_where_the_folder_cannot_be_read_whatever_has_the_name_counts(folder: Path) -> None:
    write(folder, {**TREE, "scripts/s.py": f"{COMPUTED}import shelp\n"})
    assert counted(folder, "scripts/s.py") == NAMED_SO
    write(folder, {"scripts/s.py": f"{COMPUTED}import shelp.more\n"})
    assert counted(folder, "scripts/s.py") == sorted([*NAMED_SO, "scripts/other/shelp/more.py"])
    write(folder, {"scripts/new/more.py": "", "scripts/new/shelp.py": ""})
    assert "scripts/new/shelp.py" in counted(folder, "scripts/s.py")
    assert "scripts/new/more.py" not in counted(folder, "scripts/s.py")


@pytest.mark.parametrize("parent", ["Path('libs')", "Path(__file__).parent.parent", "Path(os.environ['WHERE'])"])
def test_the_whole_project_is_looked_through(folder: Path, parent: str) -> None:
    code = f"import os, sys\nfrom pathlib import Path\nfor one in {parent}.iterdir():\n    sys.path.append(str(one))\n"
    helpers = {"libs/a/shelp.py": "from sbase import x\n", "more/shelp/__init__.py": "", "more/deep/sbase.py": ""}
    others = {"more/shelp/part.py": "", "more/other.py": "", ".hidden/shelp.py": "", "env/pyvenv.cfg": ""}
    installed = {"env/lib/shelp.py": "", "lib/site-packages/shelp.py": "", "node_modules/a/shelp.py": ""}
    write(folder, {"scripts/s.py": f"{code}import shelp\n", **helpers, **others, **installed})
    assert counted(folder, "scripts/s.py") == sorted([*helpers, "scripts/s.py"])


def test_a_named_folder_behind_a_link_is_looked_through_too(tmp_path: Path) -> None:
    project = tmp_path / "project"
    code = "import os, sys\nsys.path += [os.path.join('libs', name) for name in os.listdir('libs')]\nimport shelp\n"
    write(tmp_path, {"project/scripts/s.py": code, "out/a/shelp.py": "", "out/b/other.py": ""})
    os.symlink(tmp_path / "out", project / "libs")
    os.symlink(tmp_path / "out", project / "not-named")
    assert fingerprint(project, "scripts/s.py")[1] == ["libs/a/shelp.py", "scripts/s.py"]


def test_all_jobs_of_a_plan_cost_one_look_through_the_project_and_the_next_plan_another(
    project: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = "".join(
        f"  J{n}:\n    uses: python\n    with: {{script: scripts/s{n}.py}}\n    outputs: {{T: {{type: text}}}}\n"
        for n in range(3)
    )
    scripts = {f"scripts/s{n}.py": f"{COMPUTED}import shelp{n}\n" for n in range(3)}
    lab = project(f"workflow: w\njobs:\n{jobs}", {**scripts, "lib/shelp0.py": ""})
    walked = []
    walk = os.walk
    monkeypatch.setattr(os, "walk", lambda top: walked.append(top) or walk(top))
    files = {name: sorted(facts.files) for name, facts in lab.opened().actions.items()}
    assert files == {"J0": ["lib/shelp0.py", "scripts/s0.py"], "J1": ["scripts/s1.py"], "J2": ["scripts/s2.py"]}
    assert walked == [str(lab.root)]
    lab.write({"lib/shelp1.py": ""})
    files = {name: sorted(facts.files) for name, facts in lab.opened().actions.items()}
    assert files["J1"] == ["lib/shelp1.py", "scripts/s1.py"]
    assert walked == [str(lab.root)] * 2


def test_a_project_is_not_looked_through_for_what_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold any number of data files."""
    monkeypatch.setattr(os, "walk", lambda top: pytest.fail(f"{top} was looked through"))
    write(folder, {**TREE, "scripts/s.py": f"{COMPUTED}import os, json, top\n", "other.py": "import shelp\n"})
    assert fingerprint(folder, "scripts/s.py")[1] == ["scripts/s.py", "top.py"]
    assert fingerprint(folder, "other.py")[1] == ["other.py"]


@pytest.mark.parametrize(
    "found", ["import os, json", "import msgspec, msgspec.json", "import top", "from . import shelp"]
)
def test_what_is_found_needs_no_look_at_all_of_them(folder: Path, found: str) -> None:
    write(folder, {**TREE, "scripts/s.py": f"{COMPUTED}{found}\n"})
    assert counted(folder, "scripts/s.py") == ["scripts/s.py", *(["top.py"] if "top" in found else [])]


@pytest.mark.parametrize("where", ["scripts/any/where", "../installed"])
def test_what_is_installed_plays_no_part(folder: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Another machine, or a notebook, would have another fingerprint."""
    write(folder, {**TREE, "scripts/s.py": f"{COMPUTED}import shelp\ntry:\n    import cupy\nexcept ImportError: ...\n"})
    write(folder.parent, {"installed/shelp.py": "", "installed/cupy.py": ""})
    before = fingerprint(folder, "scripts/s.py")
    monkeypatch.syspath_prepend(str(folder / where))
    assert fingerprint(folder, "scripts/s.py") == before
    assert before[1] == NAMED_SO


def test_a_file_that_may_never_run_need_not_be_python(folder: Path) -> None:
    code = {"scripts/s.py": f"{COMPUTED}import shelp\n", "scripts/a/shelp.py": "print 'two'\n"}
    write(folder, {**code, "scripts/b/shelp.py": "\0"})
    before, named = fingerprint(folder, "scripts/s.py")
    assert named == ["scripts/a/shelp.py", "scripts/b/shelp.py", "scripts/s.py"]
    write(folder, {"scripts/a/shelp.py": "print 'three'\n"})
    assert fingerprint(folder, "scripts/s.py")[0] != before
    (folder / "scripts/b/shelp.py").unlink()
    os.symlink("nowhere.py", folder / "scripts/b/shelp.py")
    assert fingerprint(folder, "scripts/s.py")[1] == ["scripts/a/shelp.py", "scripts/s.py"]
    write(folder, {"scripts/s.py": f"{COMPUTED}import shelp, top\n", "top.py": "print 'two'\n"})
    with pytest.raises(InvalidError, match=r"top\.py:1"):  # but this one surely runs
        fingerprint(folder, "scripts/s.py")


# --- bounds --------------------------------------------------------------------------------------------------------


def test_nothing_outside_the_project_is_looked_at(tmp_path: Path) -> None:
    project = tmp_path / "project"
    out = f"sys.path += ['..', '../lib', '/', {str(tmp_path / 'lib')!r}, 'lib/../../lib']\n"
    write(
        tmp_path,
        {
            "project/s.py": f"{HERE}{out}runpy.run_path('../lib/shelp.py')\nimport shelp\n",
            "lib/shelp.py": "",
            "shelp.py": "",
            "project/lib/other.py": "",
        },
    )
    named = [name for name, _ in project_code(project, project / "s.py", imported=False).digests]
    assert named == ["s.py"]


def test_a_link_to_a_folder_is_followed_where_it_is_named_and_circles_end(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write(tmp_path, {"out/shelp.py": "", "project/s.py": "import sys\nsys.path += ['lib', 'round']\nimport shelp\n"})
    os.symlink(tmp_path / "out", project / "lib")
    os.symlink(".", project / "round")
    named = [name for name, _ in project_code(project, project / "s.py", imported=False).digests]
    assert "lib/shelp.py" in named
    assert all(name.endswith(("shelp.py", "s.py")) for name in named)


NO_CHANGE = [
    "import os, sys\nX = os.path.join('lib', sys.argv[0])",
    "import sys\nclass C:\n    path = 'lib'\nX = C().path",
    "import sys\nX = {'path': 'lib'}['path']",
    "'sys.path and spec_from_file_location of lib'  # sys.path.append('lib'), import_module, PYTHON" + "PATH",
    "X = 'sys.path of lib', 'machinery', 'lib'",
    "import runpy, site, importlib.util\nX = 'lib', 'lib/shelp.py'",
    "class C:\n    resources = 'lib'\n    def exec(self): return self.resources, 'lib.shelp'\nX = C().exec()",
    "import importlib\ndef get_data(name): return name\nX = get_data('lib.shelp')",
]


@pytest.mark.parametrize("code", NO_CHANGE)
def test_other_code_has_the_fingerprint_that_it_always_had(folder: Path, code: str) -> None:
    write(folder, {"scripts/s.py": f"{code}\nimport shelp\n", "scripts/shelp.py": "", "lib/shelp.py": ""})
    facts = read_facts((folder / "scripts/s.py").read_bytes(), "scripts/s.py")
    assert (facts.changes_sys_path, facts.loads_by_name, facts.texts) == (False, False, ())
    assert counted(folder, "scripts/s.py") == ["scripts/s.py"]


# --- end to end ----------------------------------------------------------------------------------------------------

WORKFLOW = """
workflow: moved
jobs:
  Script:
    uses: python
    with: {script: scripts/s.py}
    outputs: {o: {type: text}}
  Lib:
    uses: python
    with: {call: "call:go"}
    outputs: {o: {type: text}}
  Load:
    uses: python
    with: {call: "load:go"}
    outputs: {o: {type: text}}
  Run:
    uses: python
    with: {call: "run:go"}
    outputs: {o: {type: text}}
  Resolve:
    uses: python
    with: {call: "resolve:go"}
    outputs: {o: {type: text}}
  Anywhere:
    uses: python
    with: {script: sub/main.py}
    outputs: {o: {type: text}}
"""
PROJECT = {
    "scripts/s.py": (
        "import os, sys\nsys.path.insert(0, os.path.dirname(__file__)); import shelp\n"
        "context.output('o').write_text(shelp.TEXT)\n"
    ),
    "scripts/shelp.py": "TEXT = 'script one'\n",
    "scripts/unrelated.py": "X = 1\n",
    "call.py": (
        "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).parent / 'lib'))\n"
        "import lhelp\ndef go(): return {'o': lhelp.TEXT}\n"
    ),
    "lib/lhelp.py": "TEXT = 'lib one'\n",
    "load.py": (
        "import runpy\nfrom pathlib import Path\n"
        "def go(): return {'o': runpy.run_path(str(Path(__file__).parent / 'tools' / 'tool.py'))['TEXT']}\n"
    ),
    "tools/tool.py": "TEXT = 'tool one'\n",
    "run.py": "import runpy\ndef go(): return {'o': runpy.run_module('tools.report')['TEXT']}\n",
    "tools/report/__main__.py": "TEXT = 'main one'\n",
    "resolve.py": "import pkgutil\ndef go(): return {'o': pkgutil.resolve_name('named:TEXT')}\n",
    "named.py": "TEXT = 'named one'\n",
    "sub/main.py": (
        "import sys\nfrom pathlib import Path\n"
        "for folder in Path(__file__).parent.parent.iterdir(): sys.path.append(str(folder))\n"
        "import anywhere\ncontext.output('o').write_text(anywhere.TEXT)\n"
    ),
    "other/anywhere.py": "TEXT = 'anywhere one'\n",
}


@pytest.mark.parametrize(
    ("job", "file"),
    [
        ("Script", "scripts/shelp.py"),
        ("Lib", "lib/lhelp.py"),
        ("Load", "tools/tool.py"),
        ("Run", "tools/report/__main__.py"),
        ("Resolve", "named.py"),
        ("Anywhere", "other/anywhere.py"),
    ],
)
def test_a_plan_names_the_helper_that_was_edited(project: Make, job: str, file: str) -> None:
    lab = project(WORKFLOW, PROJECT)
    lab.succeed()
    assert lab.content(f"Artifact:{job}.o").endswith(" one")
    lab.edit("scripts/unrelated.py", "X = 1", "X = 2")
    lab.edit(file, "TEXT", "# why\nTEXT")
    assert lab.plan().headlines() == {}
    old = lab.opened().actions[job].sha256
    lab.edit(file, " one", " two")
    new = lab.opened().actions[job].sha256
    reason = {"code": "INPUT_CHANGED", "binding": "action", "source": f"Input:{job}.action", "old": old, "new": new}
    assert reasons(lab.plan()) == {f"Job:{job}": [{**reason, "files": [file]}]}
    assert lab.succeed().executed == [f"Job:{job}"]
    assert lab.content(f"Artifact:{job}.o").endswith(" two")
    assert lab.plan().headlines() == {}
