"""Mistakes that people make in workflow files: each is refused at its place, and whoever follows its hint is right."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from whyrun.errors import Diagnostic
from whyrun.workflow.fields import names_of
from whyrun.workflow.foreign_words import _ROWS, foreign_words
from whyrun.workflow.model import BASE_TYPES
from whyrun.workflow.parsing.declarations import INPUT_KEYS
from whyrun.workflow.parsing.file import WORKFLOW_KEYS
from whyrun.workflow.parsing.imports import IMPORT_KEYS
from whyrun.workflow.parsing.job_keys import JOB_KEYS, RETRIES_KEYS
from whyrun.workflow.parsing.loops import LOOP_KEYS
from whyrun.workflow.parsing.outputs import OUTPUT_KEYS
from whyrun.workflow.parsing.parse import read_workflow

GOOD = """\
workflow: study
inputs:
  Topic: {type: string, default: tea}
  Reads: {type: "file[]", default: reads/*.txt}
  Sheet: {type: file, default: sheet.csv}
  Flag: {type: boolean, default: true}
loops:
  s: {each: inputs.Reads}
jobs:
  Trim:
    for: [s]
    uses: shell
    with:
      topic: ${{ inputs.Topic }}
      read: ${{ inputs.Reads[s] }}
      run: cp "$read" "$out_Text"
    outputs: {Text: {type: text, path: "out/${{ s }}.txt"}, Size: {type: integer}}
  Merge:
    uses: shell
    if: ${{ inputs.Flag }}
    with:
      texts: ${{ jobs.Trim.outputs.Text[:] }}
      run: |
        cat "${texts[@]}" > "$out_All"
    outputs: {All: {type: text}}
"""


class Case(NamedTuple):
    """`wrong` stands where `right` was in the good file. `write`: what the hint says to write; it is in `right`."""

    right: str
    wrong: str
    code: str
    line: int
    column: int
    hint: str  # whole
    mended: str = ""  # what stands there after following the hint; default: `right`


CASES = {
    # --- almost an expression ---
    "braces without a dollar": Case(
        "topic: ${{ inputs.Topic }}", "topic: {{ inputs.Topic }}", "YAML_SYNTAX", 14, 14,
        'write `"${{ inputs.Topic }}"`, in quotes', 'topic: "${{ inputs.Topic }}"',
    ),
    "braces without a dollar, with an index": Case(
        "read: ${{ inputs.Reads[s] }}", "read: {{ inputs.Reads[s] }}", "YAML_SYNTAX", 15, 13,
        'write `"${{ inputs.Reads[s] }}"`, in quotes', 'read: "${{ inputs.Reads[s] }}"',
    ),
    "braces without a dollar, in quotes": Case(
        "topic: ${{ inputs.Topic }}", 'topic: "on {{ inputs.Topic }}"', "EXPRESSION_SYNTAX", 14, 18,
        "write `${{ inputs.Topic }}`", 'topic: "on ${{ inputs.Topic }}"',
    ),
    "one brace": Case(
        "topic: ${{ inputs.Topic }}", "topic: ${ inputs.Topic }", "EXPRESSION_SYNTAX", 14, 14,
        "write `${{ inputs.Topic }}`",
    ),
    "one brace in a flow map": Case(
        '{Text: {type: text, path: "out/${{ s }}.txt"}', "{Text: {type: text, path: ${ s }}", "YAML_SYNTAX", 17, 40,
        'write `"${{ s }}"`, in quotes', '{Text: {type: text, path: "${{ s }}"}',
    ),
    "a loop variable in a path": Case(
        '"out/${{ s }}.txt"', '"out/{{ s }}.txt"', "EXPRESSION_SYNTAX", 17, 45, "write `${{ s }}`"
    ),
    "a loop variable as a whole value": Case(
        "topic: ${{ inputs.Topic }}", 'topic: "{{ s }}"', "EXPRESSION_SYNTAX", 14, 15, "write `${{ s }}`",
        'topic: "${{ s }}"',
    ),
    "braces in a script": Case(
        'run: cp "$read" "$out_Text"', 'run: cp {{ inputs.Reads }} "$out_Text"', "EXPRESSION_FORBIDDEN", 16, 15,
        'write `reads: ${{ inputs.Reads }}` under `with:`, and `"$reads"` in the script',
        'reads: ${{ inputs.Reads }}\n      run: cp "$reads" "$out_Text"',
    ),
    "a condition without braces": Case(
        "if: ${{ inputs.Flag }}", "if: inputs.Flag", "WRONG_TYPE", 20, 9, "write `if: ${{ inputs.Flag }}`"
    ),
    "a condition that goes on behind its braces": Case(
        "if: ${{ inputs.Flag }}", 'if: ${{ inputs.Topic }} == "tea"', "WRONG_TYPE", 20, 9,
        'write `if: ${{ inputs.Topic == "tea" }}`', 'if: ${{ inputs.Topic == "tea" }}',
    ),
    "a condition with other braces": Case(
        "if: ${{ inputs.Flag }}", 'if: "{{ inputs.Flag }}"', "EXPRESSION_SYNTAX", 20, 10,
        "write `${{ inputs.Flag }}`",
    ),
    "a source with braces": Case(
        "{each: inputs.Reads}", "{each: '{{ inputs.Reads }}'}", "EXPRESSION_FORBIDDEN", 8, 13, "write `inputs.Reads`"
    ),
    "a star as in other tools": Case(
        "Text[:] }}", "Text[*] }}", "EXPRESSION_SYNTAX", 22, 42, "write `[:]` for all"
    ),
    "and as in other languages": Case(
        "if: ${{ inputs.Flag }}", "if: ${{ inputs.Flag && inputs.Flag }}", "EXPRESSION_SYNTAX", 20, 26, "write `and`",
        "if: ${{ inputs.Flag and inputs.Flag }}",
    ),
    "not as in other languages": Case(
        "if: ${{ inputs.Flag }}", "if: ${{ !inputs.Flag }}", "EXPRESSION_SYNTAX", 20, 13, "write `not`",
        "if: ${{ not inputs.Flag }}",
    ),
    "one sign of equality": Case(
        "if: ${{ inputs.Flag }}", "if: ${{ inputs.Topic = 'tea' }}", "EXPRESSION_SYNTAX", 20, 26,
        "write `==` to compare", "if: ${{ inputs.Topic == 'tea' }}",
    ),
    "a condition as in C": Case(
        "topic: ${{ inputs.Topic }}", "topic: \"${{ inputs.Flag ? 'a' : 'b' }}\"", "EXPRESSION_SYNTAX", 14, 31,
        "write `a if condition else b`", "topic: \"${{ 'a' if inputs.Flag else 'b' }}\"",
    ),
    # --- a missing colon ---
    "no colon after a key with a map": Case(
        "    with:\n      texts", "    with\n      texts", "YAML_SYNTAX", 21, 5, "write `with:`"
    ),
    "no colon after the name of a job": Case("  Merge:\n", "  Merge\n", "YAML_SYNTAX", 18, 3, "write `Merge:`"),
    "no colon before a value": Case(
        "    uses: shell\n    if", "    uses shell\n    if", "YAML_SYNTAX", 19, 5, "write `uses: shell`"
    ),
    "no blank after a colon": Case(
        "    uses: shell\n    if", "    uses:shell\n    if", "YAML_SYNTAX", 19, 5, "write `uses: shell`"
    ),
    "no colon before a flow map": Case(
        "outputs: {All", "outputs {All", "YAML_SYNTAX", 25, 5, "write `outputs:`"
    ),
    "no colon in a flow map": Case(
        "Topic: {type: str", "Topic: {type str", "UNKNOWN_KEY", 3, 11, "write `type: string`"
    ),
    "no colon before a map in a flow map": Case(
        "{All: {type: text}}", "{All {type: text}}", "YAML_SYNTAX", 25, 15, "write `All:`"
    ),
    "no colon before a block": Case("run: |", "run |", "YAML_SYNTAX", 23, 7, "write `run: |`"),
    "no colon at the top": Case("workflow: study", "workflow study", "YAML_SYNTAX", 1, 1, "write `workflow: study`"),
    "no colon after a section": Case("inputs:\n", "inputs\n", "YAML_SYNTAX", 2, 1, "write `inputs:`"),
    # --- other YAML ---
    "a key that is indented too deep": Case(
        "    if: $", "      if: $", "YAML_SYNTAX", 20, 9,
        "indent it like the line before, or end that line with `:` and nothing after it",
    ),
    "a quote in quotes": Case(
        'run: cp "$read" "$out_Text"', "run: 'echo it's > \"$out_Text\"'", "YAML_SYNTAX", 16, 21,
        "the quote before it ends the text: inside the quotes, write `''` for it", "run: 'echo it''s > \"$out_Text\"'",
    ),
    "a quote that is not closed": Case(
        'run: cp "$read" "$out_Text"', "run: 'cp $read $out_Text", "YAML_SYNTAX", 16, 12, "close it with `'`"
    ),
    "a brace that is not closed": Case(
        "Flag: {type: boolean, default: true}", "Flag: {type: boolean, default: true", "YAML_SYNTAX", 7, 6,
        "close the `{` of line 6 with `}`",
    ),
    "a value that begins with @": Case(
        "topic: ${{ inputs.Topic }}", "topic: @tea", "YAML_SYNTAX", 14, 14,
        "put a value that begins with `@` in quotes", 'topic: "@tea"',
    ),
    "a script behind its mark": Case(
        'run: cp "$read" "$out_Text"', 'run: | cp "$read" "$out_Text"', "YAML_SYNTAX", 16, 14,
        "begin the text in the line below `|`, or put the value in quotes", 'run: |\n        cp "$read" "$out_Text"',
    ),
    "a backslash in double quotes": Case(
        'run: cp "$read" "$out_Text"', 'run: "grep \'\\d\' $read > $out_Text"', "YAML_SYNTAX", 16, 19,
        "in double quotes `\\` begins an escape: use single quotes", "run: 'grep \"\\d\" $read > $out_Text'",
    ),
    # --- a file as a value ---
    "an input file in a condition": Case(
        "if: ${{ inputs.Flag }}", 'if: ${{ inputs.Sheet == "x" }}', "WRONG_TYPE", 20, 13,
        "a condition reads values, not files: give an input of type `string` or `boolean`, or let a job read the file "
        "and declare an output of such a type",
    ),
    "an artifact in a condition": Case(
        "if: ${{ inputs.Flag }}", 'if: ${{ jobs.Trim.outputs.Text[0] == "x" }}', "WRONG_TYPE", 20, 13,
        "a condition reads values: declare the output as one, `Text: {type: string}`",
    ),
    # --- declarations in a short form ---
    "an input without a map": Case(
        "Sheet: {type: file, default: sheet.csv}", "Sheet: sheet.csv", "WRONG_TYPE", 5, 10,
        "write `Sheet: {type: file, default: sheet.csv}`",
    ),
    "a pattern without a map": Case(
        'Reads: {type: "file[]", default: reads/*.txt}', "Reads: reads/*.txt", "WRONG_TYPE", 4, 10,
        'write `Reads: {type: "file[]", default: "reads/*.txt"}`', 'Reads: {type: "file[]", default: "reads/*.txt"}',
    ),
    "a number without a map": Case(
        "Sheet: {type: file, default: sheet.csv}", "Sheet: 3", "WRONG_TYPE", 5, 10,
        "write `Sheet: {type: integer, default: 3}`", "Sheet: {type: integer, default: 3}",
    ),
    "a type without a map": Case(
        "Sheet: {type: file, default: sheet.csv}", "Sheet: file", "WRONG_TYPE", 5, 10, "write `Sheet: {type: file}`",
        "Sheet: {type: file}",
    ),
    "a type of arrays without a map": Case(
        'Reads: {type: "file[]", default: reads/*.txt}', 'Reads: "file[]"', "WRONG_TYPE", 4, 10,
        'write `Reads: {type: "file[]"}`', 'Reads: {type: "file[]"}',
    ),
    "a type of an output without a map": Case(
        "{All: {type: text}}", "{All: integer}", "WRONG_TYPE", 25, 20, "write `All: {type: integer}`",
        "{All: {type: integer}}",
    ),
    "one need without a list": Case(
        "    if: ${{ inputs.Flag }}\n", "    if: ${{ inputs.Flag }}\n    needs: Trim\n", "WRONG_TYPE", 21, 12,
        "write `needs: [Trim]`", "    if: ${{ inputs.Flag }}\n    needs: [Trim]\n",
    ),
    "one secret without a list": Case(
        "    if: ${{ inputs.Flag }}\n", "    if: ${{ inputs.Flag }}\n    secrets: TOKEN\n", "WRONG_TYPE", 21, 14,
        "write `[TOKEN]`", "    if: ${{ inputs.Flag }}\n    secrets: [TOKEN]\n",
    ),
    "a boolean of an older YAML": Case(
        "    if: ${{ inputs.Flag }}\n", "    if: ${{ inputs.Flag }}\n    deterministic: no\n", "WRONG_TYPE", 21, 20,
        "write `false`", "    if: ${{ inputs.Flag }}\n    deterministic: false\n",
    ),
    "a number in quotes": Case(
        "    if: ${{ inputs.Flag }}\n", "    if: ${{ inputs.Flag }}\n    retries: '3'\n", "WRONG_TYPE", 21, 14,
        "write `3`, without quotes", "    if: ${{ inputs.Flag }}\n    retries: 3\n",
    ),
    "a duration in words": Case(
        "    if: ${{ inputs.Flag }}\n", "    if: ${{ inputs.Flag }}\n    timeout: 5 minutes\n", "WRONG_TYPE", 21, 14,
        "write `5m`", "    if: ${{ inputs.Flag }}\n    timeout: 5m\n",
    ),
    "outputs in a list": Case(
        "{All: {type: text}}", "[All]", "WRONG_TYPE", 25, 14, "write `outputs: {All: {type: file}}`",
        "{All: {type: file}}",
    ),
    "a path of an output without a map": Case(
        "{All: {type: text}}", "{All: out/all.txt}", "WRONG_TYPE", 25, 20,
        'write `All: {type: file, path: "out/all.txt"}`', '{All: {type: file, path: "out/all.txt"}}',
    ),
    "a loop without a map": Case(
        "s: {each: inputs.Reads}", "s: inputs.Reads", "WRONG_TYPE", 8, 6, "write `{each: inputs.Reads}`"
    ),
    "a loop over a pattern": Case(
        "s: {each: inputs.Reads}", "s: {values: reads/*.txt}", "WRONG_TYPE", 8, 15,
        'declare the files as an input, `Files: {type: "file[]", default: "reads/*.txt"}`, and write '
        "`each: inputs.Files`",
    ),
    "one value for a list": Case(
        "Topic: {type: string, default: tea}", 'Topic: {type: "string[]", default: tea}', "INPUT_TYPE", 3, 38,
        "write `[tea]`", 'Topic: {type: "string[]", default: [tea]}',
    ),
    "a type of another language": Case("type: boolean", "type: bool", "WRONG_TYPE", 6, 16, "write `boolean`"),
    "an array of a type of another language": Case(
        "Flag: {type: boolean, default: true}", 'Flag: {type: "float[]", default: [1]}', "WRONG_TYPE", 6, 16,
        "write `number[]`", 'Flag: {type: "number[]", default: [1]}',
    ),
    "a job without a map": Case(
        "    uses: shell\n    if: ${{ inputs.Flag }}\n    with:\n      texts: ${{ jobs.Trim.outputs.Text[:] }}\n"
        '      run: |\n        cat "${texts[@]}" > "$out_All"\n    outputs: {All: {type: text}}\n',
        "    uses shell\n", "WRONG_TYPE", 19, 5, "write `uses: shell`", "    uses: shell\n",
    ),
}  # fmt: skip


def problems(text: str) -> tuple[Diagnostic, ...]:
    return read_workflow("w.yaml", {"w.yaml": text}.__getitem__).problems


def test_the_file_without_mistakes_has_none() -> None:
    assert problems(GOOD) == ()


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_shown_at_its_place_with_a_hint_that_mends_it(name: str) -> None:
    case = CASES[name]
    assert GOOD.count(case.right) == 1
    (found,) = problems(GOOD.replace(case.right, case.wrong))
    assert (found.code, found.line, found.column, found.hint) == (case.code, case.line, case.column, case.hint)
    assert problems(GOOD.replace(case.right, case.mended or case.right)) == ()


@pytest.mark.parametrize(
    "value",
    [
        '"tell {{ name }} about {{ topic }}"',  # a template of the action
        '"a ${HOME} and ${x}"',
        "${{ '{{ inputs.Topic }}' }}",  # so such a text is written
        "${{ inputs.Topic }} in {braces}",
        '"see {{ inputs.Nope }} in our guide"',  # names nothing of this workflow
    ],
)
def test_text_in_braces_that_names_nothing_is_text(value: str) -> None:
    assert problems(GOOD.replace("topic: ${{ inputs.Topic }}", f"topic: {value}")) == ()


# --- words of other tools ----------------------------------------------------------------------------------------

OWN = {
    "workflow": names_of(WORKFLOW_KEYS),
    "job": names_of(JOB_KEYS),
    "input": names_of(INPUT_KEYS),
    "loop": names_of(LOOP_KEYS),
    "output": names_of(OUTPUT_KEYS),
    "import": names_of(IMPORT_KEYS),
    "retries": names_of(RETRIES_KEYS),
    "type": BASE_TYPES,
    "uses": ("shell", "python"),
    "with": names_of(JOB_KEYS),
    "parameter": ("keys", "primary_dataset", "secondary_dataset", "how", "query"),
}


def test_no_word_of_ours_is_foreign_and_every_hint_leads_to_words_of_ours() -> None:
    words = [(place, word) for place, _, text, _ in _ROWS for word in text.split()]
    assert len(words) == len(set(words)), "a word stands in two rows of one place"
    for place, ours, text, hint in _ROWS:
        assert place == "with" or not set(text.split()) & set(OWN[place]), place
        assert ours == "" or ours in OWN[place], ours
        imperative = ("write", "remove it", "declare", "name ", "give", "Whyrun ", "an ", "a job")
        assert hint.startswith(imperative), hint


KEYS = {
    # word → place in the good file, what a newcomer adds, what the hint leads to
    "conda": ("conda: envs/a.yaml", "environment: {python: requirements.txt}"),
    "singularity": ("singularity: docker://alpine", 'container: {image: "debian:12"}'),
    "threads": ("threads: 4", "resources: {threads: 4}"),
    "input": ("input: data.csv", ""),
    "log": ("log: logs/a.txt", ""),
    "benchmark": ("benchmark: b.txt", ""),
    "depends_on": ("depends_on: [Trim]", "needs: [Trim]"),
    "retry": ("retry: 2", "retries: 2"),
    "timeout-minutes": ("timeout-minutes: 5", "timeout: 5m"),
    "runs-on": ("runs-on: ubuntu-latest", ""),
    "wdir": ("wdir: data", ""),
    "name": ("name: all of them", "description: all of them"),
    "variables": ("variables: {A: b}", "env: {A: b}"),
    "cache": ("cache: true", ""),
    "priority": ("priority: 5", ""),
    "when": ("when: always", "if: ${{ inputs.Flag }}"),
}


@pytest.mark.parametrize("word", KEYS)
def test_a_word_of_another_tool_in_a_job_gets_the_hint_of_the_table_and_no_follow_up(word: str) -> None:
    written, mended = KEYS[word]
    job = "  Other:\n    {}\n    uses: shell\n    with: {{run: 'true'}}\n"
    (found,) = problems(GOOD + job.format(written))
    assert (found.code, found.line, found.column) == ("UNKNOWN_KEY", 27, 5)
    assert found.hint == foreign_words("job")[word].hint
    assert problems(GOOD + job.format(mended or "tags: []")) == ()


def test_a_snakemake_rule_is_told_word_for_word() -> None:
    rule = """\
workflow: study
samples: [a, b]
rules:
  all: {input: out.txt}
"""
    assert [(d.code, d.line, d.hint) for d in problems(rule)] == [
        ("UNKNOWN_KEY", 2, "declare loops: `loops: {sample: {each: inputs.NAME}}`"),
        ("UNKNOWN_KEY", 3, "write jobs under `jobs:`"),
    ]
    job = """\
workflow: study
inputs: {A: {type: file, path: a.txt}, N: {kind: integer, default: 3}}
loops: {s: {in: inputs.A}}
jobs:
  Sort:
    input: a.txt
    output: b.txt
    shell: sort {input} > {output}
    uses: shell
  Next:
    uses: shell
    with: {b: "${{ jobs.Sort.outputs.B }}", n: "${{ inputs.N }}", run: "true"}
"""
    assert [(d.code, d.line, d.column) for d in problems(job)] == [
        ("WRONG_TYPE", 2, 32),
        ("UNKNOWN_KEY", 2, 44),
        ("UNKNOWN_KEY", 3, 13),
        ("UNKNOWN_KEY", 6, 5),
        ("UNKNOWN_KEY", 7, 5),
        ("UNKNOWN_KEY", 8, 5),
    ]


@pytest.mark.parametrize("key", ["uses", "with", "outputs", "retries", "timeout", "env"])
def test_a_key_of_a_job_at_the_top_is_sent_to_the_job(key: str) -> None:
    (found,) = problems(GOOD + f"{key}: x\n")
    for_all = "" if key in ("with", "outputs") else ", or under `defaults:` for all jobs"
    hint = f"`{key}` is a key of a job: write it below the name of the job{for_all}"
    assert (found.code, found.hint) == ("UNKNOWN_KEY", hint)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("conda: env.yml", "write `environment: {python: requirements.txt}` in a job, or under `defaults:` for all "
         "jobs; for other packages, activate the environment and start `whyrun` in it"),
        ("singularity: x", 'write `container: {image: "debian:12"}` in a job, or under `defaults:` for all jobs'),
        ("threads: 4", "write `resources: {threads: 4}` in a job, or under `defaults:` for all jobs, and give a limit: "
         "`whyrun run --limit threads=8`"),
        ("container: {image: x}", "`container` is a key of a job: write it below the name of the job, or under "
         "`defaults:` for all jobs"),
    ],
)  # fmt: skip
def test_what_a_step_runs_in_is_said_at_the_job_and_not_at_the_top(line: str, hint: str) -> None:
    (found,) = problems(f"workflow: w\n{line}\njobs: {{}}\n")
    assert (found.code, found.line, found.hint) == ("UNKNOWN_KEY", 2, hint)


@pytest.mark.parametrize("key", ["container", "environment", "timeout", "resources", "env"])
def test_a_key_of_a_job_that_stands_in_an_output_is_sent_beside_it(key: str) -> None:
    text = f"workflow: w\njobs:\n  J: {{uses: shell, with: {{run: x}}, outputs: {{T: {{type: file, {key}: 1}}}}}}\n"
    (found,) = problems(text)
    assert (found.code, found.hint) == ("UNKNOWN_KEY", f"write `{key}:` beside `outputs:`, as a key of the job")


def test_a_misspelled_type_of_an_array_keeps_its_brackets() -> None:
    text = GOOD.replace('"file[]"', '"fiel[]"')
    first, *_ = read_workflow("workflow.yaml", lambda key: text).problems
    assert (first.code, first.hint) == ("WRONG_TYPE", "did you mean `file[]`?")
