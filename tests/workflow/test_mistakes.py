"""One mistake each, and the whole text that the user sees."""

from __future__ import annotations

import pytest

from whyrun.errors import InvalidError
from whyrun.workflow.parsing.parse import parse_workflow

HEAD = """\
workflow: demo
inputs:
  Photos: {type: "image[]"}
  Topic: {type: string}
  Grid: {type: "integer[][]"}
loops:
  photo: {each: inputs.Photos}
  part: {count: 2}
  net: {values: [asia, cancer]}
jobs:
  Story:
    uses: python
    outputs: {Text: {type: json, leaves: {"Parts[part].Title": string}}}
  Image:
    for: [photo]
    uses: python
    outputs: {Image: {type: image}}
"""


def rendered(text: str, **others: str) -> str:
    sources = {"w.yaml": text, **{name.replace("_", ".", 1): source for name, source in others.items()}}
    with pytest.raises(InvalidError) as caught:
        parse_workflow("w.yaml", sources.__getitem__)
    return str(caught.value)


def job(body: str) -> str:
    """HEAD and a job `J` whose keys begin in line 19."""
    return HEAD + "  J:\n" + "".join(f"    {line}\n" for line in body.splitlines())


CASES = {
    "unknown input": (
        job("uses: python\nwith: {a: '${{ inputs.Topik }}'}"),
        """\
error[UNKNOWN_REFERENCE] w.yaml:20:27: the workflow has no input `Topik`
   20 |     with: {a: '${{ inputs.Topik }}'}
      |                           ^^^^^
   hint: did you mean `Topic`?""",
    ),
    "unknown output inside first": (
        job("uses: python\nwith:\n  start: ${{ first(jobs.Image.outputs.Imge[0], jobs.Image.outputs.Image[1]) }}"),
        """\
error[UNKNOWN_REFERENCE] w.yaml:21:43: job `Image` has no output `Imge`
   21 |       start: ${{ first(jobs.Image.outputs.Imge[0], jobs.Image.outputs.Image[1]) }}
      |                                           ^^^^
   hint: did you mean `Image`?""",
    ),
    "unknown leaf": (
        job("uses: python\nif: ${{ jobs.Story.outputs.Text.Parts[0].Titel == 'x' }}"),
        """\
error[UNKNOWN_REFERENCE] w.yaml:20:46: output `Text` has no declared leaf `Parts.Titel`
   20 |     if: ${{ jobs.Story.outputs.Text.Parts[0].Titel == 'x' }}
      |                                              ^^^^^
   hint: did you mean `Title`?""",
    ),
    "short name": (
        job('uses: python\nwith: {a: "about ${{ Topic }}"}'),
        """\
error[UNKNOWN_REFERENCE] w.yaml:20:26: there is no `Topic` here
   20 |     with: {a: "about ${{ Topic }}"}
      |                          ^^^^^
   hint: did you mean `inputs.Topic`?""",
    ),
    "wrong case": (
        job("uses: python\nwith: {a: '${{ inputs.topic }}'}"),
        """\
error[UNKNOWN_REFERENCE] w.yaml:20:27: the workflow has no input `topic`
   20 |     with: {a: '${{ inputs.topic }}'}
      |                           ^^^^^
   hint: did you mean `Topic`?""",
    ),
    "parent where an element is due": (
        job("uses: python\nwith: {a: '${{ jobs.Image.outputs.Image }}'}"),
        """\
error[LOOP_MISMATCH] w.yaml:20:39: job `Image` runs for [photo]: its output `Image` needs an index
   20 |     with: {a: '${{ jobs.Image.outputs.Image }}'}
      |                                       ^^^^^
   hint: write `Image[photo]` for one, `Image[:]` for all""",
    ),
    "index where there is no loop": (
        job("uses: python\nwith: {a: '${{ jobs.Story.outputs.Text[0] }}'}"),
        """\
error[LOOP_MISMATCH] w.yaml:20:44: job `Story` has no loop, so its output `Text` has no index
   20 |     with: {a: '${{ jobs.Story.outputs.Text[0] }}'}
      |                                            ^
   hint: remove the index""",
    ),
    "loop that is not in for": (
        job("uses: python\nwith: {a: '${{ inputs.Photos[photo] }}'}"),
        """\
error[UNKNOWN_LOOP] w.yaml:20:34: the loop `photo` is not in this job's `for:`
   20 |     with: {a: '${{ inputs.Photos[photo] }}'}
      |                                  ^^^^^
   hint: add it: `for: [photo]`""",
    ),
    "undeclared loop": (
        job("uses: python\nfor: [phto]"),
        """\
error[UNKNOWN_LOOP] w.yaml:20:11: there is no loop `phto`
   20 |     for: [phto]
      |           ^^^^
   hint: did you mean `photo`?""",
    ),
    "index of a value": (
        job("uses: python\nwith: {a: '${{ inputs.Topic[0] }}'}"),
        """\
error[INDEX_PARENT_NOT_ARRAY] w.yaml:20:33: the input `Topic` has type `string`: there is no array to select from here
   20 |     with: {a: '${{ inputs.Topic[0] }}'}
      |                                 ^
   hint: remove the index, or declare an array type""",
    ),
    "negative index": (
        job("uses: python\nwith: {a: '${{ inputs.Photos[-1] }}'}"),
        """\
error[INDEX_FORMAT_INVALID] w.yaml:20:34: `-1` is not an index of an input array
   20 |     with: {a: '${{ inputs.Photos[-1] }}'}
      |                                  ^^
   hint: elements are counted from 0""",
    ),
    "a file inside a string": (
        job("uses: python\nwith: {a: 'see ${{ inputs.Photos[0] }}'}"),
        """\
error[WRONG_TYPE] w.yaml:20:24: `inputs.Photos[0]` has type `image`: \
expressions and strings cannot contain it
   20 |     with: {a: 'see ${{ inputs.Photos[0] }}'}
      |                        ^^^^^^^^^^^^^^^^
   hint: give it an entry of its own in `with:`, as one whole `${{ … }}`""",
    ),
    "expression in a script": (
        job("uses: shell\nwith:\n  run: |\n    set -x\n    echo ${{ inputs.Topic }}"),
        """\
error[EXPRESSION_FORBIDDEN] w.yaml:23:14: the script of job `J` cannot hold an expression
   23 |         echo ${{ inputs.Topic }}
      |              ^^^^^^^^^^^^^^^^^^^
   hint: write `topic: ${{ inputs.Topic }}` under `with:`, and `"$topic"` in the script""",
    ),
    "mistake in a folded string": (
        job("uses: python\nwith:\n  a: >\n    some text\n    and ${{ inputs.Topic +\n    inputs.Nope }} here"),
        """\
error[UNKNOWN_REFERENCE] w.yaml:24:16: the workflow has no input `Nope`
   24 |         inputs.Nope }} here
      |                ^^^^
   hint: known: `Photos`, `Topic`, `Grid`""",
    ),
    "mistake after an escape": (
        job('uses: python\nwith: {a: "a \\"b\\" ${{ inputs.Nope }}"}'),
        """\
error[UNKNOWN_REFERENCE] w.yaml:20:35: the workflow has no input `Nope`
   20 |     with: {a: "a \\"b\\" ${{ inputs.Nope }}"}
      |                                   ^^^^
   hint: known: `Photos`, `Topic`, `Grid`""",
    ),
    "secret that is not declared": (
        job("uses: python\nsecrets: [TOKEN]\nwith: {a: '${{ secrets.TOKE }}'}"),
        """\
error[UNKNOWN_REFERENCE] w.yaml:21:28: the job does not declare the secret `TOKE`
   21 |     with: {a: '${{ secrets.TOKE }}'}
      |                            ^^^^
   hint: did you mean `TOKEN`?""",
    ),
    "secret in a condition": (
        job("uses: python\nsecrets: [TOKEN]\nif: ${{ secrets.TOKEN }}"),
        """\
error[EXPRESSION_FORBIDDEN] w.yaml:21:13: a secret cannot be used in `if:`
   21 |     if: ${{ secrets.TOKEN }}
      |             ^^^^^^^^^^^^^
   hint: use secrets in `with:` and `env:`""",
    ),
    "secret that is computed with": (
        job("uses: python\nsecrets: [TOKEN]\nwith: {a: '${{ len(secrets.TOKEN) }}'}"),
        """\
error[EXPRESSION_FORBIDDEN] w.yaml:21:24: an expression cannot compute with a secret
   21 |     with: {a: '${{ len(secrets.TOKEN) }}'}
      |                        ^^^^^^^^^^^^^
   hint: use `${{ secrets.NAME }}` alone or inside a longer string""",
    ),
    "job in an output path": (
        job("uses: python\noutputs: {O: {type: file, path: 'o-${{ jobs.Story.outputs.Text }}'}}"),
        """\
error[EXPRESSION_FORBIDDEN] w.yaml:20:44: `jobs` cannot be used in a `path:`
   20 |     outputs: {O: {type: file, path: 'o-${{ jobs.Story.outputs.Text }}'}}
      |                                            ^^^^
   hint: allowed here: `inputs`, `workflow`, `loops`""",
    ),
    "path outside": (
        job("uses: python\noutputs: {O: {type: file, path: ../o.txt}}"),
        """\
error[PATH_OUTSIDE] w.yaml:20:37: the path of output `O` is refused: it leaves the project folder
   20 |     outputs: {O: {type: file, path: ../o.txt}}
      |                                     ^^^^^^^^
   hint: write a path like `out/picture.png`""",
    ),
    "code outside": (
        job("uses: python\ncode: [/etc/*.py]"),
        """\
error[PATH_OUTSIDE] w.yaml:20:12: `/etc/*.py` in `code` is refused: it is not relative to the project folder
   20 |     code: [/etc/*.py]
      |            ^^^^^^^^^
   hint: write `code: [scripts/*.py]`""",
    ),
    "array output": (
        job("uses: python\noutputs: {O: {type: 'file[][]'}}"),
        """\
error[WRONG_TYPE] w.yaml:20:25: output `O` is an array of arrays, which no output can be
   20 |     outputs: {O: {type: 'file[][]'}}
      |                         ^^^^^^^^^^
   hint: make the job run `for:` a loop, and each instance write one array""",
    ),
    "array of booleans": (
        job("uses: python\noutputs: {O: {type: 'boolean[]'}}"),
        """\
error[WRONG_TYPE] w.yaml:20:25: output `O` is an array of `boolean`, which no output can be
   20 |     outputs: {O: {type: 'boolean[]'}}
      |                         ^^^^^^^^^^^
   hint: use `json[]`, or `string[]` with words of your own""",
    ),
    "no such type": (
        job("uses: python\noutputs: {O: {type: imge}}"),
        """\
error[WRONG_TYPE] w.yaml:20:25: there is no type `imge`
   20 |     outputs: {O: {type: imge}}
      |                         ^^^^
   hint: did you mean `image`?""",
    ),
    "an array as other languages have it": (
        "workflow: w\ninputs:\n  A: {type: array}\n  B: {type: '[string]'}\n  C: {type: list}\njobs: {}\n",
        """\
error[WRONG_TYPE] w.yaml:3:13: there is no type `array`
    3 |   A: {type: array}
      |             ^^^^^
   hint: an array of strings is a `string[]`
error[WRONG_TYPE] w.yaml:4:13: there is no type `[string]`
    4 |   B: {type: '[string]'}
      |             ^^^^^^^^^^
   hint: an array of strings is a `string[]`
error[WRONG_TYPE] w.yaml:5:13: there is no type `list`
    5 |   C: {type: list}
      |             ^^^^
   hint: an array of strings is a `string[]`""",
    ),
    "a loop declared where it is named": (
        job("uses: python\nfor: [{x: inputs.A}]"),
        """\
error[WRONG_TYPE] w.yaml:20:11: a loop is a map, not a string
   20 |     for: [{x: inputs.A}]
      |           ^^^^^^^^^^^^^
   hint: write its name, and declare the loop under `loops:` of the workflow""",
    ),
    "unknown key of a job": (
        job("uses: python\nsandbocks: {}"),
        """\
error[UNKNOWN_KEY] w.yaml:20:5: job `J` has no key `sandbocks`
   20 |     sandbocks: {}
      |     ^^^^^^^^^
   hint: did you mean `sandbox`?""",
    ),
    "sandbox with an unknown key": (
        job("uses: python\nsandbox: {netwrok: true}"),
        """\
error[UNKNOWN_KEY] w.yaml:20:15: there is no `netwrok` in `sandbox`
   20 |     sandbox: {netwrok: true}
      |               ^^^^^^^
   hint: did you mean `network`?""",
    ),
    "sandbox without a size": (
        job("uses: python\nsandbox: {memory: much}"),
        """\
error[WRONG_TYPE] w.yaml:20:23: `memory` in `sandbox` of job `J` is not a size (`2GB`) from 64MB to 1,000TB
   20 |     sandbox: {memory: much}
      |                       ^^^^
   hint: write `required`, or `{required: true, network: true, memory: 2GB, processes: 64, disk: 10GB}`""",
    ),
    "sandbox with too little memory for any worker": (
        job("uses: python\nsandbox: {memory: 1KB}"),
        """\
error[WRONG_TYPE] w.yaml:20:23: `memory` in `sandbox` of job `J` is not a size (`2GB`) from 64MB to 1,000TB
   20 |     sandbox: {memory: 1KB}
      |                       ^^^
   hint: write `required`, or `{required: true, network: true, memory: 2GB, processes: 64, disk: 10GB}`""",
    ),
    "sandbox with more memory than there is": (
        job("uses: python\nsandbox: {memory: 999999999999999999999GB}"),
        """\
error[WRONG_TYPE] w.yaml:20:23: `memory` in `sandbox` of job `J` is not a size (`2GB`) from 64MB to 1,000TB
   20 |     sandbox: {memory: 999999999999999999999GB}
      |                       ^^^^^^^^^^^^^^^^^^^^^^^
   hint: write `required`, or `{required: true, network: true, memory: 2GB, processes: 64, disk: 10GB}`""",
    ),
    "sandbox with too little disk space": (
        job("uses: python\nsandbox: {disk: 1KB}"),
        """\
error[WRONG_TYPE] w.yaml:20:21: `disk` in `sandbox` of job `J` is not a size (`2GB`) from 1MB to 1,000TB
   20 |     sandbox: {disk: 1KB}
      |                     ^^^
   hint: write `required`, or `{required: true, network: true, memory: 2GB, processes: 64, disk: 10GB}`""",
    ),
    "sandbox with too few processes for any worker": (
        job("uses: python\nsandbox: {processes: 1}"),
        """\
error[WRONG_TYPE] w.yaml:20:26: `processes` in `sandbox` of job `J` is not a number from 8
   20 |     sandbox: {processes: 1}
      |                          ^
   hint: write `required`, or `{required: true, network: true, memory: 2GB, processes: 64, disk: 10GB}`""",
    ),
    "sandbox that is a word": (
        job("uses: python\nsandbox: maybe"),
        """\
error[WRONG_TYPE] w.yaml:20:14: `sandbox` of job `J` is a string, not a map
   20 |     sandbox: maybe
      |              ^^^^^
   hint: write `required`, or `{required: true, network: true, memory: 2GB, processes: 64, disk: 10GB}`""",
    ),
    "no uses": (
        job("with: {a: 1}"),
        """\
error[MISSING_KEY] w.yaml:18:3: job `J` has no `uses`
   18 |   J:
      |   ^
   hint: name the action: `uses: shell`""",
    ),
    "unknown need": (
        job("uses: python\nneeds: [Storry]"),
        """\
error[UNKNOWN_REFERENCE] w.yaml:20:13: there is no job `Storry`
   20 |     needs: [Storry]
      |             ^^^^^^
   hint: did you mean `Story`?""",
    ),
    "bad duration": (
        job("uses: python\ntimeout: 5 minutes"),
        """\
error[WRONG_TYPE] w.yaml:20:14: `timeout` of job `J` is not a duration
   20 |     timeout: 5 minutes
      |              ^^^^^^^^^
   hint: write `5m`""",
    ),
    "incomplete include": (
        job("uses: python\nfor: [photo, net]\ninclude: [{photo: 7}]"),
        """\
error[MISSING_KEY] w.yaml:21:15: an entry of `include` of job `J` lacks `net`
   21 |     include: [{photo: 7}]
      |               ^^^^^^^^^^
   hint: write `include: [{photo: …, net: …}]`""",
    ),
    "name taken": (
        HEAD + "  Topic: {uses: python}\n",
        """\
error[NAME_TAKEN] w.yaml:18:3: `Topic` is already an input (line 4)
   18 |   Topic: {uses: python}
      |   ^^^^^
   hint: inputs, jobs and imports share one name space: rename one""",
    ),
    "name that is a keyword": (
        HEAD + "  class: {uses: python}\n",
        """\
error[NAME_INVALID] w.yaml:18:3: `class` cannot be the name of a job
   18 |   class: {uses: python}
      |   ^^^^^
   hint: it is a word of the expression language; try `class_`""",
    ),
    "name with a dash": (
        HEAD + "  make-it: {uses: python}\n",
        """\
error[NAME_INVALID] w.yaml:18:3: `make-it` cannot be the name of a job
   18 |   make-it: {uses: python}
      |   ^^^^^^^
   hint: names are letters, digits and `_`, and do not begin with a digit: `make_it`""",
    ),
    "loop named like a root": (
        "workflow: demo\nloops: {inputs: {count: 1}}\njobs: {}\n",
        """\
error[NAME_TAKEN] w.yaml:2:9: `inputs` means something else in expressions
    2 | loops: {inputs: {count: 1}}
      |         ^^^^^^
   hint: choose another name""",
    ),
    "loop with an expression": (
        "workflow: demo\ninputs: {A: {type: 'file[]'}}\nloops: {l: {each: '${{ inputs.A }}'}}\njobs: {}\n",
        """\
error[EXPRESSION_FORBIDDEN] w.yaml:3:19: the source of loop `l` cannot contain `${{ }}`
    3 | loops: {l: {each: '${{ inputs.A }}'}}
      |                   ^^^^^^^^^^^^^^^^^
   hint: write `inputs.A`""",
    ),
    "each over a value": (
        "workflow: demo\ninputs: {A: {type: file}}\nloops: {l: {each: inputs.A}}\njobs: {}\n",
        """\
error[WRONG_TYPE] w.yaml:3:19: `inputs.A` has type `file`, not an array
    3 | loops: {l: {each: inputs.A}}
      |                   ^^^^^^^^
   hint: declare it as `file[]`""",
    ),
    "default of the wrong type": (
        "workflow: demo\ninputs:\n  N: {type: integer, default: yes}\njobs: {}\n",
        """\
error[INPUT_TYPE] w.yaml:3:31: the default of input `N` does not fit: `integer` is expected, not a string
    3 |   N: {type: integer, default: yes}
      |                               ^^^""",
    ),
    "duplicate key": (
        "workflow: demo\njobs: {}\nworkflow: other\n",
        """\
error[DUPLICATE_KEY] w.yaml:3:1: the key `workflow` appears twice
    3 | workflow: other
      | ^^^^^^^^
   hint: the first is in line 1; remove one or rename it""",
    ),
    "tab": (
        "workflow: demo\njobs:\n\tA: {uses: shell}\n",
        """\
error[YAML_SYNTAX] w.yaml:3:1: found character that cannot start any token while scanning for the next token
    3 | \tA: {uses: shell}
      | ^
   hint: YAML is indented with spaces, not tabs""",
    ),
    "alias bomb": (
        "workflow: demo\ninputs:\n  a: {type: json, default: &a [x, x, x, x, x, x, x, x, x, x]}\n"
        + "".join(
            f"  {new}: {{type: json, default: &{new} [{', '.join([f'*{old}'] * 10)}]}}\n"
            for old, new in zip("abcdef", "bcdefg", strict=True)
        ),
        """\
error[YAML_SYNTAX] w.yaml:7:60: aliases repeat too much
    7 |   e: {type: json, default: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]}
      |                                                            ^^
   hint: write the values out, or make the file smaller""",
    ),
    "empty file": (
        "",
        """\
error[WRONG_TYPE] w.yaml:1:1: a workflow is a map, not nothing
    1 |\x20
      | ^
   hint: begin with `workflow: my-name`""",
    ),
    "type of an array without quotes": (
        "workflow: demo\ninputs:\n  Files: {type: file[], default: data/*.csv}\njobs: {}\n",
        """\
error[YAML_SYNTAX] w.yaml:3:17: did not find expected ',' or '}' while parsing a flow mapping
    3 |   Files: {type: file[], default: data/*.csv}
      |                 ^^^^^^
   hint: put quotes around it: `"file[]"`""",
    ),
    "expression without quotes in a flow map": (
        job("uses: python\nwith: {a: 1, b: see ${{ inputs.Topic }} there, c: 2}"),
        """\
error[YAML_SYNTAX] w.yaml:20:21: did not find expected ',' or '}' while parsing a flow mapping
   20 |     with: {a: 1, b: see ${{ inputs.Topic }} there, c: 2}
      |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   hint: put quotes around it: `"see ${{ inputs.Topic }} there"`""",
    ),
    "expression without quotes in a flow list": (
        job("uses: python\nwith:\n  a: [${{ inputs.Photos[0] }}]"),
        """\
error[YAML_SYNTAX] w.yaml:21:11: did not find expected ',' or ']' while parsing a flow sequence
   21 |       a: [${{ inputs.Photos[0] }}]
      |           ^^^^^^^^^^^^^^^^^^^^^^^
   hint: put quotes around it: `"${{ inputs.Photos[0] }}"`""",
    ),
    "a missing comma is no missing quote": (
        "workflow: demo\njobs: {A: {uses: shell} {B: 1}}\n",
        """\
error[YAML_SYNTAX] w.yaml:2:25: did not find expected ',' or '}' while parsing a flow mapping
    2 | jobs: {A: {uses: shell} {B: 1}}
      |                         ^
   hint: indent with spaces; check the line before, too""",
    ),
    "parameter of the action beside with": (
        job("uses: shell\nrun: echo hello"),
        """\
error[UNKNOWN_KEY] w.yaml:20:5: job `J` has no key `run`
   20 |     run: echo hello
      |     ^^^
   hint: `run` belongs under `with:`""",
    ),
    "steps at the top": (
        HEAD + "steps: []\n",
        """\
error[UNKNOWN_KEY] w.yaml:18:1: a workflow has no key `steps`
   18 | steps: []
      | ^^^^^
   hint: write jobs under `jobs:`""",
    ),
    "second loop that is not in for": (
        job("for: [photo]\nuses: python\nwith: {a: '${{ part }}'}"),
        """\
error[UNKNOWN_LOOP] w.yaml:21:20: the loop `part` is not in this job's `for:`
   21 |     with: {a: '${{ part }}'}
      |                    ^^^^
   hint: add it: `for: [photo, part]`""",
    ),
    "loop over a bare name": (
        "workflow: demo\ninputs: {Files: {type: 'file[]'}}\nloops: {f: {each: Files}}\njobs: {}\n",
        """\
error[UNKNOWN_REFERENCE] w.yaml:3:19: `Files` alone is not a source of loop `f`
    3 | loops: {f: {each: Files}}
      |                   ^^^^^
   hint: write `inputs.Files`""",
    ),
    "selectors in brackets of their own": (
        job("uses: python\nfor: [photo, net]\noutputs: {O: {type: file}}")
        + "  K:\n    for: [net]\n    uses: python\n    with: {a: '${{ jobs.J.outputs.O[0][net] }}'}\n",
        """\
error[LOOP_MISMATCH] w.yaml:25:40: job `J` runs for [photo, net]: its selectors belong in one pair of brackets
   25 |     with: {a: '${{ jobs.J.outputs.O[0][net] }}'}
      |                                        ^^^
   hint: write `O[0, net]`""",
    ),
    "name of a place that the state has": (
        "workflow: stat-cache\njobs: {}\n",
        """\
error[NAME_INVALID] w.yaml:1:11: a workflow cannot be called `stat-cache`: \
Whyrun keeps its own state under this name
    1 | workflow: stat-cache
      |           ^^^^^^^^^^
   hint: choose another name; not `actions-cache`, `environments`, `stat-cache`, `store`, `tmp`""",
    ),
    "unclosed expression": (
        job("uses: python\nwith: {a: 'x ${{ inputs.Topic'}"),
        """\
error[EXPRESSION_SYNTAX] w.yaml:20:18: `${{` without its `}}`
   20 |     with: {a: 'x ${{ inputs.Topic'}
      |                  ^^^^^^^^^^^^^^^^
   hint: close the expression with `}}`""",
    ),
    "method call": (
        job("uses: python\nwith: {a: '${{ inputs.Topic.upper() }}'}"),
        """\
error[EXPRESSION_FORBIDDEN] w.yaml:20:20: a method cannot be called in an expression
   20 |     with: {a: '${{ inputs.Topic.upper() }}'}
      |                    ^^^^^^^^^^^^^^^^^^
   hint: write `upper(…)`""",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_mistake_is_shown_with_its_place_and_a_hint(case: str) -> None:
    text, expected = CASES[case]
    assert rendered(text) == expected


def test_all_mistakes_of_a_file_are_reported_at_once_in_reading_order() -> None:
    text = """\
workflow: Demo
inputs:
  A: {type: strin}
  B: {typ: string}
loops:
  l: {count: -1}
  m: {each: inputs.Nope}
jobs:
  J:
    for: [l]
    uses: shell
    whit: 1
    with: {a: "${{ inputs.A + inputs.C }}", b: "${{ 1 + }}", run: echo}
    retries: many
    outputs: {O: {type: file, path: /o}}
  K:
    needs: [L]
extra: 1
"""
    with pytest.raises(InvalidError) as caught:
        parse_workflow("w.yaml", {"w.yaml": text}.__getitem__)
    assert [(d.code, d.line, d.column) for d in caught.value.diagnostics] == [
        ("NAME_INVALID", 1, 11),
        ("WRONG_TYPE", 3, 13),
        ("UNKNOWN_KEY", 4, 7),
        ("WRONG_TYPE", 6, 14),
        ("UNKNOWN_REFERENCE", 7, 20),
        ("UNKNOWN_KEY", 12, 5),
        ("UNKNOWN_REFERENCE", 13, 38),
        ("EXPRESSION_SYNTAX", 13, 55),
        ("WRONG_TYPE", 14, 14),
        ("PATH_OUTSIDE", 15, 37),
        ("MISSING_KEY", 16, 3),
        ("UNKNOWN_REFERENCE", 17, 13),
        ("UNKNOWN_KEY", 18, 1),
    ]
    assert all(
        d.file == "w.yaml" and d.source_line == text.splitlines()[(d.line or 0) - 1] for d in caught.value.diagnostics
    )
