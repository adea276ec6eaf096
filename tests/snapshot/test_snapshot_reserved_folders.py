"""What whyrun itself writes is nobody's input or code: else a step would be paid for again with every run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from project_lab import Lab
from whyrun.actions.code.code_cache import matching_code_files
from whyrun.project import Project

Make = Callable[..., Lab]

CODE = """
    workflow: w
    jobs:
      A:
        uses: shell
        code: ["{pattern}"]
        with: {{run: 'echo "print(2)" > gen.py; python3 gen.py > "$out_T"; sleep 0.3'}}
        outputs: {{T: {{type: text}}}}
"""


@pytest.mark.parametrize("pattern", ["**/*.py", "**/*.txt", "**/*.json", "**/*"])
def test_a_pattern_of_code_finds_nothing_of_the_state(project: Make, pattern: str) -> None:
    lab = project(CODE.format(pattern=pattern), {"tool.py": "1", "data/c.txt": "1", "data/c.json": "1"})
    (lab.root / ".git").mkdir()
    (lab.root / ".git" / "index.txt").write_text("1")
    assert lab.succeed().executed == ["Job:A"]
    (lab.root / ".git" / "index.txt").write_text("2")
    assert lab.plan().planned == []
    lab.write({"tool.py": "2", "data/c.txt": "2", "data/c.json": "2"})
    assert [job.id for job in lab.plan().planned] == ["Job:A"]


def test_what_python_keeps_of_modules_that_it_has_read_is_no_code(tmp_path: Path) -> None:
    for name in ("lib/tool.py", "lib/__pycache__/tool.cpython-311.pyc", "lib/.cache/x", "lib/.tool.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert matching_code_files(tmp_path, ["lib/**/*"]) == {"lib/tool.py"}
    assert matching_code_files(tmp_path, ["lib/.*/*", "lib/.t*"]) == {"lib/.cache/x", "lib/.tool.py"}


READS = """
    workflow: w
    inputs: {{X: {{type: "{type}", default: "{given}"}}}}
    jobs:
      A:
        uses: shell
        deterministic: true
        with: {{x: "${{{{ inputs.X }}}}", run: 'echo 1 > "$out_T"'}}
        outputs: {{T: {{type: text, path: "{path}"}}}}
"""


def problems(lab: Lab, state: str | None = None) -> list[tuple[str, str, str | None]]:
    opened = Project.open(lab.root / "workflow.yaml", state=None if state is None else str(lab.root / state))
    return [(one.code, one.message, one.hint) for one in opened.problems]


@pytest.mark.parametrize("store", ["d/cache", "file://{root}/d/cache"])
def test_a_folder_that_holds_the_shared_store_is_no_input(project: Make, store: str) -> None:
    lab = project(READS.format(type="directory", given="d", path="o.txt"), {"d/one": "1"})
    store = store.format(root=lab.root)
    lab.write({"whyrun.toml": f'store = "{store}"\n'})
    assert problems(lab) == [
        (
            "INPUT_TYPE",
            "`Input:X`: the folder `d` holds `cache`, the shared store, which every run changes",
            "name a folder in it, or choose another folder for `store` in `whyrun.toml`",
        )
    ]
    lab.write({"whyrun.toml": 'store = "elsewhere"\n'})
    assert problems(lab) == []
    lab.write({"whyrun.toml": 'store = "~nobody-of-that-name/x"\n'})
    assert problems(lab) == []


@pytest.mark.parametrize("given", ["**/*.json", "*/*/*", "s?/d/*.json"])
def test_a_pattern_does_not_look_into_a_state_that_lies_in_the_open(project: Make, given: str) -> None:
    lab = project(READS.format(type="file[]", given=given, path="o.txt"), {"st/d/one.json": "1"})
    looks = f"`{given}` of `Input:X` looks into `st`, the state, which every run changes"
    hint = "write a pattern that does not, or keep the state elsewhere: `--state DIR`"
    assert problems(lab, "st") == [("INPUT_TYPE", looks, hint)]
    assert problems(lab, ".st") == problems(lab) == []


def test_a_pattern_does_not_look_into_the_state_through_a_link(project: Make) -> None:
    lab = project(READS.format(type="file[]", given="link/**/*.json", path="o.txt"), {"a/one.json": "1"})
    (lab.root / "link").symlink_to("a")
    ((code, message, _),) = problems(lab, "a/st")
    looks = "`link/**/*.json` of `Input:X` looks into `a/st`, the state, which every run changes"
    assert (code, message) == ("INPUT_TYPE", looks)


@pytest.mark.parametrize("state", [".", "../st"])
def test_a_state_that_is_not_in_the_project_is_in_nobodys_way(project: Make, state: str) -> None:
    lab = project(READS.format(type="file[]", given="**/*.json", path="o.txt"), {"a/one.json": "1"})
    assert problems(lab, state) == []


@pytest.mark.parametrize(("given", "fine"), [("*.json", True), ("*/*.json", True), ("*/st*", False), ("*/**", False)])
def test_a_pattern_that_finds_nothing_in_the_state_is_fine(project: Make, given: str, fine: bool) -> None:
    files = {"one.json": "1", "d/one.json": "1", "d/store": "1"}
    lab = project(READS.format(type="file[]", given=given, path="o.txt"), files)
    assert any("looks into" in message for _, message, _ in problems(lab, "st")) != fine


def test_a_pattern_of_code_is_asked_the_same(project: Make) -> None:
    lab = project(CODE.format(pattern="**/*.py"), {"tool.py": "1"})
    looks = "`**/*.py` of `code:` of `A` looks into `a/st`, the state, which every run changes"
    assert [(code, what) for code, what, _ in problems(lab, "a/st")] == [("INPUT_TYPE", looks)]


@pytest.mark.parametrize("path", ["st/w/runs/r0001/events.jsonl", "st/store/x.txt", "st"])
def test_nothing_is_published_in_the_state(project: Make, path: str) -> None:
    lab = project(READS.format(type="file", given="one.json", path=path), {"one.json": "1"})
    told = f"`{path}` is in `st`, where whyrun keeps the state"
    hint = "choose another path for the output, or keep the state elsewhere: `--state DIR`"
    assert problems(lab, "st") == [("DUPLICATE_OUTPUT_PATH", told, hint)]
    assert problems(lab) == []


def test_nothing_is_published_in_the_state_through_a_link(project: Make) -> None:
    lab = project(READS.format(type="file", given="one.json", path="link/x.txt"), {"one.json": "1", ".whyrun/y": ""})
    (lab.root / "link").symlink_to(".whyrun")
    ((code, message, _),) = problems(lab)
    assert (code, message) == ("DUPLICATE_OUTPUT_PATH", "`link/x.txt` is in `.whyrun`, where whyrun keeps the state")


def test_nothing_is_published_in_the_shared_store(project: Make) -> None:
    lab = project(READS.format(type="file", given="one.json", path="s/t/x.txt"), {"one.json": "1"})
    lab.write({"whyrun.toml": 'store = "s"\n'})
    ((code, message, _),) = problems(lab)
    assert (code, message) == ("DUPLICATE_OUTPUT_PATH", "`s/t/x.txt` is in `s`, where whyrun keeps the shared store")
