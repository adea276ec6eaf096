"""The command line.

In: arguments. Out: text or JSON on stdout, notes and errors on stderr, and an exit status. `entry` is what is installed
as `whyrun`; it calls `main`, which has the table of commands and turns errors into exit statuses. `options` has the
options that commands share, `output` the functions that print, `subjects` finds what an ID names. `commands` has one
module per command.

Start with `main`, then the module of a command.
"""
