"""Who may use a Dask cluster: certificates for those that a run starts, and checks for those that it reaches.

Without TLS, every user who reaches a port of a scheduler, worker or nanny can run code as the user of the run.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from whyrun.errors import error

SLURM = "slurm"  # instead of an address
ENCRYPTED = "tls://"

# The certificates of a client: their names in Dask's configuration, and the variables that set them.
_CERTIFICATES = {
    "distributed.comm.tls.ca-file": "DASK_DISTRIBUTED__COMM__TLS__CA_FILE",
    "distributed.comm.tls.client.cert": "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT",
    "distributed.comm.tls.client.key": "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY",
}


def own_security() -> Any:
    """Certificates for one cluster, made now and kept in memory."""
    from distributed.security import Security

    made: Any = Security
    return made.temporary()


def check_certificates(address: str) -> None:
    """Check, before anything runs, that there are certificates for a scheduler that wants them."""
    import dask

    if not address.startswith(ENCRYPTED):
        return
    missing = [variable for name, variable in _CERTIFICATES.items() if not dask.config.get(name, None)]
    if missing:
        where = "or give them in Dask's configuration, `distributed.comm.tls`"
        hint = f"set {', '.join(missing)} to the paths of the files, {where}"
        raise error("BACKEND_UNAVAILABLE", f"there are no certificates for {address}", hint=hint)


def unprotected(address: str | None) -> str | None:
    """A warning for a scheduler that is reached without encryption through a network; else None."""
    if address is None or address == SLURM or address.startswith(ENCRYPTED):
        return None
    host = address.partition("://")[2] or address
    host = host.rpartition(":")[0].strip("[]") or host
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        is_loopback = host == "localhost"
    if is_loopback:
        return None
    return (
        f"the connection to the Dask scheduler {address} is not encrypted: whoever reaches its port can run code there "
        "and read what steps receive; start it with TLS certificates and use `tls://`"
    )
