"""What a child process of ours needs to find whyrun again."""

from __future__ import annotations

import os

import whyrun


def whyrun_home() -> str | None:
    """Where whyrun is imported from, if a fresh interpreter would not find it there by itself.

    It would where site-packages or a .pth file in it lead there. It would not where PYTHONPATH, the current folder or
    the user's own site-packages (below HOME) do.
    """
    import site

    home = os.path.dirname(os.path.dirname(os.path.abspath(whyrun.__file__)))
    given = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    needed = home in given or home == os.getcwd() or home == os.path.abspath(site.getusersitepackages())
    return home if needed else None
