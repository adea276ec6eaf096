"""`python -m bench` is `python bench/run.py`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # the modules beside it, as for a script
runpy.run_path(str(HERE / "run.py"), run_name="__main__")
