"""From commands to a workflow: `whyrun init --from`.

In: commands, as a person types them. Out: a workflow file with what they read and write, and a first run in the log,
because they have just run. Start with `tracing`, then `workflow_text`, then `made_already`.
"""
