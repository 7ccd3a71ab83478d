"""An instance reads the outside addresses that it may dial, and its source address there, from its own node's rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tarmac.agent.metadata.egressmetadata import PodEgress
from tarmac.api.egress.names import LABEL_NODE, NAMESPACE
from tarmac.apps.control_plane import local_transport
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.informer import Informers
from tarmac.server.security.users import User
from tests.client import backends
from tests.controllers.harness import Stage


def rule(pod: str, port: int, **more: Any) -> dict[str, Any]:
    server = {"destinationip": "192.0.2.139", "destinationport": 5432, "gatewayip": "192.0.2.200"}
    return {"pod": pod, "sourceip": "10.128.0.2", "targetport": port, **server, **more}


def forwarder(stage: Stage, name: str, node: str, dialled: str, *rules: dict[str, Any]) -> None:
    spec = {
        "externalService": {"namespace": "default", "name": name, "uid": f"uid of {name}"},
        "nodeName": node,
        "serviceip": dialled,
        "egressrules": list(rules),
    }
    labels = {LABEL_NODE: node}
    stage.server.put("forwarders", f"default.{name}.{node}", NAMESPACE, metadata={"labels": labels}, spec=spec)


def told(name: str, dial: str, target: str = "192.0.2.139:5432", protocol: str = "TCP") -> dict[str, str]:
    own = {"externalService": f"default/{name}", "protocol": protocol, "dial": dial}
    return {**own, "target": target, "sourceIP": "192.0.2.200"}


async def test_each_port_of_each_service_and_nothing_of_other_pods_and_nodes() -> None:
    stage = Stage()
    informers = Informers(stage.client)
    egress = PodEgress(informers, "n1")
    six = rule("p1", 53, protocol="UDP", destinationip="2001:db8::1", destinationport=53)
    forwarder(stage, "db", "n1", "169.254.192.7", rule("p2", 8000), rule("p1", 8000))
    forwarder(stage, "names", "n1", "fd74:6172:6d63:fffc::7", six)
    forwarder(stage, "elsewhere", "n2", "169.254.192.9", rule("p1", 8000))
    async with background(informers.run(), "informers"):
        await stage.settle()
        first = told("db", "169.254.192.7:8000")
        second = told("names", "[fd74:6172:6d63:fffc::7]:53", "[2001:db8::1]:53", "UDP")
        assert egress.of("p1") == [first, second]
        assert egress.of("p2") == [first]
        assert egress.of("p3") == []
        stage.server.remove("forwarders", "default.db.n1", NAMESPACE)
        await stage.settle()
        assert egress.of("p1") == [second]
        assert egress.of("p2") == []


async def test_a_nodes_rights_are_enough(tmp_path: Path) -> None:
    node = User("system:node:n1", groups=("system:nodes", "system:authenticated"))
    async with backends.our_server(tmp_path) as running:
        informers = Informers(Client(local_transport(running.server, node)))
        egress = PodEgress(informers, "n1")
        async with background(informers.run(), "informers"):
            await informers.synced()
        assert egress.of("p1") == []
