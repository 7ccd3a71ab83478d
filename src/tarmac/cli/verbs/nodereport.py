"""`tarmac node report`: the ledger of every node, or of the ones that are named.

Everything is read through the API of Kubernetes and counted here, so it works on any API server. What may not be listed
is left out, and said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tarmac.api.networking.names import LABEL_LOCATION, TOPOLOGY_CITY_CODE
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, Forbidden, NotFound
from tarmac.cli.rendering.nodedocument import node_document
from tarmac.cli.rendering.nodereport import NodeReport, node_details, node_table
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.targets.target import Target, dynamic
from tarmac.client.targets.untyped import LOCATIONS, NODES, PODS
from tarmac.decide.allocatable.nodestatus import ledger_of_node

_METRICS = dynamic("metrics.k8s.io/v1beta1", "nodes", "NodeMetrics", namespaced=False)
_FAILED = 1
Json = Target[JsonObject]


async def node_report(client: Client, names: Sequence[str], console: Console, output: str) -> int:
    """Print it; the exit code tells whether every node was found."""
    nodes = await _named(client, names, console) if names else await _all(client, NODES)
    reports = await _Reading(client, console).reports(nodes, few=bool(names))
    if output == "json":
        console.show_json({"nodes": [node_document(each) for each in reports]})
    elif not names:
        console.say(node_table(reports))
    else:
        console.say("\n".join(node_details(each) for each in reports))
    return 0 if len(nodes) == len(set(names)) or not names else _FAILED


async def _named(client: Client, names: Sequence[str], console: Console) -> list[JsonObject]:
    """Those that there are; each of the others is told."""
    found: list[JsonObject] = []
    for name in dict.fromkeys(names):
        try:
            found.append(await client.resource(NODES).get(name))
        except NotFound as error:
            print(f"Error from server (NotFound): {error.message}", file=console.err)
    return found


class _Reading:
    """Gathers what a report needs beside the nodes themselves."""

    def __init__(self, client: Client, console: Console) -> None:
        self._client = client
        self._console = console

    async def reports(self, nodes: Sequence[JsonObject], *, few: bool) -> list[NodeReport]:
        """In the order of their names. `few`: only pods of these nodes are asked for, not all there are."""
        names = [node["metadata"]["name"] for node in nodes]
        pods = await self._pods(names if few else [""])
        used = await self._used()
        cities = await self._cities(nodes)
        found = [_report(node, pods, used, cities) for node in nodes]
        return sorted(found, key=lambda each: each.name)

    async def _pods(self, names: Sequence[str]) -> dict[str, list[JsonObject]] | None:
        found: dict[str, list[JsonObject]] = {}
        for name in names:
            listed = await self._listed(PODS, fields=f"spec.nodeName={name}" if name else "")
            if listed is None:
                return None
            for pod in listed:
                found.setdefault(pod["spec"].get("nodeName") or "", []).append(pod)
        return found

    async def _used(self) -> dict[str, JsonObject]:
        listed = await self._listed(_METRICS)
        return {each["metadata"]["name"]: each.get("usage") or {} for each in listed or ()}

    async def _cities(self, nodes: Sequence[JsonObject]) -> dict[str, str]:
        """The cities of Locations, asked for only where a node's labels do not name its city."""
        labels = [node["metadata"].get("labels") or {} for node in nodes]
        if not any(LABEL_LOCATION in each and TOPOLOGY_CITY_CODE not in each for each in labels):
            return {}
        listed = await self._listed(LOCATIONS)
        topologies = {each["metadata"]["name"]: each["spec"].get("topology") or {} for each in listed or ()}
        return {name: each.get(TOPOLOGY_CITY_CODE, "") for name, each in topologies.items()}

    async def _listed(self, target: Json, fields: str = "") -> list[JsonObject] | None:
        """All objects of a kind; None when there is no knowing. A server without the kind has none of it."""
        try:
            return await _all(self._client, target, fields)
        except NotFound:
            return []
        except Forbidden:
            why = "may not be listed"
        except ApiError as error:  # metrics come from a server of their own, which may be away
            why = f"cannot be listed ({error.message})"
        kind = f"{target.plural}.{target.group}" if target.group else target.plural
        self._console.warn(f"{kind} {why}, so the answer leaves them out")
        return None


async def _all(client: Client, target: Json, fields: str = "") -> list[JsonObject]:
    return [each async for page in client.resource(target).pages(fields=fields) for each in page.items]


def _report(
    node: JsonObject,
    pods: Mapping[str, Sequence[JsonObject]] | None,
    used: Mapping[str, JsonObject],
    cities: Mapping[str, str],
) -> NodeReport:
    name, conditions = node["metadata"]["name"], (node.get("status") or {}).get("conditions") or ()
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    return NodeReport(
        name=name,
        city=labels.get(TOPOLOGY_CITY_CODE) or cities.get(labels.get(LABEL_LOCATION, ""), ""),
        ledger=ledger_of_node(node, (pods or {}).get(name, ()), used.get(name)),
        counted=pods is not None,
        pressures=tuple(each["type"] for each in conditions if each["status"] == "True" and each["type"] != "Ready"),
    )
