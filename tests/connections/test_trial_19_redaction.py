"""Issue 17, number 19: the forms in which secrets reached files."""

from __future__ import annotations

import html
import json
import os
import textwrap
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyrun.connections.redact import NOTHING_SECRET, Redactor
from whyrun.execution.worker.streams import Redaction

BODY = [f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{n:02}/+{'Kx' * 14}" for n in range(26)]
KEY = "\n".join(["-----BEGIN PRIVATE KEY-----", *BODY, "abC=", "-----END PRIVATE KEY-----"]) + "\n"
ACCOUNT = json.dumps({"type": "service_account", "private_key": KEY, "id": "a<b> & \"c\" 'd'"}, indent=2)
MARKUP = 'p<a>ss & "word" isn\'t'


def leaks(told: str, secret: str) -> list[str]:
    """The lines of a secret that can still be read, whole, in what was told."""
    lines = [line.strip() for line in secret.splitlines()]
    return [line for line in lines if len(line) >= 8 and "PRIVATE KEY" not in line and line in told]


@pytest.mark.parametrize("secret", [KEY, KEY.replace("\n", "\r\n"), ACCOUNT], ids=["lf", "crlf", "json"])
@pytest.mark.parametrize(
    "spell",
    [
        str,
        lambda value: value.replace("\r\n", "\n"),
        lambda value: value.replace("\r\n", "\n").replace("\n", "\r\n"),
        lambda value: textwrap.indent(value, "      "),
        lambda value: textwrap.indent(value, "\t| "),
        html.escape,
        json.dumps,
        repr,
        quote,
        lambda value: "\n".join(f"2026-11-19 INFO {line}" for line in value.splitlines()),
        lambda value: value.splitlines()[2],
        lambda value: f"the line is '{value.splitlines()[3].strip()}'",
    ],
    ids=["plain", "lf", "crlf", "indented", "barred", "html", "json", "repr", "url", "prefixed", "a line", "within"],
)
def test_secrets_of_several_lines_are_found_in_every_form(secret: str, spell: object) -> None:
    told = f"before {spell(secret)} after"  # type: ignore[operator]
    redactor = Redactor({"KEY": secret})
    masked = redactor.text(told)
    assert leaks(masked, secret) == []
    assert BODY[3] not in masked.replace("%2F", "/").replace("%2B", "+")
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert redactor.data(told.encode()) == masked.encode()
    assert redactor.found_in(told.encode())


def test_what_is_too_short_is_left() -> None:
    redactor = Redactor({"A": "  ab ", "B": "a\nb\n", "C": "abc"})
    assert redactor.text("ab a\nb abc") == "ab a\nb abc"
    assert redactor.text("<  ab ><a\nb\n>") == "<***><***>"


@pytest.mark.parametrize("indent", ["", "    "])
def test_the_short_lines_of_a_key_go_with_it(indent: str) -> None:
    told = textwrap.indent(KEY, indent).replace("\n", "\r\n")
    assert Redactor({"KEY": KEY}).text(f"<{told}>") == f"<{indent}***\r\n>"


def test_what_every_key_has_is_no_secret() -> None:
    redactor = Redactor({"KEY": KEY, "ACCOUNT": ACCOUNT})
    harmless = b"-----BEGIN PRIVATE KEY-----\n}\n{\nabC=\n"
    assert redactor.data(harmless) == harmless
    assert not redactor.found_in(harmless)


@pytest.mark.parametrize(
    "spelling",
    [
        MARKUP,
        html.escape(MARKUP),
        html.escape(MARKUP, quote=False),
        "p&lt;a&gt;ss &amp; &#34;word&#34; isn&#39;t",
        "p&lt;a&gt;ss &amp; &quot;word&quot; isn&apos;t",
    ],
)
def test_secrets_are_found_in_html_and_xml(spelling: str) -> None:
    assert Redactor({"A": MARKUP}).text(f'<b title="{spelling}">') == '<b title="***">'


@pytest.mark.parametrize(
    "spelling",
    [
        "p%40ss!%2F(~)*%3Ca%3E%20%26",  # encodeURIComponent
        "p%40ss!%2f(~)*%3ca%3e%20%26",  # and with small digits
        "p@ss!/(~)*%3Ca%3E%20&",  # encodeURI
        "p%40ss%21%2F%28%7E%29*%3Ca%3E+%26",  # URLSearchParams, java.net.URLEncoder
        "p%40ss%21%2F%28~%29%2A%3Ca%3E+%26",  # Python's quote_plus, Go's QueryEscape
        "p@ss%21%2F%28~%29%2A%3Ca%3E%20&",  # Go's PathEscape
        r"p@ss!/(~)*\u003ca\u003e \u0026",  # Go's JSON
        r"p@ss!\/(~)*<a> &",  # PHP's JSON
    ],
)
def test_secrets_are_found_in_urls_and_json_of_other_languages(spelling: str) -> None:
    assert Redactor({"A": "p@ss!/(~)*<a> &"}).text(f"x={spelling}.") == "x=***."


SECRETS = {"A": "hunter2!", "C": "hunter2!-and-more", "LINES": "first line\n  b\nthird line"}
PARTS = st.lists(
    st.sampled_from(
        ["hunter2!", "hunter2!-and-more", "first line", "\n", "\r\n", "b", "  ", "third line", "hunt", "x"]
    ),
    max_size=14,
)


@given(PARTS, st.lists(st.integers(1, 9), max_size=60))
@settings(max_examples=200)
def test_a_stream_is_redacted_whatever_its_pieces_are(parts: list[str], sizes: list[int]) -> None:
    data = "".join(parts).encode()
    redactor = Redactor(SECRETS)
    written, waiting, position = b"", b"", 0
    for size in [*sizes, len(data)]:
        waiting += data[position : position + size]
        position += size
        ready = redactor.ready(waiting)
        written, waiting = written + redactor.data(waiting[:ready]), waiting[ready:]
    assert written + redactor.data(waiting) == redactor.data(data)


def test_a_stream_waits_only_for_what_may_become_a_secret() -> None:
    redactor = Redactor(SECRETS)
    assert [redactor.ready(piece) for piece in (b"done\n", b"say hun", b"hunter2! ", b"x" * 1000)] == [5, 4, 9, 1000]
    assert NOTHING_SECRET.ready(b"anything") == 8


def test_what_is_printed_without_end_does_not_hold_the_worker(tmp_path: Path) -> None:
    """A process that the step left running prints as fast as the worker reads."""

    pieces: list[bytes] = []

    class Endless(Redactor):
        def ready(self, piece: bytes) -> int:
            pieces.append(piece)
            assert len(pieces) < 9, "the worker goes on reading"
            os.write(redaction.ends[1], b"more\n")
            return super().ready(piece)

    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        redaction = Redaction([out.fileno(), err.fileno()], Endless({"A": "hunter2!"}))
        os.write(redaction.ends[1], b"first hunter2!\nhun")
        assert redaction.held_back() == b"hun"
        assert (tmp_path / "err").read_bytes() == b"first ***\n"
        redaction.finish()
    assert (tmp_path / "err").read_bytes() == b"first ***\nhunmore\n"
