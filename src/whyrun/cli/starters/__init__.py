"""The examples of `whyrun init --example`, which run at once in an empty folder, without network.

In: nothing. Out: `EXAMPLES`, what each of them shows; the module of that name has its files by path.
Start with `wildcard`.
"""

EXAMPLES = {  # by name: what it shows
    "wildcard": "one job a sample: files named by a pattern, a sample sheet, a report",
    "media": "a script decides segments; an imported workflow makes a picture and a voice of each",
    "study": "files at computed paths, networks and seeds, fan-ins that know who is who",
}
