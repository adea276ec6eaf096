"""MODEL + INPUTS → GRAPH: every job instance, what it consumes and where it publishes. Pure.

In: the parsed workflow and the observed inputs. Out: `tables.Graph`, one table per job with a column per slot, so that
100,000 instances cost a few columns. All problems are collected and reported together.
Start with `tables` (the data), then `expand` (how it is made) and `resolve` (how references become sources).
`publishing` finds conflicts of output paths, `problems` what else is wrong.
"""
