"""Images: only pixels count."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from whyrun.artifacts.compare.files import compare_files
from whyrun.artifacts.compare.result import CompareSettings, Comparison

Image = pytest.importorskip("PIL.Image")
from PIL.PngImagePlugin import PngInfo  # noqa: E402


def png(image: Any, **options: Any) -> bytes:
    data = io.BytesIO()
    image.save(data, options.pop("format", "PNG"), **options)
    return data.getvalue()


def picture(mode: str = "RGB", size: tuple[int, int] = (10, 8), colour: Any = 0) -> Any:
    return Image.new(mode, size, colour)


@pytest.fixture
def compare(tmp_path: Path):
    def comparing(old: bytes, new: bytes, type_: str = "image", suffix: str = ".png") -> Comparison:
        (tmp_path / "old").write_bytes(old)
        (tmp_path / "new").write_bytes(new)
        return compare_files(tmp_path / "old", tmp_path / "new", type_, suffix, CompareSettings())

    return comparing


def test_what_else_stands_in_the_file_does_not_count(compare) -> None:
    info = PngInfo()
    info.add_text("Software", "another version")
    found = compare(png(picture()), png(picture(), pnginfo=info))
    assert found == Comparison(True, "unchanged", ("the pixels are the same; only other data in the file differs",))


def test_pixels(compare) -> None:
    new = picture()
    for x, y in ((2, 3), (5, 3), (7, 6)):
        new.putpixel((x, y), (0, 0, 1))
    assert compare(png(picture()), png(new)) == Comparison(
        False, "3 pixels changed of 80", ("3 pixels within (2, 3)–(7, 6)",)
    )


def test_transparency_counts(compare) -> None:
    new = picture("RGBA")
    new.putpixel((0, 0), (0, 0, 0, 9))
    assert compare(png(picture("RGBA")), png(new)).summary == "1 pixel changed of 80"


def test_size(compare) -> None:
    found = compare(png(picture()), png(picture(size=(20, 8))))
    assert found == Comparison(False, "size 10×8 → 20×8", ("size: 10×8 → 20×8",))


def test_the_same_pixels_kept_otherwise(compare) -> None:
    found = compare(png(picture("RGB")), png(picture("L")))
    assert found == Comparison(True, "unchanged", ("colour mode: RGB → L",))
    assert compare(png(picture("P")), png(picture("RGB"))).identical


def test_numbers_instead_of_colours(compare) -> None:
    new = picture("I;16")
    new.putpixel((1, 1), 300)
    assert compare(png(picture("I;16")), png(new)).summary == "1 pixel changed of 80"
    assert compare(png(picture("I;16")), png(picture("I;16"), compress_level=0)).identical


def test_frames(compare) -> None:
    frames = [picture(colour=c) for c in ((255, 0, 0), (0, 255, 0), (0, 0, 255))]

    def film(*frames: Any) -> bytes:
        return png(frames[0], format="GIF", save_all=True, append_images=list(frames[1:]))

    assert compare(film(*frames), film(*frames[:2])).summary == "3 → 2 frames"
    found = compare(film(*frames), film(frames[0], frames[2], frames[1]))
    assert found == Comparison(
        False,
        "160 pixels changed of 240",
        ("frame 2: 80 pixels within (0, 0)–(9, 7)", "frame 3: 80 pixels within (0, 0)–(9, 7)"),
    )


def test_an_image_is_known_by_its_content_too(compare) -> None:
    assert compare(png(picture()), png(picture(colour=1)), "file", "").summary == "80 pixels changed of 80"


@pytest.mark.parametrize(
    "broken", [b"\x89PNG\r\n\x1a\n\0", png(Image.effect_noise((64, 64), 100))[:2000]], ids=["only a head", "cut"]
)
def test_an_image_that_cannot_be_read_is_compared_as_bytes(compare, broken: bytes) -> None:
    found = compare(png(picture()), broken)
    assert not found.identical
    assert found.details[0].startswith("not compared as an image: the version now is not a readable image: ")
    assert "different from byte" in found.summary


def test_an_image_with_too_many_pixels_is_not_opened(compare) -> None:
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
    found = compare(png(picture()), bomb + chunk(b"IEND", b""))
    assert not found.identical
    assert found.details[0].startswith("not compared as an image: the version now ")


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_colour_that_stands_for_nothing_counts(compare, mode: str) -> None:
    none = (0, 0, 0) if mode == "RGB" else 0
    found = compare(png(picture(mode)), png(picture(mode), transparency=none))
    assert found.summary == "80 pixels changed of 80"


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_numbers_and_colours_are_never_taken_for_each_other(compare, mode: str) -> None:
    """As colours, 1000 and 255 are both white."""
    white = picture(mode, colour=255 if mode == "L" else (255, 255, 255))
    found = compare(png(picture("I;16", colour=1000)), png(white))
    assert found == Comparison(False, f"pixels I;16 → {mode}", (f"number format: I;16 → {mode}",))


def test_a_frame_that_cannot_be_read(compare) -> None:
    def film(colour: int) -> bytes:
        noise = Image.effect_noise((40, 40), colour).convert("P")
        return png(picture("P", (40, 40)), format="GIF", save_all=True, append_images=[noise])

    found = compare(film(50)[:-300], film(70)[:-300], suffix=".gif")
    assert not found.identical
    assert found.details[0].startswith(
        "not compared as an image: frame 2 of the version before cannot be read: image file is truncated"
    )
