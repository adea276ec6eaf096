"""Whyrun's facts in the formats of other tools: pictures of the graph as SVG, Graphviz and Mermaid.

In: facts as JSON (`facts/`). Out: text. Nothing here opens a project or reads the log.
Start with `graph_pictures.py`.
"""
