"""One module per command. Each has a `command`, which `whyrun.cli.main` imports by name when it is called.

In: the options of the command. Out: the answer, printed, and an exit status. A command opens the project and asks
`whyrun.api` or another package. Start with `plan.py`. `explain`, `restore`, `show`
and `compare` share functions with `plan`, `adopt`, `why`, `history` and `run`.
"""
