"""`whyrun manifest init FILES...`: write an inputs manifest from data files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from whyrun.cli.output import print_json
from whyrun.errors import error

INIT = "init"


@click.command("manifest")
@click.argument("words", nargs=-1, metavar="init FILES...")
@click.option("-o", "--output", metavar="FILE.json", help="Write it here, instead of into the folder of the files.")
@click.option("--primary", metavar="KEY", help="The primary dataset; otherwise the first file.")
@click.option("--auxiliary", multiple=True, metavar="KEY", help="A dataset that only supports others. Repeatable.")
@click.option("--force", is_flag=True, help="Replace an existing manifest.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest, and write nothing.")
def command(
    words: tuple[str, ...],
    output: str | None,
    primary: str | None,
    auxiliary: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Write the inputs manifest of a dataset plan: the key, role, name, path and fingerprint of each file.

    The key is made from the name of the file: `Panel 2024.csv` becomes `panel_2024`. The first file is the primary
    dataset, all others are secondary ones. The manifest is `manifest.json` in the folder that all files are in.

    \b
    Example:
      whyrun manifest init inputs/main.csv inputs/controls.csv
      whyrun manifest init data/*.parquet -o data/manifest.json --primary panel --auxiliary codebook
    """
    if words[:1] != (INIT,) or len(words) < 2:
        hint = "write `whyrun manifest init FILES...`"
        raise error("USAGE", "the command takes `init` and the data files", hint=hint)
    files = [Path(word) for word in words[1:]]
    seen: dict[str, Path] = {}
    for file in files:
        if not file.is_file():
            raise error("FILE_MISSING", f"`{file}` is not a file", hint="check the path")
        if (first := seen.setdefault(os.path.realpath(file), file)) is not file:
            same = f"`{file}` is named twice" if first == file else f"`{file}` is the same file as `{first}`"
            raise error("NAME_TAKEN", same, hint="name each file once")
    target = Path(output) if output is not None else Path(_common_folder(files)) / "manifest.json"
    manifest = _manifest(files, target, primary, auxiliary)
    if as_json:
        print_json(manifest)
        return
    if target.exists() and not force:
        hint = "`--force` replaces it; `-o FILE` writes another file"
        raise error("NAME_TAKEN", f"`{target}` exists already", hint=hint)
    target.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    click.echo(f"{target}: {len(files)} dataset{'' if len(files) == 1 else 's'}")
    for dataset in manifest["datasets"]:
        click.echo(f"  {dataset['dataset_key']}  {dataset['role']}  {dataset['rel_path']}")


def _common_folder(files: Sequence[Path]) -> str:
    return os.path.relpath(os.path.commonpath([os.path.abspath(file.parent) for file in files]))


def _manifest(files: Sequence[Path], target: Path, primary: str | None, auxiliary: Sequence[str]) -> dict[str, Any]:
    from whyrun.artifacts.hashing import file_sha256
    from whyrun.errors import did_you_mean
    from whyrun.workflow.composition.plan_file.manifest import SCHEMA_VERSION
    from whyrun.workflow.model import AUXILIARY, PRIMARY, SECONDARY

    folder = os.path.realpath(target.parent)
    by_key: dict[str, Path] = {}
    for file in files:
        by_key[_key(file, by_key)] = file
    for wanted in (*auxiliary, *([primary] if primary is not None else [])):
        if wanted not in by_key:
            hint = did_you_mean(wanted, list(by_key)) or f"the keys are {', '.join(f'`{key}`' for key in by_key)}"
            raise error("DATASET_UNKNOWN", f"there is no dataset `{wanted}`", hint=hint)
    first = primary or next((key for key in by_key if key not in auxiliary), None)
    datasets = []
    for key, file in by_key.items():
        rel_path = Path(os.path.relpath(os.path.realpath(file), folder)).as_posix()
        if rel_path.startswith("../"):
            hint = "a manifest lies above its files: write it with `-o` into a folder that holds all of them"
            raise error("MANIFEST_PATH_OUTSIDE", f"`{file}` is outside of `{target.parent}`", hint=hint)
        role = AUXILIARY if key in auxiliary else PRIMARY if key == first else SECONDARY
        datasets.append(
            {
                "dataset_key": key,
                "role": role,
                "filename": file.name,
                "rel_path": rel_path,
                "fingerprint": f"sha256:{file_sha256(file)}",
            }
        )
    return {"schema_version": SCHEMA_VERSION, "datasets": datasets}


def _key(file: Path, taken: dict[str, Path]) -> str:
    cleaned = re.sub(r"[^a-z0-9]+", "_", file.stem.lower()).strip("_") or "data"
    key = base = cleaned if cleaned[0].isalpha() else f"data_{cleaned}"
    number = 2
    while key in taken:
        key, number = f"{base}_{number}", number + 1
    return key
