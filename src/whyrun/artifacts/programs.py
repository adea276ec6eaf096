"""Which files can be executed. The content says it, so that the answer is the same everywhere and after every transfer:
modes of files do not count as content, and a store has none."""

from __future__ import annotations

_PROGRAMS = (b"#!", b"\x7fELF")


def is_program(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a script that names its interpreter, or a compiled program."""
    return head.startswith(_PROGRAMS)
