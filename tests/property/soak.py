"""The oracle at length: random stories from seeds for so many minutes, on every core, and the numbers at the end.

`make soak` (30 minutes), or `python tests/property/soak.py --minutes 5 --first 1000000`. A story that fails is
printed in full; `--first SEED --stories 1` repeats it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "crash"))  # where the fork server is

from clean_rebuild_story import tell_clean_rebuild
from oracle_counts import Counts
from oracle_generate import RandomDice
from oracle_prune import tell_pruning
from oracle_story import tell

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # these runs sync a lot, and nothing is to last
TELLING = (tell_pruning, tell, tell_clean_rebuild, tell)  # by the seed
Told = tuple[int, Counts, str]  # the seed, what was tried, and what went wrong
over = multiprocessing.Event()  # then no new stories begin


def seeds(first: int, stories: int) -> Iterator[int]:
    for seed in range(first, first + stories):
        if over.is_set():
            return
        yield seed


def story(seed: int) -> Told | None:
    """None: the time is over. No worker is ended from outside: its run would treat that as Ctrl-C and go on."""
    if over.is_set():
        return None
    project = Path(tempfile.mkdtemp(prefix=f"lab-{seed}-", dir=MEMORY))
    record: list[str] = []
    try:
        telling = TELLING[seed % 4]
        counts = telling(RandomDice(seed), project, record)
    except Exception:
        return seed, Counts(), "\n".join([*record, traceback.format_exc()])
    finally:
        shutil.rmtree(project)
    return seed, counts, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--stories", type=int, default=10**9, help="at most so many")
    parser.add_argument("--first", type=int, help="the first seed; without it, one that is new every time")
    asked = parser.parse_args()
    first = random.SystemRandom().randrange(10**9) if asked.first is None else asked.first
    print(f"seeds from {first}", flush=True)
    began = time.monotonic()
    total, told, failed = Counts(), 0, []
    with multiprocessing.Pool(initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL)) as pool:
        for one in pool.imap_unordered(story, seeds(first, asked.stories)):
            if one is None:
                continue
            seed, counts, wrong = one
            told += 1
            total.add(counts)
            if wrong:
                failed.append(seed)
                print(f"=== seed {seed}", wrong, sep="\n", flush=True)
            if told % 1000 == 0:
                print(f"{told:,} stories, {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
            if time.monotonic() - began > asked.minutes * 60 or len(failed) >= 5:
                over.set()
    print(f"stories               {told:>12,}   in {(time.monotonic() - began) / 60:.1f} minutes")
    print(f"plans judged          {total.plans:>12,}")
    print(f"instances judged      {total.verdicts:>12,}   state and every reason, in both directions")
    print(f"runs                  {total.runs:>12,}")
    print(f"compared with nothing {total.truths:>12,}   all bytes against running everything from nothing")
    print(f"rebuilt clean         {total.rebuilt:>12,}   artifacts, compared with those of a clean rebuild")
    print(f"steps executed        {total.executed:>12,}")
    print(f"steps reused          {total.reused:>12,}")
    print(f"runs pruned           {total.pruned:>12,}   in every fourth story, and no plan showed it")
    print(f"failed stories        {len(failed):>12,}   {failed or ''}")
    if not failed:  # either would have failed its story
        print(f"false skips           {0:>12,}")
        print(f"executed twice        {0:>12,}   though an earlier run had the very same")
    in_vain = sum(total.in_vain.values())
    print(f"executed in vain      {in_vain:>12,}   made what was there, as is seen only afterwards; their reasons:")
    for reasons, count in total.in_vain.most_common():
        print(f"{count:>34,}   {reasons}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
