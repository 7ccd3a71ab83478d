"""PodEndpoint: the fields of pods that other nodes may read, projected by the server from each Pod and never written.

Routes, policies and names need a pod's labels, ports, addresses, node and state. RBAC grants access to whole objects
only, so these fields form an object of their own, with the pod's name and version. Undeclared fields cannot leak: a Pod
is decoded into structs that have only these fields, and encoded from others.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from tarmac.api.columns import NAME, column, join
from tarmac.api.conditions import holds
from tarmac.api.declare import Field, Struct
from tarmac.api.mirrorpods import MIRROR
from tarmac.api.networking.names import ANNOTATION_INTERFACES, API_VERSION
from tarmac.api.resource import Strategy
from tarmac.api.schema import JsonObject
from tarmac.api.shared import COMPUTE_VERSION, LABEL_WORKLOAD_NAME, Kind, ObjectMeta, Protocol

PODS: Final = "core/pods"  # the bucket it is projected from


class EndpointPort(Struct):
    """A port with a name."""

    name: Annotated[str, Field("Its name in policies.")]
    port: Annotated[int, Field("Its number in the pod.")]
    protocol: Annotated[Protocol, Field("Its protocol.")] = "TCP"


class EndpointInterface(Struct):
    """An interface, as far as others have to know it."""

    network: Annotated[str, Field("The Network it is on, as namespace/name.")]
    addresses: Annotated[list[str], Field("Its addresses there, with the length of their subnet.")] = []


class PodEndpoint(Kind):
    """The facts of a Pod that the network of every node needs. The server makes it; clients cannot write it."""

    node: Annotated[str, Field("The node that the pod is bound to.")] = ""
    phase: Annotated[str, Field("Phase of the pod.")] = ""
    ready: Annotated[bool, Field("Whether it is Ready and not about to end.")] = False
    host_network: Annotated[bool, Field("Whether it has its node's own interfaces.")] = False
    workload: Annotated[str, Field("The Workload that it is an instance of, if it is one.")] = ""
    ports: Annotated[list[EndpointPort], Field("Ports of its containers that have names.")] = []
    addresses: Annotated[list[str], Field("Addresses of the pod.")] = []
    node_addresses: Annotated[list[str], Field("Addresses of its node.")] = []
    interfaces: Annotated[list[EndpointInterface], Field("Its interfaces on Networks.")] = []


COLUMNS: Final = (
    NAME,
    column("Ready", ".ready", "Whether it is Ready and not about to end.", type="boolean"),
    column("Phase", ".phase", "Phase of the pod."),
    column("Node", ".node", "Where it is."),
    join("Addresses", ".addresses[*]", "Addresses of the pod."),
)
SELECTABLE: Final = ("node", "phase")


class PodEndpointStrategy(Strategy):
    """Rules of a read-only kind."""

    def selectable_fields(self, obj: JsonObject) -> dict[str, str]:
        """Return node and phase."""
        return {field: obj.get(field, "") for field in SELECTABLE}


class _Partial(msgspec.Struct, rename="camel", gc=False):
    """Some fields of a Pod."""


class _Annotations(_Partial, gc=False):
    mirror: str | None = msgspec.field(name=MIRROR, default=None)
    interfaces: str = msgspec.field(name=ANNOTATION_INTERFACES, default="")


class _Owner(_Partial, gc=False):
    kind: str = ""
    api_version: str = ""
    controller: bool | None = None


class _Metadata(_Partial, gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: _Annotations | None = None
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _Port(_Partial, gc=False):
    container_port: int
    name: str = ""
    protocol: Protocol = "TCP"


class _Container(_Partial, gc=False):
    ports: list[_Port] | None = None


class _Spec(_Partial, gc=False):
    node_name: str = ""
    host_network: bool = False
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None


class _Address(_Partial, gc=False):
    ip: str = ""


class _Condition(_Partial, gc=False):
    type: str
    status: str


class _Status(_Partial, gc=False):
    phase: str = ""
    conditions: list[_Condition] | None = None
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: list[_Address] | None = msgspec.field(name="podIPs", default=None)
    host_ip: str = msgspec.field(name="hostIP", default="")
    host_ips: list[_Address] | None = msgspec.field(name="hostIPs", default=None)


class _Pod(_Partial, gc=False):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode_pod = msgspec.json.Decoder(_Pod).decode
_decode_interfaces = msgspec.json.Decoder(list[EndpointInterface]).decode
_encode = msgspec.json.Encoder().encode
_TAIL: Final = b',"kind":"PodEndpoint","apiVersion":"%b"}' % API_VERSION.encode()


def project(key: str, pod: bytes) -> bytes:
    """Return the PodEndpoint of a stored Pod, in the form a store keeps: without a version, metadata first.

    The mirror of a static pod shows neither labels nor addresses, because no policy and no Service counts it.

    An unreadable Pod, stored by another program, has an endpoint with its name (`key`) and no other data.
    """
    try:
        found = _endpoint(_decode_pod(pod))
    except msgspec.MsgspecError:
        namespace, _, name = key.rpartition("/")
        found = PodEndpoint(ObjectMeta(name, namespace))
    return _encode(found)[:-1] + _TAIL


def _endpoint(pod: _Pod) -> PodEndpoint:
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    mirror = metadata.annotations is not None and metadata.annotations.mirror is not None
    labels = {} if mirror else metadata.labels or {}
    return PodEndpoint(
        ObjectMeta(metadata.name, metadata.namespace, metadata.uid, labels=labels),
        node=spec.node_name,
        phase=status.phase,
        ready=metadata.deletion_timestamp is None and holds(status.conditions, "Ready"),
        host_network=spec.host_network,
        workload=labels.get(LABEL_WORKLOAD_NAME, "") if _is_instance(metadata) else "",
        ports=_ports(spec),
        addresses=[] if mirror else _addresses(status.pod_ips, status.pod_ip),
        node_addresses=_addresses(status.host_ips, status.host_ip),
        interfaces=[] if spec.host_network or mirror else _interfaces(metadata),
    )


def _is_instance(metadata: _Metadata) -> bool:
    """Return True if an Instance controls it. The label alone is no proof: any client can set it."""
    owners = metadata.owner_references or ()
    return any(each.controller and (each.kind, each.api_version) == ("Instance", COMPUTE_VERSION) for each in owners)


def _ports(spec: _Spec) -> list[EndpointPort]:
    """Return the named ports. Of several ports with the same name and protocol, the first counts."""
    found: dict[tuple[str, str], EndpointPort] = {}
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        for port in container.ports or ():
            if port.name:
                made = EndpointPort(port.name, port.container_port, port.protocol)
                found.setdefault((port.name, port.protocol), made)
    return list(found.values())


def _addresses(several: list[_Address] | None, one: str) -> list[str]:
    return [each.ip for each in several] if several else [one] if one else []


def _interfaces(metadata: _Metadata) -> list[EndpointInterface]:
    text = metadata.annotations.interfaces if metadata.annotations else ""
    try:
        return _decode_interfaces(text) if text else []
    except msgspec.MsgspecError:
        return []  # the pod's own node reports the error
