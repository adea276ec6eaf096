"""Folders, member by member: each file that differs is compared by its own kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath

from whyrun.artifacts.compare.files import compare_files
from whyrun.artifacts.compare.result import CompareSettings, Comparison, Findings, phrase
from whyrun.artifacts.hashing import Tree


def compare_trees(old: Tree, new: Tree, locate: Callable[[str], Path], settings: CompareSettings) -> Comparison:
    """`locate`: where the bytes of a hash are."""
    findings = Findings()
    before, after = ({file.path: file for file in tree.files} for tree in (old, new))
    for path in sorted({*before, *after}):
        was, now = before.get(path), after.get(path)
        if was is None:
            findings.add("added", f"{path} added")
        elif now is None:
            findings.add("removed", f"{path} removed")
        elif was.sha256 != now.sha256:
            suffix = PurePosixPath(path).suffix
            found = compare_files(locate(was.sha256), locate(now.sha256), "file", suffix, settings)
            why = "; ".join(found.details[:1])
            if found.identical:
                findings.notes.append(f"{path}: unchanged; {why}")
            else:
                findings.add("changed", f"{path}: {found.summary}" + (f" ({why})" if why else ""))
        elif was.executable != now.executable:
            findings.add("changed", f"{path}: {'no longer' if was.executable else 'now'} executable")
    for word, one, other in (("added", new, old), ("removed", old, new)):
        for folder in sorted({*one.empty_dirs} - {*other.empty_dirs}):
            findings.add(f"folder {word}", f"empty folder {folder} {word}")
    files = phrase("file", [(findings.counts.get(kind, 0), kind) for kind in ("changed", "added", "removed")])
    folders = phrase("empty folder", [(findings.counts.get(f"folder {k}", 0), k) for k in ("added", "removed")])
    return findings.result(", ".join(part for part in (files, folders) if part))
