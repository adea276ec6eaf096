"""Positions for the boxes and lines of a directed graph, in columns from left to right. Pure.

The steps are those of Sugiyama: break cycles, give every box a column (longest path), cut long lines into pieces of one
column, order each column so that few lines cross, then move boxes towards their neighbours without overlap.
The same graph always gets the same picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

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
