"""The JSON Schema of workflow files, with which editors complete and check them. It is made from the tables of keys.

It describes the form of a file. References are checked by `parse`, which also gives the better messages.
"""

from __future__ import annotations

from whyrun.workflow.parsing.declarations import INPUT_KEYS, LOOP_KEYS
from whyrun.workflow.parsing.file import WORKFLOW_KEYS
from whyrun.workflow.parsing.imports import IMPORT_KEYS
from whyrun.workflow.parsing.job_keys import JOB_KEYS
from whyrun.workflow.parsing.keys import Schema, object_schema
from whyrun.workflow.parsing.outputs import OUTPUT_KEYS


def workflow_schema() -> Schema:
    """JSON Schema, draft 2020-12."""
    description = "Jobs, their inputs and outputs; Whyrun re-runs exactly what is needed and says why."
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Whyrun workflow",
        **object_schema(WORKFLOW_KEYS, description),
        "$defs": {
            "input": object_schema(INPUT_KEYS, "A value, file or dataset that the user provides."),
            "loop": {
                **object_schema(LOOP_KEYS, "Exactly one of `each`, `count`, `values`, `range`."),
                "minProperties": 1,
                "maxProperties": 1,
            },
            "import": object_schema(
                IMPORT_KEYS, "Another workflow. Its jobs are referred to as `jobs.NAME.JOB.outputs.OUTPUT`."
            ),
            "job": object_schema(JOB_KEYS, "A recipe: an action with its parameters and outputs."),
            "output": {
                **object_schema(OUTPUT_KEYS, "A declared output: an artifact of each instance."),
                "dependentRequired": {"key": ["append"]},
                "if": {"required": ["append"], "properties": {"append": {"const": True}}},
                "then": {"required": ["path"], "properties": {"type": {"const": "json"}}},
            },
            "duration": {
                "description": "`30s`, `5m`, `1h30m`, or a number of seconds.",
                "anyOf": [
                    {"type": "number", "minimum": 0},
                    {"type": "string", "pattern": r"^(?=.)([0-9.]+d)?([0-9.]+h)?([0-9.]+m)?([0-9.]+s)?([0-9]+ms)?$"},
                ],
            },
        },
    }
