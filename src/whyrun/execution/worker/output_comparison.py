"""Compares new outputs with earlier versions, in the step's own process and never in the host.

An action's own comparer is user code, and reading a table of a million rows would delay the host's deadlines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from whyrun.actions.registry.load import LoadedAction
from whyrun.artifacts.compare.files import compare_files, compare_trees
from whyrun.artifacts.compare.result import IDENTICAL, SHOWN, CompareSettings, Comparison, shortened
from whyrun.artifacts.store import Store
from whyrun.connections.redact import Redactor
from whyrun.console.lines import count
from whyrun.execution.files.scratch import Scratch
from whyrun.execution.protocol.messages import EarlierVersion, OutputResult, OutputSpec
from whyrun.execution.worker.failure import StepError
from whyrun.workflow.arrays import element_type, elements_of, is_array


class OutputComparer:
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
        pairs = {name: (old, made[name]) for name, old in earlier.items() if name in made}
        own = {name: _spec(name, specs, made) for name in pairs}
        return {name: self._presentable(self._one(old, new, own[name])) for name, (old, new) in pairs.items()}

    def _one(self, old: EarlierVersion, new: OutputResult, spec: OutputSpec) -> Comparison:
        if old.type != new.type:
            return Comparison(False, f"{old.type} before, {new.type} now")
        if old.sha256 == new.sha256:
            return IDENTICAL
        if is_array(new.type):
            return self._lists(old, new)
        if old.gone:
            return Comparison(False, "different bytes; the earlier ones are gone")
        own = self._own(old, new, spec)
        if own is not None:
            return own
        settings = spec.compare or CompareSettings()
        if new.type == "directory":
            trees = self._before.read_tree(old.sha256), self._now.read_tree(new.sha256)
            return compare_trees(trees[0], trees[1], self._blob, settings)
        return compare_files(self._blob(old.sha256), self._blob(new.sha256), new.type, spec.suffix, settings)

    def _lists(self, old: EarlierVersion, new: OutputResult) -> Comparison:
        """Which elements an array has; how each differs is said of the element."""
        before = [one.key for one in elements_of(msgspec.json.decode(self._blob(old.sha256).read_bytes()))]
        now = [one.key for one in elements_of(new.value)]
        gone, added = [key for key in before if key not in now], [key for key in now if key not in before]
        parts = [f"{count(len(keys), 'element')} {what}" for keys, what in ((gone, "gone"), (added, "added")) if keys]
        if not parts:
            parts = ["other elements"] if before == now else ["another order"]
        details = (*(f"gone: {key}" for key in gone), *(f"added: {key}" for key in added))
        return Comparison(False, ", ".join(parts), details)

    def _blob(self, sha256: str) -> Path:
        """The path of a stored blob, after a check: comparing damaged bytes would only describe the damage."""
        store = self._now if self._now.has(sha256) else self._before
        store.check(sha256)
        return Path(store.path(sha256))

    def _own(self, old: EarlierVersion, new: OutputResult, spec: OutputSpec) -> Comparison | None:
        """The answer of the action's own comparer; None if it has none, or if that returns None."""
        if self._action.compare is None:
            return None
        paths = []
        for name, version, store in (("before", old, self._before), ("now", new, self._now)):
            folder = self._scratch.inputs / ".versions" / name  # no input has such a name
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{new.key}{'' if new.type == 'directory' else spec.suffix}"
            store.export(version.sha256, path, version.type)  # copies, because the comparer may change them
            paths.append(path)
        return _as_comparison(new.key, self._action.compare(new.key, paths[0], paths[1]))

    def _presentable(self, comparison: Comparison) -> Comparison:
        """The comparison without secrets, and short enough to show."""
        texts = (comparison.summary, *comparison.details[:SHOWN])
        summary, *details = (shortened(self._redactor.text(text)) for text in texts)
        return Comparison(
            comparison.identical, summary, tuple(details), comparison.more + len(comparison.details[SHOWN:])
        )


def _spec(key: str, specs: Mapping[str, OutputSpec], made: Mapping[str, OutputResult]) -> OutputSpec:
    """Of an output; of an element, that of its array with the element's own suffix."""
    name, bracket, _ = key.partition("[")
    if not bracket:
        return specs[key]
    element = next(one for one in elements_of(made[name].value) if f"{name}{one.text}" == key)
    return replace(specs[name], type=element_type(specs[name].type), suffix=element.suffix)


def _as_comparison(output: str, answer: object) -> Comparison | None:
    """An action's comparer may return a `Comparison`, a text (empty: identical), or None (no answer)."""
    if answer is None or isinstance(answer, Comparison):
        return answer
    if isinstance(answer, str):
        return Comparison(False, answer) if answer else IDENTICAL
    kind = type(answer).__name__
    message = f"the comparer of the action returned {kind} for `{output}`: return a Comparison, a text, or None"
    raise StepError("WrongComparison", message)
