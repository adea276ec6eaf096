"""The project's own actions. A function with `@action` is enough: files arrive as paths, outputs are files."""

from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from whyrun import action

PAPER, INK = (244, 236, 218), (74, 52, 32)
SIZE, EDGE, LABEL = 96, 6, 16


@action("image/sepia", outputs={"Image": "image"})
def sepia(SourceImages: list[Path], caption: str, context: Any) -> None:
    """An old print: brown tones on paper, with a caption."""
    with Image.open(SourceImages[0]) as photo:
        square = ImageOps.fit(photo.convert("L"), (SIZE, SIZE))
    brown = ImageOps.colorize(ImageOps.autocontrast(square), black=(44, 26, 14), white=(255, 240, 212))
    _print_of(brown, caption).save(context.output("Image"), format="PNG")


@action("image/frame", outputs={"Frame": "image"})
def frame(start: Path, number: int, context: Any) -> None:
    """The next frame of the film: a step closer and brighter than the one that it starts from."""
    with Image.open(start) as before:
        picture = before.convert("RGB").crop((EDGE, EDGE, EDGE + SIZE, EDGE + SIZE))
    closer = ImageOps.fit(picture.crop((8, 4, SIZE - 8, SIZE - 12)), (SIZE, SIZE))
    _print_of(ImageEnhance.Brightness(closer).enhance(1.08), f"segment {number}").save(context.output("Frame"))


@action("image/montage", outputs={"Picture": "image"})
def montage(portraits: list[Path], frames: list[Path], context: Any) -> None:
    """The portraits in one row, the frames of the film in the row below."""
    rows = [row for row in (portraits, frames) if row]
    wide, high = SIZE + 2 * EDGE, SIZE + EDGE + LABEL
    columns = max(len(row) for row in rows)
    sheet = Image.new("RGB", (columns * (wide + EDGE) + EDGE, len(rows) * (high + EDGE) + EDGE), INK)
    for y, row in enumerate(rows):
        for x, file in enumerate(row):
            with Image.open(file) as picture:
                sheet.paste(picture, (EDGE + x * (wide + EDGE), EDGE + y * (high + EDGE)))
    context.metric("pictures", len(portraits) + len(frames))
    sheet.save(context.output("Picture"))


def _print_of(picture: Image.Image, caption: str) -> Image.Image:
    paper = Image.new("RGB", (SIZE + 2 * EDGE, SIZE + EDGE + LABEL), PAPER)
    paper.paste(picture, (EDGE, EDGE))
    ImageDraw.Draw(paper).text((EDGE, SIZE + EDGE + 2), caption, fill=INK)
    return paper
