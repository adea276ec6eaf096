"""Amounts of money: decimals with a currency, read, added and shown. No floats, and nothing is converted.

An amount that nobody knows is None, never 0. `Totals` counts those beside the sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import msgspec

from whyrun.lazy_regex import lazy_regex

DEFAULT_CURRENCY = "USD"
UNKNOWN = ""  # as a currency in a mapping: its value is the number of costs of unknown amount
_CURRENCY = lazy_regex(r"[A-Z][A-Z0-9]{1,9}")
_AMOUNT = lazy_regex(r"[0-9]{1,20}(\.[0-9]{1,18})?( [A-Z][A-Z0-9]{1,9})?")
_WHOLE, _FRACTION = 20, 18  # digits before and after the point
_EXACT = Context(prec=80)  # sums of such numbers are never rounded
_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£"}
_LOOSE_AMOUNT = lazy_regex(r"([$€£]?)\s*([0-9][0-9.]*(?:[eE]\+?[0-9]{1,2})?)\s*([$€£]|[A-Za-z]*)")
_WORDS = {"dollar": "USD", "dollars": "USD", "euro": "EUR", "euros": "EUR", "pound": "GBP", "pounds": "GBP"}
_CENT = Decimal("0.01")

Number = int | float | str | Decimal


def decimal(what: str, number: object) -> Decimal:
    """The number as it is written: the float 0.1 is 0.1. ValueError unless it is finite and at least 0."""
    if isinstance(number, bool) or not isinstance(number, int | float | str | Decimal):
        raise ValueError(f"{what} must be a number, not {number!r:.100}")
    try:
        exact = Decimal(str(number).strip())
    except InvalidOperation:
        raise ValueError(f"{what} must be a number, not {number!r:.100}") from None
    if not exact.is_finite() or exact < 0:
        raise ValueError(f"{what} is {number!r:.100}: it must be finite and at least 0")
    if exact and (exact.adjusted() >= _WHOLE or _fraction_digits(exact) > _FRACTION):
        raise ValueError(f"{what} may have {_WHOLE} digits before the point and {_FRACTION} after it: {number!r:.100}")
    return exact


def _fraction_digits(number: Decimal) -> int:
    exponent = number.normalize(_EXACT).as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def written(number: Decimal) -> str:
    """As logs and JSON have it: no exponent and no zeros at the end of a fraction."""
    return f"{number.normalize(_EXACT):f}" if number else "0"


def check_currency(currency: object) -> str:
    if not isinstance(currency, str) or _CURRENCY.fullmatch(currency) is None:
        raise ValueError(f"a currency is a code such as `USD` or `EUR`, not {currency!r:.100}")
    return currency


def add(*amounts: Decimal) -> Decimal:
    total = Decimal(0)
    for amount in amounts:
        total = _EXACT.add(total, amount)
    return total


def times(amount: Decimal, quantity: Decimal) -> Decimal:
    return _EXACT.multiply(amount, quantity)


def is_amount(text: str) -> bool:
    """`5`, `0.50 EUR`, as settings and workflow files have it."""
    return _AMOUNT.fullmatch(text) is not None


def meant_amount(text: str) -> str | None:
    """The amount that a text which is none was meant as: `$5` → `5`, `5 euros` → `5 EUR`, `1e3` → `1000`."""
    found = _LOOSE_AMOUNT.fullmatch(text.strip())
    if found is None or (found[1] and found[3]):
        return None
    word = found[1] or found[3]
    of_sign = {sign: currency for currency, sign in _SIGNS.items()}
    code = word.upper() if len(word) == 3 else None
    currency = (of_sign.get(word) or _WORDS.get(word.lower()) or code) if word else DEFAULT_CURRENCY
    try:
        amount = written(decimal("an amount", found[2]))
    except ValueError:
        return None
    meant = amount if currency == DEFAULT_CURRENCY else f"{amount} {currency}"
    return meant if is_amount(meant) else None


class Cost(msgspec.Struct, frozen=True):
    """An amount of money, as an action estimates it: `Cost("0.04", "EUR")`."""

    amount: int | float | str | Decimal
    currency: str = DEFAULT_CURRENCY

    def to_json(self) -> dict[str, str]:
        """Checked; ValueError if it is no amount of money."""
        return {"amount": written(decimal("the amount", self.amount)), "currency": check_currency(self.currency)}


class Totals:
    """Sums, one a currency, and the number of costs of unknown amount."""

    def __init__(self) -> None:
        self.sums: dict[str, Decimal] = {}
        self.unknown = 0

    def __bool__(self) -> bool:
        return bool(self.sums) or self.unknown > 0

    def add(self, amount: Decimal | str | None, currency: str = DEFAULT_CURRENCY) -> None:
        if amount is None:
            self.unknown += 1
        else:
            self.sums[currency] = _EXACT.add(self.sums.get(currency, Decimal(0)), Decimal(amount))

    def add_all(self, recorded: Mapping[str, str] | None) -> None:
        """Add what `to_record` gave."""
        for currency, amount in (recorded or {}).items():
            if currency == UNKNOWN:
                self.unknown += int(amount)
            else:
                self.add(amount, currency)

    def to_record(self) -> dict[str, str]:
        """Currency → sum, as text; see `UNKNOWN`."""
        found = {currency: written(amount) for currency, amount in sorted(self.sums.items())}
        return {**found, UNKNOWN: str(self.unknown)} if self.unknown else found

    def to_json(self) -> dict[str, Any]:
        """`{"USD": "0.48"}`; the costs of unknown amount have a key of their own beside it."""
        return {currency: written(amount) for currency, amount in sorted(self.sums.items())}

    def text(self) -> str:
        """`$0.48`, `$0.48 + €1.20`, `$0.48 and 2 of unknown amount`; empty if there is nothing."""
        return _joined(" + ".join(shown(amount, currency) for currency, amount in sorted(self.sums.items())), self)


def _joined(sums: str, totals: Totals) -> str:
    unknown = f"{totals.unknown} of unknown amount" if totals.unknown else ""
    return " and ".join(filter(None, (sums, unknown)))


def totals_of(records: Iterable[Mapping[str, str] | None]) -> Totals:
    totals = Totals()
    for record in records:
        totals.add_all(record)
    return totals


def shown(amount: Decimal, currency: str) -> str:
    """For people: `$0.48`, `$0.00031`, `12.50 CHF`. Never rounded: what is shown adds up."""
    text = f"{amount:.2f}" if amount == amount.quantize(_CENT, context=_EXACT) else written(amount)
    sign = _SIGNS.get(currency)
    return f"{sign}{text}" if sign is not None else f"{text} {currency}"
