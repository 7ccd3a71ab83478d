"""Removal of a node from the cluster, in an order that is safe against a kill -9 between any two steps.

Certificates are revoked first, so that the agent cannot come back during the removal. The Node is deleted last: while
it exists, the remover finds it and continues. Disks are deleted with their node; their claims are deleted before the
pods that use them, so that replacement pods get new claims.
"""

from __future__ import annotations

from contextlib import suppress

from tarmac.api.compute.names import LABEL_DISK_NODE
from tarmac.api.schema import JsonObject
from tarmac.api.status import Conflict, NotFound
from tarmac.client.client import Client
from tarmac.client.targets.untyped import LEASES, NODES, VOLUME_CLAIMS, VOLUMES
from tarmac.controllers.revoking import revoke

LEASE_NAMESPACE = "kube-node-lease"


async def disks_of(client: Client, node: str) -> list[JsonObject]:
    """Return the volumes whose disks are on a node."""
    selector = f"{LABEL_DISK_NODE}={node}"
    return [each async for page in client.resource(VOLUMES).pages(labels=selector) for each in page.items]


def disk_names(volumes: list[JsonObject]) -> list[str]:
    """Return the names of disks for display: the claim of each, otherwise the volume."""
    claims = [each["spec"].get("claimRef") or {} for each in volumes]
    return sorted(
        f"{claim['namespace']}/{claim['name']}" if claim.get("name") else each["metadata"]["name"]
        for claim, each in zip(claims, volumes, strict=True)
    )


async def release_disks(client: Client, node: str) -> None:
    """Delete the claims and volumes of a node's disks. The volumes remain until no pod uses the claims any more."""
    for volume in await disks_of(client, node):
        claim, metadata = volume["spec"].get("claimRef") or {}, volume["metadata"]
        # The claim goes before the pods that use it. Otherwise their replacements would bind it again and wait for the
        # lost disk.
        with suppress(NotFound, Conflict):  # deleted, or a new claim with that name
            if claim.get("uid"):
                await client.resource(VOLUME_CLAIMS).delete(claim["name"], claim["namespace"], uid=claim["uid"])
        with suppress(NotFound, Conflict):
            await client.resource(VOLUMES).delete(metadata["name"], uid=metadata["uid"])


async def forget_node(client: Client, node: str) -> None:
    """Revoke the node's certificates, then delete its Lease and its Node. Idempotent."""
    # First: otherwise a live agent would create its Node again.
    await revoke(client, f"system:node:{node}")
    with suppress(NotFound):
        await client.resource(LEASES).delete(node, LEASE_NAMESPACE)
    with suppress(NotFound):
        await client.resource(NODES).delete(node)
