"""The export formats, one module each, with `render(subject) -> Rendered`; the table of them is `exports/registry.py`.

In: a subject (`exports/record.py`), whose record of a run is cleaned of what must not leave the machine. Out: bytes,
or a folder of files. All of them are pure. Start with `markdown.py`, then `openlineage.py`.
"""
