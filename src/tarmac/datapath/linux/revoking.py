"""Finds tracked connections that rules no longer allow. Pure.

Rules apply only to the first packet of a connection. When they change, connections that began under the old rules are
evaluated again, with the address that answers after translation as their destination. Connections to a service with a
removed backend end by themselves, except for UDP, which has no end of a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final

from tarmac.datapath.interface import NetworkState
from tarmac.datapath.linux.conntrack import TrackedConnection
from tarmac.decide.reach.evaluation import Permission, widens
from tarmac.decide.reach.policyrules import Rules, ServiceFrontend

_UNRESTRICTED: Final = Rules()
_MAX_EVALUATIONS: Final = 1_000_000
"""Steps, each a fraction of a microsecond: connections times the rules that apply to them."""


def may_revoke(before: NetworkState | None, after: NetworkState) -> bool:
    """Return True if some connection may have been allowed before and is not any more. `before` may be unknown."""
    if before is None:
        return True
    # By identity: many addresses share the same rules object, which may be long.
    changes = {
        (id(old), id(rules)): (old, rules)
        for address, rules in after.rules.items()
        if (old := before.rules.get(address, _UNRESTRICTED)) is not rules
    }
    limited = any(
        not (widens(old.ingress, rules.ingress) and widens(old.egress, rules.egress)) for old, rules in changes.values()
    )
    return limited or not _udp(before) <= _udp(after)


def is_revoked(rules: Mapping[str, Rules], ports: Sequence[ServiceFrontend]) -> Callable[[TrackedConnection], bool]:
    """Return the predicate for connections that are no longer allowed.

    Evaluating many connections against many rules could take minutes. Beyond a limit every connection with a restricted
    end counts as revoked: its entry is deleted, and its next packet is evaluated as a first one.
    """
    answerers: dict[str, set[str]] = {}
    for port in ports:
        if port.protocol == "UDP":
            answerers.setdefault(port.address, set()).update(address for address, _ in port.backends)

    evaluator = _RuleEvaluator(rules)

    def revoked(connection: TrackedConnection) -> bool:
        return evaluator.denies(connection) or (
            connection.protocol == "UDP"
            and connection.meant in answerers
            and connection.answerer not in answerers[connection.meant]
        )

    return revoked


def concerns(addresses: Set[str]) -> Callable[[TrackedConnection], bool]:
    """Return the predicate for connections with an end at one of these addresses."""
    return lambda connection: connection.source in addresses or connection.answerer in addresses


def _udp(state: NetworkState) -> set[tuple[str, str]]:
    ports = [port for port in state.services if port.protocol == "UDP"]
    return {(port.address, address) for port in ports for address, _ in port.backends}


class _RuleEvaluator:
    """Rules by address, each prepared at its first use."""

    def __init__(self, rules: Mapping[str, Rules]) -> None:
        self._rules = rules
        self._ready: dict[int, tuple[Permission, Permission]] = {}  # by the identity of rules
        self._left = _MAX_EVALUATIONS

    def denies(self, connection: TrackedConnection) -> bool:
        source, answerer = connection.source, connection.answerer
        if source == answerer:
            return False
        sender, receiver = self._rules.get(source), self._rules.get(answerer)
        if sender is None and receiver is None:
            return False
        return self._is_denied(connection, sender or _UNRESTRICTED, receiver or _UNRESTRICTED)

    def _is_denied(self, connection: TrackedConnection, sender: Rules, receiver: Rules) -> bool:
        goes, comes = self._permissions(sender)[1], self._permissions(receiver)[0]
        self._left -= goes.cost + comes.cost
        # The budget is spent: forgetting a permitted connection is harmless, keeping a revoked one is not.
        if self._left < 0:
            return sender != _UNRESTRICTED or receiver != _UNRESTRICTED
        protocol, port = connection.protocol, connection.port
        return not (
            goes.permits(connection.answerer, protocol, port) and comes.permits(connection.source, protocol, port)
        )

    def _permissions(self, rules: Rules) -> tuple[Permission, Permission]:
        if id(rules) not in self._ready:
            self._ready[id(rules)] = Permission(rules.ingress), Permission(rules.egress)
        return self._ready[id(rules)]
