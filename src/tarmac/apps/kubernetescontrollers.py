"""`tarmac kubernetes-controllers`: stock kube-controller-manager for a Tarmac server, on any host.

It checks the server and the chosen controllers, and then becomes the program: the supervisor of the command is the
supervisor of the program, and a kill leaves nothing behind. Several processes are safe: one leads, by its Lease.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from tarmac.api.status import ApiError
from tarmac.apps.stockcontrollers.supervisor import (
    NOT_OFFERED,
    OWN,
    RUN,
    controller_arguments,
    find_stock_controllers,
)
from tarmac.base.stderr import print_error
from tarmac.client.client import Client
from tarmac.client.discovery import serves
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import POD_ENDPOINTS
from tarmac.runtimes.parts import PartMissing


class WrongCombination(ValueError):
    """These controllers must not run at this server."""


def main(options: argparse.Namespace) -> int:
    """Become the program; return 1 if the start failed, 2 for controllers that never run there."""
    try:
        chosen = choose(options.controllers)
        program, kubeconfig = find_stock_controllers(), _kubeconfig(options.kubeconfig)
        asyncio.run(_check(kubeconfig))
        print(f"tarmac kubernetes-controllers starts {program}", flush=True)
        os.execv(program, [str(program), *controller_arguments(kubeconfig, chosen)])
    except WrongCombination as error:
        print_error(error)
        return 2
    except (PartMissing, OSError, ValueError, ClientError, ApiError) as error:
        print_error(error)
        return 1


def choose(names: Sequence[str]) -> frozenset[str]:
    """Return the controllers to run; all that may by default. Raises WrongCombination."""
    for name in names:
        if name in OWN:
            raise WrongCombination(
                f"--controllers: {name} never runs there: Tarmac's own controller {OWN[name]} does its work, and the "
                f"two would write against each other; choose from {', '.join(sorted(RUN))}"
            )
        if name not in RUN:
            known = "its kind is not served" if name in NOT_OFFERED else "there is none of this name"
            raise WrongCombination(f"--controllers: {name}: {known}; choose from {', '.join(sorted(RUN))}")
    return frozenset(names) or RUN


def _kubeconfig(given: str | None) -> Path:
    # the program reads one file, and no variable
    named = given or os.environ.get("KUBECONFIG", "")
    if not named or os.pathsep in named:
        raise ValueError("--kubeconfig: needed, since KUBECONFIG does not name one file")
    return Path(named).absolute()


async def _check(kubeconfig: Path) -> None:
    """Check that the server is Tarmac's. Raises WrongCombination, ClientError, ApiError."""
    connection = load(str(kubeconfig), None)
    client = Client(HttpTransport(connection.http))
    try:
        ours = await serves(client, POD_ENDPOINTS)  # only Tarmac's own server has this resource
    finally:
        await client.close()
    if not ours:
        raise WrongCombination(
            f"{connection.http.url} is not Tarmac's server: other controllers than these are missing there; run that "
            "cluster's own kube-controller-manager"
        )
