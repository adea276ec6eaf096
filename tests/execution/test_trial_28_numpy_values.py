"""Scalars and arrays of numpy that an action returns are accepted where nothing is lost: training took hours."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worker_lab import Lab

from whyrun.execution.worker.outbox import as_json
from whyrun.json_values import plain_json, plain_scalar

EXACT = [
    (np.float32(0.1), 0.10000000149011612), (np.float16(0.5), 0.5), (np.float64(0.1), 0.1), (np.int64(-3), -3),
    (np.uint8(255), 255), (np.bool_(True), True), (np.str_("x"), "x"), (np.array(7), 7), (np.longdouble(0.25), 0.25),
]  # fmt: skip
LOSSY = [
    np.longdouble(1) / 3, np.complex128(1), np.datetime64("2026-01-02T03:04:05.000000006"), np.timedelta64(5, "ns"),
    np.bytes_(b"x"), Decimal("0.1"), datetime.date(2026, 1, 2), np.ma.masked,
]  # fmt: skip


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.backend.close()


@pytest.mark.parametrize(("value", "plain"), EXACT, ids=lambda value: f"{type(value).__name__}")
def test_a_scalar_becomes_exactly_its_number(value: Any, plain: Any) -> None:
    """Issue 17, number 28."""
    found = plain_scalar(value)
    assert (type(found), found) == (type(plain), plain)
    assert found == value


@pytest.mark.parametrize("value", LOSSY, ids=lambda value: f"{type(value).__name__}")
def test_what_would_lose_something_stays_as_it_is(value: Any) -> None:
    assert plain_scalar(value) is value
    assert plain_json({"a": [value]})["a"][0] is value


def test_arrays_are_lists_of_their_numbers() -> None:
    found = plain_json({"m": np.arange(4, dtype="uint8").reshape(2, 2), "v": (np.array([0.5], "float32"), None)})
    assert json.dumps(found) == '{"m": [[0, 1], [2, 3]], "v": [[0.5], null]}'
    dates = np.array(["2026-01-02"], dtype="datetime64[ns]")
    assert plain_json(dates) is dates, "its numbers are not what it means"


def test_an_action_returns_what_its_training_gave(lab: Lab) -> None:
    """Issue 17, number 28. It was refused after the training was done."""
    lab.file(
        "m.py",
        "import numpy as np\n"
        "def train(context):\n"
        "    loss = np.float32([0.5, 0.25])\n"
        "    context.task('EXECUTES', 'epoch', {'loss': loss[0]})\n"
        "    context.metric('loss', loss[1])\n"
        "    return {'best': loss.min(), 'epochs': np.int64(2), 'done': loss[1] < loss[0], 'name': np.str_('net'),\n"
        "            'report': {'loss': loss, 'best': {'at': loss.argmin(), 'value': loss.min()}}}\n"
        "def date(): return {'report': {'when': np.datetime64('2026-01-02')}}\n",
    )
    outputs = {"best": "number", "epochs": "integer", "done": "boolean", "name": "string", "report": "json"}
    word = lab.one(lab.call("m:train", outputs))
    assert word.error_type is None, word.error
    values = {output.key: output.value for output in word.outputs if output.type != "json"}
    assert values == {"best": 0.25, "epochs": 2, "done": True, "name": "net"}
    assert lab.bytes_of(word, "report") == b'{"best":{"at":1,"value":0.25},"loss":[0.5,0.25]}'
    error_type, message = lab.failure(lab.call("m:date", {"report": "json"}, step_id="Job:D"))
    assert error_type == "WrongOutputType"
    assert message.startswith("`report` cannot be written as JSON: `when` is a numpy.datetime64: give plain numbers")


def test_a_request_is_remembered_by_its_number() -> None:
    found = as_json("a remembered value", {"id": np.int64(7)}, exact=True)
    assert (found, type(found["id"])) == ({"id": 7}, int)
    with pytest.raises(ValueError, match="it holds a whole number of more than 63 bits"):
        as_json("a remembered value", {"id": np.uint64(2**64 - 1)}, exact=True)
