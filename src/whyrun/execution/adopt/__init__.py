"""Decisions of the user about results: `whyrun adopt` and `whyrun restore` make a chosen version the current one of an
artifact; `whyrun keep` lets results stand after a harmless change.

In: an artifact ID and a file, or an earlier run; or the jobs to keep. Out: a small run that executes nothing
(in `keep`), and an `Adoption` or a `KeepResult`. `adoptable` checks whether an artifact can be adopted. Start with
`adopt` or `keep`.
"""
