"""How virtual machines run on this machine: said once, when its nodes have found out, to whoever started them."""

from __future__ import annotations

import sys
from typing import Final

from tarmac.api.compute.names import LABEL_ACCELERATOR
from tarmac.api.status import ApiError
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import NODES

_PATIENCE: Final = 120.0
_PAUSE: Final = 1.0
_SAID: Final = {
    "kvm": "virtual machines run with the processor's support (KVM)",
    "tcg": "virtual machines are emulated, and slow: there is no KVM here that works",
}


async def tell_accelerator(client: Client, node: str) -> None:
    """Say it of one node; all of them are on the same machine. A node that offers none has told of it in its events."""
    deadline = client.clock.monotonic() + _PATIENCE
    while client.clock.monotonic() < deadline:
        try:
            labels = (await client.resource(NODES).get(node))["metadata"].get("labels") or {}
        except (ApiError, ClientError):
            labels = {}
        if said := _SAID.get(labels.get(LABEL_ACCELERATOR, "")):
            print(said, file=sys.stderr)
            return
        await client.clock.sleep(_PAUSE)
