"""`file/copy`: copies an input or artifact to the job's output, to publish it or to fix its content."""

from __future__ import annotations

from typing import Annotated, Any

from whyrun.actions.base import Action
from whyrun.actions.parameters import FileOrDirectory, Meta, Parameters


class FileCopy(Action):
    """Copy a file or a directory to the job's one output."""

    name = "file/copy"
    version = "1"
    deterministic = True
    example = """\
jobs:
  Keep:
    uses: file/copy
    with: {source: "${{ inputs.Report }}"}
    outputs: {Copy: {type: file, path: out/report.pdf}}
"""

    class Params(Parameters):
        source: Annotated[FileOrDirectory, Meta(description="what to copy, bound to an input or artifact")]

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del mode, logger
        names = context.output_names
        if len(names) != 1:
            raise ValueError(f"`file/copy` writes one output, and the job declares {len(names)}; declare one")
        # The worker stores the file at this path: it reads the bytes once, without a copy in between.
        return {names[0]: inputs["source"]}
