"""What instances would cost, as actions and `prices.yaml` say before a run. Prices are no part of a plan.

    currency: USD
    jobs: {Draw: 0.04}
    actions: {image/generate: 0.04}
    items: {output tokens: 0.00001}

What is not in the file is unknown, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from whyrun.errors import InvalidError, did_you_mean
from whyrun.money import DEFAULT_CURRENCY, check_currency, decimal, written
from whyrun.snapshot.actions.known_inputs import RuntimeEstimates, ask_instances
from whyrun.snapshot.snapshot import Price
from whyrun.workflow.nodes import MapNode, Node, Problems, Scalar, kind_of

if TYPE_CHECKING:
    from whyrun.graph.tables import JobTable

PRICES_FILE = "prices.yaml"
METHOD = "estimate_cost"
_LISTS = ("jobs", "actions", "items")
_HTTP = "http/json"
_RUN_ANYTHING = frozenset({"shell", "python", _HTTP})  # the built-in actions that may call a paid service
_FREE = Price({}, "action")


class PriceList(msgspec.Struct, frozen=True):
    """`prices.yaml`: the price of one execution by job or action, and of one unit by item."""

    currency: str = DEFAULT_CURRENCY
    jobs: Mapping[str, Decimal] = {}
    actions: Mapping[str, Decimal] = {}
    items: Mapping[str, Decimal] = {}

    def of(self, job: str, action: str) -> Price | None:
        amount = self.jobs.get(job, self.actions.get(action))
        return None if amount is None else Price({self.currency: written(amount)}, "prices")


def read_prices(project: Path) -> PriceList:
    """The price list of a project; InvalidError with all its problems."""
    path = project / PRICES_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return PriceList()
    from whyrun.workflow.yaml_source import read_yaml  # imported late: few projects have the file

    problems = Problems()
    root = read_yaml(text, PRICES_FILE, problems)
    currency, lists = DEFAULT_CURRENCY, {key: dict[str, Decimal]() for key in _LISTS}
    if isinstance(root, MapNode):
        for key, node in root.entries:
            if key.value == "currency":
                currency = _currency(node, problems)
            elif key.value in lists:
                lists[key.value] = _list(key.value, node, problems)
            else:
                hint = did_you_mean(key.value, ["currency", *_LISTS])
                problems.add(key.place, "UNKNOWN_KEY", f"there is no key `{key.value}` in a price list", hint)
    elif root is not None and not (isinstance(root, Scalar) and root.value is None):
        problems.add(root.place, "WRONG_TYPE", f"a price list is a map, not {kind_of(root)}", "write `jobs: {Draw: 1}`")
    if len(problems):
        raise InvalidError(list(problems))
    return PriceList(currency, **lists)


def _currency(node: Node, problems: Problems) -> str:
    try:
        return check_currency(node.value if isinstance(node, Scalar) else None)
    except ValueError as wrong:
        problems.add(node.place, "WRONG_TYPE", str(wrong), "write `currency: USD`")
        return DEFAULT_CURRENCY


def _list(name: str, node: Node, problems: Problems) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    if not isinstance(node, MapNode):
        problems.add(
            node.place, "WRONG_TYPE", f"`{name}` is {kind_of(node)}, not a map", f"write `{name}: {{NAME: 1}}`"
        )
        return found
    for key, value in node.entries:
        text = value.text if isinstance(value, Scalar) else None
        try:
            found[key.value] = decimal("a price", text)  # the text: a number is taken as it is written
        except ValueError as wrong:
            problems.add(value.place, "WRONG_TYPE", str(wrong), _hint(text))
    return found


def _hint(text: str | None) -> str:
    amount, _, currency = (text or "").strip().partition(" ")
    try:
        decimal("a price", amount)
        return f"write `currency: {check_currency(currency.strip())}` once for the whole list, and here `{amount}`"
    except ValueError:
        pass
    if amount.startswith("-"):
        return "a price is at least 0"
    return "omit what you do not know: it is unknown, not 0"


class KnownPrices:
    """Asks when it is called, once an instance. What is in no answer, only history can tell."""

    def __init__(self, about: RuntimeEstimates, project: Path) -> None:
        """`about`: the graph, the actions, and how to ask them."""
        self._about, self._project = about, project
        self._asked: dict[int, Price | None] = {}
        self._wrong: dict[str, str] = {}  # action → what is wrong with its `estimate_cost`

    @cached_property
    def price_list(self) -> PriceList:
        return read_prices(self._project)

    def unit_price(self, item: str) -> tuple[Decimal, str] | None:
        """The price of one unit of an item, with its currency."""
        amount = self.price_list.items.get(item)
        return None if amount is None else (amount, self.price_list.currency)

    def notes(self, nodes: Sequence[int]) -> list[str]:
        """Names that resemble a job without a price: others may be jobs of another workflow of the project. And the
        actions of these instances that cannot tell a price."""
        self(nodes)
        broken = [
            f"`{METHOD}` of `{action}` gives no price, so it is unknown: {problem}"
            for action, problem in sorted(self._wrong.items())
        ]
        listed = self.price_list.jobs
        jobs = [table.name for table in self._about.graph.tables]
        missing = [name for name in jobs if name not in listed]
        hints = {name: did_you_mean(name, missing) for name in listed if name not in jobs}
        misspelled = [
            f"`{PRICES_FILE}` has a price for `{name}`, which is no job of this workflow: {hint}"
            for name, hint in hints.items()
            if hint is not None and hint.startswith("did you mean")
        ]
        return [*misspelled, *broken]

    def __call__(self, nodes: Sequence[int]) -> Mapping[int, Price]:
        graph, infos = self._about.graph, self._about.infos
        to_ask: dict[int, list[int]] = {}
        for node in nodes:
            if node not in self._asked:
                table, position = graph.table_at(node)
                info = infos.get(table.name)
                if info is not None and info.origin != "builtin" and METHOD in info.hooks:
                    to_ask.setdefault(table.number, []).append(position)
                else:
                    name = info.name if info is not None else table.decl.uses
                    self._asked[node] = self._without_asking(table, position, name)
        for number, positions in to_ask.items():
            table = graph.tables[number]
            action, problems = infos[table.name].name, list[str]()
            for position, answer in ask_instances(self._about, METHOD, table, positions, problems).items():
                price = self.price_list.of(table.name, action)
                if answer is not None:
                    price = Price({answer["currency"]: answer["amount"]}, "action")
                self._asked[table.base + position] = price or Price(None, "unknown")
            if problems:
                self._wrong.setdefault(action, problems[0])
        return {node: price for node in nodes if (price := self._asked[node]) is not None}

    def _without_asking(self, table: JobTable, position: int, action: str) -> Price | None:
        if action == _HTTP:
            given = self._about.reader.inputs(table, position).given
            if (known := _price_of_request(given)) is not None:
                return known
            listed = self.price_list.of(table.name, action)
            return listed or (Price(None, "unknown") if given.get("cost") is not None else None)
        listed = self.price_list.of(table.name, action)
        info = self._about.infos.get(table.name)
        is_free = info is not None and info.origin == "builtin" and action not in _RUN_ANYTHING
        return listed or (_FREE if is_free else None)


def _price_of_request(given: Mapping[str, Any]) -> Price | None:
    try:
        currency = check_currency(given.get("currency", DEFAULT_CURRENCY))
        return Price({currency: written(decimal("`price`", given["price"]))}, "action")
    except (KeyError, ValueError):  # not given, or not known before the run
        return None
