"""Conflicts of published paths, found before anything runs. Pure.

No two outputs share a path, and no output replaces an input, a file that the workflow is read from, a file that a
pattern of an input or of `code:` matches, or anything in a folder that Whyrun reserves. Paths are compared with links
resolved. Outputs may have 100,000 paths each, so every check first asks what it can say of the column as a whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from whyrun.errors import Diagnostic
from whyrun.graph.paths import OutputColumn, Pattern, folders_of, surely_apart
from whyrun.graph.tables import Graph, JobTable
from whyrun.ids import own_loops, site_of, split_site, without_indices
from whyrun.workflow.advice import Advice, own_path, worded
from whyrun.workflow.arrays import is_array
from whyrun.workflow.inputs import InputValue

# --- links on disk -----------------------------------------------------------------------------------------------
#
# The links on the paths of a graph, as found on disk: several paths can be one file.


class RealFolder(msgspec.Struct, frozen=True):
    """A folder behind a link. `path`: without links, from the project folder (itself: empty)."""

    path: str
    link: str  # the first link on the way


class LinksOnDisk(msgspec.Struct, frozen=True):
    """The folders of outputs that lie behind links, and inputs with a second path."""

    folders: Mapping[str, RealFolder] = {}  # folder as written → the real folder
    inputs: Mapping[str, str] = {}  # another path of an input → the way, for messages

    def __bool__(self) -> bool:
        return bool(self.folders or self.inputs)

    def real(self, path: str) -> str:
        """The path with links resolved; the same for all paths of one file. Also for the head of a column."""
        folder, _, name = path.rpartition("/")
        found = self.folders.get(folder)
        return path if found is None else f"{found.path}/{name}" if found.path else name

    def real_site(self, site: str) -> str:
        path, section = split_site(site)
        return site_of(self.real(path), section)

    def explained(self, *written: str) -> str:
        """The links on these paths, as the end of a message; empty if there are none."""
        through = {path: self.folders.get(path.rpartition("/")[0]) for path in written}
        links = [f"`{p}` is `{self.real(p)}`, through the link `{f.link}`" for p, f in through.items() if f is not None]
        return f" ({'; '.join(links)})" if links else ""


NO_LINKS = LinksOnDisk()

# --- conflicts ---------------------------------------------------------------------------------------------------


_AN_INPUT = "an input of this workflow"
_LAST_CHARACTER = "\U0010ffff"


class OutputPaths:
    """The paths of one published output, by row."""

    def __init__(self, table: JobTable, output: OutputColumn, links: LinksOnDisk) -> None:
        self.table, self.output, self.links = table, output, links
        self.sites: Sequence[str] = output.paths or ()
        self.place = table.decl.places.get(f"outputs.{output.name}.path", table.decl.place)

    @cached_property
    def real_sites(self) -> Sequence[str]:
        if not self.links.folders:
            return self.sites
        return list(map(self.links.real_site if self.output.append else self.links.real, self.sites))

    @property
    def real_head(self) -> str | None:
        """The text that all real paths begin with; see `graph.paths.PathTexts`. None where it is not known."""
        return None if self.output.head is None else self.links.real(self.output.head)

    @cached_property
    def heads(self) -> set[str]:
        """The head as written and with links resolved; empty where there is none."""
        return set() if self.output.head is None else {self.output.head, self.links.real(self.output.head)}

    @cached_property
    def written_of(self) -> dict[str, str]:
        """Each path, as written and with links resolved → the path as written."""
        written = [split_site(site)[0] for site in self.sites]
        return {path: as_written for as_written in written for path in (as_written, self.links.real(as_written))}

    @cached_property
    def prefix(self) -> str:
        """The longest text that all paths begin with, as written and with links resolved."""
        # The sites of shared files end in their keys, which are no part of the path.
        paths = self.heads or (self.written_of if self.links.folders or self.output.append else self.sites)
        return _common_prefix(min(paths), max(paths))

    @cached_property
    def folders(self) -> list[str]:
        """The folders that publishing makes."""
        return sorted({folder for path in self.heads or self.written_of for folder in folders_of(path)})

    def written(self, position: int) -> str:
        """The path as the workflow has it."""
        return split_site(self.sites[position])[0]

    def artifact(self, position: int) -> str:
        return self.table.output_id(self.output.name, position)

    def problem(self, message: str, hint: str | Advice | None) -> Diagnostic:
        text = None if hint is None else worded(hint, in_plan=self.table.decl.in_plan)
        return self.place.diagnostic("DUPLICATE_OUTPUT_PATH", message, text)


class PublishedOutputs:
    """The published outputs of a graph, in its order."""

    def __init__(self, graph: Graph, links: LinksOnDisk = NO_LINKS) -> None:
        self.links = links
        self._outputs = [OutputPaths(t, output, links) for t in graph.tables for output in t.outputs if output.paths]

    def __iter__(self) -> Iterator[OutputPaths]:
        return iter(self._outputs)

    def near(self, pattern: Pattern) -> list[OutputPaths]:
        """The outputs that a pattern may match, found by their prefix: both jobs and patterns may be many."""
        found: dict[str, list[OutputPaths]] = {}
        for fixed in pattern.fixed_prefixes:
            shorter = (fixed[:length] for length in range(len(fixed)))
            begin, end = (bisect_left(self._prefixes, text) for text in (fixed, fixed + _LAST_CHARACTER))
            found |= {prefix: self._by_prefix.get(prefix, []) for prefix in (*shorter, *self._prefixes[begin:end])}
        return [output for outputs in found.values() for output in outputs]

    @cached_property
    def _by_prefix(self) -> dict[str, list[OutputPaths]]:
        by_prefix: dict[str, list[OutputPaths]] = {}
        for output in self:
            by_prefix.setdefault(output.prefix, []).append(output)
        return by_prefix

    @cached_property
    def _prefixes(self) -> list[str]:
        return sorted(self._by_prefix)


def _common_prefix(one: str, other: str) -> str:
    length = min(len(one), len(other))
    return one[: next((i for i in range(length) if one[i] != other[i]), length)]


class _Occupied:
    """Paths that are not free for outputs, each with a description for messages."""

    def __init__(self, what: Mapping[str, str], inside: str) -> None:
        self.what, self._inside = what, inside
        self._member_of = {folder: path for path in sorted(what, reverse=True) for folder in folders_of(path)}

    def conflict(self, path: str) -> str | None:
        if path in self.what:
            return f"`{path}` is {self.what[path]}"
        if path in self._member_of:  # publishing replaces the folder with all its content
            member = self._member_of[path]
            return f"`{path}` is the folder of `{member}`, which is {self.what[member]}"
        above = next((folder for folder in (*folders_of(path), ".") if folder in self.what), None)
        return None if above is None else f"`{path}` {self._inside} `{above}`, which is {self.what[above]}"

    def is_near(self, prefix: str) -> bool:
        """May a path with this prefix be in conflict?"""
        return any(f"{path}/".startswith(prefix) or prefix.startswith(f"{path}/") for path in self.what)


# --- other outputs, and inputs -----------------------------------------------------------------------------------


def sections_without_file(graph: Graph, jobs: Container[str]) -> list[Diagnostic]:
    """Sections of these jobs that belong to no file: neither the job nor its action names one."""
    return [
        output.place.diagnostic(
            "MISSING_KEY",
            f"output `{output.name}` has `append`, but no `path`",
            "say which file it is a section of: `path: results/metadata.json`; or let `get_output_files` of the action "
            "name it, which is asked if every entry of `with:` is known before the run",
        )
        for table in graph.tables
        for column in table.outputs
        if table.name in jobs and column.append and column.paths is None and (output := table.decl.outputs[column.name])
    ]


def path_problems(graph: Graph, links: LinksOnDisk = NO_LINKS) -> list[Diagnostic]:
    """Outputs with the same path (or the same key of a shared file), inside each other, or in conflict with an input.

    One problem for each output is enough.
    """
    outputs = PublishedOutputs(graph, links)
    inputs = dict.fromkeys(input_paths(graph), "") | {path: f", {way}" for path, way in links.inputs.items()}
    if surely_apart([output.real_head for output in outputs], inputs):
        return []
    plain = {path for output in outputs if not output.output.append for path in output.real_sites}
    shared = {split_site(site)[0] for output in outputs if output.output.append for site in output.real_sites}
    sites = [site for output in outputs for site in output.real_sites]
    files = plain | shared if shared else plain
    folders = _folders_above(files)
    distinct = len(plain if not shared else set(sites)) == len(sites) and plain.isdisjoint(shared)
    off_inputs = files.isdisjoint(inputs) and folders.isdisjoint(inputs) and files.isdisjoint(_folders_above(inputs))
    if distinct and files.isdisjoint(folders) and off_inputs:
        return []
    occupied = _Occupied({path: f"{_AN_INPUT}{way}" for path, way in inputs.items()}, "lies in")
    return list(_path_problems(outputs, plain & shared, files, folders, occupied))


def _path_problems(
    outputs: PublishedOutputs, half_shared: set[str], files: set[str], folders: set[str], inputs: _Occupied
) -> Iterator[Diagnostic]:
    # A file, and each section of one → the first artifact that is published there, and its path as written.
    taken: dict[str, tuple[str, str]] = {}
    for output in outputs:
        for position, site in enumerate(output.real_sites):
            mine, written = output.artifact(position), output.written(position)
            path, section = split_site(site)
            first, first_written = taken.setdefault(path, (mine, written))
            other, other_written = taken.setdefault(site, (mine, written))
            hint: str | Advice | None = None
            also_written = other_written
            if path in half_shared and first != mine:
                problem = f"`{path}` would be written by both `{first}` and `{mine}`, but not both set `append`"
                hint = "set `append: true` for every output that shares the file, or give them paths of their own"
                also_written = first_written
            elif other != mine and section is not None:
                problem = f"`{path}` would have two sections `{section}`, of `{other}` and of `{mine}`"
                hint = _loop_hint(output, other, "the `key:`") or "give each a `key:` of its own"
            elif other != mine:
                problem = f"`{path}` would be written by both `{other}` and `{mine}`"
                share = "; or let all of them share the file: `append: true`" if output.output.type == "json" else ""
                of_loop = _loop_hint(output, other, "the path")
                hint = own_path(share) if of_loop is None else of_loop + share
            elif path in folders:
                inside = next(p for p in sorted(files) if p.startswith(f"{path}/"))
                problem = f"`{path}` is an output and also the folder of `{inside}`"
                also_written = _written_as(inside, outputs)
            elif (conflict := inputs.conflict(path)) is not None:
                problem = f"{conflict}; publishing there would change it"
                hint = "choose another path for the output"
            else:
                continue
            yield output.problem(problem + outputs.links.explained(also_written, written), hint)
            break


def _loop_hint(output: OutputPaths, other: str, where: str) -> str | None:
    """For two instances of one output that do not differ in their path or key."""
    same = without_indices(other) == f"Artifact:{output.table.name}.{output.output.name}"
    if not same or not own_loops(output.table.decl.loops):
        return None
    return f"put each loop variable into {where}, such as `${{{{ {output.table.decl.loops[-1]} }}}}`"


def _written_as(path: str, outputs: PublishedOutputs) -> str:
    instances = ((output, position) for output in outputs for position in range(len(output.sites)))
    return next(
        output.written(position) for output, position in instances if split_site(output.real_sites[position])[0] == path
    )


def _folders_above(paths: Iterable[str]) -> set[str]:
    """Also the project folder, where any path is given."""
    found = {path.rpartition("/")[0] for path in paths}
    return found | {parent for folder in found for parent in folders_of(folder)} | ({"."} if found else set())


def input_paths(graph: Graph) -> set[str]:
    found: set[str] = set()

    def walk(value: InputValue) -> None:
        if value.path is not None:
            found.add(value.path)
        for item in value.elements or ():
            walk(item)

    for value in graph.inputs.values():
        walk(value)
    return found


# --- the files that the workflow is read from --------------------------------------------------------------------


def own_file_problems(outputs: PublishedOutputs, own: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Outputs that would replace a file of `own`: path in the project → what it is. One for each output is enough.

    Such a run would succeed and leave a project that cannot be planned any more.
    """
    occupied = _Occupied(own, "would need a folder at")
    for output in outputs:
        if occupied.is_near(output.prefix):
            paths = (split_site(site)[0] for site in output.sites)
            message = next(filter(None, (_own_file_message(output, path, occupied) for path in paths)), None)
            if message is not None:
                yield output.problem(message, "choose another path for the output")


def _own_file_message(output: OutputPaths, path: str, occupied: _Occupied) -> str | None:
    """A conflict of the path as written comes first: its message need not mention links."""
    replaced = "publishing there would replace it"
    if (conflict := occupied.conflict(path)) is not None:
        return f"{conflict}; {replaced}"
    conflict = occupied.conflict(output.links.real(path))
    return None if conflict is None else f"{conflict}; {replaced}{output.links.explained(path)}"


# --- patterns of inputs and of `code:` ---------------------------------------------------------------------------


def pattern_problems(outputs: PublishedOutputs, patterns: Sequence[Pattern]) -> Iterator[Diagnostic]:
    """Outputs that a pattern would match: once published, they would be inputs or code, which no workflow may change.

    One path of each output is enough.
    """
    for pattern in patterns:
        for output in outputs.near(pattern):
            path = _matched_path(output, pattern)
            if path is not None:
                what = f"`{path}` matches `{pattern.text}` of {pattern.consequence}"
                hint = "choose another path for the output, or a pattern that does not match it"
                yield output.problem(what, hint)


def _matched_path(output: OutputPaths, pattern: Pattern) -> str | None:
    if is_array(output.output.type):  # what its files are called is known once they are made
        below = (written for path, written in output.written_of.items() if pattern.may_match_below(path))
        return next((f"{written}/…" for written in below), None)
    if not _surely_unmatched(output, pattern):
        is_folder = output.output.type == "directory"
        for path, written in output.written_of.items():
            if pattern.matches(path, is_folder=is_folder):
                return written
    if pattern.is_code:
        return None  # code is files
    # `*` also matches a folder that publishing makes.
    return next((folder for folder in output.folders if pattern.matches(folder, is_folder=True)), None)


def _surely_unmatched(output: OutputPaths, pattern: Pattern) -> bool:
    """By their suffix, or by their depth."""
    if "." in pattern.ending and not pattern.ending.endswith(output.output.suffix):
        return True
    depths = {head.count("/") + 1 for head in output.heads}
    return bool(depths) and all("**" not in form and len(form) not in depths for form in pattern.forms)


# --- folders that Whyrun reserves --------------------------------------------------------------------------------


class ReservedFolder(msgspec.Struct, frozen=True):
    """A folder that runs write to, apart from the files that they publish: the state, or a shared store in a folder."""

    name: str
    real_path: str  # absolute
    path: str | None  # in the project; None where it lies outside
    what: str  # "the state", for messages
    elsewhere: str  # how to keep it in another folder, for hints
    files: Collection[str]  # the names of the files directly in it


def reserved_folder_problems(outputs: PublishedOutputs, folders: Sequence[ReservedFolder]) -> Iterator[Diagnostic]:
    """Outputs in a reserved folder, where they could replace a log. One path of each output is enough."""
    for output in outputs:
        for folder in folders:
            inside = f"{folder.path}/"
            if folder.path is None or not (output.prefix.startswith(inside) or inside.startswith(output.prefix)):
                continue
            matches = (written for path, written in output.written_of.items() if f"{path}/".startswith(inside))
            if (written := next(matches, None)) is not None:
                what = f"`{written}` is in `{folder.path}`, where whyrun keeps {folder.what}"
                yield output.problem(what, f"choose another path for the output, or {folder.elsewhere}")


def reserved_folders_in_patterns(
    patterns: Sequence[Pattern], folders: Sequence[ReservedFolder]
) -> Iterator[Diagnostic]:
    """Patterns that would match other files after every run. (`*` does not match `.whyrun`: it begins with a dot.)"""
    for pattern in patterns:
        for folder in folders:
            if folder.path is not None and pattern.reaches_into(folder.path, folder.files):
                looks = f"looks into `{folder.path}`, {folder.what}, which every run changes"
                hint = f"write a pattern that does not, or {folder.elsewhere}"
                yield Diagnostic("INPUT_TYPE", f"`{pattern.text}` of {pattern.owner} {looks}", hint=hint)
