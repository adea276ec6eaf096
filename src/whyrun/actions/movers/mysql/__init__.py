"""`mysql/extract`: reads rows of MySQL or MariaDB.

In: a connection and a query or table. Out: a dataset. `client.py` talks to the server and maps its types; `extract.py`
is the action. Start with `extract.py`.
"""
