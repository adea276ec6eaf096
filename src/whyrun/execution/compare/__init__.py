"""`whyrun compare`: execute jobs again on recorded inputs, and report how the results differ.

In: recorded results and the present code. Out: a run of mode `compare`, and a `CompareResult`.
`comparable` chooses the jobs, `preview` shows what would happen, `runner` executes. Start with `compare`.
"""
