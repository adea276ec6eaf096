"""`cfg/<step>.json`: everything that a step needs to run, with references instead of secrets.

It is canonical JSON without backend, host, time or absolute path, so the same step has the same cfg on every backend.
"""

from __future__ import annotations

from typing import Any

import msgspec

from whyrun.artifacts.compare.result import CompareSettings


class InputSpec(msgspec.Struct, omit_defaults=True, frozen=True):
    """One input of a step. A fan-in has `members`; any other input has the other fields."""

    id: str
    sha256: str
    type: str  # string integer number boolean json file directory image text dataset, or T[] for a whole array
    suffix: str = ""  # ".png": the name under which actions see a file ends with it
    value: Any = msgspec.UNSET  # of a workflow input that is a value
    path: str | None = None  # of a workflow input that is a file: relative to the project
    members: list[InputSpec] | None = None  # a whole array of files (T[]), element by element


class OutputSpec(msgspec.Struct, omit_defaults=True, frozen=True):
    type: str
    suffix: str = ""
    leaves: dict[str, str] = {}  # "Segments[0].HasTransition": "boolean"
    section: bool = False  # a section of a shared file: its bytes are canonical JSON
    compare: CompareSettings | None = None  # settings for `whyrun compare`


class StepCfg(msgspec.Struct, omit_defaults=True, frozen=True):
    """`with_` is the `with:` block with values filled in. A reference to an input is {"$input": "SourceImages[0]"}.

    A secret is {"$secret": "NAME"} or, inside a longer string, {"$secret": "NAME", "format": "Bearer {}"}.
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
