"""In an E2B sandbox the first step that has an environment makes it there, from the file in the bundle."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from loopback.sandbox import Template
from loopback.server import Loopback

from environment_lab import WHEELS, locked, why_no_uv
from project_lab import Lab
from whyrun.execution.backends.e2b.backend import e2b_backend

WORKFLOW = """
workflow: elsewhere
jobs:
  Seen:
    uses: python
    environment: {python: locked.txt}
    with: {call: "story:version"}
    outputs: {Version: {type: string}}
"""


@pytest.mark.skipif(why_no_uv() is not None, reason=str(why_no_uv()))
def test_the_environment_is_made_in_the_sandbox(server: Loopback, project: Callable[..., Lab]) -> None:
    story = "import tinylib\n\n\ndef version():\n    return {'Version': tinylib.VERSION}\n"
    lab = project(WORKFLOW, {**WHEELS, "story.py": story, "locked.txt": locked("tinylib==1.0")})
    server.template = Template(("pip", "msgspec", "uv"))
    lab.succeed(backend=e2b_backend())
    assert lab.content("Artifact:Seen.Version") == "1.0"
    assert not (lab.root / ".whyrun" / "environments").exists()  # the host needs none
