"""The command `whyrun` as it is installed: stops the garbage collector, then imports and calls `main`.

The imports alone make so many objects that the collector would run dozens of times, and find nothing to free.
"""

from __future__ import annotations

import gc


def main() -> None:
    gc.disable()
    from whyrun.cli.main import main as command  # not before

    command()
