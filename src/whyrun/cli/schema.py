"""`whyrun schema`: what workflow files may look like, for editors."""

from __future__ import annotations

import json

import click


@click.command("schema")
@click.option("--json", "_json", is_flag=True, help="The schema is JSON in any case.")
def command(_json: bool) -> None:
    """Print the JSON Schema of workflow files, so that editors complete and check them.

    \b
    Example:
      whyrun schema > workflow.schema.json
      # then, in the first line of a workflow:
      # yaml-language-server: $schema=workflow.schema.json
    """
    from whyrun.workflow.schema import workflow_schema

    click.echo(json.dumps(workflow_schema(), indent=2, ensure_ascii=False))
