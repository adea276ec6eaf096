"""Malformed plans and manifests, made by changing good ones: none crashes, none runs, each gets a code."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from composition_lab import GOOD, MANIFEST, plans

from whyrun import api
from whyrun.errors import CODES, InvalidError

JUNK: list[Any] = [None, True, -1, 0.5, "", "x y", "${{ inputs.main }}", "../..", [], [[]], {}, {"op": "lt"}, [None]]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        return [*found, *(p for key, member in value.items() for p in places(member, (*path, key)))]
    if isinstance(value, list):
        return [*found, *(p for at, member in enumerate(value) for p in places(member, (*path, at)))]
    return found


def mutated(text: str, chance: random.Random) -> str:
    """The text with one thing in it lost, replaced, doubled or misspelt; or cut off."""
    how = chance.choice(["drop", "junk", "junk", "copy", "spell", "cut", "noise"])
    if how == "cut":
        return text[: chance.randrange(1, len(text.rstrip()))]
    if how == "noise":
        at = chance.randrange(len(text))
        return text[:at] + chance.choice('{}[],:"\\x\u2028\0') + text[at + 1 :]
    root = json.loads(text)
    path = chance.choice(places(root))
    holder = root
    for part in path[:-1]:
        holder = holder[part]
    if how == "drop":
        del holder[path[-1]]
    elif how == "junk":
        holder[path[-1]] = chance.choice(JUNK)
    elif how == "spell":
        if isinstance(path[-1], str):
            holder[f"{path[-1]}s"] = holder.pop(path[-1])
        elif isinstance(holder[path[-1]], str):
            holder[path[-1]] += "x"
    elif isinstance(holder, list):
        holder.append(holder[path[-1]])
    else:
        holder[path[-1]] = [holder[path[-1]]]
    return json.dumps(root, indent=1)


@pytest.mark.parametrize("seed", range(4))
def test_a_hundred_malformed_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    project = plans(tmp_path)
    monkeypatch.chdir(project)
    chance = random.Random(seed)
    codes: set[str] = set()
    refused = taken = 0
    while refused < 40:
        mode = chance.choice(GOOD)
        plan, manifest = Path(f"{mode}.json").read_text(), Path(MANIFEST).read_text()
        if chance.random() < 0.25:
            manifest = mutated(manifest, chance)
        else:
            for _ in range(chance.choice([1, 1, 1, 2, 4])):
                plan = mutated(plan, chance)
                if not is_json(plan):
                    break
        Path("bad.json").write_text(plan)
        Path("inputs/bad.json").write_text(manifest)
        problems = api.validate("bad.json", manifest="inputs/bad.json")
        if not problems:
            # What was changed may not matter; but what is taken for valid can be run, to whichever end.
            taken += 1
            if taken <= 4:
                done = api.run("bad.json", manifest="inputs/bad.json", state=tmp_path / f"state{taken}")
                assert done.exit_code in (0, 1)
            continue
        refused += 1
        codes |= {problem.code for problem in problems}
        assert all(problem.message and problem.file for problem in problems)
        assert json.dumps([problem.to_json() for problem in problems])
        with pytest.raises(InvalidError):
            api.run("bad.json", manifest="inputs/bad.json")
    assert codes <= CODES.keys()
    assert len(codes) > 8
    assert not (project / ".whyrun").exists()


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
