"""Files by HTTP, `/files?path=`, and the calls of `filesystem.Filesystem`."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loopback.exchange import Exchange, Refused
from loopback.sandbox import Sandbox

_MULTIPART = re.compile(r'multipart/form-data;.*boundary="?([^";]+)"?')
_FILE_NAME = re.compile(rb'filename="([^"]*)"')


def download(sandbox: Sandbox, exchange: Exchange) -> None:
    path = sandbox.real(exchange.query["path"])
    if path.is_dir():
        raise Refused(400, f"path '{path}' is a directory")
    try:
        with open(path, "rb") as file:
            exchange.file(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        raise Refused(404, f"path '{exchange.query['path']}' does not exist") from None


def upload(sandbox: Sandbox, exchange: Exchange) -> None:
    multipart = _MULTIPART.match(exchange.headers.get("Content-Type", ""))
    if multipart is None:
        written = [_write(sandbox, exchange.query["path"], exchange.pieces())]
    else:
        written = [
            _write(sandbox, exchange.query.get("path", name), [content])
            for name, content in _parts(exchange.body(), multipart[1].encode())
        ]
    exchange.answer(written)


def _parts(body: bytes, boundary: bytes) -> Iterator[tuple[str, bytes]]:
    for part in body.split(b"--" + boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name = _FILE_NAME.search(head)
        if name is None:
            raise Refused(400, "a part without a file name")
        yield name[1].decode(), content.removesuffix(b"\r\n")


def _write(sandbox: Sandbox, name: str, pieces: Any) -> dict[str, Any]:
    path = sandbox.real(name)
    if path.is_dir():
        raise Refused(400, f"path '{name}' is a directory")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        for piece in pieces:
            file.write(piece)
    return {"name": path.name, "type": "file", "path": str(path)}


# --- filesystem.Filesystem ---------------------------------------------------------------------------------------


def stat_path(sandbox: Sandbox, request: dict[str, Any]) -> dict[str, Any]:
    return {"entry": _entry(_existing(sandbox, request["path"]))}


def make_dir(sandbox: Sandbox, request: dict[str, Any]) -> dict[str, Any]:
    path = sandbox.real(request["path"])
    if path.is_dir():
        raise Refused(409, f"directory already exists: {request['path']}", "already_exists")
    path.mkdir(parents=True)
    return {"entry": _entry(path)}


def move(sandbox: Sandbox, request: dict[str, Any]) -> dict[str, Any]:
    target = sandbox.real(request["destination"])
    target.parent.mkdir(parents=True, exist_ok=True)
    os.rename(_existing(sandbox, request["source"]), target)
    return {"entry": _entry(target)}


def remove(sandbox: Sandbox, request: dict[str, Any]) -> dict[str, Any]:
    path = sandbox.real(request["path"])
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return {}


def list_dir(sandbox: Sandbox, request: dict[str, Any]) -> dict[str, Any]:
    folder = _existing(sandbox, request["path"])
    if not folder.is_dir():
        raise Refused(400, f"path is not a directory: {request['path']}", "invalid_argument")
    return {"entries": [_entry(path) for path in _below(folder, request.get("depth") or 1)]}


def _below(folder: Path, depth: int) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        yield path
        if depth > 1 and path.is_dir() and not path.is_symlink():
            yield from _below(path, depth - 1)


def _existing(sandbox: Sandbox, name: str) -> Path:
    path = sandbox.real(name)
    if not os.path.lexists(path):
        raise Refused(404, f"path not found: {name}", "not_found")
    return path


def _entry(path: Path) -> dict[str, Any]:
    facts = path.lstat()
    link = stat.S_ISLNK(facts.st_mode)
    entry = {
        "name": path.name,
        "type": "FILE_TYPE_DIRECTORY" if path.is_dir() else "FILE_TYPE_FILE",
        "path": str(path),
        "size": str(facts.st_size),
        "mode": stat.S_IMODE(facts.st_mode),
        "permissions": stat.filemode(facts.st_mode),
        "owner": "user",
        "group": "user",
        "modifiedTime": datetime.fromtimestamp(facts.st_mtime, UTC).isoformat().replace("+00:00", "Z"),
        "isSymlink": link,
    }
    if link:
        entry["symlinkTarget"] = os.readlink(path)
    return entry


CALLS: dict[str, Callable[[Sandbox, dict[str, Any]], dict[str, Any]]] = {
    "Stat": stat_path,
    "MakeDir": make_dir,
    "Move": move,
    "Remove": remove,
    "ListDir": list_dir,
}
