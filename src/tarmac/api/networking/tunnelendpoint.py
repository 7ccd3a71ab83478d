"""TunnelEndpoint: the part of a Node that other nodes need for their tunnels to it, projected by the server.

Nodes may not read each other's Nodes. The projection has the Node's name and version, is never written, and changes
only when one of these fields does, so that a thousand nodes can watch it while Nodes report their status.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from tarmac.api.columns import NAME, column, join
from tarmac.api.conditions import holds
from tarmac.api.declare import Field
from tarmac.api.networking.names import API_VERSION, LABEL_LOCATION
from tarmac.api.networking.tunnels import ANNOTATION_TUNNEL, read_tunnel
from tarmac.api.shared import Kind, ObjectMeta

NODES: Final = "core/nodes"
"""The bucket it is projected from."""


class TunnelEndpoint(Kind):
    """The tunnel end of a node. The server makes it from the Node; it cannot be written."""

    addresses: Annotated[list[str], Field("Addresses of the node, at which its tunnels end.")] = []
    location: Annotated[str, Field("The Location of the node.")] = ""
    ready: Annotated[bool, Field("Whether the node is Ready.")] = False
    probes: Annotated[bool, Field("Whether its agent answers tunnel probes.")] = False
    encryption: Annotated[
        str, Field("Its means of encryption: kernel, userspace or none; empty if its agent is older than encryption.")
    ] = ""
    public_key: Annotated[str, Field("Its public key for encrypted tunnels, in base64.")] = ""


COLUMNS: Final = (
    NAME,
    column("Ready", ".ready", "Whether the node is Ready.", type="boolean"),
    column("Location", ".location", "The Location of the node."),
    join("Addresses", ".addresses[*]", "Addresses of the node."),
)


class _Partial(msgspec.Struct, rename="camel", gc=False):
    """Some fields of a Node."""


class _Metadata(_Partial, gc=False):
    name: str
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Condition(_Partial, gc=False):
    type: str
    status: str


class _Address(_Partial, gc=False):
    type: str = ""
    address: str = ""


class _Status(_Partial, gc=False):
    conditions: list[_Condition] | None = None
    addresses: list[_Address] | None = None


class _Node(_Partial, gc=False):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


_decode_node = msgspec.json.Decoder(_Node).decode
_encode = msgspec.json.Encoder().encode
_TAIL: Final = b',"kind":"TunnelEndpoint","apiVersion":"%b"}' % API_VERSION.encode()


def project(key: str, node: bytes) -> bytes:
    """Return the TunnelEndpoint of a stored Node, in the form a store keeps: without a version, metadata first.

    A Node that cannot be read has an endpoint without addresses.
    """
    try:
        found = _endpoint(_decode_node(node))
    except msgspec.MsgspecError:
        found = TunnelEndpoint(ObjectMeta(key))
    return _encode(found)[:-1] + _TAIL


def _endpoint(node: _Node) -> TunnelEndpoint:
    metadata, status = node.metadata, node.status
    tunnel = read_tunnel((metadata.annotations or {}).get(ANNOTATION_TUNNEL, ""))
    return TunnelEndpoint(
        ObjectMeta(metadata.name, "", metadata.uid),
        addresses=[each.address for each in status.addresses or () if each.type == "InternalIP"],
        location=(metadata.labels or {}).get(LABEL_LOCATION, ""),
        ready=holds(status.conditions, "Ready"),
        probes=tunnel.probes,
        encryption=tunnel.encryption,
        public_key=tunnel.public_key,
    )
