"""The examples of `whyrun init --example`: each a module with its files, which `EXAMPLES` names.

They run at once in an empty folder, without network. Start with `wildcard`.
"""

EXAMPLES = {  # by name: what it shows
    "wildcard": "one job a sample: files named by a pattern, a sample sheet, a report",
    "media": "a script decides segments; an imported workflow makes a picture and a voice of each",
    "study": "files at computed paths, networks and seeds, fan-ins that know who is who",
}
