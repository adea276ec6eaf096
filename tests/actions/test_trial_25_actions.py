"""Mistakes under `uses:` and `with:`: each is refused before anything runs, with a hint that mends it when followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyrun.errors import Diagnostic
from whyrun.project import Project


def reported(folder: Path, job: str) -> tuple[Diagnostic, ...]:
    (folder / "scripts").mkdir(exist_ok=True)
    (folder / "scripts/fit.py").write_text("def main(a=1):\n    return {}\n")
    (folder / "fit.py").write_text("def main(a=1):\n    return {}\n")
    file = folder / "workflow.yaml"
    file.write_text(f"workflow: w\njobs:\n  Fit:\n    {job}\n")
    return Project.open(file).problems


CASES = {
    # the job, its code and column, its whole hint, the job after following the hint
    "a script as an action": (
        "uses: scripts/fit.py", "INVALID_USES", 11,
        "write `uses: python`, and `script: scripts/fit.py` under `with:`",
        "{uses: python, with: {script: scripts/fit.py}}",
    ),
    "a function as an action": (
        'uses: "fit:main"', "INVALID_USES", 11, 'write `uses: python`, and `call: "fit:main"` under `with:`',
        '{uses: python, with: {call: "fit:main"}}',
    ),
    "bash as an action": (
        "{uses: bash, with: {run: x}}", "INVALID_USES", 12,
        "write `uses: shell`, and the command as `run:` under `with:`", "{uses: shell, with: {run: x}}",
    ),
    "a container as an action": (
        "{uses: docker://alpine, with: {run: x}}", "INVALID_USES", 12,
        "write `uses: shell`, and the command as `run:` under `with:`", "{uses: shell, with: {run: x}}",
    ),
    "a function with a dot": (
        "{uses: python, with: {call: fit.main}}", "INVALID_PARAMETER", 33, 'write `call: "fit:main"`',
        '{uses: python, with: {call: "fit:main"}}',
    ),
    "a function of a file": (
        "{uses: python, with: {call: 'scripts/fit.py:main'}}", "INVALID_PARAMETER", 33,
        'write `call: "scripts.fit:main"`', '{uses: python, with: {call: "scripts.fit:main"}}',
    ),
    "a misspelt module": (
        "{uses: python, with: {call: 'fitt:main'}}", "INVALID_PARAMETER", 33,
        "there is no `fitt.py` in the project folder; did you mean `fit.py`?",
        '{uses: python, with: {call: "fit:main"}}',
    ),
    "a misspelt script": (
        "{uses: python, with: {script: scripts/fitt.py}}", "INVALID_PARAMETER", 35, "did you mean `scripts/fit.py`?",
        "{uses: python, with: {script: scripts/fit.py}}",
    ),
    "a script with arguments": (
        "{uses: python, with: {script: scripts/fit.py --a 1}}", "INVALID_PARAMETER", 35,
        "write `script: scripts/fit.py`, and arguments as entries of `with:`, which it reads as `inputs`; a script "
        "with a command line of its own takes `uses: shell`",
        "{uses: python, with: {script: scripts/fit.py, a: 1}}",
    ),
    "a mistyped limit": (
        "{uses: shell, with: {timeout_secs: 5, run: x}}", "INVALID_PARAMETER", 26,
        "write `timeout: 5m` beside `with:`, as a key of the job; or read `$timeout_secs` in the script",
        "{uses: shell, timeout: 5m, with: {run: x}}",
    ),
    "a key of the job below with": (
        "{uses: shell, with: {retries: 2, run: x}}", "INVALID_PARAMETER", 26,
        "write `retries: 2` beside `with:`, as a key of the job; or read `$retries` in the script",
        "{uses: shell, retries: 2, with: {run: x}}",
    ),
    "a misspelt key of the job below with": (
        "{uses: shell, with: {timeoutt: 2, run: x}}", "INVALID_PARAMETER", 26,
        "write `timeout: 5m` beside `with:`, as a key of the job; or read `$timeoutt` in the script",
        "{uses: shell, with: {timeoutt: 2, run: 'sleep $timeoutt'}}",
    ),
    "a working folder": (
        "{uses: shell, with: {cwd: data, run: x}}", "INVALID_PARAMETER", 26,
        "remove it: each step runs in a scratch folder of its own; bind the files that it reads under `with:`; or read "
        "`$cwd` in the script",
        "{uses: shell, with: {run: x}}",
    ),
    "a limit for a function": (
        "{uses: python, with: {call: 'fit:main', timeout_secs: 5}}", "INVALID_PARAMETER", 45,
        "write `timeout: 5m` beside `with:`, as a key of the job",
        "{uses: python, timeout: 5s, with: {call: 'fit:main'}}",
    ),
    "the key of a join, as pandas calls it": (
        "{uses: data/merge, with: {on: id}}", "INVALID_PARAMETER", 31, "write `keys: [COLUMN]`", None,
    ),
    "a parameter that no action has": (
        "{uses: data/merge, with: {zzzzzz: id}}", "INVALID_PARAMETER", 31,
        "`whyrun actions data/merge` lists its parameters", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_refused_with_a_hint_that_mends_it(tmp_path: Path, name: str) -> None:
    job, code, column, hint, mended = CASES[name]
    found = next(d for d in reported(tmp_path, job) if d.column == column)
    assert (found.code, found.line, found.column, found.hint) == (code, 4, column, hint)
    assert mended is None or reported(tmp_path, mended) == ()


@pytest.mark.parametrize(
    "with_",
    [
        "{timeout: 5, run: 'sleep $timeout'}",  # it is read
        "{version: 3, run: x}",  # nothing reads it, but a change runs the job again
        "{timeout: 5, shell: sh, run: x}",  # an environment variable, which any program may read
    ],
)
def test_a_variable_that_may_be_meant_is_none_of_these(tmp_path: Path, with_: str) -> None:
    assert reported(tmp_path, f"{{uses: shell, with: {with_}}}") == ()
