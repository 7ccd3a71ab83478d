"""Keeping the servers that a kubeconfig of ours names up to date, so that the next start knows them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from tarmac.agent.node.rotatingtransport import RotatingTransport
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import BadKubeconfig
from tarmac.client.http import HttpConfig
from tarmac.client.kubeconfig import ServerContext, with_servers
from tarmac.client.serverlist import EVERY, follow_servers
from tarmac.server.security.files import write_private

_log = log("tarmac")


def name_servers(file: Path, urls: Sequence[str]) -> None:
    """Have a kubeconfig name these. One that cannot be written says so in the log, and stays as it is."""
    try:
        write_private(file, with_servers(file.read_text(), urls).encode())
    except (OSError, BadKubeconfig) as error:
        _log.warning("the servers are not noted", kubeconfig=str(file), error=str(error))


async def follow_in(files: Sequence[Path], client: Client, first: str) -> NoReturn:
    """Of a server: its own kubeconfigs name the others as well, until cancelled."""

    def use(urls: list[str]) -> None:
        for file in files:
            name_servers(file, urls)

    await follow_servers(client, first, [first], use)


async def follow_all(client: Client, transport: RotatingTransport, connection: ServerContext) -> None:
    """Of a process that lives as long as its cluster: know every server, if the kubeconfig is one that names them."""
    file = connection.file
    if file is None:
        return

    def use(urls: list[str]) -> None:
        transport.use(urls)
        name_servers(file, urls)

    await follow_servers(client, connection.http.url, connection.http.servers, use)


async def follow_credentials(again: Callable[[], HttpConfig], transport: RotatingTransport, clock: Clock) -> NoReturn:
    """Of such a process: be who its kubeconfig says, also when a server has written it anew; until cancelled."""
    while True:
        await clock.sleep(EVERY)
        try:
            found = again()
        except (OSError, BadKubeconfig) as error:
            _log.warning("the kubeconfig cannot be read again", error=str(error))
            continue
        known = transport.config
        if (found.ca, found.certificate, found.key) != (known.ca, known.certificate, known.key):
            transport.replace(replace(known, ca=found.ca, certificate=found.certificate, key=found.key))
            _log.info("the kubeconfig has other credentials")
