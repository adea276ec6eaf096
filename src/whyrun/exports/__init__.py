"""Whyrun's facts in the formats of other tools: pictures of the graph, and runs as test results, traces and lineage.

In: facts as JSON (`facts/`), and the log of a run, read once by `record.py`. Out: text or bytes, one module a format.
`formats.py` is the table of the formats; `texts.py` removes what must not leave the machine. Start with `record.py`.
"""
