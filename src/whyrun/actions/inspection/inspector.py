"""Questions about actions that only running code can answer, put to a process of its own (`answer`).

It is started when the first question comes that is not answered yet, and only for workflows that use such an action:
the host itself never imports the user's code. Answers that depend on code and literals alone are kept in a derived
file, so that a second plan need not import, say, scikit-learn again. The file may be deleted at any time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from whyrun.actions.describe import Description
from whyrun.actions.imports import project_code
from whyrun.actions.problem import Problem
from whyrun.actions.questions import Answer, Block, Question, as_json
from whyrun.artifacts.durable import atomic_write, checked, with_checksum
from whyrun.artifacts.hashing import canonical_json, digest
from whyrun.disk import Area

if TYPE_CHECKING:
    from whyrun.actions.asked_process import AskedProcess
    from whyrun.actions.registry import ActionInfo

TIMEOUT = 60.0  # seconds for one question: the import of a large library may take many
KEPT = 4096  # answers in the file
_FORMAT = 1


class Asker:
    """Answers for the actions of one project. `cache`: the derived file; None keeps nothing."""

    def __init__(self, project: Path, cache: Path | None = None, timeout: float = TIMEOUT) -> None:
        self.project = Path(os.path.abspath(project))
        self._cache = cache
        self._timeout = timeout
        self._known: dict[str, bytes] | None = None  # key → encoded answer
        self._fresh: dict[str, bytes] = {}
        self._process: AskedProcess | None = None
        self._codes: dict[tuple[str, str, str], str] = {}

    def describe(self, info: ActionInfo) -> Description | str:
        """What the action says of itself, or why it cannot be used."""
        answer = self._ask(_question("describe", info))
        if answer.error is not None or answer.description is None:
            return answer.error or "it gave no answer"
        return answer.description

    def check(self, info: ActionInfo, given: Mapping[str, Any]) -> list[Problem]:
        (problems,) = self.check_all(info, [given])
        return problems

    def check_all(self, info: ActionInfo, given: Sequence[Mapping[str, Any]]) -> list[list[Problem]]:
        """Many `with:` blocks against `Params`; see `check_values`."""
        blocks = [Block({name: as_json(value) for name, value in entries.items()}) for entries in given]
        answer = self._ask(_question("check", info, blocks))
        if answer.error is not None:
            message = f"the action `{info.name}` cannot check its parameters: {answer.error}"
            return [[Problem(None, message, "`whyrun actions` shows whether it can be used")]] * len(given)
        return answer.problems

    def is_known_to_fit(self, info: ActionInfo, blocks: str) -> bool:
        """Were these blocks (a digest of all of them) checked before, and nothing was wrong?"""
        return self._fit_key(info, blocks) in self._answers()

    def keep_that_it_fits(self, info: ActionInfo, blocks: str) -> None:
        key = self._fit_key(info, blocks)
        self._answers()[key] = self._fresh[key] = b""

    def _fit_key(self, info: ActionInfo, blocks: str) -> str:
        code = self._machine if info.origin == "builtin" else self._code_of(_question("check", info))
        return digest("fits/v1", info.name, code, blocks)

    def call(
        self,
        info: ActionInfo,
        method: str,
        blocks: Sequence[Block],
        *,
        timeout: float | None = None,
        keep: bool = False,
    ) -> list[dict[str, Any]]:
        """An optional method, block by block: `{"value": …}` or `{"error": why}`.

        `keep`: it looks at no files but those that it is given.
        """
        question = _question(method, info, blocks)
        given = list(dict.fromkeys(_paths_in([block.given for block in blocks]))) if keep else []
        if keep and not any(map(os.path.isdir, given)):  # what lies in a folder does not show in the folder
            answer = self._ask(question, [_changed(path) for path in given])
        else:
            answer = self._put(question, self._timeout if timeout is None else timeout)
        return [{"error": answer.error}] * len(blocks) if answer.error is not None else answer.values

    def save(self) -> None:
        """Keep new answers, if there is a state folder. A file that cannot be written costs time and nothing else."""
        if not self._fresh or self._cache is None or not self._cache.parent.is_dir():
            return
        entries = list({**(self._known or {}), **self._fresh}.items())[-KEPT:]
        try:
            atomic_write(self._cache, with_checksum(msgspec.msgpack.encode((_FORMAT, dict(entries)))), Area.INDEX)
        except OSError:
            return  # no right to write, a read-only or a full disk
        self._known, self._fresh = dict(entries), {}

    def close(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    # --- asking --------------------------------------------------------------------------------------------------

    def _ask(self, question: Question, files: Sequence[Sequence[int]] = ()) -> Answer:
        """`files`: as they are now, those that the question hands over; the answer may come from what they hold."""
        key = digest("asked/v2", msgspec.json.encode(question), self._code_of(question), canonical_json(files))
        known = self._answers().get(key)
        if known is not None:
            return msgspec.msgpack.decode(known, type=Answer)
        answer = self._put(question, self._timeout)
        encoded = msgspec.msgpack.encode(answer)
        self._answers()[key] = encoded
        failed = answer.error is not None or any("error" in value for value in answer.values)
        if not failed:  # what went wrong may go right when the machine is less busy
            self._fresh[key] = encoded
        return answer

    def _put(self, question: Question, timeout: float) -> Answer:
        from whyrun.actions.asked_process import AskedProcess

        for _ in range(2):  # one that was idle may go at the very moment of the question
            if self._process is None or self._process.is_gone():
                self.close()
                self._process = AskedProcess(self.project)
            answer = self._process.ask(question, timeout)
            if answer is not None:
                return answer
            ended = self._process.end()
            self._process = None
            if not ended.idle:
                break
        return Answer(error=ended.why)

    def _answers(self) -> dict[str, bytes]:
        if self._known is None:
            self._known = _load(self._cache) if self._cache is not None else {}
        return self._known

    # --- what an answer depends on -------------------------------------------------------------------------------

    def _code_of(self, question: Question) -> str:
        """The code behind an answer: with other code, another Python or other packages, our own included, it is asked
        anew."""
        place = (question.origin, question.path, question.attribute)
        if place not in self._codes:
            if question.origin == "project":
                code = project_code(self.project, self.project / question.path, imported=False)
                facts: Any = [*code.digests, *code.problems]
            else:
                facts = _package_files(question.path.partition(":")[0].partition(".")[0])
            self._codes[place] = digest("asked-code/v1", canonical_json(facts), self._machine)
        return self._codes[place]

    @cached_property
    def _machine(self) -> str:
        # An installation changes the folder that it goes to.
        folders = [[entry, _changed(entry)] for entry in sys.path if entry.endswith("-packages")]
        return digest("machine/v1", canonical_json([sys.version, sys.executable, folders, _package_files("whyrun")]))


def _question(ask: str, info: ActionInfo, blocks: Sequence[Block] = ()) -> Question:
    assert info.path is not None
    return Question(ask, info.name, info.origin, info.path, info.attribute or "", list(blocks))


def _load(cache: Path) -> dict[str, bytes]:
    """The kept answers; none where the file is missing, damaged or of another version: then they are asked again."""
    try:
        version, entries = msgspec.msgpack.decode(checked(cache.read_bytes()), type=tuple[int, dict[str, bytes]])
    except (OSError, ValueError, msgspec.MsgspecError):
        return {}
    return entries if version == _FORMAT else {}


def _package_files(name: str) -> list[list[Any]]:
    """The source files of an installed package as they lie there: an editable one changes under the same version."""
    from importlib.util import find_spec

    spec = find_spec(name)  # of a top-level name: nothing is imported
    if spec is None:
        return []
    files = [spec.origin] if spec.origin else []
    for root in spec.submodule_search_locations or ():
        files += [
            os.path.join(parent, file) for parent, _, names in os.walk(root) for file in names if file[-3:] == ".py"
        ]
    return [[file, _changed(file)] for file in sorted(set(files))]


def _paths_in(value: Any) -> Iterator[str]:
    """The files and folders that blocks hand over (see `as_json`)."""
    if isinstance(value, dict):
        if value.keys() == {"$path"}:
            yield value["$path"]
            return
        value = list(value.values())
    if isinstance(value, list):
        for member in value:
            yield from _paths_in(member)


def _changed(path: str) -> list[int]:
    try:
        found = os.stat(path)
    except OSError:  # an entry of the path, or a file that is yet to be made
        return []
    return [found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino]
