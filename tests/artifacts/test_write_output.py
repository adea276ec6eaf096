"""A file that the user names for output may be a link or a pipe: it stays one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from whyrun.artifacts.durable import write_output


def test_a_file_is_replaced_and_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("old")
    (tmp_path / "kept-too").hardlink_to(tmp_path / "kept")
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "open").symlink_to("new")
    for name in ("link", "open"):
        write_output(tmp_path / name, b"bytes", mode=0o600)
        assert (tmp_path / name).is_symlink()
    assert [(tmp_path / name).read_text() for name in ("kept", "new", "kept-too")] == ["bytes", "bytes", "old"]
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "kept-too", "link", "new", "open"]


def test_a_pipe_gets_the_bytes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # a pipe holds this much without a reader's turn
    try:
        write_output(tmp_path / "pipe", b"bytes")
        assert os.read(reader, 100) == b"bytes"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
