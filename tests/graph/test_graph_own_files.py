"""Outputs on top of a project's own files: what is said of whole columns is what a look at each path says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whyrun.graph.expand import expand
from whyrun.graph.paths import folders_of
from whyrun.graph.publishing.conflicts import LinksOnDisk, PublishedOutputs, RealFolder, own_file_problems
from whyrun.workflow.parsing.parse import parse_workflow

FLOW = """
workflow: demo
loops:
  i: {count: 12}
  j: {values: [a, b, flow]}
jobs:
  A: {for: [i], uses: shell, with: {run: x}, outputs: {O: {type: file, path: "ONE"}}}
  B: {for: [i, j], uses: shell, with: {run: x}, outputs: {O: {type: json, append: true, path: "TWO"}}}
"""
ONES = ("out/x-${{ i }}.txt", "${{ i }}", "a/${{ i }}/b.txt", "a/b/${{ i }}.y", "a/1${{ i }}")
TWOS = ("t/${{ i }}/${{ j }}.json", "t/${{ j }}", "${{ j }}/w.json", "t/all.json")
OWN = ("1", "a", "a/b", "a/b/3.y", "a/7/b.txt", "a/7/b.txt/c", "a/11", "out", "out/x-1", "out/x-11.txt", "t/flow",
       "t/3/a.json/x", "flow/w.json", "b/w.json/deep/er", "t/all.json", "t/all", "other")  # fmt: skip


LINKED = {"out": "a", "a/3": "", "t": "flow", "t/1": "t/2", "flow": "b"}


@given(
    st.sampled_from(ONES),
    st.sampled_from(TWOS),
    st.sets(st.sampled_from(OWN)),
    st.sets(st.sampled_from(sorted(LINKED))),
)
def test_an_output_is_refused_where_one_of_its_paths_meets_an_own_file(
    one: str, two: str, own: set[str], linked: set[str]
) -> None:
    """Meets it as it is written, or where the links on it lead."""
    text = FLOW.replace("ONE", one).replace("TWO", two)
    graph = expand(parse_workflow("w.yaml", {"w.yaml": text}.__getitem__), {})
    links = LinksOnDisk({folder: RealFolder(LINKED[folder], folder) for folder in linked})
    expected = []
    for table in graph.tables:
        (output,) = table.outputs
        written = [site.partition(" § ")[0] for site in output.paths or ()]
        paths = [*written, *map(links.real, written)]
        if any(p == o or p in folders_of(o) or o in folders_of(p) for p in paths for o in own):
            expected.append(table.decl.places["outputs.O.path"].line)
    found = list(own_file_problems(PublishedOutputs(graph, links), dict.fromkeys(own, "ours")))
    assert [problem.line for problem in found] == expected
    assert {problem.code for problem in found} <= {"DUPLICATE_OUTPUT_PATH"}


def test_a_path_through_a_link_is_where_the_link_leads() -> None:
    links = LinksOnDisk({"lib": RealFolder("src", "lib"), "up": RealFolder("", "up")})
    assert [links.real(path) for path in ("lib/x", "up/x", "x", "lib", "lib/y/x")] == [
        "src/x",
        "x",
        "x",
        "lib",
        "lib/y/x",
    ]
    assert links.real_site("lib/x § a/b") == "src/x § a/b"
    assert links.explained("x", "lib") == ""
    assert links.explained("lib/x", "x", "up/x") == (
        " (`lib/x` is `src/x`, through the link `lib`; `up/x` is `x`, through the link `up`)"
    )
    assert (bool(links), bool(LinksOnDisk({}, {"x": "given as `y`"})), bool(LinksOnDisk())) == (True, True, False)
