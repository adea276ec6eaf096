"""The options of a run that do not change its plan: parallelism, limits, backend and stopping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from whyrun.errors import check_type, error


@dataclass(frozen=True, slots=True)
class RunOptions:
    jobs: int = 0  # steps at a time; 0: one for each processor
    fail_fast: bool = False
    limits: Mapping[str, float] | None = None  # resource → limit, from the command line
    backend: str = "local"
    backend_options: Mapping[str, str] = field(default_factory=dict)  # of the backend itself, by `BackendOption.name`
    budget: str | None = None  # `5`, `5 EUR`; None: that of `whyrun.toml`
    grace: float = 10.0  # seconds between SIGTERM and SIGKILL when the run stops

    def __post_init__(self) -> None:
        check_type("jobs", self.jobs, int, "a whole number; 0 is one per core")
        check_type("fail_fast", self.fail_fast, bool, "True or False")
        check_type("limits", self.limits, (Mapping, type(None)), "numbers by name, such as {'gpu': 1}")
        check_type("backend", self.backend, str, "the name of a backend, such as 'local'")
        check_type("budget", self.budget, (str, type(None)), "an amount such as '5' or '5 EUR'")
        if self.jobs < 0:
            raise error("USAGE", f"{self.jobs} jobs at a time is not possible", hint="0 means one for each processor")
        for name, limit in (self.limits or {}).items():
            check_type("limits", name, str, "numbers by name, such as {'gpu': 1}")
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < float("inf"):
                raise error("USAGE", f"the limit of `{name}` is {limit!r}", hint="a limit is a number from 0 up")
