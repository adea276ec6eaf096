"""The expressions inside `${{ … }}`.

In: the text of an expression, and the names that it may use (`workflow.scope`). Out: `model.Expression` with its
references and a compiled body, or diagnostics; later, its value.
Start with `expression.py`, which holds the list of allowed syntax; `functions` has the operators and functions.
"""
