"""Checks whether this machine can create sandboxes and, if not, says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from whyrun.errors import Diagnostic
from whyrun.execution.backends.sandbox.bubblewrap import Limits, SandboxSpec, Tools, sandbox_argv, view_argv
from whyrun.execution.backends.sandbox.launcher import real_user
from whyrun.execution.backends.sandbox.view import is_shown, programs

_PROGRAMS = ("bwrap", "setpriv", "choom")
_TRIAL_TIME = 30.0  # seconds

_INSTALL = {
    "apt-get": "apt-get install bubblewrap",
    "dnf": "dnf install bubblewrap",
    "zypper": "zypper install bubblewrap",
    "pacman": "pacman -S bubblewrap",
    "apk": "apk add bubblewrap util-linux",
}


def find_tools(path: str | None = None) -> Tools | Diagnostic:
    """`path`: the folders to search instead of PATH."""
    if sys.platform != "linux":
        return _unavailable("sandboxes need Linux", None)
    paths = {name: shutil.which(name, path=path) for name in _PROGRAMS}
    if paths["bwrap"] is None:
        command = next((text for name, text in _INSTALL.items() if shutil.which(name)), None)
        hint = f"install it: {command}" if command else "install the package `bubblewrap` of your system"
        return _unavailable("bubblewrap (`bwrap`) is not installed", hint)
    missing = [name for name, program in paths.items() if program is None]
    if missing:
        return _unavailable(f"`{missing[0]}` is not installed", "install the package `util-linux` of your system")
    # Paths as a sandbox sees them: it does not show folders such as /etc/alternatives.
    seen = {name: p if is_shown(p) else os.path.realpath(p) for name, p in paths.items() if p is not None}
    hidden = [program for program in seen.values() if not is_shown(program)]
    if hidden:
        return _unavailable(f"`{hidden[0]}` is not installed where the system's programs are", None)
    return Tools(**seen)


def why_unavailable(path: str | None = None) -> Diagnostic | None:
    """Why this machine cannot create sandboxes, found out by creating one; None if it can."""
    tools = find_tools(path)
    if isinstance(tools, Diagnostic):
        return tools
    seen = programs()
    sandbox = sandbox_argv(SandboxSpec(seen.as_mounted()), Limits(1 << 30, 64), tools, ["/bin/sh", "-c", "exit 0"])
    try:
        trial = subprocess.run(
            view_argv(seen, tools, sandbox, real_user(0)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": os.defpath},
            cwd="/",
            timeout=_TRIAL_TIME,
        )
    except subprocess.TimeoutExpired:
        return _unavailable(f"bubblewrap has made no sandbox within {_TRIAL_TIME:g} s", None)
    return None if trial.returncode == 0 else explain(trial.stderr.decode("utf-8", "replace"))


def explain(stderr: str) -> Diagnostic:
    last = stderr.strip().splitlines()[-1] if stderr.strip() else "it said nothing"
    message = f"bubblewrap cannot make a sandbox here: {last}"
    if "Unknown option" in stderr:
        return _unavailable(message, "bubblewrap 0.8 or newer is needed")
    if "ermission" in stderr or "not permitted" in stderr or "No space left" in stderr:
        return _unavailable(message, _forbidden())
    return _unavailable(message, None)


def _forbidden() -> str:
    if _setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "user namespaces are restricted: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    if _setting("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        return "user namespaces are forbidden: sysctl -w kernel.unprivileged_userns_clone=1"
    if _setting("/proc/sys/user/max_user_namespaces") == "0":
        return "user namespaces are forbidden: sysctl -w user.max_user_namespaces=10000"
    return "the system or the container around Whyrun forbids user namespaces; a container must allow nested ones"


def _setting(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def _unavailable(message: str, hint: str | None) -> Diagnostic:
    return Diagnostic("SANDBOX_UNAVAILABLE", message, hint=hint)
