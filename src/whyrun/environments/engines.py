"""The programs that run containers. Each has one row: how it is found, and how it is told what to bind."""

from __future__ import annotations

import os
import pwd
import resource
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from whyrun.errors import WhyrunError, error

# Variables of the user that tell an engine where its service, its images and the network are.
ENGINE_VARIABLES = ("CONTAINERS_", "CONTAINER_HOST", "CONTAINER_SSHKEY", "DOCKER_", "APPTAINER_", "XDG_RUNTIME_DIR")
_NETWORK = ("REGISTRY_", "HTTP_", "HTTPS_", "http_", "https_", "NO_PROXY", "no_proxy")
_SHOWN = 20  # lines of what an engine says
_FILES, _PROCESSES = 65536, 4096  # the most that a container gets; less where this process may have less


class Bind(NamedTuple):
    path: str  # the same inside and outside
    writable: bool = False


class Inside(NamedTuple):
    """What a container is started with."""

    name: str  # of the container
    image: str
    binds: Sequence[Bind]
    settings: Mapping[str, str]  # variables that everybody may see in the command line
    variables: Sequence[str]  # names of the others; the engine gets the values from its own environment
    folder: str  # where the command starts
    network: bool
    command: Sequence[str]


class Engine(NamedTuple):
    name: str
    program: str
    inspects: bool  # it can tell the digest of a tag, and fetch an image ahead
    start: Callable[[str, Inside], list[str]]  # (program, what) → the command line
    removes: bool  # its containers outlive the process that started them


def _podman(program: str, inside: Inside) -> list[str]:
    return [*_common(program, inside), inside.image, *inside.command]


def _docker(program: str, inside: Inside) -> list[str]:
    # Files that it writes belong to the user, as everywhere else.
    return [*_common(program, inside), "--user", f"{os.getuid()}:{os.getgid()}", inside.image, *inside.command]


def _common(program: str, inside: Inside) -> list[str]:
    words = [program, "run", "--rm", "--interactive", "--name", inside.name, "--workdir", inside.folder]
    words += [] if inside.network else ["--network", "none"]
    # Engines ask for more than a small machine allows, unless they are told.
    words += ["--ulimit", _limit("nofile", resource.RLIMIT_NOFILE, _FILES)]
    words += ["--ulimit", _limit("nproc", resource.RLIMIT_NPROC, _PROCESSES)]
    for path, writable in inside.binds:
        fields = ("type=bind", f"source={path}", f"target={path}", *(() if writable else ("readonly",)))
        words += ["--mount", ",".join(map(_field, fields))]
    for variable in (*(f"{name}={value}" for name, value in inside.settings.items()), *inside.variables):
        words += ["--env", variable]
    return words


def _field(text: str) -> str:
    """A field of comma-separated values, as the engines read them."""
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def _limit(name: str, which: int, most: int) -> str:
    _, hard = resource.getrlimit(which)
    amount = most if hard == resource.RLIM_INFINITY else min(hard, most)
    return f"{name}={amount}:{amount}"


def _apptainer(program: str, inside: Inside) -> list[str]:
    image = inside.image if inside.image.endswith(".sif") else f"docker://{inside.image}"
    words = [program, "exec", "--containall", "--home", inside.settings["HOME"], "--pwd", inside.folder]
    words += [
        word for name, value in inside.settings.items() if name != "HOME" for word in ("--env", f"{name}={value}")
    ]
    words += [] if inside.network else ["--net", "--network", "none"]
    for path, writable in inside.binds:
        words += ["--bind", f"{path}:{path}:{'rw' if writable else 'ro'}"]
    return [*words, image, *inside.command]


_ROWS = {
    "podman": (True, _podman, True),
    "docker": (True, _docker, True),
    "apptainer": (False, _apptainer, False),
}
ENGINES = tuple(_ROWS)
_INSTALL = {
    "apt-get": "apt-get install podman",
    "dnf": "dnf install podman",
    "zypper": "zypper install podman",
    "pacman": "pacman -S podman",
    "apk": "apk add podman",
}


def engine_for(wanted: str | None) -> Engine:
    """The engine that a job names, or the first that is installed here."""
    for name in ENGINES if wanted is None else (wanted,):
        program = shutil.which(name)
        if program is not None:
            inspects, start, removes = _ROWS[name]
            return Engine(name, program, inspects, start, removes)
    install = next((text for name, text in _INSTALL.items() if shutil.which(name)), "install podman")
    if wanted is None:
        what = "no engine for containers is installed: neither podman nor docker nor apptainer"
        raise error("CONTAINER_FAILED", what, hint=f"install one: {install}")
    others = [name for name in ENGINES if name != wanted and shutil.which(name)]
    hint = f"leave `engine` out: {others[0]} is installed" if others else f"install it, or podman: {install}"
    raise error("CONTAINER_FAILED", f"`{wanted}`, which runs containers, is not installed", hint=hint)


def engine_variables(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of an engine itself. A step has a private HOME; images are kept below that of the user."""
    home = pwd.getpwuid(os.getuid()).pw_dir
    runtime = f"/run/user/{os.getuid()}"
    kept = {name: value for name, value in os.environ.items() if name.startswith(ENGINE_VARIABLES + _NETWORK)}
    at_runtime = {"XDG_RUNTIME_DIR": runtime} if os.path.isdir(runtime) else {}
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, **at_runtime, **kept, **(more or {})}


def engine_error(engine: Engine, what: str, said: str) -> WhyrunError:
    told = "".join(f"\n   {line}" for line in said.strip().splitlines()[-_SHOWN:])
    hint = f"see whether `{engine.name} info` works, and whether the image exists"
    return error("CONTAINER_FAILED", f"{what}; {engine.name} says:{told}", hint=hint)


def command_line(engine: Engine, inside: Inside, values: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """What to start, and its environment: the engine passes the variables on that `inside` names."""
    if engine.name == "apptainer":
        values = {f"APPTAINERENV_{name}": value for name, value in values.items()}
    return engine.start(engine.program, inside), engine_variables(values)


def bindable(paths: Iterable[str], most: int) -> list[str]:
    """These paths, or the folder above all of them where they are too many for one command."""
    found = sorted(set(paths))
    return found if len(found) <= most else [os.path.commonpath(found)]
