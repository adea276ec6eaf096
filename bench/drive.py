"""One whyrun command in a fresh process: `python bench/drive.py plan|explain|run FOLDER [--jobs N]`."""

from __future__ import annotations

import sys

from whyrun.cli.main import main

if __name__ == "__main__":
    command, folder, *rest = sys.argv[1:]
    main([command, f"{folder}/workflow.yaml", *rest])
