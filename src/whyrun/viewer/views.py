"""All views of the page, in one table: what is not in it is not served."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from whyrun.errors import WhyrunError, error
from whyrun.viewer import contents, jobs, why
from whyrun.viewer.contents import NamedContents
from whyrun.viewer.current import CurrentState, InvalidState, State
from whyrun.viewer.params import Params

Answer = dict[str, Any]


class View(NamedTuple):
    """`parameters`: the names that its address may have. `without_plan`: it answers for an invalid workflow, too."""

    answer: Callable[[Any, Params], Answer]
    parameters: tuple[str, ...] = ()
    without_plan: bool = False


VIEWS: dict[str, View] = {
    "state": View(jobs.state_view, (), without_plan=True),
    "graph": View(jobs.graph_view),
    "cells": View(jobs.cells_view, ("job",)),
    "instances": View(jobs.instances_view, ("job", "page", "state", "outcome", "code", "q")),
    "why": View(why.why_view, ("id", "at", "all")),
    "focus": View(jobs.focus_view, ("id",)),
    "artifacts": View(contents.artifacts_view, ("page", "job", "kind", "state", "q", "leaves")),
    "artifact": View(contents.artifact_view, ("id",)),
}


class Views:
    """Answers views from one state at a time."""

    def __init__(self, commands: tuple[str, ...] = ()) -> None:
        self.commands = commands
        self.named = NamedContents()
        self._lock = threading.Lock()  # what a state computes when it is first needed is not made for two threads

    def answer(self, state: State, name: str, params: Params) -> Answer:
        with self._lock:
            return self._answer(state, name, params)

    def _answer(self, state: State, name: str, params: Params) -> Answer:
        if name == "preview":
            _check(params, ("sha256", "id"))
            if isinstance(state, InvalidState):
                raise WhyrunError(state.problems)
            return contents.preview_view(state, params, self.named)
        view = VIEWS.get(name)
        if view is None:
            raise error("UNKNOWN_REFERENCE", f"there is no view `{name}`", hint="the page asks only for views it knows")
        _check(params, view.parameters)
        if isinstance(state, InvalidState) and not view.without_plan:
            raise WhyrunError(state.problems)
        found = view.answer(state, params)
        return {**found, "commands": list(self.commands)} if name == "state" else found


def _check(params: Params, known: tuple[str, ...]) -> None:
    for name in params.names():
        if name not in known:
            hint = f"it takes {', '.join(f'`{one}`' for one in known)}" if known else "it takes none"
            raise error("USAGE", f"this view has no parameter `{name[:40]}`", hint=hint)


__all__ = ["VIEWS", "CurrentState", "View", "Views"]
