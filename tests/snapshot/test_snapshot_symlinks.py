"""A linked folder gives a file two names: an output is refused by whichever name it meets something else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from whyrun.project import Project
from whyrun.snapshot.observing import paths as linked
from whyrun.snapshot.observing.paths import RealPaths

HINT = "choose another path for the output"


def project(folder: Path, flow: str, links: Mapping[str, str], files: tuple[str, ...] = ()) -> Path:
    """Links: name → where it leads, as it is written into the link."""
    for name in ("whyrun.toml", *files):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    for name, target in links.items():
        (folder / name).symlink_to(target)
    (folder / "workflow.yaml").write_text(flow)
    return folder


def problem_lines(folder: Path, file: str = "workflow.yaml", given: Mapping[str, Any] | None = None) -> list[str]:
    """With the state outside: a folder that is an input may hold the whole project."""
    problems = Project.open(folder / file, given=given, state=folder.parent / "../state").problems
    return [f"{p.code} {p.line} {p.message} ({p.hint})" for p in problems]


def job(path: str, more: str = "", type_: str = "text") -> str:
    """One job of a flow in one line: its number is that of the line."""
    return f"{{{more} uses: shell, with: {{run: x}}, outputs: {{O: {{type: {type_}, path: '{path}'}}}}}}\n"


# --- what the workflow is read from -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "path", "message"),
    [
        ("lib/x.py", "src/x.py", "`src/x.py` is code that `A` uses, through the link `lib`; REPLACED"),
        ("src/x.py", "lib/x.py", "`src/x.py` is code that `A` uses; REPLACED (`lib/x.py` is `src/x.py`, LIB)"),
        ("lib/x.py", "lib/x.py", "`lib/x.py` is code that `A` uses; REPLACED"),
        ("lib/x.py", "lib", "`lib` is the folder of `lib/x.py`, which is code that `A` uses; REPLACED"),
        (
            "lib/x.py",
            "src",
            "`src` is the folder of `src/x.py`, which is code that `A` uses, through the link `lib`; REPLACED",
        ),
        (
            "src/x.py",
            "lib/x.py/y",
            "`src/x.py/y` would need a folder at `src/x.py`, which is code that `A` uses; REPLACED "
            "(`lib/x.py/y` is `src/x.py/y`, LIB)",
        ),
        (
            "lib/x.py",
            "more/lib/x.py",
            "`src/x.py` is code that `A` uses, through the link `lib`; REPLACED "
            "(`more/lib/x.py` is `src/x.py`, through the link `more/lib`)",
        ),
    ],
)
def test_code_is_met_by_each_of_its_names(tmp_path: Path, code: str, path: str, message: str) -> None:
    flow = f"workflow: w\njobs:\n  A: {job(path, f'code: [{code}],')}"
    folder = project(tmp_path, flow, {"lib": "src"}, ("src/x.py", "more/a.txt"))
    (folder / "more/lib").symlink_to("../lib")
    message = message.replace("REPLACED", "publishing there would replace it").replace("LIB", "through the link `lib`")
    assert problem_lines(folder) == [f"DUPLICATE_OUTPUT_PATH 3 {message} ({HINT})"]


def test_all_instances_and_sections_are_looked_at(tmp_path: Path) -> None:
    flow = (
        "workflow: w\nloops: {i: {values: [a, x]}}\njobs:\n"
        f"  A: {job('lib/${{ i }}.py', 'for: [i], code: [src/x.py],')}"
        "  B: {for: [i], uses: shell, with: {run: x}, outputs: {O: {type: json, append: true, path: lib/x.py}}}\n"
        f"  C: {job('lib/${{ i }}/${{ i }}.py', 'for: [i],')}"
    )
    ending = "; publishing there would replace it (`lib/x.py` is `src/x.py`, through the link `lib`)"
    assert problem_lines(project(tmp_path, flow.replace("lib/x.py", "lib/y.py"), {"lib": "src"}, ("src/x.py",))) == [
        f"DUPLICATE_OUTPUT_PATH 4 `src/x.py` is code that `A` uses{ending} ({HINT})"
    ]
    (tmp_path / "workflow.yaml").write_text(flow.replace("lib/${{ i }}.py", "lib/${{ i }}.txt"))
    assert problem_lines(tmp_path) == [f"DUPLICATE_OUTPUT_PATH 5 `src/x.py` is code that `A` uses{ending} ({HINT})"]


def test_a_workflow_that_is_opened_through_a_link_is_met_where_it_is(tmp_path: Path) -> None:
    """With what it imports: from a linked folder, `..` leads up from where the link leads."""
    names = ("flows/deep/w.yaml", "flows/part.yaml", "flows/deep/whyrun.toml", "flows/x.yaml")
    jobs = "".join(f"  J{i}: {job(name)}" for i, name in enumerate(names))
    folder = project(tmp_path, "", {"fl": "flows/deep"}, ("flows/deep/w.yaml",))
    (folder / "flows/part.yaml").write_text("workflow: part\njobs:\n  I: {uses: shell, with: {run: x}}\n")
    (folder / "flows/deep/w.yaml").write_text(f"workflow: w\nimports:\n  P: {{workflow: ../part.yaml}}\njobs:\n{jobs}")
    ending = f", through the link `fl`; publishing there would replace it ({HINT})"
    assert problem_lines(folder, "fl/w.yaml") == [
        f"DUPLICATE_OUTPUT_PATH 5 `flows/deep/w.yaml` is the file of this workflow{ending}",
        f"DUPLICATE_OUTPUT_PATH 6 `flows/part.yaml` is a file that this workflow imports{ending}",
        f"DUPLICATE_OUTPUT_PATH 7 `flows/deep/whyrun.toml` is the settings file of the project{ending}",
    ]


# --- outputs and outputs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "two", "message"),
    [
        ("src/o", "lib/o", "`src/o` would be written by both A and B (`lib/o` is `src/o`, through the link `lib`)"),
        ("lib/o", "src/o", "`src/o` would be written by both A and B (`lib/o` is `src/o`, through the link `lib`)"),
        (
            "lib/o",
            "more/l/o",
            "`src/o` would be written by both A and B (`lib/o` is `src/o`, through the link `lib`; "
            "`more/l/o` is `src/o`, through the link `more/l`)",
        ),
        ("here/o", "o", "`o` would be written by both A and B (`here/o` is `o`, through the link `here`)"),
    ],
)
def test_two_names_of_one_file_are_one_path(tmp_path: Path, one: str, two: str, message: str) -> None:
    flow = f"workflow: w\njobs:\n  A: {job(one)}  B: {job(two)}"
    folder = project(tmp_path, flow, {"lib": "src", "here": "."}, ("src/a", "more/a"))
    (folder / "more/l").symlink_to(folder / "src")
    message = message.replace("A and B", "`Artifact:A.O` and `Artifact:B.O`")
    assert problem_lines(folder) == [f"DUPLICATE_OUTPUT_PATH 4 {message} (give each output a path of its own)"]


def test_a_file_and_its_folder_are_found_through_links(tmp_path: Path) -> None:
    for one, two, line, message in (
        ("src", "lib/o", 3, "`src` is an output and also the folder of `src/o` (`lib/o` is `src/o`, LIB)"),
        ("lib/o", "src/o/p", 3, "`src/o` is an output and also the folder of `src/o/p` (`lib/o` is `src/o`, LIB)"),
    ):
        folder = project(
            tmp_path / one, f"workflow: w\njobs:\n  A: {job(one)}  B: {job(two)}", {"lib": "src"}, ("src/a",)
        )
        message = message.replace("LIB", "through the link `lib`")
        assert problem_lines(folder) == [f"DUPLICATE_OUTPUT_PATH {line} {message} (None)"]


def test_sections_of_one_file_are_told_apart_by_their_keys(tmp_path: Path) -> None:
    shared = "{uses: shell, with: {run: x}, outputs: {O: {type: json, append: true, path: PATH/s.json, KEY}}}"
    flow = f"workflow: w\njobs:\n  A: {shared.replace('PATH', 'src')}\n  B: {shared.replace('PATH', 'lib')}\n"
    folder = project(tmp_path, flow.replace("KEY", "key: k/e"), {"lib": "src"}, ("src/a",))
    assert problem_lines(folder) == [
        "DUPLICATE_OUTPUT_PATH 4 `src/s.json` would have two sections `k/e`, of `Artifact:A.O` and of `Artifact:B.O` "
        "(`lib/s.json` is `src/s.json`, through the link `lib`) (give each a `key:` of its own)"
    ]
    (folder / "workflow.yaml").write_text(flow.replace(", KEY", ""))
    assert problem_lines(folder) == []
    (folder / "workflow.yaml").write_text(flow.replace(", KEY", "").replace("append: true, ", "", 1))
    assert problem_lines(folder) == [
        "DUPLICATE_OUTPUT_PATH 4 `src/s.json` would be written by both `Artifact:A.O` and `Artifact:B.O`, but not both "
        "set `append` (`lib/s.json` is `src/s.json`, through the link `lib`) (set `append: true` for every output that "
        "shares the file, or give them paths of their own)"
    ]


def test_outputs_through_links_that_meet_nothing_are_fine(tmp_path: Path) -> None:
    """Also where a link leads out or nowhere: of that, `run` tells."""
    flow = (
        "workflow: w\nloops: {i: {count: 3}}\njobs:\n"
        f"  A: {job('lib/${{ i }}.txt', 'for: [i],')}  B: {job('src/b.txt')}"
        f"  C: {job('out/c.txt')}  D: {job('away/c.txt')}  E: {job('none/c.txt')}  F: {job('round/c.txt')}"
    )
    links = {"lib": "src", "out": "..", "away": "/", "none": "nowhere", "round": "round"}
    assert problem_lines(project(tmp_path, flow, links, ("src/a",))) == []


def test_what_leads_out_of_the_project_is_compared_with_nothing(tmp_path: Path) -> None:
    """`run` refuses it, with a word on the link."""
    flow = f"workflow: w\njobs:\n  A: {job('out/x')}  B: {job('away/x')}"
    assert problem_lines(project(tmp_path, flow, {"out": "..", "away": ".."})) == []


# --- outputs and inputs -------------------------------------------------------------------------------------------

IN = "workflow: w\ninputs: {X: {type: TYPE, default: GIVEN}}\njobs:\n"
DIRECT = [
    ("file", "src/in.txt", "src/in.txt", "`src/in.txt` is INPUT"),
    ("file", "src/in.txt", "src", "`src` is the folder of `src/in.txt`, which is INPUT"),
    ("file", "src/in.txt", "src/in.txt/x", "`src/in.txt/x` lies in `src/in.txt`, which is INPUT"),
    ("directory", "src", "src", "`src` is INPUT"),
    ("directory", "src", "src/count.txt", "`src/count.txt` lies in `src`, which is INPUT"),
    ("directory", "src", "src/deep/${{ 1 }}.txt", "`src/deep/1.txt` lies in `src`, which is INPUT"),
    ("directory[]", "[more, src]", "src/count.txt", "`src/count.txt` lies in `src`, which is INPUT"),
    ("directory", ".", "count.txt", "`count.txt` lies in `.`, which is INPUT"),
    ("directory", ".", "out/count.txt", "`out/count.txt` lies in `.`, which is INPUT"),
]
LINKED = [
    ("file", "src/in.txt", "lib/in.txt", "`src/in.txt` is INPUT CHANGE (`lib/in.txt` is `src/in.txt`, LIB)"),
    ("file", "lib/in.txt", "src/in.txt", "`src/in.txt` is INPUT, LIB"),
    ("file[]", "lib/*.txt", "src/in.txt", "`src/in.txt` is INPUT, LIB"),
    ("file", "one.txt", "src/in.txt", "`src/in.txt` is INPUT, through the link `one.txt`"),
    ("directory", "lib", "src/x.txt", "`src/x.txt` lies in `src`, which is INPUT, LIB"),
    ("directory", "src", "lib/x", "`src/x` lies in `src`, which is INPUT CHANGE (`lib/x` is `src/x`, LIB)"),
    ("directory[]", "[more, lib]", "src/x.txt", "`src/x.txt` lies in `src`, which is INPUT, LIB"),
    ("directory", "../q", "x.txt", "`x.txt` lies in `.`, which is INPUT, through the link `../q`"),
    ("directory", "..", "x.txt", "`x.txt` lies in `.`, which is INPUT, as a part of `..`"),
    ("directory", "../p/src", "src/x.txt", "`src/x.txt` lies in `src`, which is INPUT, given as `../p/src`"),
    ("file", "../q/src/in.txt", "src/in.txt", "`src/in.txt` is INPUT, through the link `../q`"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "given", "path", "message"), [*DIRECT, *LINKED])
def test_an_output_on_top_of_an_input_or_in_one_is_refused(
    tmp_path: Path, type_: str, given: str, path: str, message: str
) -> None:
    """One in a folder would change it in every run, and the next plan would say so for ever."""
    flow = IN.replace("TYPE", f'"{type_}"').replace("GIVEN", given if given.startswith("[") else f'"{given}"')
    links = {"lib": "src", "one.txt": "src/in.txt", "../q": "p"}
    links = {name: target for name, target in links.items() if name in f"{given} {path}"}  # folders hold no others
    (tmp_path / "p").mkdir()
    folder = project(tmp_path / "p", flow + f"  A: {job(path)}", links, ("src/in.txt", "more/a"))
    message = message if " CHANGE" in message else f"{message} CHANGE"
    message = message.replace(" CHANGE", "; publishing there would change it").replace("LIB", "through the link `lib`")
    assert problem_lines(folder) == [
        f"DUPLICATE_OUTPUT_PATH 4 {message.replace('INPUT', 'an input of this workflow')} ({HINT})"
    ]


def test_an_input_by_another_name_of_the_project_is_met(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    flow = IN.replace("TYPE", "file").replace("GIVEN", "x") + f"  A: {job('src/in.txt')}"
    project(tmp_path / "p", flow, {}, ("src/in.txt",))
    (tmp_path / "q").symlink_to("p")
    inside = str(tmp_path / "p/src/in.txt")
    told_of = (
        "DUPLICATE_OUTPUT_PATH 4 `src/in.txt` is an input of this workflow{}; publishing there would change it ({})"
    )
    assert problem_lines(tmp_path / "p", given={"X": inside}) == [told_of.format("", HINT)]
    assert problem_lines(tmp_path / "q", given={"X": inside}) == [told_of.format(f", given as `{inside}`", HINT)]


def test_beside_an_input_all_is_fine(tmp_path: Path) -> None:
    flow = 'workflow: w\ninputs: {D: {type: directory, default: src}, F: {type: "file[]", default: "more/a*"}}\njobs:\n'
    jobs = "".join(f"  J{i}: {job(path)}" for i, path in enumerate(("more/b", "src2/x", "sr", "lib2/x", "x/src/y")))
    assert problem_lines(project(tmp_path, flow + jobs, {"lib2": "other"}, ("src/in.txt", "more/a", "other/a"))) == []


def test_what_is_not_given_lies_nowhere(tmp_path: Path) -> None:
    flow = "workflow: w\ninputs: {D: {type: directory, required: false}}\njobs:\n"
    assert problem_lines(project(tmp_path, flow + f"  A: {job('out/x')}", {})) == []


def test_of_many_ways_to_one_input_the_last_by_name_is_told(tmp_path: Path) -> None:
    links = {f"lib{n}": "src" for n in range(9)}
    given = ", ".join(f"{name}/in.txt" for name in links)
    flow = f'workflow: w\ninputs: {{X: {{type: "file[]", default: [{given}]}}}}\njobs:\n  A: {job("src/in.txt")}'
    told_of = "`src/in.txt` is an input of this workflow, through the link `lib8`; publishing there would change it"
    assert problem_lines(project(tmp_path, flow, links, ("src/in.txt",))) == [
        f"DUPLICATE_OUTPUT_PATH 4 {told_of} ({HINT})"
    ]


def test_what_is_not_published_lies_in_no_input(tmp_path: Path) -> None:
    flow = IN.replace("TYPE", "directory").replace("GIVEN", ".")
    folder = project(tmp_path, flow + "  A: {uses: shell, with: {run: x}, outputs: {O: {type: text}}}\n", {})
    assert problem_lines(folder) == []


@pytest.mark.parametrize(("given", "link"), [(".", None), ("..", None), ("../all", "../all")])
def test_a_folder_that_holds_the_state_is_no_input(tmp_path: Path, given: str, link: str | None) -> None:
    """It is another while a run goes on, so every step would fail, and be told of an edit that nobody made."""
    flow = IN.replace("TYPE", "directory").replace("GIVEN", given)
    flow += "  A: {uses: shell, with: {d: '${{ inputs.X }}', run: x}, outputs: {O: {type: text}}}\n"
    (tmp_path / "p").mkdir()
    folder = project(tmp_path / "p", flow, {link: "p"} if link else {}, ("src/in.txt",))
    (problem,) = Project.open(folder / "workflow.yaml").problems
    assert (problem.code, problem.message, problem.hint) == (
        "INPUT_TYPE",
        f"`Input:X`: the folder `{given}` holds `.whyrun`, the state, which every run changes",
        "name a folder in it, or keep the state elsewhere: `--state DIR`",
    )
    assert problem_lines(folder) == problem_lines(folder, given={"X": "src"}) == []


# --- looking ------------------------------------------------------------------------------------------------------


def test_each_folder_is_looked_at_once_and_none_below_one_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = (
        "workflow: w\nloops: {i: {count: 50}}\njobs:\n"
        f"  A: {job('lib/${{ i }}.txt', 'for: [i],')}  B: {job('lib/${{ i % 2 }}/${{ i }}.txt', 'for: [i],')}"
        f"  C: {job('new/${{ i }}/c.txt', 'for: [i],')}"
    )
    folder = project(tmp_path, flow, {"lib": "src"}, ("src/a",))
    graph = Project.open(folder / "workflow.yaml").graph
    looked: list[str] = []
    real = os.lstat
    with monkeypatch.context() as patched:
        patched.setattr(linked.os, "lstat", lambda path: (looked.append(os.path.basename(path)), real(path))[1])
        patched.setattr(linked.os.path, "realpath", lambda path: str(path).replace("lib", "src"))
        linked.links_of(graph, RealPaths(folder))
    assert sorted(looked) == ["0", "1", "lib", "new"]


def test_one_linked_folder_among_many_is_found(tmp_path: Path) -> None:
    flow = "workflow: w\nloops: {i: {count: 40}}\njobs:\n" + (
        f"  A: {job('out/${{ i }}/x.txt', 'for: [i],')}  B: {job('other/x.txt')}"
    )
    folder = project(tmp_path, flow, {}, ("other/a", *(f"out/{i}/a" for i in range(39))))
    assert problem_lines(folder) == []
    (folder / "out/39").symlink_to("../other")
    assert problem_lines(folder) == [
        "DUPLICATE_OUTPUT_PATH 5 `other/x.txt` would be written by both `Artifact:A.O[39]` and `Artifact:B.O` "
        "(`out/39/x.txt` is `other/x.txt`, through the link `out/39`) (give each output a path of its own)"
    ]
    (folder / "out").rename(folder / "real")
    (folder / "real/39").unlink()
    (folder / "out").symlink_to("real")
    (folder / "workflow.yaml").write_text(flow.replace("other/x", "real/3/x"))
    assert problem_lines(folder) == [
        "DUPLICATE_OUTPUT_PATH 5 `real/3/x.txt` would be written by both `Artifact:A.O[3]` and `Artifact:B.O` "
        "(`out/3/x.txt` is `real/3/x.txt`, through the link `out`) (give each output a path of its own)"
    ]


NAMES = st.lists(st.sampled_from(["a", "b", "c", "la", "lb", "lout", "lup", "lnone"]), min_size=1, max_size=5)


@given(NAMES, st.booleans())
def test_a_file_stands_where_its_folder_really_is(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], absolute: bool
) -> None:
    folder = tmp_path_factory.mktemp("linked") / "p"
    (folder / "a/b/c").mkdir(parents=True)
    (folder / "b").mkdir()
    links = {"la": "a", "a/lb": "../b", "a/b/lup": "../..", "b/la": "../la/b", "lout": "..", "lnone": "no/where"}
    for name, target in {**links, "../a": "p/a", "b/lb": str(folder / "lout/p/b")}.items():
        (folder / name).symlink_to(target)
    path = "/".join(names)
    asked = f"{folder}/{path}" if absolute else path
    place = os.path.join(os.path.realpath(os.path.dirname(folder / path)), names[-1])
    paths = RealPaths(folder)
    assert os.path.join(folder, paths.location(asked).path) == place
    assert os.path.normpath(os.path.join(folder, paths.look(asked).path)) == os.path.realpath(place)


def test_where_paths_lead(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        "",
        {"lib": "deep/src", "deep/src/inner": "../more", "out": ".."},
        ("deep/src/a", "deep/more/b"),
    )
    paths = RealPaths(folder)
    assert astuple(paths.location("/etc")) == ("/etc", None, True)
    assert astuple(paths.look("lib/../a")) == ("deep/a", "lib", False)
    assert astuple(paths.look("lib/inner")) == ("deep/more", "lib", True)  # the first link is the one that is told of
    assert astuple(paths.look("deep/src/inner")) == ("deep/more", "deep/src/inner", True)
    assert list(paths.other_paths("out/x", followed=False)) == []
    assert list(paths.other_paths("lib/a", followed=False)) == [("deep/src/a", "through the link `lib`")]


def test_a_folder_that_cannot_be_read_may_hold_links(tmp_path: Path) -> None:
    paths = RealPaths(project(tmp_path, "", {"deep/src/lib": "."}, ("deep/src/a", "deep/more/b")))
    held = {path: paths.holds_link(path) for path in ("deep/src/a", "deep/src", "deep/more", "nowhere")}
    assert held == {"deep/src/a": True, "deep/src": True, "deep/more": False, "nowhere": False}
