"""The order in which people expect IDs, and the pattern of all that are alike."""

from __future__ import annotations

import pytest

from whyrun.ids import IdPattern, any_index, by_number


def test_ids_are_sorted_by_the_numbers_of_their_indices() -> None:
    ordered = [
        "Artifact:A.B[9]",
        "Artifact:A.B[10].C[2]",
        "Artifact:A.B[10].C[11]",
        "Job:Fit",
        "Job:Fit[-2]",
        "Job:Fit[-1]",
        "Job:Fit[0][9]",
        "Job:Fit[0][10]",
        "Job:Fit[0.5]",
        "Job:Fit[1e+16]",
        "Job:Fit[100000000000000000000]",
        'Job:Fit["7"]',
        "Job:Fit[asia]",
    ]
    mixed = ordered[::-1]
    assert sorted(mixed, key=by_number) == ordered


@pytest.mark.parametrize(
    ("id_", "pattern"),
    [
        ("Job:Fit", "Job:Fit"),
        ("Job:Fit[asia][7]", "Job:Fit[*][*]"),
        ('Job:a/Fit["x]y"]', "Job:a/Fit[*]"),
        ("Artifact:A.B[0].Segments[12].Text", "Artifact:A.B[*].Segments[*].Text"),
    ],
)
def test_a_pattern_matches_what_it_was_made_from(id_: str, pattern: str) -> None:
    assert any_index(id_) == pattern
    assert IdPattern(pattern).matches(id_)
