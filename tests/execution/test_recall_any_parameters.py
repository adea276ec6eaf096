"""`context.recall(key, any_parameters=True)`: what attempts with other parameters remembered, until they succeed."""

from __future__ import annotations

import json
from collections.abc import Callable

from project_lab import Lab

Make = Callable[..., Lab]

CODE = """\
import json

def ask(context, remember=None, forget=(), fails=False, **other):
    keys = ("a", "b")
    found = {key: [context.recall(key), context.recall(key, any_parameters=True)] for key in keys}
    for key, value in (remember or {}).items():
        context.remember(key, value)
    for key in forget:
        context.remember(key, None)
    now = {key: [context.recall(key), context.recall(key, any_parameters=True)] for key in keys}
    message = json.dumps([found, now])
    if fails:
        raise ValueError(message)
    return {"Found": message}
"""


def flow(**with_: object) -> str:
    job = {"uses": "python", "with": {"call": "asking:ask", **with_}, "outputs": {"Found": {"type": "string"}}}
    return json.dumps({"workflow": "w", "jobs": {"Ask": job}})


def found(lab: Lab, workflow: str, **options: object) -> list[dict[str, list[object]]]:
    """What the attempt found for each key, strictly and with any parameters: at its beginning, and at its end."""
    lab.write({"workflow.yaml": workflow})
    ran = lab.run(**options)
    record = lab.snapshot().record(0)
    assert record is not None
    assert ran.starts == [("Job:Ask", 1)]
    text = lab.content("Artifact:Ask.Found") if record.latest.ok else record.latest.error
    return list(json.loads(text))


NOTHING: list[object] = [None, None]


def test_the_latest_under_a_key_is_found_whoever_remembered_it(project: Make) -> None:
    lab = project(flow(), {"asking.py": CODE})
    assert found(lab, flow(n=1, fails=True, remember={"a": 1, "b": 1})) == [
        {"a": NOTHING, "b": NOTHING},
        {"a": [1, 1], "b": [1, 1]},
    ]
    second = flow(n=2, fails=True, remember={"a": 2})
    assert found(lab, second) == [{"a": [None, 1], "b": [None, 1]}, {"a": [2, 2], "b": [None, 1]}]
    assert found(lab, second)[0] == {"a": [2, 2], "b": [None, 1]}
    # Back to the first: its own is what the strict one finds, and that of the second is later.
    assert found(lab, flow(n=1, fails=True, remember={"a": 1, "b": 1}))[0] == {"a": [1, 2], "b": [1, 1]}


def test_what_was_forgotten_is_forgotten_for_all(project: Make) -> None:
    lab = project(flow(), {"asking.py": CODE})
    found(lab, flow(n=1, fails=True, remember={"a": 1, "b": 1}))
    assert found(lab, flow(n=2, fails=True, forget=["a"])) == [
        {"a": [None, 1], "b": [None, 1]},
        {"a": NOTHING, "b": [None, 1]},
    ]
    assert found(lab, flow(n=3, fails=True))[0] == {"a": NOTHING, "b": [None, 1]}


def test_success_ends_what_its_own_parameters_remembered_and_nothing_else(project: Make) -> None:
    lab = project(flow(), {"asking.py": CODE})
    found(lab, flow(n=1, fails=True, remember={"a": 1, "b": 1}))
    found(lab, flow(n=2, remember={"a": 2}))
    assert found(lab, flow(n=3, fails=True))[0] == {"a": NOTHING, "b": [None, 1]}
    assert found(lab, flow(n=1, fails=True, remember={"a": 1, "b": 1}))[0] == {"a": [1, 1], "b": [1, 1]}


def test_a_forced_step_finds_nothing(project: Make) -> None:
    lab = project(flow(), {"asking.py": CODE})
    found(lab, flow(n=1, fails=True, remember={"a": 1}))
    assert found(lab, flow(n=2, fails=True), force=["Job:Ask"])[0] == {"a": NOTHING, "b": NOTHING}
