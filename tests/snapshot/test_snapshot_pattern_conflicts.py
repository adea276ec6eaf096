"""Outputs that a pattern of an input would catch are refused before anything is run."""

from __future__ import annotations

import glob
from collections.abc import Callable
from pathlib import Path

import pytest

from project_lab import Lab
from whyrun.actions.code.code_cache import matching_code_files
from whyrun.errors import WhyrunError
from whyrun.graph.paths import parts_match

NAMES = [
    "a.txt", ".a.txt", "b.csv", "d/a.txt", "d/.a.txt", "d/e/a.txt", "d/.e/a.txt", "d/e/f/a.txt", "x[1].txt", "d/b.txt",
]  # fmt: skip
PATTERNS = [
    "*.txt", "*", "?.txt", "[ab].*", "[!a].*", ".*", "d/*.txt", "d/*", "*/a.txt", "*/*/a.txt", "**/*.txt", "**", "d/**",
    "d/**/*.txt", "**/a.txt", "d/.e/*", "x[[]1].txt", "d/e/*/a.txt", "**/e/**", "e/*.txt", "d/.*/a.txt",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_a_pattern_catches_is_what_glob_would_find(tmp_path: Path, pattern: str) -> None:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = {path for path in glob.glob(pattern, root_dir=tmp_path, recursive=True) if (tmp_path / path).is_file()}
    assert {name for name in NAMES if parts_match(pattern.split("/"), name.split("/"))} == found
    if not pattern.endswith("**"):  # of which versions of Python think differently
        assert matching_code_files(tmp_path, [pattern]) == found


def test_a_pattern_with_very_many_folders_left_open_is_answered() -> None:
    """There are more ways through it than anyone could try."""
    assert not parts_match([*["**", "a"] * 40, "x"], ["a"] * 200)
    assert parts_match([*["**", "a"] * 40, "x"], [*["a"] * 200, "x"])


FLOW = """
    workflow: w
    inputs: {{Files: {{type: "file[]", default: "{pattern}"}}}}
    loops: {{i: {{count: 2}}}}
    jobs:
      A:
        for: [i]
        uses: shell
        with: {{f: "${{{{ inputs.Files[:] }}}}", run: 'echo 1 > "$out_T"'}}
        outputs: {{T: {{{output}}}}}
"""


def refused(lab: Lab) -> list[tuple[str, str, int | None]]:
    try:
        lab.succeed()
    except WhyrunError as wrong:
        assert not (lab.root / ".whyrun" / "w" / "runs").exists()
        return [(one.code, one.message, one.line) for one in wrong.diagnostics]
    return []


def caught(path: str, pattern: str) -> list[tuple[str, str, int | None]]:
    what = f"`{path}` matches `{pattern}` of `Input:Files`: once it exists, it is an input, too"
    return [("DUPLICATE_OUTPUT_PATH", what, 10)]


@pytest.mark.parametrize(
    ("pattern", "path", "first"),
    [
        ("*.txt", "s${{ i }}.txt", "s0.txt"),
        ("data/*.txt", "data/s${{ i }}.txt", "data/s0.txt"),
        ("data/*1.txt", "data/s${{ i }}.txt", "data/s1.txt"),
        ("data/../data/*.txt", "data/s${{ i }}.txt", "data/s0.txt"),
        ("**/*.txt", "out/s${{ i }}.txt", "out/s0.txt"),
        ("**/*.txt", "out/a/b/s${{ i }}.txt", "out/a/b/s0.txt"),
        ("data/*.txt", "out/s${{ i }}.txt", None),
        ("data/*", "data/new/s${{ i }}.csv", "data/new"),
        ("data/*", "data/s${{ i }}/x.csv", "data/s0"),
        ("data/*", "data/a/b/${{ i }}/x.csv", "data/a"),
        ("data/*.txt", "data/a/b/${{ i }}/x.csv", None),
        ("data/*.txt", "data/s${{ i }}.csv", None),
        ("data/*1.t[x]t", "data/s${{ i }}1.txt", "data/s01.txt"),
        ("data/*.b.txt", "data/s${{ i }}.b.txt", "data/s0.b.txt"),
        ("data/*", "data/s${{ i }}", "data/s0"),
        ("data/*t", "data/s${{ i }}.txt", "data/s0.txt"),
        ("data/*.txt", "data/more/s${{ i }}.txt", None),
        ("data/*.txt", "data.txt/s${{ i }}.txt", None),
    ],
)
def test_before_the_first_run(project: Callable[..., Lab], pattern: str, path: str, first: str | None) -> None:
    files = {"given1.txt": "1", "data/given1.txt": "1", "data/given.b.txt": "1", "data/given11.txt": "1"}
    lab = project(FLOW.format(pattern=pattern, output=f'type: text, path: "{path}"'), files)
    assert refused(lab) == ([] if first is None else caught(first, pattern))


def test_a_shared_file_is_caught_as_well_and_an_absolute_pattern(project: Callable[..., Lab], tmp_path: Path) -> None:
    shared = 'type: json, path: "all.json", append: true, key: "${{ i }}"'
    assert refused(project(FLOW.format(pattern="*.json", output=shared), {"given.json": "1"})) == caught(
        "all.json", "*.json"
    )
    lab = project(FLOW.format(pattern="PATTERN", output='type: text, path: "s${{ i }}.txt"'), {"given.txt": "1"})
    lab.edit("workflow.yaml", "PATTERN", f"{lab.root}/*.txt")
    assert refused(lab) == caught("s0.txt", f"{lab.root}/*.txt")


def test_files_that_are_named_one_by_one_are_no_pattern(project: Callable[..., Lab]) -> None:
    flow = FLOW.format(pattern="x", output='type: text, path: "s${{ i }}.txt"').replace('"x"', "[given.txt]")
    assert refused(project(flow, {"given.txt": "1"})) == []


def test_a_pattern_of_code(project: Callable[..., Lab]) -> None:
    flow = """
        workflow: w
        jobs:
          G: {uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text, path: tools/made.txt}}}
          U: {needs: [G], uses: shell, with: {run: 'echo 1 > "$out_T"'}, code: ["tools/*.txt"],
              outputs: {T: {type: text, path: u.txt}}}
    """
    assert refused(project(flow.replace("tools/made.txt", "tools/d/made.txt"), {"tools/given.txt": "1"})) == []
    beneath = flow.replace("tools/made.txt", "tools/d/made.txt").replace("tools/*.txt", "tools/*")
    assert refused(project(beneath, {"tools/given.txt": "1"})) == []
    what = "`tools/made.txt` matches `tools/*.txt` of `code:` of `U`: once it exists, it counts"
    assert refused(project(flow, {"tools/given.txt": "1"})) == [("DUPLICATE_OUTPUT_PATH", what, 4)]


def test_code_lies_where_a_name_begins_with_a_dot_only_if_the_pattern_says_so(project: Callable[..., Lab]) -> None:
    flow = """
        workflow: w
        jobs:
          G: {uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text, path: tools/.gen/made.txt}}}
          U: {uses: shell, with: {run: 'echo 1 > "$out_T"'}, code: ["tools/**/*.txt"], outputs: {T: {type: text}}}
    """
    given = {"tools/given.txt": "1", "tools/.gen/given.txt": "1"}
    lab = project(flow, given)
    assert refused(lab) == []
    assert lab.plan().planned == []
    what = "`tools/.gen/made.txt` matches `tools/.g*/*.txt` of `code:` of `U`: once it exists, it counts"
    named = flow.replace("tools/**/*.txt", "tools/.g*/*.txt")
    assert refused(project(named, given)) == [("DUPLICATE_OUTPUT_PATH", what, 4)]


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("link/*.txt", "data/s${{ i }}.txt"),
        ("data/*.txt", "link/s${{ i }}.txt"),
        ("link/../data/*.txt", "data/s${{ i }}.txt"),
    ],
)
def test_through_links_it_is_the_same_file(project: Callable[..., Lab], pattern: str, path: str) -> None:
    lab = project(FLOW.format(pattern=pattern, output=f'type: text, path: "{path}"'), {"data/given.txt": "1"})
    (lab.root / "link").symlink_to("data")
    assert refused(lab) == caught(path.replace("${{ i }}", "0"), pattern)


def test_through_links_that_lead_deeper_or_have_several_loops_on_their_way(project: Callable[..., Lab]) -> None:
    for link, pattern, path in (
        ("data/deep", "link/*.txt", "data/deep/s${{ i }}.txt"),
        ("data", "data/*/*.txt", "link/${{ i }}/s${{ i }}.txt"),
    ):
        given = {"data/deep/given.txt": "1"}
        lab = project(FLOW.format(pattern=pattern, output=f'type: text, path: "{path}"'), given)
        (lab.root / "link").symlink_to(link)
        assert refused(lab) == caught(path.replace("${{ i }}", "0"), pattern)


def test_through_links_it_is_the_same_folder(project: Callable[..., Lab]) -> None:
    flow = FLOW.format(pattern="data/d*", output='type: text, path: "link/do/s${{ i }}.csv"')
    lab = project(flow.replace("file[]", "directory[]"), {"data/dir/given.txt": "1"})
    (lab.root / "link").symlink_to("data")
    assert refused(lab) == caught("data/do", "data/d*")


def test_what_lies_outside_of_the_project_is_not_in_it(project: Callable[..., Lab], tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "given.txt").touch()
    path = f"{str(outside)[1:]}/s${{{{ i }}}}.txt"  # below the project
    lab = project(FLOW.format(pattern="link/*.txt", output=f'type: text, path: "{path}"'))
    (lab.root / "link").symlink_to(outside)
    assert refused(lab) == []


def test_of_many_paths_the_right_ones_are_found(project: Callable[..., Lab]) -> None:
    names = ["m", "c", "x", "a", "z", "f", "b", "y", "n"]
    outputs = ", ".join(f"T{i}: {{type: text, path: {name}/o.txt}}" for i, name in enumerate(names))
    flow = FLOW.format(pattern="PATTERN", output=outputs)
    flow = flow.replace("outputs: {T: {", "outputs: {").replace("}}}\n", "}}\n").replace("for: [i]\n", "if: true\n")
    given = {f"{name}/given.txt": "1" for name in names}
    for name in names:
        told = [message for _, message, _ in refused(project(flow.replace("PATTERN", f"{name}/*.txt"), given))]
        assert told == [f"`{name}/o.txt` matches `{name}/*.txt` of `Input:Files`: once it exists, it is an input, too"]


def test_the_same_pattern_of_many_is_told_once(project: Callable[..., Lab]) -> None:
    job = "{uses: shell, with: {run: 'true'}, code: ['lib/*.txt'], outputs: {T: {type: text, path: lib/N.txt}}}"
    jobs = "".join(f"  J{n}: {job.replace('N.txt', f'{n}.txt')}\n" for n in range(3))
    lab = project(f"workflow: w\njobs:\n{jobs}", {"lib/given.txt": "1"})
    assert [message for _, message, _ in refused(lab)] == [
        f"`lib/{n}.txt` matches `lib/*.txt` of `code:` of `J0`: once it exists, it counts" for n in range(3)
    ]


def test_every_pattern_and_every_output_is_looked_at_in_one_order(project: Callable[..., Lab]) -> None:
    flow = """
        workflow: w
        inputs:
          C: {type: "file[]", default: "data/c/*.txt"}
          A: {type: "file[]", default: "data/a*/*.txt"}
          B: {type: "file[]", default: "data/b/*"}
          R: {type: "file[]", default: "data/[bc]/*.txt"}
          Q: {type: "file[]", default: "data/?/t*"}
        loops: {d: {values: [x, c, b]}}
        jobs:
          J:
            for: [d]
            uses: shell
            with: {run: 'echo 1 > "$out_T"'}
            outputs:
              Elsewhere: {type: json, path: "out/${{ d }}.json"}
              Nowhere: {type: text}
              T: {type: text, path: "data/${{ d }}/t.txt"}
              U: {type: text, path: "data/a1/${{ d }}.txt"}
    """
    given = {"data/a/g.txt": "1", "data/b/g.txt": "1", "data/c/ta.txt": "1"}
    assert [message for _, message, _ in refused(project(flow, given))] == [
        f"`{path}` matches `{pattern}` of `Input:{name}`: once it exists, it is an input, too"
        for path, pattern, name in (
            ("data/x/t.txt", "data/?/t*", "Q"),
            ("data/c/t.txt", "data/[bc]/*.txt", "R"),
            ("data/b/t.txt", "data/b/*", "B"),
            ("data/c/t.txt", "data/c/*.txt", "C"),
            ("data/a1/x.txt", "data/a*/*.txt", "A"),
        )
    ]


def test_a_pattern_of_folders_alone_catches_no_file(project: Callable[..., Lab]) -> None:
    flow = """
        workflow: w
        inputs: {D: {type: "directory[]", default: "data/*/"}}
        jobs:
          A:
            uses: shell
            with: {d: "${{ inputs.D[:] }}", run: 'echo 1 > "$out_T"'}
            outputs: {T: {type: text, path: PATH}}
    """
    given = {"data/given/f": "1"}
    lab = project(flow.replace("PATH", "data/t.txt"), given)
    assert refused(lab) == []
    assert lab.plan().planned == []
    what = "`data/new` matches `data/*/` of `Input:D`: once it exists, it is an input, too"
    assert refused(project(flow.replace("PATH", "data/new/t.txt"), given)) == [("DUPLICATE_OUTPUT_PATH", what, 8)]
    folder = flow.replace("type: text, path: PATH", "type: directory, path: data/t")
    what = "`data/t` matches `data/*/` of `Input:D`: once it exists, it is an input, too"
    assert refused(project(folder, given)) == [("DUPLICATE_OUTPUT_PATH", what, 8)]
