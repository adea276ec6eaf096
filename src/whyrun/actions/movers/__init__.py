"""Actions that move rows: out of MySQL and PostgreSQL, into PostgreSQL, through DuckDB, between CSV and Parquet.

Rows go by in batches and never lie in memory all at once. What is counted (`rows_read`, `rows_written`) is counted
where it happens. No password is in any message.
"""
