"""Where `--log-file` may not lead: to what the workflow reads, makes or remembers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whyrun.errors import WhyrunError, error

if TYPE_CHECKING:
    from whyrun.snapshot.linked import RealPaths
    from whyrun.snapshot.world import World


def check_log_file(world: World, path: str) -> None:
    from whyrun.snapshot.linked import RealPaths

    paths, file = RealPaths(world.project), os.path.realpath(path)
    for taken, what in _taken(world, paths, os.path.relpath(file, paths.root)):
        if paths.contains(taken, file):
            hint = "name a file that is for these lines alone"
            raise error("USAGE", f"`--log-file {path}`: this is {what}", hint=hint)


def _taken(world: World, paths: RealPaths, file: str) -> Iterator[tuple[str, str]]:
    """Each file or folder, and what it is. `file`: that which is asked about, from the project folder."""
    from whyrun.graph.published import input_paths
    from whyrun.ids import split_site

    yield os.path.abspath(world.state_dir), "where whyrun keeps its state"
    yield os.path.abspath(world.file), "the file of this workflow"
    try:
        graph = world.graph
    except WhyrunError:  # what is wrong with the workflow is told by the command itself
        return
    yield from world.own_files(graph, paths).items()
    for path in sorted(input_paths(graph)):
        yield path, f"an input (`{path}`)"
    for pattern in world.patterns(graph, paths):
        if pattern.catches(file):
            yield file, f"what `{pattern.text}` of {pattern.whose} finds"
    for table in graph.tables:
        for output in table.outputs:
            for site in output.paths or ():
                yield split_site(site)[0], f"where `Job:{table.name}` publishes `{output.name}`"
