"""The keys of a job that say where and how its steps run, and whose results they take: sandbox, isolation, folder,
environment, container, reuse."""

from __future__ import annotations

import posixpath
import re
from typing import Any, get_args

from whyrun.errors import did_you_mean
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.fields import Key, names_of, path_problem
from whyrun.workflow.model import ContainerDecl, EnvironmentDecl, ReuseScope, SandboxDecl
from whyrun.workflow.nodes import Node, Scalar, kind_of, plain_value
from whyrun.workflow.parsing.job_expressions import JobDraft, JobExpressions

REUSE_SCOPES: tuple[ReuseScope, ...] = get_args(ReuseScope)
ISOLATIONS = ("process", "shared")
LEAST_MEMORY, LEAST_PROCESSES = 64 * 10**6, 8  # below them the worker itself does not come up in its sandbox
LEAST_DISK = 10**6  # bytes; the worker's own files are smaller
_MOST = 10**15  # bytes
_SIZES = {"memory": LEAST_MEMORY, "disk": LEAST_DISK}  # settings of a sandbox that are sizes → the smallest
_SIZE = lazy_regex(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", re.IGNORECASE)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
LOCKS = ("uv.lock", "pyproject.toml")  # besides requirements files, whose names end with `.txt`
WORKDIRS = ("scratch", "project")
ENGINES = ("podman", "docker", "apptainer")
IMAGE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._:/@-]*"
_IMAGE = lazy_regex(IMAGE_PATTERN)
_CONTAINER_HINT = 'write `container: {image: "debian:12"}`, or better the digest: `name@sha256:…`'
_ENVIRONMENT_HINT = "write `environment: {python: requirements.txt}`, or `uv.lock`, or `pyproject.toml` beside its lock"


class RunningKeys(JobExpressions):
    """Their readers. A value that does not fit is reported and counts as absent."""

    def reuse(self, job: JobDraft, node: Node) -> ReuseScope | None:
        value = node.value if isinstance(node, Scalar) else None
        scope = next((scope for scope in REUSE_SCOPES if scope == value), None)
        if scope is None:
            hint = did_you_mean(str(value), REUSE_SCOPES) or "write `reuse: job`, `instance` or `anywhere`"
            self.wrong(node, f"`reuse` of {job.what} is {kind_of(node)}, not one of its three words", hint)
        return scope

    def sandbox(self, job: JobDraft, node: Node) -> SandboxDecl:
        if isinstance(node, Scalar) and node.value == "required":
            return SandboxDecl(required=True)
        hint = "write `required`, or `{required: true, network: true, memory: 2GB, processes: 64, disk: 10GB}`"
        entries = self.as_map(node, f"`sandbox` of {job.what}", hint)
        settings: dict[str, Any] = {}
        known = names_of(SANDBOX_KEYS)
        for key, value in entries.entries if entries else ():
            name, plain = key.value, plain_value(value)
            what = f"`{name}` in `sandbox` of {job.what}"
            if name not in known:
                message = f"there is no `{name}` in `sandbox`"
                self.problems.add(key.place, "UNKNOWN_KEY", message, did_you_mean(name, known))
            elif name in ("required", "network"):
                settings[name] = self.boolean(value, what)
            elif name == "processes" and type(plain) is int and plain >= LEAST_PROCESSES:
                settings[name] = plain
            elif name in _SIZES and (amount := _bytes(plain, _SIZES[name])) is not None:
                settings[name] = amount
            elif name in _SIZES:
                size = f"a size (`2GB`) from {_SIZES[name] // 10**6}MB to {_MOST // 10**12:,}TB"
                self.wrong(value, f"{what} is not {size}", hint)
            else:
                self.wrong(value, f"{what} is not a number from {LEAST_PROCESSES}", hint)
        return SandboxDecl(**settings)

    def isolation(self, job: JobDraft, node: Node) -> str:
        value = plain_value(node)
        if value in ISOLATIONS:
            return str(value)
        message = f"`isolation` of {job.what} is neither {' nor '.join(f'`{one}`' for one in ISOLATIONS)}"
        self.wrong(node, message, "write `isolation: shared`, or leave it out")
        return "process"

    def workdir(self, job: JobDraft, node: Node) -> str:
        value = plain_value(node)
        if value in WORKDIRS:
            return str(value)
        message = f"`workdir` of {job.what} is neither {' nor '.join(f'`{one}`' for one in WORKDIRS)}"
        self.wrong(node, message, "write `workdir: project` to run in the project folder, or leave it out")
        return "scratch"

    def environment(self, job: JobDraft, node: Node) -> EnvironmentDecl | None:
        what = f"`environment` of {job.what}"
        entries = self.as_map(node, what, _ENVIRONMENT_HINT)
        if entries is None:
            return None
        fields = self.known_keys(entries, names_of(ENVIRONMENT_KEYS), what)
        if "python" not in fields:
            self.problems.add(node.place, "MISSING_KEY", f"{what} has no `python`", _ENVIRONMENT_HINT)
            return None
        lock = self.string(fields["python"], f"`python` in {what}", _ENVIRONMENT_HINT)
        if lock is None:
            return None
        job.places["environment.python"] = fields["python"].place
        problem = path_problem(lock)
        if problem is not None:
            self.wrong(fields["python"], f"`{lock}` in {what} is refused: {problem}", _ENVIRONMENT_HINT, "PATH_OUTSIDE")
        elif not lock.endswith(".txt") and posixpath.basename(lock) not in LOCKS:
            self.wrong(fields["python"], f"`{lock}` in {what} is not a file of locked packages", _ENVIRONMENT_HINT)
        else:
            return EnvironmentDecl(posixpath.normpath(lock))
        return None

    def container(self, job: JobDraft, node: Node) -> ContainerDecl | None:
        what = f"`container` of {job.what}"
        entries = self.as_map(node, what, _CONTAINER_HINT)
        if entries is None:
            return None
        fields = self.known_keys(entries, names_of(CONTAINER_KEYS), what)
        if "image" not in fields:
            self.problems.add(node.place, "MISSING_KEY", f"{what} has no `image`", _CONTAINER_HINT)
            return None
        image = self.string(fields["image"], f"`image` in {what}", _CONTAINER_HINT)
        job.places["container.image"] = fields["image"].place
        if image is not None and not _IMAGE.fullmatch(image):
            self.wrong(fields["image"], f"`{image}` in {what} is not the name of an image", _CONTAINER_HINT)
            image = None
        engine = plain_value(fields["engine"]) if "engine" in fields else None
        if engine is not None and engine not in ENGINES:
            known = ", ".join(f"`{one}`" for one in ENGINES)
            self.wrong(fields["engine"], f"`engine` in {what} is none of {known}", "leave it out, or write `podman`")
            engine = None
        network = "network" in fields and bool(self.boolean(fields["network"], f"`network` in {what}"))
        return None if image is None else ContainerDecl(image, engine, network)


def _bytes(value: Any, least: int) -> int | None:
    """`2GB` or a plain number of bytes; None if it is not a size, or not in the range."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    amount = int(min(float(match[1]), _MOST + 1) * _UNITS[match[2].upper()]) if match else value
    return amount if type(amount) is int and least <= amount <= _MOST else None


# --- their own keys ----------------------------------------------------------------------------------------------

SANDBOX_KEYS = (
    Key(name="required", meaning="Whether the job must run in a sandbox.", schema={"type": "boolean"}),
    Key(name="network", meaning="Whether the sandbox has a network.", schema={"type": "boolean"}),
    Key(name="memory", meaning="How much memory it has: `2GB`.", schema={"type": ["string", "integer"]}),
    Key(
        name="processes",
        meaning="How many processes and threads it may have.",
        schema={"type": "integer", "minimum": LEAST_PROCESSES},
    ),
    Key(name="disk", meaning="How much disk space its files may take: `10GB`.", schema={"type": ["string", "integer"]}),
)

ENVIRONMENT_KEYS = (
    Key(
        name="python",
        meaning="The file that locks the packages: a requirements file, `uv.lock`, or `pyproject.toml` beside a lock.",
        schema={"type": "string", "pattern": r"(\.txt|(^|/)(uv\.lock|pyproject\.toml))$"},
        required=True,
    ),
)
CONTAINER_KEYS = (
    Key(
        name="image",
        meaning="The image: `name@sha256:…`, `name:tag`, or an image file of the project (`*.sif`).",
        schema={"type": "string", "pattern": f"^{IMAGE_PATTERN}$"},
        required=True,
    ),
    Key(name="engine", meaning="What runs it; else the first that is installed.", schema={"enum": list(ENGINES)}),
    Key(name="network", meaning="Whether it has a network.", schema={"type": "boolean"}),
)
