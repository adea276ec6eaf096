"""The viewer and the report: what the log knows, as JSON views for the page, live from a server or in one file.

In: an opened project. Out: views (JSON), bytes of artifacts, HTML pages. Nothing is decided here, and
nothing is written except the report. `frontend/DATA.md` describes every view.
Start with `views.py`.
"""
