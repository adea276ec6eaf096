"""New outputs beside the earlier versions that they are compared with: in the step's own process, never in the host.

What an action brings to compare with is user code; and a table of a million rows is not read by who watches deadlines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from whyrun.actions.load import LoadedAction
from whyrun.artifacts.compare.directories import compare_trees
from whyrun.artifacts.compare.files import compare_files
from whyrun.artifacts.compare.result import IDENTICAL, SHOWN, CompareSettings, Comparison, shortened
from whyrun.artifacts.store import Store
from whyrun.execution.cfg import OutputSpec
from whyrun.execution.commands import EarlierVersion, OutputResult
from whyrun.execution.failure import StepError
from whyrun.execution.scratch import Scratch
from whyrun.execution.secrets import Redactor


class Versions:
    def __init__(self, before: Store, now: Store, scratch: Scratch, action: LoadedAction, redactor: Redactor) -> None:
        self._before, self._now = before, now
        self._scratch, self._action, self._redactor = scratch, action, redactor

    def compare(
        self,
        earlier: Mapping[str, EarlierVersion],
        specs: Mapping[str, OutputSpec],
        outputs: Sequence[OutputResult],
    ) -> dict[str, Comparison]:
        made = {output.key: output for output in outputs}
        found = {name: self._one(old, made[name], specs[name]) for name, old in earlier.items() if name in made}
        return {name: self._presentable(comparison) for name, comparison in found.items()}

    def _one(self, old: EarlierVersion, new: OutputResult, spec: OutputSpec) -> Comparison:
        if old.type != new.type:
            return Comparison(False, f"{old.type} before, {new.type} now")
        if old.sha256 == new.sha256:
            return IDENTICAL
        if old.gone:
            return Comparison(False, "other bytes; those before are gone")
        own = self._own(old, new, spec)
        if own is not None:
            return own
        settings = spec.compare or CompareSettings()
        if new.type == "directory":
            trees = self._before.read_tree(old.sha256), self._now.read_tree(new.sha256)
            return compare_trees(trees[0], trees[1], self._blob, settings)
        return compare_files(self._blob(old.sha256), self._blob(new.sha256), new.type, spec.suffix, settings)

    def _blob(self, sha256: str) -> Path:
        """Stored bytes, checked: a comparison with damaged bytes would say something about the damage."""
        store = self._now if self._now.has(sha256) else self._before
        store.check(sha256)
        return Path(store.path(sha256))

    def _own(self, old: EarlierVersion, new: OutputResult, spec: OutputSpec) -> Comparison | None:
        """By the action's own comparer, if it has one and that has an opinion on this output."""
        if self._action.compare is None:
            return None
        paths = []
        for name, version, store in (("before", old, self._before), ("now", new, self._now)):
            folder = self._scratch.inputs / ".versions" / name  # no input has such a name
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{new.key}{'' if new.type == 'directory' else spec.suffix}"
            store.export(version.sha256, path, version.type)  # copies: what it does to them harms nothing
            paths.append(path)
        return _as_comparison(new.key, self._action.compare(new.key, paths[0], paths[1]))

    def _presentable(self, found: Comparison) -> Comparison:
        """Bounded and printable, whoever made it; and no secret in it."""
        redacted = [shortened(self._redactor.text(text)) for text in (found.summary, *found.details[:SHOWN])]
        return Comparison(found.identical, redacted[0], tuple(redacted[1:]), found.more + len(found.details[SHOWN:]))


def _as_comparison(output: str, answer: object) -> Comparison | None:
    """What a comparer of an action may return: a `Comparison`, a text (empty: identical), or None (no opinion)."""
    if answer is None or isinstance(answer, Comparison):
        return answer
    if isinstance(answer, str):
        return Comparison(False, answer) if answer else IDENTICAL
    kind = type(answer).__name__
    message = f"the comparer of the action returned {kind} for `{output}`: return a Comparison, a text, or None"
    raise StepError("WrongComparison", message)
