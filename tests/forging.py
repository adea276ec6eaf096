"""Forge a log: change events and recompute the chain, as a person who may write the files can."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def forge(log: Path, old: str, new: str) -> None:
    """Replace a text in every line."""
    _rechain(log, [_body(line).replace(old.encode(), new.encode()) for line in log.read_bytes().splitlines()])


def forge_events(log: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Change, remove or rearrange events; they are numbered anew."""
    events = change([json.loads(line) for line in log.read_bytes().splitlines()])
    for number, event in enumerate(events, 1):
        event.pop("chain")
        event["seq"] = number
    _rechain(log, [json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()[:-1] for event in events])


def _body(line: bytes) -> bytes:
    return line[: line.rindex(b',"chain":"')]


def _rechain(log: Path, bodies: list[bytes]) -> None:
    chain = json.loads(log.read_bytes().splitlines()[0])["previous_chain"]
    forged = []
    for body in bodies:
        chain = hashlib.sha256(chain.encode() + body).hexdigest()
        forged.append(b'%b,"chain":"%b"}\n' % (body, chain.encode()))
    log.write_bytes(b"".join(forged))
