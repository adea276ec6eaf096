"""`python foreign_client.py ADDRESS`: tries to run code on somebody else's Dask cluster, as another user.

It prints `ran as UID` if the cluster executed it, else `refused` and why.
"""

from __future__ import annotations

import os
import socket
import sys

import distributed
from distributed.security import Security

NOBODY = 65534


def attempt(address: str, security: Security | None) -> str:
    try:
        with distributed.Client(address, security=security, timeout=3, set_as_default=False) as client:
            return f"ran as {client.submit(os.getuid, pure=False).result(timeout=30)}"
    except (OSError, TimeoutError, ValueError) as problem:
        return f"refused {type(problem).__name__}"


def main(address: str) -> None:
    plain = address.replace("tls://", "tcp://")
    encrypted = address.replace("tcp://", "tls://")
    own = Security.temporary()  # type: ignore[no-untyped-call]  # certificates of somebody else
    socket.getaddrinfo("127.0.0.1", 1)  # what is loaded late must be loaded before Python's own files are out of reach
    attempt("tcp://127.0.0.1:1", None)
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    for found in (attempt(plain, None), attempt(encrypted, own)):
        print(found)


if __name__ == "__main__":
    main(sys.argv[1])
