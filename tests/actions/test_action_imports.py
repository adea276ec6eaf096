"""Which files of the project belong to an action: every one that its import statements may run."""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from whyrun.actions.code.import_facts import imports_in, read_facts
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
    ],
)
def test_imports_count_however_they_are_written(tmp_path: Path, source: str, files: list[str]) -> None:
    project = write(tmp_path, {**PACKAGE, "entry.py": f"{source}\ndef go(): return {{}}\n"})
    assert files_of("entry:go", project) == sorted(["entry.py", *files])


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
