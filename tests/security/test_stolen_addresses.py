"""A stolen node certificate claims addresses that tenants already have: of Networks, targets and pools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tarmac.api.egress.names import ANNOTATION_NODE_FACTS
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NETWORKS, NODES
from tests.security.wire import Answer, Json, Wire, serving

NODE = "/api/v1/nodes/n1"
EXTERNAL = dynamic("submariner.io/v1alpha1", "externalservices", "ExternalService")
CLASSES = dynamic("submariner.io/v1alpha1", "sourceipclasses", "SourceIPClass", namespaced=False)


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        await running.admin.resource(NODES).create({"metadata": {"name": "n1"}})
        yield running


async def claim(wire: Wire, *addresses: str) -> Answer:
    entries = [{"type": "InternalIP", "address": each} for each in addresses]
    return await wire.node("n1").patch(f"{NODE}/status", {"status": {"addresses": entries}})


async def ready(wire: Wire, name: str) -> Json:
    """The Ready condition of a Network of the namespace `default`, once it has one."""
    async with asyncio.timeout(10):
        while True:
            found = await wire.admin.resource(NETWORKS).get(name, "default")
            for each in (found.get("status") or {}).get("conditions") or ():
                if each["type"] == "Ready":
                    return each
            await asyncio.sleep(0.02)


async def create_network(wire: Wire, name: str, block: str) -> None:
    body: Json = {"apiVersion": NETWORKS.api_version, "kind": "Network", "metadata": {"name": name}}
    body["spec"] = {"ipam": {"mode": "Policy", "ipv4Range": block}}
    await wire.admin.resource(NETWORKS).create(body, namespace="default")


async def test_a_tenants_network_stays_ready(wire: Wire) -> None:
    await create_network(wire, "mine", "203.0.113.0/24")
    assert (await ready(wire, "mine"))["status"] == "True"
    assert (await claim(wire, "203.0.113.7")).status == 200
    async with asyncio.timeout(10):
        while not await warned(wire):  # then the controller has seen the claim
            await asyncio.sleep(0.05)
    assert (await ready(wire, "mine"))["status"] == "True"


async def warned(wire: Wire) -> bool:
    found = (await wire.admin.call("GET", "/api/v1/events")).body
    return b"AddressInNetwork" in found


async def publish(wire: Wire, *addresses: str) -> Answer:
    """Report in node-facts that an interface has these addresses."""
    facts = json.dumps({"interfaces": [{"name": "eth0", "addresses": [f"{each}/24" for each in addresses]}]})
    return await wire.node("n1").patch(NODE, {"metadata": {"annotations": {ANNOTATION_NODE_FACTS: facts}}})


async def service_to(wire: Wire, target: str) -> None:
    body: Json = {"apiVersion": EXTERNAL.api_version, "kind": "ExternalService", "metadata": {"name": "db"}}
    source = {"service": {"name": "web"}, "sourceIPClaim": {"name": "claim"}}
    body["spec"] = {"targetIP": target, "ports": [{"port": 5432}], "sources": [source]}
    await wire.admin.resource(EXTERNAL).create(body, namespace="default")


async def accepted(wire: Wire) -> str:
    async with asyncio.timeout(10):
        while True:
            found = await wire.admin.resource(EXTERNAL).get("db", "default")
            for each in (found.get("status") or {}).get("conditions") or ():
                if each["type"] == "Accepted":
                    return each["status"]
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("target", ["203.0.113.9", "2001:db8::9"])
async def test_a_target_in_use_cannot_be_claimed(wire: Wire, target: str) -> None:
    await service_to(wire, target)
    assert await accepted(wire) == "True"
    for answer, field in (
        (await claim(wire, target), "status.addresses"),
        (await publish(wire, "198.51.100.1", target), f"metadata.annotations[{ANNOTATION_NODE_FACTS}]"),
    ):
        assert (answer.status, f"{target} in {field}" in answer.message) == (403, True), answer
        assert "ExternalService default/db" in answer.message
    assert (await publish(wire, "198.51.100.1")).status == 200
    await wire.admin.resource(EXTERNAL).delete("db", "default")
    async with asyncio.timeout(10):
        while (await publish(wire, "198.51.100.1", target)).status != 200:
            await asyncio.sleep(0.05)


async def test_writes_do_not_add_up_to_more_addresses(wire: Wire) -> None:
    """New Networks keep off each of these ranges."""
    stated: list[str] = []
    for block in range(6):
        stated += [f"172.{16 + block}.{number}.9" for number in range(30)]
        assert (await claim(wire, *stated)).status == (200 if len(stated) <= 64 else 403)
    assert (await claim(wire, *stated[:64])).status == 200
    assert (await publish(wire, "192.168.1.9")).status == 403
    assert (await claim(wire, *stated[:10])).status == 200
    assert (await publish(wire, *(f"192.168.{number}.9" for number in range(54)))).status == 200
    answer = await publish(wire, *(f"192.168.{number}.9" for number in range(55)))
    assert (answer.status, "may not have more than 64 addresses" in answer.message) == (403, True)
    assert (await claim(wire, *stated[:11])).status == 403, "both fields count together"
    assert (await claim(wire, *stated[:9])).status == 200


async def test_an_ipv4_target_written_as_ipv6_is_the_same(wire: Wire) -> None:
    await service_to(wire, "203.0.113.9")
    assert (await publish(wire, "::ffff:203.0.113.9")).status == 403


async def test_a_node_takes_few_addresses_out_of_a_pool(wire: Wire) -> None:
    body: Json = {"apiVersion": CLASSES.api_version, "kind": "SourceIPClass", "metadata": {"name": "partner"}}
    await wire.admin.resource(CLASSES).create({**body, "spec": {"ranges": [{"cidr": "192.0.2.0/27"}]}})
    answer = await publish(wire, *(f"192.0.2.{number}" for number in range(1, 31)))
    assert (answer.status, 'of "partner": at most 8 in' in answer.message) == (403, True), answer
    assert (await publish(wire, *(f"192.0.2.{number}" for number in range(1, 6)))).status == 200
    answer = await claim(wire, *(f"192.0.2.{number}" for number in range(6, 12)))
    assert answer.status == 403, "both fields count together"
    assert (await claim(wire, "192.0.2.6", "192.0.2.7", "192.0.2.8")).status == 200
