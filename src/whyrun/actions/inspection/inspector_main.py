"""The asked process: `python -m whyrun.actions.answer FD PROJECT`. Imports actions and answers questions about them.

It is the only place besides workers where the user's code runs. One line of JSON in, one out, over a socket of its own;
what imported code prints goes elsewhere and cannot be taken for an answer.
"""

from __future__ import annotations

import ctypes
import math
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from whyrun.actions.from_source import import_project_from_source
from whyrun.actions.load import import_found, prepared
from whyrun.actions.questions import Answer, Question, with_paths

_PR_SET_PDEATHSIG = 1
IDLE = 10.0  # seconds
_SHOWN = 300  # characters of an error message


def main(descriptor: str, project: str) -> None:
    _end_with_parent()
    channel = socket.socket(fileno=int(descriptor))
    os.set_inheritable(channel.fileno(), False)
    os.environ.pop("PYTHONPATH", None)  # needed to get here, but nothing that an action should see
    sys.argv = ["whyrun-asked"]
    import_project_from_source(project)
    sys.path.insert(0, project)
    decode = msgspec.json.Decoder(Question).decode
    with channel.makefile("rb") as questions:
        # One question at a time, so nothing waits in the buffer. Who is not asked any more goes, with all that it has
        # imported; a later question starts another.
        while select.select([channel], [], [], IDLE)[0] and (line := questions.readline()):
            channel.sendall(msgspec.json.encode(_answer(decode(line), Path(project))) + b"\n")
    os._exit(0)  # threads and exit handlers of imported code have no say in when this ends


def _end_with_parent() -> None:
    """A host that is killed leaves nobody behind, not even one that hangs in an import."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _answer(question: Question, project: Path) -> Answer:
    try:
        target = import_found(question.origin, question.path, question.attribute, project)
        answer: Answer = _ANSWERS[question.ask](question, target)
        return answer
    except BaseException as problem:  # whatever imported code raises, exits included, is the answer
        return Answer(error=told(problem, str(project)))


def _describe(question: Question, target: Any) -> Answer:
    from whyrun.actions.describe import describe

    return Answer(description=describe(target))


def _check(question: Question, target: Any) -> Answer:
    """Each block against `Params`."""
    from whyrun.actions.describe import params_of
    from whyrun.actions.parameters import check_values

    params, what = params_of(target), f"the action `{question.uses}`"
    return Answer(problems=[check_values(params, with_paths(block.given), what) for block in question.blocks])


def _call(question: Question, target: Any) -> Answer:
    """An optional method, for each block. One that raises or answers nonsense has no answer, and says why."""
    values: list[Any] = []
    for block in question.blocks:
        try:
            given, made = with_paths(block.given), question.ask not in _BEFORE
            instance, inputs = prepared(question.uses, target, given, partial=bool(block.missing), made=made)
            method = getattr(instance, question.ask)
            value = method(block.file, inputs) if block.file is not None else method(inputs)
            values.append({"value": _CHECKED[question.ask](value)})
        except Exception as problem:
            values.append({"error": told(problem, "")})
    return Answer(values=values)


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{value!r} is no duration in seconds")
    return seconds


def _paths(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): os.fspath(path) for name, path in value.items()}
    if isinstance(value, str):
        raise TypeError("a list of paths is due, not one text")
    return [os.fspath(path) for path in value]


def _key(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"a key is a text or None, not {type(value).__name__}")
    return value


_CHECKED: Mapping[str, Any] = {
    "estimate_runtime": _seconds,
    "get_output_files": _paths,
    "get_output_contribution_key": _key,
    "has_existing_contribution": bool,
}
_BEFORE = frozenset({"get_output_files", "get_output_contribution_key"})  # asked before anything is made
_ANSWERS: Mapping[str, Any] = {"describe": _describe, "check": _check, **dict.fromkeys(_CHECKED, _call)}


def told(problem: BaseException, project: str) -> str:
    """Type, message, and the innermost line of the project that it came from."""
    from whyrun.actions.describe import DoesNotFit

    if isinstance(problem, DoesNotFit):
        return str(problem)
    text = " ".join(str(problem).split())
    message = f"{type(problem).__name__}: {text}" if text else type(problem).__name__
    if len(message) > _SHOWN:
        message = f"{message[: _SHOWN - 1]}…"
    if isinstance(problem, SyntaxError):
        return message
    frames = [
        f for f in traceback.extract_tb(problem.__traceback__) if project and f.filename.startswith(f"{project}/")
    ]
    return f"{message} ({os.path.relpath(frames[-1].filename, project)}:{frames[-1].lineno})" if frames else message


if __name__ == "__main__":
    main(*sys.argv[1:])
