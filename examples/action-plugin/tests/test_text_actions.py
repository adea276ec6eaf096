"""Actions are plain Python: call them."""

from __future__ import annotations

from pathlib import Path

from whyrun_text_actions.shout import shout
from whyrun_text_actions.words import CountWords


def test_a_function_action_is_still_a_function() -> None:
    assert shout("hear me\n", marks=3) == {"text": "HEAR ME!!!\n"}


def test_words_are_counted(tmp_path: Path) -> None:
    poem = tmp_path / "poem.txt"
    poem.write_text("The rain in spring, the rain again.")
    counted = CountWords().run({"text": poem, "shortest": 4, "order": "count"})
    assert counted == {"counts": [["rain", 2], ["again", 1], ["spring", 1]]}
