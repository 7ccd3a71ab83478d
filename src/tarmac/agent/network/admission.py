"""Which pods a node with networks of ours cannot connect.

Addresses on Networks are given by the control plane, and held by the object that they are given to. A static pod is
there before any server is, and its mirror may be deleted while it runs; so it can only be part of its node.
"""

from __future__ import annotations

from tarmac.agent.model.allotment import Refusal
from tarmac.agent.model.pod import Pod
from tarmac.api.schema import JsonObject

REASON = "NetworkNotAvailable"


def unconnected(pod: JsonObject) -> Refusal | None:
    """Why a new pod could never have interfaces here, if it could not."""
    asked = Pod(pod)
    if not asked.static or asked.host_network:
        return None
    return REASON, (
        "A static pod gets no address on a Network, since those are given by the API server to its own Pods: "
        "set spec.hostNetwork: true in the manifest, or create the Pod through the API."
    )
