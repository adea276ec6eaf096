"""The HTML page: the built application, inlined, with a Content-Security-Policy that allows exactly this script."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

APP, LIVE = "app.js", "live.js"  # what `make frontend` builds
NO_SCRIPT = "This page needs JavaScript. `whyrun explain`, `whyrun why` and `whyrun show` say the same in a terminal."


@cache
def asset(name: str) -> str:
    """A built asset of the frontend."""
    return (files("whyrun.viewer") / "assets" / name).read_text(encoding="utf-8")


def script_hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def content_policy(script: str, *, live: bool) -> str:
    """What the page may load: this script, and data of its own server; in a report nothing at all from outside."""
    own = "'self' " if live else ""
    rules = {
        "default-src": "'none'",
        "script-src": f"'{script_hash(script)}'",
        "style-src": "'none'",
        "img-src": f"{own}data: blob:",
        "media-src": f"{own}data: blob:",
        "connect-src": "'self'" if live else "'none'",
        "worker-src": f"{own}blob:",
        "frame-src": f"{own}blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    if live:
        rules["frame-ancestors"] = "'none'"  # has no effect in a <meta> element
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def head(title: str, config: dict[str, Any], policy: str | None = None) -> str:
    """The page up to its data. `policy`: for a file, which has no headers."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n' if policy else ""
    return (
        "<!doctype html>\n"
        f'<html lang="en">\n<head>\n<meta charset="utf-8">\n{meta}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n</head>\n<body>\n<noscript>{escape(NO_SCRIPT)}</noscript>\n"
        f'<script type="application/json" id="whyrun-config">{json_in_html(config)}</script>\n'
    )


def tail() -> str:
    """The application, after the data that it reads."""
    return f"<script>{asset(APP)}</script>\n</body>\n</html>\n"


def live_page(title: str, config: dict[str, Any]) -> str:
    return head(title, config) + tail()


def element(id_: str, texts: Iterable[str]) -> Iterable[str]:
    """A data block of a report. Base64 cannot end it."""
    yield f'<script type="text/plain" id="{escape(id_)}">'
    yield from texts
    yield "</script>\n"


def json_in_html(value: Any) -> str:
    """JSON that cannot end its element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
