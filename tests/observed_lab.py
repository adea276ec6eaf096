"""Logs that say what steps read undeclared, made by hand: a run of the engine, with the field `observed` written in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from forging import forge_events
from project_lab import Lab
from whyrun.artifacts.hashing import bytes_sha256
from whyrun.log.decoding import observed_field
from whyrun.log.reads import Read, folder_sha256


def file(lab: Lab, path: str, by: Any = "python") -> Read:
    return Read(path, "file", bytes_sha256((lab.root / path).read_bytes()), by)


def folder(lab: Lab, path: str, own: Sequence[str] = ()) -> Read:
    return Read(path, "folder", folder_sha256([one.name for one in (lab.root / path).iterdir()], own))


def absent(path: str) -> Read:
    return Read(path, "absent")


def saw(
    lab: Lab,
    reads: Mapping[str, Sequence[Read]],
    *,
    traced: Sequence[str] = (),
    packages: Mapping[str, Any] | None = None,
) -> Lab:
    """The steps of the latest run that have ended read this, and no other step read anything."""
    store, run = lab.opened().store, lab.runs()[-1]

    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for event in events:
            if event["event"] in ("step_complete", "step_failed"):
                step, chain = event["step_id"], event.pop("chain")
                for name in ("observed", "traced", "packages", "outside"):
                    event.pop(name, None)
                if reads.get(step):
                    event["observed"] = msgspec.to_builtins(observed_field(reads[step], store.put_bytes))
                if step in traced:
                    event["traced"] = True
                if (packages or {}).get(step):
                    event["packages"] = (packages or {})[step]
                event["chain"] = chain
        return events

    forge_events(lab.run_folder(run) / "events.jsonl", change)
    return lab
