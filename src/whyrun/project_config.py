"""`whyrun.toml`: the settings of a project. All problems are reported together, each with its line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from sys import float_info
from typing import Any, Literal, get_args

import msgspec

from whyrun.errors import Diagnostic, InvalidError, did_you_mean
from whyrun.lazy_regex import lazy_regex

CONFIG_FILE = "whyrun.toml"
STORE_VARIABLE = "WHYRUN_STORE"
_KNOWN = [
    "resources",
    "on_finish",
    "prepare",
    "import_late",
    "store",
    "inputs",
    "keep_inputs",
    "packages",
    "trace",
    "strict",
    "budget",
    "rates",
]
_RATES = '[rates]\n         api = "60/min"'
_LIMITS = "[resources]\n         gpu = 1"

Trace = Literal["first", "always", "never"]
_TRACES = get_args(Trace)

Problem = tuple[str, str, str]  # key, message, hint


class Rate(msgspec.Struct, frozen=True):
    """How many attempts may begin in how many seconds."""

    amount: int
    seconds: float

    @classmethod
    def parse(cls, text: object) -> Rate | None:
        """`60/min`, `5/10s`; None if it is no rate."""
        match = _RATE.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            return None
        number, every, unit = match.groups()
        return cls(int(number), float(every or 1) * _UNITS[unit])


_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "day": 86400.0}
_RATE = lazy_regex(rf"([1-9][0-9]{{0,8}})/([1-9][0-9]{{0,4}})?({'|'.join(_UNITS)})", re.ASCII)


class ProjectConfig(msgspec.Struct, frozen=True):
    """The settings.

    `resources`: limits for the `resources:` of jobs. `on_finish`: a command (for the shell, or a list of words) that
    gets the status of a run when the run ends. `prepare`: a bash command that prepares a worker before its first step.
    `import_late`: packages that a worker does not import before it forks the process of a step.
    `store`: the URL or folder of a shared store. `inputs`: what a step gets in place of large inputs, a `link` to the
    original or a read-only `view` of it. `keep_inputs`: whether small input files are kept with the runs.
    `counts_packages`: whether another version of a package that a step imported makes its job run again.
    `trace`: which instances of a job strace watches. `strict`: whether undeclared reads fail a step.
    `budget`: what a run may spend, `5` or `5 EUR`. `rates`: how often attempts that use a resource may begin.
    """

    resources: Mapping[str, float] | None = None
    on_finish: str | tuple[str, ...] | None = None
    prepare: str | None = None
    store: str | None = None
    import_late: tuple[str, ...] = ()
    inputs: str = "link"
    keep_inputs: bool = True
    counts_packages: bool = False
    trace: Trace = "first"
    strict: bool = False
    budget: str | None = None
    rates: Mapping[str, Rate] | None = None


def read_project_config(project: str | os.PathLike[str]) -> ProjectConfig:
    """The settings of a project; the defaults if it has no `whyrun.toml`."""
    path = Path(project) / CONFIG_FILE
    try:
        text = path.read_text(encoding="utf-8")
        import tomllib  # imported late: most projects have no such file

        data = tomllib.loads(text)
    except FileNotFoundError:
        return ProjectConfig()
    except ValueError as wrong:  # not TOML, not UTF-8, or a number with too many digits for Python
        what = f"not valid TOML: {wrong}"
        raise InvalidError([Diagnostic("WRONG_TYPE", what, file=str(path), hint="see https://toml.io")]) from None
    problems = [
        *(
            Diagnostic("UNKNOWN_KEY", f"there is no setting `{key}`", str(path), _line_of(key, text), hint=hint)
            for key in data
            if key not in _KNOWN
            for hint in [did_you_mean(key, _KNOWN)]
        ),
        *(
            Diagnostic("WRONG_TYPE", what, str(path), _line_of(key, text), hint=hint)
            for setting in _KNOWN
            if setting in data
            for key, what, hint in _PROBLEMS[setting](data[setting])
        ),
    ]
    if problems:
        raise InvalidError(sorted(problems, key=lambda one: one.line or 0))
    command = data.get("on_finish")
    return ProjectConfig(
        {name: float(limit) for name, limit in data.get("resources", {}).items()},
        tuple(command) if isinstance(command, list) else command,
        data.get("prepare"),
        data.get("store"),
        tuple(data.get("import_late", ())),
        data.get("inputs", "link"),
        data.get("keep_inputs", True),
        data.get("packages") == "count",
        data.get("trace", "first"),
        data.get("strict", False),
        str(data["budget"]) if "budget" in data else None,
        {name: rate for name, text in data["rates"].items() if (rate := Rate.parse(text))} if "rates" in data else None,
    )


def shared_store_for(config: ProjectConfig, env: Mapping[str, str]) -> str | None:
    """`WHYRUN_STORE`, else `store` of the settings; an empty variable turns it off."""
    given = env.get(STORE_VARIABLE)
    if given is None:
        return config.store
    wrong = [Diagnostic("WRONG_TYPE", what, STORE_VARIABLE, hint=hint) for _, what, hint in _of_store(given)]
    if given and wrong:
        raise InvalidError(wrong)
    return given or None


def _line_of(key: str, text: str) -> int | None:
    """The line of a key; `tomllib` does not report it."""
    written = re.compile(rf"\s*(\[\s*)?[\"']?{re.escape(key)}[\"']?\s*[=\].]")
    return next((number for number, line in enumerate(text.split("\n"), 1) if written.match(line)), None)


def _of_command(value: Any) -> Iterator[Problem]:
    words = isinstance(value, list) and value and all(isinstance(word, str) for word in value)
    if not words and not (isinstance(value, str) and value.strip()):
        hint = 'on_finish = "notify-send whyrun", or a list of words: ["./notify.py", "--quiet"]'
        yield "on_finish", "`on_finish` is a command: a string or a list of strings", hint


def _of_script(value: Any) -> Iterator[Problem]:
    if not (isinstance(value, str) and value.strip()):
        hint = 'prepare = "python -m nltk.downloader punkt"'
        yield "prepare", "`prepare` is a command for bash: a string", hint


def _of_packages(value: Any) -> Iterator[Problem]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name.isidentifier() for name in value):
        hint = 'import_late = ["torch"]'
        yield "import_late", "`import_late` is a list of packages, by the names under which they are imported", hint


def _of_store(value: Any) -> Iterator[Problem]:
    if not (isinstance(value, str) and value.strip() and value.isprintable()):
        hint = 'store = "s3://bucket/prefix", or a folder: store = "/mnt/team/whyrun"'
        yield "store", "`store` is a URL or a folder: a string", hint
    elif _holds_credentials(value):
        what = "the URL of the shared store contains a user, password or key, which must not be written here"
        hint = "leave it to the environment or the cloud's own configuration: AWS_PROFILE, AWS_ACCESS_KEY_ID, …"
        yield "store", what, hint


def _of_inputs(value: Any) -> Iterator[Problem]:
    if value not in ("link", "view"):
        yield "inputs", '`inputs` is "link" or "view": what steps get in place of large inputs', 'inputs = "view"'


def _of_switch(key: str, value: Any) -> Iterator[Problem]:
    if not isinstance(value, bool):
        yield key, f"`{key}` is true or false", f"{key} = true"


def _of_budget(value: Any) -> Iterator[Problem]:
    text = "" if isinstance(value, bool) or not isinstance(value, str | int | float) else str(value)
    from whyrun.money import is_amount, meant_amount  # imported late: decimals take time to import

    if not is_amount(text):
        what = f"`budget` is an amount, with a currency unless it is in US dollars, not {value!r:.100}"
        yield "budget", what, f'budget = "{meant_amount(text) or "5 EUR"}"'


def _of_rates(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield "rates", "`rates` is a table of rates, by resource", _RATES
        return
    for name, rate in value.items():
        if Rate.parse(rate) is None:
            yield name, f"the rate of `{name}` is a number for each s, min, h or day, not {rate!r:.100}", _RATES


def _of_trace(value: Any) -> Iterator[Problem]:
    if value not in _TRACES:
        what = "`trace` says which instances of a job are watched by strace: first, always or never"
        yield "trace", what, 'trace = "always"'


def _of_counting(value: Any) -> Iterator[Problem]:
    if value not in ("count", "tell"):
        what = '`packages` is "tell" (a changed version is told) or "count" (and makes jobs run again)'
        yield "packages", what, 'packages = "count"'


def _holds_credentials(url: str) -> bool:
    """`s3://key:secret@bucket`, or a query string, where tokens are passed."""
    rest = url.partition("://")[2]
    return "@" in rest.partition("/")[0] or "?" in rest


def _of_resources(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield "resources", "`resources` is a table of limits", _LIMITS
        return
    for name, limit in value.items():
        if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 <= limit <= float_info.max:
            yield name, f"the limit of `{name}` is a number from 0 up", _LIMITS


_PROBLEMS: dict[str, Callable[[Any], Iterator[Problem]]] = {
    "resources": _of_resources,
    "on_finish": _of_command,
    "prepare": _of_script,
    "import_late": _of_packages,
    "store": _of_store,
    "inputs": _of_inputs,
    "packages": _of_counting,
    "keep_inputs": partial(_of_switch, "keep_inputs"),
    "trace": _of_trace,
    "strict": partial(_of_switch, "strict"),
    "budget": _of_budget,
    "rates": _of_rates,
}
