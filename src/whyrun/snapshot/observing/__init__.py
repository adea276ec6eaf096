"""The disk as planning sees it: inputs, published files, stored bytes, links and reserved paths.

In: the given input values and the recorded hashes. Out: hashed inputs, and only what differs from the log.
Start with `observe`, which reads the inputs (`computed`: those of many files, or with one object a row), and `disk`,
which looks for artifacts; `paths` resolves links, and lists the paths that no output may be published to.
"""
