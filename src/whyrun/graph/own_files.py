"""Outputs that would be published on top of what the workflow itself is read from. Pure.

Such a run would go well and leave a project that cannot be planned any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from whyrun.errors import Diagnostic
from whyrun.graph.graph import Graph, OutputColumn
from whyrun.graph.links import NO_LINKS, Links
from whyrun.graph.paths import folders_of
from whyrun.ids import split_site


def own_file_problems(graph: Graph, own: Mapping[str, str], links: Links = NO_LINKS) -> Iterator[Diagnostic]:
    """`own`: path in the project → what stands there. One for each output is enough."""
    holding = {folder: path for path in sorted(own, reverse=True) for folder in folders_of(path)}
    for table in graph.tables:
        for output in table.outputs:
            told = (_told(path, own, holding, links) for path in _near(output, own, holding, links))
            message = next(filter(None, told), None)
            if message is not None:
                place = table.decl.places.get(f"outputs.{output.name}.path", table.decl.place)
                yield place.diagnostic("DUPLICATE_OUTPUT_PATH", message, "choose another path for the output")


def _near(output: OutputColumn, own: Mapping[str, str], holding: Mapping[str, str], links: Links) -> Sequence[str]:
    """The paths of a column that have to be looked at one by one: nearly always none, and there may be very many."""
    if output.paths is None:
        return ()
    if output.head is not None and not output.append:  # all begin with it, and lie in its folder
        heads = {output.head, links.real(output.head)}
        begun = any(path.startswith(tuple(heads)) for part in (own, holding) for path in part)
        above = {folder for head in heads for folder in folders_of(head)}
        return output.paths if begun or not own.keys().isdisjoint(above) else ()
    paths = [split_site(site)[0] for site in output.paths] if output.append else output.paths
    files = {*paths, *(map(links.real, paths) if links.folders else ())}
    folders = {path.rpartition("/")[0] for path in files}
    folders |= {parent for folder in folders for parent in folders_of(folder)}
    apart = files.isdisjoint(own) and files.isdisjoint(holding) and folders.isdisjoint(own)
    return () if apart else paths


def _told(path: str, own: Mapping[str, str], holding: Mapping[str, str], links: Links) -> str | None:
    """As it is written, and only then by where links lead: who names the file itself need not hear of links."""
    replaced = "publishing there would replace it"
    if (problem := _problem(path, own, holding)) is not None:
        return f"{problem}; {replaced}"
    problem = _problem(links.real(path), own, holding)
    return None if problem is None else f"{problem}; {replaced}{links.explained(path)}"


def _problem(path: str, own: Mapping[str, str], holding: Mapping[str, str]) -> str | None:
    if path in own:
        return f"`{path}` is {own[path]}"
    if path in holding:  # whatever is published there, the folder goes away with all that is in it
        return f"`{path}` is the folder of `{holding[path]}`, which is {own[holding[path]]}"
    above = next((folder for folder in folders_of(path) if folder in own), None)
    return None if above is None else f"`{path}` would need a folder at `{above}`, which is {own[above]}"
