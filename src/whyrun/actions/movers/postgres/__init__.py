"""`postgres/extract` and `postgres/load`: rows out of PostgreSQL, and into it.

In: a connection with a query, table or dataset. Out: a dataset, or the loaded table, with the counts of rows.
`client.py` talks to the server and converts types. `extract.py` reads; `load.py` writes. Start with `extract.py`.
"""
