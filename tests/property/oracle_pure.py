"""What every step of the property tests computes: a pure function of its code's version and of what it was given.

This file is also copied into the generated projects, so that real worker processes compute the same. Standard library
only, and no knowledge of Whyrun.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

WORDS = ("asia", "b", "c-1", "7")  # every text index that a generated loop can have
LENGTH = 6  # longer than any generated numeric loop reaches


def normal(value: Any) -> Any:
    """What was given, as plain JSON: a file counts by its text and suffix, under whatever name it came."""
    if isinstance(value, Path):
        return {"file": value.read_text(encoding="utf-8"), "suffix": value.suffix}
    if isinstance(value, dict):
        return {key: normal(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [normal(member) for member in value]
    return value


def produce(version: int, modulus: int, given: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """{output: value}. Small moduli make different inputs come out identical now and then."""
    text = json.dumps([version, normal(given)], sort_keys=True)
    if "FAIL" in text:
        raise ValueError("this content is made to fail")
    seed = int(hashlib.sha256(text.encode()).hexdigest(), 16) % modulus
    makers: dict[str, Callable[[int], Any]] = {"Text": _text, "Doc": _doc, "Word": _word, "Count": _count, "On": _on}
    return {name: makers[name](seed) for name in names}


def _bits(seed: int, what: str) -> int:
    return int(hashlib.sha256(f"{what}/{seed}".encode()).hexdigest(), 16)


def _text(seed: int) -> str:
    return f"text {_bits(seed, 'text') % 10**12}\n"


def _word(seed: int) -> str:
    return f"w{_bits(seed, 'word') % 1000}"


def _count(seed: int) -> int:
    return _bits(seed, "count") % 4


def _on(seed: int) -> bool:
    return bool(_bits(seed, "on") & 1)


def _doc(seed: int) -> dict[str, Any]:
    def part(key: str | int) -> dict[str, Any]:
        return {"On": bool(_bits(seed, f"doc/{key}") & 1), "N": _bits(seed, f"n/{key}") % 3}

    return {
        "Top": bool(_bits(seed, "top") & 1),
        "Nums": [part(i) for i in range(LENGTH)],
        "Keys": {word: part(word) for word in WORDS},
    }
