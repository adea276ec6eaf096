"""The links of run folders into the store: each is checked, and following the hint repairs it."""

from __future__ import annotations

from pathlib import Path

from verify_lab import Answer, Tales, sha256, whyrun

HINT = (
    "hint: links into the store: nothing is lost. Delete whatever is at their paths, and `status.json` of that run: "
    "the next `whyrun run` makes the links again. No job runs again"
)


def links(tales: Tales) -> dict[str, Path]:
    """Every link below `artifacts/` of any run, by its path from the project."""
    found = sorted(path for path in tales.runs.glob("*/artifacts/**/*") if path.is_symlink())
    return {str(path.relative_to(tales.root)): path for path in found}


def without_checked(answer: Answer) -> list[str]:
    return [line for line in answer.out.splitlines() if not line.startswith("checked: ")]


def test_missing_and_wrong_links_and_their_hint(tales: Tales) -> None:
    r1, r4 = ".whyrun/tales/runs/r0001/artifacts", ".whyrun/tales/runs/r0004/artifacts"
    places = [
        f"{r1}/Facts/About.json",
        f"{r1}/Pages/Book/page.txt",
        f"{r1}/Shout%5B7%5D/Loud.txt",
        f"{r4}/Join/All.txt",
    ]
    section, page, loud, adopted = (tales.root / place for place in places)
    before = {place: path.readlink() for place, path in links(tales).items()}
    section.unlink()
    other = tales.event("r0001", "artifact_available", "Artifact:Shout.Loud[8]")["sha256"]
    page.unlink()
    page.symlink_to("/etc/hostname")
    loud.unlink()
    loud.symlink_to(f"../../../../../store/{other[:2]}/{other[2:]}")
    adopted.unlink()
    adopted.mkdir()

    answer = tales.verify()
    assert (answer.code, answer.err) == (3, "")
    elsewhere = "the link points elsewhere"
    told = {
        places[0]: ["the link is missing", f"    expected  {before[places[0]]}"],
        places[1]: [elsewhere, f"    expected  {before[places[1]]}", "    found     /etc/hostname"],
        places[2]: [elsewhere, f"    expected  {before[places[2]]}",
                    f"    found     ../../../../../store/{other[:2]}/{other[2:]}"],
        places[3]: [elsewhere, f"    expected  {before[places[3]]}", "    found     (not a link)"],
    }  # fmt: skip
    lines = without_checked(answer)
    assert lines[0] == "tales is damaged: 4 problems"
    for place, (what, *details) in told.items():
        at = lines.index(f"  {place}: {what}")
        assert lines[at + 1 : at + 1 + len(details)] == details
    assert lines[-2:] == [HINT, f"last chain: {tales.chain()}"]
    assert len(lines) == 3 + sum(map(len, told.values()))
    kinds = [(p["kind"], p["run"]) for p in tales.verify("--json").json["problems"]]
    assert sorted(kinds) == [("link", "r0001")] * 3 + [("link", "r0004")]
    assert tales.verify("r0003").code == 0, "another run has nothing to do with it"

    # As the hint says.
    page.unlink()
    loud.unlink()
    adopted.rmdir()
    for run in ("r0001", "r0004"):
        (tales.runs / run / "status.json").unlink()
    assert tales.verify().code == 0, "the next run completes the folders"
    assert whyrun(tales.root, "run", "--quiet").code == 0
    assert not (tales.runs / "r0008").exists(), "no job has run again"
    answer = tales.verify("--json")
    assert (answer.code, answer.json["notes"]) == (0, [])
    assert {place: path.readlink() for place, path in links(tales).items()} == before


def test_every_link_of_every_kind_of_run_is_checked(tales: Tales) -> None:
    found = links(tales)
    assert {place.split("/")[3] for place in found} == {"r0001", "r0003", "r0004", "r0005", "r0007"}
    for path in found.values():
        path.unlink()
        path.symlink_to("nowhere")
    problems = tales.verify("--json").json["problems"]
    assert sorted(Path(p["file"]).relative_to(tales.root).as_posix() for p in problems) == list(found)
    assert {(p["kind"], p["what"], p["found"]) for p in problems} == {("link", "the link points elsewhere", "nowhere")}


def test_a_missing_folder_of_links_and_one_with_unknown_content(tales: Tales) -> None:
    book = tales.runs / "r0001/artifacts/Pages/Book"
    for path in book.iterdir():
        path.unlink()
    book.rmdir()
    problems = tales.verify("--json").json["problems"]
    assert [(p["kind"], Path(p["file"]).name, p["what"]) for p in problems] == [
        ("link", "cover.txt", "the link is missing"),
        ("link", "page.txt", "the link is missing"),
    ]
    tales.blob(tales.event("r0001", "artifact_available", "Artifact:Pages.Book")["sha256"]).unlink()
    problems = tales.verify("--json").json["problems"]
    assert [(p["kind"], p["what"]) for p in problems] == [("artifact", "its bytes are not in the store")]


def test_an_incomplete_run_folder_need_not_have_all_links(tales: Tales) -> None:
    (tales.runs / "r0003/status.json").unlink()
    for place, path in links(tales).items():
        if "/r0003/" in place:
            path.unlink()
    answer = tales.verify()
    note = "note: r0003 has no `status.json`: the next run completes its folder"
    assert (answer.code, answer.out.splitlines()[-1]) == (0, note)


def test_all_blobs_that_gc_keeps_are_checked(tales: Tales) -> None:
    checked = tales.verify("--json").json["checked"]["blobs"]
    (needs,) = whyrun(tales.root, "gc", "--json").json["workflows"]
    assert (needs["workflow"], needs["blobs"]) == ("tales", checked)


def test_a_blob_that_only_the_text_of_the_log_names(tales: Tales) -> None:
    """An input has no blob of its own. If there is one, `gc` keeps it, so it is checked."""
    data = b"word 5\n"
    blob = tales.blob(sha256(data))
    blob.parent.mkdir(exist_ok=True)
    blob.write_bytes(data)
    assert tales.verify().code == 0
    blob.write_bytes(b"other\n")
    event = next(e for e in tales.events("r0001", "input_recorded") if e["sha256"] == sha256(data))
    (problem,) = tales.verify("--json").json["problems"]
    assert problem == {
        "kind": "blob",
        "run": "r0001",
        "file": str(tales.log("r0001")),
        "what": "a blob that the log refers to has other bytes in the store",
        "line": event["seq"],
        "event": "input_recorded",
        "subject": event["id"],
        "expected": sha256(data),
        "found": sha256(b"other\n"),
        "stored": str(blob),
    }
