"""Each comparer: equal content, different content with the complete result, unreadable files, limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whyrun.artifacts.compare.files import compare_files, compare_trees
from whyrun.artifacts.compare.result import (
    IDENTICAL,
    LONGEST,
    SHOWN,
    CompareSettings,
    Comparison,
    Findings,
    shortened,
)
from whyrun.artifacts.store import Store

PLAIN = CompareSettings()


@pytest.fixture
def compare(tmp_path: Path):
    """`compare(old, new, suffix=".csv")`: the answer for two contents."""

    def comparing(
        old: str | bytes, new: str | bytes, suffix: str = "", type_: str = "file", settings: CompareSettings = PLAIN
    ) -> Comparison:
        paths = []
        for name, content in (("old", old), ("new", new)):
            path = tmp_path / name  # stored bytes have no suffix either
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            paths.append(path)
        return compare_files(paths[0], paths[1], type_, suffix, settings)

    return comparing


# --- any file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".csv", ".json", ".graphml", ".png", ".parquet"])
def test_equal_bytes_are_never_opened(compare, suffix: str) -> None:
    assert compare(b"\0 neither this nor that", b"\0 neither this nor that", suffix) == IDENTICAL


def test_an_answer_holds_at_most_twenty_details_and_counts_the_rest() -> None:
    findings = Findings()
    for number in range(1000):
        findings.add("changed", f"detail {number}")
    found = findings.result("1,000 changes")
    assert found == Comparison(False, "1,000 changes", tuple(f"detail {n}" for n in range(SHOWN)), 980)
    noted = found.with_note("a note")
    assert noted == Comparison(False, "1,000 changes", ("a note", *(f"detail {n}" for n in range(SHOWN - 1))), 981)
    assert found.to_json() == {
        "identical": False,
        "summary": "1,000 changes",
        "details": [f"detail {n}" for n in range(SHOWN)],
        "more": 980,
    }


def test_a_detail_is_one_printable_line_of_bounded_length() -> None:
    assert shortened("a\tb\nc\x1b[31m") == "a\\tb\\nc\\x1b[31m"
    assert shortened("x" * 1000) == "x" * (LONGEST - 1) + "…"
    assert shortened("\udcff") == "\\udcff"


# --- bytes -------------------------------------------------------------------------------------------------------


def test_bytes(compare) -> None:
    found = compare(b"\0\1\2\3", b"\0\1\xff\3")
    assert found == Comparison(
        False, "4 bytes, different from byte 2", (
            "byte 2 before: 02 03",
            "byte 2 now: ff 03",
        ),
    )  # fmt: skip


def test_bytes_of_which_one_is_the_beginning_of_the_other(compare) -> None:
    found = compare(b"\0\1", b"\0\1\2")
    assert (found.identical, found.summary) == (False, "2 → 3 bytes, different from byte 2")
    assert found.details == ("byte 2 before: the end", "byte 2 now: 02")


def test_bytes_that_part_far_inside(compare) -> None:
    old = b"\0" * 200_000
    assert compare(old + b"a", old + b"b").summary == "200,001 bytes, different from byte 200,000"


# --- text --------------------------------------------------------------------------------------------------------


def test_text(compare) -> None:
    found = compare("one\ntwo\nthree\nfour\n", "one\n2\nthree\nthree and a half\nfour\nfive\n")
    assert found == Comparison(
        False,
        "1 line changed, 2 added",
        ("line 2: `two` → `2`", "line 4 added: `three and a half`", "line 6 added: `five`"),
    )


def test_text_with_lines_removed(compare) -> None:
    found = compare("a\nb\nc\nd\n", "a\nd\n")
    assert found == Comparison(False, "2 lines removed", ("line 2 removed: `b`", "line 3 removed: `c`"))


@pytest.mark.parametrize(
    ("old", "new", "detail"),
    [
        ("a\nb\n", "a\r\nb\r\n", "line ends: 0 CRLF of 2 → 2 CRLF of 2"),
        ("a\nb\n", "a\nb", "line ends: 0 CRLF of 2 → 0 CRLF of 1, none at the end"),
    ],
)
def test_text_that_differs_in_its_line_ends_alone(compare, old: str, new: str, detail: str) -> None:
    assert compare(old, new) == Comparison(False, "line ends differ", (detail,))


def test_text_that_differs_in_its_byte_order_mark_alone(compare) -> None:
    marked = b"\xef\xbb\xbfa\n"
    difference = Comparison(False, "byte order mark differs", ("byte order mark: none → there",))
    assert compare(b"a\n", marked, type_="text") == difference
    assert compare(marked, b"a\n", ".txt").details == ("byte order mark: there → none",)


def test_huge_texts_are_counted_and_not_aligned(compare) -> None:
    found = compare("".join(f"old {n}\n" for n in range(50_000)), "".join(f"new {n}\n" for n in range(60_000)))
    assert (found.identical, found.summary) == (False, "60,000 lines added, 50,000 removed")
    assert found.details[:2] == (
        "from line 1 on, too much differs to align the lines: they are only counted",
        "added: `new 0`",
    )
    assert (len(found.details), found.more) == (SHOWN, 110_001 - SHOWN)


def test_huge_texts_in_another_order(compare) -> None:
    lines = [f"{n}\n" for n in range(5000)]
    found = compare("".join(lines), "".join(reversed(lines)))
    assert (found.identical, found.summary) == (False, "5,000 lines changed")
    assert found.details[1] == "the same lines in another order"


# --- JSON --------------------------------------------------------------------------------------------------------


def test_json(compare) -> None:
    old = {"a": 1, "b": [1, 2, 3], "gone": {"x": 1}, "same": True, "odd key": "x"}
    new = {"b": [1, 5], "a": "1", "same": True, "come": [1], "odd key": "y"}
    found = compare(json.dumps(old), json.dumps(new), type_="json")
    assert found == Comparison(
        False,
        "3 values changed, 1 added, 2 removed",
        (
            '$.gone removed: {"x": 1}',
            "$.come added: [1]",
            '$.a: 1 → "1"',
            "$.b[2] removed: 3",
            "$.b[1]: 2 → 5",
            '$["odd key"]: "x" → "y"',
        ),
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}'),
        ('{"a": 1}', '{\n  "a": 1.0\n}\n'),
        ('"\\u00e9"', '"é"'),
        ('{"a": NaN}', '{"a":  NaN}'),
    ],
)
def test_json_that_is_only_written_differently_is_identical(compare, old: str, new: str) -> None:
    assert compare(old, new, ".json") == Comparison(
        True, "unchanged", ("the values are the same, but written differently",)
    )


def test_json_true_is_not_one(compare) -> None:
    assert compare("[1]", "[true]", ".json") == Comparison(False, "1 value changed", ("$[0]: 1 → true",))


def test_json_numbers_within_the_tolerance(compare) -> None:
    near = CompareSettings(tolerance=1e-6)
    found = compare('{"a": 0.1, "b": 1e9}', '{"a": 0.10000001, "b": 1000000001.0}', ".json", settings=near)
    assert found == Comparison(True, "unchanged", ("2 numbers differ within the tolerance of 1e-06",))
    found = compare('{"a": 0.1, "b": 1}', '{"a": 0.10000001, "b": 2}', ".json", settings=near)
    assert found == Comparison(
        False, "1 value changed", ("1 number differs within the tolerance of 1e-06", "$.b: 1 → 2")
    )
    assert compare('{"a": 0.1}', '{"a": 0.10000001}', ".json").summary == "1 value changed"


@pytest.mark.parametrize("tolerance", [0.0, 1e-6])
def test_json_numbers_beyond_any_float(compare, tolerance: float) -> None:
    settings = CompareSettings(tolerance=tolerance)
    found = compare("1" + "0" * 400, "2" + "0" * 400, ".json", settings=settings)
    assert found.summary == "1 value changed"
    assert compare("1" + "0" * 400, "1.5", ".json", settings=settings).summary == "1 value changed"


def test_a_value_output_is_compared_as_what_it_is(compare) -> None:
    assert compare("3", "4", type_="integer") == Comparison(False, "1 value changed", ("$: 3 → 4",))


def test_json_that_is_none_is_compared_as_text(compare) -> None:
    found = compare('{"a": 1}', "{'a': 1}", ".json")
    assert (found.identical, found.summary) == (False, "1 line changed")
    assert found.details == (
        "not compared as JSON: the version now is not valid JSON: "
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "line 1: `{\"a\": 1}` → `{'a': 1}`",
    )


def test_json_that_nests_too_deeply_is_compared_as_text(compare) -> None:
    found = compare("[" * 100_000 + "]" * 100_000, "[]", ".json")
    assert found.details[0] == "not compared as JSON: the version before is nested too deeply"


def test_huge_json_differences_are_bounded(compare) -> None:
    found = compare(json.dumps(list(range(100_000))), json.dumps([n + 1 for n in range(100_000)]), ".json")
    assert (found.summary, len(found.details), found.more) == ("100,000 values changed", SHOWN, 100_000 - SHOWN)


# --- tables ------------------------------------------------------------------------------------------------------


def test_a_table_by_its_keys(compare) -> None:
    old = "id,name,price\n1,apple,1.0\n2,pear,2.0\n3,plum,3.0\n"
    new = "id,price,name,colour\n3,3.0,plum,blue\n1,1.5,apple,red\n4,4.0,fig,green\n"
    found = compare(old, new, ".csv", settings=CompareSettings(keys=("id",)))
    assert found == Comparison(
        False,
        "1 column added, 1 row added, 1 removed, 1 cell changed",
        (
            "the columns are in another order",
            "column `colour` added",
            "row id=1, `price`: 1.0 → 1.5",
            "row id=2 removed",
            "row id=4 added",
        ),
    )


def test_a_table_with_keys_may_be_sorted_otherwise(compare) -> None:
    found = compare("a,b\n1,x\n2,y\n", "a,b\n2,y\n1,x\n", ".csv", settings=CompareSettings(keys=("a",)))
    assert found == Comparison(True, "unchanged", ("the rows are in another order",))


def test_a_table_without_keys_is_compared_in_order(compare) -> None:
    found = compare("a\tb\n1\tx\n2\ty\n", "a\tb\n1\tz\n2\ty\n", ".tsv")
    assert found == Comparison(False, "1 cell changed", ("row 1, `b`: x → z",))
    found = compare("a,b\n1,x\n2,y\n", "a,b\n2,y\n1,x\n", ".csv")
    assert found == Comparison(False, "2 rows moved", ("the same rows in another order, from row 1 on",))


def test_rows_that_come_between_are_told_from_changed_ones(compare) -> None:
    found = compare("a,b\n1,x\n2,y\n3,z\n", "a,b\n1,x\n9,w\n2,y\n3,z\n", ".csv")
    assert found == Comparison(False, "1 row added", ("row 2 (9, w) added",))
    found = compare("a;b\n1;x\n2;y\n3;z\n", "a;b\n1;x\n3;z\n", ".csv")
    assert found == Comparison(False, "1 row removed", ("row 2 (2, y) removed",))


def test_table_numbers_within_the_tolerance(compare) -> None:
    near = CompareSettings(tolerance=1e-3)
    found = compare("a,b\n1.0000,x\n2,y\n", "a,b\n1.0001,x\n2.0,y\n", ".csv", settings=near)
    assert found == Comparison(True, "unchanged", ("1 number differs within the tolerance of 0.001",))
    assert compare("a\n1.0\n", "a\n1.00\n", ".csv", settings=near).identical
    assert compare("a\nnan\n", "a\nNaN\n", ".csv", settings=near).identical


def test_text_in_a_table_is_no_number(compare) -> None:
    assert compare("v\n1.10\n", "v\n1.1\n", ".csv").summary == "1 cell changed"  # it may be a version
    near = CompareSettings(tolerance=1.0)
    assert compare("id\n007\n", "id\n7\n", ".csv", settings=near).summary == "1 cell changed"


def test_quoting_is_no_content(compare) -> None:
    found = compare('a,b\n"1",x\n', "a,b\r\n1,x\r\n", ".csv")
    assert found == Comparison(True, "unchanged", ("the cells are the same, but written differently",))


@pytest.mark.parametrize(
    ("new", "keys", "note"),
    [
        ("a,b\n1,z\n2,y\n", ("id",), "the key `id` is not a column of both versions: rows are compared in order"),
        ("a,b\n1,z\n1,y\n", ("a",), "rows with the same key in the version now: rows are compared in order"),
    ],
)
def test_keys_that_are_none(compare, new: str, keys: tuple[str, ...], note: str) -> None:
    found = compare("a,b\n1,x\n2,y\n", new, ".csv", settings=CompareSettings(keys=keys))
    assert (found.identical, found.details[0]) == (False, note)
    assert "row 1, `b`: x → z" in found.details


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ("a,b\n1,x,2\n", "row 1 of the version now has 3 cells for 2 columns"),
        ("a,a\n1,x\n", "the version now has two columns of one name"),
        ('a,b\n"1,x\n', "the version now is not a valid table: unexpected end of data"),
    ],
)
def test_a_table_that_is_none_is_compared_as_text(compare, new: str, why: str) -> None:
    found = compare("a,b\n1,x\n", new, ".csv")
    assert not found.identical
    assert found.details[0] == f"not compared as a table: {why}"


def test_an_empty_table(compare) -> None:
    assert compare("", "a,b\n1,x\n", ".csv") == Comparison(
        False, "2 columns added, 1 row added", ("column `a` added", "column `b` added", "row 1 () added")
    )


def test_huge_table_differences_are_bounded(compare) -> None:
    old = "a,b\n" + "".join(f"{n},0\n" for n in range(50_000))
    new = "a,b\n" + "".join(f"{n},1\n" for n in range(50_000))
    found = compare(old, new, ".csv", settings=CompareSettings(keys=("a",)))
    assert (found.summary, len(found.details), found.more) == ("50,000 cells changed", SHOWN, 50_000 - SHOWN)
    assert found.details[0] == "row a=0, `b`: 0 → 1"


# --- parquet -----------------------------------------------------------------------------------------------------


def test_parquet_without_a_reader_is_compared_as_bytes_and_says_so(tmp_path: Path) -> None:
    """In a Python that has neither library: `-S` leaves out everything that was installed but the standard library."""
    import subprocess
    import sys

    import msgspec

    import whyrun

    (tmp_path / "old").write_bytes(b"PAR1 old PAR1\0")
    (tmp_path / "new").write_bytes(b"PAR1 new PAR1\0")
    program = (
        "import sys; from pathlib import Path\n"
        "from whyrun.artifacts.compare.files import compare_files\n"
        "from whyrun.artifacts.compare.result import CompareSettings\n"
        "print(compare_files(Path('old'), Path('new'), 'file', '.parquet', CompareSettings()))\n"
        "print(compare_files(Path('old'), Path('new'), 'image', '.png', CompareSettings()))\n"
    )
    places = tmp_path / "places"
    places.mkdir()
    (places / "whyrun").symlink_to(Path(whyrun.__file__).parent)
    (places / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(places)},
        capture_output=True,
        text=True,
        check=True,
    )
    summary = "summary='14 bytes, different from byte 5'"
    parquet, image = done.stdout.splitlines()
    assert summary in parquet
    assert "not compared as Parquet: neither pyarrow nor duckdb is installed" in parquet
    assert summary in image
    assert "not compared as an image: Pillow is not installed: `pip install 'whyrun[images]'`" in image


def test_parquet_tables(compare, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def written(name: str, columns: dict[str, list[object]], **options: object) -> bytes:
        parquet.write_table(arrow.table(columns), str(tmp_path / name), **options)
        return (tmp_path / name).read_bytes()

    old = written("a.parquet", {"id": [1, 2, 3], "x": [1.0, 2.0, float("nan")]})
    same = written("b.parquet", {"id": [1, 2, 3], "x": [1.0, 2.0, float("nan")]}, compression="none")
    new = written("c.parquet", {"id": [1, 3], "x": [1.5, float("nan")], "y": ["a", "b"]})
    assert compare(old, same, ".parquet").identical
    found = compare(old, new, ".parquet", settings=CompareSettings(keys=("id",)))
    assert found == Comparison(
        False,
        "1 column added, 1 row removed, 1 cell changed",
        ("column `y` added", "row id=1, `x`: 1.0 → 1.5", "row id=2 removed"),
    )
    assert compare(old, b"PAR1 broken", ".parquet").details[0].startswith("not compared as Parquet: the version now")


# --- folders -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path: Path):
    store = Store(tmp_path / "store")
    made = 0

    def comparing(old: dict[str, str | None], new: dict[str, str | None], executable: str | None = None) -> Comparison:
        nonlocal made
        trees = []
        for files in (old, new):
            made += 1
            root = tmp_path / f"folder{made}"
            root.mkdir()
            for name, content in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.mkdir() if content is None else path.write_text(content)
            if executable is not None and files is new:
                (root / executable).chmod(0o755)
            trees.append(store.read_tree(store.put_tree(root)[0]))
        return compare_trees(trees[0], trees[1], lambda sha256: Path(store.path(sha256)), PLAIN)

    return comparing


def test_folders_member_by_member(folders) -> None:
    found = folders(
        {"a.json": '{"x": 1}', "b/c.csv": "a,b\n1,2\n", "gone.txt": "x", "same.txt": "same", "old": None},
        {"a.json": '{"x": 2}', "b/c.csv": "a,b\n1,3\n", "come.txt": "x", "same.txt": "same", "new": None},
    )
    assert found == Comparison(
        False,
        "2 files changed, 1 added, 1 removed, 1 empty folder added, 1 removed",
        (
            "a.json: 1 value changed ($.x: 1 → 2)",
            "b/c.csv: 1 cell changed (row 1, `b`: 2 → 3)",
            "come.txt added",
            "gone.txt removed",
            "empty folder new added",
            "empty folder old removed",
        ),
    )


def test_folders_whose_files_are_only_written_differently(folders) -> None:
    found = folders({"a.json": '{"x": 1, "y": 2}'}, {"a.json": '{"y": 2, "x": 1}'})
    assert found == Comparison(
        True, "unchanged", ("a.json: unchanged; the values are the same, but written differently",)
    )


def test_what_may_be_executed_is_content(folders) -> None:
    assert folders({"a.sh": "x"}, {"a.sh": "x"}, executable="a.sh") == Comparison(
        False, "1 file changed", ("a.sh: now executable",)
    )


def test_the_tolerance_is_for_fractions_and_never_for_whole_numbers(tmp_path: Path) -> None:
    """1000001 and 1000002 differ by a millionth, and are two firms."""
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("firm,share\n1000001,0.5000000\n")
    new.write_text("firm,share\n1000002,0.5000001\n")
    found = compare_files(old, new, "dataset", ".csv", CompareSettings(tolerance=1e-5))
    assert not found.identical
    assert any("1000001 → 1000002" in detail for detail in found.details)
    new.write_text("firm,share\n1000001,0.5000001\n")
    assert compare_files(old, new, "dataset", ".csv", CompareSettings(tolerance=1e-5)).identical
