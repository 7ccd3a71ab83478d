"""Who has not said yet that it goes by a key: servers on their Leases, agents on their Nodes (`tarmac.dev/trusts`).

A server that says nothing is of a version that knows of no such keys, and is waited for. A Node that says nothing is
nobody's who holds certificates of ours: a simulated one, or a kubelet's.
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
"""How many objects are looked at in one turn of the loop."""


async def paged(store: Reads, bucket: str, clock: Clock, prefix: str = "") -> AsyncIterator[Entry]:
    """Every entry, with turns for others in between."""
    after = ""
    while True:
        page = store.list(bucket, prefix, after=after, limit=PAGE)
        for entry in page.entries:
            yield entry
        if not page.remaining:
            return
        after = page.entries[-1].name
        await clock.sleep(0)


async def silent_servers(store: Reads, clock: Clock, word: str) -> list[str]:
    """Servers that are announced and do not say the word."""
    leases = [decode(entry) async for entry in paged(store, _LEASES, clock, _SERVERS)]
    return [f"server {each['spec'].get('holderIdentity')}" for each in leases if word not in (_words(each) or ())]


async def silent_nodes(store: Reads, clock: Clock, word: str) -> list[str]:
    """Nodes whose agents say what they go by, and do not say the word."""
    found: list[str] = []
    async for entry in paged(store, _NODES, clock):
        words = _words(decode(entry))
        if words is not None and word not in words:
            found.append(f"node {entry.name}")
    return found


def _words(shown: JsonObject) -> list[str] | None:
    said = (shown["metadata"].get("annotations") or {}).get(TRUSTS)
    return None if said is None else said.split()
