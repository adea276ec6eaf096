"""What the steps of a dataset plan say of each other and of the datasets: is it all there, and in an order?"""

from __future__ import annotations

from collections.abc import Sequence

from whyrun.errors import did_you_mean
from whyrun.workflow.composition.manifest import Manifest
from whyrun.workflow.composition.model import AUXILIARY
from whyrun.workflow.composition.predicates import operands_of
from whyrun.workflow.composition.refs import DatasetRef
from whyrun.workflow.composition.shapes import Branch, ShapeStep, shape_problems
from whyrun.workflow.composition.steps import Named, Step
from whyrun.workflow.model import Place
from whyrun.workflow.nodes import Problems


class Links:
    """The steps by id, checked against each other and the manifest."""

    def __init__(self, steps: Sequence[Step], manifest: Manifest, problems: Problems, root: Place) -> None:
        self.steps = steps
        self.manifest = manifest
        self.problems = problems
        self.root = root
        self.by_id: dict[str, Step] = {}
        self.owner: dict[str, tuple[str, bool]] = {}  # step → the condition that it is a branch of
        self.cyclic: set[str] = set()
        self.leaves: dict[tuple[str, str], dict[str, DatasetRef]] = {}  # (step, product) → leaves that are read
        self.mode: str | None = None
        # Names that may be those of steps whose own id could not be read: no second word is said of them.
        self.nameless = any(step.written_id is None for step in steps)
        self.unsafe = {step.written_id for step in steps if step.id is None}

    def _may_be_a_step(self, name: str) -> bool:
        return self.nameless or name in self.unsafe

    def check(self) -> None:
        self._ids()
        self._modes()
        for step in self.by_id.values():
            self._known(step, step.depends_on, "DEPENDENCY_UNKNOWN")
        for step in self.by_id.values():
            self._branches(step)
        self._cycles()
        for step in self.by_id.values():
            self._references(step)
        self._shape()

    # --- steps ----------------------------------------------------------------------------------------------------

    def _ids(self) -> None:
        for step in self.steps:
            if step.id is None:
                continue
            if step.id in self.by_id:
                hint = f"the first is in line {self.by_id[step.id].place.line}; give each an id of its own"
                self.problems.add(step.place, "STEP_ID_DUPLICATE", f"there is a step `{step.id}` already", hint)
                self.by_id[step.id].whole = False
                self.by_id[step.id].products_known = False  # it is not known which of the two is meant
                continue
            self.by_id[step.id] = step
            if step.id in self.manifest.datasets:
                hint = "datasets and steps share one name space: rename one"
                self.problems.add(step.place, "NAME_TAKEN", f"`{step.id}` is the key of a dataset", hint)

    def _modes(self) -> None:
        named = [step for step in self.steps if step.mode is not None]
        self.mode = named[0].mode if named else None
        for step in named[1:]:
            if step.mode != self.mode:
                assert step.mode_place is not None
                self.problems.add(
                    step.mode_place,
                    "COMPOSITION_MODE_MISMATCH",
                    f"the mode here is `{step.mode}`, and `{self.mode}` in step `{named[0].id}`",
                    "a plan has one mode, the same on all steps",
                )

    def _known(self, step: Step, named: list[Named], code: str) -> None:
        for other in list(named):
            if other.name not in self.by_id:
                named.remove(other)
                step.whole = False
                if not self._may_be_a_step(other.name):
                    hint = did_you_mean(other.name, list(self.by_id))
                    self.problems.add(other.place, code, f"there is no step `{other.name}`", hint)

    def _branches(self, step: Step) -> None:
        if step.type != "condition":
            return
        for named, answer in ((step.true_steps, True), (step.false_steps, False)):
            self._known(step, named, "BRANCH_UNKNOWN_STEP")
            for other in list(named):
                if other.name in self.owner:
                    condition, other_answer = self.owner[other.name]
                    side = "true_steps" if other_answer else "false_steps"
                    message = f"the step `{other.name}` is in `{side}` of `{condition}` already"
                    hint = "a step belongs to one branch; to nest conditions, list the inner condition as a step"
                    self.problems.add(other.place, "BRANCH_OVERLAP", message, hint)
                    step.whole = False
                    named.remove(other)
                else:
                    self.owner[other.name] = (str(step.id), answer)
        if not step.true_steps and not step.false_steps and step.whole:
            message = f"the condition `{step.id}` has no steps in either branch"
            hint = "name steps in `true_steps` or `false_steps`"
            self.problems.add(step.place, "COMPOSITION_MODE_SHAPE", message, hint)

    def branch_of(self, id_: str) -> Branch:
        """The conditions that a step hangs on, outermost first."""
        found: list[tuple[str, bool]] = []
        seen: set[str] = set()
        while id_ in self.owner and id_ not in seen:
            seen.add(id_)
            found.append(self.owner[id_])
            id_ = self.owner[id_][0]
        return tuple(reversed(found))

    # --- order ----------------------------------------------------------------------------------------------------

    def waits(self, id_: str) -> list[str]:
        """The steps that it waits for by its own word, and the condition that it is a branch of."""
        named = [other.name for other in self.by_id[id_].depends_on]
        return [*named, self.owner[id_][0]] if id_ in self.owner else named

    def needs(self, id_: str) -> list[str]:
        """The same as jobs: a condition is none, so what it waits for stands in its place."""
        found: dict[str, None] = {}
        seen: set[str] = set()
        waiting = self.waits(id_)
        while waiting:
            other = waiting.pop(0)
            if self.by_id[other].type == "action":
                found[other] = None
            elif other not in seen:
                seen.add(other)
                waiting.extend(self.waits(other))
        return [other for other in found if other != id_]

    def _before(self, id_: str) -> set[str]:
        seen: set[str] = set()
        waiting = self.waits(id_)
        while waiting:
            other = waiting.pop()
            if other not in seen:
                seen.add(other)
                waiting.extend(self.waits(other))
        return seen

    def _cycles(self) -> None:
        for id_, step in self.by_id.items():
            if id_ in self.cyclic or id_ not in self._before(id_):
                continue
            way = self._way_round(id_)
            self.cyclic.update(way)
            place = next((named.place for named in step.depends_on if named.name == way[1 % len(way)]), step.place)
            message = f"`{id_}` waits for itself"
            if len(way) > 1:
                message = f"these steps wait for each other: {' → '.join((*way, id_))}"
            self.problems.add(place, "DEPENDENCY_CYCLE", message, "remove one of the dependencies")
        for id_ in self.by_id:
            if self.cyclic & ({id_} | self._before(id_)):
                self.by_id[id_].whole = False

    def _way_round(self, start: str) -> list[str]:
        """The shortest way from a step back to itself."""
        ways: list[list[str]] = [[start]]
        seen: set[str] = set()
        while True:
            way = ways.pop(0)
            for other in self.waits(way[-1]):
                if other == start:
                    return way
                if other not in seen:
                    seen.add(other)
                    ways.append([*way, other])

    # --- references -----------------------------------------------------------------------------------------------

    def _references(self, step: Step) -> None:
        before = self._before(str(step.id))
        for binding in step.bindings.values():
            for ref, _ in binding.refs():
                if not self._is_there(step, ref, before):
                    step.whole = False
                    step.broken.add(f"with.{binding.name}")
        if step.predicate is None:
            return
        sound = True
        for ref, optional in operands_of(step.predicate):
            sound = self._is_there(step, ref, before) and sound
            if sound and ref.leaf:
                sound = self._has_leaf(ref, optional)
        if not sound:
            step.predicate, step.whole = None, False

    def _is_there(self, step: Step, ref: DatasetRef, before: set[str]) -> bool:
        if ref.step is None:
            if ref.name in self.manifest.datasets:
                return True
            if self.manifest.complete:
                hint = did_you_mean(ref.name, list(self.manifest.datasets)) or "add it to the inputs manifest"
                self.problems.add(ref.place, "DATASET_UNKNOWN", f"there is no dataset `{ref.name}`", hint)
            return False
        source = self.by_id.get(ref.step)
        if ref.step == step.id:
            message, hint = f"`{step.id}` uses its own product `{ref.name}`", "use a product of a step before it"
            self.problems.add(ref.place, "PRODUCT_SELF", message, hint)
            return False
        if source is None and self._may_be_a_step(ref.step):
            return False
        if source is None or source.type == "condition":
            message = f"there is no step `{ref.step}`"
            known = [id_ for id_, other in self.by_id.items() if other.type == "action" and id_ != step.id]
            hint = did_you_mean(ref.step, known) or "name a step of this plan"
            if source is not None:
                message = f"`{ref.step}` is a condition and makes no products"
            self.problems.add(ref.place, "PRODUCT_STEP_UNKNOWN", message, hint)
            return False
        if ref.name not in source.products:
            if source.products_known and source.type is not None:
                message = f"step `{ref.step}` makes no product `{ref.name}`"
                hint = did_you_mean(ref.name, list(source.products)) or "declare it in its `products`"
                self.problems.add(ref.place, "PRODUCT_UNKNOWN", message, hint)
            return False
        if ref.step not in before:
            message = f"`{step.id}` uses a product of `{ref.step}` and does not depend on it"
            self.problems.add(ref.place, "DEPENDENCY_MISSING", message, f"add `{ref.step}` to its `depends_on`")
            return False
        return True

    def _has_leaf(self, ref: DatasetRef, optional: bool) -> bool:
        assert ref.step is not None
        product = self.by_id[ref.step].products[ref.name]
        if not product.may_have_leaves:
            what = f"is written to `{product.file}`" if product.kind in ("table", "report") else f"is a {product.kind}"
            message = f"`{ref.name}` {what}, and only JSON has leaves"
            hint = "let the step make a `report` with the values that the predicate needs"
            self.problems.add(ref.place, "DATASET_REF_INVALID", message, hint)
            return False
        self.leaves.setdefault((ref.step, ref.name), {}).setdefault(ref.leaf_text, ref)
        return True

    # --- shape ----------------------------------------------------------------------------------------------------

    def _shape(self) -> None:
        modes = {step.mode for step in self.steps}
        if not self.steps or len(modes) != 1 or self.mode is None or not all(step.whole for step in self.steps):
            return  # where something is not known, nothing is said about how it hangs together
        steps = [self._shape_step(step) for step in self.steps if step.type == "action"]
        for place, message, hint in shape_problems(self.mode, steps, self.steps[0].place):
            self.problems.add(place, "COMPOSITION_MODE_SHAPE", message, hint)

    def _shape_step(self, step: Step) -> ShapeStep:
        id_ = str(step.id)
        refs = [
            (ref, joined)
            for binding in step.bindings.values()
            if binding.name != AUXILIARY
            for ref, joined in binding.refs()
            if not self._is_auxiliary(ref)
        ]
        branch = self.branch_of(id_)
        return ShapeStep(
            id_,
            step.place,
            datasets=frozenset(ref.name for ref, _ in refs if ref.step is None),
            sources=frozenset(ref.step for ref, _ in refs if ref.step is not None),
            joined=frozenset(ref.step for ref, joined in refs if joined and ref.step is not None),
            waits=frozenset(self.needs(id_)),
            merges=step.merges,
            conditional=bool(branch),
            branch=branch,
        )

    def _is_auxiliary(self, ref: DatasetRef) -> bool:
        if ref.step is None:
            return self.manifest.datasets[ref.name].role == AUXILIARY
        return self.by_id[ref.step].products[ref.name].role == AUXILIARY
