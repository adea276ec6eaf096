"""Issue 20: every mistake in the keys of an import, and in what it hands in, with the hint that mends it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from test_imports_with_keys import FILES, MAIN

from project_lab import Lab
from whyrun.errors import WhyrunError
from whyrun.facts.subjects import find_subjects

Make = Callable[..., Lab]
PORTRAIT = '"${{ jobs.Image.outputs.Image[celebrity] }}"'
STYLE = 'Style: "as ${{ celebrity }}"'
CLIPS = "write `jobs.Video.Clip.outputs.Got[:, :]`"
FOR = "    for: [celebrity]\n    if"


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (FOR, "    for: [celebrty]\n    if",
         ("UNKNOWN_LOOP", 9, "there is no loop `celebrty`", "did you mean `celebrity`?")),
        (FOR, "    for: celebrity\n    if",
         ("WRONG_TYPE", 9, "`for` of import `Video` is a string, not a list", "write `for: [celebrity]`")),
        (FOR, "    fore: [celebrity]\n    if",
         ("UNKNOWN_KEY", 9, "import `Video` has no key `fore`", "did you mean `for`?")),
        ("needs: [Prepare]", "needs: [Prepar]",
         ("UNKNOWN_REFERENCE", 11, "there is no job `Prepar`", "did you mean `Prepare`?")),
        ("needs: [Prepare]", "needs: [Video]", ("CYCLE", 11, "import `Video` needs itself", "remove it")),
        ("if: ${{ inputs.WithVideo }}", "if: inputs.WithVideo",
         ("WRONG_TYPE", 10, "`if` of import `Video` is not an expression", "write `if: ${{ inputs.WithVideo }}`")),
        (PORTRAIT, '"${{ jobs.Image.outputs.Image }}"',
         ("LOOP_MISMATCH", 12, "job `Image` runs for [celebrity]: its output `Image` needs an index",
          "write `Image[celebrity]` for one, `Image[:]` for all")),
        (PORTRAIT, '"${{ jobs.Image.outputs.Image[:] }}"',
         ("INPUT_TYPE", 12, "input `Portrait` of import `Video`: `text` is expected, and "
          "`jobs.Image.outputs.Image[:]` is `text[]`",
          "declare both with one type: the input in its file, or the output that it gets")),
        (PORTRAIT, '"${{ first(jobs.Image.outputs.Image[celebrity], jobs.Image.outputs.Image[celebrity]) }}"',
         ("EXPRESSION_FORBIDDEN", 12, "input `Portrait` of import `Video` is computed from results of jobs",
          "hand in one whole result, `${{ jobs.JOB.outputs.OUTPUT }}`, and compute in a job")),
        (STYLE, 'Style: "${{ inputs.Names[celebrity-1] }}"',
         ("EXPRESSION_FORBIDDEN", 12, "input `Style` of import `Video` takes the neighbour `[celebrity-1]`, which the "
          "first or last one lacks", "let a job of this workflow choose with `first(…)`, and hand in its result")),
        ("jobs.Video.Clip.outputs.Got[:, :]", "jobs.Video/Clip.outputs.Got[:, :]",
         ("UNKNOWN_REFERENCE", 31, "`jobs.Video/Clip.outputs.Got[:, :]` is no reference", CLIPS)),
        ("jobs.Video.Clip.outputs.Got[:, :]", "jobs.Video[:].Clip.outputs.Got[:]",
         ("UNKNOWN_REFERENCE", 31, "`jobs.Video[:].Clip.outputs.Got[:]` is no reference", CLIPS)),
        ("jobs.Video.Clip.outputs.Got[:, :]", "imports.Video.Clip.outputs.Got[:, :]",
         ("UNKNOWN_REFERENCE", 31, "`imports.Video.Clip.outputs.Got[:, :]` is no reference", CLIPS)),
        ("jobs.Video.Clip.outputs.Got[:, :]", "imports.Video.Clip.outputs.Got",
         ("UNKNOWN_REFERENCE", 31, "`imports.Video.Clip.outputs.Got` is no reference", CLIPS)),
        (PORTRAIT, "jobs.Image.outputs.Image",
         ("INPUT_TYPE", 12, "input `Portrait` of import `Video` is a text, and `jobs.Image.outputs.Image` is a text",
          "write `${{ jobs.Image.outputs.Image }}` for what it names")),
        ("jobs.Video.Film.outputs.Got[celebrity]", "jobs.Video.Film.outputs.Got",
         ("LOOP_MISMATCH", 23, "job `Video/Film` runs for [celebrity]: its output `Got` needs an index",
          "write `Got[celebrity]` for one, `Got[:]` for all")),
    ],
)  # fmt: skip
def test_keys_and_values(project: Make, old: str, new: str, found: tuple[str, int, str, str]) -> None:
    assert MAIN.count(old) == 1
    problems = project(MAIN.replace(old, new), FILES).opened().problems
    assert [(d.code, d.line, d.message, d.hint) for d in problems] == [found]


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("Job:Video", "UNKNOWN_REFERENCE", "it is an import: name one of its jobs, such as `Job:Video[ada]/Clip[0]`, "
         "or all with `Job:Video[*]/*[*]` and `Job:Video[*]/*`"),
        ("Job:Video[*]", "UNKNOWN_REFERENCE", "it is an import: name one of its jobs, such as "
         "`Job:Video[ada]/Clip[0]`, or all with `Job:Video[*]/*[*]` and `Job:Video[*]/*`"),
        ("Job:Video[bob]", "UNKNOWN_REFERENCE", "it is an import: name one of its jobs, such as "
         "`Job:Video[bob]/Clip[0]`, or all with `Job:Video[bob]/*[*]` and `Job:Video[bob]/*`"),
        ("Video[bob]", "NAME_INVALID", "it is an import: name one of its jobs, such as `Job:Video[bob]/Clip[0]`, or "
         "all with `Job:Video[bob]/*[*]` and `Job:Video[bob]/*`"),
        ("Job:Video[eve]", "UNKNOWN_REFERENCE", "the import has `Video[ada]` to `Video[bob]`: name one of its jobs, "
         "such as `Job:Video[ada]/Clip[0]`, or all with `Job:Video[*]/*[*]` and `Job:Video[*]/*`"),
        ("Artifact:Video[bob]", "UNKNOWN_REFERENCE", "it is an import: name one of its artifacts, such as "
         "`Artifact:Video[bob]/Clip.Got[0]`, or all with `Artifact:Video[bob]/*.Got[*]` and "
         "`Artifact:Video[bob]/*.Got`"),
        ("Job:Video.Film[bob]", "UNKNOWN_REFERENCE", "write `Job:Video[bob]/Film`"),
        ("Artifact:Video.Clip.Got[bob][1]", "UNKNOWN_REFERENCE", "write `Artifact:Video[bob]/Clip.Got[1]`"),
        ("Input:Video[ada]/Portrait", "UNKNOWN_REFERENCE", "it is `Artifact:Image.Image[ada]`"),
        ("Input:Video/Portrait", "UNKNOWN_REFERENCE", "it is `Artifact:Image.Image[*]`"),
    ],
)  # fmt: skip
def test_hints_for_the_name_of_an_import_lead_to_an_id(project: Make, text: str, code: str, hint: str) -> None:
    graph = project(MAIN, FILES).opened().graph
    with pytest.raises(WhyrunError) as caught:
        find_subjects(graph, text)
    assert [(d.code, d.hint) for d in caught.value.diagnostics] == [(code, hint)]
    for id_ in re.findall("`((?:Job|Artifact):[^`]*)`", hint):
        assert find_subjects(graph, id_), id_


FEEDS = """\
workflow: w
loops: {s: {values: [a, b]}}
imports:
  V:
    workflow: ./v.yaml
    with: {X: "${{ jobs.J.outputs.Story }}", L: "${{ jobs.J.outputs.Parts }}", F: "${{ jobs.K.outputs.P[:] }}",
           S: "${{ jobs.J.outputs.S }}"}
jobs:
  J:
    uses: shell
    with: {run: "true"}
    outputs: {Story: {type: json, leaves: {Title: string}}, Parts: {type: "file[]"}, S: {type: string}}
  K: {for: [s], uses: shell, with: {run: "true"}, outputs: {P: {type: file}}}
"""
FED = """\
workflow: v
inputs:
  X: {type: json}
  L: {type: "file[]"}
  F: {type: "file[]"}
  S: {type: string}
  Q: {type: file, default: q.txt}
loops: {l: {each: inputs.L}}
imports: {I: {workflow: ./i.yaml, with: {A: "${{ inputs.S }}"}}}
jobs:
  A:
    for: [l]
    uses: shell
    with:
      title: "${{ inputs.X.Title }}"
      part: "${{ inputs.L[l] }}"
      all: "${{ inputs.F }}"
      said: "say ${{ inputs.S }}"
      run: "true"
    outputs: {O: {type: file, path: "o-${{ l }}.txt"}}
"""
INNER = """\
workflow: i
inputs: {A: {type: string}}
jobs:
  Z: {uses: shell, with: {a: "${{ inputs.A }}", run: "true"}, outputs: {O: {type: string}}}
"""
OTHERS = {"i.yaml": INNER, "q.txt": "q"}
BEFORE = "uses it before any job runs"


def test_an_input_that_a_result_feeds_is_that_result(project: Make) -> None:
    lab = project(FEEDS, {**OTHERS, "v.yaml": FED})
    for text, fed_by in (("V/I/A", "J.S"), ("V/X", "J.Story"), ("V/F", "K.P[*]")):
        with pytest.raises(WhyrunError) as caught:
            find_subjects(lab.opened().graph, f"Input:{text}")
        assert [d.hint for d in caught.value.diagnostics] == [f"it is `Artifact:{fed_by}`"]
    plan = lab.plan()
    bindings = {job.id: job.bindings for job in plan.jobs}
    assert bindings["Job:V/I/Z"] == {"a": "Artifact:J.S"}  # handed on, it has no name of the files between
    assert plan.headlines()["Job:V/I/Z"] == "MISSING_OUTPUT"
    (open_entry,) = [job for job in plan.jobs if job.state == "open"]
    assert (open_entry.id, [reason.code for reason in open_entry.reasons]) == ("Job:V/A[?]", ["UPSTREAM_DIRTY"])


@pytest.mark.parametrize(
    ("old", "new", "code", "message", "hint"),
    [
        ("inputs.X.Title", "inputs.X.Titl", "UNKNOWN_REFERENCE",
         "`with.title` of job `A` reads `inputs.X.Titl`, and `jobs.J.outputs.Story` has no such leaf "
         "(declared: `Title`)",
         'declare it where the output is made: `Story: {type: json, leaves: {"Titl": string}}`'),
        ("say ${{ inputs.S }}", "say ${{ inputs.X }}", "EXPRESSION_FORBIDDEN",
         "`with.said` of job `A` computes with `inputs.X`, and the value of a whole JSON output is not recorded",
         "declare the part that is read as a leaf of the output, and hand in the leaf"),
        ("inputs.L[l]", "inputs.L[l-1]", "EXPRESSION_FORBIDDEN",
         "`with.part` of job `A` picks `inputs.L[l-1]`, and no neighbour of an element is known before a job makes it",
         "take the element itself, or all of them with `[:]`"),
        ("inputs.F }}", "inputs.F[0] }}", "LOOP_MISMATCH",
         "`with.all` of job `A` picks `inputs.F[0]` of many results, which have no indices inside the import",
         "take the whole input, or hand in one output that is an array: `jobs.JOB.outputs.OUTPUT`"),
        ("inputs.F }}", "named(inputs.F[:]) }}", "EXPRESSION_FORBIDDEN",
         "`with.all` of job `A` uses `named` with the input `F`, which gets a result of a job",
         "use `named` in the workflow whose job makes the results"),
        ("each: inputs.L", "each: inputs.F", "LOOP_MISMATCH",
         "the loop `l` goes over the input `F`, which gets many results",
         "run the import for the loop that makes them, or hand in one output that is an array"),
        ("each: inputs.L", 'count: "${{ len(inputs.L) }}"', "EXPRESSION_FORBIDDEN",
         f"the input `L` gets a result of a job, and `count` of the loop `l` {BEFORE}",
         "let a job compute the number, hand that in, and write `count: inputs.NAME`"),
        ("o-${{ l }}.txt", "o-${{ l }}-${{ inputs.S }}.txt", "EXPRESSION_FORBIDDEN",
         f"the input `S` gets a result of a job, and `path:` of job `A` {BEFORE}",
         "give it a value, or an input of this workflow"),
        ("uses: shell", 'uses: "${{ inputs.S }}"', "EXPRESSION_FORBIDDEN",
         f"the input `S` gets a result of a job, and `uses:` of job `A` {BEFORE}",
         "give it a value, or an input of this workflow"),
        ("default: q.txt", 'for: [l], path: "${{ inputs.S }}.txt"', "EXPRESSION_FORBIDDEN",
         f"the input `S` gets a result of a job, and `path:` of the input `Q` {BEFORE}",
         "give it a value, or an input of this workflow"),
        ('A: "${{ inputs.S }}"', 'A: "x ${{ inputs.S }}"', "EXPRESSION_FORBIDDEN",
         f"the input `S` gets a result of a job, and `with.A` of import `I` {BEFORE}",
         "give it a value, or an input of this workflow"),
        ('L: {type: "file[]"}', 'L: {type: "file[]", key: name}', "INPUT_TYPE",
         "the input `L` has `key: name`, and the elements of a result have keys already",
         "remove its `key:`, or write `key: stem`"),
    ],
)  # fmt: skip
def test_what_a_result_cannot_be(project: Make, old: str, new: str, code: str, message: str, hint: str) -> None:
    assert FED.count(old) == 1
    (only,) = project(FEEDS, {**OTHERS, "v.yaml": FED.replace(old, new)}).opened().problems
    assert (only.code, only.message, only.hint) == (code, message, hint)
    assert only.file is not None
    assert only.file.endswith("workflow.yaml")  # where it is handed in


def test_what_a_loop_lacks_is_said_of_the_import(project: Make) -> None:
    text = FEEDS.replace('S: "${{ jobs.J.outputs.S }}"', 'S: "${{ s }}"')
    (only,) = project(text, {**OTHERS, "v.yaml": FED}).opened().problems
    assert (only.code, only.message, only.hint) == (
        "UNKNOWN_LOOP", "the loop `s` is not in this import's `for:`", "add it: `for: [s]`",
    )  # fmt: skip


def test_a_result_of_an_import_is_found_by_its_output(project: Make) -> None:
    main = "jobs: {K: {uses: shell, with: {run: 'true', x: '${{ jobs.V.outputs.O }}'}}}"
    text = "workflow: w\nimports: {V: {workflow: ./i.yaml, with: {A: a}}}\n" + main
    (only,) = project(text, {"i.yaml": INNER}).opened().problems
    assert (only.message, only.hint) == ("`jobs.V.outputs.O` is no reference", "write `jobs.V.Z.outputs.O`")
    assert project(text.replace("V.outputs", "V.Z.outputs"), {"i.yaml": INNER}).opened().problems == ()


def test_loops_over_results_are_not_for_imports(project: Make) -> None:
    text = FEEDS.replace("  V:\n", "  V:\n    for: [s]\n").replace("{values: [a, b]}", "{each: jobs.J.outputs.Parts}")
    (only,) = project(text, {**OTHERS, "v.yaml": FED}).opened().problems
    assert (only.code, only.message, only.hint) == (
        "LOOP_MISMATCH",
        "import `V` runs for `s`, whose values are known only in a run",
        "run it once and hand in the list that `s` goes over; the imported workflow has the loop",
    )


def test_an_action_by_an_input_is_one_for_all_indices(project: Make) -> None:
    child = 'workflow: c\ninputs: {M: {type: string}}\njobs:\n  J: {uses: "${{ inputs.M }}", with: {run: "true"}}\n'
    main = (
        "workflow: w\nloops: {x: {values: [shell, python]}}\njobs: {}\n"
        'imports: {C: {workflow: ./c.yaml, for: [x], with: {M: "${{ x }}"}}}\n'
    )
    found = project(main, {"c.yaml": child}).opened().problems
    assert found[0].message == (
        "`uses` of job `J` is not the same at all indices of its import: `shell` in `C[shell]` and `python` in "
        "`C[python]`"
    )
    assert found[0].hint == "write an import for each action"


def test_an_import_cannot_run_for_a_list_that_was_handed_in(project: Make) -> None:
    """Whether the import that gets the list runs once, or for each index of a loop."""
    repeated = FED.replace("./i.yaml, with", "./i.yaml, for: [l], with")
    each = FEEDS.replace("P: {type: file}", 'P: {type: file}, Q: {type: "file[]"}')
    each = each.replace("jobs.J.outputs.Parts }}", "jobs.K.outputs.Q[s] }}").replace(
        "./v.yaml", "./v.yaml\n    for: [s]"
    )
    for text in (FEEDS, each):
        (only,) = project(text, {**OTHERS, "v.yaml": repeated}).opened().problems
        message = "the input `L` gets a result of a job, and import `I` runs for `l` over it"
        hint = "hand the list on to import `I`, whose workflow has the loop; or give it an input"
        assert (only.code, only.message, only.hint) == ("LOOP_MISMATCH", message, hint)
