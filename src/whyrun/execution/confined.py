"""A word for people where a step may have failed because of its sandbox. Pure.

It stands beside the failure and never in an event: what a step says of its end is the same in every place.
"""

from __future__ import annotations

from whyrun.workflow.model import SandboxDecl

_MEMORY = ("MemoryError", "Cannot allocate memory", "std::bad_alloc")
_PROCESSES = ("BlockingIOError", "can't start new thread", "Resource temporarily unavailable")
_NETWORK = (
    "Connection refused",
    "ConnectionRefusedError",
    "Could not resolve host",
    "Name or service not known",
    "Network is unreachable",
    "NoConnection",
    "Temporary failure in name resolution",
    "gaierror",
)


def sandbox_note(backend: str, sandbox: SandboxDecl, error_type: str, error: str) -> str:
    """What the sandbox of the failed step withheld, if the error looks as if that was why; else nothing."""
    # E2B has limits of its own, and its sandboxes have a network.
    if backend != "sandbox" and not (backend == "local" and sandbox.required):
        return ""
    text = f"{error_type}: {error}"
    if _any_of(_MEMORY, text):
        if sandbox.memory is None:
            return "its sandbox may use half of the machine's memory (`sandbox: {memory: …}` says otherwise)"
        return f"its sandbox may use {_size(sandbox.memory)} (`sandbox: {{memory: …}}`)"
    if _any_of(_PROCESSES, text):
        most = "only so many" if sandbox.processes is None else str(sandbox.processes)
        return f"its sandbox may have {most} processes and threads at a time (`sandbox: {{processes: …}}`)"
    if not sandbox.network and _any_of(_NETWORK, text):
        return "this step had no network: its job does not say `sandbox: {network: true}`"
    return ""


def _any_of(signs: tuple[str, ...], text: str) -> bool:
    return any(sign in text for sign in signs)


def _size(amount: int) -> str:
    return f"{amount / 1e9:g} GB" if amount >= 1e9 else f"{amount / 1e6:g} MB"
