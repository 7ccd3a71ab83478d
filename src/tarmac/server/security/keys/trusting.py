"""Finds peers that have not announced a key yet: servers on Leases, agents on Nodes (`tarmac.dev/trusts`).

A server without the annotation runs a version without key rotation, and is waited for. A Node without it holds no
certificate of ours: it is simulated, or belongs to a kubelet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from tarmac.api.identities import NAMESPACE
from tarmac.api.rotations import TRUSTS
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.server.reader import decode
from tarmac.store.interface import Entry, Reads

_LEASES, _SERVERS, _NODES = "coordination.k8s.io/leases", f"{NAMESPACE}/apiserver-", "core/nodes"
PAGE = 200
"""The number of objects read per iteration of the event loop."""


async def paged(store: Reads, bucket: str, clock: Clock, prefix: str = "") -> AsyncIterator[Entry]:
    """Yield all entries, yielding to the event loop between pages."""
    after = ""
    while True:
        page = store.list(bucket, prefix, after=after, limit=PAGE)
        for entry in page.entries:
            yield entry
        if not page.remaining:
            return
        # By name: objects that are created or deleted during the pause do not shift the rest.
        after = page.entries[-1].name
        await clock.sleep(0)


async def silent_servers(store: Reads, clock: Clock, word: str) -> list[str]:
    """List the announced servers that do not announce `word`."""
    leases = [decode(entry) async for entry in paged(store, _LEASES, clock, _SERVERS)]
    return [f"server {each['spec'].get('holderIdentity')}" for each in leases if word not in (_words(each) or ())]


async def silent_nodes(store: Reads, clock: Clock, word: str) -> list[str]:
    """List the nodes that announce keys, but not `word`."""
    found: list[str] = []
    async for entry in paged(store, _NODES, clock):
        words = _words(decode(entry))
        if words is not None and word not in words:
            found.append(f"node {entry.name}")
    return found


def _words(shown: JsonObject) -> list[str] | None:
    said = (shown["metadata"].get("annotations") or {}).get(TRUSTS)
    return None if said is None else said.split()
