"""Live connections of an ExternalService: the responses of nodes, and the server's combined response.

A forwarding node knows the pod and the transit address; the node that owns the SourceIP knows the transit address and
the port that the outside sees. The server queries both at `NODE_PATH` and joins their responses by the transit address.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from tarmac.api.compute.explanations import Answered
from tarmac.api.declare import Field, schema_of
from tarmac.api.egress.names import API_VERSION
from tarmac.api.resource import Subresource
from tarmac.api.shared import Protocol

MAX_CONNECTIONS: Final = 1000
NODE_PATH: Final = "/tarmac/v1/external/connections/{namespace}/{name}"
"""Path in a node's own API: GET returns the `NodeConnections` of one ExternalService."""

Direction = Literal["out", "in"]

# A node's response is decoded with these bounds: an extreme value invalidates that response only. Otherwise it would
# break the response to the user, including the data of all other nodes.
_Text = Annotated[str, msgspec.Meta(max_length=400)]
_Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799)]  # until the year 9999


class ForwardedConnection(Answered, frozen=True):
    """A connection of a pod on the responding node. `pod` and `uid` identify it; `since` is in Unix seconds."""

    pod: _Text  # namespace/name
    uid: _Text
    protocol: Protocol
    direction: Direction
    dialled: _Text  # address that the pod dialled; for a connection from outside, the endpoint
    dialled_port: _Port
    target: _Text
    target_port: _Port
    transit: _Text
    transit_port: _Port
    bytes_out: _Bytes = 0
    bytes_in: _Bytes = 0
    since: _Seconds = 0.0


class CarriedConnection(Answered, frozen=True):
    """A connection under a SourceIP that the responding node owns."""

    protocol: Protocol
    transit: _Text
    transit_port: _Port
    target: _Text
    target_port: _Port
    source_ip: _Text
    source_port: _Port


class NodeConnections(Answered, frozen=True):
    """A node's response. At most `MAX_CONNECTIONS` of each; `more`: it left some out."""

    forwarded: list[ForwardedConnection] = []
    carried: list[CarriedConnection] = []
    more: bool = False


class ExternalConnection(Answered, frozen=True):
    """One live connection, from the pod to the server outside or back."""

    pod: Annotated[str, Field("The pod, as namespace/name.")]
    node: Annotated[str, Field("The node that it is on.")]
    protocol: Annotated[Protocol, Field("The transport protocol.")]
    direction: Annotated[Direction, Field("Whether the pod opened it, or the target.")]
    dialled: Annotated[str, Field("Address and port that were dialled.")]
    target: Annotated[str, Field("Address and port of the server outside.")]
    source_ip: Annotated[str, Field("The address that the outside sees; empty when no gateway knows it.")] = (
        msgspec.field(name="sourceIP", default="")
    )
    source_port: Annotated[int, Field("The port that the outside sees.")] = 0
    gateway: Annotated[str, Field("The node that carries the address.")] = ""
    bytes_out: Annotated[int, Field("Bytes to the outside.", format="int64")] = 0
    bytes_in: Annotated[int, Field("Bytes from the outside.", format="int64")] = 0
    since: Annotated[str, Field("Since when.")] = ""


class ExternalConnections(Answered, frozen=True):
    """The live connections of an ExternalService."""

    connections: Annotated[list[ExternalConnection], Field("At most 1000.")] = []
    more: Annotated[bool, Field("Whether there are more.")] = False
    silent: Annotated[list[str], Field("Nodes that should have answered and did not.")] = []


CONNECTIONS = Subresource(
    "connections",
    "ExternalConnections",
    ("get",),
    *API_VERSION.split("/"),
    answer=lambda: schema_of(ExternalConnections),
)
