"""The lines people read: `YYYY-MM-DD HH:MM:SS [action-name] STATUS task description (details)`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime


def status_line(when: datetime, action: str, status: str, text: str) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S} [{action}] {status} {text}"


def seconds(duration: float) -> str:
    """2.3s, 0.04s, 95s, 1h 02m."""
    if duration < 0.095:
        return f"{duration:.2f}s"
    if duration < 99.95:
        return f"{duration:.1f}s"
    if duration < 3600:
        return f"{duration / 60:.0f}m {duration % 60:02.0f}s" if duration >= 600 else f"{duration:.0f}s"
    return f"{int(duration // 3600)}h {int(duration % 3600 // 60):02d}m"


def size(bytes_: int) -> str:
    """812B, 1.2KB, 3.4MB."""
    amount = float(bytes_)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f}B" if unit == "B" else f"{amount:.1f}{unit}"
        amount /= 1000
    raise AssertionError("unreachable")


def listed(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return f"{shown}, … ({len(names)} in all)" if len(names) > most else shown


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
