"""`text/words`: a class, for typed parameters and what else an action may say of itself."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Any, Literal

from whyrun import Action, File, Meta, Parameters


class CountWords(Action):
    """Count the words of a text."""

    name, version = "text/words", "1"
    outputs = {"counts": "json"}
    deterministic = True
    example = """\
jobs:
  Words:
    uses: text/words
    with: {text: "${{ inputs.Poem }}", shortest: 4, order: name}
    outputs: {counts: {type: json}}
"""

    class Params(Parameters):
        text: File
        shortest: Annotated[int, Meta(ge=1, description="letters that a word must have to count")] = 1
        order: Literal["count", "name"] = "count"

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any]:
        text = inputs["text"].read_text(encoding="utf-8").lower()
        counts = Counter(word for word in re.findall(r"\w+", text) if len(word) >= inputs["shortest"])
        words = sorted(counts)
        if inputs["order"] == "count":
            words.sort(key=lambda word: -counts[word])
        if logger is not None:  # where there is one, its lines become lines of the run
            logger.log_task(self.name, "EXECUTES", f"{len(words)} words")
        return {"counts": [[word, counts[word]] for word in words]}

    def estimate_runtime(self, inputs: dict[str, Any]) -> float:
        """Seconds, for plans before there is a logged duration."""
        return 0.1 + float(inputs["text"].stat().st_size) / 50_000_000
