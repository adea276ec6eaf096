"""Checks the references between steps of a dataset plan and to datasets: they exist, and there is an order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whyrun.errors import did_you_mean
from whyrun.workflow.advice import worded
from whyrun.workflow.composition.plan_file.manifest import Manifest
from whyrun.workflow.composition.plan_file.predicates import Literal, Test, never_compares, operands_of, tests_of
from whyrun.workflow.composition.plan_file.products import EXHIBITS, DatasetRef, FirstRef, diagnostic_types, refs_of
from whyrun.workflow.composition.plan_file.steps import Named, Step
from whyrun.workflow.composition.shapes import Branch, Join, ShapeStep, shape_problems
from whyrun.workflow.model import AUXILIARY, CHECKING_ACTION, PRIMARY, Place
from whyrun.workflow.nodes import Problems


class Links:
    """The steps by id, checked against each other and the manifest."""

    def __init__(self, steps: Sequence[Step], manifest: Manifest, problems: Problems, root: Place) -> None:
        self.steps = steps
        self.manifest = manifest
        self.problems = problems
        self.root = root
        self.by_id: dict[str, Step] = {}
        self.alike: dict[str, list[Step]] = {}  # all steps with this id: it is not known which one a reference means
        self.owner: dict[str, tuple[str, bool]] = {}  # step → the condition, and the answer, that its branch belongs to
        self.cyclic: set[str] = set()
        # Steps with a dependency that could not be read.
        self.adrift = {step.id for step in steps if not step.waits_known and step.id is not None}
        self.leaves: dict[tuple[str, str], dict[str, DatasetRef]] = {}  # (step, product) → leaves that predicates read
        self.mode: str | None = None
        # These names may be ids that could not be read, so references to them are not reported.
        self.nameless = any(step.written_id is None for step in steps)
        self.unsafe = {step.written_id for step in steps if step.id is None}

    def _may_be_a_step(self, name: str) -> bool:
        return self.nameless or name in self.unsafe

    def check(self) -> None:
        self._ids()
        self._modes()
        for step in self.steps:
            self._known(step, step.depends_on, "DEPENDENCY_UNKNOWN")
        for step in self.steps:
            self._branches(step)
        self._cycles()
        for step in self.steps:
            self._references(step)
        self._shape()

    # --- steps ----------------------------------------------------------------------------------------------------

    def _ids(self) -> None:
        for step in self.steps:
            if step.id is None:
                continue
            self.alike.setdefault(step.id, []).append(step)
            if step.id in self.by_id:
                hint = f"the first is in line {self.by_id[step.id].place.line}; give each an id of its own"
                self.problems.add(step.place, "STEP_ID_DUPLICATE", f"there is a step `{step.id}` already", hint)
                self.by_id[step.id].whole = False
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
                if step.id is not None:
                    self.adrift.add(step.id)
                if not self._may_be_a_step(other.name):
                    hint = did_you_mean(other.name, list(self.by_id)) or "name a step of this plan"
                    self.problems.add(other.place, code, f"there is no step `{other.name}`", hint)

    def _branches(self, step: Step) -> None:
        if step.type != "condition":
            return
        for named, answer in ((step.true_steps, True), (step.false_steps, False)):
            self._known(step, named, "BRANCH_UNKNOWN_STEP")
            if self.is_unnamed(step):
                self.adrift.update(other.name for other in named)
                continue
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

    def is_unnamed(self, step: Step) -> bool:
        """Whether it has no unique id, so that other steps cannot refer to it."""
        return step.id is None or self.by_id[step.id] is not step

    def branch_of(self, id_: str) -> Branch:
        """The conditions that a step depends on, outermost first."""
        branch: list[tuple[str, bool]] = []
        seen: set[str] = set()
        while id_ in self.owner and id_ not in seen:
            seen.add(id_)
            branch.append(self.owner[id_])
            id_ = self.owner[id_][0]
        return tuple(reversed(branch))

    # --- order ----------------------------------------------------------------------------------------------------

    def waits(self, id_: str) -> list[str]:
        """The steps in its `depends_on`, and the condition that its branch belongs to."""
        named = [other.name for other in self.by_id[id_].depends_on]
        return [*named, self.owner[id_][0]] if id_ in self.owner else named

    def needs(self, id_: str) -> list[str]:
        """The jobs that it waits for. A condition is not a job, so the steps that it waits for replace it."""
        jobs: dict[str, None] = {}
        seen: set[str] = set()
        waiting = self.waits(id_)
        while waiting:
            other = waiting.pop(0)
            if self.by_id[other].type == "action":
                jobs[other] = None
            elif other not in seen:
                seen.add(other)
                waiting.extend(self.waits(other))
        return [other for other in jobs if other != id_]

    def _before(self, id_: str) -> set[str]:
        return self._all_before(self.waits(id_))

    def _all_before(self, waiting: list[str]) -> set[str]:
        seen: set[str] = set()
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
            cycle = self._cycle(id_)
            self.cyclic.update(cycle)
            place = next((named.place for named in step.depends_on if named.name == cycle[1 % len(cycle)]), step.place)
            message = f"`{id_}` waits for itself"
            if len(cycle) > 1:
                message = f"these steps wait for each other: {' → '.join((*cycle, id_))}"
            self.problems.add(place, "DEPENDENCY_CYCLE", message, "remove one of the dependencies")
        for id_ in self.by_id:
            if self.cyclic & ({id_} | self._before(id_)):
                self.by_id[id_].whole = False

    def _cycle(self, start: str) -> list[str]:
        """The shortest path from a step back to itself."""
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
        named = [other.name for other in step.depends_on]  # of this step, even if another step has the same id
        before = self._all_before(named + ([self.owner[step.id][0]] if step.id in self.owner else []))
        for binding in step.bindings.values():
            for ref in binding.refs():
                if not self._is_there(step, ref, before):
                    step.whole = False
                    step.broken.add(f"with.{binding.name}")
        if step.predicate is None:
            return
        sound = True
        for ref in operands_of(step.predicate):
            there = self._is_there(step, ref, before) and (not ref.leaf or self._has_leaf(ref))
            sound = sound and there
        for test in tests_of(step.predicate) if sound else ():
            sound = self._is_comparable(test) and sound
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
        sources = self.alike.get(ref.step, [])
        if ref.step == step.id and len(sources) < 2:
            message, hint = f"`{step.id}` uses its own product `{ref.name}`", "use a product of a step before it"
            self.problems.add(ref.place, "PRODUCT_SELF", message, hint)
            return False
        if not sources and self._may_be_a_step(ref.step):
            return False
        if all(source.type == "condition" for source in sources):
            message = f"there is no step `{ref.step}`"
            known = [id_ for id_, other in self.by_id.items() if other.type == "action" and id_ != step.id]
            hint = did_you_mean(ref.step, known) or "name a step of this plan"
            if sources:
                message = f"`{ref.step}` is a condition and makes no products"
            self.problems.add(ref.place, "PRODUCT_STEP_UNKNOWN", message, hint)
            return False
        products = [name for source in sources for name in source.products]
        if ref.name not in products:
            if all(source.products_known for source in sources):
                message = f"step `{ref.step}` makes no product `{ref.name}`"
                hint = did_you_mean(ref.name, products) or "declare it in its `products`"
                self.problems.add(ref.place, "PRODUCT_UNKNOWN", message, hint)
            return False
        if ref.step not in before and not ({step.id, *before} & self.adrift):
            message = f"`{step.id}` uses a product of `{ref.step}` and does not depend on it"
            self.problems.add(ref.place, "DEPENDENCY_MISSING", message, f"add `{ref.step}` to its `depends_on`")
            return False
        return True

    def _has_leaf(self, ref: DatasetRef) -> bool:
        assert ref.step is not None
        product = next(step.products[ref.name] for step in self.alike[ref.step] if ref.name in step.products)
        if not product.may_have_leaves:
            what = f"is written to `{product.file}`" if product.kind in ("table", "report") else f"is a {product.kind}"
            message = f"`{ref.name}` {what}, and only JSON has leaves"
            hint = "let the step make a `report` with the values that the predicate needs"
            self.problems.add(ref.place, "PRODUCT_NOT_JSON", message, hint)
            return False
        self.leaves.setdefault((ref.step, ref.name), {}).setdefault(ref.leaf_text, ref)
        return True

    def _is_comparable(self, test: Test) -> bool:
        """Whether the operator can compare values of the known kinds."""
        refs = [operand for operand in test.operands if isinstance(operand, DatasetRef)]
        why = never_compares(test, [self._type_of(ref) for ref in refs])
        if why is None:
            return True
        literal = next((operand for operand in test.operands if isinstance(operand, Literal)), None)
        numbers = [f"`{ref.leaf_text[1:]}` of `{ref.step}` is a number" for ref in refs if self._type_of(ref)]
        hint = "; ".join(numbers) or "compare a leaf with a value of its own kind"
        self.problems.add(refs[0].place if literal is None else literal.place, "PREDICATE_KINDS", why, hint)
        return False

    def _type_of(self, ref: DatasetRef) -> str | None:
        """The type of a diagnostic, if the parameters of its step determine it."""
        steps = self.alike.get(ref.step or "", [])
        if len(steps) != 1 or steps[0].uses != CHECKING_ACTION or len(ref.leaf) != 1:
            return None
        return (diagnostic_types(steps[0].parameters) or {}).get(ref.leaf[0].name)

    # --- shape ----------------------------------------------------------------------------------------------------

    def _shape(self) -> None:
        modes = {step.mode for step in self.steps}
        if not self.steps or len(modes) != 1 or self.mode is None or not all(step.whole for step in self.steps):
            return  # the bindings are not fully known
        steps = [self._shape_step(step) for step in self.steps if step.type == "action"]
        for place, message, hint in shape_problems(self.mode, steps, self.steps[0].place):
            self.problems.add(place, "COMPOSITION_MODE_SHAPE", message, worded(hint, in_plan=True))

    def _shape_step(self, step: Step) -> ShapeStep:
        id_ = str(step.id)
        bound = [each for binding in step.bindings.values() if binding.name != AUXILIARY for each in binding.bound]
        refs = [ref for each in bound for ref in refs_of(each) if not self._is_auxiliary(ref)]
        branch = self.branch_of(id_)
        read = frozenset().union(*(_datasets_of(step, name) for name in step.bindings))
        by_role = frozenset(name for name in read if self.manifest.datasets[name].role == AUXILIARY)
        return ShapeStep(
            id_,
            step.place,
            datasets=frozenset(ref.name for ref in refs if ref.step is None),
            sources=_steps_of(refs),
            alone=_steps_of(each for each in bound if isinstance(each, DatasetRef) and each in refs),
            joins=tuple(join for each in bound if isinstance(each, FirstRef) and (join := self._join(each)).steps),
            waits=frozenset(self.needs(id_)),
            merges=step.merges,
            conditional=bool(branch),
            branch=branch,
            primary=_datasets_of(step, PRIMARY),
            auxiliary=_datasets_of(step, AUXILIARY) | by_role,
            auxiliary_by_role=by_role,
            shows=bool(step.products) and all(product.kind in EXHIBITS for product in step.products.values()),
        )

    def _join(self, first: FirstRef) -> Join:
        steps = _steps_of(ref for ref in first.candidates if not self._is_auxiliary(ref))
        return Join(steps, certain=any(ref.step is None for ref in first.candidates))

    def _is_auxiliary(self, ref: DatasetRef) -> bool:
        if ref.step is None:
            return self.manifest.datasets[ref.name].role == AUXILIARY
        return self.by_id[ref.step].products[ref.name].role == AUXILIARY


def _datasets_of(step: Step, name: str) -> frozenset[str]:
    """The datasets that one binding of a step names."""
    bound = step.bindings[name].bound if name in step.bindings else ()
    return frozenset(ref.name for each in bound for ref in refs_of(each) if ref.step is None)


def _steps_of(refs: Iterable[DatasetRef]) -> frozenset[str]:
    return frozenset(ref.step for ref in refs if ref.step is not None)
