"""The keys of a step of a dataset plan: one row per key, for the reader in `steps` and for the JSON Schema."""

from __future__ import annotations

from whyrun.workflow.composition.plan_file.manifest import ID_PATTERN, INSIDE
from whyrun.workflow.composition.plan_file.predicates import SHAPES
from whyrun.workflow.composition.plan_file.products import FIRST_KEYS, PRODUCT_KEYS, REF_PATTERN
from whyrun.workflow.fields import Key, Schema, list_schema, names_of, object_schema, text_schema
from whyrun.workflow.model import MODES

STEP_TYPES = ("action", "condition")
OPERATIONS = ("merge", "append")
_BOUND = {"$ref": "#/$defs/bound"}
_COLUMNS: Schema = {"type": "array", "items": {"type": "string"}, "minItems": 1}
MERGE_KEYS = (
    Key(name="operation", meaning="The operation of the action.", schema={"enum": list(OPERATIONS)}, required=True),
    Key(
        name="keys",
        meaning="The columns to merge on; every file must have them.",
        schema={
            "anyOf": [
                _COLUMNS,
                {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"primary": _COLUMNS, "secondary": _COLUMNS},
                    "required": ["primary", "secondary"],
                },
            ]
        },
    ),
    Key(name="cardinality", meaning="Checked before joining.", schema={"enum": ["1:1", "1:m", "m:1", "m:m"]}),
)
ACTION_PARAMS = (
    Key(
        name="composition_mode",
        meaning="The same on all steps. Forks are free; the mode says where lines meet. sequential: one dataset, no "
        "merge, no condition, lines do not meet. merge_then_sequential: all merges and appends end in a last one, "
        "every step feeds it or comes from it, and only merges bring lines together. parallel_then_aggregate: one step "
        "takes products of two or more branches, and every step feeds it or comes from it. conditional: a condition "
        "step with branches that do not overlap; a join takes the first of the branches.",
        schema={"enum": list(MODES)},
        required=True,
    ),
    Key(
        name="template_id", meaning="The action: `data/merge`, `python`, …", schema=text_schema(r"^\S+$"), required=True
    ),
    Key(
        name="input_bindings",
        meaning="Parameter of the action → its dataset or product, or a list of them. Usual names are "
        "`primary_dataset`, `secondary_dataset` and, in every mode and at any step, `auxiliary_data`.",
        schema={
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {"anyOf": [_BOUND, {"type": "array", "items": _BOUND, "minItems": 1}]},
        },
        required=True,
    ),
    Key(
        name="merge",
        meaning="Settings of a step that merges or appends. It binds `primary_dataset` and at least one other.",
        schema=object_schema(MERGE_KEYS, others=True),
    ),
    Key(name="products", meaning="What it makes.", schema={"type": "array", "items": {"$ref": "#/$defs/product"}}),
    Key(name="timeout_seconds", meaning="How long it may take.", schema={"type": "number", "exclusiveMinimum": 0}),
)
CONDITION_PARAMS = (
    Key(name="composition_mode", meaning="The same on all steps.", schema={"enum": list(MODES)}, required=True),
    Key(name="predicate", meaning="Decides which branch runs.", schema={"$ref": "#/$defs/predicate"}, required=True),
    Key(name="true_steps", meaning="Steps that run only if it is true.", schema=list_schema(ID_PATTERN)),
    Key(name="false_steps", meaning="Steps that run only if it is false.", schema=list_schema(ID_PATTERN)),
)


def _step_keys(type_: str, *, produces: Schema, params: Schema, meaning: str) -> tuple[Key, ...]:
    return (
        Key(name="step_id", meaning="Its id, unique within the plan.", schema=text_schema(ID_PATTERN), required=True),
        Key(name="type", meaning="What kind of step it is.", schema={"const": type_}, required=True),
        Key(name="description", meaning="What it is for.", schema={"type": "string"}),
        Key(
            name="depends_on",
            meaning="Steps that must finish first: directly or indirectly all steps whose products it uses.",
            schema=list_schema(ID_PATTERN),
        ),
        Key(
            name="produces",
            meaning="Files that must exist after the step; `x.csv` is the file of the product `x`.",
            schema=produces,
        ),
        Key(name="params", meaning=meaning, schema=params, required=True),
    )


ACTION_KEYS = _step_keys(
    "action",
    produces={"type": "array", "items": text_schema(INSIDE)},
    params=object_schema(ACTION_PARAMS, others=True),
    meaning="Reserved entries; every other entry is a parameter of the action.",
)
CONDITION_KEYS = _step_keys(
    "condition",
    produces={"maxItems": 0},
    params=object_schema(CONDITION_PARAMS),
    meaning="The predicate, and the steps of each branch.",
)
STEP_NAMES = names_of(ACTION_KEYS)  # those of a condition, too
ACTION_PARAM_NAMES, CONDITION_PARAM_NAMES = names_of(ACTION_PARAMS), names_of(CONDITION_PARAMS)


def schema_definitions() -> Schema:
    """The `$defs` of the JSON Schema of a dataset plan: steps, references, products and predicates."""
    return {
        "action": object_schema(ACTION_KEYS, "Runs an action."),
        "condition": object_schema(CONDITION_KEYS, "Chooses a branch; it is not a job."),
        "ref": {
            "description": "`input:<dataset_key>` of the manifest, or `prod:<step_id>:<product_id>` of a step "
            "that is in `depends_on`.",
            **text_schema(REF_PATTERN),
        },
        "bound": {
            "description": "A reference, or the first of several that exists, to join branches.",
            "anyOf": [
                {"$ref": "#/$defs/ref"},
                object_schema(FIRST_KEYS, "Takes the product of the branch that ran."),
            ],
        },
        "product": object_schema(PRODUCT_KEYS, "One result of the step: `prod:<step_id>:<product_id>`."),
        "predicate": {
            "description": "A condition on leaves of products.",
            "oneOf": [object_schema(keys, description) for _, description, keys in SHAPES],
        },
    }
