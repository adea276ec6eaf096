"""The working folder of steps with `workdir: project`, whose scripts know nothing of Whyrun.

On the host's machine it is the project folder itself. Elsewhere it is a copy, which only this step writes to, with the
step's input files at their own paths. A script may write a declared output to its `path:` there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from whyrun.actions.code.editable import BUNDLED
from whyrun.execution.files.scratch import Scratch, displace, put_back
from whyrun.execution.files.tree_removal import remove


class ProjectFolder:
    def __init__(self, scratch: Scratch, project: str, inputs: str, *, live: bool) -> None:
        """`live`: the project is the user's own, not a copy; `inputs`: where input files are, at their paths."""
        self._scratch, self._live = scratch, live
        self._project, self._inputs = Path(project), Path(inputs)
        self.path = self._project if live else scratch.work

    def make_ready(self, outputs: Iterable[str], inputs: Iterable[str]) -> None:
        """Before the step. The paths of its outputs become free, in folders that exist."""
        outputs = list(outputs)
        if self._live:
            displace(self._scratch.root, self.path, outputs)
        else:
            import shutil

            ignored = shutil.ignore_patterns(BUNDLED)
            shutil.copytree(self._project, self.path, symlinks=True, dirs_exist_ok=True, ignore=ignored)
            for path in inputs:
                self._bring(path)
            for stale in filter(os.path.lexists, (self.path / path for path in outputs)):
                remove(str(stale))
        for path in outputs:
            (self.path / path).parent.mkdir(parents=True, exist_ok=True)

    def _bring(self, path: str) -> None:
        source, target = self._inputs / path, self.path / path
        if os.path.isabs(path) or path.startswith("../") or os.path.lexists(target) or not source.exists():
            return
        import shutil

        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy2(source, target)

    def give(self, path: str, export: Callable[[Path], object]) -> None:
        """Before the step: put a file or folder of another job at the path where it is published, in a copy."""
        target = self.path / path
        if not self._live and not os.path.lexists(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            export(target)

    def collect(self, outputs: Mapping[str, Path]) -> None:
        """After the step: move what it wrote at the paths of outputs to where they are collected, unless it wrote them
        there itself."""
        for path, target in outputs.items():
            if os.path.lexists(self.path / path) and not os.path.lexists(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                os.rename(self.path / path, target)

    def leave(self) -> None:
        """The step has ended, however: what stood at the paths of its outputs is there again."""
        put_back(self._scratch.root)
