"""What is wrong with a workflow beyond what stops its expansion. Pure.

In: the workflow, its inputs and its graph. Out: diagnostics.
Start with `partial`, the part of an invalid workflow that can be expanded; `composition` checks how datasets fit.
"""
