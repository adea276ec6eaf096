"""One module per command. Each has a `command`, which `whyrun.cli.main` imports by name when it is called.

A command opens the project, asks `whyrun.api` or another package, and prints the answer. `explain`, `restore`, `show`
and `compare` share functions with `plan`, `adopt`, `why`, `history` and `run`.
"""
