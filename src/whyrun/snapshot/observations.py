"""What steps read without declaring it, and the packages that they imported: each distinct set once. Pure.

100,000 instances mostly read the same ten modules. So a record holds the number of a set, which is made of its content:
equal sets have equal numbers in every log. 0 is the empty set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from hashlib import sha256

import msgspec

from whyrun.artifacts.hashing import canonical_json
from whyrun.errors import StateError
from whyrun.log.decoding import decoded, read_observed
from whyrun.log.reads import Observed, Read, ReadKind, reads_problem

ABSENT = "absent"  # the content of a path where nothing is
STRACE = "strace"

_decoders = cache(lambda: (msgspec.json.Decoder(Observed), msgspec.json.Decoder(dict[str, str])))


class KnownRead(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A read of an attempt. `job`: of a listed folder, the job whose own published files do not count in it."""

    path: str
    kind: ReadKind
    sha256: str | None = None
    by: str = "python"
    job: str = ""

    @property
    def key(self) -> str:
        """What is looked at: a path, or the names in a folder: `data/`, `data/ without Job:Fit`."""
        if self.kind != "folder":
            return self.path
        return f"{self.path}/ without Job:{self.job}" if self.job else f"{self.path}/"

    @property
    def names_key(self) -> str:
        """Of the names in a folder, as they were."""
        return f"{self.key} {self.sha256}"

    @property
    def shown(self) -> str:
        return f"{self.path}/" if self.kind == "folder" else self.path

    @property
    def content(self) -> str | None:
        """The hash, or `absent`; None: nobody knows what the step read."""
        return ABSENT if self.kind == "absent" else self.sha256

    def to_read(self) -> Read:
        return Read(self.path, self.kind, self.sha256, "strace" if self.by == STRACE else "python")


# Instead of a long list whose blob is lost: something was read, but nobody knows what.
LOST = Read("(a list that the store has lost)", "unknown")


class Observations(msgspec.Struct, array_like=True, dict=True):
    """All sets, by number. `traced`: by job, the run of its latest traced success and what only strace saw."""

    reads: list[KnownRead] = []
    read_sets: dict[int, tuple[int, ...]] = {}  # places in `reads`
    package_sets: dict[int, dict[str, str]] = {}
    traced: dict[str, tuple[int, int]] = {}
    is_whole: bool = True  # no blob of a long list was lost

    def reads_of(self, number: int) -> list[KnownRead]:
        return [self.reads[place] for place in self.read_sets.get(number, ())]

    def packages_of(self, number: int) -> Mapping[str, str]:
        return self.package_sets.get(number, {})

    def known_reads(self, job: str) -> list[KnownRead]:
        """What only strace saw on the traced instance of a job."""
        return self.reads_of(self.traced[job][1]) if job in self.traced else []

    # -- adding --

    def add_event_reads(self, job: str, raw: bytes, get_blob: Callable[[str], bytes]) -> int:
        """The field `observed` of an event; ValueError if a log must not hold it."""
        if not raw or raw == b"null":
            return 0
        found = self._by_raw.get((job, raw))
        if found is None:
            found = self._by_raw[job, raw] = self.add_reads(job, self._decoded(raw, get_blob))
        return found

    def _decoded(self, raw: bytes, get_blob: Callable[[str], bytes]) -> Iterable[Read]:
        try:
            reads = read_observed(decoded(_decoders()[0].decode, raw), get_blob)
        except StateError as lost:
            if lost.diagnostics[0].code != "STORE_DAMAGED":
                raise
            self.is_whole = False
            return [LOST]
        problem = reads_problem(reads)
        if problem is not None:
            raise ValueError(problem)
        return reads

    def add_reads(self, job: str, reads: Iterable[Read]) -> int:
        return self._add([KnownRead(r.path, r.kind, r.sha256, r.by, job if r.kind == "folder" else "") for r in reads])

    def add_packages(self, raw: bytes) -> int:
        """The field `packages` of an event; ValueError if it is not a mapping of texts."""
        if not raw:
            return 0
        found = self._packages_by_raw.get(raw)
        if found is None:
            packages = decoded(_decoders()[1].decode, raw)
            found = _number(packages) if packages else 0
            if packages:
                self.package_sets[found] = packages
            self._packages_by_raw[raw] = found
        return found

    def strace_only(self, number: int) -> int:
        return self._add([read for read in self.reads_of(number) if read.by == STRACE])

    def joined(self, own: int, more: int) -> int:
        """The reads of one set, and those of another at paths that the first does not have."""
        if not more or own == more:
            return own
        if (own, more) not in self._joined:
            reads = self.reads_of(own)
            paths = {read.path for read in reads}
            self._joined[own, more] = self._add([*reads, *(r for r in self.reads_of(more) if r.path not in paths)])
        return self._joined[own, more]

    def _add(self, reads: Sequence[KnownRead]) -> int:
        if not reads:
            return 0
        in_order = sorted(reads, key=lambda read: read.path)
        number = _number(in_order)
        if number not in self.read_sets:
            self.read_sets[number] = tuple(map(self._place, in_order))
        return number

    def _place(self, read: KnownRead) -> int:
        place = self._places.get(read)
        if place is None:
            place = self._places[read] = len(self.reads)
            self.reads.append(read)
        return place

    @cached_property
    def _places(self) -> dict[KnownRead, int]:
        return {read: place for place, read in enumerate(self.reads)}

    @cached_property
    def _by_raw(self) -> dict[tuple[str, bytes], int]:
        return {}

    @cached_property
    def _packages_by_raw(self) -> dict[bytes, int]:
        return {}

    @cached_property
    def _joined(self) -> dict[tuple[int, int], int]:
        return {}


def _number(content: object) -> int:
    """63 bits of a hash: it fits in every format of the index."""
    return int.from_bytes(sha256(canonical_json(msgspec.to_builtins(content))).digest()[:8]) >> 1 or 1
