"""No string in a request blocks the event loop, regardless of its length and of the separators it consists of.

Every string field and every map key of every served kind gets values that parsers split, scan or convert: 1 KB shows
patterns that backtrack, 100 KB parsers without a length limit behind a larger limit of the object, 2 MB those without
any. `make test` sends one separator per field and length, so that neighbouring fields get different ones; a soak
sends all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import msgspec
import pytest

from tarmac.api.catalog import build_catalog
from tarmac.api.resource import Resource
from tests.cost.growing import Place, lengthened, texts
from tests.cost.measuring import ALLOWED, Server, collection, serving
from tests.soak import SOAK

pytestmark = [pytest.mark.soak(minutes=40), pytest.mark.timeout(3600)]

SEPARATORS = (",", ".", "/", ":", "1", "(", "-", "1,", "a=b,", "1.", "a:", "1h", " ", "²")
LENGTHS = (1_000, 100_000, 2_000_000)
WITH_METADATA = {"configmaps"}

CATALOG = [resource for resource in build_catalog() if "create" in resource.verbs]
GROUPS = sorted({resource.group for resource in CATALOG})


def chosen(group: str) -> Iterator[Place]:
    """The strings of a group's kinds. A field of a type that several kinds share is sent once, except in a soak."""
    seen: set[tuple[int, str | int]] = set()
    for resource in CATALOG:
        for place in texts(resource) if resource.group == group else ():
            shared = place.path[0] == "metadata" and resource.plural not in WITH_METADATA
            field = id(place.schema), place.path[-1]
            if SOAK or not (shared or field in seen):
                yield place
            seen.add(field)


def values(turn: int) -> Iterator[str]:
    """The texts that one field gets."""
    for index, length in enumerate(LENGTHS):
        for separator in SEPARATORS if SOAK else [SEPARATORS[(turn + index) % len(SEPARATORS)]]:
            yield separator * (length // len(separator.encode()))


async def cost(server: Server, resource: Resource, body: bytes) -> tuple[float, int]:
    """Create an object and delete it again; return the CPU seconds of the loop and the status."""
    path = collection(resource)
    reply = await server.cost("POST", path, body)
    if reply.status == 201 and resource.stored:
        await server.send("DELETE", f"{path}/grown", {"gracePeriodSeconds": 0})
    return reply.seconds, reply.status


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group or "core")
async def test_no_string_holds_the_loop(group: str, tmp_path: Path) -> None:
    found: list[tuple[float, str]] = []
    turns = count()
    async with serving(tmp_path) as server:
        for place in chosen(group):
            for text in values(next(turns)):
                seconds, status = await cost(server, place.resource, msgspec.json.encode(lengthened(place, text)))
                assert status != 500, f"{place}: {text[:8]!r} of {len(text)} characters"
                found.append((seconds, f"{seconds * 1000:7.1f} ms  {len(text):8} x {text[:4]!r} {place} → {status}"))
    found.sort(reverse=True)
    print(f"\nthe most expensive of {len(found)}:", *[line for _, line in found[:8]], sep="\n")
    slow = [line for seconds, line in found if seconds > ALLOWED]
    assert not slow, "\n".join(slow)
