"""Shared fixtures: real projects in temporary folders, run by the real engine.

def test_something(project):
    lab = project(workflow, {"photos/a.png": "a"})
    lab.succeed()
    assert lab.plan().headlines() == {}
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

import fork_server
import rewriting
from project_lab import NOT_TRACED, Files, Lab
from scenarios.harness import Scenario

# Property tests try the same cases every time, so that what is green here is green for whoever lands it. New cases are
# looked for with WHYRUN_SOAK=1 (`make soak`).
settings.register_profile(
    "same",
    deadline=None,
    database=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
settings.register_profile("soak", parent=settings.get_profile("same"), derandomize=False)
settings.load_profile("soak" if os.environ.get("WHYRUN_SOAK") else "same")

# Hypothesis tries the constants of all loaded modules of the project, too, so its cases would depend on which tests had
# run before in the process. Reading these modules takes 1 s of each process.
assert callable(providers._get_local_constants)
providers._get_local_constants = lambda: providers._local_constants

TESTS = Path(__file__).parent
fork_server.install()
# Collecting makes a million objects, and all of them stay. Looking through them for garbage takes a third of its time.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    # `nohup` ignores it, and child processes inherit that: what a step sees would depend on how the suite was started.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    config.addinivalue_line("markers", "real_start: start every program for real, and fork none from a warm process")
    config.addinivalue_line("markers", "traced: strace watches steps of the fixture `project`, as it does by default")


def pytest_collection(session: pytest.Session) -> None:
    rewriting.rewrite_a_share(session.config)


# Folders whose tests are long or wait much. They begin first, so that no core is idle at the end.
LONG_FIRST = (
    "lint", "crash", "property", "examples", "cluster", "viewer", "backends", "movers", "docs", "e2b", "parity",
    "environments", "wheel", "verify", "gc",
)  # fmt: skip
# Expensive fixtures of many modules, with the name of the process in which all tests that use one run: it is made once.
MADE_ONCE = {
    "mariadb_server": "databases",
    "postgres_server": "databases",
    "chromium": "browser",
    "image": "containers",
    "told_tales": "verify",
    "original": "gc",
    "exporting": "exports",
}


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and (group := _group(item)) is not None:
            _put_into(group, item)
    order = {folder: number for number, folder in enumerate(LONG_FIRST)}
    items.sort(key=lambda item: order.get(item.path.relative_to(TESTS).parts[0], len(order)))


def _group(item: pytest.Function) -> str | None:
    """Tests of a module that share a fixture run in one process, too: one process for each parameter of the fixture."""
    if (mark := item.get_closest_marker("xdist_group")) is not None:
        return str(mark.args[0])
    fixtures = {name: found[-1] for name, found in item._fixtureinfo.name2fixturedefs.items()}
    for name, group in MADE_ONCE.items():
        if name in fixtures and fixtures[name].scope != "function":
            return group
    shared = [name for name, fixture in fixtures.items() if fixture.scope == "module"]
    if not shared:
        return None
    parameters = item.callspec.indices if hasattr(item, "callspec") else {}
    return "-".join([item.path.stem, *(str(parameters[name]) for name in sorted(shared) if name in parameters)])


def _put_into(group: str, item: pytest.Item) -> None:
    """pytest-xdist reads the group from the ID of the item. It writes it there, too, but not as pytest 9.2 keeps it."""
    item.add_marker(pytest.mark.xdist_group(group))
    if getattr(item.config.option, "loadgroup", False) and hasattr(item, "_id"):
        item._id = type(item._id).parse(f"{item.nodeid}@{group}")


def pytest_collection_finish(session: pytest.Session) -> None:
    if getattr(session.config.option, "loadgroup", False):
        lost = [item for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
        assert not lost, "pytest-xdist does not group tests any more: servers would be started in each process"
    gc.freeze()  # what was collected stays until the end, so that nobody need look through it
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else libraries complain at the end that something of theirs was never freed


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-scenarios",
        action="store_true",
        help="write what tests/scenarios/* now give as their expected files, to be read before it is kept",
    )


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Lab]:
    """`project(workflow, files)`: a project folder with `workflow.yaml` and these files.

    strace does not watch its steps: that takes as long as the rest of a small step, and what it sees of Python depends
    on what the process of the test has loaded. Tests of what steps read have the marker `traced`.
    """
    given = {} if request.node.get_closest_marker("traced") else NOT_TRACED
    made = 0

    def make(workflow: str, files: Files | None = None) -> Lab:
        nonlocal made
        made += 1
        root = tmp_path / f"project{made}"
        root.mkdir()
        return Lab(root).write({**given, "workflow.yaml": workflow, **(files or {})})

    return make


@pytest.fixture
def data_libraries() -> Iterator[None]:
    """Workers have the libraries of data actions already: a step would import them for 0.1 s."""
    with fork_server.with_imported(*fork_server.DATA_LIBRARIES):
        yield


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[[str], Scenario]:
    """`scenario("then-and-now").after_success().with_changed("Input:ThenImages[2]").plan()`: scenarios/harness.py."""
    return lambda name: Scenario.load(name, tmp_path / "scenario")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than `tmp_path`."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system, such as /dev/shm")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def _real_start(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("real_start") is None:
        yield
        return
    with fork_server.real_start():
        yield
