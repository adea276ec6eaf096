"""The built-in actions, by name, each with the version that belongs to its fingerprint.

The version changes only when an action would give other results for the same parameters: it is not Whyrun's own, so
an upgrade re-runs nothing by itself.
"""

from __future__ import annotations

BUILTIN: dict[str, str] = {"python": "1", "shell": "1"}
