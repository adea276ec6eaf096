"""`postgres/extract` and `postgres/load`: rows out of PostgreSQL, and into it.

`client.py` talks to the server. `extract.py` reads; `load.py` writes (types: `conversions.py`). Start with
`extract.py`.
"""
