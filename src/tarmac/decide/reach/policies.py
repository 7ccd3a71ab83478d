"""Compiles the rules of each local address from its interface's policy and every NetworkPolicy that selects it.

Semantics are those of Kubernetes' NetworkPolicy: rules only add; a pod that no policy selects is not restricted; a
selected pod is reachable only as stated, and its egress is restricted if one of the policies has egress rules. A pod
peer stands for its addresses on the same network. A port name is resolved by the listening pod: for ingress the
selected pod, for egress each peer.

Pods with the same policies and the same named ports share one `Rules` object, compiled once. A pod with rules that
exceed the rest of the Network's budget is denied everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

import msgspec

from tarmac.api.declare import encode
from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.api.networking.policy import EgressRule, IngressRule, InterfacePolicy, PolicyPeer, PolicyPort
from tarmac.api.shared import LabelSelector
from tarmac.base.selectors import EVERYTHING, LabelMatcher
from tarmac.decide.reach.budget import MAX_RANGES, MAX_RULES, MAX_STEPS, Budget, CompilationTooLarge
from tarmac.decide.reach.members import NetworkPod
from tarmac.decide.reach.partialobjects import PolicyFacts
from tarmac.decide.reach.policyrules import Allowance, PortRange, Rules
from tarmac.decide.reach.selecting import Labelled, Labels, Selecting

DENIED: Final = Rules((), ())

_Peer = tuple[NetworkPod, list[str]]
_Key = tuple[object, ...]


class PolicyBook:
    """The policies of a cluster, compiled for interfaces of one network. `refusals` lists the pods that were denied.

    `members` and namespaces' `labels` are read when a rule first selects pods; ranges and ports do not need them.
    """

    def __init__(
        self,
        network: str,
        policies: Sequence[PolicyFacts],
        members: Iterable[NetworkPod],
        labels: Callable[[str], Labels],
    ) -> None:
        steps = self._steps = Budget(MAX_STEPS, "steps to evaluate selectors")
        self._ranges = Budget(MAX_RANGES, "ranges of addresses and ports")
        self._lines = Budget(MAX_RULES, "different rules")
        self._network = network
        self._members = members
        self._labels = labels
        self._policies = Selecting(
            [
                (policy.namespace, _selector(policy.spec.selector), policy)
                for policy in policies
                if policy.network in ("", network)
            ],
            steps,
        )
        # Keyed by the id of policy parts, which live at least as long as these caches.
        self._found: dict[tuple[str, int], list[_Peer]] = {}
        self._allowed: dict[_Key, list[Allowance]] = {}
        self._rules: dict[_Key, Rules] = {}
        self._own: dict[bytes, InterfacePolicy] = {}
        self.refusals: list[str] = []

    @cached_property
    def _peers(self) -> Labelled[_Peer]:
        """All pods on the network."""
        peers = ((member, addresses) for member in self._members if (addresses := member.addresses(self._network)))
        return Labelled(((peer[0].namespace, peer[0].labels, peer) for peer in peers), self._steps)

    def rules(self, member: NetworkPod, interface: AttachedInterface) -> Rules:
        """Return the rules of an interface's addresses."""
        try:
            return self._worked_out(member, interface)
        except CompilationTooLarge as refusal:
            self.refusals.append(f"{member.namespace}/{member.name}: {refusal}")
            return DENIED

    def selecting(self, member: NetworkPod) -> list[PolicyFacts]:
        """Return the policies that select a pod. Raises CompilationTooLarge."""
        return self._policies.meaning(member.namespace, member.labels)

    def _worked_out(self, member: NetworkPod, interface: AttachedInterface) -> Rules:
        chosen, own = self.selecting(member), self._same(interface.policy)
        ports = tuple(sorted(member.ports.items()))
        key = member.namespace, tuple(id(policy) for policy in chosen), id(own), ports
        if key not in self._rules:
            made = self._made(member, chosen, own)
            allowances = (*(made.ingress or ()), *(made.egress or ()))
            self._lines.spend(len({each.ports for each in allowances}))
            self._ranges.spend(sum(map(_size, allowances)))
            self._rules[key] = made
        return self._rules[key]

    def _same(self, policy: InterfacePolicy | None) -> InterfacePolicy | None:
        """Return the first equal policy, for identity: the interfaces of a deployment each carry a copy."""
        return self._own.setdefault(msgspec.json.encode(policy), policy) if policy is not None else None

    def _made(self, member: NetworkPod, chosen: Sequence[PolicyFacts], own: InterfacePolicy | None) -> Rules:
        ingress = [
            (policy.namespace, rule, f"{policy.title} ingress[{number}]")
            for policy in chosen
            if policy.limits_ingress
            for number, rule in enumerate(policy.spec.ingress)
        ]
        if own is not None:  # shared by equal interfaces, so the origin does not name one
            ingress += [
                (member.namespace, rule, f"networkPolicy.ingress[{number}]") for number, rule in enumerate(own.ingress)
            ]
        limited = any(policy.limits_ingress for policy in chosen) or own is not None
        out = [policy for policy in chosen if policy.limits_egress]
        return Rules(
            self._unique(each for rule in ingress for each in self._let_in(member, *rule)) if limited else None,
            self._unique(
                each
                for policy in out
                for number, rule in enumerate(policy.spec.egress)
                for each in self._let_out(policy, rule, f"{policy.title} egress[{number}]")
            )
            if out
            else None,
        )

    def _let_in(self, member: NetworkPod, namespace: str, rule: IngressRule, origin: str) -> Sequence[Allowance]:
        """Return the ingress allowances of a rule. A port name that the pod does not declare matches no port."""
        self._steps.spend(1 + len(rule.ports))
        named = [
            PortRange(port.protocol, number, number)
            for port in rule.ports
            if isinstance(port.port, str) and (number := member.ports.get((port.port, port.protocol))) is not None
        ]
        ports = (*_numbers(rule.ports), *named) if rule.ports else None
        return self._with(rule.from_, namespace, ports, origin) if ports != () else ()

    def _let_out(self, policy: PolicyFacts, rule: EgressRule, origin: str) -> Iterator[Allowance]:
        """Yield the egress allowances of a rule: to numbered ports, and to each number of a port name among peers."""
        self._steps.spend(1 + len(rule.ports))
        numbers = _numbers(rule.ports)
        if numbers or not rule.ports:
            yield from self._with(rule.to, policy.namespace, numbers or None, origin)
        for port in {(port.port, port.protocol): port for port in rule.ports if isinstance(port.port, str)}.values():
            yield from self._named(rule.to, policy.namespace, port, origin)

    def _named(self, peers: Sequence[PolicyPeer], namespace: str, port: PolicyPort, origin: str) -> Sequence[Allowance]:
        key = id(peers), namespace, port.port, port.protocol
        if key not in self._allowed:
            listening: dict[int, list[str]] = {}
            for member, addresses in self._pods(peers, namespace):
                number = member.ports.get((str(port.port), port.protocol))
                if number is not None:
                    listening.setdefault(number, []).extend(addresses)
            self._allowed[key] = [
                Allowance(_hosts(addresses), ports=(PortRange(port.protocol, number, number),), origin=origin)
                for number, addresses in sorted(listening.items())
            ]
        return self._allowed[key]

    def _with(
        self, peers: Sequence[PolicyPeer], namespace: str, ports: tuple[PortRange, ...] | None, origin: str
    ) -> Sequence[Allowance]:
        key = id(peers), namespace, ports
        if key not in self._allowed:
            self._allowed[key] = list(self._traffic(peers, namespace, ports, origin))
        return self._allowed[key]

    def _traffic(
        self, peers: Sequence[PolicyPeer], namespace: str, ports: tuple[PortRange, ...] | None, origin: str
    ) -> Iterator[Allowance]:
        """Yield the traffic with peers. A range with exceptions gets its own allowance: they apply to it alone."""
        if not peers:
            yield Allowance(ports=ports, origin=origin)
            return
        blocks = [peer.ip_block for peer in peers if peer.ip_block is not None]
        plain = [block.cidr for block in blocks if not block.except_]
        pods = _hosts(address for _, addresses in self._pods(peers, namespace) for address in addresses)
        if plain or pods:
            yield Allowance((*plain, *pods), ports=ports, origin=origin)
        for block in blocks:
            if block.except_:
                yield Allowance((block.cidr,), tuple(block.except_), ports, origin)

    def _pods(self, peers: Sequence[PolicyPeer], namespace: str) -> list[_Peer]:
        """Return the pods among peers; all pods if there are no peers."""
        key = namespace, id(peers)
        if key not in self._found:
            wanted = [peer for peer in peers if peer.ip_block is None]
            meant = (each for peer in wanted for each in self._meant(peer, namespace))
            everybody = self._peers.among(self._peers.namespaces, EVERYTHING) if not peers else meant
            self._found[key] = list({id(each[0]): each for each in everybody}.values())
        return self._found[key]

    def _meant(self, peer: PolicyPeer, namespace: str) -> list[_Peer]:
        pods = _selector(peer.pod_selector) if peer.pod_selector is not None else EVERYTHING
        if peer.namespace_selector is None:
            return self._peers.among((namespace,), pods)
        spaces, present = _selector(peer.namespace_selector), self._peers.namespaces
        self._steps.spend(len(present) * len(spaces.requirements))
        return self._peers.among([each for each in present if spaces.matches(self._labels(each))], pods)

    def _unique(self, allowances: Iterable[Allowance]) -> tuple[Allowance, ...]:
        found: dict[Allowance, None] = {}
        for each in allowances:
            self._steps.spend(_size(each))
            found[each] = None
        return tuple(found)


def _size(allowance: Allowance) -> int:
    return 1 + len(allowance.peers or ()) + len(allowance.excluded) + len(allowance.ports or ())


def _selector(selector: LabelSelector) -> LabelMatcher:
    return LabelMatcher.from_object(encode(selector))


def _numbers(ports: Sequence[PolicyPort]) -> tuple[PortRange, ...]:
    return tuple(
        PortRange(port.protocol, port.port, port.end_port if port.end_port is not None else port.port)
        for port in ports
        if not isinstance(port.port, str)
    )


def _hosts(addresses: Iterable[str]) -> tuple[str, ...]:
    """Return addresses as single-host ranges, sorted so that the result does not depend on discovery order."""
    return tuple(sorted(f"{each}/{128 if ':' in each else 32}" for each in addresses))
