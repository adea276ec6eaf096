"""The page, and all its views in one table: what is not in it is not served."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from whyrun.errors import WhyrunError, error
from whyrun.viewer import contents, jobs, questions, runs, why
from whyrun.viewer.contents import NamedContents
from whyrun.viewer.current import CurrentState, InvalidState, Params, State

# --- the HTML page ----------------------------------------------------------------------------------------------------
# the built application, inlined, with a Content-Security-Policy that allows exactly this script.


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


# --- the table of views -----------------------------------------------------------------------------------------------


Answer = dict[str, Any]


class View(NamedTuple):
    """`parameters`: the names that its address may have. `without_plan`: it answers for an invalid workflow, too.
    `slow`: it reads a long log, and other views go on meanwhile."""

    answer: Callable[[Any, Params], Answer]
    parameters: tuple[str, ...] = ()
    without_plan: bool = False
    slow: bool = False


VIEWS: dict[str, View] = {
    "graph": View(jobs.graph_view),
    "cells": View(jobs.cells_view, ("job",)),
    "instances": View(jobs.instances_view, ("job", "page", "state", "outcome", "code", "q")),
    "why": View(why.why_view, ("id", "at", "all")),
    "focus": View(jobs.focus_view, ("id",)),
    "artifacts": View(contents.artifacts_view, ("page", "job", "kind", "state", "q", "leaves")),
    "artifact": View(contents.artifact_view, ("id",)),
    "runs": View(runs.runs_view, without_plan=True),
    "run": View(runs.run_view, ("id",), without_plan=True, slow=True),
    "log": View(runs.log_view, ("run", "after", "job", "limit"), without_plan=True),
    "prints": View(runs.prints_view, ("run", "id", "stream"), without_plan=True),
    "plan": View(runs.plan_view, ("run",), without_plan=True),
    "diff": View(questions.diff_view, ("old", "new")),
    "lineage": View(questions.lineage_view, ("id",)),
    "results": View(questions.results_view, ("pattern",)),
    "datasets": View(questions.datasets_view, ("run",), without_plan=True),
    "parameters": View(questions.parameters_view, without_plan=True),
    "search": View(questions.search_view, ("q",)),
}


class Views:
    """Answers views from one state at a time."""

    def __init__(self, commands: tuple[str, ...] = ()) -> None:
        self.commands = commands
        self.named = NamedContents()
        self.what_if = questions.WhatIf()
        self._slow = threading.Lock()
        self._lock = threading.Lock()  # what a state computes when it is first needed is not made for two threads
        self._views = {
            **VIEWS,
            "state": View(self._state, without_plan=True),
            "preview": View(self._preview, ("sha256", "id")),
            "content": View(self._content, ("id", "old", "new")),
        }

    def answer(self, state: State, name: str, params: Params) -> Answer:
        if name == "whatif":
            return self._what_if(state, params)
        view = self._views.get(name)
        if view is None:
            raise error("UNKNOWN_REFERENCE", f"there is no view `{name}`", hint="the page asks only for views it knows")
        _check(params, view.parameters)
        if isinstance(state, InvalidState) and not view.without_plan:
            raise WhyrunError(state.problems)
        with self._slow if view.slow else self._lock:
            return view.answer(state, params)

    def reasons(self, state: CurrentState, nodes: Sequence[int], *, brief: bool) -> list[Answer]:
        """For a report: why many jobs are or are not in the plan."""
        return why.reasons_of(state, nodes, brief=brief)

    def _state(self, state: State, params: Params) -> Answer:
        return {**jobs.state_view(state, params), "commands": list(self.commands)}

    def _preview(self, state: CurrentState, params: Params) -> Answer:
        return contents.preview_view(state, params, self.named)

    def _content(self, state: CurrentState, params: Params) -> Answer:
        return questions.content_view(state, params, self.named)

    def _what_if(self, state: State, params: Params) -> Answer:
        """Outside of the lock: a large plan takes seconds, and other views go on meanwhile."""
        _check(params, ("assume", "force", "target", "up"))
        if isinstance(state, InvalidState):
            raise WhyrunError(state.problems)
        return self.what_if.answer(state, params)


def _check(params: Params, known: tuple[str, ...]) -> None:
    for name in params.names():
        if name not in known:
            hint = f"it takes {', '.join(f'`{one}`' for one in known)}" if known else "it takes none"
            raise error("USAGE", f"this view has no parameter `{name[:40]}`", hint=hint)
