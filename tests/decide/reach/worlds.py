"""Small worlds of pods, policies and Services for the network question, and their fake datapaths."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tarmac.agent.network.compiler import NetworkCompiler, NetworkSnapshot
from tarmac.api.compute.explanations import Reachability
from tarmac.api.compute.names import LABEL_WORKLOAD_NAME
from tarmac.api.declare import decode
from tarmac.api.kubernetes.networking.policies import NetworkPolicyStrategy
from tarmac.api.networking.interfaces import AttachedInterface, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES, ANNOTATION_NETWORK
from tarmac.api.networking.network import Network
from tarmac.api.networking.policy import InterfacePolicy
from tarmac.api.schema import JsonObject
from tarmac.datapath.fake import FakeDatapath, FakeUnderlay
from tarmac.datapath.interface import NodeNetworks
from tarmac.decide.addresses import mac_address
from tarmac.decide.reach.members import member_of
from tarmac.decide.reach.partialobjects import decode_service, decode_slice, kubernetes_policy_of, policy_of
from tarmac.decide.reach.question import ReachTarget, question_of
from tarmac.decide.reach.reachability import reachability
from tarmac.decide.snapshot.snapshot import Objects

NET = "shop/default"
NODES = {"n1": "198.18.0.1", "n2": "198.18.0.2"}
PODS, POLICIES, NAMESPACES = "core/pods", "networking.datumapis.com/networkpolicies", "core/namespaces"
KUBERNETES_POLICIES = "networking.k8s.io/networkpolicies"
NETWORKS, SERVICES, SLICES = "networking.datumapis.com/networks", "core/services", "discovery.k8s.io/endpointslices"


def interface(address: str, network: str = NET, policy: JsonObject | None = None, **more: Any) -> AttachedInterface:
    """Return an interface on a /16 of its own, by default with a default route."""
    six = f"fd20:{1 if network == NET else 2}::{address.rpartition('.')[2]}/64"
    return AttachedInterface(
        name=more.get("name", "eth0"),
        network=network,
        vni=4097 if network == NET else 4098,
        mtu=1460,
        mac=mac_address(network, address),
        addresses=[f"{address}/16", *([six] if more.get("six", True) else [])],
        gateways=[
            f"{address.rpartition('.')[0]}.254",
            *([f"{six.rpartition('::')[0]}::fe"] if more.get("six", True) else []),
        ],
        routes=["0.0.0.0/0", "::/0"] if more.get("default", True) else [],
        policy=None if policy is None else decode(InterfacePolicy, policy),
    )


@dataclass
class ReachTown:
    """The objects of a world."""

    objects: dict[str, dict[str, JsonObject]] = field(default_factory=dict[str, dict[str, JsonObject]])

    def add(self, resource: str, obj: JsonObject) -> JsonObject:
        own = obj["metadata"]
        key = f"{own['namespace']}/{own['name']}" if own.get("namespace") else own["name"]
        self.objects.setdefault(resource, {})[key] = obj
        return obj

    def pod(self, name: str, *interfaces: AttachedInterface, node: str = "n1", **more: Any) -> JsonObject:
        namespace = more.get("namespace", "shop")
        self.namespace(namespace)
        labels = {LABEL_WORKLOAD_NAME: name, **more.get("labels", {})} if more.get("instance", True) else more["labels"]
        return self.add(
            PODS,
            {
                "metadata": {
                    "namespace": namespace, "name": name, "uid": f"{namespace}-{name}", "labels": labels,
                    "annotations": {ANNOTATION_INTERFACES: encode_interfaces(interfaces)} if interfaces else {},
                },
                "spec": {"nodeName": node, "containers": [{"name": "c", "ports": more.get("ports", [])}]},
                "status": {
                    "phase": "Running", "hostIP": NODES.get(node, ""), "podIP": more.get("ip", ""),
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )  # fmt: skip

    def namespace(self, name: str) -> None:
        self.add(
            NAMESPACES, {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, "team": name}}}
        )

    def network(self, key: str = NET, four: str = "10.1.0.0/16", six: str = "fd20:1::/48") -> None:
        namespace, _, name = key.partition("/")
        status = {"ipv4Range": four, "ipv6Range": six, "vni": 4097 if key == NET else 4098}
        meta = {"namespace": namespace, "name": name}
        self.add(NETWORKS, {"metadata": meta, "spec": {"ipam": {"mode": "Auto"}}, "status": status})

    def policy(self, name: str, spec: JsonObject, namespace: str = "shop") -> JsonObject:
        return self.add(POLICIES, {"metadata": {"namespace": namespace, "name": name}, "spec": spec})

    def kubernetes_policy(self, name: str, spec: JsonObject, namespace: str = "shop") -> JsonObject:
        """Add a policy in the form that the server stores."""
        obj: JsonObject = {"metadata": {"namespace": namespace, "name": name}, "spec": spec}
        NetworkPolicyStrategy().default(obj)
        return self.add(KUBERNETES_POLICIES, obj)

    def service(self, name: str, address: str, port: int, *backends: tuple[str, int], **more: Any) -> None:
        ports = [{"name": "web", "port": port, "protocol": more.get("protocol", "TCP")}]
        meta = {"namespace": more.get("namespace", "shop"), "name": name}
        self.add(SERVICES, {"metadata": meta, "spec": {"clusterIP": address, "clusterIPs": [address], "ports": ports}})
        numbers = {number for _, number in backends}
        for number in sorted(numbers):
            chosen = [{"addresses": [each], "conditions": {"ready": True}} for each, of in backends if of == number]
            network: str = more.get("network", NET)  # empty: outside all Networks
            own = {
                "namespace": meta["namespace"], "name": f"{name}-{number}",
                "labels": {"kubernetes.io/service-name": name},
                "annotations": {ANNOTATION_NETWORK: network} if network else {},
            }  # fmt: skip
            family = "IPv6" if ":" in address else "IPv4"
            slice_ports = [{"name": "web", "port": number, "protocol": more.get("protocol", "TCP")}]
            self.add(SLICES, {"metadata": own, "addressType": family, "endpoints": chosen, "ports": slice_ports})

    def snapshot(self) -> Objects:
        encoded = {
            resource: {key: msgspec.json.encode(obj) for key, obj in found.items()}
            for resource, found in self.objects.items()
        }
        return Objects(0.0, encoded)

    def ask(self, sender: str, target: str, port: int | str = 80, protocol: str = "", **more: Any) -> Reachability:
        question = question_of(target, str(port), protocol, "shop", both=more.get("both", False))
        sees = more.get("sees", lambda _: True)
        return reachability(self.snapshot(), ReachTarget("pod", "shop", sender), question, sees)

    def compiled(self, node: str) -> NodeNetworks:
        """Return a node's networks, compiled as agents do."""

        def raws(resource: str) -> Sequence[bytes]:
            return [msgspec.json.encode(each) for each in self.objects.get(resource, {}).values()]

        members = [each for raw in raws(PODS) if (each := member_of(raw)) is not None]
        told = NetworkSnapshot(
            members=members,
            networks={key: decode(Network, each) for key, each in self.objects.get(NETWORKS, {}).items()},
            policies=[
                *map(policy_of, raws(POLICIES)),
                *map(kubernetes_policy_of, raws(KUBERNETES_POLICIES)),
            ],
            namespaces={key: each["metadata"]["labels"] for key, each in self.objects.get(NAMESPACES, {}).items()},
            services=[decode_service(raw) for raw in raws(SERVICES)],
            slices=[decode_slice(raw) for raw in raws(SLICES)],
        )
        return NetworkCompiler(node, lambda: 0.0).compile(told, (NODES[node],)).networks

    def datapath(self) -> dict[str, FakeDatapath]:
        """Return fake nodes with these objects applied."""
        underlay = FakeUnderlay()
        nodes = {name: FakeDatapath(underlay) for name in NODES}
        raws = [msgspec.json.encode(each) for each in self.objects.get(PODS, {}).values()]

        async def apply() -> None:
            for each in map(member_of, raws):
                if each is not None:
                    await nodes[each.node].attach(f"{each.namespace}/{each.name}", "", each.interfaces)
            for name, node in nodes.items():
                await node.apply(self.compiled(name))

        asyncio.run(apply())
        return nodes
