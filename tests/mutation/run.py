"""Mutation testing of `planning`, `log` and `snapshot`: does a test fail when the source is changed a little?

    python tests/mutation/run.py [AREA …] [--file NAME] [--again] [--budget SECONDS]

One warm process has imported everything and collected all tests. For each mutant it forks, swaps the code of one
function, and runs the tests that cover the changed line, the likeliest first, until one fails. What is known (which
test covers what, which test killed what) is kept in `.mutation/`, so that a second run is quick; `--again` forgets the
verdicts. A mutant that no test kills must stand in survivors.toml, with the reason; else the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
AREAS = ("planning", "log", "snapshot")
# Tests that reach the mutated packages within their own process. The others talk to programs, servers and clusters.
TESTS = (
    "planning", "log", "snapshot", "scenarios", "acceptance", "regressions", "graph", "api", "cli", "console",
    "evidence",
    "verify", "shared", "hostile", "gc", "concurrency", "execution", "composition", "connections",
    "actions", "crash", "parity", "property",
)  # fmt: skip
BESIDE = ("actions/test_data_*", "actions/test_http_*", "execution/test_worker*", "cli/*bench*")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("areas", nargs="*", default=AREAS, help="of planning, log, snapshot")
    parser.add_argument("--file", action="append", default=[], help="only this file, as planning/judge.py")
    parser.add_argument("--again", action="store_true", help="forget what earlier runs found out")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of tests for one mutant")
    parser.add_argument("--survivors", action="store_true", help="try only those that survived the last time")
    parser.add_argument("--explained", action="store_true", help="try those of survivors.toml, too")
    parser.add_argument("--warm", action="store_true", help="leave out what runs at import, which takes seconds each")
    parser.add_argument("--notes", type=Path, default=ROOT / ".mutation", help="where to keep what is known")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="folders of tests; all that may be of use")
    chosen = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # so that sets have the same order every time
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.path[:0] = [str(HERE), str(ROOT / "src")]
    sys.path.append(str(HERE.parent))  # what tests have in common
    from mutation_session import Mutation

    session = Mutation(ROOT, tuple(chosen.areas), chosen)
    folders = [str(ROOT / "tests" / name) for name in chosen.tests if (ROOT / "tests" / name).exists()]
    beside = [f"--ignore-glob={ROOT}/tests/{name}" for name in BESIDE]
    plain = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--no-header", "-o", "addopts="]
    plain += ["--rootdir", str(ROOT), f"--basetemp={session.scratch}"]
    status = pytest.main([*plain, *beside, *folders], [session])
    if session.verdict is None:
        return int(status) or 2
    return session.verdict


if __name__ == "__main__":
    sys.exit(main())
