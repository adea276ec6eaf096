"""docs/architecture.md and its picture describe the packages that exist."""

from __future__ import annotations

import re
import sys

from source_tree import PACKAGE, PROJECT

DOCS = PROJECT / "docs"
ARCHITECTURE = DOCS / "architecture.md"
sys.path.append(str(DOCS))


def test_the_picture_shows_every_top_level_package_and_is_current() -> None:
    from house_picture import FLOORS, PICTURE, drawn

    shown = {name for _, rooms in FLOORS for name, _ in rooms}
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert shown == there - {"__init__"}
    assert PICTURE.read_text(encoding="utf-8") == drawn()


def test_every_module_that_the_page_names_exists() -> None:
    """Paths stand in backticks, as `planning/judge.py` or `snapshot/history/`, relative to `src/whyrun`."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.py)?)`", text))
    assert len(named) > 30
    assert sorted(name for name in named if not any((root / name).exists() for root in (PACKAGE, PROJECT))) == []


def test_every_package_is_introduced() -> None:
    """Three to six lines: what lives there, what comes in, what goes out, where to start reading."""
    bad = {}
    for init in PACKAGE.rglob("__init__.py"):
        name = init.parent.relative_to(PACKAGE).as_posix()
        lines = [*init.read_text(encoding="utf-8").split('"""'), "", ""][1].strip().splitlines()
        if name != "." and not 3 <= len(lines) <= 8:
            bad[name] = len(lines)
    assert bad == {}


def test_every_introduction_says_what_comes_in_what_goes_out_and_where_to_start() -> None:
    lacking = {}
    for init in PACKAGE.rglob("__init__.py"):
        if init.parent == PACKAGE:
            continue  # for users, not for readers of the code
        text = " ".join([*init.read_text(encoding="utf-8").split('"""'), "", ""][1].split())
        missing = [word for word in ("In:", "Out:", "Start with") if not re.search(rf"\b{word}", text, re.IGNORECASE)]
        if missing:
            lacking[init.parent.relative_to(PACKAGE).as_posix()] = missing
    assert lacking == {}


def test_every_module_that_an_introduction_names_exists() -> None:
    """As `cache.py` in the folder itself or above it, or as `tests/backends/toy_backend.py`."""
    missing = [
        (init.parent.relative_to(PACKAGE).as_posix(), name)
        for init in PACKAGE.rglob("__init__.py")
        for name in re.findall(r"`([a-z_0-9/]+\.py)`", init.read_text(encoding="utf-8"))
        if not any((root / name).exists() for root in (init.parent, init.parent.parent, PACKAGE, PROJECT))
    ]
    assert missing == []


def test_no_folder_is_crowded() -> None:
    """About a dozen modules a folder. The commands are equals, so their folder may hold more."""
    crowded = {}
    for init in PACKAGE.rglob("__init__.py"):
        count = sum(path.suffix == ".py" for path in init.parent.iterdir()) - 1
        if count > 12 and init.parent.name != "commands":
            crowded[init.parent.relative_to(PACKAGE).as_posix()] = count
    assert crowded == {}
