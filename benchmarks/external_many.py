"""100 ExternalServices of 30 pods each with 500 addresses, all on one node: the objects that its agent acts on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from ipaddress import ip_network

from tarmac.api.egress.names import API_VERSION, LABEL_NODE, NAMESPACE, forwarder_name
from tarmac.api.networking.interfaces import encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES, DIALLED, TRANSITS
from tarmac.api.schema import JsonObject
from tarmac.client.client import Client
from tarmac.client.targets.untyped import NODES, PODS, SERVICE_ACCOUNTS
from tests.datapath.segment import TARGET
from tests.datapath.worlds import nic

NODE, ADDRESS, NETWORK, VNI = "n1", "198.18.0.1", "default/default", 4097
SERVICES, PODS_EACH, ADDRESSES = 100, 30, 500


async def make_pods(client: Client, placing: Client) -> AsyncGenerator[str]:
    """Create the Pods of the node, by uid. `placing` may set their addresses."""
    await client.resource(NODES).create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    await client.resource(SERVICE_ACCOUNTS).create(account)
    for number in range(PODS_EACH):
        link = nic(NETWORK, f"{pod_address(number)}/20", vni=VNI)
        spec: JsonObject = {
            "nodeName": NODE,
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
            "automountServiceAccountToken": False,
        }
        annotations = {ANNOTATION_INTERFACES: encode_interfaces([link])}
        metadata = {"name": f"web-{number}", "namespace": "default", "annotations": annotations}
        made = await placing.resource(PODS).create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        )
        status = {"phase": "Running", "podIP": pod_address(number), "podIPs": [{"ip": pod_address(number)}]}
        await client.resource(PODS).patch(f"web-{number}", {"status": status}, "default", subresource="status")
        yield made["metadata"]["uid"]


def pod_address(number: int) -> str:
    return f"10.128.0.{10 + number}"


def _source(number: int) -> str:
    return str(ip_network("192.168.124.0/22")[10 + number])  # not used by any host of the segment


def _transit(number: int) -> str:
    return str(ip_network(TRANSITS[0])[10 + number])


def gateways() -> Iterator[JsonObject]:
    """Return one for each address; each ExternalService has the same number."""
    me = {"name": NODE, "address": ADDRESS, "city": "DFW"}
    for number in range(ADDRESSES):
        rule = {
            "sourceip": _transit(number),
            "destinationip": TARGET,
            "destinationport": 8000,
            "forwarderip": ADDRESS,
            "forwarder": {"name": forwarder_name("default", f"s{number % SERVICES}", NODE), "namespace": NAMESPACE},
        }
        subnet = {"prefixLength": 21, "interface": "outside0"}
        spec = {"gatewayip": _source(number), "mark": number + 1, "subnet": subnet, "egressrules": [rule]}
        metadata = {"name": _source(number), "namespace": NAMESPACE}
        yield _object("Gateway", metadata, {**spec, "candidates": [me], "voters": [me], "senders": [me]})


def forwarders(uids: Iterable[str]) -> Iterator[JsonObject]:
    """Return one for each ExternalService; all Pods are sources of each."""
    pods = list(enumerate(uids))
    for number in range(SERVICES):
        rules = [
            {
                "protocol": "TCP",
                "sourceip": pod_address(place),
                "targetport": 8000,
                "destinationip": TARGET,
                "destinationport": 8000,
                "gateway": {"name": _source(address), "namespace": NAMESPACE},
                "gatewayip": _source(address),
                "pod": uid,
                "network": NETWORK,
                "transitip": _transit(address),
                "mark": address + 1,
            }
            for place, uid in pods
            for address in [_address(number, place)]
        ]
        name = forwarder_name("default", f"s{number}", NODE)
        labels = {"submariner.io/namespace": "default", "submariner.io/external-service": f"s{number}"}
        owner = {"namespace": "default", "name": f"s{number}", "uid": f"s{number}"}
        dialled = str(ip_network(DIALLED[0])[10 + number])
        spec = {"externalService": owner, "nodeName": NODE, "forwarderip": ADDRESS, "serviceip": dialled}
        metadata = {"name": name, "namespace": NAMESPACE, "labels": {**labels, LABEL_NODE: NODE}}
        yield _object("Forwarder", metadata, {**spec, "egressrules": rules})


def _address(service: int, pod: int) -> int:
    """Return the source address of a Pod for an ExternalService."""
    return service + pod % (ADDRESSES // SERVICES) * SERVICES


def _object(kind: str, metadata: JsonObject, spec: JsonObject) -> JsonObject:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
