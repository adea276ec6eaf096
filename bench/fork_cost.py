"""What a process for a step costs, by the libraries that its worker has imported: `python bench/fork_cost.py`.

For each set of libraries a fresh process imports them, as a worker does, then forks, lets the child answer through
anonymous memory, and waits for its end. The best of many rounds counts: noise only adds.
"""

from __future__ import annotations

import subprocess
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
ROUNDS = 200


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
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        answer = os.memfd_create("answer")
        child = processes.fork()
        if child == 0:
            try:
                os.write(answer, b"4")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(answer)
        best = min(best, time.perf_counter() - began)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    names = ", ".join(f"`{library.partition('.')[0]}`" for library in libraries) or "none"
    sys.stdout.write(f"| {names} | {imported:.2f} s | {best * 1000:.1f} ms | {memory:.0f} MB |\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2:])
    else:
        sys.stdout.write(
            "| libraries | import, once for each worker | fork, answer and wait | memory |\n|---|---|---|---|\n"
        )
        sys.stdout.flush()
        for each in SETS:
            subprocess.run([sys.executable, __file__, "measure", *each], check=True)
