"""A stolen node certificate against restores, addresses and reports, with each defence and without it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from tarmac.api.identities import RESTORED
from tarmac.api.restored import running_path
from tarmac.api.status import ApiError, Conflict
from tarmac.base.clock import ManualClock
from tarmac.client.client import Client
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import NAMESPACES, NETWORKS, NODES, PODS, SERVICE_ACCOUNTS
from tarmac.controllers.network import networks
from tarmac.controllers.node import heartbeats
from tarmac.server.admission.addresses.tenantaddresses import TenantAddresses
from tarmac.server.admission.nodes import nodeaddresses, nodeforwarding, noderestriction
from tarmac.server.nodes import adopting, runningreports
from tests.attacking import TWICE
from tests.client.model_server import ModelServer
from tests.security.test_reports_after_a_restore import TIME, create, decide, pod, report, restored
from tests.security.test_stolen_addresses import CLASSES, accepted, claim, create_network, publish, ready, service_to
from tests.security.test_stolen_addresses import warned as warned_of_an_address
from tests.security.test_stolen_gateways import GATEWAYS, NAME, say
from tests.security.wire import Json, Wire, serving

NODE = "/api/v1/nodes/n1"


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        for name in ("n1", "n2"):
            await running.admin.resource(NODES).create({"metadata": {"name": name}})
        await running.admin.resource(NAMESPACES).create({"metadata": {"name": "shop"}})
        account: Json = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "shop"},
        }
        await running.admin.resource(SERVICE_ACCOUNTS).apply(account, manager="test")
        yield running


def nothing(*_: object) -> None:
    return None


def never(*_: object) -> bool:
    return False


@TWICE
async def test_an_annotation_of_a_restore(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(noderestriction, "_check_annotations", nothing)
    answer = await wire.node("n1").patch(NODE, {"metadata": {"annotations": {RESTORED: TIME}}})
    assert answer.status == (403 if defended else 200)


@TWICE
async def test_a_report_after_a_restore_that_the_node_invented(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        monkeypatch.setattr(runningreports, "restored_at", lambda _store: TIME)
    assert (await report(wire, pod())).status == (409 if defended else 200)
    if defended:
        await create(wire)
    else:
        with pytest.raises(Conflict, match="RestoredConflict"):
            await create(wire)


@TWICE
async def test_an_invented_pod_with_all_rights(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(adopting, "_admitted", lambda _reader, _chain, _resource, conflict, _user: conflict.pod)
    await restored(wire)
    evil = pod(container={"securityContext": {"privileged": True}}, volumes=[{"name": "v", "hostPath": {"path": "/"}}])
    assert (await report(wire, evil)).status == 200
    if defended:
        with pytest.raises(ApiError, match="privileged"):
            await decide(wire, "adopt")
    else:
        await decide(wire, "adopt")
    stored = [each["metadata"]["name"] for each in (await wire.admin.resource(PODS).list("shop")).items]
    assert stored == ([] if defended else ["web"])


@TWICE
async def test_a_report_of_three_megabytes(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(runningreports, "check_extent", nothing)
    await restored(wire)
    body = b'{"restored":"%b","pods":[{"metadata":{"name":"a"},"x":[%b1]}]}' % (TIME.encode(), b"[]," * 900_000)
    assert (await wire.node("n1").post(running_path("n1"), body)).status == (413 if defended else 200)


@TWICE
async def test_an_epoch_that_no_other_node_exceeds(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(nodeforwarding, "_check_ownership", nothing)
    spec = {"gatewayip": NAME, "candidates": [{"name": "n1"}, {"name": "n2"}], "voters": []}
    body: Json = {"apiVersion": GATEWAYS.api_version, "kind": "Gateway", "spec": spec}
    # Controllers delete a Gateway without a SourceIP; the finalizer keeps this one.
    body["metadata"] = {"name": NAME, "namespace": "external-services", "finalizers": ["test.example/keep"]}
    await wire.admin.resource(GATEWAYS).create(body)
    answer = await say(wire, "n1", {"name": "n1", "owner": True, "epoch": 2**62})
    assert answer.status == (403 if defended else 200)


@TWICE
async def test_an_address_in_a_tenants_network(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(networks, "keeps_range", never)
    await create_network(wire, "mine", "203.0.113.0/24")
    assert (await ready(wire, "mine"))["status"] == "True"
    assert (await claim(wire, "203.0.113.7")).status == 200
    async with asyncio.timeout(10):
        while not await warned_of_an_address(wire) and (await ready(wire, "mine"))["status"] == "True":
            await asyncio.sleep(0.05)
    status = (await wire.admin.resource(NETWORKS).get("mine", "default"))["status"]
    assert {each["type"]: each["status"] for each in status["conditions"]}["Ready"] == str(defended)


@TWICE
async def test_the_target_of_an_external_service_as_a_nodes_address(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        monkeypatch.setattr(TenantAddresses, "service_to", nothing)
    await service_to(wire, "203.0.113.9")
    assert await accepted(wire) == "True"
    assert (await publish(wire, "203.0.113.9")).status == (403 if defended else 200)
    async with asyncio.timeout(10):
        while await accepted(wire) != str(defended):
            await asyncio.sleep(0.05)


@TWICE
async def test_the_addresses_of_a_pool_as_a_nodes_addresses(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        monkeypatch.setattr(nodeaddresses, "MAX_POOLED", 10_000)
    body: Json = {"apiVersion": CLASSES.api_version, "kind": "SourceIPClass", "metadata": {"name": "partner"}}
    await wire.admin.resource(CLASSES).create({**body, "spec": {"ranges": [{"cidr": "192.0.2.0/27"}]}})
    answer = await publish(wire, *(f"192.0.2.{number}" for number in range(1, 31)))
    assert answer.status == (403 if defended else 200)


@TWICE
def test_a_lease_of_decades(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    """The loss of such a node would never be noticed."""
    if not defended:
        monkeypatch.setattr(heartbeats, "MAX_DURATION", float("inf"))
    clock = ManualClock()
    client = Client(ModelServer(clock=clock).transport(), clock)
    signs = heartbeats.Heartbeats(client, Informers(client), 40.0)
    lease = {"metadata": {"name": "n1"}, "spec": {"renewTime": "t", "leaseDurationSeconds": 2**31 - 1}}
    signs._renewed("n1", msgspec.convert(lease["spec"], heartbeats._Spec))  # pyright: ignore[reportPrivateUsage]
    clock.advance(601)
    assert (signs.silent_in("n1") <= 0) is defended
