"""Revocation of all certificates of a common name. Servers apply it as soon as they read the ConfigMap."""

from __future__ import annotations

from tarmac.api.identities import NAMESPACE
from tarmac.api.nodetokens import KEPT, REVOKED_MAP, refused_before, revocation, revocation_key
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, NotFound
from tarmac.client.client import Client
from tarmac.client.targets.untyped import CONFIG_MAPS


async def revoke(client: Client, name: str) -> None:
    """Revoke every certificate of a common name issued until now. Idempotent.

    Only the key of this name is patched, so that two concurrent revocations do not undo each other.
    """
    maps, now = client.resource(CONFIG_MAPS), client.clock.now()
    entry = {revocation_key(name): revocation(name, now)}
    # Another process may create or delete the map between the read and the write: then start again.
    while True:
        try:
            known = await maps.get(REVOKED_MAP, NAMESPACE)
        except NotFound:
            try:
                await maps.create(_map(entry))
            except AlreadyExists:
                continue
            return
        # Only expired keys are removed. Keys added by other processes since the read survive a merge patch.
        old = {key: None for key, value in (known.get("data") or {}).items() if refused_before(value) + KEPT < now}
        try:
            await maps.patch(REVOKED_MAP, {"data": {**old, **entry}}, NAMESPACE)
        except NotFound:
            continue
        return


async def refused_until(client: Client, name: str) -> float:
    """Return the time before which certificates of a common name are revoked; 0 when none are."""
    try:
        known = await client.resource(CONFIG_MAPS).get(REVOKED_MAP, NAMESPACE)
    except NotFound:
        return 0.0
    value = (known.get("data") or {}).get(revocation_key(name))
    return 0.0 if value is None else refused_before(value)


def _map(data: dict[str, str]) -> JsonObject:
    metadata = {"name": REVOKED_MAP, "namespace": NAMESPACE}
    return {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "metadata": metadata, "data": data}
