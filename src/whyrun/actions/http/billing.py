"""Records what the requests of `http/json` cost: from amounts in the answers, or at the price that the job states."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from whyrun.actions.base import WorkerContext
from whyrun.actions.http.exchange import ABSENT, Answer, is_good, value_at
from whyrun.actions.http.params import Params
from whyrun.money import decimal, times

_ONE = "request"  # the item, where a request as a whole has a price
_LOST = "request without an answer"
_Found = tuple[str, Decimal, Decimal | None]  # item, amount, quantity


class Billing:
    def __init__(self, params: Params, context: WorkerContext) -> None:
        self._params, self._context = params, context
        self._told: set[str | None] = set()  # requests whose cost is recorded

    @property
    def is_paid(self) -> bool:
        return self._params.cost is not None or self._params.price is not None

    def answered(self, answer: Answer, request: str | None, *, last: bool) -> None:
        """An answer to a request has come; `last`: no later answer will tell its cost. `request` names what was
        bought, so that it is recorded once, however many attempts hear of it."""
        params = self._params
        if params.cost is None:
            if params.price is not None and is_good(answer.status):
                self._record(_ONE, decimal("`price`", params.price), None, request)
            return
        found = list(self._found(answer))
        for item, amount, quantity in found:
            self._record(item, amount, quantity, request)
        if found:
            self._told.add(request)
        elif last and is_good(answer.status) and (request is None or request not in self._told):
            self._record(_ONE, None, None, request)

    def lost(self) -> None:
        """A request was sent, and nobody knows whether the service has accepted it."""
        if self.is_paid:
            self._record(_LOST, None, None, None)

    def _record(self, item: str, amount: Decimal | None, quantity: Decimal | None, request: str | None) -> None:
        self._context.cost(amount, self._params.currency, item, quantity, request)

    def _found(self, answer: Answer) -> Iterator[_Found]:
        """The amounts at `cost` in an answer. What is not there, or is no amount, is unknown and never 0."""
        cost = self._params.cost
        document: Any = None
        if not isinstance(cost, str) or cost.startswith("/"):
            try:
                # Not with floats: an amount is taken as it is written.
                document = json.loads(answer.body, parse_float=Decimal)
            except ValueError:
                return
        if isinstance(cost, str):
            amount = value_at(document, cost) if cost.startswith("/") else answer.headers.get(cost.lower(), ABSENT)
            if amount is not ABSENT and (exact := _exact(cost, amount)) is not None:
                yield _ONE, exact, None
            return
        for pointer, unit_price in (cost or {}).items():
            value = value_at(document, pointer)
            if value is not ABSENT and (quantity := _exact(pointer, value)) is not None:
                item = pointer.rpartition("/")[2]
                yield item, times(decimal(f"`cost.{pointer}`", unit_price), quantity), quantity


def _exact(where: str, value: Any) -> Decimal | None:
    try:
        return decimal(f"the value at `{where}`", value)
    except ValueError as problem:
        print(f"the cost is not known: {problem}", file=sys.stderr, flush=True)
        return None
