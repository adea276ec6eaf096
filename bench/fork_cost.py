"""What a process for a step costs, by the libraries that its worker has imported: `python bench/fork_cost.py`.

For each set of libraries a fresh process imports them, as a worker does, then forks, lets the child answer through
anonymous memory, and waits for its end. What both used counts, of the best of several rounds, since noise only adds;
and their page faults, which do not vary: each is a page that one of the two has to have for itself.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module

SETS = (
    (),
    ("numpy",),
    ("pandas",),
    ("duckdb",),
    ("pyarrow",),
    ("matplotlib.pyplot",),
    ("statsmodels.api",),
    ("pandas", "matplotlib.pyplot", "duckdb", "pyarrow", "statsmodels.api"),
)
ROUNDS, FORKS = 10, 40


def measure(libraries: list[str]) -> None:
    import os
    import resource

    import_module("whyrun.execution.worker.main")
    processes = import_module("whyrun.execution.worker.processes")
    began = time.perf_counter()
    for library in libraries:
        import_module(library)
    imported = time.perf_counter() - began
    processes.freeze()

    def used() -> tuple[float, int]:
        both = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(each.ru_utime + each.ru_stime for each in both), sum(each.ru_minflt for each in both)

    best, faults = float("inf"), 0
    for _ in range(ROUNDS):
        seconds, before = used()
        for _ in range(FORKS):
            answer = os.memfd_create("answer")
            child = processes.fork()
            if child == 0:
                try:
                    os.write(answer, b"4")
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            os.close(answer)
        now, after = used()
        best, faults = min(best, (now - seconds) / FORKS), (after - before) // FORKS
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    names = ", ".join(f"`{library.partition('.')[0]}`" for library in libraries) or "none"
    sys.stdout.write(f"| {names} | {imported:.2f} s | {best * 1000:.1f} ms | {faults} | {memory:.0f} MB |\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2:])
    else:
        import subprocess  # a worker does without it, and `threading`, which it imports, would make each fork dearer

        sys.stdout.write(
            "| libraries | import, once for each worker | CPU time of fork, answer and wait | page faults | memory |\n"
            "|---|---|---|---|---|\n"
        )
        sys.stdout.flush()
        for each in SETS:
            subprocess.run([sys.executable, __file__, "measure", *each], check=True)
