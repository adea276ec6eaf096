"""Runs workers on a Dask cluster: local, remote, or as SLURM jobs.

In: commands of the host. Out: messages and outputs of workers that share no folder with it.
On the host: `backend.py` (the backend), `cluster.py` (the connection), `watch.py` (silent workers), `tasks.py` (what
was sent), `payload.py` (files), `slurm.py` (SLURM jobs, and who may use a cluster). On the Dask workers: `boot.py`
unpacks the bundle, and `site.py` executes steps with the local backend. Start with `backend.py`.
"""
