"""`postgres/extract` and `postgres/load`: rows out of PostgreSQL, and into it.

`client.py` talks to the server. `extract.py` reads (types: `result_columns.py`); `load.py` writes (types:
`conversions.py`, the target: `table.py`). Start with `extract.py`.
"""
