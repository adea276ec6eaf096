"""Published paths checked: no file is written by two outputs, and no output changes an input. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from whyrun.errors import Diagnostic
from whyrun.graph.graph import Graph, JobTable, OutputColumn
from whyrun.graph.links import NO_LINKS, Links
from whyrun.graph.paths import folders_of, surely_apart
from whyrun.ids import split_site
from whyrun.workflow.inputs import InputValue

_AN_INPUT = "an input of this workflow"


class _Column(NamedTuple):
    table: JobTable
    output: OutputColumn
    sites: Sequence[str]  # by row, where they really are

    def written(self, position: int) -> str:
        """The path as it stands in the workflow."""
        assert self.output.paths is not None
        return split_site(self.output.paths[position])[0]

    def artifact(self, position: int) -> str:
        return f"Artifact:{self.table.name}.{self.output.name}{self.table.texts[position]}"


def check_paths(graph: Graph, diagnostics: list[Diagnostic], links: Links = NO_LINKS) -> None:
    """No two outputs at one path (or under one key of a shared file), none inside another; none on top of an input, in
    one, or where the folder of one is. Paths are compared by where they lead."""
    declared = [(table, output) for table in graph.tables for output in table.outputs if output.paths is not None]
    inputs = dict.fromkeys(input_paths(graph), "") | {place: f", {way}" for place, way in links.inputs.items()}
    if surely_apart([_real_head(output, links) for _, output in declared], inputs):
        return
    columns = [_Column(table, output, _real_sites(output, links)) for table, output in declared]
    plain = {path for column in columns if not column.output.append for path in column.sites}
    shared = {split_site(site)[0] for column in columns if column.output.append for site in column.sites}
    sites = [site for column in columns for site in column.sites]
    files = plain | shared if shared else plain
    folders = _folders_above(files)
    distinct = len(plain if not shared else set(sites)) == len(sites) and plain.isdisjoint(shared)
    off_inputs = files.isdisjoint(inputs) and folders.isdisjoint(inputs) and files.isdisjoint(_folders_above(inputs))
    if not (distinct and files.isdisjoint(folders) and off_inputs):
        diagnostics.extend(_problems(columns, plain & shared, files, folders, inputs, links))


def _problems(
    columns: Sequence[_Column],
    half_shared: set[str],
    files: set[str],
    folders: set[str],
    inputs: Mapping[str, str],
    links: Links,
) -> Iterator[Diagnostic]:
    """One for each output is enough."""
    holding = {folder: path for path in sorted(inputs, reverse=True) for folder in folders_of(path)}
    taken: dict[
        str, tuple[str, str]
    ] = {}  # a file, and each section of one → what is first published there, as which path
    for column in columns:
        table, output, sites = column
        place = table.decl.places.get(f"outputs.{output.name}.path", table.decl.place)
        for position, site in enumerate(sites):
            mine, written = column.artifact(position), column.written(position)
            path, section = split_site(site)
            first, first_written = taken.setdefault(path, (mine, written))
            other, other_written = taken.setdefault(site, (mine, written))
            hint, also_written = None, other_written
            if path in half_shared and first != mine:
                problem = f"`{path}` would be written by both `{first}` and `{mine}`, and not both say `append`"
                hint = "say `append: true` for every output that shares the file, or give them paths of their own"
                also_written = first_written
            elif other != mine and section is not None:
                problem = f"`{path}` would have two sections `{section}`, of `{other}` and of `{mine}`"
                hint = "give each a `key:` of its own"
                if other.startswith(f"Artifact:{table.name}.{output.name}["):
                    hint = f"put each loop variable into the `key:`, such as `${{{{ {table.decl.loops[-1]} }}}}`"
            elif other != mine:
                problem = f"`{path}` would be written by both `{other}` and `{mine}`"
                hint = "give each output a path of its own"
                if other.startswith(f"Artifact:{table.name}.{output.name}["):
                    hint = f"put each loop variable into the path, such as `${{{{ {table.decl.loops[-1]} }}}}`"
                if output.type == "json":
                    hint += "; or let all of them share the file: `append: true`"
            elif path in folders:
                inside = next(p for p in sorted(files) if p.startswith(f"{path}/"))
                problem = f"`{path}` is an output and also the folder of `{inside}`"
                also_written = _written_as(inside, columns)
            elif (on_input := _on_input(path, inputs, holding)) is not None:
                problem = f"{on_input}; publishing there would change it"
                hint = "choose another path for the output"
            else:
                continue
            problem += links.explained(also_written, written)
            yield place.diagnostic("DUPLICATE_OUTPUT_PATH", problem, hint)
            break


def _on_input(path: str, inputs: Mapping[str, str], holding: Mapping[str, str]) -> str | None:
    """`inputs`: path → by which way it is one. `holding`: folder → an input in it, which would go away with it."""
    if path in inputs:
        return f"`{path}` is {_AN_INPUT}{inputs[path]}"
    if path in holding:
        return f"`{path}` is the folder of `{holding[path]}`, which is {_AN_INPUT}{inputs[holding[path]]}"
    above = next((folder for folder in (*folders_of(path), ".") if folder in inputs), None)
    return None if above is None else f"`{path}` lies in `{above}`, which is {_AN_INPUT}{inputs[above]}"


def _written_as(path: str, columns: Sequence[_Column]) -> str:
    places = ((column, position) for column in columns for position in range(len(column.sites)))
    return next(
        column.written(position) for column, position in places if split_site(column.sites[position])[0] == path
    )


def _folders_above(paths: Iterable[str]) -> set[str]:
    """Also the project folder, where any path is given."""
    found = {path.rpartition("/")[0] for path in paths}
    return found | {parent for folder in found for parent in folders_of(folder)} | ({"."} if found else set())


def _real_head(output: OutputColumn, links: Links) -> str | None:
    return None if output.append or output.head is None else links.real(output.head)


def _real_sites(output: OutputColumn, links: Links) -> Sequence[str]:
    paths = output.paths or ()
    if not links.folders:
        return paths
    return list(map(links.real_site if output.append else links.real, paths))


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
