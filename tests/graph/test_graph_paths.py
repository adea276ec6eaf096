"""What is said of whole columns of paths is what a look at each of them says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from project_lab import Lab
from whyrun.graph.fingerprint import array_sha256, input_form, input_tokens, token
from whyrun.graph.paths import LoopWords, are_all_plain, folders_of, loop_paths, same_path, surely_apart
from whyrun.workflow.model import Opens, Type
from whyrun.workflow.values import InputValue

texts = st.text(st.sampled_from("ab1/-_. :"), max_size=4)
words = st.one_of(st.integers(0, 12), st.sampled_from(["a", "b", "a/b", ".", "x y", "1", "w" * 130]))


def paths_of(parts: list[str | None], values: list[object]) -> tuple[list[str | LoopWords], list[str]]:
    """A template in which None stands for the loop variable: as parts, and as the paths that it comes to."""
    loop = LoopWords([(value,) for value in values], 0)  # type: ignore[misc]  # indices
    return [loop if part is None else part for part in parts], [
        "".join(str(value) if part is None else part for part in parts) for value in values
    ]


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[str | LoopWords], list[str]]:
    values = draw(st.lists(words, min_size=1, max_size=4, unique=True))
    parts = draw(st.lists(st.one_of(texts, st.none()), min_size=1, max_size=4))
    return paths_of(parts, values)


@given(columns())
def test_a_column_has_the_paths_of_its_rows(column: tuple[list[str | LoopWords], list[str]]) -> None:
    parts, expected = column
    found = loop_paths(parts, len(expected))
    assert found.texts == expected
    assert found.are_plain == are_all_plain(expected)
    if found.head is not None:
        assert len(set(expected)) == len(expected)
        assert {path.rpartition("/")[0] for path in expected} == {found.head.rpartition("/")[0]}


@given(st.lists(columns(), min_size=1, max_size=4), st.lists(texts, max_size=3))
def test_what_is_surely_apart_is_apart(found: list[tuple[list[str | LoopWords], list[str]]], inputs: list[str]) -> None:
    made = [loop_paths(parts, len(expected)) for parts, expected in found]
    if not surely_apart([column.head if column.are_plain else None for column in made], inputs):
        return
    everything = [path for column in made for path in column.texts]
    assert len(set(everything)) == len(everything)
    assert not any(one in folders_of(other) for one in everything for other in everything)
    assert not set(everything) & set(inputs)
    assert not any(
        one in folders_of(other) or other in (*folders_of(one), ".") for one in everything for other in inputs
    )
    assert not any(set(one.texts) & set(other.texts) for one, other in combinations(made, 2))


def test_the_usual_layouts_need_no_look_at_each_path() -> None:
    loop = LoopWords([(i,) for i in range(11)], 0)
    heads = [loop_paths([f"out/s{stage}-", loop, ".txt"], 11).head for stage in (0, 1, 10)]
    assert heads == ["out/s0-", "out/s1-", "out/s10-"]
    montage = same_path("out/montage.png", 1)
    assert surely_apart([*heads, montage.head], ["src/0.txt", "out.txt"])
    for other in ("out/s1-3.txt", "out/s1-3.txt/inside", "out", "."):
        assert not surely_apart([*heads, montage.head], [other]), other
    assert not surely_apart(["out/s", *heads], [])
    assert not surely_apart([*heads, "out"], [])
    assert not surely_apart([*heads, None], [])
    assert same_path("out/a.txt", 2).head is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["file", "text"]), st.text(st.sampled_from("ab1/.-_ü+"), min_size=1, max_size=8))
    ),
    st.sampled_from(Opens),
)
def test_tokens_of_many_inputs_are_those_of_each(files: list[tuple[str, str]], opens: Opens) -> None:
    values = [InputValue(Type(type_), path, "0" * 64, None, path) for type_, path in files]
    values += [
        InputValue(Type("string"), "x", "1" * 64, None, None),
        InputValue(Type("directory"), "d", "2" * 64, None, "d.x"),
    ]
    values.append(InputValue(Type("file", 1), [], "3" * 64, (), None))
    values.append(InputValue(Type("text", 1), ["a.txt"], "4" * 64, (A_TEXT,), None))
    assert input_tokens(values, opens) == [token(input_form(value, opens), value.sha256) for value in values]


A_TEXT, A_FILE = (InputValue(Type(type_), "a.txt", "5" * 64, None, "a.txt") for type_ in ("text", "file"))


@pytest.mark.parametrize(
    ("value", "forms"),
    [
        (A_TEXT, ("f.txt", "t.txt", "t.txt")),
        (A_FILE, ("f.txt", "f.txt", "f.txt")),
        (InputValue(Type("text"), None, "0" * 64, None, None), ("f", "f", "f")),  # not given
        (InputValue(Type("text"), "a", "0" * 64, None, "a"), ("f", "t", "t")),
        (InputValue(Type("directory"), "a.d", "0" * 64, None, "a.d"), ("d", "d", "d")),
        (InputValue(Type("string"), "text", "0" * 64, None, None), ("v", "v", "v")),
        (InputValue(Type("text", 1), ["a.txt"], "0" * 64, (A_TEXT,), None), ("a", "a", "at")),
        (InputValue(Type("file", 1), ["a.txt"], "0" * 64, (A_FILE,), None), ("a", "a", "a")),
        (InputValue(Type("text", 1), [], "0" * 64, (), None), ("a", "a", "a")),
    ],
)
def test_the_form_of_an_input_is_that_of_a_text_only_where_texts_are_opened(
    value: InputValue, forms: tuple[str, str, str]
) -> None:
    assert tuple(input_form(value, opens) for opens in Opens) == forms
    assert input_form(value) == forms[0]


def test_the_hash_of_an_array_does_not_say_whether_its_files_are_texts() -> None:
    assert array_sha256([A_TEXT]) == array_sha256([A_FILE])


def test_within_lists_texts_are_opened_only_by_who_opens_them_anywhere() -> None:
    assert [opens.inside for opens in Opens] == [Opens.NOWHERE, Opens.NOWHERE, Opens.ANYWHERE]


LONG = """
    workflow: w
    inputs: {{T: {{type: string, default: t}}}}
    loops: {{p: {{values: [short, {long}]}}, q: {{count: 2}}}}
    jobs:
      A:
        for: [p, q]
        uses: shell
        with: {{run: 'echo 1 > "$out_T"'}}
        outputs: {{T: {{type: text, path: "{path}"}}}}
"""


@pytest.mark.parametrize(
    ("path", "long", "why"),
    [
        ("o/${{ p }}-${{ q }}.txt", "w" * 250, "a name in it is longer than 255 bytes"),
        ("o/${{ p }}${{ p }}-${{ q }}.txt", "w" * 126, "a name in it is longer than 255 bytes"),
        ("o/${{ inputs.T }}${{ p }}-${{ q }}.txt", "ü" * 126, "a name in it is longer than 255 bytes"),
        ("${{ p }}/" * 16 + "${{ q }}.txt", "w" * 200, "it is longer than 3,000 bytes"),
        ("o/${{ p }}-${{ q }}.txt", "w" * 249, None),
        ("${{ p }}/" * 14 + "${{ q }}.txt", "w" * 200, None),
    ],
)
def test_a_path_that_no_file_system_has_is_told_before_anything_is_paid(
    project: Callable[..., Lab], path: str, long: str, why: str | None
) -> None:
    lab = project(LONG.format(path=path, long=long))
    problems = [(one.code, one.message.rpartition(": ")[2], one.line) for one in lab.opened().problems]
    assert problems == ([] if why is None else [("PATH_OUTSIDE", why, 10)] * 2)
    if why is None:
        assert len(lab.succeed().executed) == 4
