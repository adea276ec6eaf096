"""The script of the film: which segments begin with a transition."""

TITLES = {"cinema": "A night at the pictures", "harbour": "Where the ships were"}


def write(topic: str, segments: int) -> dict[str, object]:
    """A film about the cinema cuts hard into its second segment; every other topic glides all the way."""
    return {
        "Story": {
            "Title": TITLES.get(topic, topic.capitalize()),
            "Segments": [{"HasTransition": topic != "cinema" or number != 1} for number in range(segments)],
        }
    }
