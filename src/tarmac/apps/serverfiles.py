"""Updates the server lists in kubeconfigs of this host, so that the next start knows all servers."""

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
from tarmac.client.serverlist import POLL_INTERVAL, follow_servers
from tarmac.server.security.keys.privatefiles import write_private

_log = log("tarmac")


def name_servers(file: Path, urls: Sequence[str]) -> None:
    """Write these servers into a kubeconfig. A failure is logged and leaves the file unchanged."""
    try:
        write_private(file, with_servers(file.read_text(), urls).encode())
    except (OSError, BadKubeconfig) as error:
        _log.warning("server list cannot be written", kubeconfig=str(file), error=str(error))


async def follow_in(files: Sequence[Path], client: Client, first: str) -> NoReturn:
    """Keep a server's own kubeconfigs up to date with all servers, until cancelled."""

    def use(urls: list[str]) -> None:
        for file in files:
            name_servers(file, urls)

    await follow_servers(client, first, [first], use)


async def follow_all(client: Client, transport: RotatingTransport, connection: ServerContext) -> None:
    """Keep a long-running process and its kubeconfig up to date with all servers, if it was read from a file."""
    file = connection.file
    if file is None:
        return

    def use(urls: list[str]) -> None:
        transport.use(urls)
        name_servers(file, urls)

    await follow_servers(client, connection.http.url, connection.http.servers, use)


async def follow_credentials(again: Callable[[], HttpConfig], transport: RotatingTransport, clock: Clock) -> NoReturn:
    """Reload credentials when the kubeconfig has been rewritten, until cancelled."""
    while True:
        await clock.sleep(POLL_INTERVAL)
        try:
            found = again()
        except (OSError, BadKubeconfig) as error:
            _log.warning("kubeconfig cannot be reloaded, will retry", error=str(error))
            continue
        known = transport.config
        if (found.ca, found.certificate, found.key) != (known.ca, known.certificate, known.key):
            transport.replace(replace(known, ca=found.ca, certificate=found.certificate, key=found.key))
            _log.info("kubeconfig credentials reloaded")
