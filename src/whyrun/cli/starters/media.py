"""`whyrun init --example media`: a script decides segments, and an imported workflow makes each of them."""

from __future__ import annotations

FILES = {
    "workflow.yaml": """\
workflow: film
description: A script decides what is shown; each segment gets a picture and a voice; a page joins them

inputs:
  Topic:     {type: string, default: the sea}
  Style:     {type: string, default: dusk}            # dusk, dawn or noon
  Segments:  {type: integer, default: 3}
  WithVoice: {type: boolean, default: true}

loops:
  segment: {count: inputs.Segments}

imports:
  Shot:                                               # shot.yaml, once for each segment: Job:Shot[0]/Picture
    workflow: ./shot.yaml
    for: [segment]
    with:
      Title: ${{ jobs.Script.outputs.Story.Segments[segment].Title }}     # an artifact is handed in
      Style: ${{ inputs.Style }}
      WithVoice: ${{ inputs.WithVoice }}

jobs:
  Script:
    uses: python
    with: {call: "studio:script", topic: "${{ inputs.Topic }}", segments: "${{ inputs.Segments }}"}
    outputs:
      Story:
        type: json
        leaves:
          "Segments[segment].Title": string
          "Segments[segment].HasTransition": boolean

  Transition:                                         # from the picture before, where the script asks for it
    for: [segment]
    if: ${{ jobs.Script.outputs.Story.Segments[segment].HasTransition }}
    uses: python
    with:
      call: "studio:blend"
      before: ${{ first(jobs.Shot.Picture.outputs.Image[segment-1], jobs.Shot.Picture.outputs.Image[segment]) }}
      after: ${{ jobs.Shot.Picture.outputs.Image[segment] }}
    outputs: {Image: {type: image, path: "out/transition-${{ segment }}.png"}}

  Film:
    uses: python
    with:
      call: "studio:film"
      topic: ${{ inputs.Topic }}
      story: ${{ jobs.Script.outputs.Story }}
      pictures: ${{ named(jobs.Shot.Picture.outputs.Image[:]) }}          # a timeline that knows which is which
      transitions: ${{ named(jobs.Transition.outputs.Image[:]) }}
      voices: ${{ named(jobs.Shot.Voice.outputs.Sound[:]) }}
    outputs: {Page: {type: text, path: out/film.html}}
""",
    "shot.yaml": """\
workflow: shot
description: The picture and the voice of one segment; it also runs alone

inputs:
  Title:     {type: string, default: a try}
  Style:     {type: string, default: dusk}
  WithVoice: {type: boolean, default: true}

jobs:
  Picture:
    uses: python
    with: {call: "studio:picture", title: "${{ inputs.Title }}", style: "${{ inputs.Style }}"}
    outputs: {Image: {type: image, path: picture.png}}

  Voice:
    if: ${{ inputs.WithVoice }}
    uses: python
    with: {call: "studio:voice", text: "${{ inputs.Title }}"}
    outputs: {Sound: {type: file, path: voice.wav}}
""",
    "studio.py": '''\
"""Stand-ins for models that cost money: each makes a real file from its input, with the standard library alone.

To call a real service, change a job's `uses:` to `http/json`; the workflow stays as it is.
"""

import base64
import hashlib
import html
import io
import math
import struct
import wave
import zlib
from pathlib import Path

WIDTH, HEIGHT = 96, 54
COLOURS = {"dusk": (90, 40, 110), "dawn": (240, 170, 120), "noon": (120, 180, 240)}
VERBS = ("wakes", "moves", "rests", "turns", "shines", "sleeps")


def script(topic: str, segments: int) -> dict:
    """What a language model would answer: a title for each segment, and where a transition goes."""
    made = [{"Title": f"{topic} {VERBS[n % len(VERBS)]}", "HasTransition": n % 2 == 1} for n in range(segments)]
    return {"Story": {"Segments": made}}


def picture(title: str, style: str) -> dict:
    red, green, blue = COLOURS[style]
    seed = hashlib.sha256(title.encode()).digest()
    rows = [
        bytes(
            (colour * y // HEIGHT + seed[(x // 12 + number) % 32] // 4) % 256
            for x in range(WIDTH)
            for number, colour in enumerate((red, green, blue))
        )
        for y in range(HEIGHT)
    ]
    return {"Image": write_png(rows)}


def blend(before: Path, after: Path) -> dict:
    """Half of each picture."""
    pairs = zip(read_png(before), read_png(after), strict=True)
    return {"Image": write_png([bytes((a + b) // 2 for a, b in zip(*rows, strict=True)) for rows in pairs])}


def voice(text: str) -> dict:
    """One short tone for each word."""
    rate, sound = 8000, io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        for word in text.split():
            pitch = 220 + 20 * len(word)
            tone = (int(9000 * math.sin(2 * math.pi * pitch * n / rate)) for n in range(rate // 8))
            file.writeframes(b"".join(struct.pack("<h", level) for level in tone))
    return {"Sound": sound.getvalue()}


def film(topic: str, story: dict, pictures: dict, transitions: dict, voices: dict) -> dict:
    """A page that needs no other file."""
    parts = [f"<!doctype html><meta charset=utf-8><title>{html.escape(topic)}</title>"]
    for number, segment in enumerate(story["Segments"]):
        parts.append(f"<h2>{html.escape(segment['Title'])}</h2>")
        for image in (transitions.get(number), pictures[number]):
            if image is not None:
                parts.append(f'<img width=384 src="data:image/png;base64,{inline(image)}">')
        if number in voices:
            parts.append(f'<audio controls src="data:audio/wav;base64,{inline(voices[number])}"></audio>')
    return {"Page": "\\n".join(parts) + "\\n"}


def inline(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def write_png(rows: list[bytes]) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\\0" + row for row in rows), 9)
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def read_png(file: Path) -> list[bytes]:
    """The rows of a picture that `write_png` has made."""
    raw = file.read_bytes()
    at = raw.index(b"IDAT")
    size = struct.unpack(">I", raw[at - 4 : at])[0]
    data, step = zlib.decompress(raw[at + 4 : at + 4 + size]), 3 * WIDTH + 1
    return [data[n * step + 1 : (n + 1) * step] for n in range(HEIGHT)]
''',
    "README.md": """\
# A film of segments

A script decides the segments; `shot.yaml` makes the picture and the voice of each, and is imported once for each of
them. The models are stand-ins in `studio.py`: nothing is fetched, and nothing costs money.

    whyrun run                                   # out/film.html
    whyrun explain --set Style=dawn              # only the pictures and what is made of them
    whyrun run --set Segments=4                  # one more segment: the others stay as they are
    whyrun run shot.yaml --set Title=hello       # the imported workflow alone
    whyrun why 'Job:Shot[1]/Picture'
""",
}
