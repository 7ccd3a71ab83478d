"""Says on the Node what this node can do for external services: the annotation `submariner.io/node-facts`.

A node that says nothing has no part in them, so that is what an agent does whose gate is off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NoReturn

from tarmac.agent.external.leases.remembering import replace_file
from tarmac.agent.external.leases.terms import KEY_BYTES
from tarmac.api.status import ApiError
from tarmac.api.submariner.names import ANNOTATION_NODE_FACTS
from tarmac.api.submariner.nodefacts import NodeFacts, write_facts
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import NODES

CHECK_EVERY: Final = 10.0
AGAIN_SECONDS: Final = 2.0

_log = log("external")


def private_key(path: Path, draw: Callable[[int], bytes]) -> bytes:
    """The node's own key, made the first time. It never leaves the node. Raises OSError."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        found = b""
    if len(found) != KEY_BYTES:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = draw(KEY_BYTES)
        replace_file(path, found)
    return found


class FactsAnnotation:
    """Keeps the annotation right. `facts` gathers them; None: the node has no part in external services."""

    def __init__(self, client: Client, node: str, facts: Callable[[], Awaitable[NodeFacts | None]]) -> None:
        self._client, self._node, self._facts = client, node, facts
        self._told: str | None = ""

    async def run(self) -> NoReturn:
        """Look now and then until cancelled."""
        while True:
            await self._client.clock.sleep(CHECK_EVERY if await self.look() else AGAIN_SECONDS)

    async def look(self) -> bool:
        """Say what is new; whether that is settled."""
        facts = await self._facts()
        text = write_facts(facts) if facts is not None else None
        if text == self._told:
            return True
        patch = {"metadata": {"annotations": {ANNOTATION_NODE_FACTS: text}}}
        try:
            await self._client.resource(NODES).patch(self._node, patch)
        except (ApiError, ClientError) as error:
            _log.debug("facts not told yet", node=self._node, why=str(error))
            return False
        self._told = text
        return True
