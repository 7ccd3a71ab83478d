"""The datapath's contract: what a node's networks should be, and the calls that make them so.

`NodeNetworks` is the whole desired state of a node but for the pods' own ends, and `apply` makes it true by replacing
what differs; it is idempotent and safe after kill -9 at any point. A pod's ends come and go with its sandbox: `attach`
from the CNI call, `detach` by sandbox id. `sweep` removes what belongs to no sandbox that lives. A virtual machine has
taps where a pod has links into its namespace (`attach_taps`, `open_tap`); everything else is the same for both.

Each Network has a router namespace of its own on each node, so that overlapping ranges never meet: it holds the host
ends of the pods' links, the tunnel, policy and service rules, and is where probes and port-forwards dial from.

The node is outside of them all. What it sends into a network, for itself or from one of its ports, comes there from an
address that stands for the node in every network, and rules are asked about that as about any other.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.datapath.external import ExternalDatapath
from tarmac.decide.reach.allowances import Rules, ServicePort

HOST: Final = ""
"""Where `apply` reports failures of the node's own part, which belong to no network."""

ROUTER: Final = "fe80::74:61ff:fe72:6d63"
"""The router's link-local address on every link of a machine: the way to everywhere, by IPv6."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Addresses (networks in CIDR notation) that live behind another node's tunnel end."""

    node_address: str
    prefixes: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port of the node that leads to a pod: at one of the node's addresses, or at all of the pod's family."""

    protocol: Literal["TCP", "UDP", "SCTP"]
    port: int
    backend: tuple[str, int]
    address: str = ""


@dataclass(frozen=True, slots=True)
class NetworkState:
    """One Network as this node should have it. `rules` by local address."""

    name: str  # namespace/name
    vni: int
    mtu: int
    ranges: tuple[
        str, ...
    ] = ()  # what is the network's own: an address of these that nobody has is not looked for elsewhere
    remotes: tuple[Remote, ...] = ()
    rules: Mapping[str, Rules] = field(default_factory=dict[str, Rules])
    services: tuple[ServicePort, ...] = ()
    internet: bool = True  # what leaves the network is masqueraded behind the node
    pods: Mapping[str, str] = field(default_factory=dict[str, str])  # whom `rules` are about: uid by local address
    host_ports: tuple[HostPort, ...] = ()
    from_node: tuple[str, ...] = ()  # addresses of services that the node itself looks for in this network

    @property
    def weight(self) -> int:
        """How much it is for a kernel to take: ranges, backends, addresses. Rules that many have count once."""
        rules = {id(each): each for each in self.rules.values()}.values()
        allowances = [each for rule in rules for each in (*(rule.ingress or ()), *(rule.egress or ()))]
        ranges = sum(1 + len(each.peers or ()) + len(each.excluded) for each in allowances)
        backends = sum(1 + len(port.backends) for port in self.services)
        return ranges + backends + len(self.rules) + sum(len(remote.prefixes) for remote in self.remotes)


@dataclass(frozen=True, slots=True)
class NodeNetworks:
    """Every Network that is on this node, and the services outside all of them, which the node reaches by itself."""

    node_addresses: tuple[str, ...]
    networks: tuple[NetworkState, ...] = ()
    services: tuple[ServicePort, ...] = ()


@dataclass(frozen=True, slots=True)
class Attached:
    """What was made, in order; of machines with the hardware address and packet size that their guests must use."""

    interfaces: tuple[AttachedInterface, ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that a machine received and sent."""

    received: int = 0
    transmitted: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.received + other.received, self.transmitted + other.transmitted)


def ignore(_: NetworkState) -> None:
    """For those who only want the end."""


class Datapath(Protocol):
    """Makes networks real on one node."""

    @property
    def external(self) -> ExternalDatapath:
        """The ways of its pods to servers outside the platform, and back."""
        ...

    async def attach(self, sandbox_id: str, namespace: str, interfaces: Sequence[AttachedInterface]) -> Attached:
        """Make the pod's links in the network namespace at the path `namespace`. Doing it again changes nothing."""
        ...

    async def attach_taps(self, sandbox_id: str, interfaces: Sequence[AttachedInterface]) -> Attached:
        """Make a machine's links, each a tap that stays until `detach`. Doing it again disturbs nobody who uses one."""
        ...

    async def open_tap(self, sandbox_id: str, position: int) -> io.FileIO:
        """The tap of an interface of a machine, counted from 0: frames, each behind a header of virtio (10 bytes).

        One process at a time has it; the file closes itself when nobody has a hold of it. Raises OSError: ENODEV where
        there is none, EBUSY while somebody has it open.
        """
        ...

    async def traffic(self) -> Mapping[str, Traffic]:
        """What went through the taps of each machine since they were made, by sandbox, as its guest counts it."""
        ...

    async def detach(self, sandbox_id: str) -> None: ...
    async def apply(
        self, state: NodeNetworks, *, verify: bool = True, made: Callable[[NetworkState], None] = ignore
    ) -> Mapping[str, Exception]:
        """Make the node's networks so, each whatever becomes of the others; the failures by network.

        `made` is told of each as soon as it is so. An OSError means that the node could not, and may later; anything
        else, that what was asked for cannot be: what the network was before is in force then. Without `verify`, what
        did not change since it was made is taken to be there. Raises when networks could not be kept apart on the node:
        then none is made.
        """
        ...

    async def sweep(self, live: Set[str]) -> Sequence[str]:
        """Remove what belongs to none of the sandboxes in `live`; the ids of those it removed."""
        ...

    async def has_rules_about(self, pod: str, interfaces: Sequence[AttachedInterface]) -> bool:
        """Whether rules are in force about this very pod (its uid) at all its addresses, whoever put them there."""
        ...

    async def connect(self, network: str, address: str, port: int, timeout: float) -> socket.socket:
        """A connected, non-blocking TCP socket made inside the network's router namespace."""
        ...

    async def bind(self, network: str, address: str, port: int, kind: Literal["tcp", "udp"]) -> socket.socket:
        """A listening socket inside the network's router namespace (DNS, metadata)."""
        ...

    def sandboxes(self) -> Set[str]:
        """The sandboxes that have links, as far as is known."""
        ...

    def sandbox_of(self, network: str, interface_index: int) -> str | None:
        """The sandbox behind a link of a router namespace: how platform services know their callers.

        Empty when the node itself is behind it, None when nobody is known to be.
        """
        ...

    async def close(self) -> None: ...
    async def remove_all(self) -> None:
        """Leave nothing behind."""
        ...
