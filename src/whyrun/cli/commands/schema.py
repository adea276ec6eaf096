"""`whyrun schema`: the JSON Schema of workflow files, dataset plans and inputs manifests."""

from __future__ import annotations

import json

import click


@click.command("schema")
@click.argument("kind", required=False, type=click.Choice(["workflow", "plan", "manifest"]), default="workflow")
@click.option("--json", "_json", is_flag=True, help="Accepted for uniformity: the schema is always JSON.")
def command(kind: str, _json: bool) -> None:
    """Print the JSON Schema of workflow files, dataset plans or inputs manifests.

    Editors use it to complete and check a file, and a language model can use it to write one.

    \b
    Example:
      whyrun schema > workflow.schema.json
      # then, in the first line of a workflow:
      # yaml-language-server: $schema=workflow.schema.json
      whyrun schema plan > plan.schema.json
      whyrun schema manifest
    """
    if kind == "workflow":
        from whyrun.workflow.parsing.parse import workflow_schema as schema
    elif kind == "plan":
        from whyrun.workflow.composition.plan_file.dataset_plan import plan_schema as schema
    else:
        from whyrun.workflow.composition.plan_file.manifest import manifest_schema as schema
    click.echo(json.dumps(schema(), indent=2, ensure_ascii=False))
