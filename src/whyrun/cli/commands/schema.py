"""`whyrun schema`: the JSON Schema of workflow files, dataset plans and inputs manifests."""

from __future__ import annotations

import json
import os

import click

from whyrun.errors import error


@click.command("schema")
@click.argument("kind", required=False, type=click.Choice(["workflow", "plan", "manifest"]))
@click.option("--for", "manifest", metavar="FILE.json", help="Of plans over the datasets of this inputs manifest.")
@click.option("--strict", is_flag=True, help="With --for: in the subset that structured output of models takes.")
@click.option("--action", "actions", multiple=True, metavar="NAME", help="With --for: only this action. Repeatable.")
@click.option("--json", "_json", is_flag=True, help="Accepted for uniformity: the schema is always JSON.")
def command(kind: str | None, manifest: str | None, strict: bool, actions: tuple[str, ...], _json: bool) -> None:
    """Print the JSON Schema of workflow files, dataset plans or inputs manifests.

    Editors use it to complete and check a file, and a language model can use it to write one.

    With --for, it is the schema of plans over exactly the datasets of that manifest and the actions that are installed
    here, with their parameters. --strict has closed objects and `anyOf` only: every key is written, `null` means left
    out, and an object with free names is `{"$map": [{"name": …, "value": …}]}`.

    \b
    Example:
      whyrun schema > workflow.schema.json
      # then, in the first line of a workflow:
      # yaml-language-server: $schema=workflow.schema.json
      whyrun schema plan > plan.schema.json
      whyrun schema manifest
      whyrun schema --for inputs/manifest.json --strict --action data/merge --action data/sql
    """
    if manifest is None and (strict or actions):
        what = "--strict" if strict else "--action"
        hint = "name the manifest: `whyrun schema --for inputs/manifest.json`"
        raise error("USAGE", f"`{what}` belongs to `--for`", hint=hint)
    if manifest is not None and kind not in (None, "plan"):
        raise error("USAGE", f"`--for` is about plans, not about the {kind}", hint="leave the word out")
    if manifest is not None:
        from whyrun.facts.plan_schema import plan_schema_for
        from whyrun.log.runs import project_dir_for
        from whyrun.project import DEFAULT_FILE

        found = plan_schema_for(manifest, project_dir_for(os.path.abspath(DEFAULT_FILE)), strict=strict, only=actions)
    else:
        if kind == "plan":
            from whyrun.workflow.composition.plan_file.dataset_plan import plan_schema as schema
        elif kind == "manifest":
            from whyrun.workflow.composition.plan_file.manifest import manifest_schema as schema
        else:
            from whyrun.workflow.parsing.parse import workflow_schema as schema
        found = schema()
    click.echo(json.dumps(found, indent=2, ensure_ascii=False))
