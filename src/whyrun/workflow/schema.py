"""The JSON Schema of workflow files, so that editors complete and check them.

It describes the form. What refers to what is checked by `parse`, which also gives the better messages.
"""

from __future__ import annotations

from typing import Any

from whyrun.workflow.composition.model import MODES, ROLES
from whyrun.workflow.fields import MAX_ARRAY_DEPTH, RESERVED_WORKFLOW_NAMES
from whyrun.workflow.job_keys import MAX_RETRIES
from whyrun.workflow.model import BASE_TYPES
from whyrun.workflow.outputs import LEAF_TYPES

Schema = dict[str, Any]

_NAME = "^[A-Za-z_][A-Za-z0-9_]*$"
_PARAMETER = "^[A-Za-z_][A-Za-z0-9_-]*$"
_EXPRESSION = r"^\s*\$\{\{[\s\S]*\}\}\s*$"
_INPUT_REFERENCE = r"^inputs\.[A-Za-z_][A-Za-z0-9_]*(\[[0-9]+\])*$"
_INDEX: Schema = {"type": ["string", "number"]}


def workflow_schema() -> Schema:
    """JSON Schema, draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Whyrun workflow",
        "description": "Jobs, their inputs and outputs; Whyrun re-runs exactly what is needed and says why.",
        "type": "object",
        "required": ["workflow", "jobs"],
        "additionalProperties": False,
        "properties": {
            "workflow": {
                "description": "The workflow's name: small letters, digits and `-`.",
                "type": "string",
                "pattern": "^[a-z][a-z0-9-]*$",
                "not": {"enum": sorted(RESERVED_WORKFLOW_NAMES)},
            },
            "description": {"description": "What the workflow is for.", "type": "string"},
            "composition": _composition(),
            "inputs": _named("Values, files and datasets given to the workflow.", "input"),
            "loops": _named("What jobs can run `for:`.", "loop"),
            "imports": _named("Other workflows, whose jobs become part of this one.", "import"),
            "jobs": _named("What is to be done. With `for:` a job stands for many instances.", "job"),
        },
        "$defs": {
            "input": _input(),
            "loop": _loop(),
            "import": _import(),
            "job": _job(),
            "output": _output(),
            "duration": {
                "description": "`30s`, `5m`, `1h30m`, or a number of seconds.",
                "anyOf": [
                    {"type": "number", "minimum": 0},
                    {"type": "string", "pattern": r"^(?=.)([0-9.]+d)?([0-9.]+h)?([0-9.]+m)?([0-9.]+s)?([0-9]+ms)?$"},
                ],
            },
        },
    }


def _composition() -> Schema:
    return {
        "description": "How several datasets are composed. The shape of the graph is checked against the mode.",
        "type": "object",
        "required": ["mode"],
        "additionalProperties": False,
        "properties": {
            "mode": {"description": "The shape that the jobs have.", "enum": list(MODES)},
            "roles": {
                "description": "What `dataset` inputs are for. Roles label; they wire nothing.",
                "type": "object",
                "additionalProperties": {"enum": list(ROLES)},
            },
        },
    }


def _named(description: str, definition: str, pattern: str = _NAME) -> Schema:
    return {
        "description": description,
        "type": "object",
        "propertyNames": {"pattern": pattern},
        "additionalProperties": {"$ref": f"#/$defs/{definition}"},
    }


def _object(description: str, properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    schema: Schema = {
        "description": description,
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }
    if required:
        schema["required"] = list(required)
    return schema


def _names(description: str, pattern: str = _NAME) -> Schema:
    return {
        "description": description,
        "type": "array",
        "uniqueItems": True,
        "items": {"type": "string", "pattern": pattern},
    }


def _input() -> Schema:
    return _object(
        "A value, file or dataset given to the workflow.",
        {
            "type": {
                "description": "The type; `T[]` is an array. Files, directories and datasets count by content.",
                "anyOf": [
                    {"enum": [base + "[]" * depth for depth in (0, 1) for base in BASE_TYPES]},
                    {"type": "string", "pattern": rf"^({'|'.join(BASE_TYPES)})(\[\]){{0,{MAX_ARRAY_DEPTH}}}$"},
                ],
            },
            "required": {
                "description": "Whether a value must be given. Default: where there is no default.",
                "type": "boolean",
            },
            "default": {"description": "The value if none is given; for an array of paths also a pattern."},
            "description": {"type": "string"},
        },
        ("type",),
    )


def _loop() -> Schema:
    reference = {"type": "string", "pattern": _INPUT_REFERENCE}
    return {
        **_object(
            "Exactly one of `each`, `count`, `values`, `range`.",
            {
                "each": {"description": "One instance an element of this input array: `inputs.NAME`.", **reference},
                "count": {
                    "description": "0 … n-1: a number or `inputs.NAME`.",
                    "anyOf": [{"type": "integer", "minimum": 0}, reference],
                },
                "values": {
                    "description": "Each value is an index itself: a list or `inputs.NAME`.",
                    "anyOf": [{"type": "array", "items": _INDEX, "uniqueItems": True}, reference],
                },
                "range": {
                    "description": "From the first to the last, both included: `0-24` or `[0, 24]`.",
                    "anyOf": [
                        {"type": "string", "pattern": r"^\s*\d+\s*-\s*\d+\s*$"},
                        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
                    ],
                },
            },
        ),
        "minProperties": 1,
        "maxProperties": 1,
    }


def _import() -> Schema:
    return _object(
        "Another workflow. Its jobs are referred to as `jobs.NAME.JOB.outputs.OUTPUT`.",
        {
            "workflow": {"description": "Its file, relative to this one.", "type": "string"},
            "with": {
                "description": "Values for its inputs: inputs of this workflow and literals.",
                "type": "object",
                "propertyNames": {"pattern": _NAME},
            },
        },
        ("workflow",),
    )


def _output() -> Schema:
    section = {"required": ["append"], "properties": {"append": {"const": True}}}
    return {
        **_output_keys(),
        "dependentRequired": {"key": ["append"]},
        "if": section,
        "then": {"required": ["path"], "properties": {"type": {"const": "json"}}},
    }


def _output_keys() -> Schema:
    return _object(
        "A declared output: an artifact of each instance.",
        {
            "type": {"description": "The type; outputs are not arrays.", "enum": list(BASE_TYPES)},
            "path": {
                "description": "Where it is published, inside the project folder; loops and inputs may stand in it.",
                "type": "string",
            },
            "append": {
                "description": "Whether it is a section of a JSON file that several outputs share.",
                "type": "boolean",
            },
            "key": {
                "description": "The key of the section; loops and inputs may stand in it. Default: the job's ID.",
                "type": "string",
                "minLength": 1,
            },
            "compare": _object(
                "What `whyrun compare` is to mind; nothing of it counts for whether a job is up to date.",
                {
                    "keys": {
                        "description": "The columns that name a row of a table.",
                        "type": "array",
                        "items": {"type": "string"},
                        "uniqueItems": True,
                    },
                    "tolerance": {
                        "description": "Numbers that are as near as this are the same: relative for large numbers, "
                        "absolute for small ones.",
                        "type": "number",
                        "minimum": 0,
                    },
                },
            ),
            "leaves": {
                "description": 'Parts that are artifacts of their own: `"Segments[segment].Title": string`.',
                "type": "object",
                "additionalProperties": {"enum": list(LEAF_TYPES)},
            },
        },
        ("type",),
    )


def _combinations(description: str) -> Schema:
    entry = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": _NAME},
        "additionalProperties": _INDEX,
    }
    return {"description": description, "type": "array", "items": entry}


def _job() -> Schema:
    retries = _object(
        "How often to try again, and how long to wait before the second attempt (doubled each time).",
        {"max": {"type": "integer", "minimum": 0, "maximum": MAX_RETRIES}, "backoff": {"$ref": "#/$defs/duration"}},
        ("max",),
    )
    return _object(
        "A recipe: an action with its parameters and outputs.",
        {
            "uses": {"description": "The action: `shell`, `python`, …", "type": "string", "pattern": r"^[^\s$]+$"},
            "with": {
                "description": "Parameters. One whole `${{ reference }}` is a binding.",
                "type": "object",
                "propertyNames": {"pattern": _PARAMETER},
            },
            "outputs": _named("What the job makes.", "output"),
            "for": _names("The loops that the job runs for: one instance a combination."),
            "exclude": _combinations("Combinations to leave out; a part of the loops is enough."),
            "include": _combinations("Combinations to add; every loop is named."),
            "if": {
                "description": "Whether an instance is active. Reads inputs and declared leaves.",
                "anyOf": [{"type": "boolean"}, {"type": "string", "pattern": _EXPRESSION}],
            },
            "needs": _names(
                "Jobs that must be done before; `Import.Job` for one of an import.",
                r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$",
            ),
            "env": {
                "description": "Environment variables of the step; they count as parameters.",
                "type": "object",
                "propertyNames": {"pattern": _NAME},
                "additionalProperties": {"type": ["string", "number", "boolean"]},
            },
            "secrets": _names("Variables of the host that are used as `${{ secrets.NAME }}` and never recorded."),
            "code": {
                "description": "Patterns of files whose content belongs to the action.",
                "type": "array",
                "items": {"type": "string"},
                "uniqueItems": True,
            },
            "timeout": {
                "description": "How long one attempt may take: `30s`, `5m`, `1h30m`; a plain number is seconds.",
                "$ref": "#/$defs/duration",
            },
            "retries": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": MAX_RETRIES}, retries]},
            "resources": {
                "description": "What an instance occupies while it runs: `{gpu: 1}`.",
                "type": "object",
                "propertyNames": {"pattern": _PARAMETER},
                "additionalProperties": {"type": "number", "minimum": 0},
            },
            "sandbox": {
                "description": "`required`, or what the job wants of a sandbox: `{network: true, memory: 2GB}`.",
                "anyOf": [
                    {"const": "required"},
                    {
                        "type": "object",
                        "properties": {
                            "required": {"type": "boolean"},
                            "network": {"type": "boolean"},
                            "memory": {"type": ["string", "integer"]},
                            "processes": {"type": "integer", "minimum": 8},
                        },
                        "additionalProperties": False,
                    },
                ],
            },
            "deterministic": {
                "description": "The same fingerprint gives the same bytes, so results are shared between jobs.",
                "type": "boolean",
            },
            "description": {"type": "string"},
        },
        ("uses",),
    )
