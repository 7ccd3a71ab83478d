"""Labels that identify sandboxes and containers after a restart of the agent.

They are those of kubelet, so that `crictl` and other tools that read them work on our nodes too. Drivers add them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.runtimes.interface import PodIdentity

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"
INSTANCE_UID = "io.tarmac.instance.uid"  # annotations of a machine's container: its Instance,
DISK_VOLUMES = "io.tarmac.container.volumeDevices"  # and the volume of each of its devices
SANDBOX_ID = "io.tarmac.sandbox.id"  # CRI reports a container's sandbox only in lists


def sandbox_labels(pod: PodIdentity, more: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a pod's sandbox; identity takes precedence over labels chosen by the pod's author."""
    return {**more, POD_NAME: pod.name, POD_NAMESPACE: pod.namespace, POD_UID: pod.uid}


def container_labels(pod: PodIdentity, sandbox_id: str, container: str, more: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a pod's container."""
    return {**sandbox_labels(pod, more), CONTAINER_NAME: container, SANDBOX_ID: sandbox_id}
