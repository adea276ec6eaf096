"""Real runs in the sandbox, as root and as an ordinary user: what steps can reach, and how hostile steps end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sandbox_lab import PLANTED, SandboxProject, running

Make = Callable[[dict[str, str]], SandboxProject]

LOOK = '''
import json, os, socket

def look(canary, port, private=None, mine=None, context=None):
    """What a step can see. Returns everything, so that the test compares all of it."""
    def reads(path):
        try:
            return open(path).read()
        except OSError as problem:
            return problem.strerror

    def calls():
        try:
            return socket.create_connection(("127.0.0.1", port), 5).recv(10).decode()
        except OSError as problem:
            return problem.strerror

    seen = {}
    for folder, folders, files in os.walk("/whyrun"):
        for name in files:
            seen[os.path.join(folder, name)] = None
    return {"seen": {
        "shadow": reads("/etc/shadow"),
        "canary": reads(canary),
        "project": sorted(os.listdir("/whyrun/in/project")),
        "files": sorted(path for path in seen if path.startswith("/whyrun/in/")),
        "environment": dict(os.environ),
        "user": [os.getuid(), os.getgid()],
        "network": calls(),
        "mine": open(mine).read() if mine else None,
    }}
'''


@pytest.fixture
def port() -> int:
    """Where somebody would answer."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with closing(listening):
            while True:
                connection, _ = listening.accept()
                with closing(connection):
                    connection.sendall(b"hello")

    threading.Thread(target=answer, daemon=True).start()
    found: int = listening.getsockname()[1]
    return found


def test_a_step_sees_its_own_inputs_and_nothing_else(sandboxed: Make, open_folder: Path, port: int) -> None:
    canary = open_folder / "canary.txt"
    canary.write_text("out of reach")
    canary.chmod(0o644)
    project = sandboxed(
        {
            "look.py": LOOK,
            "data/mine.txt": "mine\n",
            "data/private.txt": "another step's",
            "connections.yaml": "connections: {}\n",
            ".env": "KEY=1\n",
            "workflow.yaml": f"""
                workflow: looking
                inputs:
                  Mine: {{type: file, default: data/mine.txt}}
                  Private: {{type: file, default: data/private.txt}}
                  Canary: {{type: string, default: {canary}}}
                  Port: {{type: integer, default: {port}}}
                jobs:
                  Other:
                    uses: shell
                    with: {{private: "${{{{ inputs.Private }}}}", run: 'cp "$private" "$out_text"'}}
                    outputs: {{text: {{type: file}}}}
                  Look:
                    uses: python
                    needs: [Other]
                    with:
                      call: "look:look"
                      canary: "${{{{ inputs.Canary }}}}"
                      port: "${{{{ inputs.Port }}}}"
                      mine: "${{{{ inputs.Mine }}}}"
                    outputs: {{seen: {{type: json, path: seen.json}}}}
                  Online:
                    uses: python
                    sandbox: {{network: true}}
                    with: {{call: "look:look", canary: "${{{{ inputs.Canary }}}}", port: "${{{{ inputs.Port }}}}"}}
                    outputs: {{seen: {{type: json, path: online.json}}}}
            """,
        }
    )
    code, said = project.run()
    assert code == 0, said
    seen = json.loads((project.folder / "seen.json").read_text())
    (own,) = (path for path in seen.pop("files") if not path.startswith("/whyrun/in/project/"))
    assert own.startswith("/whyrun/in/inputs/")
    environment = seen.pop("environment")
    assert set(environment) == {"PATH", "HOME", "TMPDIR", "LANG", "WHYRUN_PROJECT", "PYTHONDONTWRITEBYTECODE"}
    assert environment["WHYRUN_PROJECT"] == "/whyrun/in/project"
    assert PLANTED not in str(environment)
    assert environment["HOME"] == "/whyrun/out/scratch/home"
    assert seen == {
        "shadow": "No such file or directory",
        "canary": "No such file or directory",
        "project": ["look.py"],
        "user": [1000, 1000],
        "network": "Connection refused",
        "mine": "mine\n",
    }
    assert json.loads((project.folder / "online.json").read_text())["network"] == "hello"
    assert project.left_over() == []


HOSTILE = """
import ctypes, mmap, os, signal, subprocess, time

import msgspec

def bomb():
    while True:
        try:
            os.fork()
        except BlockingIOError:
            time.sleep(0.01)

def hog():
    hoard = []
    while True:
        hoard.append(bytearray(16 << 20))

def many_hogs():
    for _ in range(8):
        if os.fork() == 0:
            memory = mmap.mmap(-1, 60 << 20)
            for place in range(0, len(memory), 4096):
                memory[place] = 1
            time.sleep(1000)
    time.sleep(1000)

def die():
    print("last words", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

def wait(word, context):
    again = context.recall("tried")
    if not again:
        context.remember("tried", True)
        subprocess.run(["sleep", word])
    return {"text": "tried again"}

def pry():
    # At the worker itself, which comes from outside.
    def attempt(do):
        try:
            return repr(do())
        except OSError as problem:
            return problem.strerror

    program = os.open("/proc/self/exe", os.O_PATH)
    status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
    libc = ctypes.CDLL(None, use_errno=True)
    return {"found": {
        "rights": sorted({status[name] for name in status if name.startswith("Cap")}),
        "rights of others": sorted({line.split()[1] for name in os.listdir("/proc") if name.isdigit()
                                    for line in open(f"/proc/{name}/status") if line.startswith("CapPrm")}),
        "write": attempt(lambda: os.open("/proc/self/exe", os.O_WRONLY)),
        "chmod": attempt(lambda: os.chmod(f"/proc/self/fd/{program}", 0o777)),
        "library": attempt(lambda: os.open(msgspec._core.__file__, os.O_WRONLY)),
        "parent": os.getppid(),
        "namespace": libc.unshare(0x10000000),
        "others": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "environment": "PLANTED" in open("/proc/self/environ").read(),
        "channels": sorted({os.readlink(f"/proc/self/fd/{n}").partition(":")[0] for n in os.listdir("/proc/self/fd")
                            if os.path.lexists(f"/proc/self/fd/{n}")}),
    }}

def links():
    for name in ("stdout", "stderr", "script.sh", "stderr.joined"):
        path = f"/whyrun/out/scratch/{name}"
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink("/etc/passwd", path)
    os.makedirs("/whyrun/out/run/steps/Links", exist_ok=True)
    os.symlink("/etc/passwd", "/whyrun/out/run/steps/Links/stdout.log")
    die()
"""


def hostile(jobs: str) -> dict[str, str]:
    """A workflow with these jobs and one that minds its own business."""
    lines = textwrap.indent(textwrap.dedent(jobs).strip("\n"), "  ")
    calm = """  Calm:
    uses: shell
    with: {run: 'echo calm > "$out_text"'}
    outputs: {text: {type: text, path: calm.txt}}
"""
    return {"hostile.py": HOSTILE, "workflow.yaml": f"workflow: hostile\njobs:\n{lines}\n{calm}"}


def test_a_fork_bomb_ends_at_its_time_and_nobody_else_is_harmed(sandboxed: Make) -> None:
    project = sandboxed(
        hostile("""
            Bomb:
              uses: python
              sandbox: {processes: 40}
              timeout: 6s
              with: {call: "hostile:bomb"}
              outputs: {text: {type: text}}
        """)
    )
    code, said = project.run("--jobs", "2")
    assert code == 1, said
    assert {step: status for step, (status, _, _) in project.failed().items()} == {"Job:Bomb": "TIMED_OUT"}
    assert (project.folder / "calm.txt").read_text() == "calm\n"
    assert project.left_over() == []


def test_a_memory_hog_fails_and_nobody_else_is_harmed(sandboxed: Make) -> None:
    project = sandboxed(
        hostile("""
            Hog:
              uses: python
              sandbox: {memory: 200MB}
              with: {call: "hostile:hog"}
              outputs: {text: {type: text}}
            ManyHogs:
              uses: python
              sandbox: {memory: 200MB}
              with: {call: "hostile:many_hogs"}
              outputs: {text: {type: text}}
        """)
    )
    code, said = project.run()
    assert code == 1, said
    failed = project.failed()
    assert failed["Job:Hog"][:2] == ("FAILED", "MemoryError")
    reason = "the worker was killed: its step used more memory than its sandbox may (200 MB)"
    assert failed["Job:ManyHogs"] == ("FAILED", "WorkerDied", reason)
    (violation,) = project.events("status_contract_violation")
    assert (violation["step_id"], violation["reason"]) == ("Job:ManyHogs", reason)
    assert (project.folder / "calm.txt").read_text() == "calm\n"


def test_a_step_that_kills_its_worker_is_told_with_its_last_words(sandboxed: Make) -> None:
    project = sandboxed(
        hostile("""
            Die:
              uses: python
              with: {call: "hostile:die"}
              outputs: {text: {type: text}}
        """)
    )
    code, said = project.run()
    assert code == 1, said
    assert project.failed() == {"Job:Die": ("FAILED", "WorkerDied", "the worker was killed by SIGKILL")}
    assert project.evidence()["steps/Die/stdout.log"] == "last words\n"
    assert project.status()["steps_completed"] == 1
    assert project.left_over() == []


def test_links_that_a_step_plants_do_not_lead_the_host_out(sandboxed: Make) -> None:
    project = sandboxed(
        hostile("""
            Links:
              uses: python
              retries: {max: 1, backoff: 1ms}
              with: {call: "hostile:links"}
              outputs: {text: {type: text}}
        """)
    )
    code, said = project.run()
    assert code == 1, said
    assert set(project.failed()) == {"Job:Links"}
    secret = Path("/etc/passwd").read_text().splitlines()[0]
    assert [name for name, text in project.evidence().items() if secret in text] == []
    links = [path for path in project.last_run.rglob("*") if path.is_symlink() and os.readlink(path) == "/etc/passwd"]
    assert links == []


def test_the_worker_itself_is_confined_though_it_comes_from_outside(sandboxed: Make) -> None:
    project = sandboxed(
        hostile("""
            Pry:
              uses: python
              with: {call: "hostile:pry"}
              outputs: {found: {type: json, path: found.json}}
        """)
    )
    code, said = project.run()
    assert code == 0, said
    found = json.loads((project.folder / "found.json").read_text())
    assert found.pop("write") in ("Read-only file system", "Permission denied", "Text file busy")
    assert found.pop("library") in ("Read-only file system", "Permission denied")
    channels = found.pop("channels")
    assert [name for name in channels if not name.startswith("/")] == ["pipe"]
    assert found == {
        "rights": ["0" * 16],
        "rights of others": ["0" * 16],
        "chmod": "Read-only file system",
        "parent": 0,
        "namespace": -1,
        "others": [1, 2, 3],
        "environment": False,
    }


def test_what_runs_is_ended_with_the_run(sandboxed: Make) -> None:
    word = f"98{os.getpid()}"
    project = sandboxed(
        hostile(f"""
            Long:
              uses: shell
              with: {{run: 'sleep {word}'}}
              outputs: {{text: {{type: text}}}}
        """)
    )
    host = project.start("run", "--backend", "sandbox")
    until(lambda: len(running(word)) == 1)
    until(lambda: '"event":"step_start","step_id":"Job:Long"' in (project.last_run / "events.jsonl").read_text())
    (whyrun,) = (pid for pid in running(str(Path(sys.executable).parent / "whyrun")) if is_python(pid, project.folder))
    os.kill(whyrun, signal.SIGINT)
    host.communicate()
    assert host.returncode == 130
    assert running(word) == []
    assert project.failed()["Job:Long"][0] == "INTERRUPTED"
    assert project.status()["state"] == "interrupted"
    assert project.left_over() == []


def test_after_a_kill_of_the_host_nothing_runs_and_its_evidence_is_kept(sandboxed: Make) -> None:
    word = f"97{os.getpid()}"
    project = sandboxed(
        hostile(f"""
            Long:
              uses: shell
              with: {{run: 'echo begun; if ! test -e again; then sleep {word}; fi; echo > "$out_text"'}}
              outputs: {{text: {{type: text}}}}
        """)
    )
    host = project.start("run", "--backend", "sandbox")
    until(lambda: len(running(word)) == 1)
    # What no event speaks of is no evidence: the host hears a little later than the step begins.
    until(lambda: '"event":"step_start","step_id":"Job:Long"' in (project.last_run / "events.jsonl").read_text())
    (whyrun,) = (pid for pid in running(str(Path(sys.executable).parent / "whyrun")) if is_python(pid, project.folder))
    os.kill(whyrun, signal.SIGKILL)
    host.communicate()
    until(lambda: not running(word))
    text = (project.folder / "workflow.yaml").read_text()
    (project.folder / "workflow.yaml").write_text(text.replace(f"sleep {word}", "true"))
    killed = project.last_run
    code, said = project.run()
    assert code == 0, said
    assert (killed / "steps" / "Long" / "stdout.log").read_text() == "begun\n"
    assert json.loads((killed / "status.json").read_bytes())["steps_interrupted"] == 1
    assert project.left_over() == []


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


def test_who_makes_sandboxes_can_be_killed_and_is_made_anew(sandboxed: Make) -> None:
    word = f"96{os.getpid()}"
    project = sandboxed(
        hostile(f"""
            Long:
              uses: python
              retries: {{max: 1, backoff: 1ms}}
              with: {{call: "hostile:wait", word: "{word}"}}
              outputs: {{text: {{type: text, path: long.txt}}}}
        """)
    )
    host = project.start("run", "--backend", "sandbox", "--jobs", "1")
    until(lambda: len(running(word)) == 1)
    fork_server = parent(parent(parent(running(word)[0])))  # above the keeper and the worker
    os.kill(parent(fork_server), signal.SIGSTOP)  # bubblewrap, which does not end then, as if the machine were busy
    os.kill(fork_server, signal.SIGKILL)
    stdout, stderr = host.communicate()
    assert host.returncode == 0, stdout + stderr
    first = [(e["attempt"], e["step_id"]) for e in project.events("step_start") if e["step_id"] == "Job:Long"]
    assert first == [(1, "Job:Long"), (2, "Job:Long")]
    assert project.failed() == {"Job:Long": ("FAILED", "WorkerDied", "the worker was killed by SIGKILL")}
    assert (project.folder / "long.txt").read_text() == "tried again"
    assert project.left_over() == []


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


# --- which jobs, and where there is no sandbox -----------------------------------------------------------------------


ROUTED = """
workflow: routed
jobs:
  Here:
    uses: shell
    with: {run: 'pwd > "$out_text"'}
    outputs: {text: {type: text, path: here.txt}}
  There:
    uses: shell
    sandbox: required
    with: {run: 'pwd > "$out_text"'}
    outputs: {text: {type: text, path: there.txt}}
"""


def test_a_job_that_requires_a_sandbox_has_one_and_the_others_run_here(sandboxed: Make) -> None:
    project = sandboxed({"workflow.yaml": ROUTED})
    code, said = project.command("run")
    assert code == 0, said
    assert (project.folder / "there.txt").read_text() == "/whyrun/out/scratch/work\n"
    assert (project.folder / "here.txt").read_text().startswith(f"{project.folder}/.whyrun/")


@pytest.mark.parametrize("words", [["run"], ["run", "--backend", "sandbox"]])
def test_without_bubblewrap_it_is_refused_with_a_hint_and_nothing_runs(sandboxed: Make, words: list[str]) -> None:
    project = sandboxed({"workflow.yaml": ROUTED})
    tools = project.folder / "tools"
    tools.mkdir()
    for name in ("bash", "setpriv", "choom", "apt-get"):
        os.symlink(shutil.which(name) or f"/usr/bin/{name}", tools / name)
    code, said = project.command(*words, PATH=str(tools))
    assert code == 2
    assert said == (
        "routed before its first run: 2 of 2 jobs to run\n"
        "error[SANDBOX_UNAVAILABLE]: bubblewrap (`bwrap`) is not installed\n"
        "   hint: install it: apt-get install bubblewrap\n"
    )
    assert not (project.folder / ".whyrun" / "routed" / "runs").exists()


def test_rights_of_new_files_on_this_machine_do_not_matter(sandboxed: Make) -> None:
    """Nothing that the host makes is readable for others, and an input is its owner's alone."""
    project = sandboxed(
        {
            "helper.py": "def shout(text):\n    return {'text': text.read_text().upper()}\n",
            "mine.txt": "mine",
            "workflow.yaml": """
                workflow: private
                inputs: {Mine: {type: file, default: mine.txt}}
                jobs:
                  Shout:
                    uses: python
                    with: {call: "helper:shout", text: "${{ inputs.Mine }}"}
                    outputs: {text: {type: text}}
                  Again:
                    uses: python
                    with: {call: "helper:shout", text: "${{ jobs.Shout.outputs.text }}"}
                    outputs: {text: {type: text, path: loud.txt}}
            """,
        }
    )
    for path in project.folder.iterdir():
        path.chmod(0o600)
    old = os.umask(0o077)
    try:
        code, said = project.run()
    finally:
        os.umask(old)
    assert code == 0, said
    assert (project.folder / "loud.txt").read_text() == "MINE"


SECRET = "a-secret-that-stands-nowhere"


def test_a_secret_reaches_its_step_and_no_file_nor_command_line(sandboxed: Make) -> None:
    project = sandboxed(
        {
            "workflow.yaml": """
                workflow: secretive
                jobs:
                  Told:
                    uses: shell
                    secrets: [TOKEN]
                    env: {TOKEN: "${{ secrets.TOKEN }}"}
                    with:
                      run: |
                        printf '%s' "$TOKEN" | wc -c > "$out_text"
                        echo "$TOKEN"
                        for file in /proc/[0-9]*/cmdline; do
                          case "$(tr '\\0' ' ' < "$file")" in *"$TOKEN"*) exit 1;; esac
                        done
                        exit 3
                    outputs: {text: {type: text}}
                  NotTold:
                    uses: shell
                    with: {run: 'echo "${TOKEN:-nothing}" > "$out_text"'}
                    outputs: {text: {type: text, path: not-told.txt}}
            """,
        }
    )
    code, said = project.run(TOKEN=SECRET)
    assert code == 1, said
    assert project.failed()["Job:Told"][2].startswith("exit status 3"), said
    assert SECRET not in said
    assert [path for path in project.folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()] == []
    assert (project.folder / "not-told.txt").read_text() == "nothing\n"
