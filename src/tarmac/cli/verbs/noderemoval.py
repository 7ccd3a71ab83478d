"""`tarmac node remove`: removes a node that cannot leave by itself, such as one on a lost host.

Its certificates are revoked first, so that a returning host, or a thief of its disk, has no access. A recently active
node is refused without `--force`: a healthy one leaves by `tarmac leave`, in order.
"""

from __future__ import annotations

from contextlib import suppress

from tarmac.api.status import NotFound
from tarmac.base.clock import parse_rfc3339
from tarmac.base.duration import human_duration
from tarmac.cli.rendering.text import printable
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.targets.untyped import LEASES, NODES, PODS
from tarmac.controllers.noderemoval import LEASE_NAMESPACE, disk_names, disks_of, forget_node, release_disks
from tarmac.controllers.revoking import refused_until, revoke

SILENT_SECONDS = 40.0
_FAILED = 1


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    return await node_remove(call.client, call.options.name, call.console, force=call.options.force)


async def node_remove(client: Client, name: str, console: Console, *, force: bool) -> int:
    """Revoke its certificates, then remove Node, Lease, pods and disks.

    Repeating it continues an interrupted removal.
    """
    user = f"system:node:{name}"
    try:
        await client.resource(NODES).get(name)
    except NotFound:
        if not await refused_until(client, user):
            console.fail(f'there is no node "{printable(name)}"')
            return _FAILED
    else:
        age = await _silent_for(client, name)
        if age is not None and age < SILENT_SECONDS and not force:
            console.fail(
                f'node "{name}" was heard of {human_duration(age)} ago: run `tarmac leave` on it, '
                "or add --force if it is not yours any more"
            )
            return _FAILED
        await revoke(client, user)
    disks = disk_names(await disks_of(client, name))
    await release_disks(client, name)
    await forget_node(client, name)
    pods = await _remove_pods(client, name)
    console.say(f'node "{name}" removed, its certificates are refused; {pods} pods and {len(disks)} disks with it\n')
    for disk in disks:
        console.say(f"disk of {printable(disk)} is gone\n")
    return 0


async def _silent_for(client: Client, name: str) -> float | None:
    """Return the seconds since the node's last heartbeat; None without one."""
    try:
        lease = await client.resource(LEASES).get(name, LEASE_NAMESPACE)
        return client.clock.now() - parse_rfc3339((lease.get("spec") or {}).get("renewTime") or "")
    except (NotFound, ValueError):
        return None


async def _remove_pods(client: Client, node: str) -> int:
    """Delete pods at once: no agent could end them in order."""
    count = 0
    async for page in client.resource(PODS).pages(fields=f"spec.nodeName={node}"):
        for pod in page.items:
            metadata = pod["metadata"]
            with suppress(NotFound):
                await client.resource(PODS).delete(metadata["name"], metadata["namespace"], grace=0)
                count += 1
    return count
