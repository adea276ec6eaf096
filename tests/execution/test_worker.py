"""Steps, executed by a real worker process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from worker_lab import BACKENDS, Lab

from whyrun.artifacts.hashing import value_sha256
from whyrun.execution.protocol.messages import (
    InputSpec,
    MetricReported,
    OutputResult,
    OutputSpec,
    StepFinished,
    StepLost,
    TaskReported,
)
from whyrun.execution.worker.materialize import AFTER


@pytest.fixture(params=BACKENDS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path, backend=request.param)
    yield made
    made.backend.close()


# --- inputs ------------------------------------------------------------------------------------------------------


def test_every_input_arrives_under_its_own_name_and_in_its_place(lab: Lab) -> None:
    """Lesson 23: only the first of several inputs was handed to a step, under the wrong name."""
    lab.file(
        "m.py",
        "def f(refs, frames, n, doc, note: str, table):\n"
        "    return {'seen': [[r.read_text() for r in refs], [f.read_text() for f in frames], n, doc, note,\n"
        "                     [p.name for p in (*refs, *frames)], [t.read_text() for t in table]]}\n",
    )
    array = [lab.project_input("t0.csv", "t0"), lab.project_input("t1.csv", "t1")]
    inputs = {
        "refs[0]": lab.artifact(b"zero", "image", ".png"),
        "refs[1]": lab.project_input("one.jpg", "one", "image"),
        "frames": [lab.artifact(b"a", "file", ".txt"), lab.artifact(b"b", "file", ".txt")],
        "n": InputSpec(id="Input:N", sha256=value_sha256(3), type="integer", value=3),
        "doc": lab.artifact(b'{"k":[1]}', "json"),
        "note": lab.artifact(b"words", "text", ".txt"),
        "table": InputSpec(id="Input:T", sha256="0" * 64, type="file[]", members=array),
    }
    with_ = {
        "refs": [{"$input": "refs[0]"}, {"$input": "refs[1]"}],
        **{name: {"$input": name} for name in ("frames", "n", "doc", "note", "table")},
    }
    word = lab.one(lab.call("m:f", {"seen": "json"}, with_=with_, inputs=inputs))
    assert json.loads(lab.bytes_of(word, "seen")) == [
        ["zero", "one"],
        ["a", "b"],
        3,
        {"k": [1]},
        "words",
        ["refs.0.png", "refs.1.jpg", "frames.0.txt", "frames.1.txt"],
        ["t0", "t1"],
    ]


def test_a_folder_arrives_as_a_folder_and_goes_as_one(lab: Lab, tmp_path: Path) -> None:
    lab.file(
        "m.py",
        "def f(src, context):\n    (src / 'b.txt').write_text('more')\n    out = context.output('copy')\n"
        "    src.rename(out)\n",
    )
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.txt").write_text("a")
    sha, _ = lab.store.put_tree(folder)
    spec = InputSpec(id="Artifact:A.D", sha256=sha, type="directory")
    word = lab.one(lab.call("m:f", {"copy": "directory"}, with_={"src": {"$input": "src"}}, inputs={"src": spec}))
    lab.store.export(word.outputs[0].sha256, tmp_path / "back", "directory")
    found = {p.relative_to(tmp_path / "back").as_posix(): p.read_text() for p in (tmp_path / "back").rglob("*.txt")}
    assert found == {"deep/a.txt": "a", "b.txt": "more"}


def test_a_missing_binding_stops_the_step_before_its_action_is_called(lab: Lab) -> None:
    lab.file("m.py", "def f(x):\n    open('/proc/self/fd/1', 'w').write('called')\n")
    spec = lab.artifact(b"x", "file")
    bound = {"with_": {"x": {"$input": "x"}}}
    unnamed = lab.call("m:f", **bound)
    assert lab.failure(unnamed) == ("MissingBinding", "no source for `x`")
    without_source = msgspec.structs.replace(lab.call("m:f", inputs={"x": spec}, **bound), inputs={})
    assert lab.failure(without_source) == ("MissingBinding", "no source for `x`")
    gone = InputSpec(id="Artifact:A.X", sha256="ab" * 32, type="file")
    assert lab.failure(lab.call("m:f", inputs={"x": gone}, **bound)) == (
        "MissingBinding",
        f"the content of `Artifact:A.X` ({'ab' * 32}) is not in the store",
    )
    no_file = InputSpec(id="Input:X", sha256="ab" * 32, type="file", path="nowhere.csv")
    assert lab.failure(lab.call("m:f", inputs={"x": no_file}, **bound)) == (
        "MissingBinding",
        "`Input:X`: `nowhere.csv` does not exist",
    )
    assert lab.evidence() == {}


def test_a_cfg_with_other_bytes_is_refused(lab: Lab) -> None:
    lab.file("m.py", "def f():\n    pass\n")
    command = lab.call("m:f")
    (lab.run_dir / command.cfg_path).write_bytes(b"{}")
    kind, message = lab.failure(command)
    assert kind == "CfgMismatch"
    assert message == f"`cfg/S.json` does not have the hash that the command names ({command.cfg_sha256})"


@pytest.mark.parametrize("new", ["other", "same-size", ""])
def test_an_input_edited_while_the_step_runs_fails_it_and_stores_nothing(lab: Lab, new: str) -> None:
    """Lesson 16: an input edited while the step ran was recorded as what it had read."""
    edit = "x.write_text(new * (1 << 17)) if new else x.resolve().unlink()"
    lab.file("m.py", f"def f(x, new):\n    {edit}\n    return {{'o': 'result-of-f'}}\n")
    spec = lab.project_input("x.txt", ("0123456789" if new != "same-size" else "123456789") * (1 << 17))
    with_ = {"x": {"$input": "x"}, "new": new}
    error = lab.failure(lab.call("m:f", {"o": "text"}, with_=with_, inputs={"x": spec}))
    assert error == (
        "InputChangedDuringRun",
        "`x.txt` (Input:X) does not have the planned content, or was written to meanwhile; run again; if "
        "the step itself writes to it, let it work on a copy (`cp -rL`): large inputs are links, "
        'or read-only with `inputs = "view"` in `whyrun.toml`',
    )
    assert not lab.store.has(hashlib.sha256(b"result-of-f").hexdigest())


PUT_BACK = """\
def f(x):
    kept = x.read_text()
    x.write_text('read by the step')
    said = x.read_text()
    x.write_text(kept)
    return {'o': said}
def g(x):
    yours = (x / 'one.txt').resolve().parent
    (yours / 'come').write_text('read by the step')
    said = (yours / 'come').read_text()
    (yours / 'come').unlink()
    return {'o': said}
def h(x):
    import os
    os.chmod(x, 0o600)
    os.link(x, 'another-name')
    return {'o': x.read_text()[:7]}
"""
LARGE = "planned with" * (1 << 17)  # a link to the user's own file


@pytest.mark.parametrize("call", ["f", "g"])
def test_an_input_that_was_written_to_and_put_back_while_the_step_ran_fails_it(lab: Lab, call: str) -> None:
    """Nobody knows what it has read, and its fingerprint would say that it was what is there now."""
    lab.file("m.py", PUT_BACK)
    name = "x.txt" if call == "f" else "x"
    spec = lab.project_input("x.txt", LARGE) if call == "f" else lab.project_folder("x", LARGE)
    error = lab.failure(lab.call(f"m:{call}", {"o": "text"}, with_={"x": {"$input": "x"}}, inputs={"x": spec}))
    said = f"`{name}` (Input:X) does not have the planned content, or was written to meanwhile"
    assert error == ("InputChangedDuringRun", f"{said}; {AFTER}")


def test_another_mode_or_name_of_an_input_is_no_edit(lab: Lab) -> None:
    lab.file("m.py", PUT_BACK)
    spec = lab.project_input("x.txt", LARGE)
    word = lab.one(lab.call("m:h", {"o": "string"}, with_={"x": {"$input": "x"}}, inputs={"x": spec}))
    assert word.outputs[0].value == "planned"


def test_a_step_that_writes_into_a_stored_input_fails_and_the_blob_does_not_stay_wrong(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import os\ndef f(x):\n    os.chmod(x, 0o666)\n    x.write_text('spoilt')\n"
        "def g(x):\n    return {'text': x.read_text()[:8]}\n",
    )
    spec = lab.artifact(b"precious" * (1 << 18), "file")
    bound: dict[str, Any] = {"with_": {"x": {"$input": "x"}}, "inputs": {"x": spec}}
    said = f"`{spec.id}` was written to while the step ran; nobody may write into stored bytes; run again"
    assert lab.failure(lab.call("m:f", **bound)) == ("InputChangedDuringRun", said)
    if lab.backend_name == "local":
        assert not lab.store.has(spec.sha256)
        return
    # Elsewhere it was a copy that was spoilt: the next step gets another.
    word = lab.one(lab.call("m:g", {"text": "string"}, **bound))
    assert word.outputs[0].value == lab.store.read(spec.sha256)[:8].decode() == "precious"


# --- outputs -----------------------------------------------------------------------------------------------------


def test_outputs_of_every_type_are_stored_with_their_bytes(lab: Lab) -> None:
    lab.file(
        "m.py",
        "from pathlib import Path\n"
        "def f(context):\n"
        "    Path('made.bin').write_bytes(b'made')\n"
        "    context.output('written').write_bytes(b'written')\n"
        "    context.output('doc').write_text(' {\"a\": 1.50} ')\n"
        "    return {'s': 'é', 'i': 2, 'n': 1.5, 'b': True, 'j': {'z': 1, 'a': [None]}, 't': 'text\\n',\n"
        "            'file': Path('made.bin'), 'image': b'\\x89PNG'}\n",
    )
    outputs = {
        **{"s": "string", "i": "integer", "n": "number", "b": "boolean", "j": "json", "t": "text"},
        **{"file": "file", "image": "image", "written": OutputSpec("dataset", ".parquet"), "doc": "json"},
    }
    word = lab.one(lab.call("m:f", outputs))
    assert {o.key: lab.bytes_of(word, o.key) for o in word.outputs} == {
        "s": '"é"'.encode(),
        "i": b"2",
        "n": b"1.5",
        "b": b"true",
        "j": b'{"a":[null],"z":1}',
        "t": b"text\n",
        "file": b"made",
        "image": b"\x89PNG",
        "written": b"written",
        "doc": b' {"a": 1.50} ',
    }
    assert {o.key: o.value for o in word.outputs if o.value is not msgspec.UNSET} == {
        **{"s": "é", "i": 2, "n": 1.5, "b": True}
    }


def test_leaves_are_outputs_of_their_own(lab: Lab) -> None:
    lab.file(
        "m.py",
        "def f():\n    return {'Story': {'Segments': [{'HasTransition': True}, {'HasTransition': False}],\n"
        "                      'by': {'asia': {'n': 4}}}}\n",
    )
    leaves = {"Segments[1].HasTransition": "boolean", "by[asia].n": "integer"}
    word = lab.one(lab.call("m:f", {"Story": OutputSpec("json", leaves=leaves)}))
    assert word.outputs[1:] == [
        OutputResult("Story.Segments[1].HasTransition", value_sha256(False), 5, "boolean", False),
        OutputResult("Story.by[asia].n", value_sha256(4), 1, "integer", 4),
    ]
    assert not lab.store.has(value_sha256(4))  # its value stands in the log: no bytes of its own


def test_lesson_22_declared_outputs_that_did_not_come_are_a_failure_that_names_them_all(lab: Lab) -> None:
    lab.file("m.py", "def f():\n    return {'Story': {'Segments': []}}\ndef g():\n    pass\n")
    spec = OutputSpec("json", leaves={"Segments[0].HasTransition": "boolean"})
    assert lab.failure(lab.call("m:f", {"Story": spec, "Image": "image", "n": "integer"})) == (
        "MissingOutput",
        "the step ended without its declared `Image`, `Story.Segments[0].HasTransition`, `n`: "
        'return them, or write to context.output("Image"), context.output("n")',
    )
    assert lab.failure(lab.call("m:g", {"Story": spec})) == (
        "MissingOutput",
        "the step ended without its declared `Story`, `Story.Segments[0].HasTransition`: "
        'return it, or write to context.output("Story")',
    )
    assert lab.failure(lab.call("m:f", {"Story": spec})) == (
        "MissingOutput",
        "the step ended without its declared `Story.Segments[0].HasTransition`: the JSON that it gave has no such part",
    )


@pytest.mark.parametrize(
    ("type_", "expression", "kind", "message"),
    [
        ("integer", "True", "WrongOutputType", "`o` is declared as integer, but is bool: True"),
        ("integer", "1.0", "WrongOutputType", "`o` is declared as integer, but is float: 1.0"),
        ("number", "float('nan')", "WrongOutputType", "`o` cannot be written as JSON: "),
        ("boolean", "1", "WrongOutputType", "`o` is declared as boolean, but is int: 1"),
        ("string", "None", "WrongOutputType", "`o` is declared as string, but is null: None"),
        ("string", "'x' * 4095", "ValueTooLarge", "`o` has 4097 bytes; a value or leaf has at most 4096"),
        ("integer", "2**63", "ValueTooLarge", "`o` holds a whole number of more than 63 bits (give it as a text)"),
        ("number", "-2**63", "ValueTooLarge", "`o` holds a whole number of more than 63 bits (give it as a text)"),
        ("json", "{1: 2}", "WrongOutputType", "`o` cannot be written as JSON: "),
        ("file", "3", "WrongOutputType", "`o` is declared as file: return a Path or bytes, not int"),
        ("file", "'no/such'", "MissingOutput", "`o` was returned as `no/such`, which does not exist"),
        ("file", "__import__('pathlib').Path('.')", "WrongOutputType", "`o` is declared as file, but a folder was wri"),
    ],
)
def test_an_output_of_another_type_fails_the_step(
    lab: Lab, type_: str, expression: str, kind: str, message: str
) -> None:
    lab.file("m.py", f"def f():\n    return {{'o': {expression}}}\n")
    error_type, error = lab.failure(lab.call("m:f", {"o": type_}))
    assert (error_type, error[: len(message)]) == (kind, message)


def test_values_of_subclasses_are_the_texts_and_numbers_that_they_are(lab: Lab) -> None:
    lab.file(
        "m.py",
        "class Word(str): pass\nclass Count(int): pass\nclass Part(float): pass\n"
        "def f(): return {'s': Word('w'), 'i': Count(3), 'n': Part(0.5), 'b': True}\n",
    )
    word = lab.one(lab.call("m:f", {"s": "string", "i": "integer", "n": "number", "b": "boolean"}))
    assert {output.key: output.value for output in word.outputs} == {"s": "w", "i": 3, "n": 0.5, "b": True}


def test_leaves_have_the_limits_of_values(lab: Lab) -> None:
    """However they come: returned, or in a file of the step's own."""
    lab.file(
        "m.py",
        "import json\n"
        "def nested(levels): return json.loads('[' * levels + ']' * levels)\n"
        "def deep(levels): return {'o': {'A': nested(levels)}}\n"
        "def number(n): return {'o': {'A': [{'n': n}]}}\n"
        "def file(context, levels):\n"
        "    context.output('o').write_text('{\"A\": ' + '[' * levels + ']' * levels + '}')\n",
    )
    outputs = {"o": OutputSpec("json", leaves={"A": "json"})}

    def kept(call: str, **with_: int) -> object:
        word = lab.one(lab.call(f"m:{call}", outputs, with_=with_, step_id=f"Job:{call}{len(lab.evidence())}"))
        return (word.error_type, word.error) if word.error_type else len(word.outputs)

    too_deep = ("ValueTooLarge", "`o.A` nests deeper than 64 levels")
    too_large = ("ValueTooLarge", "`o.A` holds a whole number of more than 63 bits (give it as a text)")
    assert [kept("deep", levels=n) for n in (65, 66, 200)] == [2, too_deep, too_deep]
    assert [kept("file", levels=n) for n in (65, 66, 700)] == [2, too_deep, too_deep]
    assert [kept("number", n=n) for n in (2**63 - 1, 1 - 2**63)] == [2, 2]
    lab.file("big.py", "def number(): return {'o': {'A': [{'n': 2**70}]}}\n")
    assert lab.failure(lab.call("big:number", outputs, step_id="Job:Big")) == too_large
    error_type, message = lab.failure(lab.call("m:file", {"o": "json"}, with_={"levels": 5000}, step_id="Job:File"))
    assert (error_type, message[:24]) == ("WrongOutputType", "`o` is not valid JSON: m")


def test_what_json_cannot_hold_is_named_with_its_place_and_not_lost(lab: Lab) -> None:
    lab.file(
        "m.py",
        "def f():\n    return {'o': {'runs': [{'score': 1.5}, {'score': float('nan')}]}}\n"
        "def g(context):\n    context.output('o').write_text('{\"a\": [1, Infinity]}')\n"
        "def h():\n    return {'o': {'when': __import__('datetime').date(2026, 1, 2)}}\n",
    )
    kept = "(the returned value is in the step's `scratch/out/o.returned.txt`)"
    nothing = "which JSON does not have: give null (None) instead, or leave it out"
    assert lab.failure(lab.call("m:f", {"o": "json"}, step_id="Job:F")) == (
        "WrongOutputType",
        f"`o` cannot be written as JSON: `runs[1].score` is nan, {nothing} {kept}",
    )
    assert lab.failure(lab.call("m:g", {"o": "json"}, step_id="Job:G")) == (
        "WrongOutputType",
        f"`o` is not valid JSON: `a[1]` is inf, {nothing}",
    )
    assert lab.failure(lab.call("m:h", {"o": "json"}, step_id="Job:H"))[1] == (
        "`o` cannot be written as JSON: `when` is a datetime.date: give plain numbers, texts, lists and dicts "
        f"(numpy and pandas: `.tolist()`, `.item()`) {kept}"
    )
    assert {name: text for name, text in lab.evidence().items() if "/scratch/" in name} == {
        "F/scratch/out/o.returned.txt": "{'runs': [{'score': 1.5}, {'score': nan}]}\n",
        "G/scratch/out/o": '{"a": [1, Infinity]}',
        "H/scratch/out/o.returned.txt": "{'when': datetime.date(2026, 1, 2)}\n",
    }


def test_unknown_outputs_fail_the_step(lab: Lab) -> None:
    lab.file("m.py", "def f():\n    return {'a': 1, 'b': 2}\ndef g(context):\n    context.output('c')\n")
    assert lab.failure(lab.call("m:f", {"a": "integer"})) == (
        "UnknownOutput",
        "returned 'b', but the job declares `a`",
    )
    assert lab.failure(lab.call("m:g", {"a": "integer"})) == (
        "UnknownOutput",
        "the job declares no output `c` (declared: `a`)",
    )


# --- failures ----------------------------------------------------------------------------------------------------


def test_a_traceback_shows_the_users_code_and_only_that(lab: Lab) -> None:
    lab.file(
        "m.py",
        "def f():\n    try:\n        1 / 0\n    except ZeroDivisionError as e:\n"
        "        raise ValueError('no') from e\n",
    )
    word = lab.one(lab.call("m:f"))
    assert (word.error_type, word.error) == ("ValueError", "no")
    assert "ZeroDivisionError: division by zero" in word.traceback
    assert word.traceback.startswith('Traceback (most recent call last):\n  File "m.py", line 3, in f\n')
    assert "whyrun" not in word.traceback
    assert str(lab.project) not in word.traceback


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("raise SystemExit(0)", "SystemExit", "the step called exit(0)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("raise GeneratorExit('x')", "GeneratorExit", "x"),
        ("import nowhere_at_all", "ModuleNotFoundError", "No module named 'nowhere_at_all'"),
    ],
)
def test_whatever_a_step_raises_is_its_own_failure_and_the_worker_goes_on(
    lab: Lab, body: str, kind: str, message: str
) -> None:
    lab.file("m.py", f"def f():\n    {body}\ndef pid():\n    import os\n    return {{'n': os.getppid()}}\n")
    before = lab.one(lab.call("m:pid", {"n": "integer"}))
    assert lab.failure(lab.call("m:f")) == (kind, message)
    assert lab.one(lab.call("m:pid", {"n": "integer"})).outputs == before.outputs


def test_lesson_28_the_real_error_is_never_hidden_by_an_error_in_the_error_path(lab: Lab) -> None:
    lab.file(
        "m.py",
        "class Mute(Exception):\n    def __str__(self):\n        raise RuntimeError('second')\n"
        "def f():\n    raise Mute()\n"
        "def g():\n    print('log')\n    raise ValueError('the real one')\n",
    )
    word = lab.one(lab.call("m:f"))
    assert word.error_type == "Mute"
    assert word.error == "<the message of this Mute cannot be shown: its str() raised RuntimeError>"
    # A file stands where the folder of the step's logs should be made.
    (lab.run_dir / "steps").mkdir()
    (lab.run_dir / "steps" / "Blocked").write_text("in the way")
    word = lab.one(lab.call("m:g", step_id="Job:Blocked"))
    assert (word.error_type, word.error) == ("ValueError", "the real one")
    assert "ValueError: the real one\n\nWhile keeping its output, also: " in word.traceback


def test_logs_are_kept_when_not_empty_also_those_of_subprocesses_and_c_code(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import ctypes, os, subprocess, sys\n"
        "def f():\n    print('py')\n    subprocess.run(['echo', 'sub'])\n    ctypes.CDLL(None).puts(b'c')\n"
        "    os.write(2, b'raw\\n')\n"
        "def quiet():\n    sys.stdout.close()\n    os.close(2)\n",
    )
    lab.run(lab.call("m:f", step_id="Job:A[0]"), lab.call("m:quiet", step_id="Job:Q"), lab.call("m:f", step_id="Job:B"))
    loud = {"stderr.log": "raw\n", "stdout.log": "py\nsub\nc\n"}
    assert lab.evidence() == {f"{step}/{name}": text for step in ("A%5B0%5D", "B") for name, text in loud.items()}


def test_after_a_failure_the_scratch_files_are_evidence_and_after_success_not(lab: Lab) -> None:
    lab.file("m.py", "def f(ok):\n    open('half.txt', 'w').write('half')\n    assert ok\n")
    lab.run(lab.call("m:f", with_={"ok": True}, step_id="Job:A"), lab.call("m:f", with_={"ok": False}, step_id="Job:B"))
    assert lab.evidence() == {"B/scratch/work/half.txt": "half"}
    assert not (lab.run_dir / "steps" / "A").exists()


def test_a_crash_is_a_lost_step_with_the_last_words_of_stderr(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import os, sys\ndef f(code):\n    print('last words', file=sys.stderr)\n    open('half', 'w').write('x')\n"
        "    os._exit(code)\ndef g():\n    return {'n': 1}\n",
    )
    (word,) = lab.run(lab.call("m:f", with_={"code": 3}))
    assert isinstance(word, StepLost)
    assert (word.reason, word.last_stderr) == ("the worker exited with status 3 while the step ran", "last words\n")
    assert lab.evidence() == {"S/scratch/work/half": "x", "S/stderr.log": "last words\n"}
    assert lab.one(lab.call("m:g", {"n": "integer"})).outputs[0].value == 1


def test_a_crash_in_a_process_of_its_own_is_a_lost_step_too(lab: Lab) -> None:
    lab.file("m.py", "import os, signal\ndef f():\n    os.kill(os.getpid(), signal.SIGSEGV)\n")
    (word,) = lab.run(lab.call("m:f", env={"A": "1"}))
    assert isinstance(word, StepLost)
    assert word.reason == "the worker was killed by SIGSEGV"


# --- isolation ---------------------------------------------------------------------------------------------------


def test_nothing_of_one_step_is_seen_by_the_next(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import os, random, signal, sys, tempfile\n"
        "def look():\n"
        "    return {'o': [os.getcwd(), dict(os.environ), sys.argv, sys.path, os.umask(0o022), random.random(),\n"
        "                  str(signal.getsignal(signal.SIGTERM))[:50], str(signal.getsignal(signal.SIGUSR1)),\n"
        "                  signal.getitimer(signal.ITIMER_REAL), os.listdir('.'), os.listdir(tempfile.gettempdir()),\n"
        "                  os.listdir(os.environ['HOME']), sys.getrecursionlimit(), os.getppid()]}\n"
        "def change():\n"
        "    open('left', 'w').close(); open(os.environ['HOME'] + '/rc', 'w').close(); tempfile.mkstemp()\n"
        "    os.chdir('/'); os.environ['LEAK'] = '1'; del os.environ['LANG']; sys.argv.append('x')\n"
        "    sys.path.insert(0, '/nowhere'); os.umask(0o077); random.seed(1); signal.alarm(100)\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGUSR1, lambda *_: None)\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); sys.setrecursionlimit(5000)\n"
        "    sys.stdout = None; os.environ = {}\n",
    )
    words = lab.run(
        lab.call("m:look", {"o": "json"}, step_id="Job:A"),
        lab.call("m:change", step_id="Job:C"),
        lab.call("m:look", {"o": "json"}, step_id="Job:B"),
    )
    before, changed, after = words
    assert isinstance(before, StepFinished)
    assert isinstance(changed, StepFinished)
    assert isinstance(after, StepFinished)
    assert changed.error_type is None, changed.traceback
    first, second = (json.loads(lab.bytes_of(word, "o")) for word in (before, after))
    assert first.pop(5) != second.pop(5)  # random
    assert first == second
    environment = first[1]
    assert set(environment) == {"PATH", "HOME", "TMPDIR", "LANG", "WHYRUN_PROJECT", "PYTHONDONTWRITEBYTECODE"}
    assert environment["LANG"] == "C.UTF-8"
    assert environment["HOME"] != environment["TMPDIR"]
    assert lab.evidence() == {}


def test_what_a_step_sets_for_its_whole_process_ends_with_it(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import decimal, locale, os, resource, socket\n"
        "def look():\n"
        "    return {'o': [str(decimal.Decimal(1) / 3), socket.getdefaulttimeout(), locale.setlocale(locale.LC_ALL),\n"
        "                  resource.getrlimit(resource.RLIMIT_FSIZE), resource.getrlimit(resource.RLIMIT_NOFILE),\n"
        "                  os.getppid()]}\n"
        "def change():\n"
        "    decimal.getcontext().prec = 5; socket.setdefaulttimeout(3); locale.setlocale(locale.LC_ALL, 'C')\n"
        "    for which in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):\n"
        "        resource.setrlimit(which, (4096, resource.getrlimit(which)[1]))\n",
    )
    before = lab.one(lab.call("m:look", {"o": "json"}))
    assert lab.one(lab.call("m:change")).error == ""
    after = lab.one(lab.call("m:look", {"o": "json"}))
    first, second = (json.loads(lab.bytes_of(word, "o")) for word in (before, after))
    assert first == second, "also the worker, which forks each of them"
    assert first[0] == "0.3333333333333333333333333333"


@pytest.mark.parametrize("daemon", [True, False])
def test_a_thread_that_a_step_left_never_meets_the_next_step(lab: Lab, daemon: bool) -> None:
    """It wrote where the next step had its output, and that was taken for what the next one made."""
    lab.file(
        "m.py",
        "import os, threading, time\n"
        "def stray(context):\n"
        "    path = context.output('T')\n"
        "    path.write_text('one')\n"
        "    def write():\n"
        "        while True:\n"
        "            time.sleep(0.01)\n"
        "            try:\n"
        "                path.write_text('STRAY of one')\n"
        "            except OSError:\n"
        "                pass\n"
        f"    threading.Thread(target=write, daemon={daemon}).start()\n"
        "    return {'P': os.getppid()}\n"
        "def plain(context):\n"
        "    context.output('T').write_text('two')\n"
        "    time.sleep(0.3)\n"
        "    return {'P': os.getppid()}\n",
    )
    outputs = {"T": OutputSpec(type="text", suffix=".txt"), "P": "integer"}
    words = lab.run(
        lab.call("m:stray", outputs, step_id="Job:One"),
        *(lab.call("m:plain", outputs, step_id=f"Job:Two[{i}]") for i in range(3)),
    )
    processes = []
    for word in words:
        assert isinstance(word, StepFinished)
        assert word.error == ""
        processes.append({o.key: o.value for o in word.outputs}["P"])
    assert [lab.bytes_of(word, "T") for word in words[1:] if isinstance(word, StepFinished)] == [b"two"] * 3
    assert len(set(processes)) == 1, "the worker goes on"


def test_random_numbers_do_not_repeat_because_a_step_before_seeded_them(lab: Lab) -> None:
    lab.file("m.py", "import random\ndef f():\n    x = random.random()\n    random.seed(7)\n    return {'x': x}\n")
    words = lab.run(*(lab.call("m:f", {"x": "number"}, step_id=f"Job:A[{i}]") for i in range(3)))
    assert len({word.outputs[0].value for word in words if isinstance(word, StepFinished)}) == 3


def test_the_env_of_a_step_ends_with_it(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import os\nseen = []\n"
        "def f():\n    seen.append(1)\n"
        "    return {'o': [os.environ.get('A'), os.environ.get('F'), len(seen), os.getpid()]}\n",
    )
    plain = lab.one(lab.call("m:f", {"o": "json"}))
    own = lab.one(lab.call("m:f", {"o": "json"}, env={"A": "x", "F": True}))
    again = lab.one(lab.call("m:f", {"o": "json"}))
    a, b, c = (json.loads(lab.bytes_of(word, "o")) for word in (plain, own, again))
    assert (a[:3], b[:3], c[:3]) == ([None, None, 1], ["x", "true", 1], [None, None, 1])
    assert len({a[3], b[3], c[3]}) == 3


def test_secrets_reach_the_step_and_no_file(lab: Lab) -> None:
    secret = 'pa"ss$(x)wörd'
    lab.file(
        "m.py",
        "import os, sys\ndef f(token, context):\n"
        "    print(token); print('bearer', os.environ['AUTH'], file=sys.stderr)\n"
        "    open('kept', 'w').write('harmless'); open('leak', 'w').write(token)\n"
        "    context.task('EXECUTES', 'with ' + token, {'t': [token]})\n"
        "    raise ValueError('bad token ' + token)\n"
        "def ok(token):\n    return {'n': len(token)}\n"
        "def out(token):\n    return {'o': {'t': token}}\n",
    )
    more: dict[str, Any] = {"secrets": ["TOKEN"], "env": {"AUTH": {"$secret": "TOKEN", "format": "Bearer {}"}}}
    with_ = {"token": {"$secret": "TOKEN"}}
    values = {"TOKEN": secret}
    word = lab.one(lab.call("m:f", with_=with_, **more), values)
    assert (word.error_type, word.error) == ("ValueError", "bad token ***")
    (task,) = [m for m in lab.heard if isinstance(m, TaskReported)]
    assert (task.message, task.details) == ("with ***", {"t": ["***"]})
    evidence = {"S/stdout.log": "***\n", "S/stderr.log": "bearer Bearer ***\n", "S/scratch/work/kept": "harmless"}
    assert lab.evidence() == evidence
    assert lab.one(lab.call("m:ok", {"n": "integer"}, with_=with_, **more), values).outputs[0].value == len(secret)
    assert lab.failure(lab.call("m:out", {"o": "json"}, with_=with_, **more), values) == (
        "SecretInOutput",
        "`o` contains a secret that the step was given; it is not kept",
    )
    lab.one(lab.command("shell", {"run": 'echo "$token"', **with_}, **more), values)
    files = [p for p in lab.project.rglob("*") if p.is_file()]
    assert len(files) > 4
    assert [p for p in files if secret.encode() in p.read_bytes()] == []


# --- context -----------------------------------------------------------------------------------------------------


def test_tasks_metrics_and_progress_are_numbered_messages_of_the_step(lab: Lab) -> None:
    lab.file(
        "m.py",
        "def f(context, logger):\n    context.task('EXECUTES', 'half', {'a': 1})\n"
        "    context.metric('rows_read', 7, 'rows')\n"
        "    for i in range(100):\n        context.progress(i + 1, 100)\n"
        "    logger.log_task('me', 'EXECUTES', 'done', runtime=1.5)\n",
    )
    word = lab.one(lab.call("m:f"))
    tasks = [(m.n, m.status, m.message, m.details) for m in lab.heard if isinstance(m, TaskReported)]
    assert tasks == [
        (1, "EXECUTES", "half", {"a": 1}),
        (5, "EXECUTES", "done", {"action": "me", "runtime": 1.5}),
    ]
    assert [(m.n, m.metric, m.value, m.unit) for m in lab.heard if isinstance(m, MetricReported)] == [
        (2, "rows_read", 7.0, "rows"),
        (3, "progress", 0.01, ""),
        (4, "progress", 1.0, ""),
    ]
    assert word.n == 6
    assert set(word.metrics) == {
        "step_duration_ms", "cpu_seconds", "max_rss_bytes", "disk_read_bytes", "disk_written_bytes",
    }  # fmt: skip
    assert word.metrics["max_rss_bytes"] > 1_000_000


@pytest.mark.parametrize("more", [{}, {"env": {"OWN": "process"}}])
def test_a_remembered_request_is_acknowledged_before_the_step_goes_on(lab: Lab, more: dict[str, Any]) -> None:
    lab.file(
        "m.py",
        "def f(context):\n    before = context.recall('id')\n    context.remember('id', {'n': 2})\n"
        "    return {'o': [before, context.recall('id'), context.recall('other')]}\n",
    )
    lab.backend.submit(lab.call("m:f", {"o": "json"}, recalled={"id": "old"}, **more))
    word = lab.remembered()
    assert (word.key, word.value, word.n) == ("id", {"n": 2}, 1)
    lab.heard += lab.backend.messages(0.2)
    assert not any(isinstance(m, StepFinished) for m in lab.heard)
    lab.backend.acknowledge("Job:S", "id")
    finished = lab.end_of("Job:S")
    assert isinstance(finished, StepFinished)
    assert json.loads(lab.bytes_of(finished, "o")) == ["old", {"n": 2}, None]
