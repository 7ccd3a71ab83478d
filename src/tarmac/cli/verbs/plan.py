"""`tarmac plan -f FILE`: the server plans; where it cannot, the same functions plan on what was fetched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tarmac.api.compute.answers import Plan
from tarmac.api.compute.names import GROUP
from tarmac.api.schema import JsonObject
from tarmac.api.status import MethodNotAllowed, NotFound
from tarmac.cli.rendering.plan import plan_text
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.manifests import BadManifest, read_manifests
from tarmac.client.client import Client
from tarmac.client.targets import encode
from tarmac.controllers.targets import WORKLOADS

RUNS, REFUSED = 0, 2

_read = msgspec.json.Decoder(Plan).decode


async def plan(
    client: Client, namespace: str, filename: str, without: Sequence[str], console: Console, output: str
) -> int:
    """Print what every Workload of the file would do."""
    plans: dict[str, Plan] = {}
    for workload in _workloads(read_manifests(filename), namespace, console):
        metadata = workload["metadata"]
        plans[f"{metadata['namespace']}/{metadata['name']}"] = await planned(client, workload, without, console)
    if output == "json":
        console.show_json(_document(plans))
    else:
        console.say("\n".join(plan_text(name, each) for name, each in plans.items()))
    return RUNS if all(each.runs for each in plans.values()) else REFUSED


def _document(plans: Mapping[str, Plan]) -> Plan | JsonObject:
    """One plan as it is; several by the names of their Workloads."""
    if len(plans) == 1:
        return next(iter(plans.values()))
    return {"plans": [{"workload": name, **msgspec.to_builtins(each)} for name, each in plans.items()]}


async def planned(client: Client, workload: JsonObject, without: Sequence[str], console: Console) -> Plan:
    """The plan of one Workload."""
    metadata = workload["metadata"]
    path = WORKLOADS.path(metadata["namespace"], metadata["name"], "plan")
    try:
        reply = await client.call("POST", path, {"without": ",".join(without)}, encode(workload))
    except (NotFound, MethodNotAllowed):
        return await _plan_here(client, workload, without, console)
    return _read(reply.body)


async def _plan_here(client: Client, workload: JsonObject, without: Sequence[str], console: Console) -> Plan:
    # Only now: planning takes half a second to load, and our own server does it for us.
    from tarmac.cli.verbs.fetching import fetch_world
    from tarmac.cli.verbs.planhere import plan_here

    return plan_here(await fetch_world(client, console.warn), workload, without)


def _workloads(objects: Sequence[JsonObject], namespace: str, console: Console) -> list[JsonObject]:
    """The Workloads among the objects, each with a name and a namespace."""
    found: list[JsonObject] = []
    for obj in objects:
        group = str(obj.get("apiVersion", "")).partition("/")[0]
        metadata = obj.setdefault("metadata", {})
        if not isinstance(metadata, dict) or not metadata.get("name"):
            raise BadManifest(f"a {obj['kind']} has no name")
        if (group, obj["kind"]) == (GROUP, "Workload"):
            metadata.setdefault("namespace", namespace)
            found.append(obj)
        else:
            console.warn(f"{obj['kind']} {metadata['name']} is no Workload; the plan is made without it")
    if not found:
        raise BadManifest("there is no Workload in it")
    return found
