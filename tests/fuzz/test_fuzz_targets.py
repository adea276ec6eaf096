"""The corpus is replayed, and mutations of it are tried: the same ones every time, new ones with WHYRUN_SOAK=1."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz_targets import TARGETS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CORPUS = Path(__file__).parent / "corpus"
EXAMPLES = 5000 if os.environ.get("WHYRUN_SOAK") else 150
# What formats are made of, and what has broken readers before.
PIECES = [
    *(bytes([byte]) for byte in b"\0\t\n\r\"'#$&*-.,:;<>@[]\\`{|}~ \x7f\x80\xff"),
    *("é".encode(), "\u202e".encode(), "\uff41".encode(), b"\xef\xbb\xbf", b"\\ud800", b"\\u0000", b"\r\n"),
    *(b"${{", b"}}", b"{{", b"[" * 40, b'{"a":' * 40, b"(", b")", b"&a", b"*a", b"<<: *a", b"!!str", b"---\n", b"? "),
    *(b"null", b"true", b"-1", b"9" * 30, b"1e999", b"0x", b"NaN", b"**9", b"*10**9", b"lambda:", b"__class__"),
    *(b"../", b"/", b"%s", b"r0002", b'"seq":2', b'"chain":""', b"Job:", b"[*]", b"inputs."),
]


def seeds(target: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]


@st.composite
def mutated(draw: st.DrawFn, target: str) -> bytes:
    """An entry of the corpus with some pieces put in, taken out, doubled or moved."""
    data = draw(st.sampled_from(seeds(target)))
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 40)))
        piece = draw(st.sampled_from(PIECES) | st.binary(max_size=8) | st.just(data[start:end]))
        data = data[:start] + piece + data[draw(st.sampled_from([start, end])) :]
    return data


def mutated_test(target: str) -> Callable[[], None]:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(mutated(target))
    def test(data: bytes) -> None:
        TARGETS[target](data)

    return test


@pytest.mark.parametrize(
    "entry", [f"{name}/{path.name}" for name in TARGETS for path in sorted((CORPUS / name).iterdir())]
)
def test_the_corpus_is_read_or_refused(entry: str) -> None:
    TARGETS[entry.partition("/")[0]]((CORPUS / entry).read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_like_the_corpus_is_read_or_refused(target: str) -> None:
    mutated_test(target)()


@pytest.mark.parametrize("target", TARGETS)
def test_any_bytes_are_read_or_refused(target: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None)
    @given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
    def test(data: bytes) -> None:
        TARGETS[target](data)

    test()
