"""Rejects pods that a node with Tarmac's networks cannot connect.

Addresses on Networks are assigned by the control plane, and belong to an API object. A static pod exists before any
server does, and its mirror may be deleted while it runs; so it can only use the node's own network.
"""

from __future__ import annotations

from tarmac.agent.model.allotment import Refusal
from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject

REASON = "NetworkNotAvailable"


def unconnected(pod: JsonObject) -> Refusal | None:
    """Return the reason why a new pod can never have interfaces here, or None."""
    asked = AgentPod(pod)
    if not asked.static or asked.host_network:
        return None
    return REASON, (
        "A static pod gets no address on a Network, since those are given by the API server to its own Pods: "
        "set spec.hostNetwork: true in the manifest, or create the Pod through the API."
    )
