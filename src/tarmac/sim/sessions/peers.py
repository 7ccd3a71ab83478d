"""Peers of a simulated instance: names as the cluster's DNS knows them, and connections that policies allow.

Whether a connection works is the server's own answer (`why --reach`), so Networks and policies count as on real nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

import msgspec

from tarmac.api.compute.explanations import Reachability
from tarmac.api.compute.names import LABEL_WORKLOAD_NAME
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import PODS, SERVICES
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.sessions.instance import DOMAIN, SimulatedContainer, interfaces_of
from tarmac.sim.sessions.page import refusal, words

_ZONE = tuple(DOMAIN.split("."))


class PeerUnreachable(Exception):
    """The peer cannot be reached. The message is one of wget's, with the reason."""


@dataclass(frozen=True, slots=True)
class Named:
    """An address found for a name, and the target for `why --reach`."""

    address: str
    target: str


class SessionPeers:
    """Finds and asks peers. Reads go through the API, with the rights of simulated nodes."""

    def __init__(self, client: Client, fleet: SimulatedNodes) -> None:
        self._client = client
        self._fleet = fleet
        self._pods = client.resource(PODS)
        self._services = client.resource(SERVICES)

    async def resolve(self, container: SimulatedContainer, name: str) -> Named | None:
        """Return the address of a name or address, or None."""
        try:
            return Named(str(ip_address(name)), str(ip_address(name)))
        except ValueError:
            pass
        if name in ("localhost", container.hostname):
            own = next((address for address, _ in interfaces_of(container.pod)), "127.0.0.1/8")
            return Named(own.partition("/")[0], f"pod/{container.namespace}/{container.pod['metadata']['name']}")
        plain = name.rstrip(".").lower()
        for candidate in (plain, *(f"{plain}.{each}" for each in container.searches)):
            labels = tuple(candidate.split("."))
            if labels[-len(_ZONE) :] == _ZONE and (found := await self._in_zone(labels[: -len(_ZONE)])) is not None:
                return found
        return None

    async def _in_zone(self, labels: tuple[str, ...]) -> Named | None:
        try:
            match labels:
                case (service, namespace, "svc"):
                    spec = (await self._services.get(service, namespace)).get("spec") or {}
                    address = spec.get("clusterIP") or ""
                    return Named(address, f"service/{namespace}/{service}") if address not in ("", "None") else None
                case (instance, workload, namespace, "inst"):
                    return _pod_named(await self._pods.get(instance, namespace), workload)
                case (workload, namespace, "inst"):
                    return self._first_of(namespace, workload)
                case _:
                    return None
        except (ApiError, ClientError):
            return None

    def _first_of(self, namespace: str, workload: str) -> Named | None:
        for pod in self._fleet.pods():
            if pod.namespace == namespace and pod.labels.get(LABEL_WORKLOAD_NAME) == workload and pod.ready:
                return Named(pod.addresses[0], f"pod/{namespace}/{pod.name}") if pod.addresses else None
        return None

    async def fetch(self, container: SimulatedContainer, peer: Named, port: int) -> str:
        """Return the page of a peer. Raises PeerUnreachable."""
        own = container.pod["metadata"]
        if peer.target == f"pod/{own['namespace']}/{own['name']}":
            return _page(container.pod, container.node, container.city, port)
        asked = f"why --reach {peer.target} --port {port}"
        try:
            found = await self._reach(container, peer.target, port)
        except NotFound:
            raise PeerUnreachable("No route to host") from None
        except (ApiError, ClientError) as error:
            raise PeerUnreachable(f"No route to host: {error}") from error
        open_paths = [each for each in found.paths if each.answer == "Yes"]
        if not open_paths:
            raise PeerUnreachable(f"Connection timed out: {found.sentence} (tarmac {asked} pod/{own['name']})")
        for path in open_paths:
            address, _, number = path.target.rpartition(":")
            pod = await self._at(path.network, address.strip("[]"))
            if pod is not None:
                node = self._fleet.nodes[pod["spec"]["nodeName"]]
                return _page(pod, node.name, node.place.city, int(number) if number.isdigit() else port)
        raise PeerUnreachable("Connection refused: nothing simulated listens at that address")

    async def _reach(self, container: SimulatedContainer, target: str, port: int) -> Reachability:
        name, namespace = container.pod["metadata"]["name"], container.namespace
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/why"
        found = await self._client.get_json(path, {"reach": target, "port": str(port)})
        return msgspec.convert(found, Reachability)

    async def _at(self, network: str, address: str) -> JsonObject | None:
        """Return the running pod at an address. Networks may overlap, so the address alone does not identify it."""
        for pod in self._fleet.pods():
            if address in pod.addresses and pod.runs:
                try:
                    found = await self._pods.get(pod.name, pod.namespace)
                except (ApiError, ClientError):
                    continue
                if any(own.partition("/")[0] == address and on == network for own, on in interfaces_of(found)):
                    return found
        return None


def _pod_named(pod: JsonObject, workload: str) -> Named | None:
    metadata = pod["metadata"]
    address = (pod.get("status") or {}).get("podIP")
    if not address or (metadata.get("labels") or {}).get(LABEL_WORKLOAD_NAME) != workload:
        return None
    return Named(address, f"pod/{metadata['namespace']}/{metadata['name']}")


def _page(pod: JsonObject, node: str, city: str, port: int) -> str:
    refused = refusal(pod, port)
    if refused:
        raise PeerUnreachable(refused[:1].upper() + refused[1:])
    return words(pod, node, city, port)
