"""Clones of one project that share a store, on disk or behind the loopback S3 server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from s3_server import S3Server

from project_lab import Lab, Ran
from whyrun.facts.plans import planned
from whyrun.log import events as ev
from whyrun.planning.plan import Plan, PlanOptions

WORKFLOW = """
workflow: demo
inputs:
  Topic: {type: string, default: cinema}
jobs:
  Make:
    uses: shell
    deterministic: true
    with:
      topic: ${{ inputs.Topic }}
      run: 'echo "$topic" > "$out_Text"; mkdir -p "$out_Folder/x"; echo 1 > "$out_Folder/x/y"'
    outputs:
      Text: {type: text, path: out/text.txt}
      Folder: {type: directory}
  Use:
    uses: shell
    deterministic: true
    with:
      text: ${{ jobs.Make.outputs.Text }}
      folder: ${{ jobs.Make.outputs.Folder }}
      run: cat "$text" "$folder/x/y" > "$out_All"
    outputs: {All: {type: file, path: out/all.txt}}
"""


class Kept:
    """What stands in the shared store, however it is reached."""

    def __init__(self, address: str, folder: Path | None, server: S3Server | None) -> None:
        self.address, self.folder, self.server = address, folder, server

    def keys(self, kind: str) -> list[str]:
        if self.folder is not None:
            found = (p for p in self.folder.glob(f"v1/{kind}/**/*") if p.is_file())
            return sorted(p.relative_to(self.folder).as_posix() for p in found)
        assert self.server is not None
        return [key.removeprefix("team/demo/") for key in self.server.keys(kind)]

    def read(self, key: str) -> bytes:
        if self.folder is not None:
            return (self.folder / key).read_bytes()
        assert self.server is not None
        return self.server.objects[f"team/demo/{key}"]

    def write(self, key: str, data: bytes | None) -> None:
        if self.folder is not None:
            if data is None:
                (self.folder / key).unlink()
            else:
                (self.folder / key).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / key).write_bytes(data)
            return
        assert self.server is not None
        if data is None:
            del self.server.objects[f"team/demo/{key}"]
        else:
            self.server.objects[f"team/demo/{key}"] = data

    def results(self) -> dict[str, dict[str, Any]]:
        """Key → result, as it stands there."""
        return {key: json.loads(self.read(key)) for key in self.keys("results")}

    def result_of(self, step: str) -> tuple[str, dict[str, Any]]:
        return next((key, found) for key, found in self.results().items() if found["origin"]["step"] == step)

    def blob_key(self, sha256: str) -> str:
        return f"v1/blobs/{sha256[:2]}/{sha256[2:]}"

    def blob_of(self, step: str, output: str) -> str:
        """The key of an output's bytes."""
        outputs = self.result_of(step)[1]["outputs"]
        return self.blob_key(next(o["sha256"] for o in outputs if o["key"] == output))

    def is_sound(self) -> bool:
        """Every blob has the bytes of its name, and every result its blobs."""
        for key in self.keys("blobs"):
            if hashlib.sha256(self.read(key)).hexdigest() != "".join(key.split("/")[2:]):
                return False
        named = {self.blob_key(o["sha256"]) for r in self.results().values() for o in r["outputs"] if "value" not in o}
        return named <= set(self.keys("blobs"))


@dataclass
class Team:
    """Makes clones of a project, each with a state of its own."""

    kept: Kept
    project: Callable[..., Lab]

    def clone(self, workflow: str = WORKFLOW, files: dict[str, str | bytes | None] | None = None) -> Lab:
        settings = f"store = {json.dumps(self.kept.address)}\n"
        return self.project(workflow, {"whyrun.toml": settings, **(files or {})})


def plan_told(lab: Lab, **options: Any) -> tuple[Plan, list[str]]:
    """What `whyrun plan` says, and what it notes."""
    notes: list[str] = []
    return planned(lab.opened(), PlanOptions(**options), tell=notes.append).plan, notes


def shared_steps(ran: Ran) -> list[str]:
    return sorted(e.step_id for e in ran.of(ev.StepSkipped) if e.why == "reused" and e.shared is not None)


def skips(ran: Ran) -> list[str]:
    return [text.partition("SKIPS ")[2] for status, text in ran.heard.lines if status == "SKIPS"]


def use_server(monkeypatch: pytest.MonkeyPatch, server: S3Server, **options: Any) -> None:
    for name, value in server.env(**options).items():
        monkeypatch.setenv(name, value)
