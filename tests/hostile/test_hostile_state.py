"""State and arguments that try to break their reader: logs, plans, IDs, links, and what steps say of themselves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hostile_lab import MODEST, check_refused, confined, put

import whyrun
from project_lab import Heard, Lab
from whyrun.cli.saved_plan import decode_plan
from whyrun.errors import Diagnostic, WhyrunError
from whyrun.evidence.verify.lines import LineCheck
from whyrun.evidence.verify.report import VerifyProblem
from whyrun.ids import IdPattern, file_name, parse_id
from whyrun.log.journal import FIRST_CHAIN, LONGEST_LINE, last_event, last_line, read_events

WORKFLOW = """
workflow: w
jobs:
  A: {uses: shell, with: {run: 'echo 1 > "$out_O"'}, outputs: {O: {type: text, path: out/o.txt}}}
  S: {uses: shell, with: {run: 'echo 1 > "$out_O"'}, outputs: {O: {type: json, path: sec/s.json, append: true}}}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after its first run; to be copied."""
    folder = tmp_path_factory.mktemp("ran") / "project"
    put(folder, {"workflow.yaml": WORKFLOW})
    Lab(folder).succeed()
    return folder


@pytest.fixture
def state(ran: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ran, tmp_path / "project", symlinks=True))


def log_of(project: Path) -> Path:
    return project / ".whyrun/w/runs/r0001/events.jsonl"


# --- logs --------------------------------------------------------------------------------------------------------


def task(seq: int, message: bytes, details: bytes = b"null") -> bytes:
    return (
        b'{"seq":%d,"ts":"2026-11-16T00:00:00.000000Z","session":"r0001","event":"task","step_id":"Job:A",'
        b'"status":"EXECUTES","message":"%b","details":%b,"chain":"%b"}\n' % (seq, message, details, b"0" * 64)
    )


def insert(log: Path, line: bytes) -> None:
    """As the second line of the log."""
    first, _, rest = log.read_bytes().partition(b"\n")
    log.write_bytes(first + b"\n" + line + rest)


def test_a_line_of_100_mb_is_refused_without_much_memory(state: Path) -> None:
    insert(log_of(state), task(2, b"x" * 100_000_000))
    told = f"events.jsonl:2: the line is longer than {LONGEST_LINE >> 20} MB"
    ended = confined(state, "plan")
    check_refused(ended, "LOG_DAMAGED", exit_code=3)
    assert told in ended.err
    ended = confined(state, "verify")  # lists it as one problem, as any other
    assert ended.code == 3
    assert ended.out.startswith("w is damaged: 1 problem\n")
    assert told in ended.out
    assert "is running" not in ended.out
    assert ended.peak < MODEST


def test_a_tail_of_160_mb_is_passed_over(state: Path) -> None:
    """Nothing ends it, so it is what a kill leaves, and no reader keeps it."""
    log = log_of(state)
    events, last = len(list(read_events(log))), last_line(log)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size + (160 << 20))
    assert (len(list(read_events(log))), last_line(log)) == (events, last)
    assert last is not None


@pytest.mark.parametrize(
    "line",
    [
        task(2, b"m", b"[" * 100_000 + b"]" * 100_000),
        task(2, b"m", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        task(2, b"\xff"),
        task(2, b"a\0b"),
        task(2, b"\\ud800"),
        b"\n",
        b"[]\n",
        b"null\n",
        b"\xef\xbb\xbf{}\n",
        b"{" * 1_000_000 + b"\n",
        b'{"seq":2,"seq":3}\n',
        task(2**70, b"m"),
        task(2, b"m").replace(b"Job:A", b"Job:A[\\u0000"),
        task(2, b"m").replace(b"Job:A", b"../../A"),
    ],
    ids=[
        "deep list", "deep map", "no text", "byte 0", "surrogate", "empty", "list", "null", "mark", "brackets", "twice",
        "huge", "no id", "path",
    ],
)  # fmt: skip
def test_a_line_that_is_no_event_is_named(state: Path, line: bytes) -> None:
    log = log_of(state)
    insert(log, line)
    with pytest.raises(WhyrunError) as refused:
        Lab(state).plan()
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.file) == ("LOG_DAMAGED", str(log))
    assert problem.line in (2, 3)


BY_HAND = "the line, or the one before it, was changed (`chain`)"


def at_depth(levels: int, call: Callable[[], Any]) -> Any:
    return call() if levels == 0 else at_depth(levels - 1, call)


def test_who_reads_a_log_from_deep_in_a_program_finds_it_as_sound_as_a_command_does(
    project: Callable[..., Lab],
) -> None:
    """Older versions let steps say what nests so deep. Where no stack is left to read it, that is no damage."""
    files = step_files("context.task('EXECUTES', 'm', [[7]])")
    lab = project(files.pop("workflow.yaml"), files)
    lab.succeed()
    log = log_of(lab.root)
    deep = b"[" * 700 + b"7" + b"]" * 700
    log.write_bytes(log.read_bytes().replace(b'"details":[[7]]', b'"details":' + deep))
    assert deep in log.read_bytes()
    for levels in (0, 400):
        assert at_depth(levels, lambda: whyrun.plan(lab.file)).headlines() == {}
        events = at_depth(levels, lambda: list(read_events(log)))
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        problems: list[VerifyProblem] = []
        check = LineCheck("log", "r0001", FIRST_CHAIN, "", problems.append)
        assert len(at_depth(levels, partial(check.feed, log.read_bytes()))[0]) == len(events)
        assert [problem.what for problem in problems] == [BY_HAND]
    told = set()
    for levels in range(0, 1000, 5):
        try:
            found = at_depth(levels, lambda: last_event(log))
            told.add(type(found).__name__)
        except RecursionError:
            told.add("no stack is left")
    assert told == {"RunComplete", "no stack is left"}


def test_a_time_that_is_none_is_told(state: Path) -> None:
    log = log_of(state)
    first, _, _ = log.read_bytes().partition(b"\n")
    log.write_bytes(first + b"\n" + task(2, b"m").replace(b"2026-11-16T00:00:00.000000Z", b"yesterday"))
    check_refused(confined(state, "log"), "LOG_DAMAGED", exit_code=3)


# --- plans -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 1_000_000,
        b'{"a":' * 1_000_000,
        b"\0" * 1000,
        b"\xff\xfe",
        b"",
        b"9" * 1_000_000,
        b'{"version":1,"workflow":"w","digest":"","options":{"up":"1","targets":[],"force":[]}}',
        b'{"version":1,"workflow":"w","digest":"","options":{"up":null,"targets":[1],"force":[]},"snapshot":{},'
        b'"totals":{},"jobs":[]}',
        b'{"version":1,"workflow":"w","digest":"","options":{"up":null,"targets":[],"force":[]},"snapshot":{},'
        b'"totals":{},"jobs":[{"id":1,"state":"planned"}]}',
    ],
    ids=["deep list", "deep map", "zeros", "no text", "empty", "huge", "option", "target", "job"],
)
def test_a_plan_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(WhyrunError) as refused:
        decode_plan(content, "plan.json")
    assert [(d.code, d.message) for d in refused.value.diagnostics] == [("USAGE", "`plan.json` is not a saved plan")]


@pytest.mark.parametrize("arguments", [("run", "--plan", "/dev/zero"), ("plan", "--inputs", "/dev/zero")])
def test_nobody_reads_a_device_to_its_end(state: Path, arguments: tuple[str, ...]) -> None:
    check_refused(confined(state, *arguments), "FILE_MISSING")


# --- IDs ---------------------------------------------------------------------------------------------------------

ONE_SPELLING = [
    'Job:learn["TETRAD/FGES"]["7"]', 'Job:a["]"]["["]', 'Job:a["\\""]', 'Job:a["\\n"]', 'Job:a["../../x"]', "Job:a[-1]",
    'Job:a["\u0430"]', 'Job:a["\u202e"]', 'Job:a["é"]', 'Job:a["e\u0301"]', 'Job:a[""]', 'Job:a["\\u0000"]',
]  # fmt: skip
NO_ID = [
    "", "a", "job:a", "Job:", "Job:a[]", "Job:a[", "Job:a]", "Job:a[[1]]", "Job:a[\u0430]", "Job:\u0430", "Job:\uff41",
    "Job:a\n", "Job:a ", " Job:a", "Job:a[1e999]", "Job:a[nan]", "Job:a[+1]", "Job:a[01]", "Job:a[1.50]", 'Job:a["a"]',
    'Job:a["\\ud800"]', 'Job:a["\ud800"]', 'Job:a["\\u0061"]', "Job:a['x']", "Job:../a", "Job:a/../b", "Job:a..b",
    "Job:a//b", "Job:/a", "Job:a/", "Job:a[" + "1" * 500 + "]", "Job:a\0", 'Job:a["\n"]', "Job:a\x1b[31m",
    "Artifact:../../x", "Job:a[*", "Job:" + "[" * 10_000,
]  # fmt: skip


@pytest.mark.parametrize("text", ONE_SPELLING)
def test_an_odd_id_has_one_spelling_and_a_harmless_file_name(text: str) -> None:
    assert str(parse_id(text)) == text
    name = file_name(parse_id(text).path)
    assert name.isascii()
    assert not {"/", "\0", "\n"} & set(name)


def test_look_alikes_are_two_ids() -> None:
    names = {file_name(parse_id(text).path) for text in ONE_SPELLING}
    assert len(names) == len(ONE_SPELLING)


@pytest.mark.parametrize("text", NO_ID, ids=[repr(text)[:30] for text in NO_ID])
def test_what_is_no_id_is_refused_in_a_line_that_can_be_shown(text: str) -> None:
    for read in (parse_id, IdPattern):
        with pytest.raises(WhyrunError) as refused:
            read(text)
        (problem,) = refused.value.diagnostics
        assert problem.code == "NAME_INVALID"
        shown = problem.render()
        assert len(shown) < 2000
        assert not {"\x1b", "\0", "\u202e"} & set(shown)


def test_a_message_does_nothing_to_a_terminal() -> None:
    shown = Diagnostic("USAGE", "\x1b]0;owned\x07 \u202etxt\x9b", hint="\x1b[2J").render()
    assert shown == "error[USAGE]: \\u001b]0;owned\\u0007 \\u202etxt\\u009b\n   hint: \\u001b[2J"


# --- links that lead out -----------------------------------------------------------------------------------------


def files_in(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file())


def test_nothing_is_published_through_a_link_that_leads_out(
    project: Callable[..., Lab], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = project(WORKFLOW)
    outside = tmp_path / "outside"
    put(outside, {"kept.txt": "precious"})

    def link(*told: object) -> None:  # after all that is looked at before a run
        for name in ("out", "sec"):
            os.symlink(outside, lab.root / name)

    monkeypatch.setattr(Heard, "started", link)
    ran = lab.run()
    assert ran.failed == {"Job:A": ("FAILED", "NotPublished"), "Job:S": ("FAILED", "NotPublished")}
    assert list(files_in(outside)) == ["kept.txt"]


def test_a_link_at_a_published_path_is_not_written_through(project: Callable[..., Lab], tmp_path: Path) -> None:
    lab = project(WORKFLOW)
    put(tmp_path, {"victim.txt": "precious", "victim.json": '{"a": 1}'})
    for name, victim in (("out/o.txt", "victim.txt"), ("sec/s.json", "victim.json")):
        (lab.root / name).parent.mkdir()
        os.symlink(tmp_path / victim, lab.root / name)
    lab.run()
    assert ((tmp_path / "victim.txt").read_text(), (tmp_path / "victim.json").read_text()) == ("precious", '{"a": 1}')


# --- steps -------------------------------------------------------------------------------------------------------

DEEP = "deep = []\n    for _ in range(100_000): deep = [deep]\n    "
STEPS = {
    "a line of 100 MB": ("print('x' * 100_000_000)", None),
    "an error of 100 MB": ("raise ValueError('x' * 100_000_000)", "ValueError"),
    "a task of 100 MB": ("context.task('EXECUTES', 'x' * 100_000_000)", ""),
    "a deep task": (f"{DEEP}context.task('EXECUTES', 'm', deep)", "ValueError"),
    "a deep remembered value": (f"{DEEP}context.remember('k', deep)", "ValueError"),
    "a huge remembered number": ("context.remember('k', 2**70)", "ValueError"),
    "a deep result": (f"{DEEP}return {{'O': deep}}", "WrongOutputType"),
    "a remembered value of 100 MB": ("context.remember('k', 'x' * 100_000_000)", "ValueError"),
    "a metric of 100 MB": ("context.metric('x' * 100_000_000, 1)", "ValueError"),
    "half of a surrogate pair": ("return {'O': '\\ud800'}", "WrongOutputType"),
    "an error that cannot be written": ("raise ValueError('\\ud800 \\x00 \\x1b[31m')", "ValueError"),
    "20,000 tasks": ("for _ in range(20_000): context.task('EXECUTES', 'm' * 100)", None),
}  # fmt: skip


@pytest.mark.parametrize("name", ["a line of 100 MB", "an error of 100 MB", "a task of 100 MB"])
def test_what_a_step_says_does_not_fill_the_host(tmp_path: Path, name: str) -> None:
    body, _ = STEPS[name]
    put(tmp_path, step_files(body))
    ended = confined(tmp_path, "run", "--quiet")
    assert ended.code in (0, 1)
    assert ended.peak < MODEST
    assert max(map(len, log_of(tmp_path).read_bytes().splitlines())) < LONGEST_LINE


@pytest.mark.parametrize("name", [name for name in STEPS if name not in ("a line of 100 MB", "an error of 100 MB")])
def test_what_a_step_says_is_recorded_or_its_own_failure(project: Callable[..., Lab], name: str) -> None:
    body, error_type = STEPS[name]
    files = step_files(body)
    lab = project(files.pop("workflow.yaml"), files)
    ran = lab.run()
    if error_type:
        assert ran.failed == {"Job:A": ("FAILED", error_type)}
    elif error_type is None:
        assert ran.executed == ["Job:A"]
    assert len(list(read_events(log_of(lab.root)))) == len(ran.events)


def step_files(body: str) -> dict[str, str | bytes | None]:
    return {
        "workflow.yaml": "workflow: w\njobs:\n"
        '  A: {uses: python, with: {call: "story:go"}, outputs: {O: {type: json}}}\n',
        "story.py": f"def go(context):\n    {body}\n    return {{'O': 1}}\n",
    }
