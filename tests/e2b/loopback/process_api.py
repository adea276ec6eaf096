"""The calls of `process.Process`: streams of what a process does, and what is sent to it."""

from __future__ import annotations

import base64
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from loopback.exchange import Exchange, Refused
from loopback.faults import ConnectionLost, Faults
from loopback.processes import End, Listener, Output, Process, Vanished
from loopback.sandbox import Sandbox

_SIGNALS = {"SIGNAL_SIGTERM": signal.SIGTERM, "SIGNAL_SIGKILL": signal.SIGKILL}


# --- streams -----------------------------------------------------------------------------------------------------


def start(sandbox: Sandbox, exchange: Exchange) -> None:
    (request,) = exchange.frames()
    try:
        process, listener = sandbox.start(request["process"], request.get("tag"), request.get("stdin", True))
    except OSError as problem:
        exchange.begin_stream()
        exchange.end_stream(Refused(400, f"error starting process: {problem}", "invalid_argument"))
        return
    deadline = exchange.headers.get("Connect-Timeout-Ms")
    if deadline is not None:  # the deadline of the call is the process's own
        _end_after(process, int(deadline) / 1000)
    _stream(sandbox, exchange, process, listener)


def connect(sandbox: Sandbox, exchange: Exchange) -> None:
    (request,) = exchange.frames()
    try:
        process = _process(sandbox, request["process"])
        listener = process.listen()
        if listener is None:
            raise Refused(404, f"process with pid {process.pid} has ended", "not_found")
    except Refused as refused:
        exchange.begin_stream()
        exchange.end_stream(refused)
        return
    _stream(sandbox, exchange, process, listener)


def _end_after(process: Process, seconds: float) -> None:
    timer = threading.Timer(seconds, process.signal, (signal.SIGKILL,))
    timer.daemon = True
    timer.start()


def _stream(sandbox: Sandbox, exchange: Exchange, process: Process, listener: Listener) -> None:
    faults = sandbox.faults
    budget = faults.drop_streams_after.pop(0) if faults.drop_streams_after else None
    idle = float(exchange.headers.get("Keepalive-Ping-Interval", 90))
    try:
        exchange.begin_stream()
        exchange.frame(_told({"start": {"pid": process.pid}}))
        while True:
            match listener.get(idle):
                case None:
                    exchange.frame(_told({"keepalive": {}}))
                case Output(name, data):
                    budget = _send_output(exchange, faults, name, data, budget)
                case End(status):
                    exchange.frame(_told({"end": _end(status)}))
                    exchange.end_stream()
                    return
                case Vanished():
                    raise ConnectionLost
    finally:
        listener.leave()


def _send_output(exchange: Exchange, faults: Faults, name: str, data: bytes, budget: int | None) -> int | None:
    """Cut into small frames; the connection is lost in the middle of one where the budget ends."""
    position = 0
    while position < len(data):
        piece = data[position : position + faults.chunk]
        if budget is not None:
            piece = piece[:budget]
            budget -= len(piece)
        if faults.frame_delay:
            time.sleep(faults.frame_delay)
        if piece:
            exchange.frame(_told({"data": {name: base64.b64encode(piece).decode()}}))
        if budget == 0:
            raise ConnectionLost
        position += len(piece)
    return budget


def _told(event: dict[str, Any]) -> dict[str, Any]:
    return {"event": event}


def _end(status: int) -> dict[str, Any]:
    if status >= 0:
        return {"exitCode": status, "exited": True, "status": f"exit status {status}"}
    name = f"signal: {signal.strsignal(-status)}".lower()
    return {"exitCode": -1, "exited": False, "status": name, "error": name}


# --- what is sent to a process -----------------------------------------------------------------------------------


def stream_input(sandbox: Sandbox, exchange: Exchange) -> None:
    process: Process | None = None
    try:
        for message in exchange.frames():
            if "start" in message:
                process = _process(sandbox, message["start"]["process"])
            elif "data" in message and process is not None:
                _write(process, message["data"]["input"])
    except Refused as refused:
        exchange.begin_stream()
        exchange.end_stream(refused)
        return
    exchange.begin_stream()
    exchange.frame({})
    exchange.end_stream()


def list_processes(sandbox: Sandbox, request: dict[str, Any]) -> dict[str, Any]:
    found = []
    for process in list(sandbox.processes.values()):
        facts = {"config": process.config, "pid": process.pid}
        found.append(facts if process.tag is None else {**facts, "tag": process.tag})
    return {"processes": found}


def send_input(sandbox: Sandbox, request: dict[str, Any]) -> dict[str, Any]:
    _write(_process(sandbox, request["process"]), request["input"])
    return {}


def close_stdin(sandbox: Sandbox, request: dict[str, Any]) -> dict[str, Any]:
    _process(sandbox, request["process"]).close_stdin()
    return {}


def send_signal(sandbox: Sandbox, request: dict[str, Any]) -> dict[str, Any]:
    _process(sandbox, request["process"]).signal(_SIGNALS[request["signal"]])
    return {}


def _write(process: Process, given: dict[str, Any]) -> None:
    try:
        process.write(base64.b64decode(given["stdin"]))
    except (BrokenPipeError, ValueError) as problem:
        raise Refused(500, f"error writing to stdin: {problem}", "internal") from None


def _process(sandbox: Sandbox, selector: dict[str, Any]) -> Process:
    for process in list(sandbox.processes.values()):
        if process.pid == selector.get("pid") or (process.tag is not None and process.tag == selector.get("tag")):
            return process
    raise Refused(404, f"process with {selector} not found", "not_found")


STREAMS: dict[str, Callable[[Sandbox, Exchange], None]] = {
    "Start": start,
    "Connect": connect,
    "StreamInput": stream_input,
}

CALLS: dict[str, Callable[[Sandbox, dict[str, Any]], dict[str, Any]]] = {
    "List": list_processes,
    "SendInput": send_input,
    "CloseStdin": close_stdin,
    "SendSignal": send_signal,
}
