"""Forge a log: change events and recompute the chain."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def forge(log: Path, old: str, new: str) -> None:
    lines = log.read_bytes().splitlines()
    chain = json.loads(lines[0])["previous_chain"]
    forged = []
    for line in lines:
        body = line[: line.rindex(b',"chain":"')].replace(old.encode(), new.encode())
        chain = hashlib.sha256(chain.encode() + body).hexdigest()
        forged.append(b'%b,"chain":"%b"}\n' % (body, chain.encode()))
    log.write_bytes(b"".join(forged))
