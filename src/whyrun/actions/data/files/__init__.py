"""Readers, one for each file format without types of its own or with its own library: CSV, JSON, Excel, Stata.

In: a file. Out: a `Source`, a DuckDB relation with typed columns. `tables.py` chooses the reader and reads Parquet
itself. Start with `text_files.py`.
"""
