"""`tarmac node report`: the ledger of every node, or of the named ones.

Everything is read through the Kubernetes API and computed here, so it works on any API server. Forbidden lists are left
out with a warning.
"""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.cli.rendering.nodereport import node_details, node_table
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.listing import TableListing
from tarmac.cli.verbs.nodecities import needs_locations
from tarmac.client.client import Client
from tarmac.client.targets.untyped import LOCATIONS, NODE_METRICS, NODES, PODS
from tarmac.decide.allocatable.document import node_document
from tarmac.decide.allocatable.report import NodeReport, location_cities, report_of

_FAILED = 1


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    return await node_report(call.client, call.options.names, call.console, call.options.output)


async def node_report(client: Client, names: Sequence[str], console: Console, output: str) -> int:
    """Print the report; the exit code is 0 if every node was found."""
    nodes = await _named(client, names, console) if names else await _all(client)
    reports = await _Reading(client, console).reports(nodes, few=bool(names))
    if output == "json":
        console.show_json({"nodes": [node_document(each) for each in reports]})
    elif not names:
        console.say(node_table(reports))
    else:
        console.say("\n".join(node_details(each) for each in reports))
    return 0 if len(nodes) == len(set(names)) or not names else _FAILED


async def _named(client: Client, names: Sequence[str], console: Console) -> list[JsonObject]:
    """Return the existing nodes; report the missing ones."""
    found: list[JsonObject] = []
    for name in dict.fromkeys(names):
        try:
            found.append(await client.resource(NODES).get(name))
        except NotFound as error:
            console.fail(error.message)
    return found


class _Reading:
    """Collects the data of a report besides the nodes."""

    def __init__(self, client: Client, console: Console) -> None:
        self._listing = TableListing(client, console)

    async def reports(self, nodes: Sequence[JsonObject], *, few: bool) -> list[NodeReport]:
        """Return reports by name. `few`: only pods of these nodes are listed, not all pods."""
        names = [node["metadata"]["name"] for node in nodes]
        pods = await self._pods(names if few else [""])
        used = await self._used()
        cities = await self._cities(nodes)
        found = [
            report_of(node, None if pods is None else pods.get(name, ()), used.get(name), cities)
            for name, node in zip(names, nodes, strict=True)
        ]
        return sorted(found, key=lambda each: each.name)

    async def _pods(self, names: Sequence[str]) -> dict[str, list[JsonObject]] | None:
        found: dict[str, list[JsonObject]] = {}
        for name in names:
            listed = await self._listing.listed(PODS, fields=f"spec.nodeName={name}" if name else "")
            if listed is None:
                return None
            for pod in listed:
                found.setdefault(pod["spec"].get("nodeName") or "", []).append(pod)
        return found

    async def _used(self) -> dict[str, JsonObject]:
        listed = await self._listing.listed(NODE_METRICS)
        return {each["metadata"]["name"]: each.get("usage") or {} for each in listed or ()}

    async def _cities(self, nodes: Sequence[JsonObject]) -> dict[str, str]:
        """Return the cities of Locations, read only if a node's labels do not name its city."""
        listed = await self._listing.listed(LOCATIONS) if needs_locations(nodes) else None
        return location_cities(listed or ())


async def _all(client: Client) -> list[JsonObject]:
    """Return every node. Without the right to list them there is no report: that is an error, not a gap."""
    return [each async for page in client.resource(NODES).pages() for each in page.items]
