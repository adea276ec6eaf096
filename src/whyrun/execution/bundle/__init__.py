"""The bundle: the project's code and Whyrun itself as one hashed archive, for workers without the host's files.

In: the opened project and the values of secrets. Out: the archive. `bundle.py` chooses the files and packs them,
and `unpack.py` unpacks them on another machine. Start with `bundle.py`.
"""
