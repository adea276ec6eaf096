"""A loop over named files beside one over numbered files: `python bench/keyed.py [--n 100000] [--repeats 5]`.

`whyrun plan` with nothing to do, in turns. The states are generated, as those of `plan_noop_million` are.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import million
import workload
from measure import alternate

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent / ".bench"
LIMIT = 1.1  # times the loop over numbers


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    ROOT.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="keyed-", dir=ROOT))
    try:
        return compare(folder, given.n, given.repeats)
    finally:
        shutil.rmtree(folder)


def compare(folder: Path, n: int, repeats: int) -> int:
    folders = {name: folder / name for name in ("positions", "keys")}
    for name, project in folders.items():
        million.make_files(project, n // workload.DEPTH, keyed=name == "keys")
        million.write_log(project)
    commands: dict[str, Sequence[str | Path]] = {
        name: [sys.executable, HERE / "drive.py", "plan", project] for name, project in folders.items()
    }
    found = alternate(commands, dict.fromkeys(commands, folder), repeats, folder)
    for name, series in found.items():
        log = (folder / f"{name}.log").read_text()
        assert f"nothing to do, {n} of {n} jobs up to date" in log, log
        print(f"{name:<10} best {series.best:.3f} s  CPU {series.cpu:.3f} s  {series.peak_mb:.0f} MB")
    ratio = found["keys"].cpu / found["positions"].cpu
    print(f"keys / positions: best {found['keys'].best / found['positions'].best:.2f}, CPU {ratio:.2f} (limit {LIMIT})")
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
