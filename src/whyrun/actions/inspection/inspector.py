"""Asks the inspector process what only running code can tell about an action.

The host never imports the user's code. It starts the inspector process for the first request whose reply is not cached,
and only for workflows that use such an action. Replies that depend only on code and literals are cached in a derived
file, so that the next plan does not import, say, scikit-learn again. The file may be deleted at any time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from whyrun.actions.code.imports import project_code
from whyrun.actions.code.source_loader import version_of
from whyrun.actions.description import ActionInfo, Description
from whyrun.actions.inspection.messages import Reply, Request, WithBlock, encode_value
from whyrun.actions.problem import Problem
from whyrun.artifacts.durable import atomic_write, checked, with_checksum
from whyrun.artifacts.hashing import canonical_json, digest
from whyrun.disk import Area

if TYPE_CHECKING:
    from whyrun.actions.inspection.inspector_process import InspectorProcess

TIMEOUT = 60.0  # seconds for one request: importing a large library may take long
CACHE_SIZE = 4096  # replies in the file
_FORMAT = 2


class Inspector:
    """Inspects the actions of one project. `cache`: the derived file; None caches nothing."""

    def __init__(self, project: Path, cache: Path | None = None, timeout: float = TIMEOUT) -> None:
        self.project = Path(os.path.abspath(project))
        self._cache = cache
        self._timeout = timeout
        self._cached: dict[str, bytes] | None = None  # key → encoded reply; None: the file is not read yet
        self._unsaved: dict[str, bytes] = {}
        self._process: InspectorProcess | None = None
        self._code_digests: dict[tuple[str, str, str], str] = {}
        self._keyed_files: dict[tuple[str, str, str], frozenset[str]] = {}
        self._loads_more: set[tuple[str, str, str]] = set()  # actions that import project files that no key covers

    def describe(self, info: ActionInfo) -> Description | str:
        """What the action declares, or why it cannot be used."""
        reply = self._cached_reply(_request("describe", info))
        if reply.error is not None or reply.description is None:
            return reply.error or "it did not answer"
        return reply.description

    def check(self, info: ActionInfo, given: Mapping[str, Any]) -> list[Problem]:
        (problems,) = self.check_all(info, [given])
        return problems

    def check_all(self, info: ActionInfo, given: Sequence[Mapping[str, Any]]) -> list[list[Problem]]:
        """Check many `with:` blocks against `Params`; see `check_values`."""
        blocks = [WithBlock({name: encode_value(value) for name, value in entries.items()}) for entries in given]
        reply = self._cached_reply(_request("check", info, blocks))
        if reply.error is not None:
            message = f"the action `{info.name}` cannot check its parameters: {reply.error}"
            return [[Problem(None, message, "`whyrun actions` shows whether it can be used")]] * len(given)
        return reply.problems

    def is_known_valid(self, info: ActionInfo, blocks: str) -> bool:
        """Whether an earlier check of these blocks (`blocks` is their digest) found no problem."""
        return self._valid_key(info, blocks) in self._replies()

    def remember_valid(self, info: ActionInfo, blocks: str) -> None:
        if _source(info) in self._loads_more:
            return  # the key does not cover all of its code
        key = self._valid_key(info, blocks)
        self._replies()[key] = self._unsaved[key] = b""

    def _valid_key(self, info: ActionInfo, blocks: str) -> str:
        code = self._machine if info.origin == "builtin" else self._code_digest(_request("check", info))
        return digest("fits/v1", info.name, code, blocks)

    def call(
        self,
        info: ActionInfo,
        method: str,
        blocks: Sequence[WithBlock],
        *,
        timeout: float | None = None,
        keep: bool = False,
    ) -> list[dict[str, Any]]:
        """Call an optional method for each block. Each result is `{"value": …}` or `{"error": why}`.

        `keep`: cache the results. The method must read no files except those in its block.
        """
        request = _request(method, info, blocks)
        files = list(dict.fromkeys(_paths_in([block.given for block in blocks]))) if keep else []
        # The metadata of a folder do not show changes of the files in it, so such a reply is not cached.
        if keep and not any(map(os.path.isdir, files)):
            reply = self._cached_reply(request, [_file_version(path) for path in files])
        else:
            reply = self._send(request, self._timeout if timeout is None else timeout)
        return [{"error": reply.error}] * len(blocks) if reply.error is not None else reply.values

    def save(self) -> None:
        """Write new replies to the cache file, if there is a state folder. A failed write only costs time later."""
        if not self._unsaved or self._cache is None or not self._cache.parent.is_dir():
            return
        entries = list({**(self._cached or {}), **self._unsaved}.items())[-CACHE_SIZE:]
        try:
            atomic_write(self._cache, with_checksum(msgspec.msgpack.encode((_FORMAT, dict(entries)))), Area.INDEX)
        except OSError:
            return  # no permission, or a read-only or full disk
        self._cached, self._unsaved = dict(entries), {}

    def close(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    # --- requests ------------------------------------------------------------------------------------------------

    def _cached_reply(self, request: Request, files: Sequence[Sequence[int]] = ()) -> Reply:
        """`files`: the versions of the files in the request; the reply may depend on their content."""
        key = digest("asked/v2", msgspec.json.encode(request), self._code_digest(request), canonical_json(files))
        cached = self._replies().get(key)
        if cached is not None:
            reply = msgspec.msgpack.decode(cached, type=Reply)
            if all(version_of(f"{self.project}/{path}") == version for path, version in reply.loaded.items()):
                return self._noted(request, reply)
        reply = self._send(request, self._timeout)
        # What the key covers already need not be looked at again.
        keyed = self._keyed_files[_source(request)]
        reply = replace(reply, loaded={path: at for path, at in reply.loaded.items() if path not in keyed})
        encoded = msgspec.msgpack.encode(reply)
        self._replies()[key] = encoded
        failed = reply.error is not None or any("error" in value for value in reply.values)
        # Do not save a failure: it may succeed when the machine is less busy. Nor what a file gave that changed.
        if not failed and None not in reply.loaded.values():
            self._unsaved[key] = encoded
        return self._noted(request, reply)

    def _noted(self, request: Request, reply: Reply) -> Reply:
        if reply.loaded:
            self._loads_more.add(_source(request))
        return reply

    def _send(self, request: Request, timeout: float) -> Reply:
        from whyrun.actions.inspection.inspector_process import InspectorProcess

        for _ in range(2):  # an idle process may end just when the request arrives
            if self._process is None or self._process.has_ended():
                self.close()
                self._process = InspectorProcess(self.project)
            reply = self._process.send(request, timeout)
            if reply is not None:
                return reply
            ended = self._process.end()
            self._process = None
            if not ended.idle:
                break
        return Reply(error=ended.why)

    def _replies(self) -> dict[str, bytes]:
        if self._cached is None:
            self._cached = _load(self._cache) if self._cache is not None else {}
        return self._cached

    # --- cache keys ----------------------------------------------------------------------------------------------

    def _code_digest(self, request: Request) -> str:
        """A digest of the code that the reply depends on: the action, Python, and the packages, whyrun included."""
        source = _source(request)
        if source not in self._code_digests:
            if request.origin == "project":
                code = project_code(self.project, self.project / request.path, imported=False)
                facts: Any = [*code.digests, *code.problems]
                self._keyed_files[source] = frozenset(name for name, _ in code.digests)
            else:
                self._keyed_files[source] = frozenset()
                facts = _package_files(request.path.partition(":")[0].partition(".")[0])
            self._code_digests[source] = digest("asked-code/v1", canonical_json(facts), self._machine)
        return self._code_digests[source]

    @cached_property
    def _machine(self) -> str:
        # Installing a package changes the times of the folder.
        folders = [[entry, _file_version(entry)] for entry in sys.path if entry.endswith("-packages")]
        return digest("machine/v1", canonical_json([sys.version, sys.executable, folders, _package_files("whyrun")]))


def _source(action: ActionInfo | Request) -> tuple[str, str, str]:
    return action.origin, action.path or "", action.attribute or ""


def _request(ask: str, info: ActionInfo, blocks: Sequence[WithBlock] = ()) -> Request:
    assert info.path is not None
    return Request(ask, info.name, info.origin, info.path, info.attribute or "", list(blocks))


def _load(cache: Path) -> dict[str, bytes]:
    """The cached replies; none if the file is missing, damaged or of another version."""
    try:
        version, entries = msgspec.msgpack.decode(checked(cache.read_bytes()), type=tuple[int, dict[str, bytes]])
    except (OSError, ValueError, msgspec.MsgspecError):
        return {}
    return entries if version == _FORMAT else {}


def _package_files(name: str) -> list[list[Any]]:
    """The source files of an installed package with their versions. An editable package changes without a release."""
    from importlib.util import find_spec

    spec = find_spec(name)  # imports nothing for a top-level name
    if spec is None:
        return []
    files = [spec.origin] if spec.origin else []
    for root in spec.submodule_search_locations or ():
        files += [
            os.path.join(parent, file) for parent, _, names in os.walk(root) for file in names if file[-3:] == ".py"
        ]
    return [[file, _file_version(file)] for file in sorted(set(files))]


def _paths_in(value: Any) -> Iterator[str]:
    """The files and folders in encoded blocks (see `encode_value`)."""
    if isinstance(value, dict):
        if value.keys() == {"$path"}:
            yield value["$path"]
            return
        value = list(value.values())
    if isinstance(value, list):
        for member in value:
            yield from _paths_in(member)


def _file_version(path: str) -> list[int]:
    try:
        status = os.stat(path)
    except OSError:  # an entry of sys.path that does not exist, or a file that a step will create
        return []
    return [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]
