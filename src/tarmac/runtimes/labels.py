"""The labels by which sandboxes and containers are known again after a restart of the agent.

They are the ones that kubelets use, so that `crictl` and every other tool that reads them works on our nodes too.
Drivers put them on by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.runtimes.interface import PodIdentity

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"
INSTANCE_UID = "io.tarmac.instance.uid"  # annotations of a machine's container: whose it is,
DISK_VOLUMES = "io.tarmac.container.volumeDevices"  # and which volume each of its devices is
SANDBOX_ID = "io.tarmac.sandbox.id"  # CRI tells a container's sandbox only in lists


def sandbox_labels(pod: PodIdentity, more: Mapping[str, str]) -> dict[str, str]:
    """What a sandbox of the pod carries; identity wins over what the pod's author chose."""
    return {**more, POD_NAME: pod.name, POD_NAMESPACE: pod.namespace, POD_UID: pod.uid}


def container_labels(pod: PodIdentity, sandbox_id: str, container: str, more: Mapping[str, str]) -> dict[str, str]:
    """What a container of the pod carries."""
    return {**sandbox_labels(pod, more), CONTAINER_NAME: container, SANDBOX_ID: sandbox_id}
