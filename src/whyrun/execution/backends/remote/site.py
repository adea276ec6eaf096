"""The folders of a place that is not the host's own project: where they lie, what a step needs there, what comes back.

`in/` is what the step reads (a sandbox shows it read-only), `out/` what its worker writes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

import msgspec

from whyrun import disk
from whyrun.artifacts.hashing import file_sha256
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import WhyrunError
from whyrun.execution.backends.transport import Source, Transport
from whyrun.execution.cfg import InputSpec, StepCfg
from whyrun.execution.commands import ExecStep, OutputResult, Session
from whyrun.execution.failure import StepError
from whyrun.execution.materialize import place_of_input
from whyrun.execution.scratch import drop_links, join_logs, move, put_away, step_folder
from whyrun.execution.wire import WorkerStart

PROJECT, INPUTS, SOURCES = "in/project", "in/inputs", "in/sources"
RUN, STORE, SCRATCH, COMMANDS, SAID = "out/run", "out/store", "out/scratch", "out/commands", "out/said.jsonl"
WHOSE = "step"  # which step, and which attempt of it, is there: beside what the step itself can write to
FOLDERS = (INPUTS, SOURCES, RUN, STORE, SCRATCH, COMMANDS)  # beside that of the project, which comes its own way

_LARGEST_MANIFEST = 1 << 28  # bytes of the manifest of a folder: it is read into memory

decode_cfg = msgspec.json.Decoder(StepCfg).decode


def worker_start(root: str, *, one_store: bool = False) -> WorkerStart:
    """The facts for a worker whose site lies at `root`. With one store, what a step made is there for the next."""
    store = f"{root}/{STORE}"
    return WorkerStart(
        run_dir=f"{root}/{RUN}",
        project=f"{root}/{PROJECT}",
        inputs=f"{root}/{INPUTS}",
        sources=store if one_store else f"{root}/{SOURCES}",
        store=store,
        scratch=f"{root}/{SCRATCH}",
        commands=f"{root}/{COMMANDS}",
        said=f"{root}/{SAID}",
    )


def blob_path(folder: str, sha256: str) -> str:
    return f"{folder}/{sha256[:2]}/{sha256[2:]}"


# --- there -----------------------------------------------------------------------------------------------------------


def needed_files(
    session: Session, store: Store, command: ExecStep, cfg: StepCfg | None, sources: str
) -> dict[str, Source]:
    """What the step reads, by its path at the site. All inputs; those that are values stand in the cfg."""
    files: dict[str, Source] = {f"{RUN}/{command.cfg_path}": session.run_dir / command.cfg_path}
    for spec in _members(cfg.inputs.values()) if cfg is not None else ():
        if spec.value is not msgspec.UNSET:
            continue
        if spec.path is not None:
            files[f"{INPUTS}/{place_of_input(spec.path)}"] = session.project / spec.path
            continue
        for sha256 in blobs(store, spec.sha256, spec.type):
            files[blob_path(sources, sha256)] = Path(store.path(sha256))
    for version in command.compare.values():
        if not version.gone:
            for sha256 in blobs(store, version.sha256, version.type):
                files[blob_path(sources, sha256)] = Path(store.path(sha256))
    # What is gone from the store or the project is not sent; the worker misses it and says so, as it does everywhere.
    return {path: source for path, source in files.items() if isinstance(source, bytes) or source.exists()}


def _members(specs: Iterable[InputSpec | list[InputSpec]]) -> Iterator[InputSpec]:
    for spec in specs:
        if isinstance(spec, list):
            yield from _members(spec)
        elif spec.members is not None:
            yield from _members(spec.members)
        else:
            yield spec


def blobs(store: Store, sha256: str, type_: str) -> list[str]:
    """The blobs that an artifact is made of: a folder has one for its manifest and one for each file."""
    if type_ != "directory" or not store.has(sha256):
        return [sha256]
    return [sha256, *(file.sha256 for file in store.read_tree(sha256).files)]


# --- and back --------------------------------------------------------------------------------------------------------


def bring_outputs(
    transport: Transport,
    store: Store,
    cfg: StepCfg,
    outputs: Iterable[OutputResult],
    given: Container[str],
    tmp: Path,
) -> None:
    """Every declared output into the host's store, checked by hash. Leaves are values: they came with the message.

    What the place was `given` need not come back. All else has to, also where the store has it: a step that only names
    a hash would get hold of what it has never seen."""
    here = set[str]()
    for output in outputs:
        if output.key not in cfg.outputs:
            continue
        _bring_blob(transport, store, output.key, output.sha256, given, here, tmp)
        if output.type == "directory":
            for sha256 in _files_of(store, output):
                _bring_blob(transport, store, output.key, sha256, given, here, tmp)


def _files_of(store: Store, output: OutputResult) -> list[str]:
    """What the manifest of a folder names; where it is none, its worker has no right to be believed."""
    if os.stat(store.path(output.sha256)).st_size > _LARGEST_MANIFEST:
        raise StepError("OutputDamaged", f"the manifest of the output `{output.key}` has too many bytes")
    try:
        return [file.sha256 for file in store.read_tree(output.sha256).files]
    except WhyrunError as damaged:
        message = f"the output `{output.key}` did not come back whole: {damaged.diagnostics[0].message}"
        raise StepError("OutputDamaged", message) from None


def _bring_blob(
    transport: Transport, store: Store, key: str, sha256: str, given: Container[str], here: set[str], tmp: Path
) -> None:
    if sha256 in here:
        return
    here.add(sha256)
    if sha256 in given and store.has(sha256):
        try:
            store.check(sha256)
            return
        except WhyrunError:
            pass  # what stands there has other bytes; those that come now are better
    temp = tmp / "output"
    try:
        if not transport.fetch(blob_path(STORE, sha256), temp):
            raise StepError("MissingOutput", f"the output `{key}` did not come back from where the step ran")
        found = file_sha256(temp)
        if found != sha256:  # nothing that nobody asked for gets into the store
            message = f"the output `{key}` came back with other bytes (sha256 {found}) than the worker speaks of "
            raise StepError("OutputDamaged", f"{message}({sha256})")
        store.put_file(temp, sha256, move=True)
    finally:
        temp.unlink(missing_ok=True)


def bring_step_folder(transport: Transport, session: Session, step_id: str, tmp: Path) -> None:
    """Logs, script and, after a failure, scratch: from where the worker kept them to the evidence."""
    there = f"{RUN}/{step_folder(Path(), step_id)}"
    brought = tmp / "brought"
    try:
        if transport.fetch_tree(there, brought):
            drop_links(brought)
            merge_step_folder(brought, step_folder(session.run_dir, step_id))
            if transport.reusable:
                transport.remove(there)
    finally:
        shutil.rmtree(brought, ignore_errors=True)


def merge_step_folder(brought: Path, step_dir: Path) -> None:
    """As if the worker had kept it here: logs of a later attempt are appended, the rest is that of the latest."""
    for entry in sorted(brought.iterdir()):
        target = step_dir / entry.name
        disk.make_folders(Area.STEP, step_dir)
        if entry.suffix == ".log" and target.exists():
            joined = entry.with_suffix(".joined")
            join_logs(target, entry, joined)
            move(joined, target)
            continue
        put_away(target, brought)
        move(entry, target)
