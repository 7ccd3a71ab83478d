"""A list or map of any kind does not block the event loop, for any number of entries.

Every list and map of every served kind is filled with as many entries as the server takes, sparse and full, all
different and all the same, and sent through all stages of a create. If the server names a limit, the test sends that
many. No request may take more than 50 ms of the loop, and none may grow faster than n log n.

Repeated parts are measured once: metadata, and the templates of Pods and of Instances. A soak measures everything, in
more fillings and sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import log
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from tarmac.api.catalog import build_catalog
from tarmac.api.decode.extent import MAX_VALUES, count_values
from tarmac.api.resource import Resource
from tests.cost.growing import FILLINGS, Filling, Place, grown, places
from tests.cost.measuring import ALLOWED, Server, collection, serving
from tests.soak import SOAK
from tests.support.templates import is_repeated

pytestmark = [pytest.mark.soak(minutes=20), pytest.mark.timeout(1800)]

BODY = 3 * 1024 * 1024
WITH_METADATA = {"configmaps", "networks"}
STEP = 8
WORTH_COMPARING = 0.010  # seconds
STEEPEST = 3.0  # times n log n

CATALOG = [resource for resource in build_catalog() if "create" in resource.verbs]


class Cost(NamedTuple):
    """The cost of one size of one place."""

    seconds: float
    entries: int
    place: Place
    filling: Filling
    status: int

    def __str__(self) -> str:
        return f"{self.seconds * 1000:7.1f} ms  {self.entries:6} x {self.filling:6} {self.place} → {self.status}"


def chosen(resource: Resource) -> Iterator[Place]:
    """Return the places of a kind to measure."""
    for place in places(resource):
        if not place.path:
            continue
        repeated = place.path[0] == "metadata" and resource.plural not in WITH_METADATA
        # The runtime of an Instance is the one of a Workload's template.
        repeated |= resource.plural == "instances" and place.path[:2] == ("spec", "runtime")
        if SOAK or not (repeated or is_repeated(resource.plural, place.path)):
            yield place


GROUPS = sorted({resource.group for resource in CATALOG if any(chosen(resource))})


async def measured(server: Server, place: Place, filling: Filling, entries: int) -> Cost:
    """Create an object and delete it."""
    path = collection(place.resource)
    body = msgspec.json.encode(grown(place, entries, filling))
    reply = await server.cost("POST", path, body)
    if reply.status == 201 and place.resource.stored:
        await server.send("DELETE", f"{path}/grown", {"gracePeriodSeconds": 0})
    if reply.most is not None and reply.most < entries:
        return await measured(server, place, filling, reply.most)
    return Cost(reply.seconds, entries, place, filling, reply.status)


def fitting(place: Place, filling: Filling) -> int:
    """Return the number of entries that a body can hold."""
    sample = msgspec.json.encode(grown(place, 100, filling))
    empty = msgspec.json.encode(grown(place, 0, filling))
    of_values = (count_values(sample) - count_values(empty)) / 100 or 1
    of_bytes = (len(sample) - len(empty)) / 100 or 1
    return int(min((MAX_VALUES - count_values(empty)) / of_values, BODY / of_bytes) * 0.98)


def is_steep(cost: Cost, smaller: Cost) -> bool:
    """Return true if cost grows faster than n log n by more than the error of measurement."""
    expected = cost.entries * log(cost.entries + 2) / (smaller.entries * log(smaller.entries + 2))
    return cost.seconds > STEEPEST * expected * max(smaller.seconds, 0.0005)


async def costs_of(server: Server, place: Place, filling: Filling) -> Iterator[Cost]:
    """Yield the largest, and smaller ones where it is large enough to compare."""
    most = fitting(place, filling)
    found = [await measured(server, place, filling, most)]
    while found[-1].seconds > WORTH_COMPARING and found[-1].entries > STEP and (SOAK or len(found) < 2):
        found.append(await measured(server, place, filling, found[-1].entries // STEP))
    return iter(found)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group or "core")
async def test_no_list_or_map_keeps_others_waiting(group: str, tmp_path: Path) -> None:
    costs: list[Cost] = []
    steep: list[str] = []
    async with serving(tmp_path) as server:
        for resource in CATALOG:
            for place in chosen(resource) if resource.group == group else ():
                for filling in FILLINGS if SOAK else FILLINGS[:1]:
                    found = list(await costs_of(server, place, filling))
                    costs += found
                    steep += [f"{smaller}\n{cost}" for cost, smaller in pairwise(found) if is_steep(cost, smaller)]
    costs.sort(key=lambda cost: -cost.seconds)
    print(f"\nthe most expensive of {len(costs)}:", *costs[:8], sep="\n")
    slow = [str(cost) for cost in costs if cost.seconds > ALLOWED]
    assert not slow, "\n".join(slow)
    assert not steep, "\n".join(steep)
