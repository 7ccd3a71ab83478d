"""What each local address may take part in, by the rules of its interface and of every NetworkPolicy that selects it.

Semantics are those of Kubernetes' NetworkPolicy: rules only add; a pod that no policy selects is not restricted; one
that any selects may be reached only as stated, and may go out only as stated if one of them speaks of egress. Pods mean
their addresses on the same network. A port's name means what the pod that listens calls so: for ingress the selected
pod, for egress each peer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tarmac.agent.network.compiling.facts import Policy
from tarmac.agent.network.compiling.members import Member
from tarmac.api.declare import encode
from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.api.networking.policy import EgressRule, IngressRule, PolicyPeer, PolicyPort
from tarmac.api.shared import LabelSelector as SelectorObject
from tarmac.base.selectors import EVERYTHING, LabelSelector
from tarmac.datapath.interface import Allowance, Ports, Rules

Labels = Mapping[str, str]
_Peer = tuple[Member, list[str]]


class PolicyBook:
    """The policies of a cluster, asked about interfaces of one network."""

    def __init__(
        self, network: str, policies: Sequence[Policy], members: Sequence[Member], namespaces: Mapping[str, Labels]
    ) -> None:
        self._members = [(member, member.addresses(network)) for member in members]
        self._namespaces = namespaces
        self._policies = [
            (policy, _selector(policy.spec.selector))
            for policy in policies
            if not policy.spec.network or f"{policy.namespace}/{policy.spec.network}" == network
        ]
        self._found: dict[tuple[str, tuple[int, ...]], list[_Peer]] = {}

    def rules(self, member: Member, interface: AttachedInterface) -> Rules:
        """What the addresses of an interface may take part in."""
        chosen = [
            policy
            for policy, selector in self._policies
            if policy.namespace == member.namespace and selector.matches(member.labels)
        ]
        ingress = [(policy.namespace, rule) for policy in chosen for rule in policy.spec.ingress]
        if interface.policy is not None:
            ingress += [(member.namespace, rule) for rule in interface.policy.ingress]
        limited = bool(chosen) or interface.policy is not None
        out = [policy for policy in chosen if policy.limits_egress]
        return Rules(
            _unique(each for namespace, rule in ingress for each in self._let_in(member, namespace, rule))
            if limited
            else None,
            _unique(each for policy in out for rule in policy.spec.egress for each in self._let_out(policy, rule))
            if out
            else None,
        )

    def _let_in(self, member: Member, namespace: str, rule: IngressRule) -> Iterator[Allowance]:
        """What a rule lets in. A name that the pod does not know means no port."""
        named = [
            Ports(port.protocol, number, number)
            for port in rule.ports
            if isinstance(port.port, str) and (number := member.ports.get((port.port, port.protocol))) is not None
        ]
        ports = (*_numbers(rule.ports), *named) if rule.ports else None
        if ports != ():
            yield from self._with(rule.from_, namespace, ports)

    def _let_out(self, policy: Policy, rule: EgressRule) -> Iterator[Allowance]:
        """What a rule lets out: to numbers, and to every number that a name has among the peers."""
        numbers = _numbers(rule.ports)
        if numbers or not rule.ports:
            yield from self._with(rule.to, policy.namespace, numbers or None)
        for port in rule.ports:
            if isinstance(port.port, str):
                listening: dict[int, list[str]] = {}
                for member, addresses in self._pods(rule.to, policy.namespace):
                    number = member.ports.get((port.port, port.protocol))
                    if number is not None:
                        listening.setdefault(number, []).extend(addresses)
                for number, addresses in sorted(listening.items()):
                    yield Allowance(_hosts(addresses), ports=(Ports(port.protocol, number, number),))

    def _with(
        self, peers: Sequence[PolicyPeer], namespace: str, ports: tuple[Ports, ...] | None
    ) -> Iterator[Allowance]:
        """Traffic with peers. A range with holes stands alone: they are not holes in the others."""
        if not peers:
            yield Allowance(ports=ports)
            return
        blocks = [peer.ip_block for peer in peers if peer.ip_block is not None]
        plain = [block.cidr for block in blocks if not block.except_]
        pods = _hosts(address for _, addresses in self._pods(peers, namespace) for address in addresses)
        if plain or pods:
            yield Allowance((*plain, *pods), ports=ports)
        for block in blocks:
            if block.except_:
                yield Allowance((block.cidr,), tuple(block.except_), ports)

    def _pods(self, peers: Sequence[PolicyPeer], namespace: str) -> list[_Peer]:
        """The pods among peers; every one when there are no peers."""
        key = namespace, tuple(id(peer) for peer in peers)
        if key not in self._found:
            wanted = [self._meant(peer, namespace) for peer in peers if peer.ip_block is None]
            self._found[key] = [
                each for each in self._members if each[1] and (not peers or any(meant(each[0]) for meant in wanted))
            ]
        return self._found[key]

    def _meant(self, peer: PolicyPeer, namespace: str) -> Callable[[Member], bool]:
        pods = _selector(peer.pod_selector) if peer.pod_selector is not None else EVERYTHING
        if peer.namespace_selector is None:
            return lambda member: member.namespace == namespace and pods.matches(member.labels)
        spaces = _selector(peer.namespace_selector)
        return lambda member: spaces.matches(self._namespaces.get(member.namespace, {})) and pods.matches(member.labels)


def _selector(selector: SelectorObject) -> LabelSelector:
    return LabelSelector.from_object(encode(selector))


def _numbers(ports: Sequence[PolicyPort]) -> tuple[Ports, ...]:
    return tuple(
        Ports(port.protocol, port.port, port.end_port if port.end_port is not None else port.port)
        for port in ports
        if not isinstance(port.port, str)
    )


def _hosts(addresses: Iterable[str]) -> tuple[str, ...]:
    """Addresses as ranges of one, in an order that does not depend on who was found first."""
    return tuple(sorted(f"{each}/{128 if ':' in each else 32}" for each in addresses))


def _unique(allowances: Iterable[Allowance]) -> tuple[Allowance, ...]:
    return tuple(dict.fromkeys(allowances))
