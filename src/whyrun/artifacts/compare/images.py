"""Compare images by their pixels; metadata does not count. Needs Pillow (extra `images`)."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from whyrun.artifacts.compare.result import CompareSettings, Comparison, Findings, Unreadable, counted
from whyrun.errors import to_install

_SIMPLE = frozenset({"1", "L", "LA", "RGB", "RGBA"})  # other modes are converted to RGBA, or compared as bytes
_NUMBERS = frozenset({"I", "F", "I;16", "I;16L", "I;16B"})  # more than one byte per pixel
_WIDE = _NUMBERS | frozenset({"CMYK", "YCbCr", "LAB", "HSV"})


def compare_images(old: Path, new: Path, settings: CompareSettings) -> Comparison:
    del settings
    if find_spec("PIL") is None:
        raise Unreadable(f"Pillow is not installed: {to_install('images')}")
    with old.open("rb") as old_file, new.open("rb") as new_file:
        return _compare(_read(old_file, "before"), _read(new_file, "now"))


def _read(file: BinaryIO, which: str) -> Any:
    image_module = import_module("PIL.Image")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", image_module.DecompressionBombWarning)
            image = image_module.open(file)
            image.load()
            return image
    # Pillow's own errors are OSErrors and ValueErrors, by format also SyntaxErrors.
    except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as problem:
        raise Unreadable(f"the version {which} is not a readable image: {_why(problem)}") from None
    except image_module.DecompressionBombWarning:
        raise Unreadable(f"the version {which} has too many pixels to be opened") from None


def _why(problem: BaseException) -> str:
    """The message without the file object, whose address changes."""
    return str(problem).split(" <_io", 1)[0] or type(problem).__name__


def _compare(before: Any, after: Any) -> Comparison:
    findings = Findings()
    frames = getattr(before, "n_frames", 1), getattr(after, "n_frames", 1)
    if before.size != after.size:
        was, now = (f"{image.width}×{image.height}" for image in (before, after))
        findings.add("size", f"size: {was} → {now}")
        return findings.result(f"size {was} → {now}")
    if frames[0] != frames[1]:
        findings.add("frames", f"frames: {frames[0]} → {frames[1]}")
        return findings.result(f"{frames[0]} → {counted(frames[1], 'frame')}")
    if before.mode != after.mode and _NUMBERS & {before.mode, after.mode}:
        # Neither can be converted to the other without losing precision.
        findings.add("mode", f"number format: {before.mode} → {after.mode}")
        return findings.result(f"pixels {before.mode} → {after.mode}")
    different = 0
    for frame in range(frames[0]):
        if frames[0] > 1:
            _seek(before, frame, "before")
            _seek(after, frame, "now")
        number, where = _different_pixels(before, after)
        if number:
            different += number
            at = f"frame {frame + 1}: " if frames[0] > 1 else ""
            findings.add("pixels", f"{at}{counted(number, 'pixel')} within {where}")
    if before.mode != after.mode:
        findings.notes.append(f"colour mode: {before.mode} → {after.mode}")
    if not different and not findings.notes:
        findings.notes.append("the pixels are the same; only other data in the file differs")
    total = before.width * before.height * frames[0]
    return findings.result(f"{counted(different, 'pixel')} changed of {total:,}")


def _seek(image: Any, frame: int, which: str) -> None:
    try:
        image.seek(frame)
        image.load()
    except (OSError, ValueError, SyntaxError, EOFError) as problem:
        what = f"frame {frame + 1} of the version {which} cannot be read"
        raise Unreadable(f"{what}: {_why(problem)}") from None


def _different_pixels(before: Any, after: Any) -> tuple[int, str]:
    """(number of different pixels, their bounding box)."""
    chops = import_module("PIL.ImageChops")
    if before.mode in _WIDE and before.mode == after.mode:
        old, new = before.tobytes(), after.tobytes()
        if old == new:
            return 0, ""
        step = max(1, len(old) // (before.width * before.height))
        number = sum(old[i : i + step] != new[i : i + step] for i in range(0, len(old), step))
        return number, f"{before.width}×{before.height}"
    plain = before.mode == after.mode and before.mode in _SIMPLE
    see_through = "transparency" in before.info or "transparency" in after.info  # one colour is transparent
    mode = before.mode if plain and not see_through else "RGBA"
    bands = [chops.difference(a, b) for a, b in zip(_bands(before, mode), _bands(after, mode), strict=True)]
    largest = bands[0]
    for band in bands[1:]:
        largest = chops.lighter(largest, band)
    box = largest.getbbox()
    if box is None:
        return 0, ""
    unchanged = largest.histogram()[0]
    return before.width * before.height - unchanged, f"({box[0]}, {box[1]})–({box[2] - 1}, {box[3] - 1})"


def _bands(image: Any, mode: str) -> list[Any]:
    return [band.convert("L") for band in image.convert(mode).split()]
