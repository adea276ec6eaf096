"""Property tests take the fork server of the crash tests."""

from __future__ import annotations

import sys
from pathlib import Path

CRASH = str(Path(__file__).parents[1] / "crash")
if CRASH not in sys.path:
    sys.path.append(CRASH)
