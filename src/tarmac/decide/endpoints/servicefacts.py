"""Partial Services and Pods for endpoints: only the needed fields are decoded."""

from __future__ import annotations

import msgspec

from tarmac.api.conditions import find
from tarmac.api.networking.interfaces import decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.partial import Partial, PartialMetadata, PartialStatus
from tarmac.api.shared import IPFamily


class SelectedPort(Partial):
    """A port of the Service. `target_port` is a number, or the name of a container's port."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0
    app_protocol: str | None = None


class ServiceSpec(Partial):
    """The spec of a Service."""

    type: str = "ClusterIP"
    selector: dict[str, str] | None = None
    ports: list[SelectedPort] | None = None
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    ip_families: list[IPFamily] = msgspec.field(name="ipFamilies", default_factory=list[IPFamily])
    publish_not_ready_addresses: bool = False
    traffic_distribution: str = ""


class ServiceFacts(Partial):
    """A Service, with the fields that determine its endpoints."""

    metadata: PartialMetadata
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)

    @property
    def headless(self) -> bool:
        """True if the Service has no cluster address."""
        return self.spec.cluster_ip == "None"

    @property
    def selects(self) -> bool:
        """True if a selector finds its endpoints; otherwise a user or a different controller writes them."""
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
        """Time of the last change of the Ready condition; empty if there is none."""
        ready = find(self.status.conditions, "Ready")
        return (ready and ready.last_transition_time) or ""

    @property
    def going(self) -> bool:
        """True if the pod is terminating."""
        return self.metadata.deletion_timestamp is not None

    def addresses(self, family: IPFamily) -> list[str]:
        """Return the pod's addresses of a family."""
        return [each.ip for each in self.status.pod_ips or () if (":" in each.ip) == (family == "IPv6")]

    def network_of(self, address: str) -> str:
        """Return the Network of an address; empty if it is outside all Networks, like host addresses."""
        text = (self.metadata.annotations or {}).get(ANNOTATION_INTERFACES)
        try:
            interfaces = decode_interfaces(text) if text else []
        except msgspec.MsgspecError:
            return ""
        held = (each for each in interfaces if address in (own.partition("/")[0] for own in each.addresses))
        return next((each.network for each in held), "")

    def named_ports(self) -> dict[tuple[str, str], int]:
        """Return the ports by name and protocol. Of equal names the first counts; sidecars come last."""
        sidecars = [each for each in self.spec.init_containers or () if each.restart_policy == "Always"]
        found: dict[tuple[str, str], int] = {}
        for container in (*self.spec.containers, *sidecars):
            for port in container.ports or ():
                found.setdefault((port.name, port.protocol), port.container_port)
        return found
