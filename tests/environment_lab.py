"""Wheels of a tiny library, made here, so that environments need no network."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence

from whyrun.environments.making import uv_program
from whyrun.errors import WhyrunError


def why_no_uv() -> str | None:
    try:
        uv_program()
    except WhyrunError as missing:
        return missing.diagnostics[0].message
    return None


def wheel(name: str, version: str, requires: Sequence[str] = ()) -> bytes:
    """A wheel with one module, whose `VERSION` is that of the wheel."""
    info = f"{name}-{version}.dist-info"
    wanted = "".join(f"Requires-Dist: {one}\n" for one in requires)
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{wanted}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return buffer.getvalue()


WHEELS = {
    "wheels/tinylib-1.0-py3-none-any.whl": wheel("tinylib", "1.0"),
    "wheels/tinylib-2.0-py3-none-any.whl": wheel("tinylib", "2.0"),
    "wheels/needy-1.0-py3-none-any.whl": wheel("needy", "1.0", ["tinylib"]),
}


def locked(*lines: str) -> str:
    return "\n".join(["--no-index", "--find-links wheels", *lines, ""])
