"""Code of the project that is found through an editable installation belongs to the actions that import it.

Each test has a Python of its own, so that what is installed there is there for nobody else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from code_lab import write

from whyrun.actions.code.editable import Editable, bundled_folders
from whyrun.actions.code.import_facts import Import
from whyrun.actions.code.module_files import files_of
from whyrun.execution.backends.sandbox.backend import why_unavailable

WORKFLOW = """\
workflow: x
jobs:
  A:
    uses: %s
    outputs: {Out: {type: text, path: out/a.txt}}
"""
CALL = WORKFLOW % 'python\n    with: {call: "main:go"}'
PACKAGE = {"src/mypkg/__init__.py": "from .deep import V\nV += 'a'\n", "src/mypkg/deep.py": "V='1'\n"}
MAIN = {"workflow.yaml": CALL, "main.py": 'from mypkg import V\ndef go():\n    return {"Out": V}\n'}
ACTION = """\
from whyrun import action

@action(name="own/go", outputs={"Out": "text"})
def go():
    from mypkg import V
    return {"Out": V}
"""

# What setuptools writes for `pip install -e .`, as far as imports of packages and modules go.
FINDER = """\
import sys
from importlib.machinery import PathFinder, all_suffixes
from importlib.util import spec_from_file_location
from pathlib import Path

MAPPING = %r
NAMESPACES = %r

class _EditableFinder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname in MAPPING:
            place = Path(MAPPING[fullname])
            for candidate in [place / "__init__.py", *(place.with_suffix(s) for s in all_suffixes())]:
                if candidate.exists():
                    return spec_from_file_location(fullname, candidate)
        parent = fullname.rpartition(".")[0]
        if parent in MAPPING:
            return PathFinder.find_spec(fullname, path=[MAPPING[parent]])
        return None

def install():
    sys.meta_path.append(_EditableFinder)
"""
# And what the library `editables` does, which other build tools use.
REDIRECTOR = """\
import sys
from importlib.util import spec_from_file_location

class RedirectingFinder:
    _redirections = %r

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        place = cls._redirections.get(fullname)
        return spec_from_file_location(fullname, place) if place else None

def install():
    sys.meta_path.append(RedirectingFinder)
"""


@dataclass
class Machine:
    """A project, and a Python with what is installed in it."""

    project: Path
    folder: Path  # of the virtual environment

    @property
    def site(self) -> Path:
        return next((self.folder / "lib").glob("python*/site-packages"))

    def install(self, kind: str, packages: str = "src/mypkg") -> None:
        name = Path(packages).name
        place = self.project / packages
        if kind == "pth":
            (self.site / "mypkg.pth").write_text(f"{place.parent}\n")
        elif kind == "statement":
            (self.site / "mypkg.pth").write_text(f"import sys; sys.path.append({str(place.parent)!r})\n")
        else:
            finder = FINDER % ({name: str(place)}, {})
            if kind == "editables":
                finder = REDIRECTOR % {name: str(place / "__init__.py")}
            (self.site / "__editable___mypkg_finder.py").write_text(finder)
            start = "import __editable___mypkg_finder; __editable___mypkg_finder.install()\n"
            (self.site / "__editable__.mypkg.pth").write_text(start)

    def whyrun(self, *words: str, env: dict[str, str] | None = None, at: Path | None = None) -> tuple[int, str]:
        done = subprocess.run(
            [str(self.folder / "bin" / "python"), "-P", "-m", "whyrun.cli.main", *words],
            cwd=at or self.project,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def plan(self, env: dict[str, str] | None = None, at: Path | None = None) -> list[Any]:
        """Of each job that is not clean, its reasons, and the files that they name."""
        code, told = self.whyrun("plan", "--json", env=env, at=at)
        assert code == 0, told
        reasons = [reason for job in json.loads(told)["jobs"] for reason in job["reasons"]]
        return [(reason["code"], reason.get("files")) for reason in reasons]

    def edit(self, path: str, text: str) -> None:
        (self.project / path).write_text(text)

    @property
    def out(self) -> str:
        return (self.project / "out/a.txt").read_text()


def machine(project: Path, environment: Path, files: dict[str, str]) -> Machine:
    write(project, files)
    venv.EnvBuilder(symlinks=True).create(environment)
    made = Machine(project, environment)
    # Whyrun and what it needs, without what may be installed there by other `.pth` files.
    here = [entry for entry in sys.path if entry.endswith("-packages") or Path(entry, "whyrun").is_dir()]
    (made.site / "whyrun.pth").write_text("".join(f"{entry}\n" for entry in here))
    return made


KINDS = ["pth", "statement", "finder", "editables"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_edit_of_what_is_installed_editable_is_a_reason(tmp_path: Path, kind: str) -> None:
    """Also in the same second and of the same size, where Python would take what it compiled before."""
    lab = machine(tmp_path / "p", tmp_path / "python", MAIN | PACKAGE)
    lab.install(kind)
    assert (lab.whyrun("run", "-q")[0], lab.out) == (0, "1a")
    assert lab.plan() == []
    lab.edit("src/mypkg/deep.py", "V='2'\n")
    assert lab.plan() == [("INPUT_CHANGED", ["src/mypkg/deep.py"])]
    assert (lab.whyrun("run", "-q")[0], lab.out) == (0, "2a")
    lab.edit("src/mypkg/__init__.py", "from .deep import V\nV += 'b'\n")
    assert lab.plan() == [("INPUT_CHANGED", ["src/mypkg/__init__.py"])]
    assert (lab.whyrun("run", "-q")[0], lab.out) == (0, "2b")


def test_so_it_is_for_an_action_of_the_project(tmp_path: Path) -> None:
    files = {"workflow.yaml": WORKFLOW % "own/go", "actions/go.py": ACTION} | PACKAGE
    lab = machine(tmp_path / "p", tmp_path / "python", files)
    lab.install("pth")
    assert (lab.whyrun("run", "-q")[0], lab.out) == (0, "1a")
    lab.edit("src/mypkg/deep.py", "# a comment\nV = '1'\n")
    assert lab.plan() == []
    lab.edit("src/mypkg/deep.py", "V = '2'\n")
    assert (lab.whyrun("run", "-q")[0], lab.out) == (0, "2a")


def test_the_project_may_be_reached_by_a_link(tmp_path: Path) -> None:
    lab = machine(tmp_path / "p", tmp_path / "python", MAIN | PACKAGE)
    (tmp_path / "link").symlink_to("p")
    lab.install("pth")
    assert (lab.whyrun("run", "-q", at=tmp_path / "link")[0], lab.out) == (0, "1a")
    lab.edit("src/mypkg/deep.py", "V='2'\n")
    assert (lab.whyrun("run", "-q", at=tmp_path / "link")[0], lab.out) == (0, "2a")


def test_how_whyrun_was_started_plays_no_part(tmp_path: Path) -> None:
    """Workers do not get PYTHONPATH: what it leads to is not what they import."""
    main = 'try:\n    import mypkg\nexcept ImportError:\n    pass\ndef go():\n    return {"Out": "-"}\n'
    lab = machine(tmp_path / "p", tmp_path / "python", MAIN | PACKAGE | {"main.py": main})
    path = {"PYTHONPATH": str(lab.project / "src")}
    assert lab.whyrun("run", "-q")[0] == 0
    assert lab.plan(env=path) == []
    lab.edit("src/mypkg/deep.py", "V='2'\n")
    assert (lab.plan(), lab.plan(env=path)) == ([], [])


@pytest.mark.parametrize("name", [".venv", "venv"])
def test_a_virtual_environment_in_the_project_is_not_the_projects_own(tmp_path: Path, name: str) -> None:
    lab = machine(tmp_path / "p", tmp_path / "p" / name, MAIN)
    inner = f"{name}/src/other/src"  # where pip puts an editable checkout
    write(lab.site, {"mypkg/__init__.py": "from other import V\n", "other.pth": f"{lab.project / inner}\n"})
    write(lab.project, {f"{inner}/other.py": "V='1'\n"})
    assert (lab.whyrun("run", "-q")[0], lab.out) == (0, "1")
    (lab.site / "mypkg/__init__.py").write_text("V='2'\n")
    lab.edit(f"{inner}/other.py", "V='3'\n")
    assert lab.plan() == []


DURING = """\
import pathlib
def go():
    file = pathlib.Path(%r)
    before = file.read_text()
    file.write_text(before.replace("'1'", "'9'").replace("'a'", "'z'"))
    from mypkg import V
    file.write_text(before)
    return {"Out": V}
"""


@pytest.mark.parametrize(
    ("kind", "path"),
    [("pth", "src/mypkg/deep.py"), ("finder", "src/mypkg/__init__.py"), ("editables", "src/mypkg/__init__.py")],
)
def test_an_edit_while_it_is_imported_is_found_out_although_it_is_taken_back(
    tmp_path: Path, kind: str, path: str
) -> None:
    lab = machine(tmp_path / "p", tmp_path / "python", MAIN | PACKAGE)
    lab.edit("main.py", DURING % str(lab.project / path))
    lab.install(kind)
    code, told = lab.whyrun("run")
    assert (code, f"the code of `python` was edited since the plan was made (`{path}`)" in told) == (1, True), told
    assert not (lab.project / "out/a.txt").exists()


def test_a_sandbox_has_it_from_the_copy_of_the_project_and_sees_no_data_beside(tmp_path: Path) -> None:
    problem = why_unavailable()
    if problem is not None:
        pytest.skip(problem.message)
    source = (
        "import os, mypkg\ndef go():\n    return {'Out': str(sorted(os.listdir(os.path.dirname(mypkg.__file__))))}\n"
    )
    lab = machine(tmp_path / "p", tmp_path / "python", MAIN | PACKAGE | {"main.py": source, "src/mypkg/data.csv": "1"})
    lab.install("finder")
    code, told = lab.whyrun("run", "--backend", "sandbox")
    assert (code, lab.out if code == 0 else told) == (0, "['__init__.py', 'deep.py']")


def test_a_copy_elsewhere_has_the_folders_on_its_path(tmp_path: Path) -> None:
    """Before what is installed at its place, which may be the very folders that it is a copy of."""
    lab = machine(tmp_path / "p", tmp_path / "python", MAIN | PACKAGE)
    lab.install("pth")
    python = [str(lab.folder / "bin" / "python"), "-P", "-c"]
    pack = "import sys; from pathlib import Path; from whyrun.execution.bundle.bundle import *\n"
    pack += f"bundle = bundle_project(Path({str(lab.project)!r}))\n"
    pack += f"unpack(bundle.data, {str(tmp_path / 'copy')!r}, bundle.sha256)"
    subprocess.run([*python, pack], check=True)
    copy = str(tmp_path / "copy/project")
    assert bundled_folders(copy) == [f"{copy}/src"]
    assert bundled_folders(str(lab.project)) == []


# --- which files an import means ---------------------------------------------------------------------------------


def files(root: Path, found: Import, editable: Editable) -> list[str]:
    return [os.path.relpath(path, root) for path in files_of(found, str(root), str(root), editable)]


def test_folders_are_looked_in_as_an_import_does(tmp_path: Path) -> None:
    """The project goes first, then each in its order; one without `__init__.py` hides nothing behind it."""
    names = ["own.py", "a/own.py", "a/first.py", "b/first.py", "b/second.py", "data/x.csv", "a/data/y.csv"]
    write(tmp_path, dict.fromkeys([*names, "b/data/__init__.py", "b/data/z.py"], ""))
    editable = Editable((f"{tmp_path}/a", f"{tmp_path}/b"))
    found = {
        name: files(tmp_path, Import(0, tuple(name.split("."))), editable)
        for name in ("own", "first", "second", "data.z", "a.own", "none")
    }
    assert found == {
        "own": ["own.py"],
        "first": ["a/first.py"],
        "second": ["b/second.py"],
        "data.z": ["b/data/__init__.py", "b/data/z.py"],
        "a.own": ["a/own.py"],
        "none": [],
    }
    assert files(tmp_path, Import(1, ("first",)), editable) == []


def test_names_are_mapped_to_places_of_other_names_and_below_packages(tmp_path: Path) -> None:
    paths = ["lib/__init__.py", "lib/part.py", "ns/inner/__init__.py", "ns/inner/deep.py", "tools/one.py"]
    write(tmp_path, dict.fromkeys(paths, ""))
    editable = Editable(
        mapped={
            ("mypkg",): (f"{tmp_path}/lib",),
            ("space", "inner"): (f"{tmp_path}/ns/inner",),
            ("one",): (f"{tmp_path}/tools/one",),
        }
    )
    assert files(tmp_path, Import(0, ("mypkg", "part")), editable) == ["lib/__init__.py", "lib/part.py"]
    assert files(tmp_path, Import(0, ("mypkg",), ("part",)), editable)[:2] == ["lib/__init__.py", "lib/__init__.py"]
    assert set(files(tmp_path, Import(0, ("mypkg",), ("*",)), editable)) == {"lib/__init__.py"}
    assert files(tmp_path, Import(0, ("space",), ("inner",)), editable) == ["ns/inner/__init__.py"]
    inner = ["ns/inner/__init__.py", "ns/inner/deep.py"]
    assert files(tmp_path, Import(0, ("space", "inner", "deep")), editable) == inner
    assert files(tmp_path, Import(0, ("one",)), editable) == ["tools/one.py"]
    assert files(tmp_path, Import(0, ("space",)), editable) == []


def test_a_folder_above_the_project_leads_into_it(tmp_path: Path) -> None:
    """`repo` is installed, and the workflow lies in a package of it."""
    write(tmp_path, dict.fromkeys(["pkg/__init__.py", "pkg/flow/__init__.py", "pkg/flow/x.py", "other/x.py"], ""))
    project = tmp_path / "pkg" / "flow"
    editable = Editable((str(tmp_path),))
    assert files(project, Import(0, ("pkg", "flow", "x")), editable) == ["__init__.py", "x.py"]
    assert files(project, Import(0, ("other", "x")), editable) == []


def test_what_makes_it_importable_elsewhere_are_folders_of_the_project(tmp_path: Path) -> None:
    editable = Editable(
        (str(tmp_path.parent), f"{tmp_path}/src"),
        {
            ("a",): (f"{tmp_path}/src/a",),
            ("b",): (f"{tmp_path}/lib/b",),
            ("c", "d"): (f"{tmp_path}/more/c/d",),
            ("own",): (f"{tmp_path}/own",),
            ("renamed",): (f"{tmp_path}/there/other",),
        },
    )
    assert editable.import_folders(str(tmp_path)) == ("src", "lib", "more")
