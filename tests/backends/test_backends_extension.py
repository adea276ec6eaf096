"""A backend is one module and one row: nothing else in Whyrun knows its name."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import toy_backend
from click.testing import CliRunner
from parity_lab import ENDINGS, SETTINGS, TEN_STEPS, parity

import whyrun
from whyrun.api import BackendKeywords
from whyrun.cli.options import backend_arguments, execution_options
from whyrun.errors import WhyrunError
from whyrun.execution.backends import registry
from whyrun.execution.backends.base import Backend, Capabilities
from whyrun.execution.backends.registry import BACKENDS, BackendEntry, RunOptions, capabilities_of, choose_backend
from whyrun.execution.run.session import run_workflow
from whyrun.planning.plan import PlanOptions
from whyrun.project import Project

PACKAGE = Path(whyrun.__file__).parent
CALLS = [name for name, member in vars(Backend).items() if inspect.isfunction(member) and not name.startswith("_")]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> BackendEntry:
    monkeypatch.setitem(BACKENDS, "toy", toy_backend.ENTRY)
    return toy_backend.ENTRY


class Silent:
    """A reporter that shows nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: None


def evidence(folder: Path, ending: str, backend: str, options: dict[str, str]) -> Path:
    """Run the ten steps on a backend, from an empty state; the folder of the run."""
    shutil.copytree(TEN_STEPS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "whyrun.toml").write_text(SETTINGS)
    sets = [word for word in ENDINGS[ending].words if "=" in word]
    run_options = RunOptions(jobs=2, backend=backend, backend_options=options)
    result = run_workflow(Project.open(folder / "workflow.yaml", sets=sets), PlanOptions(), run_options, Silent())
    assert result.exit_code == ENDINGS[ending].exit_code
    (run,) = (folder / ".whyrun" / "ten-steps" / "runs").iterdir()
    return run


@pytest.mark.parametrize("ending", ["success", "death"])
def test_a_backend_from_outside_leaves_the_same_evidence_as_the_local_one(
    tmp_path: Path, toy: BackendEntry, ending: str
) -> None:
    here = evidence(tmp_path / "local", ending, "local", {})
    there = evidence(tmp_path / "toy", ending, toy.name, {"toy_niceness": "1"})
    found = parity(here, there)
    assert [difference.to_json() for difference in found.differences] == []
    assert [each["backend"] for each in found.measured] == ["local", "toy"]
    assert list((tmp_path / "toy/.whyrun/ten-steps/tmp").glob("*")) == []


def test_its_own_options_come_from_the_row(toy: BackendEntry) -> None:
    import click

    given: list[tuple[str, dict[str, str]]] = []

    @click.command()
    @execution_options
    def command(run_options: RunOptions) -> None:
        given.append((run_options.backend, dict(run_options.backend_options)))

    runner = CliRunner()
    assert runner.invoke(command, ["--backend", "toy", "--toy-niceness", "3"]).exit_code == 0
    assert runner.invoke(command, []).exit_code == 0
    assert given == [("toy", {"toy_niceness": "3"}), ("local", {})]
    shown = " ".join(runner.invoke(command, ["--help"]).output.split())
    assert "--toy-niceness N With `--backend toy`: nice value of the workers." in shown
    words = backend_arguments(RunOptions(backend="toy", backend_options={"toy_niceness": "3"}))
    assert words == ["--backend", "toy", "--toy-niceness", "3"]
    with pytest.raises(WhyrunError) as refused:
        choose_backend("local", {"toy_niceness": "3"})
    assert [(d.code, d.message, d.hint) for d in refused.value.diagnostics] == [
        (
            "USAGE",
            "`--toy-niceness` is for `--backend toy`",
            "give both, or none; the local backend has no options of its own",
        )
    ]


@pytest.mark.parametrize(
    ("backend", "given", "message", "hint"),
    [
        (
            "toy", {"toy_nicenes": "3"},
            "the toy backend has no option `toy_nicenes`", "the options of the toy backend are `toy_niceness`",
        ),
        ("local", {"x": "3"}, "the local backend has no option `x`", "the local backend has no options of its own"),
        (
            "local", {"toy_niceness": "3"},
            "`--toy-niceness` is for `--backend toy`",
            "give both, or none; the local backend has no options of its own",
        ),
        (
            "toy", {"toy_niceness": 3},
            "`toy_niceness` is 3",
            "`toy_niceness` takes a text. With `--backend toy`: nice value of the workers.",
        ),
        ("tou", {}, "there is no backend `tou`", "did you mean `toy`?"),
    ],
    ids=["unknown", "unknown to all", "of another", "no text", "no backend"],
)  # fmt: skip
def test_python_gives_them_by_name_and_wrong_ones_are_refused_before_anything_runs(
    tmp_path: Path, toy: BackendEntry, backend: str, given: dict[str, Any], message: str, hint: str
) -> None:
    file = tmp_path / "workflow.yaml"
    run = "{run: 'echo a > \"$out_T\"'}"
    file.write_text(f"workflow: w\njobs:\n  A: {{uses: shell, with: {run}, outputs: {{T: {{type: text}}}}}}\n")
    flow = whyrun.load(file)
    for call in (flow.run, flow.compare):
        with pytest.raises(WhyrunError) as refused:
            call(backend=backend, backend_options=given)
        assert [(d.code, d.message, d.hint) for d in refused.value.diagnostics] == [("USAGE", message, hint)]
    assert not (tmp_path / ".whyrun").exists()
    assert whyrun.run(file, backend="toy", backend_options={"toy_niceness": "3"}).exit_code == 0
    assert whyrun.compare(file, backend="toy", backend_options={"toy_niceness": "3"}).exit_code == 0


def test_a_dry_run_refuses_what_the_run_would_refuse(tmp_path: Path) -> None:
    from whyrun.cli.main import cli

    (tmp_path / "workflow.yaml").write_text("workflow: w\njobs:\n  A: {uses: shell, with: {run: 'true'}}\n")
    for command in ("run", "compare"):
        words = [command, str(tmp_path / "workflow.yaml"), "--dry-run", "--dask-address", "tcp://127.0.0.1:9"]
        refused = CliRunner().invoke(cli, words).exception
        assert isinstance(refused, WhyrunError)
        assert [d.message for d in refused.diagnostics] == ["`--dask-address` is for `--backend dask`"]


def test_an_option_may_come_as_a_keyword_if_scripts_gave_it_so_before(tmp_path: Path) -> None:
    file = tmp_path / "workflow.yaml"
    file.write_text("workflow: w\njobs:\n  A: {uses: shell, with: {run: 'true'}}\n")
    flow = whyrun.load(file)

    def refusal(**options: Any) -> str:
        with pytest.raises(WhyrunError) as refused:
            flow.run(**options)
        return refused.value.diagnostics[0].message

    address = "tcp://127.0.0.1:9"
    assert refusal(dask_address=address) == "`--dask-address` is for `--backend dask`"
    assert refusal(dask_address=address, backend_options={"dask_address": "slurm"}) == "`dask_address` is given twice"
    with pytest.raises(TypeError, match="unexpected keyword argument 'job'"):
        flow.run(job=2)  # type: ignore[call-arg]
    assert flow.run(dask_address=None).exit_code == 0


# --- the table ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*BACKENDS, "toy"])
def test_every_row_is_complete(name: str, toy: BackendEntry) -> None:
    entry = BACKENDS[name]
    assert entry.name == name
    module, _, function = entry.factory.partition(":")
    factory = getattr(import_module(module), function)
    assert sorted(inspect.signature(factory).parameters) == sorted(option.name for option in entry.options)
    assert all(parameter.default is not parameter.empty for parameter in inspect.signature(factory).parameters.values())
    made = inspect.get_annotations(factory, eval_str=True)["return"]
    assert [call for call in CALLS if not callable(getattr(made, call, None))] == []
    for option in entry.options:
        assert option.flag == f"--{option.name.replace('_', '-')}"
        assert option.help.startswith(f"With `--backend {name}`: ")
    assert entry.capabilities is capabilities_of(name)


def test_option_names_belong_to_one_backend_each(toy: BackendEntry) -> None:
    names = [option.name for option in registry.all_options()]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    ("capabilities", "required", "confined", "host_files"),
    [
        (Capabilities(shares_files=True, isolated=False, remote=False, enforces_limits=False), False, False, True),
        (Capabilities(shares_files=True, isolated=False, remote=False, enforces_limits=False), True, True, False),
        (Capabilities(shares_files=False, isolated=True, remote=False, enforces_limits=True), False, True, False),
        (Capabilities(shares_files=False, isolated=True, remote=True, enforces_limits=False), True, False, False),
        (Capabilities(shares_files=False, isolated=False, remote=True, enforces_limits=False), False, False, False),
    ],
    ids=["shared files", "routed to the sandbox", "a sandbox", "a sandbox elsewhere", "a cluster"],
)
def test_what_follows_from_capabilities(
    capabilities: Capabilities, required: bool, confined: bool, host_files: bool
) -> None:
    assert (capabilities.confines(required), capabilities.runs_on_host_files(required)) == (confined, host_files)


# --- nobody asks for a name --------------------------------------------------------------------------------------


def comparisons_with_names(tree: ast.Module) -> Iterator[str]:
    """Comparisons with the name of a backend: `==`, `in`, `match`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            parts = [
                part for side in sides for part in (side.elts if isinstance(side, ast.Tuple | ast.Set) else [side])
            ]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        else:
            continue
        for part in parts:
            if isinstance(part, ast.Constant) and part.value in BACKENDS:
                yield f"line {node.lineno if isinstance(node, ast.Compare) else part.lineno}: {part.value}"


def option_names(tree: ast.Module) -> Iterator[str]:
    """Names and flags of the backends' own options: as an identifier, or within a text."""
    words = {word for option in registry.all_options() for word in (option.name, option.flag)}
    spelled = re.compile("|".join(rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in words))
    for node in ast.walk(tree):
        texts: list[object] = [getattr(node, field, None) for field in ("id", "arg", "attr", "name")]
        if isinstance(node, ast.Constant):
            texts.append(node.value)
        for text in texts:
            if isinstance(text, str) and (match := spelled.search(text)):
                yield f"line {getattr(node, 'lineno', 0)}: {match[0]}"


def findings(look: Callable[[ast.Module], Iterator[str]]) -> dict[str, list[str]]:
    """What a check finds outside the backends, by module."""
    files = [file for file in PACKAGE.rglob("*.py") if PACKAGE / "execution/backends" not in file.parents]
    found = {
        file.relative_to(PACKAGE).as_posix(): list(look(ast.parse(file.read_text(encoding="utf-8")))) for file in files
    }
    return {file: lines for file, lines in found.items() if lines}


def test_only_the_backends_know_their_names() -> None:
    assert findings(comparisons_with_names) == {}


def test_only_the_backends_know_their_options() -> None:
    """The one exception: keywords of the functions from Python, which stay because scripts use them."""
    found = findings(option_names)
    assert [line.partition(": ")[2] for line in found.pop("api.py")] == list(BackendKeywords.__annotations__)
    assert found == {}


def test_the_check_would_notice() -> None:
    asks = 'a == "dask"\nb not in ("local", x)\nmatch c:\n    case "e2b":\n        pass\n'
    assert list(comparisons_with_names(ast.parse(asks))) == ["line 1: dask", "line 2: local", "line 4: e2b"]
    assert list(comparisons_with_names(ast.parse('backend = "local"\nf("sandbox")'))) == []

    lines = ["def f(dask_address): pass", "x.dask_address = 1", "g(dask_address=1)", '{"dask_address": 1}']
    names = "\n".join([*lines, '"see --dask-address"'])
    found = [line.partition(": ") for line in option_names(ast.parse(names))]
    assert sorted((line, word) for line, _, word in found) == [
        ("line 1", "dask_address"), ("line 2", "dask_address"), ("line 3", "dask_address"), ("line 4", "dask_address"),
        ("line 5", "--dask-address"),
    ]  # fmt: skip
    assert list(option_names(ast.parse('x.dask_addresses = "--dask-addresses"'))) == []
