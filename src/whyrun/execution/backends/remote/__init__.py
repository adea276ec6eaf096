"""Everything that backends have in common whose workers share no folder with the host.

In: commands, and a `Transport` for each worker. Out: messages of workers, and their files on the host.
`threaded.py` is the backend: one thread for each worker. `remote_worker.py` executes one step after the other through
a `Transport`. `site.py` defines the folders at the other side and what is sent and fetched. `process.py` is a transport
for a process on this machine, and `setup.py` prepares a bare machine. Start with `remote_worker.py`.
"""
