"""`container:`: the script of a shell job runs in an image, with its inputs and nothing else, and ends with its step.

For real: with podman, and an image of a few programs of this machine that is imported from a folder.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_lab import CommandLab, until
from project_lab import Lab, Process, reasons
from whyrun.environments.engines import Bind, Inside, engine_for, engine_variables
from whyrun.errors import WhyrunError
from whyrun.execution.backends.sandbox.backend import sandbox_backend, why_unavailable
from whyrun.workflow.parsing.running_keys import ENGINES

IMAGE = f"localhost/whyrun-test-{os.getpid()}"
PROGRAMS = ("bash", "sh", "cat", "ls", "mkdir", "sleep", "wc")


def image_tar(marker: str) -> bytes:
    """Programs of this machine with their libraries, and a file that differs from image to image."""
    files = {"marker": marker.encode()}
    for name in PROGRAMS:
        program = os.path.realpath(str(shutil.which(name)))
        files[f"bin/{name}"] = Path(program).read_bytes()
        for library in re.findall(r"/\S+", subprocess.run(["ldd", program], capture_output=True, text=True).stdout):
            if os.path.exists(library):
                files[library.lstrip("/")] = Path(library).read_bytes()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o755
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def podman(*words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["podman", *words], input=data, env=engine_variables(), capture_output=True)


@pytest.fixture(scope="session")
def image() -> Iterator[str]:
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed")
    imported = podman("import", "-", f"{IMAGE}:1", data=image_tar("one"))
    if imported.returncode != 0:
        pytest.skip(f"podman cannot import an image here: {imported.stderr.decode()[-300:]}")
    limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
    trial = podman("run", "--rm", "--network", "none", *limits, f"{IMAGE}:1", "cat", "/marker")
    if trial.stdout != b"one":
        podman("rmi", "--force", f"{IMAGE}:1")
        pytest.skip(f"podman cannot run a container here: {trial.stderr.decode()[-300:]}")
    yield f"{IMAGE}:1"
    podman("rmi", "--force", f"{IMAGE}:1")


def running() -> list[str]:
    """The containers of this image, also those that have ended."""
    listed = podman("ps", "--all", "--format", "{{.Image}} {{.Names}}").stdout.decode().splitlines()
    return [line for line in listed if line.startswith(IMAGE)]


def one_job(image: str, script: str, more: str = "") -> str:
    return f"""
workflow: contained
inputs: {{Data: {{type: file, default: data.txt}}}}
jobs:
  Inside:
    uses: shell
    container: {{image: "{image}"}}
    {more}
    with:
      data: "${{{{ inputs.Data }}}}"
      words: [a, "b c", "it's"]
      run: |
        {script}
    outputs: {{Text: {{type: text}}}}
"""


SEES = """
        cat "$data" /marker > "$out_Text"
        echo "${words[@]} ${#words[@]} $FLAVOUR" >> "$out_Text"
        cat /proc/net/dev | wc -l >> "$out_Text"
        ls "$HOME" "$TMPDIR" && test ! -e "${data%/*}/../workflow.yaml" && test ! -e "$PROJECT/workflow.yaml"
        ! echo more 2>/dev/null >> "$data"
        cat >> "$out_Text"
"""


def test_the_script_sees_its_inputs_its_variables_and_nothing_else(image: str, tmp_path: Path) -> None:
    more = f'env: {{FLAVOUR: "va nilla", PROJECT: "{tmp_path}"}}'
    lab = Lab(tmp_path).write({"workflow.yaml": one_job(image, SEES.strip(), more), "data.txt": "data\n"})
    first = lab.succeed()
    lines = lab.content("Artifact:Inside.Text").splitlines()
    # `lo` alone under two lines of heading: no network; and nothing came from standard input
    assert lines == ["data", "onea b c it's 3 va nilla", "3"]
    assert (lab.root / "data.txt").read_text() == "data\n"
    (reference,) = [first.cfg("Inside")["container"]["image"]]
    assert re.fullmatch(rf"{IMAGE}@sha256:[0-9a-f]{{64}}", reference)
    assert [note for note in first.heard.notes if "stands for" in note] == [
        f"`{image}` stands for sha256:{reference.partition('@sha256:')[2][:12]}… from now on: "
        "`whyrun env sync` looks again"
    ]
    assert lab.plan().planned == []
    # The digest is the content: written out, it is the same step.
    lab.edit("workflow.yaml", f'"{image}"', f'"{reference}"')
    assert lab.plan().planned == []
    lab.edit("workflow.yaml", reference, f"{IMAGE}@sha256:{'0' * 64}")
    (reason,) = reasons(lab.plan())["Job:Inside"]
    assert (reason["code"], reason["source"]) == ("INPUT_CHANGED", "Input:Inside.action")
    with pytest.raises(WhyrunError) as refused:
        lab.run()
    (one,) = refused.value.diagnostics
    assert one.code == "CONTAINER_FAILED"
    assert "cannot be fetched; podman says:" in one.message
    assert lab.runs() == ["r0001"]


def test_a_failing_script_and_another_shell(image: str, tmp_path: Path) -> None:
    lab = Lab(tmp_path).write(
        {"workflow.yaml": one_job(image, 'echo "no $nothing" >&2', "retries: 0"), "data.txt": "data\n"}
    )
    failed = lab.run()
    assert failed.failed == {"Job:Inside": ("FAILED", "CommandFailed")}
    assert "nothing: unbound variable" in failed.heard.lines[-1][1]
    lab.edit("workflow.yaml", "run: |", "shell: sh\n      run: |")
    lab.edit("workflow.yaml", 'echo "no $nothing" >&2', 'cat "$data" > "$out_Text"; echo "$words" >> "$out_Text"')
    lab.succeed()
    assert lab.content("Artifact:Inside.Text") == "data\na\nb c\nit's\n"
    assert running() == []


def test_a_timeout_ends_the_container(image: str, tmp_path: Path) -> None:
    lab = Lab(tmp_path).write({"workflow.yaml": one_job(image, "sleep 600", "timeout: 1s"), "data.txt": "data\n"})
    assert lab.run().failed == {"Job:Inside": ("TIMED_OUT", "TimedOut")}
    assert running() == []


STOPPABLE = 'trap "echo cleaned up > traces; exit 7" TERM; echo started; sleep 600 & wait'


def test_ctrl_c_reaches_the_script_and_ends_the_container(image: str, tmp_path: Path) -> None:
    lab = CommandLab(tmp_path)
    lab.write({"workflow.yaml": one_job(image, STOPPABLE), "data.txt": "data\n"})
    run = Process(lab)  # on a busy machine the engine may take longer than the ten seconds that a user waits
    until(running)
    until(lambda: any(b"started" in path.read_bytes() for path in lab.root.glob(".whyrun/tmp/*.scratch/*/stdout")))
    run.signal(signal.SIGINT)
    code, _ = run.end()
    assert code == 130
    assert (lab.run_folder("r0001") / "steps/Inside/scratch/work/traces").read_text() == "cleaned up\n"
    assert running() == []


def test_the_container_of_a_killed_run_is_ended_by_the_next(image: str, tmp_path: Path) -> None:
    lab = CommandLab(tmp_path)
    lab.write({"workflow.yaml": one_job(image, "sleep 600"), "data.txt": "data\n"})
    command = lab.start("run")
    until(running)
    command.kill()
    lab.edit("workflow.yaml", "sleep 600", 'echo > "$out_Text"')
    lab.succeed()
    assert running() == []


# --- without an engine -------------------------------------------------------------------------------------------


def refused(lab: Lab, **options: object) -> tuple[str, str, str | None]:
    with pytest.raises(WhyrunError) as raised:
        lab.run(**options)  # type: ignore[arg-type]
    (one,) = raised.value.diagnostics
    assert lab.runs() == []
    return one.code, one.message, one.hint


PINNED = f"debian@sha256:{'a' * 64}"


def test_without_an_engine_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "apt-get").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    lab = Lab(tmp_path).write({"workflow.yaml": one_job(PINNED, "true"), "data.txt": "data\n"})
    assert refused(lab) == (
        "CONTAINER_FAILED",
        "no engine for containers is installed: neither podman nor docker nor apptainer",
        "install one: apt-get install podman",
    )
    lab.edit("workflow.yaml", f'"{PINNED}"', f'"{PINNED}", engine: docker')
    assert refused(lab) == (
        "CONTAINER_FAILED",
        "`docker`, which runs containers, is not installed",
        "install it, or podman: apt-get install podman",
    )


@pytest.mark.skipif(why_unavailable() is not None, reason="bubblewrap cannot be used here")
def test_a_container_does_not_start_in_a_sandbox(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write({"workflow.yaml": one_job(PINNED, "true"), "data.txt": "data\n"})
    expected = "`Inside` has a container, which cannot start in a sandbox"
    assert refused(lab, backend=sandbox_backend())[:2] == ("CONTAINER_FAILED", expected)
    lab.edit("workflow.yaml", "    uses: shell", "    uses: shell\n    sandbox: required")
    assert refused(lab)[:2] == ("CONTAINER_FAILED", expected)


def test_only_a_script_runs_in_a_container(tmp_path: Path) -> None:
    job = f'{{uses: python, with: {{call: "m:f"}}, container: {{image: "{PINNED}"}}}}'
    lab = Lab(tmp_path).write({"workflow.yaml": f"workflow: w\njobs:\n  J: {job}\n", "m.py": "def f(): ...\n"})
    (one,) = lab.opened().problems
    assert (one.code, one.message) == ("INVALID_USES", "a step of `python` cannot run in a container")


@pytest.mark.parametrize("name", ENGINES)
def test_each_engine_gets_its_own_command_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only podman runs in these tests. For the others, this is what they would be started with."""
    (tmp_path / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = engine_for(None)
    assert engine.name == name
    binds = [Bind("/s/work", True), Bind('/data/a,"b".csv')]
    inside = Inside("whyrun-1", PINNED, binds, {"HOME": "/s/home"}, ("SECRET",), "/s/work", False, ["sh", "x.sh"])
    words = engine.start("E", inside)
    assert words[:2] == (["E", "exec"] if name == "apptainer" else ["E", "run"])
    assert words[-2:] == ["sh", "x.sh"]
    assert (f"docker://{PINNED}" if name == "apptainer" else PINNED) in words
    assert (
        words[words.index("--network") + 1],
        words[words.index("--pwd" if name == "apptainer" else "--workdir") + 1],
    ) == ("none", "/s/work")
    if name == "apptainer":
        assert [words[i + 1] for i, word in enumerate(words) if word == "--bind"] == [
            "/s/work:/s/work:rw", '/data/a,"b".csv:/data/a,"b".csv:ro',
        ]  # fmt: skip
    else:
        assert [words[i + 1] for i, word in enumerate(words) if word == "--mount"] == [
            "type=bind,source=/s/work,target=/s/work",
            'type=bind,"source=/data/a,""b"".csv","target=/data/a,""b"".csv",readonly',
        ]
        assert words[words.index("HOME=/s/home") - 1] == words[words.index("SECRET") - 1] == "--env"
    assert ("--user" in words) == (name == "docker")
