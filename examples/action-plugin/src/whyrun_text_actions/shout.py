"""`text/shout`: a function is enough for an action."""

from __future__ import annotations

from whyrun import action


@action("text/shout", outputs={"text": "text"}, version="1", deterministic=True)
def shout(text: str, marks: int = 1) -> dict[str, str]:
    """Make a text loud."""
    # A parameter of type `str` gets the content of a text file; without it, it would get the path.
    return {"text": text.upper().rstrip() + "!" * marks + "\n"}
