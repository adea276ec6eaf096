"""Answers about one project, as records and JSON: commands print them, the viewer shows them. Nothing is rendered here.

In: an opened project and canonical IDs. Out: facts, reasons, histories, differences.
Start with `show.py`.
"""
