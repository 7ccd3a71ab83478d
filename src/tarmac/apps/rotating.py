"""A server's part in key rotations: it follows the records, updates its key files, and advances the stages.

Every process follows. One process per server checks every few seconds if the next stage can be entered; the first to
see it takes the step. If it is killed before, the next server to check takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from tarmac.api.status import ApiError
from tarmac.apps.clusterkeys import ClusterKeys
from tarmac.apps.layout import Layout
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.client.errors import BadKubeconfig
from tarmac.client.kubeconfig import load
from tarmac.server.security.certificates.issuing import KeyPair
from tarmac.server.security.certificates.pki import Pki, kubeconfig
from tarmac.server.security.keys.privatefiles import write_private
from tarmac.store.interface import StoreError

INTERVAL: Final = 2.0
_log = log("rotation")


class OwnKubeconfigs:
    """The administrator's and the controllers' kubeconfig of a server, rewritten when authorities change."""

    def __init__(self, layout: Layout, pki: Pki, url: str) -> None:
        self._layout = layout
        self._pki = pki
        self._url = url
        self._written = b""

    def write(self) -> None:
        """Write the files if the trusted authorities have changed. Raises OSError."""
        ca = self._pki.ca_file.read_bytes()
        if ca == self._written:
            return
        self._write(self._layout.kubeconfig, ca, self._pki.admin(), "kubernetes-admin")
        self._write(self._layout.controllers_kubeconfig, ca, self._pki.controllers(), "controllers")
        self._written = ca

    def _write(self, path: Path, ca: bytes, pair: KeyPair, user: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # At the start they name only this server; later the servers discovered since are kept.
        servers = _servers(path) if self._written else ()
        write_private(path, kubeconfig(list(dict.fromkeys([self._url, *servers])), ca, pair, user).encode())


async def keep_following(
    keys: ClusterKeys, clock: Clock, listen: Callable[[], None], write_kubeconfigs: Callable[[], None]
) -> NoReturn:
    """Keep the key files equal to the records, and record observed certificate users, until cancelled."""
    while True:
        await clock.sleep(INTERVAL)
        try:
            keys.follow()
            # In the same iteration, and first: a new authority may sign from now on, and the listener must accept its
            # certificates.
            listen()
            write_kubeconfigs()
            await keys.users.write()
        except (StoreError, OSError, ValueError) as error:  # retried at the next interval
            _log.warning("cluster keys cannot be followed, will retry", error=str(error))


async def keep_rotating(keys: ClusterKeys, clock: Clock) -> NoReturn:
    """Take the steps that are due, until cancelled."""
    while True:
        await clock.sleep(INTERVAL)
        for rotation in (each for each in keys.rotations if each.stored.begun):
            try:
                await rotation.advance()
            except (ApiError, StoreError, OSError, ValueError) as error:
                _log.warning("key rotation step failed, will retry", what=rotation.kind, error=str(error))


def _servers(path: Path) -> Sequence[str]:
    try:
        return load(str(path)).http.servers
    except (OSError, BadKubeconfig):
        return ()
