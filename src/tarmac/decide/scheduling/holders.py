"""The pods that have the devices of a node, which a change can name: devices are not shared, and rarely many."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api.kubernetes.runtimeclasses import PROXIED_PREFIX
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import NodeInfo


def holders_of(name: str, info: NodeInfo) -> list[Pod]:
    """Return the pods on a node that have devices of a resource; none for a resource that is no device."""
    if name not in info.node.devices.resources and not name.startswith(PROXIED_PREFIX):
        return []
    return [each for each in info.pods.values() if dict(each.demand.requests).get(name)]


def to_delete(holders: Sequence[str]) -> str:
    """Return the end of a change that frees devices: the first holder, whose deletion helps."""
    return f" (delete {holders[0]})" if holders else ""
