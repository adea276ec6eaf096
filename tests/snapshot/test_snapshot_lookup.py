"""The action of a job, looked up: what planning knows of it, and all that does not fit, each with its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from project_lab import Lab
from whyrun.actions.code import code_cache
from whyrun.actions.description import Description
from whyrun.actions.registry import registry
from whyrun.actions.registry.registry import ActionInfo, Plugin
from whyrun.snapshot.actions.lookup import LookedUp, look_up_action

Make = Callable[..., Lab]
INPUT = "inputs: {F: {type: text, default: a.txt}}\n"
OWN = """
from whyrun import action
@action("own", version="3", outputs={"Out": "text"}, deterministic=True)
def own(x):
    return {}
"""
CLASS = """
from whyrun import Action
class C(Action):
    name = "cls"
    version = "5"
    outputs = {"Out": "text"}
    def estimate_runtime(self, inputs):
        return 1.0
    def run(self, inputs):
        return {"Out": "x"}
"""


def looked_up(lab: Lab, job: str = "J") -> LookedUp:
    return lab.opened().looked_up[job]


def problems_of(found: LookedUp) -> list[tuple[str, int | None, int | None, str]]:
    return [(problem.code, problem.line, problem.column, problem.message) for problem in found.problems]


def flow(job: str) -> str:
    return f"workflow: w\njobs:\n  J: {{{job}, outputs: {{Out: {{type: text}}}}}}\n" + INPUT


def test_code_in_the_project_is_known_by_its_files(project: Make) -> None:
    lab = project(flow("uses: own, with: {x: 1}, code: [extra.txt]"), {"actions/a.py": OWN, "extra.txt": "e"})
    found = looked_up(lab)
    assert found.facts is not None
    assert (found.facts.name, found.facts.deterministic, sorted(found.facts.files)) == (
        "own",
        True,
        ["actions/a.py", "extra.txt"],
    )
    assert (found.facts.versions, found.facts.effectful, found.facts.uncounted) == ({}, False, ())
    assert (found.info is not None and found.info.name, found.problems, found.misfits) == ("own", (), ())


@pytest.mark.parametrize(("written", "expected"), [("true", True), ("false", False)])
def test_a_job_says_itself_whether_it_is_deterministic(project: Make, written: str, expected: bool) -> None:
    lab = project(flow(f"uses: own, with: {{x: 1}}, deterministic: {written}"), {"actions/a.py": OWN})
    facts = looked_up(lab).facts
    assert facts is not None
    assert facts.deterministic is expected


class Answering:
    """Stands for the process that imports the code of others, which is not installed here."""

    def __init__(self, version: str = "7") -> None:
        self.version = version

    def describe(self, info: ActionInfo) -> Description:
        return Description(version=self.version, deterministic=True, uncounted=("wait",))


@pytest.mark.parametrize(
    ("version", "distribution", "versions"),
    [
        ("7", "mine-pack 1.2", {"mine/shout": "7", "mine-pack": "1.2"}),
        ("7", "", {"mine/shout": "7"}),
        ("", "mine-pack 1.2", {"mine-pack": "1.2"}),
        ("", "", {}),
    ],
)
def test_code_of_others_is_known_by_its_versions(
    project: Make, monkeypatch: pytest.MonkeyPatch, version: str, distribution: str, versions: dict[str, str]
) -> None:
    offered = (Plugin("mine/shout", "json:dumps", distribution),)
    monkeypatch.setattr("whyrun.actions.registry.registry.installed_plugins", lambda: offered)
    lab = project(flow("uses: mine/shout, with: {text: x}"))
    decl = lab.opened().workflow.jobs["J"]
    found = look_up_action(decl, lab.root, Answering(version))  # type: ignore[arg-type]
    assert problems_of(found) == []
    assert found.facts is not None
    assert (found.facts.versions, found.facts.deterministic, found.facts.uncounted) == (versions, True, ("wait",))


def test_a_class_in_the_project_is_known_by_its_file_and_not_by_its_version(project: Make) -> None:
    lab = project(flow("uses: cls"), {"actions/a.py": CLASS})
    found = look_up_action(lab.opened().workflow.jobs["J"], lab.root, Answering())  # type: ignore[arg-type]
    assert found.facts is not None
    assert found.info is not None
    assert (found.info.needs_inspection, found.info.version) == (True, "5")
    assert (found.facts.versions, list(found.facts.files)) == ({}, ["actions/a.py"])


@pytest.mark.parametrize(
    ("job", "versions", "effectful"),
    [
        ("uses: shell, with: {run: 'true'}", {}, False),
        ("uses: file/copy, with: {source: '${{ inputs.F }}'}", {"file/copy": "1"}, False),
    ],
)
def test_what_is_built_in_has_a_version_of_its_own(
    project: Make, job: str, versions: dict[str, str], effectful: bool
) -> None:
    facts = looked_up(project(flow(job), {"a.txt": "a"})).facts
    assert facts is not None
    assert (facts.versions, facts.effectful) == (versions, effectful)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ("uses: nothing, code: [z.txt]",
         [("INVALID_USES", 3, 13, "there is no action `nothing`"),
          ("FILE_MISSING", 3, 29, "`code: z.txt` matches no file")]),
        ("uses: own, with: {y: 1}, code: [z.txt, extra.txt, y.txt]",
         [("INVALID_PARAMETER", 3, 13, "the action `own` needs the parameter `x`"),
          ("INVALID_PARAMETER", 3, 25, "the action `own` has no parameter `y`"),
          ("FILE_MISSING", 3, 39, "`code: z.txt` matches no file"),
          ("FILE_MISSING", 3, 57, "`code: y.txt` matches no file")]),
        ("uses: own, with: {x: 1}, code: [extra.txt, z.txt]",
         [("FILE_MISSING", 3, 50, "`code: z.txt` matches no file")]),
        ("uses: python, with: {call: 'gone:f'}, code: [z.txt]",
         [("INVALID_PARAMETER", 3, 34, "the project has no module `gone`"),
          ("FILE_MISSING", 3, 52, "`code: z.txt` matches no file")]),
        ("with: {x: 1}, code: [z.txt]", [("FILE_MISSING", 3, 28, "`code: z.txt` matches no file")]),
        ("uses: own, with: {x: 1}, code: 7", []),
        ("uses: own, with: {x: 1}, code: [z.txt, 7]", []),
        ("uses: own, with: [1]", []),
        ("uses: own, with: {x: '${{ nonsense', y: 1}",
         [("INVALID_PARAMETER", 3, 44, "the action `own` has no parameter `y`")]),
    ],
)  # fmt: skip
def test_all_that_does_not_fit_is_told_at_its_place(
    project: Make, job: str, expected: list[tuple[str, int, int, str]]
) -> None:
    lab = project(flow(job), {"actions/a.py": OWN, "extra.txt": "e"})
    found = looked_up(lab)
    assert (problems_of(found), found.facts) == (expected, None)


def test_what_jobs_share_is_looked_for_and_read_once(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs times files is too much: thousands of each are usual."""
    jobs = "".join(
        f"  {name}: {{uses: python, with: {{call: '{module}:f', n: {name[1]}}}, code: {code}, "
        "outputs: {Out: {type: text}}}\n"
        for name, module, code in [
            ("A1", "a", "['lib/*.py']"), ("A2", "a", "['lib/*.py']"), ("B1", "b", "['lib/*.py']"),
            ("B2", "b", "['lib/*.py', b.py]"),
        ]
    )  # fmt: skip
    act = "def f(n):\n    return {}\n"
    files = {"a.py": act, "b.py": act, "lib/x.py": "X = 1\n", "lib/y.py": "import doctest\n"}
    lab = project(f"workflow: w\njobs:\n{jobs}", files)
    looked_for: list[str] = []
    read: list[str] = []
    find, take = code_cache._glob_once, code_cache.file_sha256

    def found_now(root: Path, pattern: str) -> list[Path]:
        looked_for.append(pattern)
        return find(root, pattern)

    def file_sha256(path: Path) -> str:
        read.append(path.name)
        return take(path)

    monkeypatch.setattr(code_cache, "_glob_once", found_now)
    monkeypatch.setattr(code_cache, "file_sha256", file_sha256)
    opened = lab.opened()
    facts = {name: found.facts for name, found in opened.looked_up.items()}
    assert (sorted(looked_for), sorted(read)) == (["b.py", "lib/*.py"], ["b.py", "x.py", "y.py"])
    assert {name: sorted(known.files) for name, known in facts.items() if known is not None} == {
        "A1": ["a.py", "lib/x.py", "lib/y.py"],
        "A2": ["a.py", "lib/x.py", "lib/y.py"],
        "B1": ["b.py", "lib/x.py", "lib/y.py"],
        "B2": ["b.py", "lib/x.py", "lib/y.py"],
    }
    alone = {name: look_up_action(decl, lab.root).facts for name, decl in opened.workflow.jobs.items()}
    assert alone == facts  # and what is known of each is what would be known without the others
    assert len({known.sha256 for known in facts.values() if known is not None}) == 3


def test_a_plan_after_an_edit_looks_again(project: Make) -> None:
    lab = project(flow("uses: own, with: {x: 1}, code: ['*.txt']"), {"actions/a.py": OWN, "one.txt": "1"})
    before = looked_up(lab).facts
    lab.write({"two.txt": "2"})
    after = looked_up(lab).facts
    assert before is not None
    assert after is not None
    assert (sorted(before.files), sorted(after.files)) == (
        ["actions/a.py", "one.txt"],
        ["actions/a.py", "one.txt", "two.txt"],
    )


def test_what_an_editor_puts_among_code_for_a_moment_harms_no_plan(
    project: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"actions/a.py": OWN, "lib/x.txt": "1", "lib/x.txt~": "1"}
    lab = project(flow("uses: own, with: {x: 1}, code: ['lib/*']"), files)
    gone = lab.root / "lib" / "x.txt~"
    parse, take = registry.project_code, code_cache.file_sha256

    def project_code(*words: Any, **more: Any) -> Any:
        gone.unlink()
        return parse(*words, **more)

    with monkeypatch.context() as while_modules_are_read:
        while_modules_are_read.setattr(registry, "project_code", project_code)
        facts = looked_up(lab).facts
    assert facts is not None
    assert sorted(facts.files) == ["actions/a.py", "lib/x.txt", "lib/x.txt~"]

    def file_sha256(path: Path) -> str:
        if path == gone:
            gone.unlink()
        return take(path)

    gone.write_text("1")
    with monkeypatch.context() as while_it_is_hashed:
        while_it_is_hashed.setattr(code_cache, "file_sha256", file_sha256)
        facts = looked_up(lab).facts
    assert facts is not None
    assert sorted(facts.files) == ["actions/a.py", "lib/x.txt"]


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("lib/**", ["lib/deep/y.txt", "lib/x.txt"]),
        ("**/y**t", ["lib/deep/y.txt"]),
        ("lib/***/*.txt", ["lib/deep/y.txt"]),
        ("lib//x.txt", ["lib/x.txt"]),
    ],
)
def test_patterns_mean_the_same_with_every_python(project: Make, pattern: str, files: list[str]) -> None:
    made = {"actions/a.py": OWN, "lib/x.txt": "1", "lib/deep/y.txt": "1"}
    lab = project(flow(f"uses: own, with: {{x: 1}}, code: ['{pattern}']"), made)
    found = looked_up(lab)
    assert problems_of(found) == []
    assert found.facts is not None
    assert sorted(found.facts.files) == ["actions/a.py", *files]


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("**foo", "FILE_MISSING"),
        ("lib", "FILE_MISSING"),
        ("lib/*/", "FILE_MISSING"),
        ("lib/x.txt/", "FILE_MISSING"),
        ("./.", "PATH_OUTSIDE"),
        ("./", "PATH_OUTSIDE"),
        (".//", "PATH_OUTSIDE"),
        (".", "PATH_OUTSIDE"),
        ("/", "PATH_OUTSIDE"),
        ("", "PATH_OUTSIDE"),
    ],
)
def test_a_pattern_that_finds_nothing_is_told(project: Make, pattern: str, code: str) -> None:
    files = {"actions/a.py": OWN, "lib/x.txt": "1", "a.txt": "1"}
    lab = project(flow(f"uses: own, with: {{x: 1}}, code: ['{pattern}']"), files)
    assert [(problem.code, problem.line) for problem in lab.opened().problems] == [(code, 3)]
