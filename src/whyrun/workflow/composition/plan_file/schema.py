"""The JSON Schemas of dataset plans and inputs manifests, for editors and for prompts of language models.

They are made from the tables of keys that the readers use. They describe the form of a file, and the rest in their
descriptions. References are checked when a plan is read.
"""

from __future__ import annotations

from whyrun.workflow.composition.plan_file.dataset_plan import PLAN_KEYS
from whyrun.workflow.composition.plan_file.manifest import MANIFEST_KEYS
from whyrun.workflow.composition.plan_file.predicates import SHAPES
from whyrun.workflow.composition.plan_file.products import FIRST_KEYS, PRODUCT_KEYS, REF_PATTERN
from whyrun.workflow.composition.plan_file.step_keys import ACTION_KEYS, CONDITION_KEYS
from whyrun.workflow.fields import Schema, object_schema, text_schema

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def manifest_schema() -> Schema:
    """JSON Schema, draft 2020-12."""
    root = object_schema(MANIFEST_KEYS, "The data files that a dataset plan may use.")
    return {"$schema": _DRAFT, "title": "Whyrun inputs manifest", **root}


def plan_schema() -> Schema:
    """JSON Schema, draft 2020-12."""
    return {
        "$schema": _DRAFT,
        "title": "Whyrun dataset plan",
        **object_schema(PLAN_KEYS, "Steps that read datasets and make products."),
        "$defs": {
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
        },
    }
