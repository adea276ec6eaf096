"""Workflow files that try to break their reader: each is refused, with a code, without taking the machine along."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile_lab import check_refused, confined, put

from whyrun.errors import WhyrunError
from whyrun.graph.expand import expand
from whyrun.workflow.expressions.expression import ExpressionError
from whyrun.workflow.expressions.linear_regex import PatternError, compile_pattern
from whyrun.workflow.nodes import MAX_PROBLEMS
from whyrun.workflow.parsing.parse import load_reading, parse_workflow

JOBS = 'jobs:\n  A: {uses: shell, with: {run: "true"}}\n'


def refused_with(text: str | bytes) -> list[str]:
    """The codes of what is wrong with a workflow file, each once."""
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(WhyrunError) as refused:
        parse_workflow("workflow.yaml", lambda key: data.decode("utf-8"))
    assert len(str(refused.value)) < 1 << 20
    return list(dict.fromkeys(d.code for d in refused.value.diagnostics))


def bomb(levels: int) -> str:
    """Nine times nine times nine …: a few lines that stand for more nodes than there is memory."""
    lines = ["x0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"x{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(["workflow: w", *lines, JOBS])


HOSTILE: dict[str, tuple[str | bytes, list[str]]] = {
    "alias bomb": (bomb(12), ["YAML_SYNTAX"]),
    "alias of itself": ("workflow: w\nx: &a [*a]\n" + JOBS, ["YAML_SYNTAX"]),
    "aliases of a long text": (f"workflow: w\na: &a {'x' * 100_000}\nb: [{'*a, ' * 50_000}]\n" + JOBS, ["YAML_SYNTAX"]),
    "merge keys": ("workflow: w\nx: &a {k: 1}\n<<: *a\n" + JOBS, ["UNKNOWN_KEY"]),
    "deep lists": ("workflow: w\ninputs: " + "[" * 200_000, ["YAML_SYNTAX"]),
    "deep maps": ("{a: " * 200_000, ["YAML_SYNTAX"]),
    "deep indentation": ("\n".join(" " * i + "a:" for i in range(500)), ["YAML_SYNTAX"]),
    "a huge integer": (
        "workflow: w\ninputs: {I: {type: integer, default: " + "9" * 500_000 + "}}\n" + JOBS, ["WRONG_TYPE"],
    ),
    "a huge hex number": (
        "workflow: w\ninputs: {I: {type: integer, default: 0x" + "f" * 500_000 + "}}\n" + JOBS, ["WRONG_TYPE"],
    ),
    "a huge float": ("workflow: w\ninputs: {I: {type: number, default: 1e999999999}}\n" + JOBS, ["WRONG_TYPE"]),
    "infinite": ("workflow: w\ninputs: {I: {type: number, default: .inf}}\n" + JOBS, ["WRONG_TYPE"]),
    "not a number": ("workflow: w\ninputs: {I: {type: number, default: .nan}}\n" + JOBS, ["WRONG_TYPE"]),
    "a long key": (f"workflow: w\n? {'k' * 300_000}\n: 1\n" + JOBS, ["UNKNOWN_KEY"]),
    "a long name": (f"workflow: {'k' * 300_000}\n" + JOBS, ["NAME_INVALID"]),
    "a long job": (f"workflow: w\njobs:\n  ? {'k' * 300_000}\n  : {{uses: shell}}\n", ["NAME_INVALID"]),
    "tags": ("workflow: !!python/object/apply:os.system [id]\n" + JOBS, ["YAML_SYNTAX"]),
    "a key that is a list": ("workflow: w\n? [a, b]\n: 1\n" + JOBS, ["YAML_SYNTAX"]),
    "the same key": ("workflow: w\nworkflow: v\n" + JOBS, ["DUPLICATE_KEY"]),
    "two documents": ("workflow: w\n---\nworkflow: v\n", ["YAML_SYNTAX"]),
    "a byte 0": (b"workflow: w\0\n" + JOBS.encode(), ["YAML_SYNTAX"]),
    "an escape character": (b"workflow: w\x1b[31m\n" + JOBS.encode(), ["YAML_SYNTAX"]),
    "not UTF-8": (b"workflow: \xff\n", ["YAML_SYNTAX"]),
    "UTF-16": (f"workflow: w\n{JOBS}".encode("utf-16"), ["YAML_SYNTAX"]),
    "half of a surrogate pair": ('workflow: w\ndescription: "\\ud800"\n' + JOBS, ["YAML_SYNTAX"]),
    "a mark in the middle": ("workflow: w\ufeff\n" + JOBS, ["NAME_INVALID"]),
    "a name of look-alikes": ("workflow: w\njobs:\n  \u0410: {uses: shell, with: {run: x}}\n", ["NAME_INVALID"]),
    "a wide name": ("workflow: w\njobs:\n  \uff21: {uses: shell, with: {run: x}}\n", ["NAME_INVALID"]),
    "a name with a newline": ('workflow: w\njobs:\n  "A\\nB": {uses: shell, with: {run: x}}\n', ["NAME_INVALID"]),
    "a name with brackets": ('workflow: w\njobs:\n  "A[0]": {uses: shell, with: {run: x}}\n', ["NAME_INVALID"]),
    "a name with a quote": ("workflow: w\njobs:\n  'A\"': {uses: shell, with: {run: x}}\n", ["NAME_INVALID"]),
    "a name that climbs": ("workflow: w\njobs:\n  '../A': {uses: shell, with: {run: x}}\n", ["NAME_INVALID"]),
    "a workflow that climbs": ("workflow: ../../w\n" + JOBS, ["NAME_INVALID"]),
    "a workflow called like the store": ("workflow: store\n" + JOBS, ["NAME_INVALID"]),
    "nothing": ("", ["WRONG_TYPE"]),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(name: str) -> None:
    text, codes = HOSTILE[name]
    assert refused_with(text) == codes


@pytest.mark.parametrize("name", ["alias bomb", "deep lists", "a huge integer"])
def test_it_takes_no_memory_worth_the_word(name: str, tmp_path: Path) -> None:
    text, codes = HOSTILE[name]
    put(tmp_path, {"workflow.yaml": text})
    check_refused(confined(tmp_path, "validate"), *codes)


def test_a_file_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "workflow.yaml").open("wb") as file:
        file.write(b"workflow: w\n#")
        file.truncate(1 << 40)
    check_refused(confined(tmp_path, "validate"), "FILE_MISSING")


def test_a_mark_at_the_beginning_and_dos_lines_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "workflow.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + f"workflow: w\n{JOBS}".replace("\n", "\r\n").encode())
    assert list(load_reading(path).complete().jobs) == ["A"]


def test_no_more_is_told_than_a_person_reads() -> None:
    many = "workflow: w\n" + "".join(f"k{i}: 1\n" for i in range(30_000)) + JOBS
    with pytest.raises(WhyrunError) as refused:
        parse_workflow("workflow.yaml", lambda key: many)
    assert len(refused.value.diagnostics) == MAX_PROBLEMS
    last = refused.value.diagnostics[-1]
    assert (last.code, last.message) == (
        "UNKNOWN_KEY",
        f"more problems are not reported: the limit is {MAX_PROBLEMS}",
    )


def test_an_import_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "inner.yaml")
    put(tmp_path, {"workflow.yaml": f"workflow: w\nimports: {{I: {{workflow: ./inner.yaml}}}}\n{JOBS}"})
    with pytest.raises(WhyrunError) as refused:
        load_reading(tmp_path / "workflow.yaml").complete()
    assert [(d.code, d.message) for d in refused.value.diagnostics] == [
        ("FILE_MISSING", "`./inner.yaml` cannot be read: it is not a regular file")
    ]


# --- loops -------------------------------------------------------------------------------------------------------

LOOPS = {
    "count": "loops: {n: {count: 99999999999}}\njobs:\n  A: {for: [n], uses: shell, with: {run: x}}\n",
    "range": "loops: {n: {range: 0-99999999999999}}\njobs:\n  A: {for: [n], uses: shell, with: {run: x}}\n",
    "product": "loops: {n: {count: 100000}, m: {count: 100000}}\njobs:\n"
    "  A: {for: [n, m], uses: shell, with: {run: x}}\n",
    "many jobs": "loops: {n: {count: 300000}}\njobs:\n"
    + "".join(f"  A{i}: {{for: [n], uses: shell, with: {{run: x}}}}\n" for i in range(20)),
    "leaves": "loops: {n: {count: 100000}, m: {count: 100000}}\njobs:\n"
    "  A: {uses: shell, with: {run: x}, outputs: {O: {type: json, leaves: {'a[n].b[m]': boolean}}}}\n",
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_without_end_are_refused(name: str) -> None:
    with pytest.raises(WhyrunError) as refused:
        expand(parse_workflow("workflow.yaml", lambda key: "workflow: w\n" + LOOPS[name]), {})
    assert {d.code for d in refused.value.diagnostics} == {"WRONG_TYPE"}


# --- paths -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/x",
        "a/../../x",
        "a\\0b",
        "a\\nb",
        ".whyrun/x",
        "~/.x",
        "a/./../../b",
        "..",
        ".",
        "a\\u0085b",
        "a\\u202eb",
        "x" * 256,
    ],
)
@pytest.mark.parametrize("append", ["false", "true"])
def test_a_path_that_leads_out_is_refused(path: str, append: str) -> None:
    output = f'{{type: json, path: "{path}", append: {append}}}'
    text = f"workflow: w\njobs:\n  A: {{uses: shell, with: {{run: x}}, outputs: {{O: {output}}}}}\n"
    assert refused_with(text) == ["PATH_OUTSIDE"]


@pytest.mark.parametrize("value", ["../x", "/etc/x", "a/../../x", "..", "a\\0b", "a § b"])
def test_a_value_cannot_lead_a_path_out(value: str) -> None:
    text = (
        f'workflow: w\nloops: {{n: {{values: ["{value}"]}}}}\njobs:\n'
        '  A: {for: [n], uses: shell, with: {run: x}, outputs: {O: {type: file, path: "out/${{ n }}/../../x"}}}\n'
        '  B: {for: [n], uses: shell, with: {run: x}, outputs: {O: {type: file, path: "${{ n }}"}}}\n'
    )
    with pytest.raises(WhyrunError) as refused:
        expand(parse_workflow("workflow.yaml", lambda key: text), {})
    assert {d.code for d in refused.value.diagnostics} == {"PATH_OUTSIDE"}


# --- expressions -------------------------------------------------------------------------------------------------

ESCAPES = [
    "().__class__.__bases__", "inputs.__class__", "''.join([])", "[x for x in [1]]", "(lambda: 1)()", "f'{1}'",
    "__import__('os')", "open('x')", "eval('1')", "globals()", "print", "n.__globals__", "1 if 1 else print", "*[1]",
    "n := 3", "await n", "yield", "`id`", "{**{}}", "'%s' % 1", "'{0.__class__}'.format(1)", "str.format",
    "\uff49nputs.T", "jobs.A.outputs", "secrets.PATH", "env.PATH", "inputs['T'].upper()", "inputs . T . x",
]  # fmt: skip


@pytest.mark.parametrize("expression", ESCAPES)
def test_an_expression_cannot_escape(expression: str) -> None:
    """Refused while the file is read, or without a value when it is computed; never more than a plain value."""
    head = "workflow: w\ninputs: {T: {type: string, default: t}}\njobs:\n  A:\n    uses: shell\n"
    text = f"{head}    with:\n      a: |-\n        ${{{{ {expression} }}}}\n      run: x\n"
    try:
        flow = parse_workflow("workflow.yaml", lambda key: text)
    except WhyrunError as refused:
        codes = {d.code for d in refused.diagnostics}
        assert codes <= {"EXPRESSION_SYNTAX", "EXPRESSION_FORBIDDEN", "UNKNOWN_REFERENCE", "NAME_INVALID", "WRONG_TYPE"}
        return
    with pytest.raises((WhyrunError, ExpressionError)):
        expand(flow, {})


GREEDY = [
    "'a' * 10**9", "10**9 * 'a'", "9**9**9", "9**9**9**9", "[0] * 10**9", "[[0] * 1000] * 100000",
    "2**10000 * 2**10000",
    "'a' * 1000000 + 'a' * 1000000", "str([0] * 100000) * 100", "-(9**9**9)", "round(1.5, 10**9)", "int('9' * 4000)",
    "1e308 * 1e308", "sorted(['a' * 1000000] * 1000)", "max([9**9**9])", "'a' * -10**9 + 'b' * 10**9",
    "('a' * 1000) * ('b' * 1000)", "9.9**999999999", "(-1)**0.5", "upper('ß' * 1000000)", "lower('İ' * 900000)",
]  # fmt: skip


@pytest.mark.parametrize("expression", GREEDY)
def test_an_expression_cannot_eat_memory(expression: str) -> None:
    text = f'workflow: w\njobs:\n  A:\n    uses: shell\n    with: {{a: "${{{{ {expression} }}}}", run: x}}\n'
    with pytest.raises(WhyrunError) as refused:
        expand(parse_workflow("workflow.yaml", lambda key: text), {})
    assert {d.code for d in refused.value.diagnostics} == {"WRONG_TYPE"}


def test_greedy_expressions_take_no_memory_worth_the_word(tmp_path: Path) -> None:
    entries = "".join(f'      a{i}: "${{{{ {text} }}}}"\n' for i, text in enumerate(GREEDY))
    put(tmp_path, {"workflow.yaml": f"workflow: w\njobs:\n  A:\n    uses: shell\n    with:\n      run: x\n{entries}"})
    check_refused(confined(tmp_path, "plan"), "WRONG_TYPE")


@pytest.mark.parametrize(
    "nested", ["(" * 2000 + "1" + ")" * 2000, "[" * 2000 + "]" * 2000, "not " * 1000 + "1", "-" * 4000 + "1"]
)
def test_an_expression_that_nests_is_refused(nested: str) -> None:
    text = f'workflow: w\njobs:\n  A: {{uses: shell, with: {{a: "${{{{ {nested} }}}}", run: x}}}}\n'
    assert set(refused_with(text)) <= {"EXPRESSION_SYNTAX", "EXPRESSION_FORBIDDEN"}


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+", "a" * 4000 + "!"),
        ("(a|a)*", "a" * 4000 + "!"),
        ("(a|aa)+", "a" * 4000 + "!"),
        ("(.*)*x", "a" * 4000),
        ("a*a*a*a*a*a*a*b", "a" * 4000),
        ("(a?){30}a{30}", "a" * 29),
        ("([a-z]+)*[0-9]", "a" * 4000),
        ("(x+x+)+y", "x" * 4000),
    ],
)
def test_patterns_that_explode_elsewhere_take_no_time_here(pattern: str, text: str) -> None:
    assert compile_pattern(pattern).matches(text) is False


@pytest.mark.parametrize(
    "pattern",
    ["(((a{99}){99}){99}){99}", "a{99999999}", "(a)\\1", "(?=a)a", "(?<!a)a", "(?>a+)a", "a++", "(?m)^a", "(", "a**"],
)
def test_patterns_that_cannot_be_matched_so_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)
