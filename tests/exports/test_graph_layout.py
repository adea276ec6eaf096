"""The layout of pictures: no boxes overlap, lines go forwards, and the same graph gets the same picture."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyrun.exports.graph_pictures import GAP_X, GAP_Y, Box, Placed, dot, mermaid, place, svg

SIZES = st.floats(10, 300)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Box], list[tuple[str, str]]]:
    """Any directed graph, also with cycles, double edges and edges from a box to itself."""
    boxes = [Box(f"b{i}", draw(SIZES), draw(SIZES)) for i in range(draw(st.integers(1, 12)))]
    names = st.sampled_from([box.name for box in boxes])
    return boxes, draw(st.lists(st.tuples(names, names), max_size=30))


def column_of(placed: Placed, box: Box) -> float:
    return placed.boxes[box.name][0]


@settings(max_examples=40)
@given(graphs())
def test_no_boxes_overlap_and_all_are_inside(graph: tuple[list[Box], list[tuple[str, str]]]) -> None:
    boxes, edges = graph
    placed = place(boxes, edges)
    for box in boxes:
        x, y = placed.boxes[box.name]
        assert -1e-6 <= x <= placed.width - box.width + 1e-6
        assert -1e-6 <= y <= placed.height - box.height + 1e-6
    for a, b in combinations(boxes, 2):
        (ax, ay), (bx, by) = placed.boxes[a.name], placed.boxes[b.name]
        beside = ax + a.width <= bx - GAP_X + 1e-6 or bx + b.width <= ax - GAP_X + 1e-6
        above = ay + a.height <= by - GAP_Y + 1e-6 or by + b.height <= ay - GAP_Y + 1e-6
        assert beside or above, (a.name, b.name)
    assert set(placed.lines) == {(a, b) for a, b in edges if a != b}
    assert placed == place(boxes, edges)


@settings(max_examples=40)
@given(graphs())
def test_lines_of_graphs_without_cycles_go_from_left_to_right(graph: tuple[list[Box], list[tuple[str, str]]]) -> None:
    boxes, edges = graph
    order = {box.name: i for i, box in enumerate(boxes)}
    forward = [(a, b) for a, b in edges if order[a] < order[b]]
    placed = place(boxes, forward)
    by_name = {box.name: box for box in boxes}
    for (a, b), points in placed.lines.items():
        assert column_of(placed, by_name[a]) + by_name[a].width + GAP_X <= column_of(placed, by_name[b]) + 1e-6
        assert [x for x, _ in points] == sorted(x for x, _ in points)
        assert points[0][1] == pytest.approx(placed.boxes[a][1] + by_name[a].height / 2)
        assert points[-1][1] == pytest.approx(placed.boxes[b][1] + by_name[b].height / 2)


def test_lines_that_need_not_cross_do_not() -> None:
    boxes = [Box(name, 20, 20) for name in "abcxyz"]
    placed = place(boxes, [("a", "z"), ("b", "y"), ("c", "x")])
    tops = {name: y for name, (_, y) in placed.boxes.items()}
    assert (tops["a"] < tops["b"]) == (tops["z"] < tops["y"])
    assert (tops["b"] < tops["c"]) == (tops["y"] < tops["x"])


HOSTILE = '"]<script>alert(1)</script>&\\'


def test_texts_are_escaped_in_every_format() -> None:
    node = {"job": "A", "import": HOSTILE, "action": HOSTILE, "loops": [], "count": 1}
    facts = {"nodes": [node], "edges": [], "inputs": [{"id": "Input:X", "type": HOSTILE, "read_by": ["A"]}]}
    for text in (svg(facts, HOSTILE, with_inputs=True), mermaid(facts, HOSTILE, with_inputs=True)):
        assert "<script" not in text
    assert '\\"]<script>alert(1)</script>&\\\\' in dot(facts, HOSTILE, with_inputs=True)
    assert '["A<br>&quot;]&lt;script&gt;alert(1)&lt;/script&gt;&amp;\\"]' in mermaid(facts, "x")


def node_of(job: str) -> dict[str, object]:
    return {"job": job, "import": None, "action": "shell", "loops": [], "count": 1}


def test_a_long_chain_goes_from_top_to_bottom_and_a_short_one_does_not() -> None:
    def size(jobs: int) -> tuple[int, int]:
        nodes = [node_of(f"Step{i}") for i in range(jobs)]
        edges = [{"from": f"Step{i}", "to": f"Step{i + 1}", "kind": "data"} for i in range(jobs - 1)]
        width, height = (
            svg({"nodes": nodes, "edges": edges, "inputs": []}, "chain").split('viewBox="0 0 ')[1].split()[:2]
        )
        return int(width), int(height.rstrip('"'))

    width, height = size(5)
    assert width > height
    width, height = size(40)
    assert width < 200 < 4000 < height


def test_the_end_of_a_long_name_is_shown_because_the_index_stands_there() -> None:
    picture = svg({"nodes": [node_of(f"Copy[{'x' * 100}][17]")], "edges": [], "inputs": []}, "names")
    assert ">Copy[xxxxxxxxxxxxxxxxxxx…xxxxxxxxxx][17]</text>" in picture
