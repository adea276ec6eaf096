"""The data actions: tables read, checked, joined, stacked and written by DuckDB, with every number on record.

DuckDB and the readers are imported only where a step runs; the host knows these actions by their parameters alone.
"""
