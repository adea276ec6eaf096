"""Pictures that are lines of text, so that a test can read them."""

from pathlib import Path

from whyrun.actions.base import action


@action("image/sepia", outputs={"Image": "image"})
def sepia(caption, SourceImages):
    data = SourceImages[0].read_bytes()
    # Undeclared on purpose: it makes a failure that no input explains.
    if data.startswith(b"broken") or (Path(__file__).parent.parent / "decoder-is-broken").exists():
        raise OSError("cannot identify image file")
    return {"Image": data + b" in sepia: " + caption.encode() + b"\n"}


@action("image/montage", outputs={"Picture": "image"})
def montage(portraits, frames):
    return {"Picture": b"".join(path.read_bytes() for path in [*portraits, *frames])}
