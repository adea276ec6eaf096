"""Images of containers: their names, the digest that a tag stands for, and the record of it.

A digest (`name@sha256:…`) is the content. A tag may name another content tomorrow, so the first run resolves it with
the engine and records it in `.whyrun/images.json`; from then on it stands for that digest, until `whyrun env sync`
resolves it again. An image file (`*.sif`) is its own content.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from whyrun.artifacts.hashing import file_sha256
from whyrun.environments.engines import Engine, engine_error, engine_variables
from whyrun.errors import error
from whyrun.lazy_regex import lazy_regex

RECORD = "images.json"
_PINNED = lazy_regex(r"(.+)@(sha256:[0-9a-f]{64})")
_TAG = lazy_regex(r":[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


class Image(msgspec.Struct, frozen=True):
    digest: str  # "sha256:…"
    reference: str  # by which an engine finds exactly this content


Recorded = Mapping[str, Image]  # by the name as written


def image_of(written: str, project: Path, recorded: Recorded) -> Image | None:
    """What the name stands for; None for a tag that was not resolved yet."""
    pinned = _PINNED.fullmatch(written)
    if pinned is not None:
        return Image(pinned[2], written)
    if written.endswith(".sif"):
        path = project / written
        if not path.is_file():
            raise error(
                "FILE_MISSING", f"there is no image file `{written}`", hint="its path is relative to the project"
            )
        return Image(f"sha256:{file_sha256(path)}", written)
    return recorded.get(written)


def is_tag(written: str) -> bool:
    return not written.endswith(".sif") and _PINNED.fullmatch(written) is None


def recorded_images(state_dir: Path) -> dict[str, Image]:
    try:
        return msgspec.json.decode((state_dir / RECORD).read_bytes(), type=dict[str, Image])
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as wrong:
        hint = "remove the file: the next run resolves the tags again"
        raise error("ENVIRONMENT_INVALID", f"`{RECORD}` cannot be read: {wrong}", hint=hint) from None


def record_images(state_dir: Path, images: Mapping[str, Image]) -> None:
    state_dir.mkdir(parents=True, exist_ok=True)
    part = state_dir / f"{RECORD}.part"
    part.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(images.items())))))
    os.replace(part, state_dir / RECORD)


def resolve(engine: Engine, written: str, *, again: bool = False) -> Image:
    """Ask the engine what a tag stands for; it fetches the image if it has none, or if asked `again`."""
    if not engine.inspects:
        hint = f"write the digest, as a registry or `podman image inspect` tells it: `{written}@sha256:…`"
        raise error("CONTAINER_FAILED", f"{engine.name} cannot tell the digest of `{written}`", hint=hint)
    found = None if again else _inspected(engine, written)
    if found is None:
        problem = fetch(engine, written)
        found = _inspected(engine, written)
        if found is None:
            raise engine_error(engine, f"the image `{written}` cannot be fetched", problem)
    name = _TAG.sub("", written)
    for reference in found.get("RepoDigests") or ():
        pinned = _PINNED.fullmatch(reference)
        if pinned is not None and (pinned[1] == name or pinned[1].endswith(f"/{name}")):
            return Image(pinned[2], reference)
    own = str(found["Id"])  # an image of this machine alone
    digest = own if own.startswith("sha256:") else f"sha256:{own}"
    return Image(digest, digest)


def fetch(engine: Engine, reference: str) -> str:
    """Fetch an image. Returns what the engine says if it cannot."""
    done = _call(engine, "pull", "--quiet", reference)
    return "" if done.returncode == 0 else done.stderr.decode("utf-8", "replace")


def is_present(engine: Engine, reference: str) -> bool:
    return _inspected(engine, reference) is not None


def _inspected(engine: Engine, reference: str) -> dict[str, Any] | None:
    done = _call(engine, "image", "inspect", reference)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace")
        if re.search(r"daemon|permission denied|connect", said, re.IGNORECASE):
            raise engine_error(engine, "it does not answer", said)
        return None
    (first, *_) = msgspec.json.decode(done.stdout, type=list[dict[str, Any]])
    return first


def _call(engine: Engine, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [engine.program, *words], env=engine_variables(), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
