"""What is said of a job, in the words of a dataset plan: it has `params` where a workflow file has `with:`.

Actions and the graph know one way to write a job, and their hints show it. Whoever wrote a plan has never seen it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from whyrun.errors import Diagnostic
from whyrun.workflow.composition.model import ROLES

_REFERENCE = '"input:<dataset_key>"'


def _added(found: re.Match[str]) -> str:
    if found[1] in ROLES:
        return f'add `"{found[1]}": {_REFERENCE}` to `input_bindings`'
    return f'add `"{found[1]}"` to `params`'


_WORDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"add `([\w-]+):` to `with:`", _added),
        (
            r"declare an input of type `[^`]+` and write `([\w-]+): \$\{\{ inputs\.Name \}\}`",
            rf'bind it in `input_bindings`: `"\1": {_REFERENCE}`',
        ),
        (r"`([\w-]+): \$\{\{ … \}\}`", rf'`"\1": {_REFERENCE}`'),
        (r"`with:`", "`params`"),
        (r"`uses:`", "`template_id`"),
        (r"correct `([A-Za-z_][\w-]*):`", r'correct `"\1"`'),
        (r'`call: "module:function"` or `script: file\.py`', '`"call": "module:function"` or `"script": "file.py"`'),
        (r"say `append: true` for every output that shares the file, or give them", "give the products"),
        (r"; or let all of them share the file: `append: true`", ""),
        (
            r"bind a list, or `products: \{label: …\}`",
            'bind a list: `"primary_dataset": ["prod:a:fit", "prod:b:fit"]`, with `labels` where step ids will not do',
        ),
        (r"give each output a path of its own", "give each product a `path` of its own"),
    )
)


def in_words_of_plans(told: Diagnostic) -> Diagnostic:
    return replace(told, message=_said(told.message), hint=None if told.hint is None else _said(told.hint))


def _said(text: str) -> str:
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text
