from typing import Annotated

from whyrun import Action, File, Meta, Parameters


class Tally(Action):
    """Count the words of a text, and say what it does."""

    name, version = "text/tally", "1"
    outputs = {"Tally": "json", "Note": "json"}  # noqa: RUF012  # as its users write it

    class Params(Parameters):
        text: File
        least: Annotated[int, Meta(ge=1)] = 1

    def run(self, inputs, mode="dry-run", context=None, logger=None):
        words = inputs["text"].read_text().split()
        counts = {word: words.count(word) for word in sorted(set(words)) if len(word) >= inputs["least"]}
        top = sorted(counts, key=lambda word: (-counts[word], word))
        context.metric("rows_read", len(words), "rows")
        context.metric("rows_written", len(counts), "rows")
        for number, word in enumerate(top[:3], 1):
            context.task("EXECUTES", f"found “{word}”", {"times": counts[word]})
            context.progress(number, 3)
        print(f"{len(words)} words → {len(counts)} that are long enough and different")
        total = sum(counts.values())
        tally = {"Total": total, "Top": top, "IsLong": total > 5, "Counts": counts}
        return {"Tally": tally, "Note": {"by": "Count", "words": total}}
