"""Leader election among processes with controllers on one server or store, by the controllers' Lease."""

from __future__ import annotations

import socket

from tarmac import __version__
from tarmac.api.identities import NAMESPACE, PROCESS, VERSION
from tarmac.client.client import Client
from tarmac.client.leader import Elector, Timing


def elector(client: Client, timing: Timing | None = None) -> Elector:
    """Return this process as a candidate. Its identity is new at every start, so no process inherits a lease."""
    identity = f"{socket.gethostname()}_{client.randomness.uuid()}"
    return Elector(client, PROCESS, NAMESPACE, identity, timing, {VERSION: __version__})
