"""`whyrun graph [FILE]`: the jobs of a workflow and what they read from each other, as a picture or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from whyrun.cli.options import check_output_file, project_options
from whyrun.cli.output import print_bytes

if TYPE_CHECKING:
    from whyrun.project import Project

FORMATS = ("svg", "dot", "mermaid", "json")
_BY_SUFFIX = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid", ".json": "json"}


@click.command(short_help="Draw the jobs of a workflow, or print them as JSON.")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="The format; without it, that of FILE's suffix, else svg."
)
@click.option("--output", "-o", metavar="FILE", type=click.Path(dir_okay=False), help="Write the picture to this file.")
@click.option(
    "--by", type=click.Choice(["job", "instance"]), default="job", show_default=True, help="What one box stands for."
)
@click.option("--with-inputs", is_flag=True, help="Draw the inputs of the workflow as well.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@project_options
def command(
    project: Project, format_: str | None, output: str | None, by: str, with_inputs: bool, as_json: bool
) -> None:  # fmt: skip
    """Draw the jobs of a workflow and what they read from each other. One box stands for all instances of a job, or
    with `--by instance` for one of them.

    SVG needs no other program. Mermaid can be pasted into a README on GitHub; dot is for Graphviz. Dashed lines do not
    carry data: they are conditions (`if`) and `needs`. The JSON also counts the instances by their state in the plan.

    \b
    Example:
      whyrun graph -o workflow.svg
      whyrun graph --format mermaid
      whyrun graph --by instance --format dot --with-inputs | dot -Tpdf > workflow.pdf
      whyrun graph --json
    """
    from whyrun.artifacts.hashing import canonical_json
    from whyrun.errors import error
    from whyrun.exports import graph_pictures
    from whyrun.facts.graph import graph_facts, instance_facts
    from whyrun.planning.plan import compute_execution_plan

    chosen = "json" if as_json else format_ or _BY_SUFFIX.get(Path(output or "").suffix.lower(), "svg")
    snapshot = project.snapshot()  # whose graph has the edges that follow from undeclared reads, too
    facts = {"job": graph_facts, "instance": instance_facts}[by](
        snapshot.dependency_graph, compute_execution_plan(snapshot)
    )
    name = project.workflow.name
    if chosen == "json":
        data = canonical_json({"workflow": name, **facts}) + b"\n"
    else:
        data = graph_pictures.FORMATS[chosen](facts, name, with_inputs=with_inputs).encode()
    if output in (None, "-"):
        print_bytes(data)
    else:
        check_output_file(project, "--output", output)
        try:
            Path(output).write_bytes(data)
        except (FileNotFoundError, NotADirectoryError, PermissionError) as problem:
            message = f"`{output}` cannot be written: {problem.strerror}"
            raise error("FILE_MISSING", message, hint="check the path") from None
