"""`whyrun compare`: execute jobs again on recorded inputs, and report how the results differ.

In: recorded results and the present code. Out: a run of mode `compare`, and a `CompareResult`.
`preview` chooses the jobs and shows what would happen; `compare` executes them. Start with `compare`.
"""
