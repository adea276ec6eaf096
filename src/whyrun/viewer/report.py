"""`whyrun report`: the application with its data in one file that opens from disk, without a server or a network.

The data are the answers that the server gives, in compressed parts: the page opens the first, and the others when
somebody looks at them. Stored bytes are added as far as they fit.
"""

from __future__ import annotations

import base64
import gzip
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec

from whyrun import __version__
from whyrun.errors import WhyrunError, error
from whyrun.facts.previews import ACTIVE
from whyrun.viewer.contents import Served, served_blob, served_input
from whyrun.viewer.current import Params
from whyrun.viewer.views import APP, asset, content_policy, element, head, tail

if TYPE_CHECKING:
    from whyrun.connections.redact import Redactor
    from whyrun.graph.tables import JobTable
    from whyrun.viewer.current import CurrentState
    from whyrun.viewer.views import Views

LARGEST = 10_000_000  # bytes of the file; contents beyond it are left out
LARGEST_CONTENT = 256 << 10  # bytes of one content; of a larger image a thumbnail is taken
THUMBNAIL = 640  # pixels
MARK = "<!doctype html>"
STDOUT = "-"
PART = 1000  # instances of one part
FULL = 2000  # jobs with everything that the server tells about one; of others the reasons
CUT_FROM = 10_000  # instances, from which on hashes are cut
RUNS = 50
PAIRS = 10  # comparisons of consecutive runs
ARTIFACTS = 2000
PATTERNS = 20
INPUTS = 100  # whose readers are listed
PRINTED = ("stdout", "stderr")
_LONG_HASH = re.compile(rb'"((?:sha256:|blob/)?[0-9a-f]{16})[0-9a-f]{48}"')


@dataclass(frozen=True)
class ReportOptions:
    media: str = "some"  # some, all, none
    logs: bool = False  # also what steps printed
    largest: int = LARGEST


@dataclass
class Report:
    """`texts` are the parts of the file."""

    texts: list[str]
    left_out: list[str]

    @property
    def data(self) -> bytes:
        return "".join(self.texts).encode()


def make_report(state: CurrentState, views: Views, options: ReportOptions) -> Report:
    """The whole file. USAGE if a known secret is in it."""
    from whyrun.connections.redact import Redactor
    from whyrun.execution.dispatch.run_secrets import known_secrets

    writer = _Writer(state, views, options, Redactor(known_secrets(state.project, state.graph)))
    writer.collect()
    return writer.report()


@dataclass
class _Writer:
    state: CurrentState
    views: Views
    options: ReportOptions
    secrets: Redactor
    parts: list[str] = field(default_factory=list)  # base64 of gzip, from `m1` on
    first: dict[str, Any] = field(default_factory=dict)  # the members of `m0`
    others: dict[str, str] = field(default_factory=dict)  # member → its part
    why: dict[str, list[str]] = field(default_factory=dict)  # job → its parts
    named: dict[str, dict[str, Any]] = field(default_factory=dict)  # hash → the description of a content
    left_out: list[str] = field(default_factory=list)

    def collect(self) -> None:
        self._first("state")
        self._first("graph")
        self._first("parameters")
        for table in self.state.graph.tables:
            (self._first if self.state.graph.size <= CUT_FROM else self._other)("cells", job=table.name)
        self._runs()
        self._artifacts()
        for table in self.state.graph.tables:
            self._whys(table)
        self._results()
        for id_ in list(self.state.found.snapshot.input_state)[:INPUTS] if self.state.graph.size <= FULL else ():
            self._other("why", id=id_)

    # --- members -----------------------------------------------------------------------------------------------------

    def _answer(self, name: str, parameters: Mapping[str, str]) -> Any:
        answer = self.views.answer(self.state, name, Params.of(**parameters))
        return self._cleaned(answer)

    def _first(self, name: str, **parameters: str) -> Any:
        answer = self.first[member_name(name, parameters)] = self._answer(name, parameters)
        return answer

    def _other(self, name: str, **parameters: str) -> None:
        """A member that the page opens when it is asked for. What cannot be answered is left out."""
        try:
            answer = self._answer(name, parameters)
        except WhyrunError as wrong:
            self.left_out.append(f"{member_name(name, parameters)}: {wrong.diagnostics[0].message}")
            return
        key = member_name(name, parameters)
        self.others[key] = self._part({key: answer})

    def _part(self, members: Mapping[str, Any]) -> str:
        self.parts.append(self._packed(members))
        return f"m{len(self.parts)}"

    def _packed(self, members: Mapping[str, Any]) -> str:
        data = msgspec.json.encode(members)
        self._refuse_secret(data, ", ".join(list(members)[:3]))
        if self.state.graph.size > CUT_FROM:
            data = _LONG_HASH.sub(rb'"\1"', data)
        return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()

    def _refuse_secret(self, data: bytes, what: str) -> None:
        if self.secrets and self.secrets.found_in(data):
            raise error("SECRET_IN_REPORT", f"a secret of this workflow is in what the report would show ({what})",
                        hint="prune the runs that recorded it, or leave out bytes with `--media none`")  # fmt: skip

    def _cleaned(self, value: Any) -> Any:
        """Without what steps printed, and with each described content noted."""
        if isinstance(value, dict):
            if "sha256" in value and "href" in value:
                self.named.setdefault(str(value["sha256"]), value)
            return {
                name: self._cleaned(one)
                for name, one in value.items()
                if self.options.logs or name not in PRINTED or not isinstance(one, list)
            }
        return [self._cleaned(one) for one in value] if isinstance(value, list) else value

    def _runs(self) -> None:
        runs = self._first("runs")["runs"]
        if self.state.at is not None:
            last = int(self.state.at[1:])
            for name in ("runs", "pruned"):
                listed = self.first["runs"].get(name, [])
                self.first["runs"][name] = [run for run in listed if int(run["run"][1:]) <= last]
            runs = self.first["runs"]["runs"]
        shown = [run["run"] for run in runs][-RUNS:]
        if len(runs) > RUNS:
            self.left_out.append(f"{len(runs) - RUNS} earlier runs: the report has the last {RUNS}")
        for run in runs[-RUNS:]:
            self._other("run", id=run["run"])
            self._other("log", run=run["run"])
            if run["mode"] == "run":
                self._other("plan", run=run["run"])
        for old, new in list(pairwise(shown))[-PAIRS:]:
            self._other("diff", old=old, new=new)
        composed = self._first("datasets")["runs"]
        for run in composed[-PAIRS:]:
            self._other("datasets", run=run)

    def _artifacts(self) -> None:
        graph = self.state.graph
        answer, rows = self._artifact_rows({})
        total = answer["total"]
        whole = {**answer, "page": 0, "pages": 1, "rows": rows}
        self.others["artifacts?page=0"] = self._part({"artifacts?page=0": whole})
        if total > len(rows):
            self.left_out.append(f"{total - len(rows)} artifacts: the report lists {len(rows)}")
        shown = rows[: FULL // 10]
        if graph.size <= FULL:
            leaves = self._artifact_rows({"leaves": "1"})[1]  # reasons and tables of results lead to them
            listed = {row["id"] for row in rows}
            shown = [*rows, *(row for row in leaves if row["id"] not in listed)]
        self.state.read_histories([row["id"] for row in shown])
        for row in shown:
            self._other("artifact", id=row["id"])
            if row["state"] == "available":
                self._other("lineage", id=row["id"])

    def _artifact_rows(self, parameters: Mapping[str, str]) -> tuple[Any, list[Any]]:
        """The first answer of the list of artifacts, and the rows of all its pages."""
        answer = self._answer("artifacts", {"page": "0", **parameters})
        rows = list(answer["rows"])
        for page in range(1, answer["pages"]):
            if len(rows) < ARTIFACTS:
                rows += self._answer("artifacts", {"page": str(page), **parameters})["rows"]
        return answer, rows

    def _results(self) -> None:
        patterns = self._first("results")["patterns"]
        for pattern in patterns[:PATTERNS]:
            self._other("results", pattern=pattern)
        if len(patterns) > PATTERNS:
            self.left_out.append(f"{len(patterns) - PATTERNS} tables of results: the report has {PATTERNS}")

    def _whys(self, table: JobTable) -> None:
        """Why each instance is or is not in the plan, in parts of a thousand."""
        full, brief = self.state.graph.size <= FULL, self.state.graph.size > CUT_FROM
        parts = self.why[table.name] = []
        for start in range(0, len(table), PART):
            nodes = range(table.base + start, table.base + min(start + PART, len(table)))
            if full:
                ids = [table.job_id(node - table.base) for node in nodes]
                answers = [
                    self._answer("why", {"id": id_}) | {"focus": self._answer("focus", {"id": id_})} for id_ in ids
                ]
            else:
                answers = [self._cleaned(one) for one in self.views.reasons(self.state, nodes, brief=brief)]
            parts.append(self._part({f"why/{table.name}/{start // PART}": answers}))

    # --- contents ----------------------------------------------------------------------------------------------------

    def report(self) -> Report:
        config = {"mode": "report", "version": __version__, "live": None}
        title = f"{self.first['state']['workflow']} · Whyrun"
        policy = content_policy(asset(APP), live=False)
        frame = head(title, config, policy) + tail()
        used = len(frame.encode()) + sum(map(len, self.parts)) + (64 << 10)
        blobs, elements = self._blobs(self.options.largest - used)
        members = {"why": self.why, "others": self.others}
        index = {"members": members, "blobs": blobs, "page": PART, "left_out": self.left_out}
        texts = [head(title, config, policy)]
        texts += element("m0", [self._packed({**self.first, "index": index})])
        for number, part in enumerate(self.parts, 1):
            texts += element(f"m{number}", [part])
        return Report([*texts, *elements, tail()], self.left_out)

    def _blobs(self, room: int) -> tuple[dict[str, Any], list[str]]:
        """The contents that fit, the smallest first."""
        if self.options.media == "none":
            if self.named:
                self.left_out.append(f"{len(self.named)} contents: `--media none`")
            return {}, []
        blobs: dict[str, Any] = {}
        elements: list[str] = []
        large = 0
        too_large = 0
        for sha256, served, size in sorted(self._served(), key=lambda one: one[2]):
            data, media_type, reduced = self._bytes(served, size)
            if data is None:
                large += 1
                continue
            text = base64.b64encode(data).decode()
            if len(text) > room and self.options.media != "all":
                too_large += 1
                continue
            self._refuse_secret(data, served.name)
            room -= len(text)
            id_ = f"b{sha256[:16]}"
            blobs[sha256] = {"element": id_, "media_type": media_type, "size": size, "thumbnail": reduced}
            elements += element(id_, [text])
        if large:
            self.left_out.append(f"{large} contents: each over {LARGEST_CONTENT >> 10} KiB (`--media all` takes them)")
        if too_large:
            limit = f"{self.options.largest / 1e6:.0f} MB"
            self.left_out.append(f"{too_large} contents: the file would be over {limit} (`--media all` takes them)")
        cut = self.state.graph.size > CUT_FROM
        return {sha[:16] if cut else sha: blob for sha, blob in blobs.items()}, elements

    def _served(self) -> Iterator[tuple[str, Served, int]]:
        for sha256, described in self.named.items():
            try:
                if str(described["href"]).startswith("blob/"):
                    served = served_blob(self.state, sha256, self.views.named)
                else:
                    served = served_input(self.state, _id_of(described))
                yield sha256, served, os.path.getsize(served.path)
            except (WhyrunError, OSError):
                self.left_out.append(f"{sha256[:8]}…: its bytes are not there any more")

    def _bytes(self, served: Served, size: int) -> tuple[bytes | None, str, bool]:
        """The bytes of a content, or of a thumbnail; None if it is left out."""
        from whyrun.artifacts.hashing import bytes_sha256

        if size <= LARGEST_CONTENT or self.options.media == "all":
            with open(served.path, "rb") as file:
                data = file.read()
            if served.sha256 is not None and bytes_sha256(data) != served.sha256:
                return None, served.media_type, False  # an input that changed meanwhile
            return data, served.media_type, False
        if served.media_type.startswith("image/") and served.media_type.partition("/")[2] not in ACTIVE:
            return _thumbnail(served.path), "image/webp", True
        return None, served.media_type, False


def _id_of(described: Mapping[str, Any]) -> str:
    from urllib.parse import parse_qs, urlsplit

    return parse_qs(urlsplit(str(described["href"])).query)["id"][0]


def _thumbnail(path: str) -> bytes | None:
    """A small picture of an image; None without Pillow, or if it is damaged."""
    import io

    try:
        from PIL import Image
    except ImportError:
        return None
    try:
        with Image.open(path) as image:
            image.thumbnail((THUMBNAIL, THUMBNAIL))
            output = io.BytesIO()
            image.convert("RGBA" if "A" in image.getbands() else "RGB").save(output, "WEBP", quality=80)
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    return output.getvalue()


def member_name(name: str, parameters: Mapping[str, str]) -> str:
    """How the page asks: `plan?run=r0001`."""
    return f"{name}?{urlencode(sorted(parameters.items()))}" if parameters else name


def write_report(path: str, report: Report) -> None:
    """Only the user may read it. USAGE if it would replace a file that is no report."""
    from whyrun.artifacts.durable import write_output

    if path == STDOUT:
        raise error("USAGE", "a report is a file", hint="name one: `whyrun report -o report.html`")
    if os.path.isfile(path) and os.path.getsize(path) and not _is_report(path):
        raise error("USAGE", f"`{path}` exists and is not a report: it is not overwritten",
                    hint="choose another name with `-o`, or remove the file first")  # fmt: skip
    try:
        write_output(path, report.data, mode=0o600)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as problem:
        raise error("FILE_MISSING", f"`{path}` cannot be written: {problem.strerror}", hint="check the path") from None


def _is_report(path: str) -> bool:
    with open(path, "rb") as file:
        start = file.read(16384)
    return start.startswith(MARK.encode()) and b'id="whyrun-config"' in start
