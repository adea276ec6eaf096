"""What the steps of a run cost: time, processor, memory. Told at its end, and nothing is decided by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SLOWEST = 3


@dataclass(slots=True)
class Usage:
    """Over all attempts of a run. `peak` is the most memory that a single step held."""

    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    peak_step: str | None = None
    slowest: list[tuple[float, str]] = field(default_factory=list)  # the longest first

    def add(self, step: str, metrics: Mapping[str, float]) -> None:
        self.cpu_seconds += metrics.get("cpu_seconds", 0.0)
        peak = int(metrics.get("max_rss_bytes", 0))
        if peak > self.peak_bytes:
            self.peak_bytes, self.peak_step = peak, step
        duration = metrics.get("step_duration_ms", 0.0) / 1000
        if len(self.slowest) < SLOWEST or duration > self.slowest[-1][0]:
            longest = {name: most for most, name in self.slowest}  # of all attempts of a step
            longest[step] = max(duration, longest.get(step, 0.0))
            ranked = sorted((-most, name) for name, most in longest.items())
            self.slowest = [(-most, name) for most, name in ranked[:SLOWEST]]

    def to_json(self) -> dict[str, Any]:
        return {
            "cpu_seconds": round(self.cpu_seconds, 3),
            "peak_memory_bytes": self.peak_bytes,
            "peak_memory_step": self.peak_step,
            "slowest": [{"id": step, "seconds": round(duration, 3)} for duration, step in self.slowest],
        }
