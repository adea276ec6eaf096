"""What steps run in: Python environments made from locked packages, and containers.

In: a file that locks packages (`environment:` of a job). Out: the digest that counts in the fingerprint, and a folder
with a virtual environment, one for each digest, which `uv` makes before the first step that needs it. Start with
`locks` (what a file locks), then `making` (the folder) and `entering` (a step's process in it).

For `container:`: `images` (which content a name stands for), `engines` (command lines), `containers` (a step in one).
"""
