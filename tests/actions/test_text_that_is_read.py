"""Docstrings that code names are data: where it does, an edit of them is a change, else it is none."""

from __future__ import annotations

import ast
import email
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest
from code_lab import write
from hypothesis import given
from hypothesis import strategies as st

import whyrun.actions
from project_lab import Lab, reasons
from whyrun.actions.code import imports
from whyrun.actions.code.import_facts import read_facts
from whyrun.actions.code.source import canonical_form, names_docstrings, source_sha256
from whyrun.actions.registry.registry import action_fingerprint
from whyrun.errors import InvalidError

Make = Callable[..., Lab]

# Every kind of docstring, and a comment, in a module that reads none of them.
ENTRY = '''"""Of the module."""
{0}
# a comment
class Question:
    """Of the class."""
    def ask(self):
        """Of the method."""
async def later():
    """Of the coroutine."""
def go():
    """PROMPT one"""
    return {{}}
'''
DOCSTRINGS = ["Of the module.", "Of the class.", "Of the method.", "Of the coroutine.", "PROMPT one"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def fingerprint(folder: Path, code: tuple[str, ...] = ()) -> str:
    return action_fingerprint("python", {"call": "entry:go"}, folder, code)[0]


def is_seen(folder: Path, file: str, old: str, new: str, code: tuple[str, ...] = ()) -> bool:
    """Does this edit change the fingerprint? The file is put back as it was."""
    path = folder / file
    text = path.read_text()
    assert text.count(old) == 1
    before = fingerprint(folder, code)
    path.write_text(text.replace(old, new))
    after = fingerprint(folder, code)
    path.write_text(text)
    assert fingerprint(folder, code) == before
    return after != before


def counts(folder: Path, file: str = "entry.py", code: tuple[str, ...] = ()) -> bool:
    """Whether the fingerprint covers the docstrings of that file: all or none, and no comment."""
    (found,) = {is_seen(folder, file, text, f"{text} Edited.", code) for text in DOCSTRINGS}
    assert not is_seen(folder, file, "# a c", "# another c", code)
    return found


OTHER_CODE = [
    "X = 1",
    "import inspect\nX = inspect.signature(print)",
    "from pathlib import Path\nHERE = Path(__file__).parent",
    "X = 'see its doc or getdocs of it'",  # prose about a name is not the name
    "# go.__doc__",
    "def other():\n    'is read by other.__doc__'",
    "X = 'the model_json_schema of it'",
    "def model_json_schemas(): return {}",
    "import inspect, linecache, tokenize\nX = inspect.getsource",  # a step is seen to open its source
    "import doctest, dspy, langchain_core",  # nobody sees what a library reads in memory
]
NAMED = [
    "X = lambda: go.__doc__",
    "X = __doc__",
    "X = lambda: getattr(go, '__doc__')",
    "X = lambda: vars(Question)['__doc__']",
    "X = lambda: f'{go.__doc__}'",
    "X = lambda: '{0.__doc__}'.format(go)",
    "import operator\nX = operator.attrgetter('ask.__doc__')",
    "import inspect\nX = lambda: inspect.getdoc(go)",
    "import inspect as i\nX = getattr(i, 'getdoc')",
    "from inspect import getdoc as words",
    "def f(x):\n    match x:\n        case Question(__doc__=text): return text",
    "X = lambda: Question.model_json_schema()",
    "X = lambda: getattr(Question, 'model_json_schema')()",
]
CASES = [*((code, False) for code in OTHER_CODE), *((code, True) for code in NAMED)]


@pytest.mark.parametrize(("code", "named"), CASES)
def test_docstrings_count_where_the_code_names_them(folder: Path, code: str, named: bool) -> None:
    write(folder, {"entry.py": ENTRY.format(code)})
    assert counts(folder) is named


@pytest.mark.parametrize(("code", "named"), [CASES[0], *(case for case in CASES if "go" not in case[0])])
def test_who_reads_may_stand_in_any_module_of_the_action(folder: Path, code: str, named: bool) -> None:
    """The reader may be handed any function, so the docstrings of all the modules count, however far away."""
    write(folder, {"entry.py": ENTRY.format("import middle"), "middle.py": "import pkg.deep", "pkg/deep.py": code})
    write(folder, {"unrelated.py": "X = print.__doc__"})
    assert counts(folder) is named
    write(folder, {"entry.py": f"{code}\nimport other\ndef go(): return {{}}\n", "other.py": ENTRY.format("")})
    assert counts(folder, "other.py") is named


def test_a_decorator_of_another_module_collects_docstrings(folder: Path) -> None:
    plain = "PROMPTS = []\ndef prompt(function):\n    return function\n"
    collecting = "PROMPTS = []\ndef prompt(function):\n    PROMPTS.append(function.__doc__)\n    return function\n"
    write(folder, {"prompts.py": plain, "entry.py": ENTRY.format("import prompts\n@prompts.prompt\ndef f(): 'Write.'")})
    assert not is_seen(folder, "entry.py", "Write.", "Write well.")
    write(folder, {"prompts.py": collecting})
    assert is_seen(folder, "entry.py", "Write.", "Write well.")
    assert not is_seen(folder, "entry.py", "# a comment", "# another")


def test_a_reader_under_code_makes_the_docstrings_of_the_modules_count(folder: Path) -> None:
    """Modules that only running the code would find are named there, and they too may be handed a function."""
    write(folder, {"entry.py": ENTRY.format(""), "late/one.py": "X = 1", "late/notes.md": "use `__doc__`"})
    code = ("late/*",)
    assert not counts(folder, code=code)
    write(folder, {"late/broken.py": "__doc__ {{ no Python }}"})
    assert not counts(folder, code=code)
    write(folder, {"late/two.py": "X = print.__doc__"})
    assert counts(folder, code=code)
    assert not counts(folder)


def test_what_is_wrong_with_the_source_is_said_before_what_is_wrong_under_code(folder: Path) -> None:
    write(folder, {"entry.py": "def go(:\n"})
    with pytest.raises(InvalidError, match=r"entry\.py:1: "):
        fingerprint(folder, ("none/*",))
    write(folder, {"entry.py": "def go(): return {}\n"})
    with pytest.raises(InvalidError, match="matches no file"):
        fingerprint(folder, ("none/*",))


def test_only_files_with_docstrings_have_another_digest_where_they_count(folder: Path) -> None:
    """So that adding a reader does not seem to change every file of the project."""
    compiled = f"fast{EXTENSION_SUFFIXES[0]}"
    write(folder, {"entry.py": ENTRY.format("import bare, fast"), "bare.py": "X = 1  # no more", compiled: "\x7fELF"})

    def digests() -> dict[str, str]:
        found: dict[str, str] = action_fingerprint("python", {"call": "entry:go"}, folder)[1]["source"]
        return found

    plain = digests()
    assert plain["entry.py"] == source_sha256(ast.parse((folder / "entry.py").read_text()))
    write(folder, {"entry.py": ENTRY.format("import bare, fast; X = __doc__")})
    documented = digests()
    assert {name for name in plain if plain[name] == documented[name]} == {"bare.py", compiled}


def test_many_jobs_that_share_documented_modules_cost_one_look_at_each(folder: Path) -> None:
    write(folder, {"entry.py": ENTRY.format(f"import other\nX = __doc__, {str(folder)!r}"), "other.py": f"'{folder}'"})
    before = [cached.cache_info().misses for cached in (read_facts, imports._sha256_with_docstrings)]
    assert len({fingerprint(folder) for _ in range(20)}) == 1
    after = [cached.cache_info().misses for cached in (read_facts, imports._sha256_with_docstrings)]
    assert [now - then for then, now in zip(before, after, strict=True)] == [2, 2]


# --- a plan --------------------------------------------------------------------------------------------------------

WORKFLOW = """
    workflow: w
    jobs:
      Ask: {uses: python, with: {call: "ask:go"}, outputs: {o: {type: text}}}
      Own: {uses: own, outputs: {o: {type: text}}}
      Plain: {uses: python, with: {call: "plain:go"}, outputs: {o: {type: text}}}
"""
OWN = """
    from whyrun import action

    @action("own", outputs={"o": "text"})
    def own():
        "OWN one"
        return {"o": own.__doc__}
"""
FILES = {
    "prompts.py": "def text_of(function): return {'o': function.__doc__}\n",
    "ask.py": 'import prompts\ndef go():\n    """PROMPT one"""\n    return prompts.text_of(go)\n',
    "actions/own.py": OWN,
    "plain.py": 'def go():\n    """PLAIN one"""\n    return {"o": "x"}\n',
}


def test_a_plan_says_that_the_action_changed_and_the_run_gives_the_new_text(project: Make) -> None:
    lab = project(WORKFLOW, FILES)
    lab.succeed()
    assert lab.content("Artifact:Ask.o") == "PROMPT one"
    lab.edit("plain.py", "PLAIN one", "PLAIN two")
    lab.edit("ask.py", "def go", "# why\ndef go")
    assert lab.plan().headlines() == {}
    before = lab.opened().actions
    lab.edit("ask.py", "PROMPT one", "PROMPT two")
    lab.edit("actions/own.py", "OWN one", "OWN two")
    after = lab.opened().actions
    assert reasons(lab.plan()) == {
        f"Job:{job}": [
            {
                "code": "INPUT_CHANGED",
                "binding": "action",
                "source": f"Input:{job}.action",
                "old": before[job].sha256,
                "new": after[job].sha256,
                "files": [file],
            }
        ]
        for job, file in [("Ask", "ask.py"), ("Own", "actions/own.py")]
    }
    ran = lab.succeed()
    assert sorted(ran.executed) == ["Job:Ask", "Job:Own"]
    assert (lab.content("Artifact:Ask.o"), lab.content("Artifact:Own.o")) == ("PROMPT two", "OWN two")
    assert lab.plan().headlines() == {}


# --- the form of code that reads nothing ---------------------------------------------------------------------------

LEFT_OUT = {"ctx", "type_comment", "type_ignores", "kind"}
NAMES = re.compile(rb"__doc__|\bgetdoc\b|\bmodel_json_schema\b")


def form_of_version_1(item: Any) -> Iterator[str]:
    """The form that every log rests on, once more and in another way: by recursion, and with no other choice."""
    if isinstance(item, list):
        yield f"[{len(item)}"
        for member in item:
            yield from form_of_version_1(member)
    elif isinstance(item, ast.AST):
        yield f"({type(item).__name__}"
        for name, value in sorted(ast.iter_fields(item)):
            if isinstance(item, ast.JoinedStr):
                value = [part for part in value if not (isinstance(part, ast.Constant) and part.value == "")]
            if name == "body" and isinstance(item, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = value[0] if value else None
                if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
                    value = value[1:] or [ast.Pass()]
            kept = (value is not None and value != []) or (isinstance(item, ast.Constant) and name == "value")
            if name not in LEFT_OUT and kept:
                yield f".{name}"
                yield from form_of_version_1(value)
        yield ")"
    elif isinstance(item, str):
        yield f"str {len(item)} {item}"
    else:
        whole = isinstance(item, int) and not isinstance(item, bool)
        yield f"int {item:x}" if whole else f"{type(item).__name__} {item!r}"


def real_modules() -> list[Path]:
    folders = [Path(str(email.__file__)).parent, *map(Path, whyrun.actions.__path__)]
    return [file for folder in folders for file in sorted(folder.glob("*.py"))]


def test_code_that_names_no_docstrings_has_the_form_that_it_always_had() -> None:
    plain = [data for data in (file.read_bytes() for file in real_modules()) if not NAMES.search(data)]
    assert len(plain) > 20
    for data in plain:
        form = "".join(f"{token}\n" for token in form_of_version_1(ast.parse(data)))
        assert canonical_form(ast.parse(data)) == form
        facts = read_facts(data, "x.py")
        assert facts.names_docstrings is names_docstrings(form) is False
        assert facts.sha256 == sha256(f"whyrun/python-source/v1\n{form}".encode()).hexdigest()


@given(one=st.text(), other=st.text(), kind=st.sampled_from(["{!r}", "class C: {!r}", "def f(): {!r}\nx = 1"]))
def test_docstrings_are_in_the_one_form_and_not_in_the_other(one: str, other: str, kind: str) -> None:
    trees = [ast.parse(kind.format(text)) for text in (one, other)]
    assert len({source_sha256(tree) for tree in trees}) == 1
    assert len({source_sha256(tree, docstrings=True) for tree in trees}) == len({one, other})
    bare = ast.parse(kind.format(None).replace("None", "pass"))
    assert source_sha256(bare) == source_sha256(bare, docstrings=True) != source_sha256(trees[0], docstrings=True)
