"""The records of steps in the index: one block per job, with a column for each field that plans compare. Pure.

A plan with nothing to do reads only fingerprints and hashes, whole columns at a time. So the records themselves are in
another file, which is opened only when a record is needed. A block has the instances whose latest attempt succeeded
with the outputs that most instances of the job have; all other records are kept apart from the blocks.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping, MutableMapping, Sequence, ValuesView
from functools import cache, cached_property
from itertools import accumulate, pairwise
from zlib import crc32

import msgspec

from whyrun.artifacts.hash_column import HashColumn
from whyrun.ids import any_index, names_and_indices, place_of_texts, split_folder
from whyrun.snapshot.records import StepRecord

MANY = 256  # after this many single reads, all records of a block are read at once

Shape = tuple[tuple[str, str, str, str], ...]  # for each output: its name, leaf, type and suffix

_decoder = cache(lambda: msgspec.msgpack.Decoder(StepRecord))
_encoder = msgspec.msgpack.Encoder()


class JobBlock(msgspec.Struct, array_like=True, frozen=True):
    job: str  # with its imports: "Intro/Script"
    lines: str  # the indices of the instances, one text a line
    shape: Shape
    fingerprints: bytes
    sha256: tuple[bytes, ...]  # a column for each output
    sizes: tuple[bytes, ...]
    ends: bytes  # of the records in the other file: each begins where the previous one ends
    checks: bytes  # of the records, so that each can be read alone
    reads: bytes  # numbers of `Observations`
    packages: bytes
    past: bytes  # the rows of records that have more results than the present one

    @property
    def texts(self) -> list[str]:
        return self.lines.split("\n")


class IndexedSteps(MutableMapping[str, StepRecord]):
    """Step → its record, like a dict, from blocks and the other records.

    A fold may change a record that was returned, so it is kept and takes precedence over the block's.
    """

    def __init__(
        self,
        blocks: Sequence[JobBlock],
        others: Mapping[str, StepRecord],
        read: Callable[[int, int], bytes],
        recover: Callable[[], Mapping[str, StepRecord]],
    ) -> None:
        """`read(first, end)`: bytes of the file with the records, or nothing; `recover`: all records, from the log."""
        self.blocks = {block.job: block for block in blocks}
        self._read, self._recover = read, recover
        self._made = dict(others)
        self._rows = {block.job: _Rows(block) for block in blocks}
        self._size = len(others) + sum(map(len, self._rows.values()))

    def beside(self) -> dict[str, dict[str, StepRecord]]:
        """Job → indices → record: all records that may differ from the blocks."""
        found: dict[str, dict[str, StepRecord]] = {}
        for step, record in self._made.items():
            job, text = split_step(step)
            found.setdefault(job, {})[text] = record
        return found

    def get(self, step: str, default: StepRecord | None = None) -> StepRecord | None:  # type: ignore[override]
        found = self._made.get(step)
        if found is not None:
            return found
        job, text = split_step(step)
        rows = self._rows.get(job)
        if rows is None:
            return default
        row = rows.row_of.get(text)
        if row is None:
            return default
        rows.asked += 1
        if rows.asked > MANY:
            self._make_all(rows)
        elif not self._make(rows, row, row + 1):
            self._make_from_log()
        return self._made[step]

    def _make(self, rows: _Rows, first: int, end: int) -> bool:
        """Read the records of some rows; False if they are lost."""
        records = rows.records(self._read, first, end)
        if records is None:
            return False
        for text, record in zip(rows.texts[first:end], records, strict=True):
            self._made.setdefault(step_of(rows.job, text), record)
        return True

    def _make_all(self, rows: _Rows) -> None:
        del self._rows[rows.job]
        if not self._make(rows, 0, len(rows)):
            self._make_from_log()

    def _make_from_log(self) -> None:
        self._rows.clear()
        self._made = {**self._recover(), **self._made}

    def __getitem__(self, step: str) -> StepRecord:
        found = self.get(step)
        if found is None:
            raise KeyError(step)
        return found

    def __setitem__(self, step: str, record: StepRecord) -> None:
        if step not in self:
            self._size += 1
        self._made[step] = record

    def __delitem__(self, step: str) -> None:
        raise TypeError("the log is never shortened")

    def __contains__(self, step: object) -> bool:
        if step in self._made or not isinstance(step, str):
            return step in self._made
        job, text = split_step(step)
        return job in self._rows and text in self._rows[job].row_of

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        """The steps, without reading any record."""
        yield from self._made
        for rows in self._rows.values():
            yield from (step for text in rows.texts if (step := step_of(rows.job, text)) not in self._made)

    def with_past(self, job: str) -> list[str]:
        """The instances of a job that have more results than the present one, or one of another instance."""
        found = {step for step, record in self._made.items() if record.has_past and split_step(step)[0] == job}
        rows = self._rows.get(job)
        if rows is not None:
            found.update(step_of(job, rows.texts[row]) for row in rows.past)
        return sorted(found)

    def beyond(self, known: Mapping[str, Collection[str]]) -> list[str]:
        """The steps of other jobs, or with other indices."""
        found: list[str] = []
        for job, rows in self._rows.items():
            others = set(rows.texts).difference(known.get(job, ()))
            found.extend(step_of(job, text) for text in others)
        sets: dict[str, set[str]] = {}
        for step in self._made:
            job, text = split_step(step)
            if job not in sets:
                sets[job] = set(known.get(job, ()))
            if text not in sets[job]:
                found.append(step)
        return sorted(set(found))

    def items(self) -> ItemsView[str, StepRecord]:
        return self._whole().items()

    def values(self) -> ValuesView[StepRecord]:
        return self._whole().values()

    def _whole(self) -> dict[str, StepRecord]:
        while self._rows:
            self._make_all(next(iter(self._rows.values())))
        return self._made


class _Rows:
    """The rows of one block, for single reads."""

    def __init__(self, block: JobBlock) -> None:
        self.job = block.job
        self.asked = 0
        self._block = block

    def __len__(self) -> int:
        return len(self._ends) - 1

    @cached_property
    def _ends(self) -> array[int]:
        return array("Q", self._block.ends)

    @cached_property
    def _checks(self) -> array[int]:
        return array("I", self._block.checks)

    @cached_property
    def past(self) -> array[int]:
        return array("Q", self._block.past)

    @cached_property
    def texts(self) -> list[str]:
        return self._block.texts

    @cached_property
    def row_of(self) -> dict[str, int]:
        return {text: row for row, text in enumerate(self.texts)}

    def records(self, read: Callable[[int, int], bytes], first: int, end: int) -> list[StepRecord] | None:
        """None if the file is missing, does not belong to this block, or nests too deep for the stack."""
        ends, start = self._ends[first : end + 1], self._ends[first]
        data = memoryview(read(start, ends[-1]))
        parts = [data[a - start : b - start] for a, b in pairwise(ends)]
        if array("I", map(crc32, parts)) != self._checks[first:end]:
            return None
        decode = _decoder().decode
        try:
            return [decode(part) for part in parts]
        except RecursionError:
            return None


def split_step(step: str) -> tuple[str, str]:
    """`Job:Fit[asia][7]` → ("Fit", "[asia][7]"). A text that is no job ID has no job. A job's name has no brackets, but
    for imports that run for loops: `Job:Video[ada]/Clip[0]` → ("Video[]/Clip", "[ada][0]")."""
    if not step.startswith("Job:"):
        return "", step
    if "]/" in step and (folder := split_folder(step[4:])[0]):
        name, indices = names_and_indices(step[4:])
        levels = [segment.count("[]") for segment in _markers(folder)]
        return block_name(name, levels), "".join(indices)
    cut = step.find("[")
    return (step[4:], "") if cut < 0 else (step[4:cut], step[cut:])


def _markers(folder: str) -> list[str]:
    """`Video["a/b"]/` → ["Video[]"]."""
    return any_index(folder).replace("[*]", "[]").split("/")[:-1]


def block_name(name: str, levels: Sequence[int]) -> str:
    """The name of a job in the index: see `split_step`."""
    *imports, own = name.split("/") if levels else ("",)
    return "/".join([*(each + "[]" * n for each, n in zip(imports, levels, strict=True)), own]) if levels else name


def step_of(job: str, text: str) -> str:
    """The step that `split_step` has split."""
    if "[" not in job:
        return f"Job:{job}{text}"
    levels = [segment.count("[]") for segment in job.split("/")[:-1]]
    indices = [index[1:-1] for index in names_and_indices(text)[1]]
    return "Job:" + "".join(place_of_texts(job.replace("[]", ""), levels, indices))


# --- making blocks -----------------------------------------------------------------------------------------------


def into_blocks(steps: Mapping[str, StepRecord]) -> tuple[list[JobBlock], dict[str, StepRecord], list[bytes]]:
    """The blocks, the other records, and the content of the file with the records of the blocks, in parts."""
    data: list[bytes] = []
    end = 0
    alike: dict[str, dict[Shape, list[tuple[str, StepRecord]]]] = {}
    others: dict[str, StepRecord] = {}
    for step, record in steps.items():
        job, text = split_step(step)
        shape = _shape(job, text, record) if job else None
        if shape is None:
            others[step] = record
        else:
            alike.setdefault(job, {}).setdefault(shape, []).append((text, record))
    blocks: list[JobBlock] = []
    for job, by_shape in alike.items():
        chosen = max(by_shape, key=lambda shape: len(by_shape[shape]))
        rows = sorted(by_shape[chosen], key=lambda row: _in_loop_order(row[0]))
        written = [_encoder.encode(record) for _, record in rows]
        block = _block(job, chosen, rows, written, end)
        if block is not None:
            blocks.append(block)
            data.append(b"".join(written))
            end += len(data[-1])
        for shape, rows in by_shape.items():
            if shape != chosen or block is None:
                others.update((step_of(job, text), record) for text, record in rows)
    return blocks, others, data


def _shape(job: str, text: str, record: StepRecord) -> Shape | None:
    latest = record.latest
    if not latest.ok or len(latest.fingerprint) != 64 or "\n" in text:
        return None
    head, own = head_of_artifacts(job, text)
    found = []
    for output in latest.outputs:
        name, rest = output_name(output.id.removeprefix(head))
        if not output.id.startswith(head) or not rest.startswith(own) or len(output.sha256) != 64:
            return None
        found.append((name, rest.removeprefix(own), output.type, output.suffix))
    return tuple(found)


def head_of_artifacts(job: str, text: str) -> tuple[str, str]:
    """How the IDs of a step's artifacts begin, up to the name of the output, and the indices that follow that name."""
    if "[" not in job:
        return f"Artifact:{job}.", text
    folder, path = split_folder(step_of(job, text)[4:])
    name, bracket, indices = path.partition("[")
    return f"Artifact:{folder}{name}.", bracket + indices


def output_name(tail: str) -> tuple[str, str]:
    """`Story[3].Segments[0].x` → ("Story", "[3].Segments[0].x")."""
    cut = min((at for at in (tail.find("["), tail.find(".")) if at >= 0), default=len(tail))
    return tail[:cut], tail[cut:]


def _in_loop_order(text: str) -> tuple[int, list[int], str]:
    """The order of most loops: numbers as numbers. Another order only makes planning slower."""
    parts = text[1:-1].split("][")
    numbers = [int(part) for part in parts if part.isdecimal()]
    return (0, numbers, "") if len(numbers) == len(parts) else (1, [], text)


def _block(
    job: str, shape: Shape, rows: Sequence[tuple[str, StepRecord]], written: Sequence[bytes], start: int
) -> JobBlock | None:
    """None if a hash in it is not written as hex digits, and so would be lost as bytes.

    `written`: the records, which begin at `start` of their file.
    """
    attempts = [record.latest for _, record in rows]
    fingerprints = _packed([attempt.fingerprint for attempt in attempts])
    hashes = [_packed([attempt.outputs[i].sha256 for attempt in attempts]) for i in range(len(shape))]
    if fingerprints is None or None in hashes:
        return None
    sizes = [array("q", [attempt.outputs[i].size for attempt in attempts]).tobytes() for i in range(len(shape))]
    ends, checks = array("Q", accumulate(map(len, written), initial=start)), array("I", map(crc32, written))
    lines = "\n".join([text for text, _ in rows])
    columns = tuple(column for column in hashes if column is not None)
    seen = [array("Q", column).tobytes() for column in zip(*[(a.reads, a.packages) for a in attempts], strict=True)]
    past = array("Q", [row for row, (_, record) in enumerate(rows) if record.has_past]).tobytes()
    made = ends.tobytes(), checks.tobytes(), *seen, past
    return JobBlock(job, lines, shape, fingerprints, columns, tuple(sizes), *made)


def _packed(hashes: Sequence[str]) -> bytes | None:
    return HashColumn.of(hashes).whole
