"""Evaluates one path rule by rule: the first No ends it, and every line names its rule.

The order is that of the datapath: the sender's routes, Services, policies on the sender, the tunnel to the holder of
the address, and policies on the receiver. Replies always pass and are not evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tarmac.api.compute.explanations import Answer, ExplanationLine, ReachPath
from tarmac.api.compute.names import LABEL_WORKLOAD_NAME
from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.api.networking.names import DIALLED, METADATA_ADDRESS, RESOLVERS, SERVICE_RANGES
from tarmac.api.networking.ports import NODES_OWN
from tarmac.api.networking.tunnels import closed_ways, reports_open
from tarmac.api.schema import JsonObject
from tarmac.decide import reasons
from tarmac.decide.reach.budget import CompilationTooLarge
from tarmac.decide.reach.marks import is_reserved
from tarmac.decide.reach.members import NetworkPod
from tarmac.decide.reach.partialobjects import PolicyFacts
from tarmac.decide.reach.routing import is_within, own_address, own_addresses, way_out
from tarmac.decide.reach.selecting import Labels
from tarmac.decide.reach.world import ReachWorld

_MAX_NAMED: Final = 5

Sees = Callable[[str], bool]
"""Returns True if the caller may see the policies of a namespace."""

_NAME_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class PathWalk:
    """The state of a path evaluation. `lines` grow; each backend of a Service gets a copy."""

    world: ReachWorld
    sees: Sees
    sender: NetworkPod
    protocol: str
    expected: NetworkPod | None = None  # the pod that the question names, if any
    lines: list[ExplanationLine] = field(default_factory=list[ExplanationLine])

    def to(self, address: str, port: int) -> Iterator[ReachPath]:
        """Yield the paths to an address: one, or one for each backend of a Service."""
        interface = way_out(self.sender.interfaces, address)
        source = own_address(interface, address) if interface is not None else None
        if interface is None or source is None:
            yield self._no("", "", address, port, "route", reasons.NO_ROUTE, f"No interface leads to {address}")
            return
        if self._is_always(interface, address):
            origin = (
                "its own" if address in own_addresses(interface) else "reachable from every pod, regardless of policies"
            )
            self._yes("always", f"{address} is {origin}")
            yield self._end(interface.network, source, address, port, "Yes")
            return
        if self.protocol == "UDP" and port in NODES_OWN:
            message = f"UDP port {port} is of the nodes' tunnels, and not let out of pods"
            yield self._no(interface.network, source, address, port, "route", reasons.TUNNEL_PORT, message)
            return
        self._yes("route", f"{interface.name or 'its interface'} on Network {interface.network} leads to {address}")
        yield from self._through_services(interface, source, address, port)

    def _is_always(self, interface: AttachedInterface, address: str) -> bool:
        return address in own_addresses(interface) or address in (*RESOLVERS, METADATA_ADDRESS)

    def _through_services(
        self, interface: AttachedInterface, source: str, address: str, port: int
    ) -> Iterator[ReachPath]:
        network, service = interface.network, self.world.service_at(address)
        if service is None:
            yield self._through_policies(interface, source, address, port)
            return
        ports = self.world.service_ports(network, self.sender.node)
        found = next(
            (each for each in ports if (each.address, each.port, each.protocol) == (address, port, self.protocol)), None
        )
        if found is None:
            is_there = any(each.address == address for each in ports)
            reason = reasons.NO_SUCH_ADDRESS if is_there else reasons.DIFFERENT_NETWORKS
            why = (
                f"has no port {port}/{self.protocol}"
                if is_there
                else f"is not on Network {network}: none of its endpoints is"
            )
            yield self._no(network, source, address, port, "service", reason, f"Service {service.key} {why}")
            return
        if not found.backends:
            message = f"Service {service.key} has no ready endpoint for port {port} on Network {network}"
            yield self._no(network, source, address, port, "service", reasons.NO_READY_ENDPOINT, message)
            return
        for place, behind in found.backends:
            walk = PathWalk(self.world, self.sees, self.sender, self.protocol, None, list(self.lines))
            walk._yes("service", f"Service {service.key} port {port} leads to {_written(place, behind)}")
            yield walk._through_policies(interface, source, place, behind)

    def _through_policies(self, interface: AttachedInterface, source: str, address: str, port: int) -> ReachPath:
        network = interface.network
        if address in own_addresses(interface):  # a Service that leads back to the sender
            self._yes("always", f"{address} is its own")
            return self._end(network, source, address, port, "Yes")
        holder = self.world.holder(network, address)
        if self.expected is not None and (holder is None or _key(holder[0]) != _key(self.expected)):
            message = f"On Network {network}, {address} is not {_title(self.expected)}'s"
            return self._no(network, source, address, port, "route", reasons.DIFFERENT_NETWORKS, message)
        if holder is None and self._is_nobodys(interface, address):
            message = f"Nobody on Network {network} has {address}"
            return self._no(network, source, address, port, "route", reasons.NO_SUCH_ADDRESS, message)
        if holder is not None and not self._tunnel_is_open(holder[0]):
            return self._end(network, source, address, port, "No")
        if not self._passes("egress", self.sender, interface, (address, address, port), holder and holder[0]):
            return self._end(network, source, address, port, "No")
        if holder is None:
            return self._outside(network, source, address, port)
        return self._arrives(network, source, address, port, *holder)

    def _tunnel_is_open(self, holder: NetworkPod) -> bool:
        """Return False if the nodes' last probes found the tunnel closed in one direction: replies need both."""
        here, there = self.sender.node, holder.node
        nodes = [node for name in (here, there) if (node := self.world.node(name)) is not None]
        if here == there or len(nodes) < 2:
            return True
        closed = closed_ways(*nodes)
        if closed:
            ways = [f"{way.port}/udp from node {way.sender} to node {way.receiver}" for way in closed]
            closure = f"{' and '.join(ways)} {'is' if len(ways) == 1 else 'are'} closed"
            change = f"Let {' and '.join(ways)} pass in every firewall between them."
            self._say("No", "tunnel", reasons.TUNNEL_CLOSED, closure, change)
        elif all(map(reports_open, nodes)):
            self._yes("tunnel", f"nodes {here} and {there} find their tunnels open")
        return not closed

    def _is_nobodys(self, interface: AttachedInterface, address: str) -> bool:
        subnets = [each for each in interface.addresses if (":" in each) == (":" in address)]
        own = (*self.world.ranges(interface.network), *subnets, *SERVICE_RANGES, *DIALLED)
        return is_reserved(address) or any(is_within(address, each) for each in own)

    def _arrives(
        self, network: str, source: str, address: str, port: int, holder: NetworkPod, at: AttachedInterface
    ) -> ReachPath:
        if holder.node != self.sender.node and not holder.hosts:
            message = f"The address of node {holder.node} is not known yet"
            self._say("Wait", "route", reasons.NOT_ATTACHED, message)
            return self._end(network, source, address, port, "Wait")
        if not self._passes("ingress", holder, at, (address, source, port), self.sender):
            return self._end(network, source, address, port, "No")
        self._listener(holder, port)
        return self._end(network, source, address, port, "Yes")

    def _outside(self, network: str, source: str, address: str, port: int) -> ReachPath:
        seen = next((each for each in self.sender.hosts if (":" in each) == (":" in address)), "")
        shown = seen or f"an address of node {self.sender.node}"
        self._yes("outside", f"{address} is outside of Network {network}, and sees {shown}")
        return self._end(network, source, address, port, "Yes", seen)

    def permitted_out(self, interface: AttachedInterface, address: str, port: int) -> bool:
        """Return True if policies on the sender allow the connection; add a line."""
        return self._passes("egress", self.sender, interface, (address, address, port), None)

    def _passes(
        self, direction: str, about: NetworkPod, interface: AttachedInterface, ends: tuple[str, str, int],
        other: NetworkPod | None,
    ) -> bool:  # fmt: skip
        """Return True if policies on one end allow the connection. `ends`: its address, its peer's, the port."""
        rules, (_, peer, port) = self.world.rules(about, interface), ends
        allowances = rules.egress if direction == "egress" else rules.ingress
        chosen, too_large = self._chosen(about, interface.network)
        if allowances is None:
            free = (
                f"no policy selects {_key(about)}"
                if not chosen
                else f"no policy limits the {direction} of {_key(about)}"
            )
            self._yes(direction, free)
            return True
        if (allowing := self.world.allowing(allowances, peer, self.protocol, port)) is not None:
            self._yes(direction, f"{self._shown(allowing.origin, about, interface)} allows it")
            return True
        if too_large:
            message = f"The rules about {_key(about)} are more than a node makes: {too_large}"
            self._say("No", direction, _DENIED[direction], message)
            return False
        limiting = [each for each in chosen if (each.limits_ingress if direction == "ingress" else each.limits_egress)]
        named = list(dict.fromkeys(self._policy(each) for each in limiting))
        own = [f"networkPolicy of {_title(about)} {interface.name}"] if interface.policy is not None else []
        some = [*named, *(own if direction == "ingress" else [])]
        more = f" and {len(some) - _MAX_NAMED} more" if len(some) > _MAX_NAMED else ""
        message = f"{', '.join(some[:_MAX_NAMED])}{more} select {_key(about)}, and none allows it"
        if len(some) == 1:
            message = f"{some[0]} selects {_key(about)}, and does not allow it"
        change = self._change(direction, about, interface, peer, port, other, limiting)
        self._say("No", direction, _DENIED[direction], message, change)
        return False

    def _change(
        self, direction: str, about: NetworkPod, interface: AttachedInterface, peer: str, port: int,
        other: NetworkPod | None, limiting: Sequence[PolicyFacts],
    ) -> str:  # fmt: skip
        rule = rule_for(
            other, peer, port, self.protocol, about.namespace, self.world.labels, incoming=direction == "ingress"
        )
        if limiting:
            return f"Add to {self._policy(limiting[0])} spec.{direction}: {rule}"
        return f"Add to networkPolicy.{direction} of {interface.name} in the template of {_owner(about)}: {rule}"

    def _chosen(self, about: NetworkPod, network: str) -> tuple[list[PolicyFacts], str]:
        book = self.world.book(network)
        try:
            chosen = book.selecting(about)
        except CompilationTooLarge as refusal:
            return [], str(refusal)
        return chosen, next(
            (each.partition(": ")[2] for each in book.refusals if each.startswith(f"{_key(about)}: ")), ""
        )

    def _policy(self, policy: PolicyFacts) -> str:
        return policy.title if self.sees(policy.namespace) else f"a policy of {policy.namespace}"

    def _shown(self, origin: str, about: NetworkPod, interface: AttachedInterface) -> str:
        if origin.startswith("networkPolicy"):
            return f"{_title(about)} {interface.name} {origin}"
        return origin if self.sees(about.namespace) else f"a policy of {about.namespace}"

    def _listener(self, holder: NetworkPod, port: int) -> None:
        """Add an informative line about the declared port; a snapshot cannot tell if a process listens."""
        pod = self.world.pod(_key(holder)) or {"spec": {}}
        listed = [each for container in pod["spec"].get("containers") or () for each in container.get("ports") or ()]
        declared = any(
            (each.get("containerPort"), each.get("protocol", "TCP")) == (port, self.protocol) for each in listed
        )
        declaration = f"declares port {port}" if declared else f"declares no port {port}"
        conditions = (pod.get("status") or {}).get("conditions") or ()
        ready = any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
        self._yes("listener", f"{_key(holder)} {declaration}, and is {'ready' if ready else 'not ready'}")

    # --- lines and paths

    def _yes(self, rule: str, message: str) -> None:
        self._say("Yes", rule, reasons.REACHABLE, message)

    def _say(self, answer: Answer, rule: str, reason: str, message: str, change: str = "") -> None:
        text = message[0].upper() + message[1:] if message[:3] == "no " else message
        self.lines.append(ExplanationLine(answer, reason, text + ".", rule, "", "", change))

    def _no(
        self, network: str, source: str, address: str, port: int, rule: str, reason: str, message: str
    ) -> ReachPath:
        self._say("No", rule, reason, message)
        return self._end(network, source, address, port, "No")

    def _end(self, network: str, source: str, address: str, port: int, answer: Answer, seen: str = "") -> ReachPath:
        return ReachPath(network, source, _written(address, port), seen, answer, self.lines)


_DENIED: Final = {"egress": reasons.EGRESS_DENIED, "ingress": reasons.INGRESS_DENIED}


def _written(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _key(member: NetworkPod) -> str:
    return f"{member.namespace}/{member.name}"


def _title(member: NetworkPod) -> str:
    return f"{'Instance' if LABEL_WORKLOAD_NAME in member.labels else 'Pod'} {_key(member)}"


def _owner(member: NetworkPod) -> str:
    workload = member.labels.get(LABEL_WORKLOAD_NAME, "")
    return f"Workload {member.namespace}/{workload}" if workload else _title(member)


def rule_for(
    peer: NetworkPod | None, address: str, port: int, protocol: str, own: str, labels: Callable[[str], Labels],
    *, incoming: bool,
) -> str:  # fmt: skip
    """Return a rule that allows the connection, as JSON, which is also YAML. `own` is the policy's namespace."""
    rule = {"from" if incoming else "to": [_peer(peer, address, own, labels)]}
    return msgspec.json.encode({**rule, "ports": [{"protocol": protocol, "port": port}]}).decode()


def _peer(peer: NetworkPod | None, address: str, own: str, labels: Callable[[str], Labels]) -> JsonObject:
    by_address = {"ipBlock": {"cidr": f"{address}/{128 if ':' in address else 32}"}}
    if peer is None or not peer.labels:
        return by_address
    name = peer.labels.get(LABEL_WORKLOAD_NAME)
    pods = {"podSelector": {"matchLabels": {LABEL_WORKLOAD_NAME: name} if name else dict(peer.labels)}}
    if peer.namespace == own:
        return pods
    if labels(peer.namespace).get(_NAME_LABEL) != peer.namespace:
        return by_address
    return {"namespaceSelector": {"matchLabels": {_NAME_LABEL: peer.namespace}}, **pods}
