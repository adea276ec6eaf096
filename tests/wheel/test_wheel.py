"""The wheel: its files and metadata, and the commands of a fresh installation in an empty virtual environment."""

from __future__ import annotations

import email.message
import email.parser
import fcntl
import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from whyrun.cli.commands.completion import SCRIPTS
from whyrun.cli.commands.init import FILES
from whyrun.cli.main import COMMANDS

PROJECT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = SETTINGS["version"]
# Variables that lead Python to other packages than those of the new environment.
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PYTHON", "WHYRUN_")) and name != "VIRTUAL_ENV"
}


@contextmanager
def made_once(factory: pytest.TempPathFactory, name: str) -> Iterator[tuple[Path, bool]]:
    """A folder that all workers of pytest-xdist share, and whether it is to be made. The others wait meanwhile."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder.with_suffix(".made")
        yield folder, not made.exists()
        made.touch()


@dataclass(frozen=True)
class Built:
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Both files, the wheel built from the sdist. The backend comes from the dev extra: no download."""
    with made_once(tmp_path_factory, "built") as (folder, missing):
        if missing:
            command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(PROJECT)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    names = [f"whyrun-{VERSION}-py3-none-any.whl", f"whyrun-{VERSION}.tar.gz"]
    assert sorted(file.name for file in folder.iterdir()) == names
    return Built(folder / names[0], folder / names[1])


def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        return email.parser.Parser().parsestr(archive.read(f"whyrun-{VERSION}.dist-info/METADATA").decode())


# --- contents ----------------------------------------------------------------------------------------------------


def test_twine_accepts_both_files(built: Built) -> None:
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", built.wheel, built.sdist]
    wide = {**os.environ, "COLUMNS": "1000"}  # else it breaks long paths
    done = subprocess.run(command, env=wide, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"Checking {built.wheel}: PASSED\nChecking {built.sdist}: PASSED\n")


def test_the_wheel_holds_the_package_and_nothing_else(built: Built) -> None:
    source = PROJECT / "src"
    package = [file for file in (source / "whyrun").rglob("*") if file.is_file() and file.parent.name != "__pycache__"]
    about = ["METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"]
    expected = {file.relative_to(source).as_posix() for file in package}
    expected |= {f"whyrun-{VERSION}.dist-info/{name}" for name in about}
    with zipfile.ZipFile(built.wheel) as archive:
        assert set(archive.namelist()) == expected
        assert "whyrun/py.typed" in expected
        assert archive.read(f"whyrun-{VERSION}.dist-info/licenses/LICENSE") == (PROJECT / "LICENSE").read_bytes()


def test_the_sdist_holds_source_tests_and_docs(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.removeprefix(f"whyrun-{VERSION}/") for name in archive.getnames()}
    files = {
        "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "PKG-INFO", "README.md", "pyproject.toml",
        ".gitignore",
    }  # fmt: skip
    folders = {"bench", "docs", "examples", "frontend", "src", "tests"}
    assert {name.partition("/")[0] for name in names} == folders | files
    assert {"src/whyrun/py.typed", "tests/conftest.py", "docs/cli.md"} <= names


def test_the_metadata_says_what_the_project_says(built: Built) -> None:
    about = metadata(built.wheel)
    fields = ["Name", "Version", "Summary", "License-Expression", "License-File", "Requires-Python"]
    assert [about[field] for field in fields] == [
        "whyrun", VERSION, SETTINGS["description"], "Apache-2.0", "LICENSE", ">=3.11",
    ]  # fmt: skip
    assert about.get_all("Classifier") == sorted(SETTINGS["classifiers"])
    required = [line.lower() for line in about.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert required == sorted(line.lower() for line in SETTINGS["dependencies"])
    assert about["Description-Content-Type"] == "text/markdown"
    assert about.get_payload() == (PROJECT / "README.md").read_text(encoding="utf-8")


# --- a fresh installation ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Installed:
    bin: Path

    def run(self, folder: Path, *words: str | Path) -> str:
        """What a program of the environment prints on stdout."""
        env = {**CLEAN, "PATH": f"{self.bin}{os.pathsep}{CLEAN['PATH']}"}
        command = [self.bin / words[0], *words[1:]]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel and its dependencies in an environment that holds nothing else, not even pip."""
    with made_once(tmp_path_factory, "installed") as (folder, missing):
        if missing:
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", folder], env=CLEAN, check=True)
            done = pip_install(folder, "--no-compile", "--retries", "1", str(built.wheel))
            if done.returncode != 0:
                # A package that PyPI certainly has tells an unreachable registry from a dependency that is wrong.
                probe = pip_install(folder, "--dry-run", "--no-deps", "--retries", "0", "pip")
                if probe.returncode != 0:
                    pytest.skip(f"pip cannot reach a package registry: {probe.stderr.strip().splitlines()[-1]}")
                pytest.fail(f"the wheel cannot be installed: {done.stdout}{done.stderr}")
    return Installed(folder / "bin")


def pip_install(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "-q", *words]
    return subprocess.run(command, env=CLEAN, capture_output=True, text=True, check=False)


def test_the_environment_has_the_wheel_and_no_package_of_the_developers(installed: Installed, tmp_path: Path) -> None:
    program = (
        "import importlib.metadata, json, whyrun\n"
        "names = sorted(found.metadata['Name'].lower() for found in importlib.metadata.distributions())\n"
        "print(json.dumps([whyrun.__version__, whyrun.__file__, names]))\n"
    )
    version, file, names = json.loads(installed.run(tmp_path, "python", "-c", program))
    assert version == VERSION
    assert Path(file).is_relative_to(installed.bin.parent)
    assert names == ["click", "markdown-it-py", "mdurl", "msgspec", "pygments", "pyyaml", "rich", "whyrun"]


def test_the_overview_lists_every_command(installed: Installed, tmp_path: Path) -> None:
    assert installed.run(tmp_path, "whyrun", "--version") == f"whyrun, version {VERSION}\n"
    text = installed.run(tmp_path, "whyrun", "--help")
    assert text.startswith("Usage: whyrun [OPTIONS] COMMAND [ARGS]...\n")
    listed = text.split("Commands:\n")[1].splitlines()
    assert [line.split(maxsplit=1) for line in listed] == [[name, text] for name, (_, text) in COMMANDS.items()]


def test_a_first_workflow_is_made_explained_and_run(installed: Installed, tmp_path: Path) -> None:
    made = installed.run(tmp_path, "whyrun", "init").splitlines()
    assert made[0] == "created workflow.yaml, words.py, texts/rain.txt, texts/sun.txt"
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in FILES} == FILES

    assert installed.run(tmp_path, "whyrun", "explain").splitlines() == [
        "word-count before its first run: 5 of 5 jobs to run",
        "layer 0",
        "  Job:Count[0]    MISSING_OUTPUT  Artifact:Count.Words[0]",
        "                  MISSING_OUTPUT  Artifact:Count.Words[0].Total",
        "  Job:Count[1]    MISSING_OUTPUT  Artifact:Count.Words[1]",
        "                  MISSING_OUTPUT  Artifact:Count.Words[1].Total",
        "layer 1",
        "  Job:Praise[0]   MISSING_OUTPUT  Artifact:Praise.Line[0]",
        "                  UPSTREAM_DIRTY  Job:Count[0]",
        "                  conditional     whether it runs is decided during the run",
        "  Job:Praise[1]   MISSING_OUTPUT  Artifact:Praise.Line[1]",
        "                  UPSTREAM_DIRTY  Job:Count[1]",
        "                  conditional     whether it runs is decided during the run",
        "  Job:Report      MISSING_OUTPUT  Artifact:Report.Text",
        "                  UPSTREAM_DIRTY  Job:Count[0]",
        "                  UPSTREAM_DIRTY  Job:Count[1]",
    ]

    installed.run(tmp_path, "whyrun", "run", "--quiet")
    published = {file.name: file.read_text(encoding="utf-8") for file in (tmp_path / "out").iterdir()}
    assert published == {"praise-0.txt": "a text of 11 words\n", "report.txt": "Hello: 15 words in 2 texts\n"}

    assert installed.run(tmp_path, "whyrun", "explain").splitlines() == [
        "word-count after r0001: nothing to do, 4 of 5 jobs up to date, 1 inactive",
        "inactive",
        "  Job:Praise[1]   condition_false  jobs.Count.outputs.Words[text].Total >= inputs.Enough  "
        "Artifact:Count.Words[1].Total = 4, Input:Enough = 10",
    ]
    assert installed.run(tmp_path, "whyrun", "explain", "--set", "Greeting=Good day").splitlines()[1:3] == [
        "layer 1",
        '  Job:Report      INPUT_CHANGED    greeting ← Input:Greeting  "Hello" → "Good day"',
    ]

    assert installed.run(tmp_path, "whyrun", "completion", "bash", "--line", "whyrun why Job:C").splitlines() == [
        "plain",
        "Job:Count[0]",
        "Job:Count[1]",
    ]


def test_the_completion_script_is_printed(installed: Installed, tmp_path: Path) -> None:
    assert installed.run(tmp_path, "whyrun", "completion", "bash") == SCRIPTS["bash"]
