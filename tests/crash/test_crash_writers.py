"""What `whyrun.execution` writes past `whyrun.disk`, module by module: none of it is state.

No kill, failure or power cut of these tests comes to what is written past it. Of the other packages, and of
`execution/recorder.py` and `execution/publisher.py`, tests/architecture/test_architecture_disk.py holds that there is
nothing at all.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from source_tree import modules, shown, tree_of
from test_architecture_disk import direct_calls

SCRATCH = "in a worker's own scratch folder, which the next run takes away"
SITE = "at a site: a folder for one worker below the scratch folder, or on another machine"
WORDS = "into pipes between processes"
PROGRAM = "a program that is asked or waited for, and not a worker of the local backend"
# module → (what it does by itself and how often, why that is no state)
ALLOWED: dict[str, tuple[dict[str, int], str]] = {
    "backends/dask/backend.py": ({".mkdir": 1}, SCRATCH),
    "backends/dask/boot.py": ({"os.makedirs": 1, "shutil.rmtree": 1}, SITE),
    "backends/dask/cluster.py": ({"shutil.rmtree": 1}, SCRATCH),
    "backends/dask/payload.py": (
        {".mkdir": 3, ".write_bytes": 2, "open to write": 1, "os.replace": 1, "os.symlink": 1, "shutil.rmtree": 1,
         "tempfile.TemporaryDirectory": 1},
        f"{SCRATCH}; {SITE}",
    ),
    "backends/dask/site.py": (
        {".mkdir": 2, ".unlink": 1, ".write_bytes": 1, "os.replace": 2, "os.write": 1}, SITE
    ),
    "backends/dask/slurm.py": ({".mkdir": 1, "shutil.rmtree": 1, "shutil.which": 1, "subprocess.run": 1}, SCRATCH),
    "backends/e2b/calls.py": (
        {".mkdir": 4, "open to write": 3, "os.symlink": 1, "shutil.copyfileobj": 1, "tempfile.TemporaryDirectory": 2},
        SCRATCH,
    ),
    "backends/local/backend.py": ({".mkdir": 1}, SCRATCH),
    "backends/local/worker_process.py": ({".write_bytes": 1, "open to write": 2, "os.write": 3}, f"{SCRATCH}; {WORDS}"),
    "backends/remote/process.py": (
        {".mkdir": 2, ".unlink": 1, ".write_bytes": 1, "open to write": 1, "os.symlink": 1, "shutil.copyfile": 1,
         "shutil.copytree": 1, "shutil.rmtree": 1, "subprocess.Popen": 1},
        SITE,
    ),
    "backends/remote/remote_worker.py": ({"shutil.rmtree": 1, "tempfile.TemporaryDirectory": 1}, SCRATCH),
    "backends/sandbox/backend.py": (
        {".mkdir": 1, ".unlink": 1, "shutil.disk_usage": 1, "shutil.rmtree": 1, "shutil.which": 2, "subprocess.run": 1},
        f"{SCRATCH}; {PROGRAM}",
    ),
    "backends/sandbox/fork_server.py": ({"os.write": 5, "subprocess.Popen": 1}, f"{WORDS}; {PROGRAM}"),
    "backends/sandbox/instance.py": ({".mkdir": 2, ".write_bytes": 1, "open to write": 2}, SITE),
    "backends/sandbox/launcher.py": ({"subprocess.Popen": 1}, PROGRAM),
    "backends/sandbox/view.py": ({"subprocess.run": 1}, PROGRAM),
    "backends/remote/site.py": ({".unlink": 1, "shutil.rmtree": 1}, SCRATCH),
    "backends/remote/threaded.py": ({".mkdir": 1}, SCRATCH),
    "files/input_views.py": (
        {".touch": 1, ".unlink": 1, ".write_text": 3, "os.makedirs": 1, "os.mkdir": 2, "os.open to write": 3,
         "os.symlink": 1, "os.unlink": 1, "subprocess.run": 1},
        f"{SCRATCH}; the kernel's own files in /proc; {PROGRAM}",
    ),
    "files/project_folder.py": (
        {".mkdir": 4, "os.rename": 1, "shutil.copy2": 1, "shutil.copytree": 2, "shutil.ignore_patterns": 1}, SITE
    ),
    "files/safe_files.py": (
        {".mkdir": 1, "open to write": 2, "os.copy_file_range": 1, "os.ftruncate": 1, "os.pwrite": 1, "os.symlink": 1},
        SCRATCH,
    ),
    "bundle/bundle.py": ({"open to write": 1}, "an archive in memory"),
    "worker/context.py": ({".mkdir": 1}, SCRATCH),
    "worker/collect.py": ({".write_text": 1, "os.rename": 2}, SCRATCH),
    "worker/processes.py": ({"os.open to write": 1, "os.write": 1}, "the kernel's own files in /proc"),
    "onboard.py": (
        {"subprocess.run": 1, "tempfile.TemporaryDirectory": 1}, "traces of commands, before there is a state"
    ),
    "reads/python_eye.py": ({"os.write": 1}, "into memory that processes of a step share"),
    "reads/strace_eye.py": (
        {".unlink": 2, "shutil.which": 1, "subprocess.Popen": 1, "subprocess.run": 1}, f"{SCRATCH}; {PROGRAM}"
    ),
    "reads/trace_request.py": ({"os.write": 2}, WORDS),
    "run/preflight.py": ({"os.rename": 1}, SCRATCH),
    "run/lifecycle.py": ({"subprocess.run": 1}, "a command of the user's"),
    "worker/outbox.py": ({"os.ftruncate": 1, "os.open to write": 1}, SITE),
    "files/scratch.py": (
        {".mkdir": 8, ".unlink": 1, ".write_bytes": 2, "open to write": 3, "os.makedirs": 1, "os.mkdir": 1,
         "os.rename": 1, "os.unlink": 4},
        f"{SCRATCH}; folders of the user's files that are put back",
    ),
    "run/termination.py": ({"os.write": 1}, WORDS),
    "worker/streams.py": ({"os.ftruncate": 1, "os.open to write": 1}, SCRATCH),
    "files/tree_removal.py": ({"os.rename": 1, "os.rmdir": 3, "os.unlink": 2}, f"{SCRATCH}"),
    "bundle/unpack.py": (
        {"os.makedirs": 2, "os.open to write": 1, "os.rename": 1, "os.symlink": 1, "shutil.copyfileobj": 1,
         "shutil.rmtree": 1},
        SITE,
    ),
    "worker/materialize.py": ({".mkdir": 1}, SCRATCH),
    "worker/output_comparison.py": ({".mkdir": 1}, SCRATCH),
    "worker/main.py": (
        {"open to write": 1, "subprocess.run": 1, "tempfile.TemporaryFile": 1},
        "/dev/null, the user's `prepare` command with its output",
    ),
    "worker/command_source.py": ({"os.unlink": 1}, SCRATCH),
}  # fmt: skip


def writes(tree: ast.Module) -> Iterator[str]:
    """Also by methods of paths, by functions that are handed on, and to files that are there already."""
    yield from direct_calls(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os" | "disk"))):
                pass
            case ast.Call(func=ast.Attribute(attr="unlink" | "mkdir" | "rename" as name)):
                yield f".{name}"
            case ast.Call(func=ast.Name(id="open"), args=[_, ast.Constant(value="r+b" | "r+" | "rb+"), *_]):
                yield "open to write"
            case ast.Call(args=given):
                for each in given:
                    match each:
                        case ast.Attribute(value=ast.Name(id="os"), attr="unlink" | "rmdir" | "rename" as handed):
                            yield f"os.{handed}"


def test_execution_writes_nothing_past_the_one_module_but_what_is_no_state() -> None:
    files = {shown(file).removeprefix("execution/"): file for file in modules("execution/**/*.py")}
    found = {name: Counter(writes(tree_of(file))) for name, file in files.items()}
    known = {name: Counter[str]() for name in found}
    for name, (calls, why) in ALLOWED.items():
        assert why
        known[name].update(calls)
    assert {name: calls for name, calls in found.items() if calls != known[name]} == {}
    assert not found["run/preflight.py"] - Counter({"os.rename": 1}), "`debug.log` is state"


def test_the_check_would_notice() -> None:
    bad = "path.unlink()\n(a / b).mkdir()\nopen(a, 'r+b')\ntake(os.unlink, a)\nopen(a, 'a')\nos.rename(a, b)"
    assert sorted(writes(ast.parse(bad))) == [
        ".mkdir", ".unlink", "open to write", "open to write", "os.rename", "os.unlink"
    ]  # fmt: skip
    assert sorted(writes(ast.parse("disk.unlink(area, a)\nopen(a, 'rb')\ntext.replace(a, b)"))) == []
