"""Random projects with real workers, compared with clean rebuilds of the same sources: see clean_rebuild_story."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from clean_rebuild_code import Code, Module
from clean_rebuild_flow import Flow, Step
from clean_rebuild_story import Checkout, Story, tell_clean_rebuild
from oracle_counts import Counts
from oracle_generate import RandomDice, chance, pick

SOAK = bool(os.environ.get("WHYRUN_SOAK"))
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


@pytest.mark.parametrize("part", range(4 if SOAK else 2))
def test_up_to_date_artifacts_are_those_of_a_clean_rebuild(part: int) -> None:
    first = random.SystemRandom().randrange(10**9) if SOAK else part * 1000
    counts = Counts()
    for number in range(first, first + (100 if SOAK else 3)):
        record: list[str] = [f"seed {number}"]
        with tempfile.TemporaryDirectory(prefix="lab-", dir=MEMORY) as folder:
            try:
                counts.add(tell_clean_rebuild(RandomDice(number), Path(folder), record))
            except BaseException as failed:
                failed.add_note("\n".join(record))
                raise
    assert counts.rebuilt > 15, "stories in which nothing is ever up to date prove nothing"


READERS = Flow(
    steps={
        "A": Step("undeclared", "", {"Text": {"type": "text", "path": "out/text.txt"}}, {"one": "inputs.Level"}),
        "B": Step("undeclared", "name", {"Word": {"type": "string"}}, {"text": "jobs.A.outputs.Text"}),
        "C": Step("undeclared", "", {"Count": {"type": "integer"}}, {"all": "jobs.B.outputs.Word[:]"}),
    },
    inside={},
)


@pytest.mark.parametrize("seed", range(40 if SOAK else 1))
def test_from_the_second_plan_on_no_change_of_an_undeclared_file_is_missed(tmp_path: Path, seed: int) -> None:
    (tmp_path / "project").mkdir()
    dice, record = RandomDice(seed), [f"seed {seed}"]
    story = Story(dice, tmp_path, record, READERS, CODE)
    story.colleague = None
    story.write()
    for _ in range(5):
        story.some_run()
        if chance(dice, 4):
            story.code = pick(dice, story.past)[1]
        elif chance(dice, 2):
            story.code = replace(story.code, settings=pick(dice, [None, 1, 2]))
        else:
            path = pick(dice, ["a.txt", "deep/b.txt", "c.txt", "deep/er/d.txt"])
            prompts = {name: number for name, number in story.code.prompts.items() if name != path}
            story.code = replace(story.code, prompts=prompts | ({path: dice.number(1, 2)} if chance(dice, 2) else {}))
        record.append(f"settings {story.code.settings}, prompts {story.code.prompts}")
        story.write()
        try:
            story.compare()
        except BaseException as failed:
            failed.add_note("\n".join(record))
            raise
    assert SOAK or story.counts.rebuilt > 5


# --- the oracle itself -------------------------------------------------------------------------------------------

TEXT = {"Text": {"type": "text", "path": "out/text.txt"}}
IMPORTS = (("import", "lib.b"), ("relative", "lib.c"))
CODE = Code(
    {
        "lib": Module(),
        "lib.a": Module(imports=IMPORTS),
        "lib.b": Module(imports=(("late", "other.d"),)),
        "lib.c": Module(imports=(("vendored", "tool"),)),
        "other.d": Module(),
        "tool": Module(),
    }
)
FLOW = Flow(
    steps={
        "A": Step("call", "", TEXT, {"tree": "inputs.Tree", "files": "inputs.Files"}),
        "B": Step("prompted", "", {"Folder": {"type": "directory", "path": "out/folder"}}, {"doc": "inputs.Doc"}),
        "C": Step("shell", "", {"Doc": {"type": "json", "path": "out/c.json", "append": True}}, {"one": "inputs.One"}),
        "D": Step("lab/class", "", {"Word": {"type": "string"}}, {"thing": "jobs.B.outputs.Folder"}),
        "E": Step("undeclared", "", {"Text": {"type": "text"}}, {"one": "inputs.Level"}),
    },
    inside={"P": Step("lab/function", "", {"Text": {"type": "text"}}, {"thing": "inputs.One"})},
)


def edit(path: str, old: str, new: str) -> Callable[[Checkout], None]:
    def change(project: Checkout) -> None:
        text = (project.folder / path).read_text()
        assert old in text
        (project.folder / path).write_text(text.replace(old, new))

    return change


UNSEEN: dict[str, tuple[Callable[[Checkout], object], str]] = {
    "a module": (edit("lib/a.py", "VALUE = 10", "VALUE = 11"), "Artifact:A.Text"),
    "a package": (edit("lib/__init__.py", "VALUE = 10", "VALUE = 11"), "Artifact:A.Text"),
    "a module behind a module": (edit("other/d.py", "VALUE = 10", "VALUE = 12"), "Artifact:A.Text"),
    "a module on a path of its own": (edit("lib/vendor/tool.py", "VALUE = 10", "VALUE = 11"), "Artifact:A.Text"),
    "a file of a folder": (edit("data/tree/sub/b.txt", "1", "2"), "Artifact:A.Text"),
    "what may be executed": (lambda one: (one.folder / "data/tree/a.txt").chmod(0o755), "Artifact:A.Text"),
    "what a link leads to": (edit("data/linked.txt", "1", "2"), "Artifact:Part/P.Text"),
    "an empty folder": (lambda one: (one.folder / "data/tree/empty").mkdir(), "Artifact:A.Text"),
    "a file of a pattern": (lambda one: one.write("data/files/c.txt", b"new"), "Artifact:A.Text"),
    "a prompt": (edit("prompts/deep/b.txt", "1", "3"), "Artifact:B.Folder"),
    "a value": (edit("lab.yaml", '"name": "n"', '"name": "m"'), "Artifact:B.Folder"),
    "a file that nothing declares": (lambda one: one.write("settings.txt", b"new"), "Artifact:E.Text"),
    "a text": (edit("data/one.txt", "1", "2"), "Artifact:C.Doc"),
    "an environment": (edit("lab.yaml", '"LEVEL": "1"', '"LEVEL": "2"'), "Artifact:C.Doc"),
    "a default of an action": (edit("actions/acts.py", "level: int = 1", "level: int = 2"), "Artifact:D.Word"),
    "an action": (edit("actions/acts.py", "[1, a.value()]", "[2, a.value()]"), "Artifact:Part/P.Text"),
    "an input of a part": (lambda one: one.write("data/part.txt", b"new"), "Artifact:Part/P.Text"),
}


@pytest.fixture(scope="module")
def linked_story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("told")
    (folder / "project").mkdir()
    flow = replace(FLOW, steps={**FLOW.steps, "D": replace(FLOW.steps["D"], level=None)})
    story = Story(RandomDice(1), folder, [], flow, CODE)
    story.colleague = None
    (folder / "project/data/part.txt").unlink()
    (folder / "project/data/part.txt").symlink_to("linked.txt")
    story.write()
    story.compare()
    return story


@pytest.mark.parametrize("what", UNSEEN)
def test_a_change_that_a_plan_would_miss_is_noticed(
    linked_story: Story, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project stays as it is, as if its plan had missed the change."""
    change, artifact = UNSEEN[what]
    copy = linked_story.copy_to

    def copied_and_changed(other: Checkout) -> None:
        copy(other)
        change(other)

    monkeypatch.setattr(linked_story, "copy_to", copied_and_changed)
    with pytest.raises(AssertionError, match=f"^{artifact} of "):
        linked_story.compare()


def test_a_published_file_that_is_not_as_recorded_is_noticed(
    linked_story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linked_story.project, "run", lambda: None)
    monkeypatch.setattr(linked_story.project, "plan", linked_story.rebuilt.plan)
    (linked_story.project.folder / "out/folder/mine").mkdir()
    with pytest.raises(AssertionError, match=r"^Artifact:B\.Folder of "):
        linked_story.compare()
