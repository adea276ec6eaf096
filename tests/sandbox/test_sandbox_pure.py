"""Command lines, users and messages of sandboxes, without creating one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from whyrun.errors import InvalidError
from whyrun.execution.backends.sandbox.backend import explain, find_tools
from whyrun.execution.backends.sandbox.instance import used_memory
from whyrun.execution.backends.sandbox.launcher import FIRST_USER, user_number
from whyrun.execution.backends.sandbox.view import (
    Limits,
    Link,
    Machine,
    Mount,
    SandboxSpec,
    Tools,
    Visible,
    interpreter_view,
    programs,
    sandbox_argv,
    search_path,
    view_argv,
)

TOOLS = Tools("/usr/bin/bwrap", "/usr/bin/setpriv", "/usr/bin/choom")
SEEN = Visible(
    read_only=(Mount.same("/usr"), Mount("/srv/state/in", "/whyrun/in"), Mount("/srv/code", "/whyrun/in/project")),
    links=(Link("usr/lib", "/lib"),),
    writable=(Mount("/srv/state/out", "/whyrun/out"),),
)


def test_the_command_line_of_a_sandbox() -> None:
    spec = SandboxSpec(SEEN, environment=(("LANG", "C.UTF-8"),), work_dir="/whyrun/out")
    argv = sandbox_argv(spec, Limits(1 << 30, 64, 1 << 30, temporary=1000), TOOLS, ["/bin/true", "x"], info_fd=7)
    assert " ".join(argv).split(" --") == [
        "/usr/bin/bwrap",
        "unshare-all",
        "unshare-user",
        "disable-userns",
        "uid 1000",
        "gid 1000",
        "hostname whyrun",
        "cap-drop ALL",
        "new-session",
        "die-with-parent",
        "info-fd 7",
        "clearenv",
        "setenv LANG C.UTF-8",
        "size 1000",
        "perms 1777",
        "tmpfs /tmp",
        "dir /whyrun",
        "ro-bind /usr /usr",
        "ro-bind /srv/state/in /whyrun/in",
        "ro-bind /srv/code /whyrun/in/project",
        "bind /srv/state/out /whyrun/out",
        "symlink usr/lib /lib",
        "proc /proc",
        "dev /dev",
        "size 1000",
        "perms 1777",
        "tmpfs /dev/shm",
        "remount-ro /proc",
        "remount-ro /dev",
        "remount-ro /",
        "chdir /whyrun/out",
        " /bin/true x",
    ]


def test_only_a_sandbox_with_the_network_shares_it() -> None:
    limits = Limits(1 << 30, 64, 1 << 30)
    without = sandbox_argv(SandboxSpec(SEEN), limits, TOOLS, [])
    having = sandbox_argv(SandboxSpec(SEEN, network=True), limits, TOOLS, [])
    assert [word for word in having if word not in without] == ["--share-net"]


def test_the_command_line_of_a_view_for_root_and_for_others() -> None:
    mounts = [
        "dir /tmp",
        "dir /whyrun",
        "ro-bind /usr /usr",
        "ro-bind /srv/state/in /whyrun/in",
        "ro-bind /srv/code /whyrun/in/project",
        "bind /srv/state/out /whyrun/out",
        "symlink usr/lib /lib",
        "bind /proc /proc",
        "dev-bind /dev /dev",
        "remount-ro /",
    ]
    first = ["/usr/bin/choom -n 1000", " /usr/bin/bwrap", "die-with-parent", "new-session", "cap-drop ALL"]
    assert " ".join(view_argv(SEEN, TOOLS, ["python"])).split(" --") == [*first, *mounts, " python"]
    assert " ".join(view_argv(SEEN, TOOLS, ["python"], 77)).split(" --") == [
        *first,
        "cap-add CAP_SETUID",
        "cap-add CAP_SETGID",
        "cap-add CAP_SETPCAP",
        *mounts,
        " /usr/bin/setpriv",
        "reuid=77",
        "regid=77",
        "clear-groups",
        "inh-caps=-all",
        "ambient-caps=-all",
        "bounding-set=-all",
        "no-new-privs",
        " python",
    ]


def test_the_root_of_the_machine_is_never_shown() -> None:
    machine = Machine(programs() + interpreter_view())
    shown = [*machine.for_fork_server().read_only, *machine.for_sandbox(True).read_only]
    assert {"/", "/etc", "/root", "/home", os.path.expanduser("~")} & {mount.source for mount in shown} == set()


def test_an_interpreter_that_lies_with_the_home_folder_cannot_be_shown() -> None:
    with pytest.raises(InvalidError) as refused:
        interpreter_view(home=f"{sys.base_prefix}/lib")
    (problem,) = refused.value.diagnostics
    assert problem.code == "SANDBOX_UNAVAILABLE"
    assert problem.message == (
        f"Python is installed in `{sys.base_prefix}`, together with what a sandbox must not show"
    )


def test_a_folder_of_modules_that_holds_the_project_is_not_shown() -> None:
    package = Path(__file__).parents[2] / "src" / "whyrun"
    shown = [mount.target for mount in interpreter_view(project=str(package.parent / "project")).read_only]
    assert str(package.parent) not in shown
    assert str(package) in shown


def test_programs_are_looked_for_where_they_can_be_seen() -> None:
    assert search_path("/usr/bin:/srv/elsewhere:/lib/x", SEEN) == "/usr/bin:/lib/x"


def test_every_sandbox_of_root_has_a_user_of_its_own_also_where_there_are_few() -> None:
    assert user_number(5, [(0, 4294967295)]) == FIRST_USER + 5
    assert user_number(5, [(0, 1), (1, 65536)]) == 65531
    assert user_number(40_000, [(0, 1), (1, 65536)]) == 65536 - 40_000 % 32768
    assert user_number(5, [(0, 1)]) is None


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("bwrap: Unknown option --disable-userns", "bubblewrap 0.8 or newer is needed"),
        ("bwrap: Can't mount proc on /newroot/proc: No such device", None),
    ],
)
def test_what_bubblewrap_says_is_told(said: str, hint: str | None) -> None:
    problem = explain(f"something before\n{said}\n")
    assert (problem.code, problem.hint) == ("SANDBOX_UNAVAILABLE", hint)
    assert problem.message == f"bubblewrap cannot create a sandbox here: {said}"


def test_where_namespaces_are_forbidden_the_hint_says_so() -> None:
    problem = explain("bwrap: No permissions to create new namespace")
    assert problem.hint is not None
    assert "namespaces" in problem.hint


def test_without_the_other_tools_it_is_not_available_either(tmp_path: Path) -> None:
    for name in ("bwrap", "setpriv"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    problem = find_tools(str(tmp_path))
    assert not isinstance(problem, Tools)
    assert problem.render() == (
        "error[SANDBOX_UNAVAILABLE]: `choom` is not installed\n   hint: install the package `util-linux` of your system"
    )


def test_a_tool_that_a_sandbox_does_not_show_is_of_no_use(tmp_path: Path) -> None:
    for name in ("bwrap", "setpriv", "choom"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    problem = find_tools(str(tmp_path))
    assert not isinstance(problem, Tools)
    assert problem.message == f"`{tmp_path}/bwrap` is not installed where the system's programs are"


def test_memory_is_that_of_a_process_and_all_below_it() -> None:
    alone = used_memory((os.getpid(),))
    assert alone > 1 << 20
    assert used_memory((1 << 22,)) == 0  # nobody has this number
