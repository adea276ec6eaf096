"""What planning learns from actions: their code, parameters, connections, output hooks and runtime estimates.

In: the graph, and an inspector that runs code of actions in another process. Out: facts, answers and diagnostics.
Start with `lookup` (the action of a job), then `parameter_checks` and `output_hooks`.
`known_inputs` also has the runtime estimates.
"""
