"""The committed assets are what the sources in `frontend/` give, and small enough for the wheel."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import whyrun.viewer

FRONTEND = Path(__file__).parents[2] / "frontend"
ASSETS = Path(whyrun.viewer.__file__).parent / "assets"
LIMIT = 300_000


def test_the_assets_are_small_and_stand_inside_html() -> None:
    app = (ASSETS / "app.js").read_text()
    assert sum(file.stat().st_size for file in ASSETS.iterdir()) < LIMIT
    assert "<!--" not in app
    assert "<script" not in app.lower()
    assert "</script" not in app.lower()


@pytest.mark.skipif(not (FRONTEND / "node_modules" / "esbuild").exists(), reason="npm's modules: `make frontend`")
@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_the_committed_assets_are_what_the_sources_give(tmp_path: Path) -> None:
    subprocess.run(["node", "build.mjs", str(tmp_path)], cwd=FRONTEND, check=True, capture_output=True)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        file.name: file.read_bytes() for file in ASSETS.iterdir() if file.suffix == ".js"
    }
