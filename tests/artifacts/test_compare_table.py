"""The table of comparers: every row is chosen, tested, documented and honours exactly the settings that it names."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from whyrun.artifacts.compare.files import COMPARERS, Comparer, compare_files, kind_of
from whyrun.artifacts.compare.result import CompareSettings, Comparison

DOCS = Path(__file__).resolve().parents[2] / "docs" / "compare.md"
SETTINGS = {"keys": CompareSettings(keys=("id",)), "tolerance": CompareSettings(tolerance=0.01)}
Content = bytes | str


class Example(NamedTuple):
    """Contents of one kind, without a suffix where the kind is known without."""

    old: Content
    same: Content | None  # written differently, and identical; None: there is no such content
    new: Content
    summary: str  # of old and new
    suffix: str = ""
    # By setting that the comparer honours: two contents that differ without it, and are identical with it.
    honours: Mapping[str, tuple[Content, Content]] = MappingProxyType({})


def graph(number: str, edges: str = "") -> str:
    key = '<key id="d" for="node" attr.name="x" attr.type="double"/>'
    node = f'<node id="a"><data key="d">{number}</data></node>'
    return f'<graphml>{key}<graph edgedefault="directed">{node}<node id="b"/>{edges}</graph></graphml>'


def png(colour: int, **options: Any) -> bytes:
    image = pytest.importorskip("PIL.Image")
    data = io.BytesIO()
    image.new("RGB", (4, 4), colour).save(data, "PNG", **options)
    return data.getvalue()


def parquet(ids: list[int], values: list[float], **options: Any) -> bytes:
    arrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    data = io.BytesIO()
    writer.write_table(arrow.table({"id": ids, "x": values}), data, **options)
    return data.getvalue()


def examples(kind: str) -> Example:
    """Made on demand, because some need a library."""
    match kind:
        case "json":
            near = {"tolerance": ("[1.0]", "[1.001]")}
            return Example('{"a": 1, "b": 2}', '{"b":2,"a":1}', '{"a": 1, "b": 3}', "1 value changed", ".json", near)
        case "table":
            honours: dict[str, tuple[Content, Content]] = {
                "keys": ("id,x\n1,a\n2,b\n", "id,x\n2,b\n1,a\n"),
                "tolerance": ("id,x\n1,1.0\n", "id,x\n1,1.001\n"),
            }
            return Example("id,x\n1,a\n", 'id,x\n"1",a\n', "id,x\n1,b\n", "1 cell changed", ".csv", honours)
        case "parquet":
            honours = {
                "keys": (parquet([1, 2], [1.0, 2.0]), parquet([2, 1], [2.0, 1.0])),
                "tolerance": (parquet([1], [1.0]), parquet([1], [1.001])),
            }
            old, same, new = parquet([1], [1.0]), parquet([1], [1.0], compression="none"), parquet([1], [2.0])
            return Example(old, same, new, "1 cell changed", honours=honours)
        case "graph":
            honours = {"tolerance": (graph("1.0"), graph("1.001"))}
            edge = '<edge source="a" target="b"/>'
            return Example(graph("1"), graph("1.0"), graph("1", edge), "1 edge change", honours=honours)
        case "image":
            return Example(png(0), png(0, compress_level=0), png(9), "16 pixels changed of 16")
        case "text":
            return Example("a\n", None, "b\n", "1 line changed")
        case "bytes":
            return Example(b"\0a", None, b"\0b", "2 bytes, different from byte 1")
    raise AssertionError(f"write an example of two contents of the kind `{kind}`")


def compared(folder: Path, old: Content, new: Content, suffix: str, settings: CompareSettings) -> Comparison:
    paths = folder / "old", folder / "new"
    for path, content in zip(paths, (old, new), strict=True):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return compare_files(*paths, "file", suffix, settings)


@pytest.mark.parametrize("kind", COMPARERS)
def test_every_comparer_is_chosen_and_tells_what_differs(kind: str, tmp_path: Path) -> None:
    example = examples(kind)
    found = compared(tmp_path, example.old, example.new, example.suffix, CompareSettings())
    assert (found.identical, found.summary) == (False, example.summary)
    if kind != "bytes":  # is chosen if a file is not text
        assert kind_of(tmp_path / "old", tmp_path / "new", "file", example.suffix) == kind
        assert not any(detail.startswith("not compared as") for detail in found.details)
    if example.same is None:
        assert COMPARERS[kind].identical_if == "never"
    else:
        assert example.same != example.old
        assert compared(tmp_path, example.old, example.same, example.suffix, CompareSettings()).identical


@pytest.mark.parametrize("kind", COMPARERS)
def test_every_comparer_honours_the_settings_that_its_row_names(kind: str, tmp_path: Path) -> None:
    """If this fails for a new setting: name it in the rows of the comparers that honour it, with an example here."""
    example = examples(kind)
    assert tuple(SETTINGS) == CompareSettings.__struct_fields__
    assert tuple(sorted(example.honours)) == tuple(sorted(COMPARERS[kind].settings))
    for setting, (old, new) in example.honours.items():
        assert not compared(tmp_path, old, new, example.suffix, CompareSettings()).identical, setting
        assert compared(tmp_path, old, new, example.suffix, SETTINGS[setting]).identical, setting


@pytest.mark.parametrize("kind", COMPARERS)
def test_no_comparer_honours_a_setting_that_its_row_does_not_name(kind: str, tmp_path: Path) -> None:
    example = examples(kind)
    plain = compared(tmp_path, example.old, example.new, example.suffix, CompareSettings())
    for setting in SETTINGS.keys() - set(COMPARERS[kind].settings):
        assert compared(tmp_path, example.old, example.new, example.suffix, SETTINGS[setting]) == plain, setting


@pytest.mark.parametrize("kind", COMPARERS)
def test_every_comparer_is_documented(kind: str) -> None:
    row = COMPARERS[kind]
    assert all((row.name, row.content, row.identical_if, row.reported))
    shown = " ".join(f"`{setting}`" for setting in row.settings)
    found = re.search(rf"^\| {re.escape(row.content)} \|.*\| ?{re.escape(shown)} \|$", DOCS.read_text("utf-8"), re.M)
    assert found is not None, "run: python docs/generate.py"


def test_every_comparer_exists_and_each_type_suffix_and_beginning_chooses_one() -> None:
    for row in COMPARERS.values():
        module, _, function = row.function.partition(":")
        comparer: Comparer = getattr(import_module(f"whyrun.artifacts.compare.{module}"), function)
        assert callable(comparer)
    for words in ("types", "suffixes", "beginnings"):
        chosen = [word for row in COMPARERS.values() for word in getattr(row, words)]
        assert len(chosen) == len(set(chosen)), words
    assert all(suffix == suffix.lower() for row in COMPARERS.values() for suffix in row.suffixes)
