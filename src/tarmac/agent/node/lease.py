"""The node's heartbeat: a Lease in kube-node-lease, renewed four times within its duration.

The server's last response is the base of the next renewal, so usually a heartbeat is one request. The Node owns the
Lease, which is deleted with it; without a Node none is created.
"""

from __future__ import annotations

from collections.abc import Callable

from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, ApiError, Conflict, NotFound
from tarmac.base.clock import rfc3339_micro
from tarmac.base.log import log
from tarmac.client.backoff import Backoff
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import LEASES

NAMESPACE = "kube-node-lease"
RENEWALS_IN_A_DURATION = 4
_SOON = 1.0  # retry delay after a first failure
_log = log("agent")


class Heartbeat:
    """Renews one node's Lease. `node` returns the Node as last received from the server."""

    def __init__(self, client: Client, name: str, duration: int, node: Callable[[], JsonObject | None]) -> None:
        self._client = client
        self._leases = client.resource(LEASES)
        self._name = name
        self._duration = duration
        self._node = node
        self._known: JsonObject | None = None
        self._backoff = Backoff(client.randomness, _SOON, duration / RENEWALS_IN_A_DURATION)

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            if self._node() is None:
                pause = _SOON  # not registered yet
            elif await self.attempt():
                pause = self._duration / RENEWALS_IN_A_DURATION
            else:
                pause = self._backoff.next()
            await self._client.clock.sleep(pause)

    async def renew(self) -> None:
        """Renew once. Raises ApiError, ClientError."""
        node = self._node()
        # A Lease without the Node as its owner would stay for ever after the node has gone.
        if node is None:
            return
        lease = self._known or await self._read()
        if lease is None:
            self._known = await self._create(node)
            return
        spec = {**(lease.get("spec") or {}), **self._spec()}
        try:
            # Updated from the last response without a read: a heartbeat costs one request.
            self._known = await self._leases.update({**lease, "spec": spec})
        except (Conflict, NotFound):
            self._known = None  # written by another client, or deleted: read it again on the next attempt
            raise

    async def attempt(self) -> bool:
        """Renew once. Return False if it failed."""
        try:
            await self.renew()
        except (ApiError, ClientError) as error:
            write_log = _log.debug if self._backoff.failures else _log.warning
            write_log("the lease is not renewed", node=self._name, why=str(error))
            return False
        if self._backoff.failures:
            _log.info("lease renewed again", node=self._name)
            self._backoff.reset()
        return True

    async def _read(self) -> JsonObject | None:
        try:
            return await self._leases.get(self._name, NAMESPACE)
        except NotFound:
            return None

    async def _create(self, node: JsonObject) -> JsonObject | None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": node["metadata"]["uid"]}
        metadata = {"name": self._name, "namespace": NAMESPACE, "ownerReferences": [owner]}
        lease: JsonObject = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": self._spec(),
        }
        try:
            return await self._leases.create(lease)
        except AlreadyExists:
            # Created by another client since the read: the next attempt reads it.
            return None

    def _spec(self) -> JsonObject:
        return {
            "holderIdentity": self._name,
            "leaseDurationSeconds": self._duration,
            "renewTime": rfc3339_micro(self._client.clock.now()),
        }
