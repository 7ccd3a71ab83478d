"""The datapath's contract: the desired state of a node's networks, and the calls that realize it.

`NodeNetworks` is the whole desired state of a node except for the pods' own ends, and `apply` realizes it by replacing
the differences; it is idempotent and safe after kill -9 at any point. A pod's ends come and go with its sandbox:
`attach` from the CNI call, `detach` by sandbox id. `sweep` removes links without a live sandbox. A virtual machine has
taps instead of links into a namespace (`attach_taps`, `open_tap`); everything else is the same for both.

Each Network has a router namespace of its own on each node, so that overlapping ranges never meet: it holds the host
ends of the pods' links, the tunnel, policy and service rules, and is the origin of probes and port-forwards.

The node is outside of them all. Packets that it sends into a network, for itself or from one of its ports, have an
address that represents the node in every network, and rules apply to it as to any other.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.datapath.egress import EgressDatapath, InstanceTunnels, Means
from tarmac.datapath.ingress import IngressDatapath
from tarmac.decide.reach.policyrules import Rules, ServiceFrontend

HOST: Final = ""
"""Key in `apply`'s failures for the node's own part, which belongs to no network."""

ROUTER: Final = "fe80::74:61ff:fe72:6d63"
"""The router's link-local address on every link of a machine: its IPv6 default gateway."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Addresses (networks in CIDR notation) behind another node's tunnel end."""

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
    """Desired state of one Network on this node. `rules` by local address."""

    name: str  # namespace/name
    vni: int
    mtu: int
    ranges: tuple[str, ...] = ()  # the network's own: an unused address in these ranges is not searched elsewhere
    remotes: tuple[Remote, ...] = ()
    rules: Mapping[str, Rules] = field(default_factory=dict[str, Rules])
    services: tuple[ServiceFrontend, ...] = ()
    internet: bool = True  # packets that leave the network are masqueraded behind the node
    pods: Mapping[str, str] = field(default_factory=dict[str, str])  # uid by local address, for `rules`
    host_ports: tuple[HostPort, ...] = ()
    from_node: tuple[str, ...] = ()  # addresses of services that the node itself uses in this network

    @property
    def weight(self) -> int:
        """Cost for the kernel: ranges, backends, addresses. Rules that several addresses share count once."""
        rules = {id(each): each for each in self.rules.values()}.values()
        allowances = [each for rule in rules for each in (*(rule.ingress or ()), *(rule.egress or ()))]
        ranges = sum(1 + len(each.peers or ()) + len(each.excluded) for each in allowances)
        backends = sum(1 + len(port.backends) for port in self.services)
        return ranges + backends + len(self.rules) + sum(len(remote.prefixes) for remote in self.remotes)


@dataclass(frozen=True, slots=True)
class NodeNetworks:
    """Every Network on this node, and the services outside all of them, which the node uses itself."""

    node_addresses: tuple[str, ...]
    networks: tuple[NetworkState, ...] = ()
    services: tuple[ServiceFrontend, ...] = ()
    tunnels: InstanceTunnels = field(default_factory=InstanceTunnels)


@dataclass(frozen=True, slots=True)
class Attached:
    """The created interfaces in order; for machines with the hardware address and MTU that their guests must use."""

    interfaces: tuple[AttachedInterface, ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that a machine received and sent."""

    received: int = 0
    transmitted: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.received + other.received, self.transmitted + other.transmitted)


def ignore(_: NetworkState) -> None:
    """Does nothing: for callers that only need the result."""


class TunnelEncryption(Protocol):
    """Encrypts the tunnels of a node, those of networks and that of external services."""

    @property
    def failed(self) -> str:
        """Reason why wanted encryption fails; empty if it works or is not wanted."""
        ...

    async def means(self) -> Means:
        """Return the available means of encrypting tunnels, as tested."""
        ...

    async def mend(self) -> bool:
        """Recreate the link if it is lost. Return True if it was. Cheap otherwise."""
        ...


class Datapath(Protocol):
    """Implements networks on one node."""

    @property
    def tunnels(self) -> TunnelEncryption:
        """Encryption of its tunnels."""
        ...

    @property
    def external(self) -> EgressDatapath:
        """Routes of its pods to servers outside the platform, and back."""
        ...

    @property
    def ingress(self) -> IngressDatapath:
        """Routes from clients outside to its pods."""
        ...

    async def attach(self, sandbox_id: str, namespace: str, interfaces: Sequence[AttachedInterface]) -> Attached:
        """Create the pod's links in the network namespace at the path `namespace`. Idempotent."""
        ...

    async def attach_taps(self, sandbox_id: str, interfaces: Sequence[AttachedInterface]) -> Attached:
        """Create a machine's links, each a tap that stays until `detach`. Idempotent, also for taps in use."""
        ...

    async def open_tap(self, sandbox_id: str, position: int, *, further: bool = False) -> io.FileIO:
        """Open the tap of a machine's interface, counted from 0: frames, each behind a virtio header (10 bytes).

        One process at a time can use it; the file is closed with its last reference. With `further`, open one more
        queue of a tap that is open: the kernel spreads connections over its queues. Raises OSError: ENODEV if there is
        no tap, EBUSY while another process has it open, or if it has no further queue.
        """
        ...

    async def traffic(self) -> Mapping[str, Traffic]:
        """Return the bytes of each machine since its taps were created, by sandbox, from the guest's point of view."""
        ...

    async def detach(self, sandbox_id: str) -> None: ...
    async def apply(
        self, state: NodeNetworks, *, verify: bool = True, made: Callable[[NetworkState], None] = ignore
    ) -> Mapping[str, Exception]:
        """Make the node's networks match the state, each independently; return the failures by network.

        `made` is called with each network as soon as it is in force. An OSError means that the node could not, and may
        later; any other exception, that the wanted state is impossible: the previous state is in force then. Without
        `verify`, unchanged parts are assumed to be in place. An exception means that networks could not be
        isolated on the node: then none is applied.
        """
        ...

    async def sweep(self, live: Set[str]) -> Sequence[str]:
        """Remove links that belong to none of the sandboxes in `live`; return the ids of the removed sandboxes."""
        ...

    async def has_rules_about(self, pod: str, interfaces: Sequence[AttachedInterface]) -> bool:
        """Return True if rules for this pod (its uid) are in force at all its addresses, also from an earlier agent."""
        ...

    async def connect(self, network: str, address: str, port: int, timeout: float) -> socket.socket:
        """Return a connected, non-blocking TCP socket inside the network's router namespace."""
        ...

    async def bind(self, network: str, address: str, port: int, kind: Literal["tcp", "udp"]) -> socket.socket:
        """Return a listening socket inside the network's router namespace (DNS, metadata)."""
        ...

    def sandboxes(self) -> Set[str]:
        """Return the known sandboxes that have links."""
        ...

    def sandbox_of(self, network: str, interface_index: int) -> str | None:
        """Return the sandbox behind a link of a router namespace: identifies clients of platform services.

        Empty if it is the node itself, None if unknown.
        """
        ...

    async def close(self) -> None: ...
    async def remove_all(self) -> None:
        """Remove everything."""
        ...
