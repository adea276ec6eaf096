"""The data actions: they read, check, join, stack and write tables with DuckDB, and record every count.

In: files of tables and the parameters of a job. Out: one written dataset, and a report with its counts.
`tables.py` opens a file of any format (`files/`) as a DuckDB relation; `output.py` writes the result. Start with
`append.py` for a small action, `joining/` for merges and stacks. Only steps import DuckDB and the readers; the host
needs only the parameters.
"""
