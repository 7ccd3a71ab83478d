"""Suggested NetworkPolicy rules that would allow a connection."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tarmac.api.compute.names import LABEL_WORKLOAD_NAME
from tarmac.api.schema import JsonObject
from tarmac.decide.reach.members import NetworkPod
from tarmac.decide.reach.selecting import Labels

_NAME_LABEL = "kubernetes.io/metadata.name"


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
