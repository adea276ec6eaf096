"""Results that several projects or machines share through one store.

In: fingerprints of a plan or a run, and new results. Out: results of others, and uploads in the background.
`background_calls` makes slow calls in threads. Start with `sharing`; `run/shared_results` connects it to a run.
"""
