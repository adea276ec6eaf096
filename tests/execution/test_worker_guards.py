"""A step cannot harm other steps through its worker, files or messages, and no secret leaks."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_lab import BACKENDS, Lab

from whyrun.artifacts.hashing import bytes_sha256
from whyrun.execution.protocol.messages import MetricReported, StepBegan, StepFinished, StepLost, TaskReported
from whyrun.execution.worker.failure import StepError
from whyrun.execution.worker.materialize import InputGuard

SECRET = "s3cr3t-v4lue"
TOKEN: dict[str, Any] = {"secrets": ["TOKEN"], "with_": {"token": {"$secret": "TOKEN"}}}
BITS = "a remembered value cannot be kept: it holds a whole number of more than 63 bits (give it as a text)"


@pytest.fixture(params=BACKENDS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path, backend=request.param)
    yield made
    made.backend.close()


def finished(lab: Lab, step_id: str) -> StepFinished:
    word = lab.end_of(step_id)
    assert isinstance(word, StepFinished), word
    return word


def places_of(text: str, lab: Lab) -> list[str]:
    """Every file or folder of the project whose name or content has this text; the code of the step itself aside."""
    return [
        str(path.relative_to(lab.project))
        for path in lab.project.rglob("*")
        if text in path.name or (path.is_file() and path.name != "m.py" and text.encode() in path.read_bytes())
    ]


# --- files of one step and the next ------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", ["json", "string", "file", "directory"])
@pytest.mark.parametrize("more", [{"env": {"X": "1"}}, {}])
def test_a_step_never_has_the_output_of_the_step_before_it(lab: Lab, type_: str, more: dict[str, Any]) -> None:
    write = 'mkdir "$out_o"; echo 1 > "$out_o/x"' if type_ == "directory" else """echo '{"by": "A"}' > "$out_o" """
    first = lab.one(lab.command("shell", {"run": write}, {"o": type_}, step_id="Job:A", **more))
    assert first.error_type is None, first.error
    following: dict[str, dict[str, Any]] = {"Job:B": {"env": {"X": "1"}}, "Job:C": {}}
    for step_id, own in following.items():
        kind, message = lab.failure(lab.command("shell", {"run": "true"}, {"o": type_}, step_id=step_id, **own))
        assert (kind, message) == ("MissingOutput", 'the step ended without its declared `o`: write it to "$out_o"')


def test_what_a_step_wrote_past_its_context_is_no_output_of_the_next(lab: Lab) -> None:
    lab.file("m.py", "def f():\n    open('../out/o', 'w').write('1')\n    open('../inputs/x', 'w').write('1')\n")
    lab.one(lab.call("m:f", step_id="Job:A"))
    look = {"run": "ls ../inputs; test -e ../out/o"}
    assert lab.failure(lab.command("shell", look, {"o": "integer"}, step_id="Job:B")) == (
        "CommandFailed",
        "exit status 1",
    )
    assert lab.evidence() == {"B/script.sh": look["run"]}


@pytest.mark.parametrize("folder", ["work", "out", "inputs", "tmp", "home"])
@pytest.mark.parametrize("more", [{}, {"env": {"X": "1"}}])
def test_a_step_that_takes_its_folders_away_harms_neither_the_next_step_nor_what_a_link_leads_to(
    lab: Lab, tmp_path: Path, folder: str, more: dict[str, Any]
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    take_away = f'cd ..; rm -r {folder}; ln -s "$elsewhere" {folder}'
    lab.one(lab.command("shell", {"run": take_away, "elsewhere": str(precious)}, step_id="Job:A", **more))
    lab.one(lab.command("shell", {"run": f"cd ..; rm -r {folder}"}, step_id="Job:B", **more))
    look = 'echo *; ls ../out ../inputs "$TMPDIR" "$HOME" | tr -d ":"; pwd | xargs basename; echo 1 > "$out_o"'
    word = lab.one(lab.command("shell", {"run": look}, {"o": "integer"}, step_id="Job:C", **more))
    assert word.error_type is None, word.error
    names = lab.evidence()["C/stdout.log"].split()
    assert [name.rpartition("/")[2] for name in names] == ["*", "inputs", "out", "home", "tmp", "work"]
    assert (precious / "file").read_text() == "kept"


def test_what_a_link_leads_to_is_neither_kept_nor_searched_for_secrets(lab: Lab, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text(SECRET)
    run = 'echo half > half; cd ..; rm -r out tmp; ln -s "$elsewhere" out; exit 3'
    with_ = {"run": run, "elsewhere": str(precious), "token": {"$secret": "TOKEN"}}
    assert lab.failure(lab.command("shell", with_, secrets=["TOKEN"]), {"TOKEN": SECRET}) == (
        "CommandFailed",
        "exit status 3",
    )
    assert lab.evidence() == {"S/script.sh": run, "S/scratch/work/half": "half\n"}
    assert (precious / "file").read_text() == SECRET


@pytest.mark.parametrize("more", [{}, {"env": {"X": "1"}}])
def test_a_process_that_a_script_leaves_behind_cannot_write_into_a_stored_output(
    lab: Lab, more: dict[str, Any]
) -> None:
    # Long, so that the writing goes on while it is hashed.
    run = 'exec 9> "$out_o"; head -c 50000000 /dev/zero >&9; (while :; do echo bad >&9; done) & disown'
    word = lab.one(lab.command("shell", {"run": run}, {"o": "file"}, **more))
    assert word.error_type is None, word.error
    (output,) = word.outputs
    before = lab.store.read(output.sha256)
    time.sleep(0.3)
    assert lab.store.read(output.sha256) == before  # checks the hash


@pytest.mark.parametrize(
    "keep",
    [
        "f = subprocess.Popen(['bash', '-c', 'while sleep 0.01; do echo bad; done'], stdout=open(path, 'a'))",
        "f = open(path, 'a'); f.write('bad')",
        "f = subprocess.Popen([sys.executable, MAPS, path], stdout=subprocess.PIPE); f.stdout.readline()",
    ],
)
def test_a_file_that_is_still_open_for_writing_is_copied_so_nothing_reaches_the_stored_bytes(
    lab: Lab, keep: str
) -> None:
    maps = lab.file(
        "maps.py",
        "import mmap, os, sys, time\nm = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 5)\nprint(flush=True)\n"
        "time.sleep(0.2); m.write(b'bad'); time.sleep(600)\n",
    )
    lab.file(
        "m.py",
        f"import subprocess, sys\nf = None\nMAPS = {str(maps)!r}\n"
        "def make(context):\n    global f\n    path = context.output('o')\n    path.write_text('good\\n')\n"
        f"    {keep}\n"
        "def end():\n    import time\n    time.sleep(0.4)\n    getattr(f, 'kill', getattr(f, 'close', None))()\n",
    )
    word = lab.one(lab.call("m:make", {"o": "file"}, step_id="Job:A[0]", shared=True))
    assert word.error_type is None, word.error
    assert lab.one(lab.call("m:end", step_id="Job:A[1]", shared=True)).error_type is None
    assert lab.bytes_of(word, "o").startswith(b"good\n")  # checks the hash


def test_outputs_that_nobody_holds_are_moved_not_copied(lab: Lab) -> None:
    lab.file(
        "m.py",
        "def f(context):\n    path = context.output('o')\n    path.write_text('moved')\n"
        "    return {'inode': path.stat().st_ino}\n",
    )
    word = lab.one(lab.call("m:f", {"o": "file", "inode": "integer"}))
    found = {output.key: output for output in word.outputs}
    moved = Path(lab.store.path(found["o"].sha256)).stat().st_ino == found["inode"].value
    assert moved == (lab.backend_name == "local")  # from elsewhere it must be brought


@pytest.mark.parametrize("more", [{}, {"env": {"X": "1"}}])
@pytest.mark.parametrize("end", ["return {'n': 2}", "raise ValueError('child')", "os._exit(0)"])
def test_a_fork_that_comes_back_from_the_action_does_not_become_a_second_worker(
    lab: Lab, end: str, more: dict[str, Any]
) -> None:
    lab.file(
        "m.py",
        f"import os, time\ndef f():\n    if os.fork() == 0:\n        {end}\n"
        "    time.sleep(0.3)\n    return {'n': 1}\n"
        "def g(n):\n    return {'n': n}\n",
    )
    commands = [lab.call("m:g", {"n": "integer"}, with_={"n": i}, step_id=f"Job:G[{i}]") for i in range(20)]
    words = lab.run(lab.call("m:f", {"n": "integer"}, **more), *commands)
    assert [word.outputs[0].value for word in words if isinstance(word, StepFinished)] == [1, *range(20)]


# --- special files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secrets", [None, {"TOKEN": SECRET}])
@pytest.mark.parametrize("type_", ["file", "text", "json", "integer", "dataset"])
def test_a_pipe_is_no_output(lab: Lab, type_: str, secrets: dict[str, str] | None) -> None:
    command = lab.command("shell", {"run": 'mkfifo "$out_o"'}, {"o": type_})
    assert lab.failure(command, secrets) == (
        "WrongOutputType",
        f"`o` is declared as {type_}, but a named pipe was written; only files and folders have content",
    )


@pytest.mark.parametrize(
    ("run", "what"),
    [
        ('ln -s /dev/zero "$out_o"', "a device"),
        ("cd ../out; python3 -c 'import socket; socket.socket(1).bind(\"o\")'", "a socket"),
    ],
)
def test_sockets_and_devices_are_no_outputs(lab: Lab, run: str, what: str) -> None:
    kind, message = lab.failure(lab.command("shell", {"run": run}, {"o": "file"}))
    assert (kind, message) == (
        "WrongOutputType",
        f"`o` is declared as file, but {what} was written; only files and folders have content",
    )


@pytest.mark.parametrize("secrets", [None, {"TOKEN": SECRET}])
def test_a_folder_with_a_pipe_in_it_is_no_output(lab: Lab, secrets: dict[str, str] | None) -> None:
    command = lab.command("shell", {"run": 'mkdir -p "$out_o/in"; mkfifo "$out_o/in/p"'}, {"o": "directory"})
    kind, message = lab.failure(command, secrets)
    assert (kind, message) == ("WrongOutputType", "`o`: `scratch/out/o/in/p` is neither a file nor a folder")


def test_a_link_that_leads_nowhere_is_no_output(lab: Lab) -> None:
    assert lab.failure(lab.command("shell", {"run": 'ln -s nowhere "$out_o"'}, {"o": "file"})) == (
        "WrongOutputType",
        "`o` is declared as file, but a dangling symlink was written",
    )


# --- messages ----------------------------------------------------------------------------------------------------


def test_a_thread_of_a_step_that_has_ended_ends_with_its_process_and_is_not_heard(lab: Lab, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    lab.file(
        "m.py",
        "import threading, time\n"
        "def f(context, logger):\n"
        "    def late():\n"
        "        for i in range(60):\n"
        "            context.task('EXECUTES', 'late'); context.metric('late', 1); context.progress(2, 1)\n"
        "            logger.log_task('a', 'EXECUTES', 'late'); time.sleep(0.01)\n"
        f"        open({str(mark)!r}, 'w').close()\n"
        "    threading.Thread(target=late).start()\n"
        "def g(n):\n    time.sleep(0.02)\n    return {'n': n}\n",
    )
    commands = [lab.call("m:g", {"n": "integer"}, with_={"n": i}, step_id=f"Job:G[{i}]") for i in range(60)]
    words = lab.run(lab.call("m:f", step_id="Job:F"), *commands)
    assert [word.outputs[0].value for word in words[1:] if isinstance(word, StepFinished)] == list(range(60))
    assert {m.step_id for m in lab.heard if isinstance(m, TaskReported)} <= {"Job:F"}
    assert not mark.exists()


def test_the_context_of_a_step_that_has_ended_is_not_heard(lab: Lab) -> None:
    lab.file(
        "m.py",
        "kept = []\n"
        "def f(context, logger):\n    kept.extend((context, logger))\n"
        "def g():\n"
        "    context, logger = kept\n"
        "    context.task('EXECUTES', 'late'); context.metric('late', 1); context.progress(2, 1)\n"
        "    logger.log_task('a', 'EXECUTES', 'late')\n"
        "    try:\n        context.remember('late', 1)\n"
        "    except RuntimeError as refused:\n        return {'said': str(refused)}\n",
    )
    lab.one(lab.call("m:f", step_id="Job:F[0]", shared=True))
    word = lab.one(lab.call("m:g", {"said": "string"}, step_id="Job:F[1]", shared=True))
    assert word.outputs[0].value == "the step has ended: nothing more can be remembered"
    assert [m for m in lab.heard if isinstance(m, TaskReported | MetricReported)] == []


def test_a_process_that_speaks_for_a_step_that_has_ended_harms_no_other(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import os, time\n"
        "def f(context):\n    if os.fork() == 0:\n        for i in range(50):\n            time.sleep(0.01)\n"
        "            context.task('EXECUTES', 'late')\n        os._exit(0)\n"
        "def g(n):\n    time.sleep(0.02)\n    return {'n': n}\n",
    )
    commands = [lab.call("m:g", {"n": "integer"}, with_={"n": i}, step_id=f"Job:G[{i}]") for i in range(40)]
    words = lab.run(lab.call("m:f", step_id="Job:F"), *commands)
    assert [type(word) for word in words] == [StepFinished] * 41


@pytest.mark.parametrize("more", [{}, {"env": {"X": "1"}}])
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("metric('m', float('nan'))", "the metric 'm' is nan: only finite numbers can be recorded"),
        ("metric('m', float('inf'))", "the metric 'm' is inf: only finite numbers can be recorded"),
        ("metric('m' * 257, 1)", "the name of a metric may have at most 256 characters, this has 257"),
        ("metric('m', 1, 'u' * 257)", "the unit of a metric may have at most 256 characters, this has 257"),
        ("task('SKIPS', 'x', 'd' * 70000)", "the details of a task may have at most 64000 bytes, this has 70002"),
        ("task('SKIPS', 'x', b'd')", "the details of a task must be JSON, this has a bytes"),
        ("task('SKIPS', 'x', {'a': object()})", "the details of a task must be JSON, this has a object"),
        ("remember(5, 1)", "the key of a remembered value is a string, not 5"),
        ("remember('k' * 257, 1)", "the key of a remembered value may have at most 256 characters, this has 257"),
        ("remember('\\ud800', 1)", "the key of a remembered value cannot be written as UTF-8: '\\ud800'"),
        ("remember('k', '\\ud800')", "a remembered value cannot be written as UTF-8: '\\ud800'"),
        ("remember('k', {1: 2})", "a remembered value must be JSON, this has the key 1"),
        ("remember('k', float('nan'))", "a remembered value must be JSON, this has nan"),
        ("remember('k', {'a': [{1, 2}]})", "a remembered value must be JSON, this has a set"),
        ("remember('k', b'x')", "a remembered value must be JSON, this has a bytes"),
        ("remember('k', 'x' * 70000)", "a remembered value may have at most 64000 bytes, this has 70002"),
        (
            "remember('k', (x := [], x.append(x))[0])",
            "a remembered value cannot be kept: it nests deeper than 64 levels",
        ),
        ("remember('k', 2**63)", BITS),
        ("remember('k', {'a': [-(2**63)]})", BITS),
    ],
)
def test_what_cannot_be_said_fails_the_step_that_says_it_and_no_other(
    lab: Lab, call: str, message: str, more: dict[str, Any]
) -> None:
    lab.file(
        "m.py",
        f"def f(context):\n    context.metric('before', 1)\n    context.{call}\ndef g(n):\n    return {{'n': n}}\n",
    )
    words = lab.run(
        lab.call("m:g", {"n": "integer"}, with_={"n": 1}, step_id="Job:G"),
        lab.call("m:f", step_id="Job:F", **more),
        lab.call("m:g", {"n": "integer"}, with_={"n": 2}, step_id="Job:H"),
    )
    assert all(isinstance(word, StepFinished) for word in words), words
    assert [word.error_type for word in words if isinstance(word, StepFinished)] == [None, "ValueError", None]
    assert isinstance(words[1], StepFinished)
    assert words[1].error == message
    assert [m.metric for m in lab.heard if isinstance(m, MetricReported)] == ["before"]


@pytest.mark.parametrize("more", [{}, {"env": {"X": "1"}}])
def test_a_task_of_a_status_that_there_is_not_costs_nothing_but_the_task(lab: Lab, more: dict[str, Any]) -> None:
    lab.file(
        "m.py",
        "def f(context, logger):\n    for i in range(3):\n        context.task('PROGRESS', 'x', 'd' * 70000)\n"
        "        logger.log_task('a', 'WORKING', 'y')\n    context.task('SKIPS', 'z')\n    return {'n': 1}\n",
    )
    assert lab.one(lab.call("m:f", {"n": "integer"}, **more)).error_type is None
    assert [(m.status, m.message) for m in lab.heard if isinstance(m, TaskReported)] == [("SKIPS", "z")]
    known = (
        "EXECUTES, WOULD_EXECUTE, SKIPS, WOULD_SKIP, IDENTICAL, DIFFERENT, INVALID_USES, INVALID_PARAMETER, FAILED, "
        "TIMED_OUT"
    )
    assert lab.evidence()["S/stderr.log"].splitlines() == [
        f"whyrun: a task was not recorded: '{status}' is not a task status; the statuses are {known}"
        for status in ("PROGRESS", "WORKING")
    ]


def test_details_may_hold_what_has_a_plain_form_and_long_messages_are_cut(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import dataclasses, datetime, pathlib\n@dataclasses.dataclass\nclass D:\n    x: int\n"
        "def f(context):\n"
        "    context.task('SKIPS', 'm' * 5000, {1: pathlib.Path('p'), 'd': D(1), 's': {3},\n"
        "                                   'n': float('nan'), 't': (1, 2)})\n"
        "    context.progress(float('nan'), 3)\n",
    )
    assert lab.one(lab.call("m:f")).error_type is None
    (first,) = [m for m in lab.heard if isinstance(m, TaskReported)]
    assert first.message == "m" * 4000 + " … (1000 characters left out)"
    assert first.details == {"1": "p", "d": {"x": 1}, "s": [3], "n": "nan", "t": [1, 2]}
    assert [m for m in lab.heard if isinstance(m, MetricReported)] == []  # a progress that is no number is not told


def test_a_line_that_is_no_message_fails_the_step_that_runs_and_what_came_before_counts(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import glob, os, time\n"
        "def f(context):\n    context.task('EXECUTES', 'good')\n"
        '    context._link.outbox.write(b\'{"msg":"metric","step_id":"Job:F","value":null}\\n\')\n    time.sleep(60)\n'
        "def g(n):\n    return {'n': n}\n",
    )
    commands = [lab.call("m:g", {"n": "integer"}, with_={"n": i}, step_id=f"Job:G[{i}]") for i in range(10)]
    words = lab.run(*commands[:5], lab.call("m:f", step_id="Job:F"), *commands[5:])
    lost = words[5]
    assert isinstance(lost, StepLost)
    assert lost.reason.startswith("the worker was ended: it sent an invalid message: ")
    values = [word.outputs[0].value for word in words if isinstance(word, StepFinished)]
    assert values == list(range(10))
    assert [m.message for m in lab.heard if isinstance(m, TaskReported)] == ["good"]
    assert [m.step_id for m in lab.heard if isinstance(m, StepBegan)].count("Job:F") == 1


def test_several_threads_may_remember_at_once(lab: Lab) -> None:
    lab.file(
        "m.py",
        "from concurrent.futures import ThreadPoolExecutor\ndef f(context):\n"
        "    with ThreadPoolExecutor(4) as pool:\n"
        "        list(pool.map(lambda i: context.remember(f'k{i}', i), range(4)))\n"
        "    return {'o': [context.recall(f'k{i}') for i in range(4)]}\n",
    )
    for more in ({}, {"env": {"X": "1"}}):
        lab.backend.submit(lab.call("m:f", {"o": "json"}, **more))
        keys = [lab.remembered().key for _ in range(4)]
        for key in reversed(keys):
            lab.backend.acknowledge("Job:S", key)
        assert json.loads(lab.bytes_of(finished(lab, "Job:S"), "o")) == [0, 1, 2, 3]


# --- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"env": {"X": "1"}}])
def test_lesson_28_text_that_is_not_unicode_does_not_hide_the_error(lab: Lab, more: dict[str, Any]) -> None:
    lab.file(
        "m.py",
        "def f(context):\n    context.task('FAILED', 'a\\udcff', {'k\\ud800': 'v\\ud800'})\n"
        "    context.metric('m\\ud800', 1)\n"
        "    raise ValueError('lone \\ud800')\n"
        "def g():\n    open(b'no-\\xff'.decode('utf-8', 'surrogateescape'))\n",
    )
    word = lab.one(lab.call("m:f", **more))
    assert (word.error_type, word.error) == ("ValueError", "lone \\ud800")
    assert word.traceback.endswith("ValueError: lone \\ud800\n")
    (task,) = [m for m in lab.heard if isinstance(m, TaskReported)]
    assert (task.status, task.message, task.details) == ("FAILED", "a\\udcff", {"k\\ud800": "v\\ud800"})
    assert [m.metric for m in lab.heard if isinstance(m, MetricReported)] == ["m\\ud800"]
    word = lab.one(lab.call("m:g", **more))
    assert (word.error_type, word.error) == ("FileNotFoundError", "[Errno 2] No such file or directory: 'no-\\udcff'")


def test_a_step_in_a_process_of_its_own_ends_although_a_grandchild_lives_on(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import os, time\ndef f():\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(120)\n"
        "        os._exit(0)\n    return {'n': 1}\n"
        "def crash():\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(120)\n    os._exit(3)\n",
    )
    word = lab.one(lab.call("m:f", {"n": "integer"}, env={"X": "1"}))
    assert word.outputs[0].value == 1
    (lost,) = lab.run(lab.call("m:crash", env={"X": "1"}))
    assert isinstance(lost, StepLost)
    assert lost.reason == "the worker exited with status 3 while the step ran"


# --- secrets -----------------------------------------------------------------------------------------------------


def test_no_field_of_a_message_carries_a_secret(lab: Lab) -> None:
    lab.file(
        "m.py",
        "class Text(str):\n    pass\n"
        "def f(token, context, logger):\n"
        "    context.task('SKIPS', 'm', {Text(token): [Text(token)]})\n"
        "    logger.log_task(token, 'SKIPS', token, inputs=token, outputs=[token], job_info=token)\n"
        "    context.metric('m ' + token, 1, 'u ' + token)\n"
        "    raise type('Error_' + token, (Exception,), {})(repr(token))\n"
        "def key(token, context):\n    context.remember('k ' + token, 1)\n"
        "def value(token, context):\n    context.remember('k', {token: 1})\n",
    )
    values = {"TOKEN": SECRET}
    word = lab.one(lab.call("m:f", **TOKEN), values)
    assert (word.error_type, word.error) == ("Error_***", "'***'")
    heard = [m for m in lab.heard if isinstance(m, (TaskReported, MetricReported))]
    assert [(m.status, m.message, m.details) for m in heard if isinstance(m, TaskReported)] == [
        ("SKIPS", "m", {"***": ["***"]}),
        ("SKIPS", "***", {"action": "***", "inputs": ["***"], "outputs": ["***"], "job_info": "***"}),
    ]
    assert [(m.metric, m.unit) for m in heard if isinstance(m, MetricReported)] == [("m ***", "u ***")]
    assert lab.failure(lab.call("m:key", **TOKEN), values) == (
        "ValueError",
        "the key of a remembered value contains a secret",
    )
    assert lab.failure(lab.call("m:value", **TOKEN), values) == (
        "ValueError",
        "the value remembered as 'k' contains a secret",
    )
    assert SECRET not in word.traceback
    assert SECRET not in str(lab.heard)
    assert places_of(SECRET, lab) == []


def test_names_of_files_are_searched_for_secrets_too(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import os, sys\ndef f(token):\n    os.mkdir('d-' + token); open(f'd-{token}/x', 'w').write('x')\n"
        "    open('f-' + token, 'w').write('x'); os.mkdir('plain'); open('plain/x', 'w').write('kept')\n"
        "    os.makedirs('a'); open('a/' + token[:3], 'w').close(); os.mkdir('e'); os.mkdir('e/' + token)\n"
        "    raise ValueError\n"
        "def out(token, context):\n    path = context.output('o')\n"
        "    os.mkdir(path); open(path / ('f' + token), 'w').close()\n"
        "def empty(token, context):\n    path = context.output('o')\n    os.makedirs(path / token)\n",
    )
    values = {"TOKEN": SECRET}
    lab.one(lab.call("m:f", step_id="Job:F", **TOKEN), values)
    assert lab.evidence() == {"F/scratch/work/a/s3c": "", "F/scratch/work/plain/x": "kept"}
    for function in ("m:out", "m:empty"):
        assert lab.failure(lab.call(function, {"o": "directory"}, **TOKEN), values) == (
            "SecretInOutput",
            "`o` contains a secret that the step was given; it is not kept",
        )
    assert places_of(SECRET, lab) == []


def test_a_secret_that_spans_two_names_is_found(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import os\ndef f(token, context, fail):\n    path = context.output('o') / os.path.dirname(token)\n"
        "    os.makedirs(path); open(path / os.path.basename(token), 'w').close()\n    assert not fail\n",
    )
    values = {"TOKEN": "abcd/efgh"}
    more = {"secrets": ["TOKEN"], "with_": {"token": {"$secret": "TOKEN"}, "fail": False}}
    assert lab.failure(lab.call("m:f", {"o": "directory"}, **more), values)[0] == "SecretInOutput"
    assert [path for path in lab.project.rglob("*") if "abcd/efgh" in str(path)] == []


@pytest.mark.parametrize("value", ["a", "abc", "ab\n\n"])
def test_a_secret_too_short_to_be_kept_out_of_logs_is_refused(lab: Lab, value: str) -> None:
    lab.file("m.py", "def f(token):\n    print(token)\n")
    assert lab.failure(lab.call("m:f", **TOKEN), {"TOKEN": value}) == (
        "SecretTooShort",
        "the secret `TOKEN` has fewer than 4 characters: so short a text cannot be kept out of logs and outputs; "
        "use a longer one",
    )
    assert lab.evidence() == {}


def test_an_empty_secret_hides_nothing(lab: Lab) -> None:
    lab.file("m.py", "def f(token):\n    print('words')\n    return {'n': len(token)}\n")
    assert lab.one(lab.call("m:f", {"n": "integer"}, **TOKEN), {"TOKEN": ""}).outputs[0].value == 0
    assert lab.evidence() == {"S/stdout.log": "words\n"}


def test_other_spellings_of_a_secret_are_redacted_too(lab: Lab) -> None:
    secret = 'it\'s "a" sécret/\n'
    lab.file(
        "m.py",
        "import json, urllib.parse\ndef f(token):\n"
        "    print(repr(token)); print(ascii(token)); print(json.dumps(token)); print(token.strip(), 'x')\n"
        "    print(urllib.parse.quote(token)); print(urllib.parse.quote_plus(token))\n"
        "    print(urllib.parse.quote(token, ''))\n",
    )
    lab.one(lab.call("m:f", **TOKEN), {"TOKEN": secret})
    assert lab.evidence()["S/stdout.log"].split() == ["'***'", "'***'", '"***"', "***", "x", "***", "***", "***"]


def test_the_end_of_a_log_never_begins_in_the_middle_of_a_secret(lab: Lab) -> None:
    secret = "0123456789" * 500
    run = 'printf "%s\\n" "$token" >&2; printf "last" >&2; exit 3'
    more: dict[str, Any] = {"secrets": ["TOKEN"]}
    error = lab.failure(lab.command("shell", {"run": run, "token": {"$secret": "TOKEN"}}, **more), {"TOKEN": secret})
    assert error == ("CommandFailed", "exit status 3: last\n***")
    lab.file("m.py", "import os, sys\ndef f(token):\n    print(token, file=sys.stderr)\n    os._exit(3)\n")
    (lost,) = lab.run(lab.call("m:f", **TOKEN), secrets={"TOKEN": secret})
    assert isinstance(lost, StepLost)
    assert lost.last_stderr == "***\n"


@pytest.mark.parametrize("wide", [False, True])
def test_long_secrets_arrive_whole(lab: Lab, wide: bool) -> None:
    lab.file(
        "m.py",
        "import hashlib\ndef f(a, b, xs):\n"
        "    return {'o': [hashlib.sha256(x.encode()).hexdigest() for x in (a, b)] + [len(xs)]}\n",
    )
    values = {"A": "a1-" * 30_000, "B": "bö-" * 30_000}
    members = [lab.artifact(str(i).encode(), "integer", id=f"Artifact:A.X[{i}]") for i in range(1500 if wide else 1)]
    with_ = {"a": {"$secret": "A"}, "b": {"$secret": "B"}, "xs": {"$input": "xs"}}
    commands = [
        lab.call("m:f", {"o": "json"}, with_=with_, secrets=["A", "B"], inputs={"xs": members}, step_id=f"Job:L[{i}]")
        for i in range(3)
    ]
    expected = [hashlib.sha256(value.encode()).hexdigest() for value in values.values()]
    for word in lab.run(*commands, secrets=values):
        assert isinstance(word, StepFinished), word
        assert word.error_type is None, word.error
        assert json.loads(lab.bytes_of(word, "o")) == [*expected, len(members)]


def test_a_secret_that_is_not_unicode_reaches_the_step(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import os\ndef f():\n    print('x'); os.write(1, os.environb[b'T'])\n"
        "    return {'n': len(os.environb[b'T'])}\n",
    )
    value = b"word-\xff\xfe".decode("utf-8", "surrogateescape")
    more: dict[str, Any] = {"secrets": ["TOKEN"], "env": {"T": {"$secret": "TOKEN"}}}
    assert lab.one(lab.call("m:f", {"n": "integer"}, **more), {"TOKEN": value}).outputs[0].value == 7
    assert lab.evidence() == {"S/stdout.log": "x\n***"}


def test_a_blob_that_was_changed_and_given_its_old_time_is_noticed(tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    blob.write_bytes(b"right")
    before = blob.stat()
    guard = InputGuard(tmp_path)
    guard.blob("Artifact:A.T", str(blob), bytes_sha256(b"right"))
    while blob.stat().st_ctime_ns == before.st_ctime_ns:  # until the clock of the file system has moved on
        blob.write_bytes(b"wrong")
        os.utime(blob, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (blob.stat().st_ino, blob.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    with pytest.raises(StepError, match=r"has other bytes; such bytes are removed") as refused:
        guard.blob("Artifact:A.T", str(blob), bytes_sha256(b"right"))
    assert refused.value.kind == "StoreDamaged"  # which is what the host removes it for
