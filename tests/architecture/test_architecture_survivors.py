"""What `make mutation` may pass over: only mutants that there are, each with its reason."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
MUTATION = ROOT / "tests" / "mutation"


def test_every_survivor_that_is_explained_is_still_there() -> None:
    """An explanation of code that has changed since explains nothing."""
    sys.path.append(str(MUTATION))
    try:
        from mutants import mutants_of
    finally:
        sys.path.remove(str(MUTATION))
    explained = tomllib.loads((MUTATION / "survivors.toml").read_text())["survivor"]
    there: set[tuple[str, str, str, str]] = set()
    for file in {entry["file"] for entry in explained}:
        _, mutants = mutants_of((ROOT / "src" / "whyrun" / file).read_text(), file)
        there |= {(file, mutant.function, mutant.was, mutant.now) for mutant in mutants}
    known = [(entry["file"], entry["function"], entry["was"], entry["now"]) for entry in explained]
    assert [entry for entry in known if entry not in there] == []
    assert all(entry["why"].strip() for entry in explained)
