"""A site: the folders of one worker that shares no folder with the host. Which files a step needs there, and how its
outputs and its evidence are fetched.

`in/` holds what the step reads (a sandbox shows it read-only), `out/` what its worker writes.
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
from whyrun.execution.backends.base import Session, Source, Transport
from whyrun.execution.files.scratch import drop_links, join_logs, move, put_away, step_folder
from whyrun.execution.protocol.framing import WorkerStart
from whyrun.execution.protocol.messages import ExecStep, InputSpec, OutputResult, StepCfg
from whyrun.execution.worker.failure import StepError
from whyrun.execution.worker.materialize import input_path

PROJECT, INPUTS, SOURCES = "in/project", "in/inputs", "in/sources"
RUN, STORE, SCRATCH, COMMANDS, SAID = "out/run", "out/store", "out/scratch", "out/commands", "out/said.jsonl"
WRITTEN = "out"  # the folder of all that the worker writes
ENVIRONMENTS = "environments"  # folder of virtual environments that the worker makes
MARKER = "step"  # file with the current step and attempt, where the step itself cannot write
FOLDERS = (INPUTS, SOURCES, RUN, STORE, SCRATCH, COMMANDS)  # all but the project, which is mounted or linked

_LARGEST_MANIFEST = 1 << 28  # bytes of a folder's manifest, which is read into memory

decode_cfg = msgspec.json.Decoder(StepCfg).decode


def worker_start(
    root: str, *, one_store: bool = False, single: bool = False, environments: str | None = None
) -> WorkerStart:
    """The settings of a worker whose site is at `root`. `one_store`: outputs of a step serve as inputs of the next.
    `single`: it executes one step. `environments`: where virtual environments are, if not at the site."""
    store = f"{root}/{STORE}"
    return WorkerStart(
        run_dir=f"{root}/{RUN}",
        project=f"{root}/{PROJECT}",
        inputs=f"{root}/{INPUTS}",
        sources=store if one_store else f"{root}/{SOURCES}",
        store=store,
        scratch=f"{root}/{SCRATCH}",
        commands=f"{root}/{COMMANDS}",
        single=single,
        said=f"{root}/{SAID}",
        environments=f"{root}/{ENVIRONMENTS}" if environments is None else environments,
    )


def blob_path(folder: str, sha256: str) -> str:
    return f"{folder}/{sha256[:2]}/{sha256[2:]}"


# --- files that a step needs -----------------------------------------------------------------------------------


def needed_files(
    session: Session, store: Store, command: ExecStep, cfg: StepCfg | None, sources: str
) -> dict[str, Source]:
    """The files that the step reads, by their path at the site. Inputs that are values are in the cfg."""
    files: dict[str, Source] = {f"{RUN}/{command.cfg_path}": session.run_dir / command.cfg_path}
    for spec in _members(cfg.inputs.values()) if cfg is not None else ():
        if spec.value is not msgspec.UNSET:
            continue
        if spec.path is not None:
            files[f"{INPUTS}/{input_path(spec.path)}"] = session.project / spec.path
            continue
        for sha256 in blobs(store, spec.sha256, spec.type):
            files[blob_path(sources, sha256)] = Path(store.path(sha256))
    for version in command.compare.values():
        if not version.gone:
            for sha256 in blobs(store, version.sha256, version.type):
                files[blob_path(sources, sha256)] = Path(store.path(sha256))
    # Missing files are not sent. The worker reports them, as it does on every backend.
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
    """The blobs of an artifact: a folder has one for its manifest and one for each file."""
    if type_ != "directory" or not store.has(sha256):
        return [sha256]
    return [sha256, *(file.sha256 for file in store.read_tree(sha256).files)]


# --- outputs and evidence --------------------------------------------------------------------------------------


def fetch_outputs(
    transport: Transport,
    store: Store,
    cfg: StepCfg,
    outputs: Iterable[OutputResult],
    sent: Container[str],
    tmp: Path,
) -> None:
    """Copy every declared output into the host's store and check its hash. Leaves are values and came with the message.

    A blob that was `sent` to the site is not fetched. Every other one is, even if the store has it: otherwise a step
    that only names a hash would get content that it has never seen."""
    fetched = set[str]()
    for output in outputs:
        if not cfg.has_bytes(output.key):
            continue
        _fetch_blob(transport, store, output.key, output.sha256, sent, fetched, tmp)
        if output.type == "directory":
            for sha256 in _files_of(store, output):
                _fetch_blob(transport, store, output.key, sha256, sent, fetched, tmp)


def _files_of(store: Store, output: OutputResult) -> list[str]:
    """The hashes in the manifest of a folder. The worker may have been compromised, so an invalid one is an error."""
    if os.stat(store.path(output.sha256)).st_size > _LARGEST_MANIFEST:
        raise StepError("OutputDamaged", f"the manifest of the output `{output.key}` has too many bytes")
    try:
        return [file.sha256 for file in store.read_tree(output.sha256).files]
    except WhyrunError as damaged:
        message = f"the output `{output.key}` did not come back whole: {damaged.diagnostics[0].message}"
        raise StepError("OutputDamaged", message) from None


def _fetch_blob(
    transport: Transport, store: Store, key: str, sha256: str, sent: Container[str], fetched: set[str], tmp: Path
) -> None:
    if sha256 in fetched:
        return
    fetched.add(sha256)
    if sha256 in sent and store.has(sha256):
        try:
            store.check(sha256)
            return
        except WhyrunError:
            pass  # the stored bytes are damaged; the fetched ones replace them
    temp = tmp / "output"
    try:
        if not transport.fetch(blob_path(STORE, sha256), temp):
            raise StepError("MissingOutput", f"the output `{key}` did not come back from where the step ran")
        actual = file_sha256(temp)
        if actual != sha256:  # the store takes nothing under a wrong hash
            message = f"the output `{key}` came back with other bytes (sha256 {actual}) than the worker names "
            raise StepError("OutputDamaged", f"{message}({sha256})")
        store.put_file(temp, sha256, move=True)
    finally:
        temp.unlink(missing_ok=True)


def fetch_step_folder(transport: Transport, session: Session, step_id: str, tmp: Path) -> None:
    """Copy logs, script and, after a failure, scratch files from the site to the evidence."""
    folder = f"{RUN}/{step_folder(Path(), step_id)}"
    copy = tmp / "brought"
    try:
        if transport.fetch_tree(folder, copy):
            drop_links(copy)
            merge_step_folder(copy, step_folder(session.run_dir, step_id))
            if transport.reusable:
                transport.remove(folder)
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def merge_step_folder(copy: Path, step_dir: Path) -> None:
    """Merge the files of an attempt into the evidence: append logs, replace everything else."""
    for entry in sorted(copy.iterdir()):
        target = step_dir / entry.name
        disk.make_folders(Area.STEP, step_dir)
        if entry.suffix == ".log" and target.exists():
            joined = entry.with_suffix(".joined")
            join_logs(target, entry, joined)
            move(joined, target)
            continue
        put_away(target, copy)
        move(entry, target)
