"""`lazy_regex`: the same as `re.compile`, but compiled on first use."""

from __future__ import annotations

import copy
import pickle
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from whyrun.lazy_regex import lazy_regex, lazy_regexes_in


def test_it_is_used_like_a_compiled_pattern() -> None:
    word = lazy_regex(r"([a-z]+)-(\d+)", re.IGNORECASE)
    for _ in range(2):  # the second time without compiling
        found = word.fullmatch("Ab-12")
        assert found is not None
        assert found.groups() == ("Ab", "12")
    assert word.sub(r"\2", "a-1 b-2") == "1 2"
    assert (word.pattern, word.groups) == (r"([a-z]+)-(\d+)", 2)
    assert lazy_regex(rb"[0-9]+").findall(b"1 22") == [b"1", b"22"]


def test_a_wrong_pattern_is_an_error_on_first_use() -> None:
    wrong = lazy_regex("(")
    with pytest.raises(re.error, match="missing \\)"):
        wrong.match("")


def test_a_copy_is_a_compiled_pattern() -> None:
    lazy = lazy_regex("a+", re.IGNORECASE)
    assert copy.copy(lazy) == copy.deepcopy(lazy) == pickle.loads(pickle.dumps(lazy)) == re.compile("a+", re.IGNORECASE)


def test_the_patterns_of_a_library_are_lazy_if_it_is_imported_in_the_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_patterns.py").write_text("import re\nWORD = re.compile('[a-z]+')\nFIRST = WORD.match('ab')[0]\n")
    monkeypatch.syspath_prepend(tmp_path)
    real = re.compile
    try:
        with lazy_regexes_in("with_patterns"), ThreadPoolExecutor(1) as other:
            import with_patterns  # type: ignore[import-not-found]

            assert isinstance(other.submit(re.compile, "[a-z]*").result(), re.Pattern)
        assert not isinstance(with_patterns.WORD, re.Pattern)
        assert (with_patterns.FIRST, with_patterns.WORD.findall("a b")) == ("ab", ["a", "b"])
        assert re.compile is real
        with lazy_regexes_in("with_patterns"):  # nothing is imported any more
            assert re.compile is real
    finally:
        sys.modules.pop("with_patterns", None)


def test_a_library_that_cannot_be_imported_changes_nothing() -> None:
    real = re.compile
    with pytest.raises(ImportError), lazy_regexes_in("no_library"):
        import no_library  # type: ignore[import-not-found]  # noqa: F401
    assert re.compile is real
