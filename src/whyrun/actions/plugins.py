"""Installed plugins: entry points of the group `whyrun.actions`, found without importing them.

[project.entry-points."whyrun.actions"]
"text/shout" = "my_package.actions:shout"
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

GROUP = "whyrun.actions"


@dataclass(frozen=True, slots=True)
class Plugin:
    name: str
    target: str  # "package.module:attribute"
    distribution: str  # "package 1.2"


@lru_cache(maxsize=1)
def installed_plugins() -> tuple[Plugin, ...]:
    from importlib.metadata import entry_points

    found = {
        Plugin(point.name, point.value, f"{point.dist.name} {point.dist.version}" if point.dist else "")
        for point in entry_points(group=GROUP)
    }
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.distribution, plugin.target)))
