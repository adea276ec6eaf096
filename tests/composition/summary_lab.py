"""Dataset plans that are run, and their summaries with hashes and times normalised.

Nothing is taken on trust: a hash is replaced by the name of the file with these bytes, a size by words where it is
the file's. What does not fit anything stays, and no expected file has it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from fork_server import COMMAND, run_command
from project_lab import NOT_TRACED, Lab, reasons
from whyrun.artifacts.hashing import value_sha256
from whyrun.planning.plan import Plan
from whyrun.project import Project

HERE = Path(__file__).parent / "summaries"
MANIFEST = "inputs/manifest.json"
HASH = re.compile(r"(sha256:)?[0-9a-f]{64}")


class PlanLab(Lab):
    """A copy of the small project, with one of its plans chosen."""

    def __init__(self, root: Path, plan: str) -> None:
        super().__init__(root)
        if not root.exists():
            shutil.copytree(HERE / "project", root, ignore=shutil.ignore_patterns("__pycache__"))
            self.write(NOT_TRACED)
        self.name = plan
        self.file = root / f"{plan}.json"

    def opened(self, sets: Sequence[str] = ()) -> Project:
        return Project.open(self.file, sets=sets, manifest=self.root / MANIFEST)

    def change_step(self, step_id: str, **params: Any) -> PlanLab:
        """Rewrite parameters of one step of the plan; None takes one out."""
        plan = json.loads(self.file.read_bytes())
        (step,) = [step for step in plan["steps"] if step["step_id"] == step_id]
        step["params"] = {k: v for k, v in {**step["params"], **params}.items() if v is not None}
        self.file.write_text(json.dumps(plan, indent=1))
        return self

    def bindings_of(self, step_id: str) -> dict[str, Any]:
        plan = json.loads(self.file.read_bytes())
        (found,) = [step["params"]["input_bindings"] for step in plan["steps"] if step["step_id"] == step_id]
        assert isinstance(found, dict)
        return found

    def append(self, dataset: str, *lines: str) -> PlanLab:
        with (self.root / "inputs" / f"{dataset}.csv").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        return self

    def cli(self, *words: str) -> tuple[int, str, str]:
        done = run_command(self.command(*words)[len(COMMAND) :], cwd=self.root, env=os.environ, timeout=300)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def command(self, verb: str, *words: str) -> list[str]:
        return [*COMMAND, verb, *words, self.file.name, "--manifest", MANIFEST]

    def summary(self, run: str = "r0001") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run_folder(run) / "composition_summary.json").read_bytes())
        return found

    def normal(self, run: str = "r0001") -> dict[str, Any]:
        found = _normal(self.summary(run), self._contents())
        assert isinstance(found, dict)
        return found

    def tree(self, run: str = "r0001") -> str:
        code, out, err = self.cli("show", "--composition", run)
        assert (code, err) == (0, "")
        return re.sub(r"\bin \d+(\.\d+)?s\b", "in …s", out)

    def _contents(self) -> dict[str, tuple[str, int]]:
        """Hash → name and size of every file that a run was given or made."""
        kept = [*self.root.glob("inputs/*.csv"), *self.root.glob("older/*.csv")]
        made = [file for run in self.runs() for file in (self.run_folder(run) / "artifacts").rglob("*")]
        found = {}
        for file in [*kept, *sorted(made)]:
            if file.is_file():
                content = file.read_bytes()
                name = file.relative_to(self.root) if file in kept else "/".join(file.parts[-2:])
                found.setdefault(sha256(content).hexdigest(), (str(name), len(content)))
        return found


def _normal(value: Any, contents: Mapping[str, tuple[str, int]]) -> Any:
    if isinstance(value, list):
        return [_normal(item, contents) for item in value]
    if isinstance(value, str):
        if HASH.fullmatch(value) and value[-64:] in contents:
            return f"#{contents[value[-64:]][0]}"
        return value
    if not isinstance(value, dict):
        return value
    found = {key: _normal(item, contents) for key, item in value.items()}
    if isinstance(value.get("duration"), float) and value["duration"] > 0:
        found["duration"] = "…s"
    if value.get("sha256") in contents and value.get("size") == contents[value["sha256"]][1]:
        found["size"] = "its size"
    if "value" in value and value.get("sha256") == value_sha256(value["value"]):
        found["sha256"] = "#its value"
    return found


def assert_as_kept(name: str, summary: Mapping[str, Any], tree: str) -> None:
    """Both as the files say. `UPDATE_SUMMARIES=1 pytest …` writes them, to be read before they are kept."""
    text = json.dumps(summary, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    files = {HERE / f"{name}.json": text, HERE / f"{name}.txt": tree}
    if os.environ.get("UPDATE_SUMMARIES"):
        for file, content in files.items():
            file.write_text(content, encoding="utf-8")
    for file, content in files.items():
        assert content == file.read_text(encoding="utf-8"), file.name


def words(plan: Plan) -> dict[str, list[str]]:
    """Planned job → its reasons, without the hashes."""
    return {
        id_: [" ".join(str(value) for key, value in reason.items() if key not in ("old", "new")) for reason in found]
        for id_, found in reasons(plan).items()
    }
