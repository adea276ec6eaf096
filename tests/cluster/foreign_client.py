"""`python foreign_client.py WAY://HOST:PORT…`: tries, as another user, to use somebody else's Dask cluster.

The ways are `tcp`, `tls` (with certificates of its own) and `http`. For each it prints a line: `refused` and why, or
what it got: the user as whom its code ran, the answer of a worker or nanny, or the pages that tell something.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import sys
import urllib.error
import urllib.request

import distributed
from distributed.core import rpc
from distributed.security import Security

NOBODY = 65534
# Another program may have taken the port meanwhile: Dask takes its greeting for the length of a message.
REFUSALS = (OSError, TimeoutError, ValueError, EOFError, MemoryError)
PAGES = ("info/main/workers.html", "info/main/logs.html", "json/counts.json", "json/identity.json", "status", "metrics")


def run_code(address: str, security: Security | None, seconds: float) -> str:
    try:
        with distributed.Client(address, security=security, timeout=seconds, set_as_default=False) as client:
            return f"ran as {client.submit(os.getuid, pure=False).result(timeout=seconds)}"
    except REFUSALS as problem:
        return f"refused {type(problem).__name__}"


async def ask(address: str, security: Security | None, seconds: float) -> str:
    """The answer of a scheduler, worker or nanny: who gets one can also let a worker run code."""
    arguments = {} if security is None else security.get_connection_args("client")  # type: ignore[no-untyped-call]
    peer = rpc(address, connection_args=arguments, timeout=seconds)  # type: ignore[no-untyped-call]
    try:
        return f"answered {(await asyncio.wait_for(peer.identity(), seconds))['type']}"
    except REFUSALS as problem:
        return f"refused {type(problem).__name__}"
    finally:
        await peer.close_rpc()


async def attempt(address: str, own: Security, seconds: float) -> str:
    if address.startswith("http"):
        return await asyncio.to_thread(pages, address, seconds)
    security = own if address.startswith("tls") else None
    answer = await ask(address, security, seconds)
    return await asyncio.to_thread(run_code, address, security, seconds) if answer == "answered Scheduler" else answer


async def attempts(addresses: list[str], own: Security, seconds: float) -> None:
    for address, got in zip(
        addresses, await asyncio.gather(*(attempt(address, own, seconds) for address in addresses)), strict=True
    ):
        print(address, got)


def pages(address: str, seconds: float) -> str:
    """The pages of Dask's HTTP server that are there."""
    found = []
    for page in PAGES:
        try:
            with urllib.request.urlopen(f"{address}/{page}", timeout=seconds):
                found.append(page)
        except urllib.error.HTTPError:
            continue
        except (OSError, http.client.HTTPException) as problem:
            return f"refused {type(problem).__name__}"
    return f"read {' '.join(found)}" if found else "refused: no page"


def main(seconds: str, *addresses: str) -> None:
    own = Security.temporary()  # type: ignore[no-untyped-call]  # certificates of somebody else
    socket.getaddrinfo("127.0.0.1", 1)  # what is loaded late must be loaded before Python's own files are out of reach
    run_code("tcp://127.0.0.1:1", None, 3)
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    asyncio.run(attempts([*addresses], own, float(seconds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
