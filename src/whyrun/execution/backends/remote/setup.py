"""Prepares a bare machine for a worker: `python3 remote_setup.py BUNDLE FOLDER SHA256 NEED…`.

Runs there together with `unpack.py`, so it uses only the standard library, and only syntax that an older Python
understands. Unpacks the bundle and prints, one a line, the requirements that the Python there does not fulfil. `NEED`
are Whyrun's own; those of the project are in its `requirements.txt`.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module, metadata

OLDEST = (3, 11)


def unfulfilled(line: str) -> bool:
    """Whether pip has to install something for this line. True for every line that only pip understands."""
    text = re.sub(r"(^|\s)#.*$", "", line).strip()
    if not text:
        return False
    if text.startswith("-") or "@" in text or "[" in text or text.endswith("\\"):
        return True
    try:
        from pip._vendor.packaging.requirements import InvalidRequirement, Requirement
    except ImportError:  # without pip nothing can be installed, so only the name is checked
        name = re.match(r"[\w.-]+", text)
        return name is None or not _is_installed(name[0])
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return True
    if requirement.marker is not None and not requirement.marker.evaluate():
        return False
    if not _is_installed(requirement.name):
        return True
    return not requirement.specifier.contains(metadata.version(requirement.name), prereleases=True)


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def main(bundle: str, folder: str, sha256: str, *needs: str) -> None:
    if sys.version_info < OLDEST:
        here = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"the python3 of the sandbox is {here}, and Whyrun needs {'.'.join(map(str, OLDEST))} or newer")
    import_module("unpack").main(bundle, folder, sha256)  # sent together with this file
    lines = list(needs)
    requirements = os.path.join(folder, "project", "requirements.txt")
    if os.path.isfile(requirements):
        with open(requirements, encoding="utf-8") as file:
            lines += file.read().split("\n")
    for line in lines:
        if unfulfilled(line):
            print(line.strip())


if __name__ == "__main__":
    main(*sys.argv[1:])
