"""Pod fields for environment variables: those of the downward API, and some known only on the node."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.agent.model.pod import AgentPod
from tarmac.volumes.content import downward


def pod_field(pod: AgentPod, path: str, pod_addresses: Sequence[str], host_addresses: Sequence[str]) -> str:
    """Return the value of a `fieldRef`. Raises ContentUnsupported."""
    here = {
        "spec.nodeName": pod.spec.get("nodeName", ""),
        "spec.serviceAccountName": pod.spec.get("serviceAccountName", ""),
        "status.podIP": pod_addresses[0] if pod_addresses else "",
        "status.podIPs": ",".join(pod_addresses),
        "status.hostIP": host_addresses[0] if host_addresses else "",
        "status.hostIPs": ",".join(host_addresses),
    }
    return here[path] if path in here else downward.pod_field(pod.raw, path)
