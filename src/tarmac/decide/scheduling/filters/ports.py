"""The pod's host ports must be free on the node."""

from __future__ import annotations

from typing import Final

from tarmac.decide import reasons
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod, Port
from tarmac.decide.scheduling.filters.rule import Brief, Check, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo

_ANY: Final = frozenset({"0.0.0.0", "::"})


def taken(wanted: tuple[Port, ...], info: NodeInfo) -> list[Port]:
    """Return the ports in conflict: same protocol and number, and the same address or a wildcard address."""
    if not info.ports:
        return []
    return [port for port in wanted if any(_clash(port, used) for used in info.ports)]


def _clash(one: Port, other: Port) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or one[0] in _ANY or other[0] in _ANY)


class HostPortFilter:
    """Conflicts of `hostPort`."""

    rule = "ports"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Compare with the ports in use."""
        wanted = pod.demand.ports
        if not wanted:
            return None
        return lambda info: reasons.PORT_IN_USE if taken(wanted, info) else None

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Name the ports."""
        return Brief(f"host port {_listed(pod, info)} in use")

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Name the ports."""
        listed = _listed(pod, info)
        return Why(f"host port {listed} is in use on {info.node.name}", f"use another hostPort than {listed}")


def _listed(pod: Pod, info: NodeInfo) -> str:
    return ", ".join(f"{number}/{protocol}" for _, protocol, number in taken(pod.demand.ports, info))
