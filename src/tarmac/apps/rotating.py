"""A server's part in rotations of keys: it follows the records, keeps its files as copies, and takes steps.

Every process follows. For each server one looks every few seconds whether the next stage can be entered; whichever
sees it first takes the step, and one that is killed before is replaced by the next to look.
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
from tarmac.server.security.certificates import KeyPair
from tarmac.server.security.files import write_private
from tarmac.server.security.pki import Pki, kubeconfig
from tarmac.store.interface import StoreError

EVERY: Final = 2.0
_log = log("rotation")


class OwnKubeconfigs:
    """The administrator's and the controllers' kubeconfig of a server, written anew when authorities change."""

    def __init__(self, layout: Layout, pki: Pki, url: str) -> None:
        self._layout = layout
        self._pki = pki
        self._url = url
        self._written = b""

    def write(self) -> None:
        """If they are of other authorities than those that are trusted now. Raises OSError."""
        ca = self._pki.ca_file.read_bytes()
        if ca == self._written:
            return
        self._write(self._layout.kubeconfig, ca, self._pki.admin(), "kubernetes-admin")
        self._write(self._layout.controllers_kubeconfig, ca, self._pki.controllers(), "controllers")
        self._written = ca

    def _write(self, path: Path, ca: bytes, pair: KeyPair, user: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # At the start they name this server alone; later the others that were found since stay.
        servers = _servers(path) if self._written else ()
        write_private(path, kubeconfig(list(dict.fromkeys([self._url, *servers])), ca, pair, user).encode())


async def keep_following(
    keys: ClusterKeys, clock: Clock, listen: Callable[[], None], write_kubeconfigs: Callable[[], None]
) -> NoReturn:
    """Have the files as the records say, and tell others whom this process has seen, until cancelled."""
    while True:
        await clock.sleep(EVERY)
        try:
            keys.follow()
            # In the same turn, and first: the files may have a new authority sign from now on, and whoever comes with
            # a certificate of it is to be let in.
            listen()
            write_kubeconfigs()
            await keys.users.write()
        except (StoreError, OSError, ValueError) as error:  # the next look may find it better
            _log.warning("the keys of the cluster are not followed", error=str(error))


async def keep_rotating(keys: ClusterKeys, clock: Clock) -> NoReturn:
    """Take the steps that are due, until cancelled."""
    while True:
        await clock.sleep(EVERY)
        for rotation in (each for each in keys.rotations if each.stored.begun):
            try:
                await rotation.advance()
            except (ApiError, StoreError, OSError, ValueError) as error:
                _log.warning("the rotation of keys does not go on", what=rotation.kind, error=str(error))


def _servers(path: Path) -> Sequence[str]:
    try:
        return load(str(path)).http.servers
    except (OSError, BadKubeconfig):
        return ()
