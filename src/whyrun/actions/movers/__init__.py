"""Actions that move rows: out of and into databases, through DuckDB, between CSV and Parquet.

In: a connection with a query or table, or a file. Out: a dataset or a loaded table.
They read rows in batches, so that memory never holds all of them, and count them where they are read and written
(`rows_read`, `rows_written`). No message contains a password. Start with `extracting.py`.
"""
