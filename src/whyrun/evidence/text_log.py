"""A log for people: text that is gathered and written in one go."""

from __future__ import annotations

import os

from whyrun import disk
from whyrun.disk import Area


class TextLog:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor = disk.open(Area.RUN, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._texts: list[str] = []

    def write(self, text: str) -> None:
        self._texts.append(text)

    def flush(self) -> None:
        if self._texts:
            # Forgotten before it is written: half of a line twice would be worse than one line that is lost.
            texts, self._texts = self._texts, []
            disk.write(Area.RUN, self._descriptor, "".join(texts).encode(errors="backslashreplace"))

    def close(self) -> None:
        """Flush and close. Closing twice is harmless."""
        if self._descriptor < 0:
            return
        try:
            self.flush()
        finally:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
