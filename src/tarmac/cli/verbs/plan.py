"""`tarmac plan -f FILE`: the server plans; where it cannot, the same functions plan on what was fetched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

import msgspec

from tarmac.api.compute.names import GROUP
from tarmac.api.compute.whyandplan import Plan
from tarmac.api.schema import JsonObject
from tarmac.api.status import MethodNotAllowed, NotFound
from tarmac.cli.rendering.plan import plan_text
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.manifests import BadManifest, read_manifests
from tarmac.client.client import Client
from tarmac.client.targets.target import encode
from tarmac.client.targets.typed import WORKLOADS

RUNS, REFUSED = 0, 2
TOGETHER = 20  # Workloads: each is planned as often as others follow it

_read = msgspec.json.Decoder(Plan).decode


async def plan(
    client: Client, namespace: str, filename: str, without: Sequence[str], console: Console, output: str
) -> int:
    """Print what every Workload of the file would do, once the other objects and the Workloads before it are there."""
    plans: dict[str, Plan] = {}
    workloads, others = _sorted(read_manifests(filename), namespace)
    stored, accepted = await _tried(client, others, namespace, console)
    before: list[JsonObject] = []
    if len(workloads) > TOGETHER:
        console.warn(
            f"of {len(workloads)} Workloads each is planned as if it were the only one; {TOGETHER} can be together"
        )
    for workload in workloads:
        metadata, written = workload["metadata"], deepcopy(workload)
        found = await planned(client, workload, without, console, [*stored, *before])
        plans[f"{metadata['namespace']}/{metadata['name']}"] = found
        if found.accepted and len(workloads) <= TOGETHER:
            before.append(written)  # planning brings the other into its stored form
    if output == "json":
        console.show_json(_document(plans))
    else:
        console.say("\n".join(plan_text(name, each) for name, each in plans.items()))
    return RUNS if accepted and all(each.runs for each in plans.values()) else REFUSED


def _document(plans: Mapping[str, Plan]) -> Plan | JsonObject:
    """One plan as it is; several by the names of their Workloads."""
    if len(plans) == 1:
        return next(iter(plans.values()))
    return {"plans": [{"workload": name, **msgspec.to_builtins(each)} for name, each in plans.items()]}


async def planned(
    client: Client, workload: JsonObject, without: Sequence[str], console: Console, others: Sequence[JsonObject] = ()
) -> Plan:
    """The plan of one Workload, as if the others were there."""
    metadata = workload["metadata"]
    path = WORKLOADS.path(metadata["namespace"], metadata["name"], "plan")
    body = {"apiVersion": "v1", "kind": "List", "items": [workload, *others]} if others else workload
    try:
        reply = await client.call("POST", path, {"without": ",".join(without)}, encode(body))
    except (NotFound, MethodNotAllowed):
        return await _plan_here(client, workload, without, console, others)
    return _read(reply.body)


async def _plan_here(
    client: Client, workload: JsonObject, without: Sequence[str], console: Console, others: Sequence[JsonObject]
) -> Plan:
    # Only now: planning takes half a second to load, and our own server does it for us.
    from tarmac.cli.verbs.fetching import fetch_world
    from tarmac.cli.verbs.localplan import plan_here

    return plan_here(await fetch_world(client, console.warn), workload, without, others)


async def _tried(
    client: Client, others: Sequence[JsonObject], namespace: str, console: Console
) -> tuple[list[JsonObject], bool]:
    if not others:
        return [], True
    # Only now: the catalogue of kinds takes long to load, and most files hold Workloads alone.
    from tarmac.cli.verbs.trying import try_others

    return await try_others(client, others, namespace, console.warn)


def _sorted(objects: Sequence[JsonObject], namespace: str) -> tuple[list[JsonObject], list[JsonObject]]:
    """The Workloads among the objects, each with a name and a namespace, and the rest."""
    found: list[JsonObject] = []
    others: list[JsonObject] = []
    for obj in objects:
        group = str(obj.get("apiVersion", "")).partition("/")[0]
        metadata = obj.setdefault("metadata", {})
        if not isinstance(metadata, dict) or not metadata.get("name"):
            raise BadManifest(f"a {obj['kind']} has no name")
        if (group, obj["kind"]) == (GROUP, "Workload"):
            metadata.setdefault("namespace", namespace)
            found.append(obj)
        else:
            others.append(obj)
    if not found:
        raise BadManifest("there is no Workload in it")
    return found, others
