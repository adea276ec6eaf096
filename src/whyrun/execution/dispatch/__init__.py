"""From a step that may start to the command at the backend.

In: what the step consumes and its fingerprint. Out: its cfg, its command and its secrets, submitted to the backend.
`reusable_results` finds earlier results, `code_guard` detects edited code, `run_secrets` resolves secrets.
Start with `dispatch`.
"""
