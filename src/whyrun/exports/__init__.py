"""Whyrun's facts in the formats of other tools: pictures of the graph, and runs as test results, traces and lineage.

In: facts as JSON (`facts/`), and the logs of runs (`reading.py`), each folded to a record (`record.py`). `texts.py`
removes what must not leave the machine; `registry.py` is the table of formats. Out: text, bytes or a folder.
Start with `record.py`.
"""
