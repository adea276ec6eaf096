"""Many random stories from seeds, without hypothesis: `python tests/property/soak.py FIRST COUNT [PARENT]`."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from lab_generate import RandomDice
from lab_story import tell


def main(first: int, count: int, parent: str | None) -> int:
    started = time.monotonic()
    failures = 0
    for seed in range(first, first + count):
        project = Path(tempfile.mkdtemp(prefix=f"lab-{seed}-", dir=parent))
        record: list[str] = []
        try:
            tell(RandomDice(seed), project, record)
        except Exception:
            failures += 1
            print(f"=== seed {seed} ({project})", *record, traceback.format_exc(), sep="\n", flush=True)
            if failures >= 5:
                break
            continue
        shutil.rmtree(project)
    print(f"{seed - first + 1} stories, {failures} failures, {time.monotonic() - started:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None))
