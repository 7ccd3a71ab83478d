"""A Service and a Pod as endpoints see them: a few fields, read without the rest."""

from __future__ import annotations

import msgspec

from tarmac.api.conditions import find
from tarmac.api.networking.interfaces import decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.partial import Partial, PartialMetadata, PartialStatus
from tarmac.api.shared import IPFamily


class ServicePort(Partial):
    """A port of the Service. `target_port` is a number, or the name of a container's port."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0
    app_protocol: str | None = None


class ServiceSpec(Partial):
    """What the Service asks for."""

    type: str = "ClusterIP"
    selector: dict[str, str] | None = None
    ports: list[ServicePort] | None = None
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    ip_families: list[IPFamily] = msgspec.field(name="ipFamilies", default_factory=list[IPFamily])
    publish_not_ready_addresses: bool = False
    traffic_distribution: str = ""


class ServiceFacts(Partial):
    """A Service, as far as it decides who answers for it."""

    metadata: PartialMetadata
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)

    @property
    def headless(self) -> bool:
        """Whether it has no address of its own."""
        return self.spec.cluster_ip == "None"

    @property
    def selects(self) -> bool:
        """Whether its addresses are found by labels; otherwise they are somebody else's to write."""
        return bool(self.spec.selector) and self.spec.type != "ExternalName"


class _ContainerPort(Partial):
    container_port: int
    name: str = ""
    protocol: str = "TCP"


class _Container(Partial):
    ports: list[_ContainerPort] | None = None
    restart_policy: str = ""


class _PodSpec(Partial):
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    containers: list[_Container] = msgspec.field(default_factory=list[_Container])
    init_containers: list[_Container] | None = None


class _Address(Partial):
    ip: str


class _PodStatus(PartialStatus):
    pod_ips: list[_Address] | None = msgspec.field(name="podIPs", default=None)


class EndpointPod(Partial):
    """A Pod."""

    metadata: PartialMetadata
    spec: _PodSpec
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)

    @property
    def ready_since(self) -> str:
        """When it became ready, or stopped being so; empty when it has not said."""
        said = find(self.status.conditions, "Ready")
        return (said and said.last_transition_time) or ""

    @property
    def going(self) -> bool:
        """Whether it is on its way out."""
        return self.metadata.deletion_timestamp is not None

    def addresses(self, family: IPFamily) -> list[str]:
        """Its addresses of a family."""
        return [each.ip for each in self.status.pod_ips or () if (":" in each.ip) == (family == "IPv6")]

    def network_of(self, address: str) -> str:
        """The Network an address is on; empty when it is outside all of them, as the host's are."""
        text = (self.metadata.annotations or {}).get(ANNOTATION_INTERFACES)
        try:
            interfaces = decode_interfaces(text) if text else []
        except msgspec.MsgspecError:
            return ""
        held = (each for each in interfaces if address in (own.partition("/")[0] for own in each.addresses))
        return next((each.network for each in held), "")

    def named_ports(self) -> dict[tuple[str, str], int]:
        """Its ports by name and protocol. Of several with one name the first counts, those of sidecars last."""
        sidecars = [each for each in self.spec.init_containers or () if each.restart_policy == "Always"]
        found: dict[tuple[str, str], int] = {}
        for container in (*self.spec.containers, *sidecars):
            for port in container.ports or ():
                found.setdefault((port.name, port.protocol), port.container_port)
        return found
