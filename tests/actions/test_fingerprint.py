"""What belongs to the fingerprint of an action, and what does not."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from whyrun.actions.code.source import canonical_tokens, source_sha256
from whyrun.actions.registry.registry import action_fingerprint
from whyrun.errors import InvalidError

STORY = '''"""Docs."""
import helper
from pkg import sub
def write(topic, n=3):
    """More docs."""
    # a comment
    return {"text": f"{topic!r:>{n}} in {n}" "!", "n": -1, "raw": b"x", "none": None}
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pkg" / "deep").mkdir(parents=True)
    (tmp_path / "actions").mkdir()
    files = {
        "story.py": STORY,
        "helper.py": "from pkg.deep import leaf\n",
        "pkg/__init__.py": "A = 1\n",
        "pkg/sub.py": "from . import sibling\ndef f():\n    import lazily\n",
        "pkg/sibling.py": "",
        "pkg/deep/leaf.py": "B = 2\n",
        "lazily.py": "import os, json\n",
        "unrelated.py": "C = 3\n",
        "actions/mine.py": "from whyrun import action\nfrom ._shared import x\n@action('mine')\ndef f(): return {}\n",
        "actions/_shared.py": "x = 1\n",
        "sql/a.sql": "select 1",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def of_story(project: Path, code: tuple[str, ...] = ()) -> str:
    return action_fingerprint("python", {"call": "story:write"}, project, code)[0]


def test_the_facts_name_every_project_module_that_is_imported(project: Path) -> None:
    _, facts = action_fingerprint("python", {"call": "story:write"}, project)
    assert sorted(facts["source"]) == [
        *("helper.py", "lazily.py", "pkg/__init__.py", "pkg/deep/leaf.py", "pkg/sibling.py", "pkg/sub.py", "story.py")
    ]
    _, facts = action_fingerprint("mine", {}, project)
    assert sorted(facts["source"]) == ["actions/_shared.py", "actions/mine.py"]
    assert action_fingerprint("shell", {"run": "x"}, project)[1] == {
        **{"name": "shell", "version": "1", "distribution": ""}
    }


def test_lesson_15_comments_docstrings_and_layout_change_nothing(project: Path) -> None:
    before = of_story(project)
    (project / "story.py").write_text(
        "import helper   # why\nfrom pkg import (\n    sub,\n)\n\n\ndef write(\n    topic,\n    n = 3,\n):\n"
        "    '''Other docs.'''\n    return {'text': f'{topic!r:>{n}} in ' f'{n}!',\n"
        "            'n': -1, 'raw': b'x', 'none': None}\n"
    )
    assert of_story(project) == before
    (project / "unrelated.py").write_text("C = 4\n")
    assert of_story(project) == before


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("story.py", STORY.replace("n=3", "n=4")),
        ("story.py", STORY.replace('b"x"', '"x"')),
        ("story.py", STORY.replace("None", "False")),
        ("story.py", STORY.replace("-1", "1")),
        ("story.py", STORY.replace("!r", "!s")),
        ("helper.py", "from pkg.deep import leaf\nD = 1\n"),
        ("pkg/__init__.py", "A = 2\n"),
        ("pkg/sibling.py", "E = 1\n"),
        ("pkg/deep/leaf.py", "B = 3\n"),
        ("lazily.py", "import os\n"),
    ],
)
def test_a_change_in_the_code_or_in_what_it_imports_changes_it(project: Path, file: str, text: str) -> None:
    before = of_story(project)
    (project / file).write_text(text)
    assert of_story(project) != before


def test_code_files_count_by_content_and_must_exist(project: Path) -> None:
    before = of_story(project, ("sql/*.sql",))
    assert before != of_story(project)
    (project / "sql" / "a.sql").write_text("select 2")
    assert of_story(project, ("sql/*.sql",)) != before
    with pytest.raises(InvalidError, match=r"`code: none/\*` matches no file"):
        of_story(project, ("none/*",))
    with pytest.raises(InvalidError, match="leaves the project folder"):
        of_story(project, ("../x",))


def test_code_that_does_not_parse_is_an_error_with_its_place(project: Path) -> None:
    (project / "helper.py").write_text("def f(:\n")
    with pytest.raises(InvalidError, match=r"`python` cannot be read: helper\.py:1: "):
        of_story(project)


def test_digests_are_pinned(project: Path) -> None:
    """A change here would re-run everything of everybody: only on purpose, with a new tag."""
    assert source_sha256(ast.parse(STORY)) == PINNED_SOURCE
    assert action_fingerprint("shell", {}, project)[0] == PINNED_SHELL


PINNED_SOURCE = "748ed12541716f1bc290f39a52956d89b3d6af23a09b76da1f324d26ecce9203"
PINNED_SHELL = "5a53edcac602e16550fd118030a2d7a28b6b294ca101a2921a43e56fe5d5fd5b"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1", "x = True"),
        ("x = 1", "x = 1.0"),
        ("x = 'a'", "x = b'a'"),
        ("f(a, b)", "f(a)(b)"),
        ("x = {**a}", "x = {None: a}"),
        ("def f(*, a, b=1): pass", "def f(*, a=1, b): pass"),
        ("return_ = None", "return_ = ..."),
        ("if a: b\nc", "if a:\n  b\n  c"),
        ("'a'; x", "x"),
    ],
)
def test_different_programs_have_different_forms(one: str, other: str) -> None:
    different = list(canonical_tokens(ast.parse(one))) != list(canonical_tokens(ast.parse(other)))
    assert different is (one != "'a'; x")  # a module's docstring is none of its behaviour


def test_fields_that_later_pythons_add_change_nothing_while_they_are_not_used() -> None:
    tree: Any = ast.parse("def f(): return 1")
    before = list(canonical_tokens(tree))
    function = tree.body[0]
    function._fields = (*function._fields, "type_params", "future")
    function.type_params = []
    function.future = None
    assert list(canonical_tokens(tree)) == before


def test_deep_nesting_is_no_problem() -> None:
    tree = ast.parse("x = " + "+".join(["1"] * 900))
    assert len(source_sha256(tree)) == 64
