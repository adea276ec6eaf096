"""`cfg/<step>.json`: what a step is started with, ready to run, secrets as references.

Canonical JSON; no backend, host, time or absolute path stands in it, so the same step has the same cfg everywhere.
"""

from __future__ import annotations

from typing import Any

import msgspec

from whyrun.artifacts.compare.result import CompareSettings


class InputSpec(msgspec.Struct, omit_defaults=True, frozen=True):
    """One input of a step. `members` for a fan-in; else the single fields."""

    id: str
    sha256: str
    type: str  # string integer number boolean json file directory image text dataset, or T[] for a whole array
    suffix: str = ""  # ".png": actions see files under a name with it
    value: Any = msgspec.UNSET  # workflow inputs that are values, in full
    path: str | None = None  # workflow inputs that are files: relative to the project
    members: list[InputSpec] | None = None  # a whole array of files (T[]), element by element


class OutputSpec(msgspec.Struct, omit_defaults=True, frozen=True):
    type: str
    suffix: str = ""
    leaves: dict[str, str] = {}  # "Segments[0].HasTransition": "boolean"
    section: bool = False  # it becomes a section of a shared file: its bytes are canonical JSON
    compare: CompareSettings | None = None  # what `whyrun compare` is to mind


class StepCfg(msgspec.Struct, omit_defaults=True, frozen=True):
    """`with_` is the `with:` block with values in place; a bound slot stands as {"$input": "SourceImages[0]"}.

    A secret stands as {"$secret": "NAME"} or, inside a longer string, {"$secret": "NAME", "format": "Bearer {}"}.
    """

    step_id: str
    action: str
    action_sha256: str
    with_: dict[str, Any] = msgspec.field(name="with")
    inputs: dict[str, InputSpec | list[InputSpec]]
    outputs: dict[str, OutputSpec]
    env: dict[str, Any] = {}
    secrets: list[str] = []
    timeout: float | None = None
