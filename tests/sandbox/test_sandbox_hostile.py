"""Steps that use their own site to attack the host, which is not confined: links, large files, bad messages."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sandbox_lab import SandboxProject, running

from whyrun.artifacts.hashing import bytes_sha256
from whyrun.execution.files.tree_removal import DEEPEST

Make = Callable[[dict[str, str]], SandboxProject]

HOSTILE = '''
import gc, hashlib, json, os, time

def forge(outputs):
    """The last word of the step, as its worker would say it."""
    from whyrun.execution.worker.outbox import Outbox
    outbox = next(thing for thing in gc.get_objects() if isinstance(thing, Outbox))
    word = {"msg": "finished", "step_id": "Job:Hostile", "attempt": 1, "ts": "2026-01-01T00:00:00.000000Z",
            "duration": 0.1, "outputs": outputs, "n": outbox.numbered + 1}
    os.write(outbox._descriptor, json.dumps(word).encode() + b"\\n")
    time.sleep(600)

def put(content, sha256=None):
    """Where the worker keeps what a step made."""
    sha256 = sha256 or hashlib.sha256(content).hexdigest()
    os.makedirs(f"/whyrun/out/store/{sha256[:2]}", exist_ok=True)
    with open(f"/whyrun/out/store/{sha256[:2]}/{sha256[2:]}", "wb") as file:
        file.write(content)
    return sha256

def climb(target):
    os.makedirs("/whyrun/out/store/aa", exist_ok=True)
    forge([{"key": "F", "sha256": "aa" + target, "size": 1, "type": "file"}])

def other_bytes():
    forge([{"key": "F", "sha256": put(b"not these", "ab" * 32), "size": 1, "type": "file"}])

def climbing_tree(target):
    manifest = {"tree": "whyrun/tree/v1", "files": [["a", "aa" + target, 1, False]], "empty_dirs": []}
    forge([{"key": "F", "sha256": put(json.dumps(manifest).encode()), "size": 1, "type": "directory"}])

def claim(sha256):
    forge([{"key": "F", "sha256": sha256, "size": 1, "type": "file"}])

def claiming_tree(sha256):
    manifest = {"tree": "whyrun/tree/v1", "files": [["a", sha256, 1, False]], "empty_dirs": []}
    forge([{"key": "F", "sha256": put(json.dumps(manifest).encode()), "size": 1, "type": "directory"}])

def endless_words():
    os.truncate("/whyrun/out/said.jsonl", 1 << 40)
    os.kill(os.getpid(), 9)

def nest(chains):
    """Chains of 100 folders, each below the next, and into the deepest of all: a path of 1,100 levels as one by one,
    without 1,100 working folders whose names the kernel has to put together."""
    chain = "/".join(["aaaa"] * 100)
    for _ in range(chains):
        os.makedirs("new/" + chain)
        if os.path.exists("aaaa"):
            os.rename("aaaa", "new/" + chain + "/aaaa")
        os.rename("new/aaaa", "aaaa")
        os.rmdir("new")
    for _ in range(chains):
        os.chdir(chain)

def deep(chains):
    open("top.txt", "w").close()
    nest(chains)
    raise ValueError("my own error")

def deep_and_dead(chains):
    nest(chains)
    os.kill(os.getpid(), 9)

def deep_output(chains, context):
    folder = context.output("F")
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    nest(chains)

def lead_out(target, word):
    os.rename("/whyrun/out/scratch", "/whyrun/out/moved")
    os.symlink(target, "/whyrun/out/scratch")
    os.execvp("sleep", ["sleep", word])

def pretend(target, word):
    with open("/whyrun/out/scratch/step", "w") as marker:
        marker.write("1 Job:Calm" + chr(10))
    open("mine.txt", "w").close()
    os.execvp("sleep", ["sleep", word])

def behave(target, word, context):
    context.output("F").write_text("as it should be")
'''


def project_of(
    sandboxed: Make, call: str, kind: str = "file", after: str = "[]", **parameters: object
) -> SandboxProject:
    """One hostile step, and one that minds its own business."""
    given = "".join(f", {name}: {json.dumps(value)}" for name, value in parameters.items())
    workflow = f"""
        workflow: hostile
        jobs:
          Hostile:
            uses: python
            with: {{call: "hostile:{call}"{given}}}
            outputs: {{F: {{type: {kind}}}}}
            needs: {after}
          Calm:
            uses: shell
            with: {{run: 'echo calm > "$out_text"'}}
            outputs: {{text: {{type: text, path: calm.txt}}}}
    """
    return sandboxed({"hostile.py": HOSTILE, "workflow.yaml": textwrap.dedent(workflow)})


def fail(project: SandboxProject) -> tuple[str, str, str]:
    """How the hostile step failed; nobody else did."""
    code, said = project.run("--jobs", "1")
    assert code == 1, said
    failed = project.failed()
    assert list(failed) == ["Job:Hostile"]
    assert (project.folder / "calm.txt").read_text() == "calm\n"
    assert project.left_over() == []
    return failed["Job:Hostile"]


def stored(project: SandboxProject) -> dict[str, bytes]:
    folder = project.folder / ".whyrun" / "store"
    return {path.parent.name + path.name: path.read_bytes() for path in folder.glob("??/*")}


@pytest.fixture
def shadow(open_folder: Path) -> Path:
    """What only the host can read."""
    folder = open_folder / "victim"
    folder.mkdir(exist_ok=True)
    path = folder / "shadow"
    path.write_text("root:TOPSECRET\n")
    path.chmod(0o600)
    return path


def climbing(target: Path) -> str:
    return "/.." * 20 + str(target)


# --- names that lead out ---------------------------------------------------------------------------------------------


def test_a_hash_that_is_a_path_is_no_message(sandboxed: Make, shadow: Path) -> None:
    project = project_of(sandboxed, "climb", target=climbing(shadow))
    pattern = r"\\A[0-9a-f]{64}\\Z"
    reason = f"the worker was ended: it sent an invalid message: Expected `str` matching regex '{pattern}'"
    assert fail(project) == ("FAILED", "WorkerDied", f"{reason} - at `$.outputs[0].sha256`")
    assert [sha for sha, data in stored(project).items() if b"TOPSECRET" in data] == []


def test_bytes_that_are_not_what_was_promised_never_get_into_the_store(sandboxed: Make) -> None:
    project = project_of(sandboxed, "other_bytes")
    found = bytes_sha256(b"not these")
    message = f"came back with other bytes (sha256 {found}) than the worker names ({'ab' * 32})"
    assert fail(project) == ("FAILED", "OutputDamaged", f"the output `F` {message}")
    assert {
        sha: hashlib.sha256(data).hexdigest() for sha, data in stored(project).items() if sha != bytes_sha256(data)
    } == {}
    assert found not in stored(project)


def test_a_folder_whose_manifest_leads_out_does_not_come_back(sandboxed: Make, shadow: Path) -> None:
    target = climbing(shadow)
    status, error_type, error = fail(project_of(sandboxed, "climbing_tree", "directory", target=target))
    assert (status, error_type) == ("FAILED", "OutputDamaged")
    assert error.startswith("the output `F` did not come back whole: the stored blob ")
    assert error.endswith(
        f" is not the manifest of a folder (the manifest of a folder names an invalid sha256: {'aa' + target!r:.80})"
    )


@pytest.mark.parametrize(("call", "kind"), [("claim", "file"), ("claiming_tree", "directory")])
def test_a_hash_is_not_enough_to_get_what_another_step_made(sandboxed: Make, call: str, kind: str) -> None:
    made_by_calm = bytes_sha256(b"calm\n")
    project = project_of(sandboxed, call, kind, after="[Calm]", sha256=made_by_calm)
    message = "the output `F` did not come back from where the step ran"
    assert fail(project) == ("FAILED", "MissingOutput", message)
    assert made_by_calm in stored(project)


def test_a_link_in_place_of_the_scratch_folder_does_not_lead_the_repair_out(sandboxed: Make) -> None:
    word = f"95{os.getpid()}"
    project = project_of(sandboxed, "lead_out", target="PLACE", word=word)
    victim = project.folder / "victim"
    (victim / "work").mkdir(parents=True)
    (victim / "work" / "mine.txt").write_text("mine")
    (victim / "stdout").write_text("mine")
    (victim / "step").write_text("1 Job:Hostile\n")
    os.symlink("work", victim / "bin")
    workflow = project.folder / "workflow.yaml"
    workflow.write_text(workflow.read_text().replace("PLACE", str(victim)))
    before = sorted(str(path) for path in victim.rglob("*"))
    kill_host(project, word)
    killed = project.last_run
    workflow.write_text(workflow.read_text().replace("hostile:lead_out", "hostile:behave"))
    code, said = project.command("run")
    assert code == 0, said
    assert json.loads((killed / "status.json").read_bytes())["steps_interrupted"] == 1
    assert sorted(str(path) for path in victim.rglob("*")) == before
    assert not (killed / "steps" / "Hostile").exists()
    assert project.left_over() == []


def test_whose_a_sandbox_was_is_not_for_the_step_in_it_to_say(sandboxed: Make) -> None:
    word = f"96{os.getpid()}"
    project = project_of(sandboxed, "pretend", target="", word=word)
    kill_host(project, word)
    killed = project.last_run
    workflow = project.folder / "workflow.yaml"
    workflow.write_text(workflow.read_text().replace("hostile:pretend", "hostile:behave"))
    code, said = project.command("run")
    assert code == 0, said
    assert (killed / "steps" / "Hostile" / "scratch" / "work" / "mine.txt").exists()
    assert not (killed / "steps" / "Calm" / "scratch").exists()


def kill_host(project: SandboxProject, word: str) -> None:
    """While the step sleeps, for the seconds by which it is found."""
    host = project.start("run", "--backend", "sandbox")
    until(lambda: len(running(word)) == 1)
    # Only what the log says has begun is looked for afterwards; the other step may have begun long before.
    until(lambda: b'"step_start","step_id":"Job:Hostile"' in (project.last_run / "events.jsonl").read_bytes())
    (whyrun,) = (pid for pid in running(str(Path(sys.executable).parent / "whyrun")) if is_python(pid, project.folder))
    os.kill(whyrun, signal.SIGKILL)
    host.communicate()
    until(lambda: not running(word))


def is_python(pid: int, folder: Path) -> bool:
    """The command itself, and not what it was started through."""
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(folder) and "python" in os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# --- more than the host can hold -------------------------------------------------------------------------------------


def test_a_file_of_words_without_end_is_not_read(sandboxed: Make) -> None:
    reason = f"the worker left too much in `out/said.jsonl`: more than {1 << 26} bytes"
    assert fail(project_of(sandboxed, "endless_words")) == ("FAILED", "WorkerDied", reason)


NOT_KEPT = f"work/{'/'.join(['aaaa'] * DEEPEST)}: more than {DEEPEST} folders deep, or its path is too long\n"


@pytest.mark.parametrize("place", ["sandbox", "local"])
def test_folders_without_end_do_not_hide_the_error_of_their_step(sandboxed: Make, place: str) -> None:
    """More than Python's stack holds, and more than a path can name."""
    project = project_of(sandboxed, "deep", chains=11)
    code, said = project.command("run", "--backend", place)
    assert code == 1, said
    assert project.failed() == {"Job:Hostile": ("FAILED", "ValueError", "my own error")}
    kept = {path: text for path, text in project.evidence().items() if path.startswith("steps/Hostile/")}
    assert kept == {"steps/Hostile/scratch/work/top.txt": "", "steps/Hostile/scratch/not-kept.txt": NOT_KEPT}
    assert project.left_over() == []
    code, said = project.command("run", "--backend", place)  # and the next run finds nothing that breaks it
    assert code == 1, said
    assert project.failed() == {"Job:Hostile": ("FAILED", "ValueError", "my own error")}


@pytest.mark.parametrize("place", ["sandbox", "local"])
def test_folders_without_end_of_a_dead_worker_are_cut_as_well(sandboxed: Make, place: str) -> None:
    project = project_of(sandboxed, "deep_and_dead", chains=11)
    code, said = project.command("run", "--backend", place)
    assert code == 1, said
    assert project.failed() == {"Job:Hostile": ("FAILED", "WorkerDied", "the worker was killed by SIGKILL")}
    kept = {path: text for path, text in project.evidence().items() if path.startswith("steps/Hostile/")}
    assert kept == {"steps/Hostile/scratch/not-kept.txt": NOT_KEPT}
    assert project.left_over() == []


@pytest.mark.parametrize("place", ["sandbox", "local"])
def test_an_output_of_folders_without_end_is_refused(sandboxed: Make, place: str) -> None:
    project = project_of(sandboxed, "deep_output", "directory", chains=11)
    code, said = project.command("run", "--backend", place)
    assert code == 1, said
    ((step, (status, _, error)),) = project.failed().items()
    assert (step, status) == ("Job:Hostile", "FAILED")
    assert "has more than 256 folders within folders" in error
    assert project.left_over() == []
