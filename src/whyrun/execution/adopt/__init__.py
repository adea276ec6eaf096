"""`whyrun adopt` and `whyrun restore`: make a version chosen by the user the current one of an artifact.

In: an artifact ID and a file, or an earlier run. Out: a run of mode `adopt`, and an `Adoption`.
`adoptable` checks whether the artifact can be adopted. Start with `adopt`.
"""
