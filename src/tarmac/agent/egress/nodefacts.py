"""Publishes this node's capabilities for external services in the Node annotation `submariner.io/node-facts`.

A node without the annotation takes no part in external services, so an agent with the gate off removes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NoReturn

from tarmac.agent.egress.leases.addressconfig import KEY_BYTES
from tarmac.agent.egress.leases.checkpoint import replace_file
from tarmac.api.egress.names import ANNOTATION_NODE_FACTS
from tarmac.api.egress.nodefacts import NodeFacts, write_facts
from tarmac.api.status import ApiError, Forbidden
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import NODES

CHECK_INTERVAL: Final = 10.0
RETRY_INTERVAL: Final = 2.0

_log = log("external")


def private_key(path: Path, draw: Callable[[int], bytes]) -> bytes:
    """Return the node's private key, created at first use. It never leaves the node. Raises OSError."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        found = b""
    # A power loss may leave an empty file, since the write is not synced; peers then learn a new key.
    if len(found) != KEY_BYTES:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = draw(KEY_BYTES)
        replace_file(path, found)
    return found


class FactsAnnotation:
    """Keeps the annotation up to date.

    `facts` gathers its content; None: the node takes no part in external services.
    """

    def __init__(self, client: Client, node: str, facts: Callable[[], Awaitable[NodeFacts | None]]) -> None:
        self._client, self._node, self._facts = client, node, facts
        self._published: str | None = ""
        self._refused = ""  # logged once

    async def run(self) -> NoReturn:
        """Update the annotation periodically until cancelled."""
        while True:
            await self._client.clock.sleep(CHECK_INTERVAL if await self.update() else RETRY_INTERVAL)

    async def update(self) -> bool:
        """Write the annotation if it changed. Return False if the write failed and must be retried."""
        facts = await self._facts()
        text = write_facts(facts) if facts is not None else None
        if text == self._published:
            return True
        patch = {"metadata": {"annotations": {ANNOTATION_NODE_FACTS: text}}}
        try:
            await self._client.resource(NODES).patch(self._node, patch)
        except Forbidden as refusal:
            if str(refusal) != self._refused:
                self._refused = str(refusal)
                _log.warning("server rejects the node's facts annotation", node=self._node, why=self._refused)
            return False
        except (ApiError, ClientError) as error:
            _log.debug("facts annotation write failed, will retry", node=self._node, why=str(error))
            return False
        self._published = text
        return True
