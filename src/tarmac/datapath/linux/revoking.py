"""Which remembered connections rules no longer let be. Pure.

Rules are asked only when a connection begins. When they change, those that began under the old ones are asked again:
whom they go to is who answers, after translation. Connections to a service whose backend has gone come to an end by
themselves, but for those of UDP, which has no ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from tarmac.datapath.interface import NetworkState, Rules, ServicePort
from tarmac.datapath.linux.conntrack import Connection
from tarmac.datapath.permitting import permits, widens


def may_revoke(before: NetworkState | None, after: NetworkState) -> bool:
    """Whether some connection could have been allowed before and be so no longer. What was before may be unknown."""
    if before is None:
        return True
    limited = any(
        not (widens(old.ingress, rules.ingress) and widens(old.egress, rules.egress))
        for address, rules in after.rules.items()
        for old in (before.rules.get(address, Rules()),)
    )
    return limited or not _udp(before) <= _udp(after)


def is_revoked(rules: Mapping[str, Rules], ports: Sequence[ServicePort]) -> Callable[[Connection], bool]:
    """The question whether a connection may no longer be."""
    answerers: dict[str, set[str]] = {}
    for port in ports:
        if port.protocol == "UDP":
            answerers.setdefault(port.address, set()).update(address for address, _ in port.backends)

    def revoked(connection: Connection) -> bool:
        return _is_denied(rules, connection) or (
            connection.protocol == "UDP"
            and connection.meant in answerers
            and connection.answerer not in answerers[connection.meant]
        )

    return revoked


def concerns(addresses: Set[str]) -> Callable[[Connection], bool]:
    """The question whether a connection has an end at one of these addresses."""
    return lambda connection: connection.source in addresses or connection.answerer in addresses


def _udp(state: NetworkState) -> set[tuple[str, str]]:
    ports = [port for port in state.services if port.protocol == "UDP"]
    return {(port.address, address) for port in ports for address, _ in port.backends}


def _is_denied(rules: Mapping[str, Rules], connection: Connection) -> bool:
    source, answerer = connection.source, connection.answerer
    if source == answerer:
        return False
    sender, receiver = rules.get(source, Rules()), rules.get(answerer, Rules())
    protocol, port = connection.protocol, connection.port
    return not (permits(sender.egress, answerer, protocol, port) and permits(receiver.ingress, source, protocol, port))
