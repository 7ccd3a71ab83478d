"""Live connections of an ExternalService: what nodes answer, and what the server makes of it.

A node that forwards knows the pod and the transit address; the node that carries the SourceIP knows the transit
address and the port that the outside sees. Both are asked at `NODE_PATH`, and joined by the transit address.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from tarmac.api.compute.whyandplan import Answered
from tarmac.api.declare import Field, schema_of
from tarmac.api.resource import Subresource
from tarmac.api.shared import Protocol
from tarmac.api.submariner.names import API_VERSION

MOST_CONNECTIONS: Final = 1000
NODE_PATH: Final = "/tarmac/v1/external/connections/{namespace}/{name}"
"""Of a node's own API: GET answers a `NodeConnections` about one ExternalService."""

Direction = Literal["out", "in"]


class ForwardedConnection(Answered, frozen=True):
    """A connection of a pod on the node that answers. `pod` and `uid` name it; `since` is in Unix seconds."""

    pod: str  # namespace/name
    uid: str
    protocol: Protocol
    direction: Direction
    dialled: str  # address that the pod dialled; of one from outside, the endpoint
    dialled_port: int
    target: str
    target_port: int
    transit: str
    transit_port: int
    bytes_out: int = 0
    bytes_in: int = 0
    since: float = 0.0


class CarriedConnection(Answered, frozen=True):
    """A connection under a SourceIP that the node that answers carries."""

    protocol: Protocol
    transit: str
    transit_port: int
    target: str
    target_port: int
    source_ip: str
    source_port: int


class NodeConnections(Answered, frozen=True):
    """What a node says. At most `MOST_CONNECTIONS` of each; `more`: it left some out."""

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
