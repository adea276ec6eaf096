"""Answers about a plan, for people and programs. Nothing here decides what runs.

In: a `Plan`, often with its snapshot. Out: text lines and JSON objects that the command line prints.
Start with `explain` (every reason of every job). `why` follows reasons to their causes, `trace` shows how one verdict
was reached, `whatif` assumes other inputs, `listing` chooses the jobs to show, `plan_diff` compares two plans.
"""
