"""Lines are found by their number, with marks as without."""

from __future__ import annotations

import random
from pathlib import Path

from whyrun.log.lean_events import MARK, line_marks, read_lines


def test_lines_are_found_by_marks_as_by_reading_all(tmp_path: Path) -> None:
    chance = random.Random(7)
    path = tmp_path / "events.jsonl"
    for story in range(30):
        longest = chance.choice([3, 800, 3 * MARK])
        lines = [bytes([97 + i % 26]) * chance.randrange(longest) + b"\n" for i in range(chance.randrange(1, 400))]
        if story % 3 == 0:  # one ends exactly at a mark
            lines.insert(0, b"x" * (MARK - 1) + b"\n")
        path.write_bytes(b"".join(lines) + (b"torn" if story % 2 else b""))
        marks = line_marks(path)
        assert marks[-1] == len(lines)
        numbers = {1, len(lines), len(lines) + 5, *chance.sample(range(1, len(lines) + 1), min(3, len(lines)))}
        expected = {number: lines[number - 1] for number in numbers if number <= len(lines)}
        for wanted in (numbers, set(list(numbers)[:1]), set(range(1, len(lines) + 1)), set[int]()):
            known = {number: lines[number - 1] for number in wanted if number <= len(lines)}
            assert read_lines(path, wanted) == known
            assert read_lines(path, wanted, marks) == known
            assert read_lines(path, wanted, [*marks] * 1 + [marks[-1]] * 2000) == known  # as many as make it use them
        assert expected.items() <= read_lines(path, numbers, marks).items()
