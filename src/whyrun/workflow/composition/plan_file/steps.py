"""Reads one step of a dataset plan. `links` checks its references later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whyrun.errors import did_you_mean
from whyrun.workflow.composition.plan_file.json_source import json_kind_of, with_maps
from whyrun.workflow.composition.plan_file.manifest import ID, ID_HINT
from whyrun.workflow.composition.plan_file.predicates import Predicate, PredicateReader
from whyrun.workflow.composition.plan_file.products import (
    REF_HINT,
    Bound,
    DatasetRef,
    FirstRef,
    Product,
    parse_ref,
    read_products,
    refs_of,
)
from whyrun.workflow.composition.plan_file.step_keys import (
    ACTION_PARAM_NAMES,
    CONDITION_PARAM_NAMES,
    OPERATIONS,
    STEP_NAMES,
    STEP_TYPES,
)
from whyrun.workflow.fields import PARAMETER_NAME, meant_key
from whyrun.workflow.model import AUXILIARY, MERGING_ACTIONS, MODES, PRIMARY, Place
from whyrun.workflow.nodes import ListNode, MapNode, Node, Scalar, places_below, plain_value

_BINDINGS = 'write `"input_bindings": {"primary_dataset": "input:main"}`'


@dataclass(frozen=True, slots=True)
class Binding:
    """The dataset or product that a parameter of the action is bound to, or a list of them."""

    name: str
    bound: tuple[Bound, ...]
    is_list: bool
    place: Place

    def refs(self) -> tuple[DatasetRef, ...]:
        return tuple(ref for bound in self.bound for ref in refs_of(bound))


@dataclass(frozen=True, slots=True)
class Named:
    """A reference to a step by its id."""

    name: str
    place: Place


@dataclass(slots=True)
class Step:
    """The readable part of a step."""

    place: Place
    id: str | None = None
    written_id: str | None = None  # also an invalid one
    type: str | None = None
    mode: str | None = None
    mode_place: Place | None = None
    description: str = ""
    depends_on: list[Named] = field(default_factory=list)
    uses: str = ""
    bindings: dict[str, Binding] = field(default_factory=dict)
    merges: bool = False
    products: dict[str, Product] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    timeout: float | None = None
    predicate: Predicate | None = None
    predicate_place: Place | None = None
    true_steps: list[Named] = field(default_factory=list)
    false_steps: list[Named] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)  # see `JobDecl.broken`
    whole: bool = True  # False: its bindings are not fully known, so the shape is not checked
    products_known: bool = True
    waits_known: bool = True


class StepReader(PredicateReader):
    def step(self, node: Node) -> Step:
        step = Step(node.place)
        entries = self.as_map(node, "a step", 'write `{"step_id": "model", "type": "action", …}`')
        if entries is None:
            step.whole = False
            return step
        fields = self.known_keys(
            entries, STEP_NAMES, "a step", dict.fromkeys(ACTION_PARAM_NAMES, "write it in `params`")
        )
        step.whole = not entries.duplicates
        self._id(step, entries, fields.get("step_id"))
        what = f"step `{step.id}`" if step.id is not None else "a step"
        self._type(step, entries, fields.get("type"), what)
        if "description" in fields:
            step.description = self.string(fields["description"], f"`description` of {what}") or ""
        failures = self.problems.failures
        step.depends_on = self._step_ids(step, fields.get("depends_on"), f"`depends_on` of {what}")
        step.waits_known = self.problems.failures == failures
        params = self._params(step, entries, fields.get("params"), what)
        if params is None:
            return step
        if step.type is None:  # reported; its parameters are checked all the same
            step.type = _meant_type(fields.get("type"), params)
        if step.type == "condition":
            self._condition(step, params, fields.get("produces"), what)
        elif step.type == "action":
            self._action(step, params, fields.get("produces"), what)
        return step

    def _id(self, step: Step, entries: MapNode, node: Node | None) -> None:
        if node is None:
            self.problems.add(entries.place, "MISSING_KEY", "a step has no `step_id`", "give it one; " + ID_HINT)
            step.whole = False
            return
        step.place = node.place
        name = step.written_id = self.string(node, "`step_id`")
        if name is not None and ID.fullmatch(name):
            step.id = name
            return
        step.whole = False
        if name is not None:
            self.problems.add(node.place, "STEP_ID_UNSAFE", f"`{name}` cannot be the id of a step", ID_HINT)

    def _type(self, step: Step, entries: MapNode, node: Node | None, what: str) -> None:
        hint = 'write `"action"` or `"condition"`'
        name = None
        if node is None:
            self.problems.add(entries.place, "STEP_TYPE_UNKNOWN", f"{what} has no `type`", hint)
        else:
            name = self.string(node, f"`type` of {what}", hint)
        if name in STEP_TYPES:
            step.type = name
            return
        step.whole = False
        if name is not None and node is not None:
            message = f"there is no type of step `{name}`"
            self.problems.add(node.place, "STEP_TYPE_UNKNOWN", message, did_you_mean(name, STEP_TYPES) or hint)

    def _step_ids(self, step: Step, node: Node | None, what: str) -> list[Named]:
        if node is None:
            return []
        failures = self.problems.failures
        ids = self.strings(node, what, "the step", 'write a list of step ids: `["merge"]`')
        if self.problems.failures > failures:
            step.whole = False
        return [Named(text, item.place) for text, item in ids]

    def _params(self, step: Step, entries: MapNode, node: Node | None, what: str) -> MapNode | None:
        hint = 'write `"params": {"composition_mode": …, "template_id": …}`'
        if node is None:
            self.problems.add(entries.place, "MISSING_KEY", f"{what} has no `params`", hint)
        params = self.as_map(node, f"`params` of {what}", hint) if node is not None else None
        if params is None:
            step.whole = step.products_known = False
            return None
        mode = params.get("composition_mode")
        modes = "one of " + ", ".join(f"`{name}`" for name in MODES) + ", the same on all steps"
        step.mode_place = params.place if mode is None else mode.place
        if mode is None:
            self.problems.add(step.place, "COMPOSITION_MODE_MISSING", f"{what} has no `composition_mode`", modes)
        else:
            step.mode = self.string(mode, f"`composition_mode` of {what}", modes)
            if step.mode is not None and step.mode not in MODES:
                message = f"there is no composition mode `{step.mode}`"
                self.problems.add(mode.place, "COMPOSITION_MODE_UNKNOWN", message, did_you_mean(step.mode, MODES))
                step.mode = None
        return params

    # --- conditions -----------------------------------------------------------------------------------------------

    def _condition(self, step: Step, params: MapNode, produces: Node | None, what: str) -> None:
        fields = self.known_keys(params, CONDITION_PARAM_NAMES, f"`params` of the condition {what}")
        if produces is not None and plain_value(produces) != []:
            self.wrong(produces, f"{what} is a condition and produces nothing", "remove `produces`")
        if "predicate" in fields:
            step.predicate_place = fields["predicate"].place
            step.predicate = self.predicate(fields["predicate"])
        else:
            hint = 'write `"predicate": {"op": "lt", "left": "prod:check:report.missing_share", "right": 0.05}`'
            self.problems.add(step.place, "PREDICATE_UNKNOWN", f"{what} has no `predicate`", hint)
        step.whole = step.whole and step.predicate is not None and not params.duplicates
        step.true_steps = self._step_ids(step, fields.get("true_steps"), f"`true_steps` of {what}")
        step.false_steps = self._step_ids(step, fields.get("false_steps"), f"`false_steps` of {what}")

    # --- actions --------------------------------------------------------------------------------------------------

    def _action(self, step: Step, params: MapNode, produces: Node | None, what: str) -> None:
        fields = {key.value: value for key, value in params.entries}
        step.broken |= {f"with.{name}" for name in params.duplicates}
        step.whole = step.whole and not params.duplicates
        self._template(step, fields.get("template_id"), what)
        self._parameters(step, params)
        self._bindings(step, fields.get("input_bindings"), what)
        if "merge" in fields or step.uses in MERGING_ACTIONS:
            step.merges = True
            self._merge(step, fields.get("merge"), what)
        if "timeout_seconds" in fields:
            step.places["timeout"] = fields["timeout_seconds"].place
            step.timeout = self._timeout(fields["timeout_seconds"], what)
        step.products, step.products_known = read_products(self, fields.get("products"), produces, what)
        step.broken |= {f"outputs.{name}" for name, product in step.products.items() if not product.sure}

    def _template(self, step: Step, node: Node | None, what: str) -> None:
        hint = 'name the action: `"template_id": "data/merge"`'
        if node is None:
            self.problems.add(step.place, "MISSING_KEY", f"{what} has no `template_id`", hint)
            return
        step.places["uses"] = node.place
        uses = self.string(node, f"`template_id` of {what}", hint) or ""
        if uses and any(character.isspace() for character in uses):
            self.wrong(node, f"`{uses}` cannot be the name of an action", hint, "INVALID_USES")
        else:
            step.uses = uses

    def _parameters(self, step: Step, params: MapNode) -> None:
        """Every entry that is not reserved is a parameter of the action."""
        for key, value in params.entries:
            if key.value not in ACTION_PARAM_NAMES:
                self._parameter(step, key, value)

    def _parameter(self, step: Step, key: Scalar, value: Node) -> None:
        if not PARAMETER_NAME.fullmatch(key.value):
            hint = "names are letters, digits, `_` and `-`, and do not begin with a digit"
            message = f"`{key.value}` cannot be the name of a parameter"
            self.problems.add(key.place, "NAME_INVALID", message, hint)
            step.broken.add("with")
        elif key.value in step.parameters or key.value in step.bindings:
            message = f"the parameter `{key.value}` appears twice"
            hint = "`params`, `input_bindings` and `merge` share the names of the action's parameters: rename one"
            self.problems.add(key.place, "NAME_TAKEN", message, hint)
            step.broken.add(f"with.{key.value}")
        else:
            value = with_maps(value)
            step.parameters[key.value] = plain_value(value)
            self._remember(step, key, value)

    def _remember(self, step: Step, key: Scalar, value: Node) -> None:
        step.places[f"with.{key.value}"] = value.place
        step.places[f"with.{key.value}#key"] = key.place
        step.places.update(places_below(value, f"with.{key.value}"))

    def _timeout(self, node: Node, what: str) -> float | None:
        value = plain_value(node)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(node, f"`timeout_seconds` of {what} is {json_kind_of(node)}", "write a number of seconds")
            return None
        return self.duration(node, f"`timeout_seconds` of {what}")

    def _bindings(self, step: Step, node: Node | None, what: str) -> None:
        entries = self.as_map(node, f"`input_bindings` of {what}", _BINDINGS) if node is not None else None
        if node is None or (entries is not None and not entries.entries):
            place = step.place if node is None else node.place
            self.problems.add(place, "BINDINGS_MISSING", f"{what} binds no dataset and no product", _BINDINGS)
        if entries is None or not entries.entries:
            step.whole = False
            step.broken.add("with")
            return
        for key, value in entries.entries:
            if not PARAMETER_NAME.fullmatch(key.value) or key.value in step.parameters:
                self._parameter(step, key, value)
                continue
            self._remember(step, key, value)
            bound = self._bound(value, key.value)
            if bound is None or key.value in entries.duplicates:
                step.whole = False
                step.broken.add(f"with.{key.value}")
            step.bindings[key.value] = Binding(key.value, bound or (), isinstance(value, ListNode), value.place)

    def _bound(self, node: Node, name: str) -> tuple[Bound, ...] | None:
        if not isinstance(node, ListNode):
            single = self._ref_or_first(node, name)
            return None if single is None else (single,)
        if not node.items:
            self.wrong(node, f"`{name}` is bound to an empty list", REF_HINT, "DATASET_REF_INVALID")
            return None
        refs = [self._ref_or_first(item, name) for item in node.items]
        known = tuple(bound for bound in refs if bound is not None)
        return known if len(known) == len(refs) else None

    def _ref_or_first(self, node: Node, name: str) -> Bound | None:
        if not isinstance(node, MapNode):
            return self._ref(node, name)
        fields: Mapping[str, Node] = {key.value: value for key, value in node.entries}
        candidates = fields.get("first")
        if len(fields) != 1 or not isinstance(candidates, ListNode) or not candidates.items:
            hint = '`{"first": ["prod:model_b:fit", "prod:model_c:fit"]}` takes the product of the branch that ran'
            self.wrong(node, f"`{name}` is not bound to a reference", hint, "DATASET_REF_INVALID")
            return None
        refs = [self._ref(item, name) for item in candidates.items]
        known = tuple(ref for ref in refs if ref is not None)
        return FirstRef(known, node.place) if len(known) == len(refs) else None

    def _ref(self, node: Node, name: str) -> DatasetRef | None:
        ref = parse_ref(node) if isinstance(node, Scalar) and isinstance(node.value, str) else None
        if ref is None:
            is_text = isinstance(node, Scalar) and isinstance(node.value, str)
            shown = f"`{node.value}`" if is_text else json_kind_of(node)  # type: ignore[attr-defined]  # it is a scalar
            self.wrong(node, f"`{name}` is bound to {shown}, which is not a reference", REF_HINT, "DATASET_REF_INVALID")
        elif ref.leaf:
            message, hint = f"`{name}` is bound to a part of a product", "bind the product; leaves are for predicates"
            self.wrong(node, message, hint, "DATASET_REF_INVALID")
            return None
        return ref

    def _merge(self, step: Step, node: Node | None, what: str) -> None:
        example = 'write `"merge": {"operation": "merge", "keys": ["id"]}`'
        if node is None:
            place = step.places.get("uses", step.place)
            self.problems.add(place, "MERGE_OPERATION_MISSING", f"{what} has no `merge`", example)
            step.broken.add("with")
        entries = self.as_map(node, f"`merge` of {what}", example) if node is not None else None
        if entries is not None:
            self._merge_entries(step, entries, what)
        elif node is not None:
            step.broken.add("with")
        bound = {name: len(b.bound) for name, b in step.bindings.items() if name != AUXILIARY}
        several = len(bound) > 1 or sum(bound.values()) > 1
        if step.bindings and (PRIMARY not in step.bindings or not several):
            missing = "no second dataset" if PRIMARY in step.bindings else f"no `{PRIMARY}`"
            hint = 'bind `"primary_dataset"` and one or more others, such as `"secondary_dataset"`'
            place = step.places.get("merge", step.place)
            self.problems.add(place, "MERGE_INPUTS_MISSING", f"{what} merges and has {missing}", hint)
            step.broken.add("with")

    def _merge_entries(self, step: Step, entries: MapNode, what: str) -> None:
        step.places["merge"] = entries.place
        operation = self._operation(step, entries, what)
        for key, value in entries.entries:
            self._parameter(step, key, value)
        keys = entries.get("keys")
        if keys is not None and plain_value(keys) in ([], {}, None, ""):
            self._keys_missing(step, keys.place, what)
        elif keys is None and operation == "merge":
            self._keys_missing(step, entries.place, what)
        elif isinstance(keys, ListNode):
            failures = self.problems.failures
            self.strings(keys, f"`keys` of {what}", "the key")
            if self.problems.failures > failures:
                step.broken.add("with.keys")

    def _keys_missing(self, step: Step, place: Place, what: str) -> None:
        hint = 'name the columns to merge on: `"keys": ["firm_id", "year"]`'
        self.problems.add(place, "MERGE_KEYS_MISSING", f"{what} merges and has no `keys`", hint)
        step.parameters.setdefault("keys", [])  # so that the action does not report it as missing
        step.broken.add("with.keys")

    def _operation(self, step: Step, entries: MapNode, what: str) -> str | None:
        """The intended operation, also if it is missing or wrong: its other entries are checked."""
        node = entries.get("operation")
        hint = 'write `"operation": "merge"` or `"append"`'
        of_action = MERGING_ACTIONS.get(step.uses)
        if node is None:
            self.problems.add(entries.place, "MERGE_OPERATION_MISSING", f"`merge` of {what} has no `operation`", hint)
            step.parameters.setdefault("operation", of_action)  # so that the action does not report it as missing
            step.broken.add("with.operation")
            return of_action
        operation = self.string(node, f"`operation` of {what}", hint)
        if operation == of_action or (of_action is None and operation in OPERATIONS):
            return operation
        step.broken.add("with.operation")
        if operation in OPERATIONS:
            message = f"`{step.uses}` does not support `{operation}`"
            correction = f'write `"operation": "{of_action}"`, or use `data/{operation}`'
            self.problems.add(node.place, "MERGE_OPERATION_UNKNOWN", message, correction)
            # Either the action or the operation is wrong, so the other entries cannot be checked.
            step.broken |= {"with", *(f"with.{key.value}" for key, _ in entries.entries)}
        elif operation is not None:
            message = f"there is no operation `{operation}`"
            correction = did_you_mean(operation, OPERATIONS) or hint
            self.problems.add(node.place, "MERGE_OPERATION_UNKNOWN", message, correction)
        meant = of_action or (meant_key(operation, OPERATIONS) if operation is not None else None)
        if meant is None:
            step.broken.add("with")  # the required entries are not known
        return meant


def _meant_type(node: Node | None, params: MapNode) -> str:
    written = node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
    looks_like = "condition" if params.get("predicate") is not None else "action"
    return meant_key(written, STEP_TYPES) or looks_like
