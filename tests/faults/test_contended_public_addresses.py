"""Services over HTTP that want more public addresses than there are, while two processes of controllers race and die.

Creating the PublicAddress is the only lock: on SQLite and on etcd, no address is ever held by two Services, and none
goes from one to another without a rest. The test checks every change of every address, not only the end.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tarmac.api.ingress.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.client.client import Client
from tarmac.client.informer import Informers
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NAMESPACES, SERVICES
from tests.faults.test_contended_claims import Place, Process, Witness, client_of, on_etcd, own_server, until

pytestmark = [pytest.mark.timeout(240)]

POOLS = dynamic(API_VERSION, "addresspools", "AddressPool", namespaced=False)
ADDRESSES = dynamic(API_VERSION, "publicaddresses", "PublicAddress", namespaced=False)
GATE = "--feature-gates=WayIn=true"
OFFERED, WANTED, KILLS = 24, 36, 4


@pytest.fixture(params=["sqlite", "etcd"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Place]:
    with {"sqlite": own_server, "etcd": on_etcd}[request.param](tmp_path, GATE) as found:
        yield found


def test_no_public_address_is_held_twice_while_controllers_race_and_die(place: Place, tmp_path: Path) -> None:
    with ExitStack() as stack:
        processes = [Process(place, tmp_path / f"controllers-{number}.log", "ingress", GATE) for number in range(2)]
        for each in processes:
            stack.callback(each.kill)
        asyncio.run(_race(place, processes))


def _service(number: int) -> JsonObject:
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "allocateLoadBalancerNodePorts": False}
    metadata = {"name": f"s{number:02}", "namespace": "team"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


async def _race(place: Place, processes: list[Process]) -> None:
    async with client_of(place.admin) as client, client_of(place.admin) as watching:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        await client.resource(NAMESPACES).create(namespace)
        ranges = [{"start": "192.0.2.1", "end": f"192.0.2.{OFFERED}"}]
        spec: JsonObject = {"ranges": ranges, "allowedNamespaces": {"names": ["team"]}, "holdDown": "1h"}
        pool = {"apiVersion": API_VERSION, "kind": "AddressPool", "metadata": {"name": "public"}, "spec": spec}
        await client.resource(POOLS).create(pool)
        witness, informers = Witness(), Informers(watching)
        informers.informer(ADDRESSES).on_change(witness.address_changed)
        seen = asyncio.create_task(informers.run())
        for each in processes:
            each.start()
        for number in range(WANTED):
            await client.resource(SERVICES).create(_service(number))
        for number in range(KILLS):
            await asyncio.sleep(0.4)  # each kill hits it at another step
            processes[number % 2].kill()
            if number == 1:
                place.restart()
            processes[number % 2].start()
        await until(lambda: _settled(client), 120.0)
        held = (await client.resource(ADDRESSES).list()).items
        holders = Counter(each["spec"]["claimRef"]["name"] for each in held)
        assert len(held) == OFFERED
        assert set(holders.values()) == {1}
        gone = min(holders)
        await client.resource(SERVICES).delete(gone, "team")
        await until(lambda: _rests(client))
        claims = [each["spec"].get("claimRef") or {} for each in (await client.resource(ADDRESSES).list()).items]
        assert {each["name"] for each in claims if each} <= holders.keys(), "another Service got a resting address"
        assert not witness.broken
        seen.cancel()


async def _settled(client: Client) -> bool:
    """Return True once each Service has a condition, and as many as there are addresses hold one."""
    reasons = Counter(_reason(each) for each in (await client.resource(SERVICES).list("team")).items)
    return reasons["PoolExhausted"] == WANTED - OFFERED and reasons[""] == 0


def _reason(service: JsonObject) -> str:
    conditions = (service.get("status") or {}).get("conditions") or ()
    return next((each["reason"] for each in conditions if each["type"] == "LoadBalancerReady"), "")


async def _rests(client: Client) -> bool:
    found = (await client.resource(ADDRESSES).list()).items
    return any((each.get("status") or {}).get("phase") in ("Released", "Quarantined") for each in found)
