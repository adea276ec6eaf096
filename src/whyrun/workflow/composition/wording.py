"""Rewrites messages and hints about jobs for dataset plans, which have `params` and not `with:`.

The hints of actions and of the graph show how to write a job in a workflow file. The author of a plan may not know
workflow files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from whyrun.errors import Diagnostic
from whyrun.workflow.model import ROLES

_REFERENCE = '"input:<dataset_key>"'


def _add_parameter(match: re.Match[str]) -> str:
    if match[1] in ROLES:
        return f'add `"{match[1]}": {_REFERENCE}` to `input_bindings`'
    return f'add `"{match[1]}"` to `params`'


_REPLACEMENTS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"add `([\w-]+):` to `with:`", _add_parameter),
        (
            r"declare an input of type `[^`]+` and write `([\w-]+): \$\{\{ inputs\.Name \}\}`",
            rf'bind it in `input_bindings`: `"\1": {_REFERENCE}`',
        ),
        (r"`([\w-]+): \$\{\{ … \}\}`", rf'`"\1": {_REFERENCE}`'),
        (r"`with:`", "`params`"),
        (r"`uses:`", "`template_id`"),
        (r"correct `([A-Za-z_][\w-]*):`", r'correct `"\1"`'),
        (r'`call: "module:function"` or `script: file\.py`', '`"call": "module:function"` or `"script": "file.py"`'),
        (r"set `append: true` for every output that shares the file, or give them", "give the products"),
        (r"; or let all of them share the file: `append: true`", ""),
        (
            r"bind a list, or `products: \{label: …\}`",
            'bind a list: `"primary_dataset": ["prod:a:fit", "prod:b:fit"]`, with `labels` where step ids will not do',
        ),
        (r"give each output a path of its own", "give each product a `path` of its own"),
    )
)


def in_words_of_plans(problem: Diagnostic) -> Diagnostic:
    hint = None if problem.hint is None else _reworded(problem.hint)
    return replace(problem, message=_reworded(problem.message), hint=hint)


def _reworded(text: str) -> str:
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    return text
