"""The controllers of kube-controller-manager: those that run beside Tarmac, and those that never do.

Two controllers of one kind would write against each other. So a controller that Tarmac has itself never runs there.
"""

from __future__ import annotations

from typing import Final

RUN: Final[frozenset[str]] = frozenset({
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
})  # fmt: skip

# controller of kube-controller-manager -> Tarmac's own that does its work, as `--controllers` names it
OWN: Final[dict[str, str]] = {
    "bootstrap-signer-controller": "certificates",
    "certificatesigningrequest-approving-controller": "certificates",
    "certificatesigningrequest-cleaner-controller": "certificates",
    "certificatesigningrequest-signing-controller": "certificates",
    "clusterrole-aggregation-controller": "clusterrole",
    "disruption-controller": "disruption",
    "endpoints-controller": "service",
    "endpointslice-controller": "service",
    "endpointslice-mirroring-controller": "endpointslicemirroring",
    "ephemeral-volume-controller": "volume",
    "garbage-collector-controller": "garbage",
    "legacy-serviceaccount-token-cleaner-controller": "serviceaccounttoken",
    "namespace-controller": "namespace",
    "node-lifecycle-controller": "node",
    "persistentvolume-binder-controller": "volume",
    "persistentvolume-expander-controller": "volume",
    "persistentvolume-protection-controller": "volume",
    "persistentvolumeclaim-protection-controller": "volume",
    "pod-garbage-collector-controller": "node",
    "resourcequota-controller": "quota",
    "root-ca-certificate-publisher-controller": "serviceaccount",
    "serviceaccount-controller": "serviceaccount",
    "serviceaccount-token-controller": "serviceaccounttoken",
    "taint-eviction-controller": "node",
    "token-cleaner-controller": "certificates",
}

# controllers of kinds that Tarmac does not serve, of clouds, or of features that are off
NOT_OFFERED: Final[frozenset[str]] = frozenset({
    "cloud-node-lifecycle-controller",
    "device-taint-eviction-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "node-ipam-controller",
    "node-route-controller",
    "persistentvolume-attach-detach-controller",
    "podcertificaterequest-cleaner-controller",
    "resourceclaim-controller",
    "selinux-warning-controller",
    "service-cidr-controller",
    "service-lb-controller",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
    "ttl-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
})  # fmt: skip


def controllers_flag() -> str:
    """Return the value of `--controllers`: only the listed ones, whatever the program enables by default."""
    return ",".join(sorted(RUN))
