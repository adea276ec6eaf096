"""References to elements of arrays that jobs make: `jobs.Split.outputs.Parts[:]`, `Parts[sample, "part-01"]`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from whyrun.workflow.model import At, Loop, Selector

# (the number of the selector, or None for the output's name; code; message; hint)
Problem = tuple[int | None, str, str, str]


def element_problem(
    loops: Sequence[str] | None, job: str, output: str, selectors: Sequence[Selector]
) -> Problem | None:
    """What is wrong with the selectors of an array: it takes the indices of its job's loops, and one of an element.

    `loops`: None where they are not known.
    """
    if loops is None:
        return None
    listed = ", ".join(loops)
    if len(selectors) != len(loops) + 1:
        runs = f", which runs for [{listed}]," if loops else ""
        needed = "one selector" if not loops else f"{len(loops) + 1} selectors"
        message = f"the output `{output}` of job `{job}`{runs} is an array: it needs {needed}"
        head = f"{output}[{listed}, " if loops else f"{output}["
        hint = f'write `{head}:]` for all its elements, `{head}"key"]` for one'
        return (len(loops) + 1 if len(selectors) > len(loops) + 1 else None), "LOOP_MISMATCH", message, hint
    last, number = selectors[-1], len(loops)
    if isinstance(last, Loop) and last.offset:
        message = f"`[{last}]`: the elements of `{output}` are known once it is made, so no neighbour is known now"
        return number, "EXPRESSION_FORBIDDEN", message, f"name one, `[{last.loop}]`, or take all, `[:]`"
    if isinstance(last, At) and (type(last.index) is float or (type(last.index) is int and last.index < 0)):
        message = f"`{last.index}` is no index of an element of `{output}`"
        return number, "INDEX_FORMAT_INVALID", message, "elements have keys, or positions that are counted from 0"
    return None
