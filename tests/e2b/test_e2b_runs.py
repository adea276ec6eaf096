"""Real runs in E2B sandboxes: the real SDK and worker with a loopback server."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from loopback.exchange import Refused
from loopback.sandbox import Sandbox
from loopback.server import Loopback

from project_lab import Lab, Ran
from whyrun.errors import WhyrunError
from whyrun.execution.backends.e2b.backend import WORKER_NEEDS, e2b_backend
from whyrun.log import events as ev

Project = Callable[..., Lab]


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}


def kinds(ran: Ran, step: str) -> list[str]:
    return [type(event).__name__ for event in ran.events if getattr(event, "step_id", None) == step]


PIPELINE = """
workflow: pipeline
inputs:
  Words: {type: file, default: words.txt}
jobs:
  upper:
    uses: shell
    with: {run: 'tr a-z A-Z < "$words" > "$out_text"; echo seen; echo complaint >&2', words: "${{ inputs.Words }}"}
    outputs: {text: {type: file, path: out/upper.txt}}
  count:
    uses: python
    with: {call: "counting:count", text: "${{ jobs.upper.outputs.text }}"}
    outputs: {counts: {type: json}}
  mine:
    uses: text/join
    with: {counts: "${{ jobs.count.outputs.counts }}"}
    outputs: {line: {type: text, path: line.txt}}
"""
PIPELINE_FILES = {
    "words.txt": "größe und maß\n",
    "counting.py": """
        import helper
        def count(text, context):
            context.task("EXECUTES", "counting ✓", "in the sandbox")
            context.metric("rows_read", 3)
            return {"counts": helper.lengths(text.read_text().split())}
        """,
    "helper.py": "def lengths(words): return {word: len(word) for word in words}\n",
    "actions/join.py": """
        from whyrun import action
        @action("text/join", outputs={"line": "text"})
        def join(counts):
            return {"line": ",".join(f"{word}={count}" for word, count in sorted(counts.items()))}
        """,
}


def test_a_run_leaves_the_same_evidence_as_here(server: Loopback, project: Project) -> None:
    here, there = project(PIPELINE, PIPELINE_FILES), project(PIPELINE, PIPELINE_FILES)
    local = here.succeed()
    remote = there.succeed(backend=e2b_backend())
    assert (
        there.read("line.txt")
        == here.read("line.txt")
        == "MAß=3,GRößE=5,UND=3".replace("MAß=3,GRößE=5", "GRößE=5,MAß=3")
    )
    assert local.folder is not None
    assert remote.folder is not None
    assert files_of(remote.folder) == files_of(local.folder)
    for name in ("cfg/upper.json", "cfg/count.json", "cfg/mine.json", "manifest.yaml", "steps/upper/script.sh"):
        assert (remote.folder / name).read_bytes() == (local.folder / name).read_bytes()
    for name, text in (("stdout", "seen\n"), ("stderr", "complaint\n")):
        assert (remote.folder / f"steps/upper/{name}.log").read_text() == text
    for step in ("Job:upper", "Job:count", "Job:mine"):
        assert kinds(remote, step) == kinds(local, step)
    (task,) = remote.of(ev.Task)
    assert (task.step_id, task.status, task.message, task.details) == (
        "Job:count",
        "EXECUTES",
        "counting ✓",
        "in the sandbox",
    )
    assert [sandbox.alive for sandbox in server.sandboxes.values()] == [False] * len(server.sandboxes)
    assert {sandbox.metadata["whyrun"] for sandbox in server.sandboxes.values()} == {"r0001"}
    assert there.plan().headlines() == {}


def test_inputs_of_every_kind_arrive_under_their_own_names(server: Loopback, project: Project, tmp_path: Path) -> None:
    lab = project(
        """
        workflow: kinds
        inputs:
          Folder: {type: directory, default: data/folder}
          Files: {type: "file[]", default: "data/*.txt"}
          Odd: {type: file, default: 'data/a "b" ü.bin'}
          Outside: {type: file, default: OUTSIDE}
          Above: {type: directory, default: ../above}
          Number: {type: integer, default: 7}
        jobs:
          make:
            uses: shell
            with: {run: 'mkdir -p "$out_tree/empty"; echo x > "$out_tree/x"; chmod +x "$out_tree/x"'}
            outputs: {tree: {type: directory}}
          look:
            uses: python
            with:
              call: "looking:look"
              folder: "${{ inputs.Folder }}"
              files: "${{ inputs.Files }}"
              odd: "${{ inputs.Odd }}"
              outside: "${{ inputs.Outside }}"
              above: "${{ inputs.Above }}"
              number: "${{ inputs.Number }}"
              tree: "${{ jobs.make.outputs.tree }}"
            outputs: {seen: {type: json}}
        """,
        {
            "data/folder/run.sh": "#!/bin/sh\n",
            "data/folder/deep/er/file": "deep",
            "data/one.txt": "1",
            "data/two.txt": "2",
            'data/a "b" ü.bin': b"\x00\xff",
            "looking.py": """
                import os
                def tree(root):
                    found = [os.path.join(at, name) for at, *both in os.walk(root) for some in both for name in some]
                    return {os.path.relpath(path, root): os.access(path, os.X_OK) for path in found}
                def look(folder, files, odd, outside, above, number, **rest):
                    names = [path.resolve().name for path in (odd, outside, above)]
                    return {"seen": {
                        "folder": tree(folder), "files": [file.read_text() for file in files],
                        "odd": odd.read_bytes().hex(), "number": number, "tree": tree(rest["tree"]),
                        "outside": outside.read_text(), "above": tree(above), "names": names,
                    }}
                """,
        },
    )
    (lab.root / "data/folder/empty").mkdir()
    (lab.root / "data/folder/run.sh").chmod(0o755)
    outside = tmp_path / "outside.txt"
    outside.write_text("from outside")
    (tmp_path / "above").mkdir()
    (tmp_path / "above/file").touch()
    lab.edit("workflow.yaml", "OUTSIDE", str(outside))
    lab.succeed(backend=e2b_backend())
    assert lab.content("Artifact:look.seen") == {
        "folder": {"run.sh": True, "deep": True, "deep/er": True, "deep/er/file": False, "empty": True},
        "files": ["1", "2"],
        "odd": "00ff",
        "number": 7,
        "tree": {"x": True, "empty": True},
        "outside": "from outside",
        "above": {"file": False},
        "names": ["odd.bin", "outside.txt", "above"],
    }


def test_a_later_run_gets_what_an_earlier_one_made(server: Loopback, project: Project) -> None:
    lab = project(PIPELINE, PIPELINE_FILES)
    lab.succeed()
    lab.edit("helper.py", "len(word)", "2 * len(word)")
    ran = lab.succeed(backend=e2b_backend())
    assert ran.executed == ["Job:count", "Job:mine"]
    assert lab.read("line.txt") == "GRößE=10,MAß=6,UND=6"


# --- the bundle there --------------------------------------------------------------------------------------------


def test_only_code_travels_in_the_bundle(server: Loopback, project: Project) -> None:
    seen: list[set[str]] = []
    server.before_deletion = lambda sandbox: seen.append(files_of(sandbox.home / "whyrun/bundle/project"))
    lab = project(PIPELINE, {**PIPELINE_FILES, ".env": "X=1", "connections.yaml": "connections: {}\n", "notes.md": "n"})
    lab.succeed()
    lab.edit("helper.py", "len(word)", "3 * len(word)")
    lab.succeed(backend=e2b_backend())
    expected = {"actions/join.py", "counting.py", "helper.py", "notes.md", "workflow.yaml", "whyrun.toml"}
    assert seen == [expected] * len(server.sandboxes)


@pytest.mark.skipif(find_spec("pip") is None, reason="the Python that runs the tests has no pip")
def test_requirements_of_the_project_are_installed_there(server: Loopback, project: Project) -> None:
    lab = project(
        """
        workflow: needs
        jobs:
          use:
            uses: python
            with: {call: "using:use"}
            outputs: {said: {type: text}}
        """,
        {
            "using.py": "def use():\n    import tiny_thing\n    return {'said': tiny_thing.WORD}\n",
            "requirements.txt": "# ours\nmsgspec>=0.1\n./vendor/tiny_thing-1.0-py3-none-any.whl\n",
        },
    )
    wheel(lab.root / "vendor/tiny_thing-1.0-py3-none-any.whl")
    lab.succeed(backend=e2b_backend())
    assert lab.content("Artifact:use.said") == "installed"


def wheel(path: Path) -> None:
    path.parent.mkdir()
    facts = "tiny_thing-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_thing.py", "WORD = 'installed'\n")
        archive.writestr(f"{facts}/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n")
        archive.writestr(
            f"{facts}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{facts}/RECORD", "")


def test_what_the_worker_needs_is_what_the_package_says() -> None:
    import tomllib

    here = Path(__file__).resolve().parents[2]
    dependencies = tomllib.loads((here / "pyproject.toml").read_text())["project"]["dependencies"]
    assert set(WORKER_NEEDS) <= set(dependencies)


# --- much and strange output -------------------------------------------------------------------------------------


def test_much_and_strange_output_comes_back_byte_for_byte(server: Loopback, project: Project) -> None:
    lab = project(
        """
        workflow: much
        jobs:
          print:
            uses: python
            with: {call: "printing:much"}
            outputs: {sha: {type: text}}
          fail:
            uses: python
            with: {call: "printing:fail"}
            outputs: {sha: {type: text}}
        """,
        {
            "printing.py": """
                import hashlib, os
                def much():
                    block = bytes(range(256)) * 4096  # 1 MB without end of line, and no text
                    digest = hashlib.sha256()
                    for _ in range(8):
                        os.write(1, block)
                        digest.update(block)
                    return {"sha": digest.hexdigest()}
                def fail():
                    raise ValueError("x" * 1_000_000 + "the end")
                """,
        },
    )
    ran = lab.run(backend=e2b_backend())
    assert ran.folder is not None
    printed = (ran.folder / "steps/print/stdout.log").read_bytes()
    assert hashlib.sha256(printed).hexdigest() == lab.content("Artifact:print.sha")
    (failed,) = ran.of(ev.StepFailed)
    assert failed.error_type == "ValueError"
    assert failed.error.endswith("the end")
    here = project((lab.root / "workflow.yaml").read_text(), {"printing.py": lab.read("printing.py")})
    (same,) = here.run().of(ev.StepFailed)
    assert (failed.error, failed.traceback) == (same.error, same.traceback)


# --- secrets -----------------------------------------------------------------------------------------------------


@pytest.fixture
def secret() -> Iterator[str]:
    os.environ["PLANTED"] = value = "p14nted-s3cret-value"
    yield value
    del os.environ["PLANTED"]


def test_a_secret_reaches_its_step_and_no_file_and_no_command_line(
    server: Loopback, project: Project, secret: str
) -> None:
    found: list[str] = []

    def search(sandbox: Sandbox) -> None:
        found.extend(path for path in files_of(sandbox.root) if secret.encode() in content(sandbox.root / path))

    server.before_deletion = search
    lab = project(
        """
        workflow: secretive
        jobs:
          told:
            uses: shell
            secrets: [PLANTED]
            env: {PLANTED: "${{ secrets.PLANTED }}"}
            with: {run: 'echo "$PLANTED" ; printf %s "$PLANTED" | wc -c > "$out_size"'}
            outputs: {size: {type: text}}
          without:
            uses: shell
            needs: [told]
            with: {run: 'echo "${PLANTED-none}" > "$out_value"'}
            outputs: {value: {type: text}}
          failing:
            uses: shell
            secrets: [PLANTED]
            with: {run: 'echo "$word" >&2; exit 1', word: "${{ secrets.PLANTED }}"}
            outputs: {value: {type: text}}
        """,
        {"docker-compose.yml": f"password: {secret}\n"},
    )
    ran = lab.run(backend=e2b_backend())
    assert ran.failed == {"Job:failing": ("FAILED", "CommandFailed")}
    assert lab.content("Artifact:told.size").strip() == str(len(secret))
    assert lab.content("Artifact:without.value") == "none\n"
    assert found == []
    assert ran.folder is not None
    state = lab.root / ".whyrun"
    assert [name for name in files_of(state) if secret.encode() in content(state / name)] == []
    commands = [
        " ".join(process.config["args"]) for sandbox in server.sandboxes.values() for process in sandbox.started
    ]
    assert commands != []
    assert [command for command in commands if secret in command] == []


def test_code_that_contains_a_secret_is_not_sent(server: Loopback, project: Project, secret: str) -> None:
    workflow = """
        workflow: written
        jobs:
          use:
            uses: python
            secrets: [PLANTED]
            with: {call: "using:use", word: "${{ secrets.PLANTED }}"}
            outputs: {size: {type: json}}
        """
    lab = project(workflow, {"using.py": f"WORD = {secret!r}\ndef use(word): return {{'size': len(word)}}\n"})
    with pytest.raises(WhyrunError) as refused:
        lab.run(backend=e2b_backend())
    (diagnostic,) = refused.value.diagnostics
    assert (diagnostic.code, diagnostic.file) == ("SECRET_IN_BUNDLE", "using.py")
    assert secret not in str(refused.value)
    assert server.requests == []
    assert lab.runs() == []  # nothing is recorded of what did not begin
    lab.write({"using.py": "def use(word): return {'size': len(word)}\n"})
    lab.succeed(backend=e2b_backend())
    assert lab.content("Artifact:use.size") == len(secret)


def content(path: Path) -> bytes:
    return os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""


# --- what is refused ---------------------------------------------------------------------------------------------


def test_without_a_key_nothing_begins(server: Loopback) -> None:
    del os.environ["E2B_API_KEY"]
    try:
        with pytest.raises(WhyrunError) as refused:
            e2b_backend()
    finally:
        os.environ.update(server.environment())
    assert [diagnostic.code for diagnostic in refused.value.diagnostics] == ["BACKEND_UNAVAILABLE"]


def test_a_sandbox_that_cannot_be_had_ends_the_run_before_any_step(server: Loopback, project: Project) -> None:
    server.refuse_sandboxes = Refused(400, "no such template")
    lab = project(PIPELINE, PIPELINE_FILES)
    ran = lab.run(backend=e2b_backend())
    assert (ran.exit_code, ran.starts) == (1, [])
    assert ran.status()["error"] == "PrepareFailed: no sandbox could be created: 400: no such template"
    server.refuse_sandboxes = None
    assert lab.succeed(backend=e2b_backend()).executed == ["Job:count", "Job:mine", "Job:upper"]


def test_prepare_runs_there_and_its_failure_ends_the_run(server: Loopback, project: Project) -> None:
    lab = project(PIPELINE, {**PIPELINE_FILES, "whyrun.toml": 'prepare = "echo not today; exit 3"\n'})
    ran = lab.run(backend=e2b_backend())
    assert (ran.exit_code, ran.starts) == (1, [])
    assert json.dumps(ran.status()["error"]).startswith(
        '"PrepareFailed: `echo not today; exit 3` ended with exit status 3'
    )
    lab.write({"whyrun.toml": 'prepare = "touch ready"\n'})
    seen: list[bool] = []
    server.before_deletion = lambda sandbox: seen.append((sandbox.home / "whyrun/bundle/project/ready").exists())
    lab.succeed(backend=e2b_backend())
    assert True in seen
    assert not (lab.root / "ready").exists()
