"""Run tests while one module is read from another file: `cold.py MODULE PATH CHANGED TEST …`."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType
from typing import Any

import pytest


class Changed(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, changed: str) -> None:
        super().__init__(name, path)
        self._changed = changed

    def get_code(self, fullname: str) -> CodeType:
        return compile(Path(self._changed).read_text(), self.path, "exec")


class Finder(MetaPathFinder):
    def __init__(self, module: str, path: str, changed: str) -> None:
        self.module, self.path, self.changed = module, path, changed

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        if name != self.module:
            return None
        return importlib.util.spec_from_loader(name, Changed(name, self.path, self.changed))


class Tell:
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(f"\nfailed {report.nodeid}", file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    module, path, changed, *tests = sys.argv[1:]
    root = Path(__file__).resolve().parent.parent.parent
    sys.path.insert(0, str(root / "src"))
    sys.meta_path.insert(0, Finder(module, path, changed))
    sys.exit(pytest.main(["-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts=", *tests], [Tell()]))
