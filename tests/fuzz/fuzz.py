"""Fuzzing at length: `make fuzz SECONDS=60`, or `python tests/fuzz/fuzz.py events --seconds 600`.

With atheris (`pip install 'whyrun[fuzz]'`) guided by coverage; without it by hypothesis alone, and it says so. What is
found is kept in `tests/fuzz/found/`; shrunk and corrected it belongs into the corpus, which the suite replays.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
FOUND = HERE / "found"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", help="by default all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    if options.in_process:
        run_atheris(options.targets[0], options.seconds)
        return 0
    from fuzz_targets import TARGETS

    guided = has_atheris()
    if not guided:
        print("atheris is not installed (pip install 'whyrun[fuzz]'): hypothesis alone, without coverage", flush=True)
    broken = []
    for name in options.targets or TARGETS:
        print(f"{name}: {options.seconds} s", flush=True)
        run = guided_run if guided else hypothesis_run
        if not run(name, options.seconds):
            broken.append(name)
    print(f"found something in: {', '.join(broken)}" if broken else "found nothing")
    return 1 if broken else 0


def has_atheris() -> bool:
    try:
        import atheris  # noqa: F401
    except ImportError:
        return False
    return True


def guided_run(name: str, seconds: int) -> bool:
    """In a process of its own: libFuzzer ends the process that it runs in."""
    command = [sys.executable, __file__, name, "--in-process", "--seconds", str(seconds)]
    return subprocess.run(command, check=False, env={**os.environ, "PYTHONHASHSEED": "0"}).returncode == 0


def run_atheris(name: str, seconds: int) -> None:
    import atheris

    with atheris.instrument_imports(include=["whyrun", "yaml"]):
        from fuzz_targets import LARGEST, TARGETS
    target = TARGETS[name]
    new = FOUND / "corpus" / name
    new.mkdir(parents=True, exist_ok=True)
    arguments = [
        sys.argv[0],
        f"-max_total_time={seconds}",
        f"-max_len={LARGEST}",
        "-timeout=20",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        f"-artifact_prefix={FOUND}/{name}-",
        str(new),
        str(CORPUS / name),
    ]
    atheris.Setup(arguments, lambda data: target(bytes(data)))
    atheris.Fuzz()


def hypothesis_run(name: str, seconds: int) -> bool:
    from test_fuzz_targets import mutated_test

    fuzz_one = mutated_test(name).hypothesis.fuzz_one_input
    FOUND.mkdir(exist_ok=True)
    end, tried = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = os.urandom(2000)
        tried += 1
        try:
            fuzz_one(data)
        except BaseException:
            kept = FOUND / f"{name}-{tried}"
            kept.write_bytes(data)
            print(f"kept as {kept}")
            raise
    print(f"{name}: {tried} tried")
    return True


if __name__ == "__main__":
    sys.exit(main())
