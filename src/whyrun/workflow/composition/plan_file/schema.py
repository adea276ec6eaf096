"""The JSON Schemas of dataset plans and inputs manifests, for editors and for prompts of language models.

They describe the form of a file, and the rest in their descriptions. References are checked when a plan is read.
"""

from __future__ import annotations

from typing import Any

from whyrun.workflow.composition.plan_file.dataset_plan import PLAN_VERSION
from whyrun.workflow.composition.plan_file.manifest import SCHEMA_VERSION
from whyrun.workflow.composition.plan_file.products import KINDS
from whyrun.workflow.composition.plan_file.steps import OPERATIONS
from whyrun.workflow.model import MODES, ROLES

Schema = dict[str, Any]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_ID = "[A-Za-z_][A-Za-z0-9_-]*"
_REF = f"^(input:{_ID}|prod:{_ID}:{_ID})$"
_LEAF = rf"^prod:{_ID}:{_ID}(\..+)?$"
_MODE_TEXT = (
    "The same on all steps. sequential: one chain from one dataset, no merge, no condition. merge_then_sequential: "
    "merge or append steps that end in one dataset, then a chain on it. parallel_then_aggregate: two or more branches "
    "that share no product, then one step that takes a product of each. conditional: a condition step with branches "
    "that do not overlap; a join takes the first of the branches."
)


_INSIDE = r"^(?!/|~|[A-Za-z]:)(?!(.*/)?\.\.(/|$))[^\\]+$"  # a path that stays in its folder


def manifest_schema() -> Schema:
    """JSON Schema, draft 2020-12."""
    dataset = _object(
        "One data file.",
        {
            "dataset_key": {"description": "The name that plans use: `input:<dataset_key>`.", **_pattern(f"^{_ID}$")},
            "role": {"description": "What the file is for. Roles are only labels.", "enum": list(ROLES)},
            "filename": {"description": "The original name of the file; for people only.", "type": "string"},
            "rel_path": {
                "description": "The path of the file, relative to the folder of the manifest, which it cannot leave.",
                **_pattern(_INSIDE),
            },
            "fingerprint": {
                "description": "The hash of its content; a file with another hash is refused.",
                **_pattern("^sha256:[0-9a-f]{64}$"),
            },
            "description": {"description": "What is in it.", "type": "string"},
        },
        ["dataset_key", "role", "rel_path"],
    )
    root = _object(
        "The data files that a dataset plan may use.",
        {
            "schema_version": {"description": "The version of the format.", "const": SCHEMA_VERSION},
            "datasets": {"description": "The data files, each with its own key.", "type": "array", "items": dataset},
            "description": {"description": "What the files are.", "type": "string"},
        },
        ["schema_version", "datasets"],
    )
    return {"$schema": _DRAFT, "title": "Whyrun inputs manifest", **root}


def plan_schema() -> Schema:
    """JSON Schema, draft 2020-12."""
    root = _object(
        "Steps that read datasets and make products.",
        {
            "plan_version": {"description": "The version of the format.", "const": PLAN_VERSION},
            "plan_id": {"description": "An id that is recorded with the run.", "type": "string"},
            "rel_path": {"description": "The path of the plan, recorded as given.", "type": "string"},
            "description": {"description": "What the plan is for.", "type": "string"},
            "steps": {
                "description": "The steps in any order; `depends_on` defines which step waits for which.",
                "type": "array",
                "minItems": 1,
                "items": {"oneOf": [{"$ref": "#/$defs/action"}, {"$ref": "#/$defs/condition"}]},
            },
        },
        ["plan_version", "steps"],
    )
    return {
        "$schema": _DRAFT,
        "title": "Whyrun dataset plan",
        **root,
        "$defs": {
            "action": _step("action", "Runs an action.", _action_params(), produces=True),
            "condition": _step("condition", "Chooses a branch; it is not a job.", _condition_params()),
            "ref": {
                "description": "`input:<dataset_key>` of the manifest, or `prod:<step_id>:<product_id>` of a step "
                "that is in `depends_on`.",
                **_pattern(_REF),
            },
            "bound": {
                "description": "A reference, or the first of several that exists, to join branches.",
                "anyOf": [
                    {"$ref": "#/$defs/ref"},
                    _object(
                        "Takes the product of the branch that ran.",
                        {
                            "first": {
                                "description": "The candidates, in this order.",
                                **_list({"$ref": "#/$defs/ref"}, 1),
                            }
                        },
                        ["first"],
                    ),
                ],
            },
            "product": _product(),
            "predicate": _predicate(),
        },
    }


def _object(description: str, properties: Schema, required: list[str], *, others: bool = False) -> Schema:
    return {
        "description": description,
        "type": "object",
        "required": required,
        "properties": properties,
        **({} if others else {"additionalProperties": False}),
    }


def _pattern(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


def _list(items: Schema, least: int = 0) -> Schema:
    return {"type": "array", "items": items, **({"minItems": least} if least else {})}


def _steps(description: str) -> Schema:
    return {"description": description, "uniqueItems": True, **_list(_pattern(f"^{_ID}$"))}


def _step(type_: str, description: str, params: Schema, *, produces: bool = False) -> Schema:
    files: Schema = {"description": "Files that must exist after the step; `x.csv` is the file of the product `x`."}
    return _object(
        description,
        {
            "step_id": {"description": "Its id, unique within the plan.", **_pattern(f"^{_ID}$")},
            "type": {"description": "What kind of step it is.", "const": type_},
            "description": {"description": "What it is for.", "type": "string"},
            "depends_on": _steps(
                "Steps that must finish first: directly or indirectly all steps whose products it uses."
            ),
            "produces": {**files, **_list(_pattern(_INSIDE))} if produces else {**files, "maxItems": 0},
            "params": params,
        },
        ["step_id", "type", "params"],
    )


def _action_params() -> Schema:
    bound = {"anyOf": [{"$ref": "#/$defs/bound"}, _list({"$ref": "#/$defs/bound"}, 1)]}
    return _object(
        "Reserved entries; every other entry is a parameter of the action.",
        {
            "composition_mode": {"description": _MODE_TEXT, "enum": list(MODES)},
            "template_id": {"description": "The action: `data/merge`, `python`, …", **_pattern(r"^\S+$")},
            "input_bindings": {
                "description": "Parameter of the action → its dataset or product, or a list of them. Usual names are "
                "`primary_dataset`, `secondary_dataset` and, in every mode and at any step, `auxiliary_data`.",
                "type": "object",
                "minProperties": 1,
                "additionalProperties": bound,
            },
            "merge": _object(
                "Settings of a step that merges or appends. It binds `primary_dataset` and at least one other.",
                {
                    "operation": {"description": "The operation of the action.", "enum": list(OPERATIONS)},
                    "keys": {
                        "description": "The columns to merge on; every file must have them.",
                        "anyOf": [
                            _list({"type": "string"}, 1),
                            {"type": "object", "required": ["primary", "secondary"]},
                        ],
                    },
                    "cardinality": {"description": "Checked before joining.", "enum": ["1:1", "1:m", "m:1", "m:m"]},
                },
                ["operation"],
                others=True,
            ),
            "products": {"description": "What it makes.", **_list({"$ref": "#/$defs/product"})},
            "timeout_seconds": {"description": "How long it may take.", "type": "number", "exclusiveMinimum": 0},
        },
        ["composition_mode", "template_id", "input_bindings"],
        others=True,
    )


def _condition_params() -> Schema:
    return _object(
        "The predicate, and the steps of each branch.",
        {
            "composition_mode": {"description": "The same on all steps.", "enum": list(MODES)},
            "predicate": {"$ref": "#/$defs/predicate"},
            "true_steps": _steps("Steps that run only if it is true."),
            "false_steps": _steps("Steps that run only if it is false."),
        },
        ["composition_mode", "predicate"],
    )


def _product() -> Schema:
    return _object(
        "One result of the step: `prod:<step_id>:<product_id>`.",
        {
            "product_id": {"description": "Its id, unique within the step.", **_pattern(f"^{_ID}$")},
            "kind": {"description": "What it is.", "enum": list(KINDS)},
            "role": {"description": "What later steps use it for.", "enum": list(ROLES)},
            "path": {
                "description": "Where it is published, relative to the project folder, which it cannot leave.",
                **_pattern(_INSIDE),
            },
            "description": {"description": "What is in it.", "type": "string"},
        },
        ["product_id", "kind"],
    )


def _predicate() -> Schema:
    operand = {"description": "A leaf `prod:<step_id>:<product_id>.<leaf>` of a product, or a value."}
    inner = {"$ref": "#/$defs/predicate"}
    return {
        "description": "A condition on leaves of products.",
        "oneOf": [
            _object(
                "Compares two values.",
                {
                    "op": {
                        "description": "The operator.",
                        "enum": ["eq", "ne", "lt", "le", "gt", "ge", "in", "contains", "matches"],
                    },
                    "left": operand,
                    "right": operand,
                },
                ["op", "left", "right"],
            ),
            _object(
                "Whether the product exists. It does not if its step is in a branch that did not run.",
                {"op": {"description": "The operator.", "const": "exists"}, "left": {**operand, **_pattern(_LEAF)}},
                ["op", "left"],
            ),
            _object(
                "All of them, or any.",
                {"op": {"description": "The operator.", "enum": ["all", "any"]}, "of": _list(inner, 1)},
                ["op", "of"],
            ),
            _object(
                "Negates a predicate.",
                {"op": {"description": "The operator.", "const": "not"}, "of": inner},
                ["op", "of"],
            ),
        ],
    }
