"""Which files of the project belong to an action: every one that could run with it, however it is imported."""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from whyrun.actions.code.import_facts import Import, imports_in, read_facts
from whyrun.actions.code.imports import project_code
from whyrun.actions.code.source import parse_source
from whyrun.actions.registry.registry import action_fingerprint, resolve_action
from whyrun.project import Project


def write(project: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    return project


PACKAGE = {
    "pkg/__init__.py": "A = 1\n",
    "pkg/sub/__init__.py": "B = 1\n",
    "pkg/sub/mod.py": "def f(): return {}\n",
    "pkg/sub/other.py": "",
    "names/space/mod.py": "def f(): return {}\n",
    "my-model.py": "",
}
ALL_OF_MOD = ["pkg/__init__.py", "pkg/sub/__init__.py", "pkg/sub/mod.py"]


def files_of(call: str, project: Path) -> list[str]:
    return sorted(action_fingerprint("python", {"call": call}, project)[1]["source"])


@pytest.mark.parametrize(
    ("call", "files"),
    [
        ("pkg.sub.mod:f", ALL_OF_MOD),
        ("pkg.sub:f", ["pkg/__init__.py", "pkg/sub/__init__.py"]),
        ("pkg:f", ["pkg/__init__.py"]),
        ("names.space.mod:f", ["names/space/mod.py"]),
    ],
)
def test_the_packages_of_the_called_module_belong_to_it(tmp_path: Path, call: str, files: list[str]) -> None:
    """Importing `pkg.sub.mod` runs `pkg/__init__.py` first, then `pkg/sub/__init__.py`."""
    project = write(tmp_path, {**PACKAGE, "pkg/__init__.py": "def f(): return {}\n", "pkg/sub/__init__.py": "f = 1\n"})
    assert files_of(call, project) == files
    for edited in files:
        before = action_fingerprint("python", {"call": call}, project)[0]
        with (project / edited).open("a") as file:
            file.write("X = 1\n")
        assert action_fingerprint("python", {"call": call}, project)[0] != before


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ("import pkg.sub.mod", ALL_OF_MOD),
        ("import pkg.sub.mod as m", ALL_OF_MOD),
        ("from pkg.sub import mod", ALL_OF_MOD),
        ("from pkg.sub.mod import f", ALL_OF_MOD),
        ("from pkg.sub.mod import *", ALL_OF_MOD),
        ("import pkg.sub.gone", ["pkg/__init__.py", "pkg/sub/__init__.py"]),
        ("import names.space.mod", ["names/space/mod.py"]),
        ("from names.space import mod", ["names/space/mod.py"]),
        ("def g():\n    if never:\n        from pkg.sub import mod", ALL_OF_MOD),
        ("try:\n    import fast\nexcept ImportError:\n    import pkg.sub.mod", ALL_OF_MOD),
        ("import importlib\nm = importlib.import_module('pkg.sub.mod')", ALL_OF_MOD),
        ("from importlib import import_module\nm = import_module(name='pkg.sub.mod')", ALL_OF_MOD),
        ("from importlib import import_module as get\nm = get('pkg.sub.mod')", ALL_OF_MOD),
        ("import importlib\nm = importlib.import_module('.mod', package='pkg.sub')", ALL_OF_MOD),
        ("import importlib\nm = importlib.import_module('..sub.mod', 'pkg.sub')", ALL_OF_MOD),
        ("m = __import__('pkg.sub.mod')", ALL_OF_MOD),
        ("import runpy\nrunpy.run_module('pkg.sub.mod')", ALL_OF_MOD),
        ("import importlib.util\ns = importlib.util.find_spec('pkg.sub.mod')", ALL_OF_MOD),
        ("from importlib.util import find_spec\ns = find_spec('.mod', package='pkg.sub')", ALL_OF_MOD),
        ("import pkgutil\nf = pkgutil.resolve_name('pkg.sub.mod:f')", ALL_OF_MOD),
        ("from pkgutil import resolve_name as get\nf = get('pkg.sub.mod.f')", ALL_OF_MOD),
        ("import pydoc\nf = pydoc.locate('pkg.sub.mod.f')", ALL_OF_MOD),
        ("from pydoc import locate as get\nf = get(path='pkg.sub.mod.f')", ALL_OF_MOD),
        ("import pydoc\nm = pydoc.safeimport('pkg.sub.mod')", ALL_OF_MOD),
        ("m = __import__('pkg.sub', fromlist=['mod']).mod", ALL_OF_MOD),
        ("m = __import__('pkg.sub', globals(), locals(), ('mod',), 0).mod", ALL_OF_MOD),
        ("import importlib\nm = importlib.import_module('my-model')", ["my-model.py"]),
        ("import importlib, sys\nm = importlib.import_module(sys.argv[0])", []),
        ("import importlib\nm = importlib.import_module('../elsewhere')", []),
        ("import importlib\nm = importlib.import_module('')", []),
        ("import importlib\nm = importlib.import_module('.mod', '../elsewhere')", []),
        ("import importlib\nm = importlib.import_module('.mod', '/pkg/sub')", []),
    ],
)
def test_imports_count_however_they_are_written(tmp_path: Path, source: str, files: list[str]) -> None:
    project = write(tmp_path, {**PACKAGE, "entry.py": f"{source}\ndef go(): return {{}}\n"})
    assert files_of("entry:go", project) == sorted(["entry.py", *files])


def test_a_relative_name_given_to_import_module_is_relative_to_the_file(tmp_path: Path) -> None:
    lazy = "import importlib\ndef f(): return importlib.import_module('.other', __package__)\n"
    project = write(tmp_path, {**PACKAGE, "pkg/sub/mod.py": lazy})
    assert files_of("pkg.sub.mod:f", project) == sorted([*ALL_OF_MOD, "pkg/sub/other.py"])


@pytest.mark.parametrize(
    ("low_level", "found"),
    [
        ("__import__('a.b')", Import(0, ("a", "b"))),
        ("__import__('a', globals(), locals(), ['b', 'c'], 0)", Import(0, ("a",), ("b", "c"))),
        ("__import__('a', globals(), locals(), [], 1)", Import(1, ("a",))),
        ("__import__('', globals(), level=2, fromlist=('b',))", Import(2, (), ("b",))),
        ("__import__(name='a', fromlist=names, level=level)", Import(0, ("a",))),
    ],
)
def test_the_import_function_says_what_an_import_statement_would(low_level: str, found: Import) -> None:
    assert list(imports_in(parse_source(low_level.encode(), "x.py"))) == [found]


def test_a_level_given_to_the_import_function_counts_from_the_file(tmp_path: Path) -> None:
    above = "def f(): return __import__('above', globals(), locals(), ['x'], 2)\n"
    project = write(tmp_path, {**PACKAGE, "pkg/sub/mod.py": above, "pkg/above.py": ""})
    assert files_of("pkg.sub.mod:f", project) == sorted([*ALL_OF_MOD, "pkg/above.py"])


@pytest.mark.parametrize(
    "run",
    [
        "runpy.run_module('tools.report')",
        "runpy.run_module(mod_name='tools.report', run_name='__main__')",
        "from runpy import run_module as run\nrun('tools.report')",
        "NAME = 'tools.report'\nrunpy.run_module(NAME)",
    ],
)
@pytest.mark.parametrize("init", [[], ["tools/__init__.py", "tools/report/__init__.py"]])
def test_a_package_that_is_run_is_its_main_module_and_what_that_imports(
    tmp_path: Path, run: str, init: list[str]
) -> None:
    package = {"tools/report/__main__.py": "from tools.report import part\n", "tools/report/part.py": ""}
    others = {"tools/__main__.py": "", "tools/report/other.py": "", "report/__main__.py": ""}
    source = f"import runpy\n{run}\ndef go(): return {{}}\n"
    project = write(tmp_path, {**package, **others, **dict.fromkeys(init, ""), "entry.py": source})
    assert files_of("entry:go", project) == sorted(["entry.py", *package, *init])


@pytest.mark.parametrize(
    ("init", "files"),
    [
        ("", []),
        ("__all__ = ['a']\n", ["kit/a.py"]),
        ("__all__: list[str] = ['a']\n__all__ += ('b',)\n", ["kit/a.py", "kit/b.py"]),
        ("__all__ = ['a']\n__all__.append('b')\n", ["kit/a.py", "kit/b.py", "kit/deep/__init__.py"]),
        ("from os import __all__\n", ["kit/a.py", "kit/b.py", "kit/deep/__init__.py"]),
        ("__all__ = [name for name in ('a',)]\n", ["kit/a.py", "kit/b.py", "kit/deep/__init__.py"]),
    ],
)
def test_a_star_takes_the_modules_that_the_package_lists(tmp_path: Path, init: str, files: list[str]) -> None:
    """`from kit import *` imports what `__all__` names; where that is computed, all its modules count."""
    kit = {"kit/__init__.py": init, "kit/a.py": "", "kit/b.py": "", "kit/deep/__init__.py": "", "kit/data.txt": "x"}
    project = write(tmp_path, {**kit, "entry.py": "from kit import *\ndef go(): return {}\n"})
    assert files_of("entry:go", project) == sorted(["entry.py", "kit/__init__.py", *files])


def test_a_compiled_module_of_the_project_counts_by_its_bytes(tmp_path: Path) -> None:
    compiled = f"fast{EXTENSION_SUFFIXES[0]}"
    project = write(tmp_path, {"entry.py": "import fast\ndef go(): return {}\n", compiled: "\x7fELF one"})
    before = action_fingerprint("python", {"call": "entry:go"}, project)
    assert sorted(before[1]["source"]) == sorted(["entry.py", compiled])
    write(project, {compiled: "\x7fELF two"})
    assert action_fingerprint("python", {"call": "entry:go"}, project)[0] != before[0]


def test_a_package_whose_beginning_is_compiled_counts_with_it(tmp_path: Path) -> None:
    init = f"fast/__init__{EXTENSION_SUFFIXES[0]}"
    lazy = "def f():\n    from .more import x\n"
    files = {init: "\x7fELF", "fast/part.py": lazy, "fast/more.py": "", "fast.py": ""}
    project = write(tmp_path, {**files, "entry.py": "import fast.part\ndef go(): return {}\n"})
    assert files_of("entry:go", project) == sorted(["entry.py", init, "fast/part.py", "fast/more.py"])
    assert files_of("fast.part:f", project) == sorted([init, "fast/part.py", "fast/more.py"])


def test_a_script_is_not_imported_so_its_package_does_not_run(tmp_path: Path) -> None:
    project = write(tmp_path, {**PACKAGE, "pkg/run": "import names.space.mod\n"})
    assert project_code(project, project / "pkg" / "run", imported=False).digests == (
        project_code(project, project / "names/space/mod.py", imported=True).digests[0],
        ("pkg/run", action_fingerprint("python", {"script": "pkg/run"}, project)[1]["source"]["pkg/run"]),
    )


def test_imports_in_says_each_in_one_form() -> None:
    found = imports_in(parse_source(b"import a.b, c\nfrom ..d import e, f\nfrom . import *\n", "x.py"))
    assert [(i.level, i.module, i.names) for i in found] == [
        (0, ("a", "b"), ()),
        (0, ("c",), ()),
        (2, ("d",), ("e", "f")),
        (1, (), ("*",)),
    ]


def rewrite_unnoticed(path: Path, text: str) -> None:
    """Same inode, size and modification time."""
    before = path.stat()
    assert len(text) == before.st_size
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (before.st_ino, before.st_size, before.st_mtime_ns) == (after.st_ino, after.st_size, after.st_mtime_ns)


def test_an_edit_that_size_and_time_do_not_show_is_seen(tmp_path: Path) -> None:
    action = "from whyrun import action\n@action('mine', version='%s')\ndef f(): return {}\n"
    project = write(tmp_path, {"code.py": "def go(): return {'N': 1}\n", "actions/a.py": action % 1})
    seen = {action_fingerprint("python", {"call": "code:go"}, project)[0]}
    assert resolve_action("mine", project).version == "1"
    for n in range(2, 10):
        rewrite_unnoticed(project / "code.py", f"def go(): return {{'N': {n}}}\n")
        seen.add(action_fingerprint("python", {"call": "code:go"}, project)[0])
        rewrite_unnoticed(project / "actions" / "a.py", action % n)
        assert resolve_action("mine", project).version == str(n)
    assert len(seen) == 9


def test_many_jobs_that_share_a_module_cost_one_look_at_it(tmp_path: Path) -> None:
    jobs = "".join(
        f"  J{n}:\n    uses: python\n    with: {{call: 'shared:go', n: {n}}}\n    outputs: {{T: {{type: text}}}}\n"
        for n in range(50)
    )
    project = write(
        tmp_path,
        {
            "workflow.yaml": f"workflow: w\njobs:\n{jobs}",
            "shared.py": f"import helper  # {tmp_path}\ndef go(n): return {{}}\n",
            "helper.py": f"X = {str(tmp_path)!r}\n",
        },
    )
    before = read_facts.cache_info().misses
    actions = Project.open(project / "workflow.yaml").actions
    assert read_facts.cache_info().misses - before == 2
    assert len({facts.sha256 for facts in actions.values()}) == 1
    assert len(actions) == 50
