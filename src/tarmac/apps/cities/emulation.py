"""Prints the virtualization mode of this host once its nodes have detected it."""

from __future__ import annotations

import sys
from typing import Final

from tarmac.api.compute.names import LABEL_ACCELERATOR
from tarmac.api.status import ApiError
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import NODES

_TIMEOUT: Final = 120.0
_POLL_INTERVAL: Final = 1.0
_MESSAGES: Final = {
    "kvm": "virtual machines run with the processor's support (KVM)",
    "tcg": "virtual machines are emulated, and slow: there is no KVM here that works",
}


async def tell_accelerator(client: Client, node: str) -> None:
    """Print the mode of one node; all are on the same host. A node without machines has reported that in its events."""
    deadline = client.clock.monotonic() + _TIMEOUT
    while client.clock.monotonic() < deadline:
        try:
            labels = (await client.resource(NODES).get(node))["metadata"].get("labels") or {}
        except (ApiError, ClientError):
            labels = {}
        if said := _MESSAGES.get(labels.get(LABEL_ACCELERATOR, "")):
            print(said, file=sys.stderr)
            return
        await client.clock.sleep(_POLL_INTERVAL)
