"""What a workflow file says, as a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whyrun.errors import InvalidError
from whyrun.workflow.model import (
    NO_DEFAULT,
    All,
    At,
    Expression,
    First,
    Formatted,
    InputRef,
    Loop,
    OutputRef,
    Retries,
    Type,
    Workflow,
)
from whyrun.workflow.parsing.parse import load_reading, parse_workflow

FILES = Path(__file__).parent / "files"


def parse(text: str, **others: str) -> Workflow:
    sources = {"w.yaml": text, **{f"{name}.yaml": source for name, source in others.items()}}
    return parse_workflow("w.yaml", sources.__getitem__)


def codes(text: str, **others: str) -> list[tuple[str, str | None, int | None, str]]:
    with pytest.raises(InvalidError) as caught:
        parse(text, **others)
    return [(d.code, d.file, d.line, d.message) for d in caught.value.diagnostics]


def plain(ref: Any) -> Any:
    """A reference without its place."""
    match ref:
        case InputRef(name, selectors, _):
            return ("input", name, *selectors)
        case OutputRef(job, output, selectors, leaf, _):
            return ("output", job, output, selectors, leaf)
        case First(candidates, _):
            return ("first", *map(plain, candidates))
        case Expression():
            return plain(ref.whole) if ref.whole else ("expression", ref.text, *map(plain, ref.refs))
        case Formatted(parts, _):
            return ["formatted", *map(plain, parts)]
        case list():
            return list(map(plain, ref))
        case dict():
            return {key: plain(value) for key, value in ref.items()}
    return ref


def test_then_and_now_is_read_as_written() -> None:
    workflow = load_reading(FILES / "then-now.yaml").complete()

    assert (workflow.name, workflow.description) == ("then-and-now", "Portraits then and now")
    assert {i.name: (i.type, i.required, i.default) for i in workflow.inputs.values()} == {
        "ThenImages": (Type("image", 1), True, NO_DEFAULT),
        "Topic": (Type("string"), False, "cinema"),
        "Segments": (Type("integer"), False, 3),
    }
    assert {loop.name: (loop.kind, plain(loop.source)) for loop in workflow.loops.values()} == {
        "character": ("each", ("input", "ThenImages")),
        "segment": ("count", ("input", "Segments")),
    }
    assert {job.name: (job.uses, job.loops) for job in workflow.jobs.values()} == {
        "Script": ("python", ()),
        "ThenImage": ("image/sepia", ("character",)),
        "Clip": ("shell", ("segment",)),
        "Montage": ("image/montage", ()),
    }
    transition = (("Segments", (Loop("segment"),)), ("HasTransition", ()))
    clip = workflow.jobs["Clip"]
    assert {job.name: plain(job.with_) for job in workflow.jobs.values()} == {
        "Script": {"call": "story:write", "topic": ("input", "Topic"), "segments": ("input", "Segments")},
        "ThenImage": {
            "caption": ["formatted", "a portrait, ", ("input", "Topic")],
            "SourceImages": [("input", "ThenImages", Loop("character"))],
        },
        "Clip": {
            "start": (
                "first",
                ("output", "Clip", "Frame", (Loop("segment", -1),), ()),
                ("output", "ThenImage", "Image", (At(0),), ()),
            ),
            "run": 'convert "$start" -modulate 110 "$out_Frame"',
        },
        "Montage": {
            "portraits": ("output", "ThenImage", "Image", (All(),), ()),
            "frames": ("output", "Clip", "Frame", (All(),), ()),
        },
    }
    assert plain(clip.condition) == ("output", "Script", "Story", (), transition)
    assert (clip.timeout, clip.retries) == (300.0, Retries(2, 10.0))
    assert plain(clip.outputs["Frame"].path) == ["formatted", "out/frame-", ("expression", "segment"), ".png"]
    assert workflow.jobs["Montage"].outputs["Picture"].path == "out/montage.png"
    (leaf,) = workflow.jobs["Script"].outputs["Story"].leaves
    assert (leaf.path, leaf.text, leaf.type) == (transition, "Segments[segment].HasTransition", "boolean")
    assert list(clip.places) == [
        "for[0]",
        "outputs.Frame",
        "outputs.Frame.path",
        "for",
        "if",
        "uses",
        "with",
        "timeout",
        "retries",
        "outputs",
        "with.start",
        "with.start#key",
        "with.run",
        "with.run#key",
    ]


def test_recorded_sources_give_the_same_workflow_again(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "main.yaml").write_text("workflow: a\nimports: {P: {workflow: parts/p.yaml}}\njobs: {}\n")
    (tmp_path / "parts" / "p.yaml").write_text("workflow: p\nimports: {Q: {workflow: ../q.yaml}}\njobs: {}\n")
    (tmp_path / "q.yaml").write_text("workflow: q\njobs: {J: {uses: python, with: {a: '${{ workflow.name }}'}}}\n")
    workflow = load_reading(tmp_path / "main.yaml").complete()

    assert list(workflow.sources) == ["main.yaml", "parts/p.yaml", "q.yaml"]
    assert workflow.imports["P"].workflow.imports["Q"].workflow.source == "q.yaml"
    assert parse_workflow(workflow.source, workflow.sources.__getitem__) == workflow


def test_messages_name_files_as_the_user_does(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("workflow: w\nimports: {P: {workflow: ./p.yaml}}\njobs: []\n")
    (tmp_path / "p.yaml").write_text("workflow: p\n")
    with pytest.raises(InvalidError) as caught:
        load_reading(tmp_path / "w.yaml", shown="flows/w.yaml").complete()
    assert [(d.code, d.file, d.line) for d in caught.value.diagnostics] == [
        ("WRONG_TYPE", "flows/w.yaml", 3),
        ("MISSING_KEY", "flows/p.yaml", 1),
    ]
    with pytest.raises(InvalidError, match=r"error\[FILE_MISSING\] none\.yaml: .*No such file"):
        load_reading(tmp_path / "none.yaml", shown="none.yaml").complete()


def test_every_kind_of_loop() -> None:
    workflow = parse("""
workflow: w
inputs: {Nets: {type: "string[]"}, N: {type: integer}}
loops:
  a: {values: [asia, 7, 0.5]}
  b: {values: inputs.Nets}
  c: {range: 0-24}
  d: {range: [5, 6]}
  e: {count: 3}
  f: {count: inputs.N}
jobs:
  Learn:
    for: [a, c]
    uses: python
    exclude: [{a: asia, c: 3}, {c: 4}]
    include: [{a: alarm, c: 99}]
    outputs: {Graph: {type: file}}
  Score:
    for: [a]
    uses: python
    with:
      mine: ${{ jobs.Learn.outputs.Graph[a, :] }}
      one: ${{ jobs.Learn.outputs.Graph["asia", 3] }}
      all: ${{ jobs.Learn.outputs.Graph[:, :] }}
      next: ${{ first(jobs.Learn.outputs.Graph[a, 1], jobs.Learn.outputs.Graph[a+1, 0]) }}
""")
    assert {loop.name: (loop.kind, plain(loop.source)) for loop in workflow.loops.values()} == {
        "a": ("values", ("asia", 7, 0.5)),
        "b": ("values", ("input", "Nets")),
        "c": ("range", (0, 24)),
        "d": ("range", (5, 6)),
        "e": ("count", 3),
        "f": ("count", ("input", "N")),
    }
    learn = workflow.jobs["Learn"]
    assert (learn.exclude, learn.include) == (({"a": "asia", "c": 3}, {"c": 4}), ({"a": "alarm", "c": 99},))
    assert {key: plain(value)[3:4] for key, value in workflow.jobs["Score"].with_.items() if key != "next"} == {
        "mine": ((Loop("a"), All()),),
        "one": ((At("asia"), At(3)),),
        "all": ((All(), All()),),
    }
    assert plain(workflow.jobs["Score"].with_["next"])[2] == ("output", "Learn", "Graph", (Loop("a", 1), At(0)), ())


def test_every_job_key() -> None:
    job = parse("""
workflow: w
inputs: {Level: {type: integer, default: 2}}
jobs:
  First: {uses: python}
  J:
    uses: tool/run
    description: all keys
    needs: [First]
    secrets: [TOKEN]
    env: {LEVEL: "${{ inputs.Level }}", MODE: fast, N: 3, KEY: "${{ secrets.TOKEN }}"}
    with: {auth: "Bearer ${{ secrets.TOKEN }}", mode: "${{ env.MODE }}", nested: {list: [1, null, true]}}
    code: [scripts/*.py]
    timeout: 1h30m
    retries: 3
    resources: {gpu: 1, memory: 0.5}
    deterministic: true
    if: false
""").jobs["J"]
    assert (job.uses, job.description, job.needs, job.secrets) == ("tool/run", "all keys", ("First",), ("TOKEN",))
    assert plain(job.env) == {
        "LEVEL": ("input", "Level"),
        "MODE": "fast",
        "N": 3,
        "KEY": ("expression", "secrets.TOKEN"),
    }
    assert plain(job.with_) == {
        "auth": ["formatted", "Bearer ", ("expression", "secrets.TOKEN")],
        "mode": ("expression", "env.MODE"),
        "nested": {"list": [1, None, True]},
    }
    assert (job.code, job.timeout, job.retries) == (("scripts/*.py",), 5400.0, Retries(3))
    assert (job.resources, job.deterministic, plain(job.condition)) == (
        {"gpu": 1, "memory": 0.5},
        True,
        ("expression", "False"),
    )


INTRO = """
workflow: intro
inputs: {Topic: {type: string}, Photos: {type: "image[]", default: photos/*.png}}
loops: {photo: {each: inputs.Photos}}
jobs:
  Script: {uses: python, outputs: {Story: {type: json, leaves: {Title: string}}}}
  Show: {for: [photo], uses: python, outputs: {Image: {type: image}}}
"""


def test_imports_bring_their_jobs_under_their_name() -> None:
    workflow = parse(
        """
workflow: w
inputs: {Topic: {type: string}}
imports: {Intro: {workflow: ./intro.yaml, with: {Topic: "${{ inputs.Topic }}", Photos: [a.png]}}}
jobs:
  J:
    uses: python
    needs: [Intro.Script]
    with:
      story: ${{ jobs.Intro.Script.outputs.Story }}
      title: about ${{ jobs.Intro.Script.outputs.Story.Title }}
      images: ${{ jobs.Intro.Show.outputs.Image[:] }}
""",
        intro=INTRO,
    )
    assert plain(workflow.imports["Intro"].with_) == {"Topic": ("input", "Topic"), "Photos": ["a.png"]}
    job = workflow.jobs["J"]
    assert job.needs == ("Intro/Script",)
    assert plain(job.with_) == {
        "story": ("output", "Intro/Script", "Story", (), ()),
        "title": ["formatted", "about ", ("output", "Intro/Script", "Story", (), (("Title", ()),))],
        "images": ("output", "Intro/Show", "Image", (All(),), ()),
    }


def test_mistakes_in_imports_are_reported_where_they_are() -> None:
    assert codes(
        """
workflow: w
inputs: {N: {type: integer}}
imports:
  A: {workflow: intro.yaml, with: {Topik: x, Photos: "${{ inputs.N }}"}}
  B: {workflow: none.yaml}
  C: {workflow: broken.yaml}
  D: {workflow: /etc/x.yaml}
  E: {workflow: intro.yaml, with: {Topic: "about ${{ jobs.J.outputs.O }}"}}
jobs:
  J:
    uses: python
    with: {a: "${{ jobs.A.Script.outputs.Stry }}", b: "${{ jobs.C.Any.outputs.Thing }}"}
    outputs: {O: {type: string}}
""",
        intro=INTRO,
        broken="workflow: broken\njobs: 1\n",
    ) == [
        ("INPUT_MISSING", "w.yaml", 5, "import `A` gives no value to the input `Topic` (string)"),
        ("INPUT_UNKNOWN", "w.yaml", 5, "`intro.yaml` has no input `Topik`"),
        ("INPUT_TYPE", "w.yaml", 5, "input `Photos` of import `A`: `image[]` is expected, and `inputs.N` is `integer`"),
        ("FILE_MISSING", "w.yaml", 6, "`none.yaml` cannot be read: there is no such file"),
        ("PATH_OUTSIDE", "w.yaml", 8, "the file of import `D` is not a relative path"),
        ("EXPRESSION_FORBIDDEN", "w.yaml", 9, "input `Topic` of import `E` is computed from results of jobs"),
        ("UNKNOWN_REFERENCE", "w.yaml", 13, "job `A/Script` has no output `Stry`"),
        ("WRONG_TYPE", "broken.yaml", 2, "`jobs` is the number `1`, not a map"),
    ]


def test_files_that_import_each_other_are_refused() -> None:
    assert codes(
        "workflow: w\nimports: {A: {workflow: a.yaml}}\njobs: {}\n",
        a="workflow: a\nimports: {W: {workflow: ./w.yaml}}\njobs: {}\n",
    ) == [("CYCLE", "a.yaml", 2, "this file imports itself: w.yaml → a.yaml → w.yaml")]


def test_imports_that_multiply_are_refused_quickly() -> None:
    files = {
        f"f{n}": f"workflow: f\njobs: {{}}\n"
        f"imports: {{A: {{workflow: f{n + 1}.yaml}}, B: {{workflow: f{n + 1}.yaml}}}}\n"
        for n in range(20)
    }
    files["f20"] = "workflow: f\njobs: {}\n"
    ((code, file, line, message),) = codes("workflow: w\nimports: {A: {workflow: f0.yaml}}\njobs: {}\n", **files)
    assert (code, line, message) == ("YAML_SYNTAX", 1, "more than 1000 workflows are imported, counting each import")
    assert file == "f11.yaml"


def test_windows_line_ends_and_byte_order_marks_do_not_move_places() -> None:
    text = "\ufeffworkflow: w\r\njobs:\r\n  J: {uses: a, with: {a: '${{ inputs.X }}'}}\r\n"
    with pytest.raises(InvalidError) as caught:
        parse(text)
    (found,) = caught.value.diagnostics
    assert (found.line, found.column, found.width) == (3, 38, 1)
    assert found.source_line == "  J: {uses: a, with: {a: '${{ inputs.X }}'}}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("0o17", 15),
        ("0x1F", 31),
        ("017", 17),
        ("1e3", 1000.0),
        ("~", None),
        ("", None),
        ("True", True),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ('"1"', "1"),
        ("=", "="),
        ("!!str 1", "1"),
        ("-.5", -0.5),
        ("+7", 7),
        ("0b1", "0b1"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(value: str, expected: Any) -> None:
    found = parse(f"workflow: w\njobs: {{J: {{uses: a, with: {{v: {value} }}}}}}\n").jobs["J"].with_["v"]
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    "value", [".inf", "-.inf", ".nan", "1e999", "9223372036854775808", "1" * 5000, "0x" + "f" * 99]
)
def test_numbers_that_json_cannot_hold_are_refused(value: str) -> None:
    ((code, _, line, _),) = codes(f"workflow: w\njobs: {{J: {{uses: a, with: {{v: {value}}}}}}}\n")
    assert (code, line) == ("WRONG_TYPE", 2)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{a: " * 100_000, "- " * 5000, "&a [*a]", "a: *b", "? [1]\n: 2", "a\n--- b"]
)
def test_bombs_and_oddities_are_syntax_errors(text: str) -> None:
    assert [code for code, *_ in codes(text)] == ["YAML_SYNTAX"]


_SNIPPETS = st.sampled_from(
    [
        "workflow: w\n",
        "jobs:\n",
        "  J:\n",
        "    uses: shell\n",
        '    with: {a: "${{ ',
        ' }}"}\n',
        "inputs.A",
        "jobs.J.outputs.O",
        "[",
        "]",
        "(",
        ")",
        "first(",
        "l",
        "-1",
        ":",
        ",",
        ".",
        "'",
        '"',
        "{",
        "}",
        "\n",
        "  ",
        "\t",
        "inputs: {A: {type: string}}\n",
        "loops: {l: {count: 2}}\n",
        "    for: [l]\n",
        "    outputs: {O: {type: json, leaves: {",
        "}}}\n",
        "&x ",
        "*x ",
        "!!int ",
        "é",
        "\u2028",
        "\r",
        "|\n",
        ">\n",
        "imports: {I: {workflow: w.yaml}}\n",
        "${{ ",
        " }}",
        " and ",
        "secrets.S",
        "\ufeff",
    ]
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(max_size=200), st.lists(_SNIPPETS, max_size=25).map("".join)))
def test_any_text_gives_a_workflow_or_an_invalid_error(text: str) -> None:
    try:
        parse_workflow("w.yaml", {"w.yaml": text}.__getitem__)
    except InvalidError as problem:
        lines = text.removeprefix("\ufeff").split("\n")
        for diagnostic in problem.diagnostics:
            assert diagnostic.file == "w.yaml"
            assert 1 <= (diagnostic.line or 0) <= len(lines)
            assert diagnostic.render()
