"""The DNS view follows the objects of the API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tarmac.agent.dns.informers import DnsInformers
from tarmac.agent.dns.view import (
    DnsView,
    EndpointRecord,
    ExternalRecord,
    InstanceRecord,
    NetworkAddress,
    PortRecord,
    ServiceRecord,
    SliceRecord,
)
from tarmac.api.networking.names import ANNOTATION_NETWORK
from tarmac.apps.control_plane import local_transport
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.informer import Informers
from tarmac.server.security.users import User
from tests.client import backends
from tests.controllers.harness import Stage


def instance(ready: bool) -> dict[str, Any]:
    nics = [{"network": "default/default", "addresses": ["10.128.0.2/20", "fd20::2/64"]}]
    return {"workload": "web", "ready": ready, "interfaces": nics}


async def test_services_slices_and_instances_come_change_and_go() -> None:
    stage, view = Stage(), DnsView()
    informers = Informers(stage.client)
    following = DnsInformers(informers, view)
    spec = {"clusterIPs": ["10.96.0.9"], "clusterIP": "10.96.0.9", "ports": [{"name": "http", "port": 80}]}
    stage.server.put("services", "web", "default", spec=spec)
    stage.server.put("podendpoints", "web-0", "default", **instance(ready=False))
    stage.server.put("podendpoints", "plain", "default", interfaces=instance(ready=True)["interfaces"])
    async with background(informers.run(), "informers"):
        await stage.settle()
        await following.synced()
        assert view.services == {("default", "web"): ServiceRecord(("10.96.0.9",), (PortRecord("http", "tcp", 80),))}
        ready = {"ready": True}
        stage.server.put(
            "endpointslices",
            "web-1",
            metadata={
                "labels": {"kubernetes.io/service-name": "web"},
                "annotations": {ANNOTATION_NETWORK: "default/default"},
            },
            addressType="IPv4",
            endpoints=[{"addresses": ["10.128.0.2"], "conditions": ready, "hostname": "a"}],
            ports=[{"port": 80}],
        )
        await stage.settle()
        endpoint = EndpointRecord("a", NetworkAddress("default/default", "10.128.0.2"), True)
        assert view.slices == {
            ("default", "web"): {"web-1": SliceRecord("default/default", (PortRecord("", "tcp", 80),), (endpoint,))}
        }
        places = (NetworkAddress("default/default", "10.128.0.2"), NetworkAddress("default/default", "fd20::2"))
        assert view.workloads == {("default", "web"): {"web-0": InstanceRecord(places, ready=False)}}
        stage.server.put("podendpoints", "web-0", "default", **instance(ready=True))
        stage.server.put("services", "web", "default", spec={"type": "ExternalName", "externalName": "example.com"})
        await stage.settle()
        assert view.workloads[("default", "web")]["web-0"].ready
        assert view.services[("default", "web")] == ServiceRecord(external="example.com")
        stage.server.remove("podendpoints", "web-0", "default")
        stage.server.remove("services", "web", "default")
        stage.server.remove("endpointslices", "web-1", "default")
        await stage.settle()
        assert (view.services, view.slices, view.workloads, view.reverse) == ({}, {}, {}, {})


async def test_external_services_come_with_the_ports_that_pods_dial_and_go() -> None:
    stage, view = Stage(), DnsView()
    informers = Informers(stage.client)
    following = DnsInformers(informers, view)
    ports: list[dict[str, Any]] = [
        {"name": "sql", "port": 5432, "targetPort": 8000},
        {"name": "log", "port": 514, "targetPort": "log", "protocol": "UDP"},
    ]
    sources = [{"service": {"name": "web"}, "sourceIPClaim": {"name": "c"}}]
    spec = {"targetIP": "192.0.2.139", "sources": sources, "ports": ports}
    stage.server.put("externalservices", "db", "default", spec=spec)
    async with background(informers.run(), "informers"):
        await stage.settle()
        await following.synced()
        dialled = (PortRecord("sql", "tcp", 8000), PortRecord("log", "udp", 514))
        (waiting,) = view.externals.values()
        assert waiting == ExternalRecord((), dialled, frozenset(), waiting.created)
        assert waiting.created, "the age depends on it"
        status = {"addresses": ["169.254.192.7"], "networks": ["shop/default"]}
        stage.server.put("externalservices", "db", "default", spec=spec, status=status)
        await stage.settle()
        (works,) = view.externals.values()
        assert works[:3] == (("169.254.192.7",), dialled, frozenset({"shop/default"}))
        assert list(view.reverse) == [NetworkAddress("", "169.254.192.7")]
        stage.server.remove("externalservices", "db", "default")
        await stage.settle()
        assert (view.externals, view.reverse, view.external_named("db", ["default/default"])) == ({}, {}, None)


async def test_a_nodes_rights_are_enough(tmp_path: Path) -> None:
    node = User("system:node:n1", groups=("system:nodes", "system:authenticated"))
    async with backends.our_server(tmp_path) as running:
        view = DnsView()
        informers = Informers(Client(local_transport(running.server, node)))
        following = DnsInformers(informers, view)
        async with background(informers.run(), "informers"), asyncio.timeout(5):
            await following.synced()
        assert view.services[("default", "kubernetes")].addresses == ("10.96.0.1",)
