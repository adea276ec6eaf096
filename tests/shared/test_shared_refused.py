"""Results of a shared store are checked: a wrong one is refused and reported, and the step runs here."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shared_lab import Team, plan_told, shared_steps

from project_lab import Lab
from whyrun.artifacts.hashing import bytes_sha256, canonical_json, value_sha256
from whyrun.artifacts.shared.result import (
    VALUE_KINDS,
    Refused,
    SharedOutput,
    SharedResult,
    decode_result,
    encode_result,
)
from whyrun.artifacts.shared.storage import PIECE, FolderStorage
from whyrun.artifacts.shared.store import SharedStore
from whyrun.artifacts.store import Store
from whyrun.errors import WhyrunError
from whyrun.workflow.model import VALUE_TYPES

BOTH = ["Job:Make", "Job:Use"]


def check_result_is_right(lab: Lab) -> None:
    assert (lab.read("out/text.txt"), lab.read("out/all.txt")) == ("cinema\n", "cinema\n1\n")


DAMAGE: dict[str, tuple[Callable[[bytes], bytes | None], str]] = {
    "changed": (lambda data: b"X" + data[1:], "has other bytes"),
    "truncated": (lambda data: data[:-1], "ends after 6 of 7 bytes"),
    "longer": (lambda data: data + b"more", "has other bytes"),
    "empty": (lambda data: b"", "ends after 0 of 7 bytes"),
    "gone": (lambda data: None, "is missing"),
}


@pytest.mark.parametrize(
    ("store", "damage"),
    [*(("folder", damage) for damage in DAMAGE), ("s3", "truncated"), ("s3", "gone")],
)
def test_a_damaged_blob_is_refused_and_put_right(store: str, damage: str, request: pytest.FixtureRequest) -> None:
    team: Team = request.getfixturevalue(f"{store}_team")
    change, told = DAMAGE[damage]
    team.clone().succeed()
    key = team.kept.blob_of("Job:Make", "Text")
    team.kept.write(key, change(team.kept.read(key)))
    second = team.clone()
    ran = second.succeed()
    assert ran.executed == ["Job:Make"]
    assert shared_steps(ran) == ["Job:Use"], "what `Make` made again is what `Use` was made from"
    (note,) = ran.heard.notes
    assert note.startswith("the shared store has the result of Job:Make, but it is refused: the blob ")
    assert told in note
    assert note.endswith("; the step runs")
    check_result_is_right(second)
    assert team.kept.is_sound(), "whoever made it right gave it"


def forge(change: dict[str, Any]) -> Callable[[dict[str, Any]], bytes]:
    return lambda result: json.dumps({**result, **change}).encode()


def forge_output(**change: Any) -> Callable[[dict[str, Any]], bytes]:
    def forged(result: dict[str, Any]) -> bytes:
        outputs = [{**output, **change} if output["key"] == "Text" else output for output in result["outputs"]]
        return json.dumps({**result, "outputs": outputs}).encode()

    return forged


@pytest.mark.parametrize(
    ("forged", "told"),
    [
        (forge({"fingerprint": "0" * 64}), "it is the result of another fingerprint"),
        (forge({"version": 2}), "it cannot be read"),
        (forge({"outputs": 3}), "it cannot be read"),
        (forge_output(sha256="../../../../etc/passwd"), "it cannot be read"),
        (forge_output(sha256="0" * 64 + "\n"), "it cannot be read"),
        (forge_output(size=-1), "it cannot be read"),
        (forge_output(value="forged\n"), "the value of `Text` does not have its hash"),
        (forge_output(value="hello", sha256=value_sha256("hello")), "`Text` is of type text, and has a value"),
        (forge_output(value={}, sha256=value_sha256({}), type="json"), "`Text` is of type json, and has a value"),
        (forge_output(type="integer"), "`Text` is of type integer, and has no value"),
        (
            forge_output(type="integer", value=True, sha256=value_sha256(True)),
            "the value of `Text` is not of type integer",
        ),
        (forge_output(type="number", value="1", sha256=value_sha256("1")), "the value of `Text` is not of type number"),
        (forge_output(type="string", value=1, sha256=value_sha256(1)), "the value of `Text` is not of type string"),
        (forge_output(type="boolean", value=1, sha256=value_sha256(1)), "the value of `Text` is not of type boolean"),
        (forge_output(type="integer", value=7, sha256=value_sha256(7)), "`Text` has 1 bytes, not 4"),
        (forge_output(size=999_999), "`Text` has 4 bytes, not 999999"),
        (forge_output(key="Folder"), "it has an output twice"),
        (lambda _: b"", "it cannot be read"),
        (lambda _: b"\xff\xfe", "it cannot be read"),
        (lambda _: b"[" * 100_000, "it cannot be read"),
        (lambda result: json.dumps(result).encode()[:-5], "it cannot be read"),
        (lambda result: json.dumps(result).encode() + b" " * (16 << 20), "it is too large for a result"),
    ],
    ids=[
        "another-fingerprint", "version", "type", "path-for-hash", "newline-in-hash", "negative", "value",
        "value-for-text", "value-for-json", "no-value", "no-integer", "no-number", "no-string", "no-boolean",
        "size-of-value", "size", "twice", "empty", "no-text", "deep", "truncated", "huge",
    ],
)  # fmt: skip
def test_a_forged_result_is_refused_and_replaced(
    tmp_path: Path, forged: Callable[[dict[str, Any]], bytes], told: str
) -> None:
    store, storage = Store(tmp_path / "store"), FolderStorage(tmp_path / "kept")
    outputs = tuple(
        SharedOutput(key, store.put_bytes(key.encode()), len(key), "text", stored=len(key))
        for key in ("Folder", "Text")
    )
    right = SharedResult(1, "a" * 64, "shell", "b" * 64, outputs)
    assert SharedStore(storage, store).offer(right, lambda: None) is None
    (key,) = [path for path in (tmp_path / "kept" / "v1" / "results").rglob("*") if path.is_file()]
    key.write_bytes(forged(json.loads(key.read_bytes())))
    shared = SharedStore(storage, store)
    with pytest.raises(Refused) as refused:
        shared.find("a" * 64)
    assert str(refused.value).startswith(told)
    assert shared.offer(right, lambda: None) is None
    assert SharedStore(storage, store).find("a" * 64) == right


def test_a_run_reports_a_forged_result_and_executes_the_step(folder_team: Team) -> None:
    folder_team.clone().succeed()
    key, result = folder_team.kept.result_of("Job:Make")
    folder_team.kept.write(key, forge({"fingerprint": "0" * 64})(result))
    second = folder_team.clone()
    told = [
        "the shared store has the result of Job:Make, but it is refused: it is the result of another fingerprint, "
        f"{'0' * 64}; the step runs"
    ]
    plan, notes = plan_told(second)
    assert ([(job.id, job.reuse) for job in plan.planned], notes) == ([("Job:Make", None), ("Job:Use", None)], told)
    ran = second.succeed()
    assert (ran.executed, shared_steps(ran), ran.heard.notes) == (["Job:Make"], ["Job:Use"], told)
    check_result_is_right(second)
    assert folder_team.kept.result_of("Job:Make")[1]["outputs"] == result["outputs"]


def test_a_value_in_place_of_a_text_is_not_consumed_and_replaced(folder_team: Team) -> None:
    folder_team.clone().succeed()
    key, result = folder_team.kept.result_of("Job:Make")
    folder_team.kept.write(key, forge_output(value="hello", sha256=value_sha256("hello"), size=7)(result))
    second = folder_team.clone()
    ran = second.succeed()
    assert (ran.executed, shared_steps(ran)) == (["Job:Make"], ["Job:Use"])
    (note,) = ran.heard.notes
    assert note.endswith(", but it is refused: `Text` is of type text, and has a value; the step runs")
    check_result_is_right(second)
    assert folder_team.kept.result_of("Job:Make")[1]["outputs"] == result["outputs"]
    assert shared_steps(folder_team.clone().succeed()) == BOTH


def test_a_size_that_is_not_that_of_the_content_is_refused(tmp_path: Path) -> None:
    """Also where the bytes are here already, and of a folder."""
    store, storage = Store(tmp_path / "store"), FolderStorage(tmp_path / "kept")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_bytes(b"12345")
    tree, size = store.put_tree(tmp_path / "folder")
    stored = len(store.read(tree))
    blob = store.put_bytes(b"1234567")

    def fetch(output: SharedOutput) -> None:
        SharedStore(storage, store).fetch(SharedResult(1, "a" * 64, "shell", "b" * 64, (output,)), lambda: None)

    fetch(SharedOutput("Folder", tree, size, "directory", stored=stored))
    with pytest.raises(Refused, match="the files of `Folder` have 5 bytes, not 6"):
        fetch(SharedOutput("Folder", tree, 6, "directory", stored=stored))
    fetch(SharedOutput("Text", blob, 7, "text", stored=7))
    with pytest.raises(Refused, match=f"the blob {blob} has 7 bytes, not 8"):
        fetch(SharedOutput("Text", blob, 8, "text", stored=8))


def test_shared_values_have_workflow_types_and_get_their_own_blob(tmp_path: Path) -> None:
    assert VALUE_KINDS.keys() == VALUE_TYPES
    store, values = (
        Store(tmp_path / "store"),
        {"Name": ("string", "é"), "Big": ("integer", 2**63 - 1), "Yes": ("boolean", True)},
    )
    outputs = [
        SharedOutput(key, value_sha256(value), len(canonical_json(value)), type_, value=value)
        for key, (type_, value) in values.items()
    ]
    leaf = SharedOutput("Report.Sum", value_sha256([1]), 3, "json", value=[1])
    result = SharedResult(1, "a" * 64, "shell", "b" * 64, (*outputs, leaf))
    assert decode_result(encode_result(result), "a" * 64) == result
    SharedStore(FolderStorage(tmp_path / "kept"), store).fetch(result, lambda: None)
    assert [store.read(output.sha256) for output in outputs] == ['"é"'.encode(), b"9223372036854775807", b"true"]
    assert not store.has(leaf.sha256)


BITS = "holds a whole number of more than 63 bits (give it as a text)"


@pytest.mark.parametrize(
    ("key", "type_", "value", "why"),
    [
        ("Text", "string", "x" * 4095, "has 4097 bytes; a value or leaf has at most 4096 (use text, json or file)"),
        ("Text", "string", "x" * 8_000_000, "has 8000002 bytes; a value or leaf has at most 4096 (use text, json or "),
        ("Sum", "integer", 2**63, BITS),
        ("Sum", "number", -(2**70), BITS),
        ("Report.Sum", "json", [{"n": 2**70}], BITS),
        ("Report.Deep", "json", json.loads("[" * 66 + "]" * 66), "nests deeper than 64 levels"),
        ("Report.Deep", "json", json.loads("[" * 700 + "]" * 700), "nests deeper than 64 levels"),
    ],
    ids=["4 KiB", "8 MB", "63 bits", "70 bits", "in a leaf", "66 levels", "700 levels"],
)
def test_a_shared_value_has_the_same_limits_as_a_local_one(key: str, type_: str, value: Any, why: str) -> None:
    data = canonical_json(value)
    output = SharedOutput(key, bytes_sha256(data), len(data), type_, value=value)
    result = SharedResult(1, "a" * 64, "shell", "b" * 64, (output,))
    with pytest.raises(Refused) as refused:
        decode_result(encode_result(result), "a" * 64)
    assert str(refused.value).startswith(f"the value of `{key}` {why}")


@pytest.mark.parametrize("change", [{"suffix": ".png"}, {"key": "Other"}], ids=str)
def test_a_result_that_does_not_fit_the_declared_outputs_is_not_reused(
    folder_team: Team, change: dict[str, Any]
) -> None:
    folder_team.clone().succeed()
    key, result = folder_team.kept.result_of("Job:Make")
    folder_team.kept.write(key, forge_output(**change)(result))
    ran = folder_team.clone().succeed()
    assert "Job:Make" in ran.executed


def listed(*rows: Any, empty: Any = ()) -> bytes:
    return json.dumps({"tree": "whyrun/tree/v1", "files": list(rows), "empty_dirs": list(empty)}).encode()


SHA = bytes_sha256(b"evil\n")
PATHS = ["../evil", "/evil", "a/../../evil", "a//b", "./a", "", ".", "a\0b", "a/", "\ud800", "x" * 256, 3, None]
TREES = {
    **{repr(path)[:20]: listed([path, SHA, 5, False]) for path in PATHS},
    **{f"empty {path!r}"[:20]: listed(empty=[path]) for path in PATHS},
    "size": listed(["a", SHA, "5", False]),
    "negative": listed(["a", SHA, -5, False]),
    "yes": listed(["a", SHA, True, False]),
    "executable": listed(["a", SHA, 5, "x"]),
    "hash": listed(["a", "../../../etc/passwd", 5, False]),
    "twice": listed(["a", SHA, 5, False], ["a", SHA, 5, False]),
    "file and folder": listed(["a", SHA, 5, False], ["a/b", SHA, 5, False]),
    "file and empty folder": listed(["a", SHA, 5, False], empty=["a"]),
    "deep": listed(["/".join("a" * 300), SHA, 5, False]),
    "nested": b'{"tree":' + b"[" * 100_000,
    "no list": b"[]",
    "no text": b"\xff",
}


@pytest.mark.parametrize("tree", TREES.values(), ids=list(TREES))
def test_an_invalid_folder_listing_or_one_that_leads_outside_is_refused(tmp_path: Path, tree: bytes) -> None:
    theirs, ours, storage = Store(tmp_path / "theirs"), Store(tmp_path / "ours"), FolderStorage(tmp_path / "kept")
    evil, manifest = theirs.put_bytes(b"evil\n"), theirs.put_bytes(tree)
    for sha256 in (evil, manifest):
        storage.put_file(f"v1/blobs/{sha256[:2]}/{sha256[2:]}", theirs.open_path(sha256))
    output = SharedOutput("Folder", manifest, 5, "directory", stored=len(tree))
    with pytest.raises(Refused, match="`Folder` is not a folder: "):
        SharedStore(storage, ours).fetch(SharedResult(1, "a" * 64, "shell", "b" * 64, (output,)), lambda: None)


def result_of(data: bytes, size: int) -> SharedResult:
    output = SharedOutput("Out", hashlib.sha256(data).hexdigest(), size, "file", stored=size)
    return SharedResult(1, "a" * 64, "shell", "b" * 64, (output,))


def test_uploads_and_downloads_are_streamed_in_pieces(tmp_path: Path) -> None:
    """Of a file of 48 MB no more than a few pieces are in memory at a time."""
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    storage = FolderStorage(tmp_path / "kept")
    data = bytes(range(256)) * (48 << 12)
    here.put_bytes(data)
    result = result_of(data, len(data))
    alive: list[int] = []
    tracemalloc.start()
    try:
        assert SharedStore(storage, here).offer(result, lambda: alive.append(1)) is None
        SharedStore(storage, there).fetch(result, lambda: alive.append(1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * PIECE
    assert len(alive) == 1 + len(data) // PIECE
    assert there.read(result.outputs[0].sha256) == data


def test_damaged_local_bytes_are_not_uploaded(tmp_path: Path) -> None:
    store, storage = Store(tmp_path / "store"), FolderStorage(tmp_path / "kept")
    path = Path(store.path(store.put_bytes(b"right")))
    path.chmod(0o644)
    path.write_bytes(b"wrong")
    with pytest.raises(WhyrunError) as refused:
        SharedStore(storage, Store(tmp_path / "store")).offer(result_of(b"right", 5), lambda: None)
    assert refused.value.diagnostics[0].code == "STORE_DAMAGED"
    assert not (tmp_path / "kept").exists()


def test_a_blob_that_is_longer_than_recorded_is_not_read_to_its_end(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "kept")
    result = result_of(b"small", 5)
    key = f"v1/blobs/{result.outputs[0].sha256[:2]}/{result.outputs[0].sha256[2:]}"
    (tmp_path / "kept" / key).parent.mkdir(parents=True)
    with open(tmp_path / "kept" / key, "wb") as file:
        file.truncate(1 << 40)  # with holes: nobody could copy it here
    store = Store(tmp_path / "store")
    with pytest.raises(Refused, match="has other bytes"):
        SharedStore(storage, store).fetch(result, lambda: None)
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []
