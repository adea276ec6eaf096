"""The graph of jobs as SVG, Graphviz (dot) and Mermaid, from `facts.graph.graph_facts`.

All texts come from workflow files, so each format escapes them. SVG needs no program and no network, and follows the
light or dark setting of the reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import msgspec

from whyrun.errors import text_width

# --- positions for the boxes and lines of a directed graph, in columns from left to right. Pure -----------------------
# The steps are those of Sugiyama: break cycles, give every box a column (longest path), cut long lines into pieces of
# one
# column, order each column so that few lines cross, then move boxes towards their neighbours without overlap.
# The same graph always gets the same picture.


GAP_X, GAP_Y = 56.0, 18.0  # between columns, and between boxes of one column
SWEEPS = 12  # passes that order the columns; small graphs are stable after four
MOVES = 8  # passes that straighten lines


class Box(msgspec.Struct, frozen=True):
    name: str
    width: float
    height: float


class Placed(msgspec.Struct, frozen=True):
    """The upper left corner of each box, the points of each line, and the size of the whole."""

    boxes: Mapping[str, tuple[float, float]]
    lines: Mapping[tuple[str, str], Sequence[tuple[float, float]]]
    width: float
    height: float


def place(boxes: Sequence[Box], edges: Iterable[tuple[str, str]]) -> Placed:
    """Lines from a box to itself are left out; those against the flow (of a cycle) are drawn backwards."""
    if not boxes:
        return Placed({}, {}, 0.0, 0.0)
    number = {box.name: i for i, box in enumerate(boxes)}
    wanted = [(number[a], number[b]) for a, b in dict.fromkeys(edges) if a != b]
    forward = _without_cycles(len(boxes), wanted)
    column = _columns(len(boxes), forward)
    layout = _Layout(boxes, column, forward)
    layout.order()
    layout.move()
    return layout.placed(boxes, wanted)


def _without_cycles(size: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same edges, with those turned around that would close a cycle in the order of the boxes."""
    out: list[list[int]] = [[] for _ in range(size)]
    for a, b in edges:
        out[a].append(b)
    state = [0] * size  # 1: on the stack, 2: finished
    turned: set[tuple[int, int]] = set()
    for root in range(size):
        if state[root]:
            continue
        state[root] = 1
        stack = [(root, iter(out[root]))]
        while stack:
            at, rest = stack[-1]
            after = next(rest, None)
            if after is None:
                state[at] = 2
                stack.pop()
            elif state[after] == 1:
                turned.add((at, after))
            elif state[after] == 0:
                state[after] = 1
                stack.append((after, iter(out[after])))
    return list(dict.fromkeys((b, a) if (a, b) in turned else (a, b) for a, b in edges))


def _columns(size: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest path to each box; a box that nothing leads to stands directly before its first reader."""
    out: list[list[int]] = [[] for _ in range(size)]
    waiting = [0] * size
    for a, b in edges:
        out[a].append(b)
        waiting[b] += 1
    column, ready = [0] * size, [i for i in range(size) if not waiting[i]]
    roots = list(ready)
    for at in ready:
        for after in out[at]:
            column[after] = max(column[after], column[at] + 1)
            waiting[after] -= 1
            if not waiting[after]:
                ready.append(after)
    for root in roots:
        if out[root]:
            column[root] = min(column[after] for after in out[root]) - 1
    return column


class _Layout:
    """`self.columns`: by column, its cells from top to bottom. Cells beyond the boxes are bends of long lines."""

    def __init__(self, boxes: Sequence[Box], column: Sequence[int], edges: Sequence[tuple[int, int]]) -> None:
        self.column = list(column)
        self.heights = [box.height for box in boxes]
        self.before: list[list[int]] = [[] for _ in boxes]
        self.after: list[list[int]] = [[] for _ in boxes]
        self.bends: dict[tuple[int, int], list[int]] = {}
        for a, b in edges:
            last, path = a, []
            for at in range(column[a] + 1, column[b]):
                path.append(len(self.column))
                self.column.append(at)
                self.heights.append(0.0)
                self.before.append([])
                self.after.append([])
                self._join(last, path[-1])
                last = path[-1]
            self._join(last, b)
            self.bends[a, b] = path
        self.columns: list[list[int]] = [[] for _ in range(max(self.column) + 1)]
        for cell, at in enumerate(self.column):
            self.columns[at].append(cell)
        self.y = [0.0] * len(self.column)

    def _join(self, a: int, b: int) -> None:
        self.after[a].append(b)
        self.before[b].append(a)

    def order(self) -> None:
        """Sort each column by the middle of its neighbours, from the left and from the right; keep the best."""
        best, fewest = [list(cells) for cells in self.columns], self._crossings()
        for sweep in range(SWEEPS):
            leftwards = bool(sweep % 2)
            neighbours = self.after if leftwards else self.before
            for cells in reversed(self.columns) if leftwards else self.columns:
                rank = self._ranks()
                keys = {cell: _middle([rank[n] for n in neighbours[cell]], rank[cell]) for cell in cells}
                cells.sort(key=lambda cell: keys[cell])
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(cells) for cells in self.columns], crossings
        self.columns = best

    def _ranks(self) -> dict[int, int]:
        return {cell: rank for cells in self.columns for rank, cell in enumerate(cells)}

    def _crossings(self) -> int:
        """Lines that cross between neighbouring columns: inversions, counted by a tree of sums."""
        rank, total = self._ranks(), 0
        for cells, following in pairwise(self.columns):
            sums = [0] * (len(following) + 1)
            ends = [end for cell in cells for end in sorted(rank[n] for n in self.after[cell])]
            for count, end in enumerate(ends):
                not_above, at = 0, end + 1
                while at:
                    not_above += sums[at]
                    at &= at - 1
                total += count - not_above
                at = end + 1
                while at < len(sums):
                    sums[at] += 1
                    at += at & -at
        return total

    def move(self) -> None:
        """Move every cell as near to the mean of its neighbours as its column allows."""
        for cells in self.columns:
            top = 0.0
            for cell in cells:
                self.y[cell] = top + self.heights[cell] / 2
                top += self.heights[cell] + GAP_Y
        for sweep in range(MOVES):
            leftwards = bool(sweep % 2)
            for cells in reversed(self.columns) if leftwards else self.columns:
                self._move_column(cells, self.after if leftwards else self.before)

    def _move_column(self, cells: Sequence[int], neighbours: Sequence[Sequence[int]]) -> None:
        """The least sum of squares that keeps order and gaps: neighbouring cells that would overlap move as one."""
        blocks: list[tuple[float, int, list[tuple[int, float]]]] = []  # wish, weight, cells with their offsets
        offset, last = 0.0, 0.0
        for i, cell in enumerate(cells):
            half = self.heights[cell] / 2
            offset += 0.0 if i == 0 else last + GAP_Y + half
            last = half
            near = [self.y[n] for n in neighbours[cell]]
            wish = (sum(near) / len(near) if near else self.y[cell]) - offset
            block = (wish, 1, [(cell, offset)])
            while blocks and blocks[-1][0] > block[0]:
                wish, weight, members = blocks.pop()
                total = weight + block[1]
                block = ((wish * weight + block[0] * block[1]) / total, total, members + block[2])
            blocks.append(block)
        for wish, _, members in blocks:
            for cell, own in members:
                self.y[cell] = wish + own

    def placed(self, boxes: Sequence[Box], edges: Sequence[tuple[int, int]]) -> Placed:
        top = min(y - height / 2 for y, height in zip(self.y, self.heights, strict=True))
        bottom = max(y + height / 2 for y, height in zip(self.y, self.heights, strict=True)) - top
        widths = [max((boxes[c].width for c in cells if c < len(boxes)), default=0.0) for cells in self.columns]
        left = [sum(widths[:i]) + GAP_X * i for i in range(len(widths))]
        found = {box.name: (left[self.column[i]], self.y[i] - box.height / 2 - top) for i, box in enumerate(boxes)}
        lines = {}
        for a, b in edges:
            is_turned = (a, b) not in self.bends
            start, end = (b, a) if is_turned else (a, b)
            begin, y = left[self.column[start]], self.y[start] - top
            points = [(begin + boxes[start].width, y), (begin + widths[self.column[start]], y)]
            for bend in self.bends[start, end]:
                x, y = left[self.column[bend]], self.y[bend] - top
                points += [(x, y), (x + widths[self.column[bend]], y)]
            points.append((left[self.column[end]], self.y[end] - top))
            lines[boxes[a].name, boxes[b].name] = points[::-1] if is_turned else points
        return Placed(found, lines, left[-1] + widths[-1], bottom)


def _middle(ranks: Sequence[int], own: int) -> float:
    """The median of the neighbours' ranks; cells without neighbours stay where they are."""
    if not ranks:
        return float(own)
    ranks = sorted(ranks)
    half = len(ranks) // 2
    return float(ranks[half]) if len(ranks) % 2 else (ranks[half - 1] + ranks[half]) / 2


# --- pictures ---------------------------------------------------------------------------------------------------------


Facts = Mapping[str, Any]
MARGIN, PADDING, LINE = 16.0, 12.0, 18.0
LONGEST, TAIL = 40, 15  # characters of a line in a box, and of those the last ones if it is cut
WIDEST = 2000.0  # pixels, about 14 layers
_WIDE = (8.9, 7.5)  # pixels of a character in the widest of the usual fonts: bold at 13 px, normal at 12 px
# Scoped by the class of the picture: inline in a notebook, its style would otherwise apply to the whole page.
_STYLE = """
.wg .box{fill:#fff;stroke:#9aa1ab}.wg .input{fill:#f3f4f6;stroke:#c6cbd2}.wg .name{font-weight:600;fill:#1f2328}
.wg .more{fill:#656d76;font-size:12px}.wg .line{fill:none;stroke:#8b949e;stroke-width:1.3}
.wg .maybe{stroke-dasharray:5 4}.wg .tip{fill:#8b949e}.wg text{font-family:system-ui,sans-serif;font-size:13px}
@media (prefers-color-scheme:dark){.wg .box{fill:#161b22;stroke:#6e7681}.wg .input{fill:#21262d;stroke:#484f58}
.wg .name{fill:#e6edf3}.wg .more{fill:#9198a1}}
"""


def svg(facts: Facts, title: str, *, with_inputs: bool = False) -> str:
    """A picture for README files and papers: boxes are jobs, dashed lines only decide or order."""
    texts = {node["job"]: _lines(node) for node in facts["nodes"]}
    inputs = (
        {one["id"]: [one["id"].removeprefix("Input:"), _type(one)] for one in facts["inputs"]} if with_inputs else {}
    )
    boxes = [_box(name, lines) for name, lines in {**inputs, **texts}.items()]
    edges = [((edge["from"], edge["to"]), edge["kind"]) for edge in facts["edges"]]
    if with_inputs:
        edges += [((id_, reader), "data") for id_, _, readers in _input_rows(facts) for reader in readers]
    placed, upright = _placed(boxes, [ends for ends, _ in edges])
    kinds: dict[tuple[str, str], set[str]] = {}
    for ends, kind in edges:
        kinds.setdefault(ends, set()).add(kind)
    width, height = placed.width + 2 * MARGIN, placed.height + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="wg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label={quoteattr(f"the jobs of {title}")}>',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>',
    ]
    for ends, points in placed.lines.items():
        maybe = "" if "data" in kinds[ends] else " maybe"
        parts.append(f'<path class="line{maybe}" marker-end="url(#tip)" d="{_curve(points, upright)}"/>')
    for box in boxes:
        x, y = (value + MARGIN for value in placed.boxes[box.name])
        is_input = box.name in inputs
        kind = "box input" if is_input else "box"
        corner = box.height / 2 if is_input else 7
        lines = inputs[box.name] if is_input else texts[box.name]
        id_ = box.name if is_input else f"Job:{box.name}"
        parts.append(f"<g><title>{escape(id_)}</title>")
        parts.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
            f'rx="{corner:g}"/>'
        )
        for i, line in enumerate(lines):
            role, at = "more" if i else "name", y + PADDING + LINE * (i + 0.68)
            parts.append(f'<text class="{role}" x="{x + PADDING:.1f}" y="{at:.1f}">{escape(_cut(line))}</text>')
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _lines(node: Facts) -> list[str]:
    many = f" × {node['count']:,}" if node["loops"] else ""
    return [f"{node['job']}{many}", node["action"]]


def _type(one: Facts) -> str:
    return f"{one['type']} × {one['elements']:,}" if "elements" in one else str(one["type"])


def _box(name: str, lines: Sequence[str]) -> Box:
    widest = max(text_width(_cut(line)) * (_WIDE[0] if i == 0 else _WIDE[1]) for i, line in enumerate(lines))
    return Box(name, widest + 2 * PADDING, LINE * len(lines) + 2 * PADDING)


def _cut(text: str) -> str:
    """The middle goes: the index of an instance stands at the end."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - TAIL - 1]}…{text[-TAIL:]}"


def _placed(boxes: Sequence[Box], edges: Sequence[tuple[str, str]]) -> tuple[Placed, bool]:
    """From left to right; from top to bottom if a long chain would be too wide for a page."""
    placed = place(boxes, edges)
    if placed.width <= WIDEST:
        return placed, False
    turned = place([Box(box.name, box.height, box.width) for box in boxes], edges)
    if turned.height * 2 > placed.width:
        return placed, False
    spots = {name: (x, y) for name, (y, x) in turned.boxes.items()}
    lines = {ends: [(x, y) for y, x in points] for ends, points in turned.lines.items()}
    return Placed(spots, lines, turned.height, turned.width), True


def _curve(points: Sequence[tuple[float, float]], upright: bool) -> str:
    """One smooth line through the points: curves between columns, straight pieces along a column."""
    moved = [(x + MARGIN, y + MARGIN) for x, y in points]
    path = [f"M{moved[0][0]:.1f} {moved[0][1]:.1f}"]
    for (x0, y0), (x1, y1) in pairwise(moved):
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        first, second = ((x0, y), (x1, y)) if upright else ((x, y0), (x, y1))
        path.append(f"C{first[0]:.1f} {first[1]:.1f} {second[0]:.1f} {second[1]:.1f} {x1:.1f} {y1:.1f}")
    return "".join(path)


# --- formats that other programs draw --------------------------------------------------------------------------------


def dot(facts: Facts, title: str, *, with_inputs: bool = False) -> str:
    lines = [
        f"digraph {_quoted(title)} {{",
        "  rankdir=LR;",
        '  node [shape=box, style="rounded", fontname="sans-serif"];',
    ]
    for group, nodes in _grouped(facts):
        indent = "  "
        if group:
            lines += [f"  subgraph {_quoted(f'cluster_{group}')} {{", f"    label={_quoted(group)};"]
            indent = "    "
        lines += [f"{indent}{_quoted(node['job'])} [label={_quoted(chr(10).join(_lines(node)))}];" for node in nodes]
        if group:
            lines.append("  }")
    for id_, label, readers in _input_rows(facts) if with_inputs else ():
        lines.append(f"  {_quoted(id_)} [label={_quoted(label)}, shape=ellipse];")
        lines += [f"  {_quoted(id_)} -> {_quoted(reader)};" for reader in readers]
    for edge in facts["edges"]:
        style = "" if edge["kind"] == "data" else f" [style=dashed, label={_quoted(_WORDS[edge['kind']])}]"
        lines.append(f"  {_quoted(edge['from'])} -> {_quoted(edge['to'])}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def mermaid(facts: Facts, title: str, *, with_inputs: bool = False) -> str:
    del title  # a flowchart has none
    names: dict[str, str] = {}
    for node in facts["nodes"]:
        names[node["job"]] = f"j{len(names)}"
    lines = ["flowchart LR"]
    for group, nodes in _grouped(facts):
        indent = "  "
        if group:
            lines.append(f"  subgraph {_label(group)}")
            indent = "    "
        lines += [f"{indent}{names[node['job']]}[{_label('<br>'.join(_lines(node)))}]" for node in nodes]
        if group:
            lines.append("  end")
    for i, (_, label, readers) in enumerate(_input_rows(facts) if with_inputs else ()):
        lines.append(f"  i{i}([{_label(label)}])")
        lines += [f"  i{i} --> {names[reader]}" for reader in readers]
    for edge in facts["edges"]:
        arrow = "-->" if edge["kind"] == "data" else f"-. {_WORDS[edge['kind']]} .->"
        lines.append(f"  {names[edge['from']]} {arrow} {names[edge['to']]}")
    return "\n".join(lines) + "\n"


_WORDS = {"condition": "if", "needs": "needs"}


def _grouped(facts: Facts) -> Iterator[tuple[str, list[Facts]]]:
    """The nodes by their import; those of the workflow file itself come first, without a name."""
    groups: dict[str, list[Facts]] = {"": []}
    for node in facts["nodes"]:
        groups.setdefault(node["import"], []).append(node)
    yield from groups.items()


def _input_rows(facts: Facts) -> Iterator[tuple[str, str, list[str]]]:
    """Each input with the first jobs that read it: a line to every later job of a loop would hide the others."""
    for one in facts["inputs"]:
        readers = set(one["read_by"])
        later = _reached(readers, facts)
        first = [job for job in one["read_by"] if job not in later]
        yield one["id"], f"{one['id'].removeprefix('Input:')} ({_type(one)})", first or one["read_by"]


def _reached(jobs: set[str], facts: Facts) -> set[str]:
    """Everything downstream of these jobs, by other edges than those of a job to itself."""
    after: dict[str, set[str]] = {}
    for edge in facts["edges"]:
        if edge["from"] != edge["to"]:
            after.setdefault(edge["from"], set()).add(edge["to"])
    found: set[str] = set()
    stack = list(jobs)
    while stack:
        for job in after.get(stack.pop(), set()) - found:
            found.add(job)
            stack.append(job)
    return found


def _quoted(text: str) -> str:
    """A string of dot: JSON has the same escapes for quotes and line breaks, and dot reads UTF-8."""
    return json.dumps(text, ensure_ascii=False)


def _label(text: str) -> str:
    """A label of Mermaid: quoted, with `<br>` as its line break and everything else escaped."""
    parts = (escape(part, {'"': "&quot;", "#": "&num;"}) for part in text.split("<br>"))
    return f'"{"<br>".join(parts)}"'


FORMATS: dict[str, Callable[..., str]] = {"svg": svg, "dot": dot, "mermaid": mermaid}
