"""`nodes/NAME/ledger`: capacity, reservations, allocations and usage of a node, as in `tarmac node report -o json`."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any

import msgspec

from tarmac.api.compute.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.decide.allocatable.document import node_document
from tarmac.decide.allocatable.report import location_cities, report_of
from tarmac.decide.snapshot.snapshot import LOCATIONS, NODES, PODS, Snapshot
from tarmac.http.messages import Request, Response
from tarmac.server.printing.answers import document
from tarmac.server.routes import Route
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.subresources.offloading import run_in_thread, snapshot
from tarmac.server.subresources.usagemetrics import UsageSource
from tarmac.server.subresources.userqueue import UserQueue

_plain = msgspec.json.Decoder(dict[str, Any]).decode


def ledger_route(storage: ResourceStorage, usage: UsageSource, queue: UserQueue) -> Route:
    """GET of `nodes/NAME/ledger`."""
    return {"get": queue.route(partial(_ledger, storage, usage))}


async def _ledger(storage: ResourceStorage, usage: UsageSource, request: Request) -> Response:
    name = request.info.name
    measured = usage.nodes()
    measured = await measured if isinstance(measured, Awaitable) else measured
    used = next((each["usage"] for each in measured if each["metadata"]["name"] == name), None)
    world = snapshot(storage, (NODES, PODS, LOCATIONS))
    found = await run_in_thread(world, lambda each: _worked_out(each, name, used))
    if found is None:
        raise storage.not_found(name)
    return document(request, {"kind": "NodeLedger", "apiVersion": API_VERSION, **found})


def _worked_out(world: Snapshot, name: str, used: dict[str, str] | None) -> JsonObject | None:
    node = NODES.get(world, name)
    if node is None:
        return None
    word = msgspec.json.encode(name)
    # Most pods are on other nodes: pods without the node's name in their bytes are not decoded.
    pods = [_plain(raw) for raw in world.list(PODS.resource) if word in bytes(raw)]
    here = [pod for pod in pods if pod["spec"].get("nodeName") == name]
    cities = location_cities(_plain(raw) for raw in world.list(LOCATIONS.resource))
    return node_document(report_of(node, here, used, cities))
