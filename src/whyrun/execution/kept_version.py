"""Adopting what whyrun itself has written down: the published file of an artifact, or one of the store, which is where
people are told that their version is kept. A folder is there as a list of its files, and a string as JSON."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from whyrun.artifacts.hashing import TREE_START, decode_tree
from whyrun.artifacts.store import Store
from whyrun.execution.adoptable import AdoptionTarget, not_adoptable, stored_version
from whyrun.execution.cfg import OutputSpec
from whyrun.execution.collect import collect_value
from whyrun.execution.commands import OutputResult
from whyrun.snapshot.records import Output
from whyrun.snapshot.world import World


def kept_version(
    world: World, artifact: str, target: AdoptionTarget, spec: OutputSpec, path: Path
) -> list[OutputResult] | None:
    """The version, where the file is to be read otherwise than a user's own, which is what it is."""
    sha = _stored_as(world.store, path)
    folder = _folder(world.store, sha, path) if sha is not None else None
    if folder is not None and spec.type != "directory":
        raise not_adoptable(artifact, f"`{path}` lists a folder that was saved", "only a `directory` can take it")
    if folder is not None:
        return stored_version(target.output, spec, folder, world.store)
    published = target.path_of(target.at.artifact)
    is_published = published is not None and os.path.realpath(path) == os.path.realpath(world.project / published)
    if spec.type != "string" or (sha is None and not is_published):
        return None
    try:
        text = msgspec.json.decode(path.read_bytes(), type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # somebody has put plain text there
    return collect_value(target.output, spec, text, world.store)


def _stored_as(store: Store, path: Path) -> str | None:
    real = Path(os.path.realpath(path))
    sha = "".join(real.parts[-2:])
    return sha if real.is_file() and os.path.realpath(store.path(sha)) == str(real) else None


def _folder(store: Store, sha: str, path: Path) -> Output | None:
    with path.open("rb") as file:
        if file.read(len(TREE_START)) != TREE_START:
            return None
    try:
        return Output("", sha, decode_tree(store.read(sha)).size, "directory")
    except ValueError:
        return None  # some file that begins as the list of a folder does
