"""The inspector process: `python -m whyrun.actions.inspection.inspector_main FD PROJECT`.

It imports actions and answers requests about them. Apart from workers, it is the only process that runs the user's
code. Requests and replies are lines of JSON on a socket of its own, so that whatever imported code prints cannot be
mistaken for a reply.
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
from msgspec.structs import replace

from whyrun.actions.code.action_import import import_target, prepare_instance
from whyrun.actions.code.source_loader import Version, import_project_from_source, take_recorded_reads
from whyrun.actions.inspection.messages import Reply, Request, decode_value

_PR_SET_PDEATHSIG = 1
IDLE = 10.0  # seconds without a request after which the process ends
_SHOWN = 300  # characters of an error message


def main(descriptor: str, project: str) -> None:
    _end_with_parent()
    channel = socket.socket(fileno=int(descriptor))
    os.set_inheritable(channel.fileno(), False)
    os.environ.pop("PYTHONPATH", None)  # it led here, but actions must not see it
    sys.argv = ["whyrun-inspector"]
    import_project_from_source(project)
    sys.path.insert(0, project)
    decode = msgspec.json.Decoder(Request).decode
    loaded: dict[str, Version | None] = {}
    with channel.makefile("rb") as requests:
        # The host sends one request at a time, so the buffer never holds another one. An idle process ends and frees
        # the memory of everything it imported; a later request starts a new one.
        while select.select([channel], [], [], IDLE)[0] and (line := requests.readline()):
            reply = _reply(decode(line), Path(project))
            loaded |= take_recorded_reads(project)
            channel.sendall(msgspec.json.encode(replace(reply, loaded=loaded)) + b"\n")
    os._exit(0)  # do not wait for threads and exit handlers of imported code


def _end_with_parent() -> None:
    """Die when the host is killed, even during an import that hangs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _reply(request: Request, project: Path) -> Reply:
    try:
        target = import_target(request.origin, request.path, request.attribute, project)
        reply: Reply = _HANDLERS[request.ask](request, target)
        return reply
    except BaseException as problem:  # imported code may raise anything, also SystemExit: report it
        return Reply(error=_error_text(problem, str(project)))


def _describe(request: Request, target: Any) -> Reply:
    from whyrun.actions.description import describe

    return Reply(description=describe(target))


def _check(request: Request, target: Any) -> Reply:
    """Check each block against `Params`."""
    from whyrun.actions.description import params_of
    from whyrun.actions.parameters import check_values

    params, what = params_of(target), f"the action `{request.uses}`"
    return Reply(problems=[check_values(params, decode_value(block.given), what) for block in request.blocks])


def _call(request: Request, target: Any) -> Reply:
    """Call an optional method for each block. If it raises or returns an invalid value, that block gets the error."""
    values: list[Any] = []
    for block in request.blocks:
        try:
            instance, inputs = prepare_instance(
                request.uses,
                target,
                decode_value(block.given),
                partial=bool(block.missing),
                files_exist=request.ask not in _CALLED_BEFORE_THE_RUN,
            )
            method = getattr(instance, request.ask)
            value = method(block.file, inputs) if block.file is not None else method(inputs)
            values.append({"value": _RESULT_CHECKS[request.ask](value)})
        except Exception as problem:
            values.append({"error": _error_text(problem, "")})
    return Reply(values=values)


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{value!r} is not a duration in seconds")
    return seconds


def _cost(value: Any) -> dict[str, str] | None:
    from whyrun.money import Cost

    if value is None:
        return None
    return (value if isinstance(value, Cost) else Cost(value)).to_json()


def _paths(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): os.fspath(path) for name, path in value.items()}
    if isinstance(value, str):
        raise TypeError("it must return a list of paths, not one text")
    return [os.fspath(path) for path in value]


def _key(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"a key must be a text or None, not {type(value).__name__}")
    return value


_RESULT_CHECKS: Mapping[str, Any] = {
    "estimate_runtime": _seconds,
    "estimate_cost": _cost,
    "get_output_files": _paths,
    "get_output_contribution_key": _key,
    "has_existing_contribution": bool,
}
# Planning calls these before the run, when input files may not exist yet.
_CALLED_BEFORE_THE_RUN = frozenset({"get_output_files", "get_output_contribution_key"})
_HANDLERS: Mapping[str, Any] = {"describe": _describe, "check": _check, **dict.fromkeys(_RESULT_CHECKS, _call)}


def _error_text(problem: BaseException, project: str) -> str:
    """The type, the message, and the innermost line of project code in the traceback."""
    from whyrun.actions.description import InvalidAction

    if isinstance(problem, InvalidAction):
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
