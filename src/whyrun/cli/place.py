"""`--backend` and what belongs to it, for the commands that execute steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from whyrun.execution.backends import NAMES


def place_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options where steps execute; they reach the command as `backend` and `dask_address`."""
    address = click.option(
        "--dask-address", metavar="URL", help="With `--backend dask`: a scheduler that runs already, or `slurm`."
    )
    backend = click.option(
        "--backend", type=click.Choice(NAMES), default="local", help="Where steps execute.", show_default=True
    )
    return backend(address(function))
