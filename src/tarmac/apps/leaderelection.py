"""Of several processes with controllers on one server or store, one leads: by the Lease of the controllers."""

from __future__ import annotations

import socket

from tarmac import __version__
from tarmac.api.identities import NAMESPACE, PROCESS, VERSION
from tarmac.client.client import Client
from tarmac.client.leader import Elector, Timing


def elector(client: Client, timing: Timing | None = None) -> Elector:
    """This process as a contender. Its name is new at every start, so that nobody inherits a lease."""
    identity = f"{socket.gethostname()}_{client.randomness.uuid()}"
    return Elector(client, PROCESS, NAMESPACE, identity, timing, {VERSION: __version__})
