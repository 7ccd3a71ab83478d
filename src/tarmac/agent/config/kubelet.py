"""The supported part of the `kubelet.config.k8s.io/v1beta1` KubeletConfiguration, with Kubernetes' defaults.

Names, units and meanings are Kubernetes'. Three fields are Tarmac's own: `cpuOverSubscriptionCapacity`,
`sizingProviderPeriod` and `classResources`. Five defaults differ on purpose: serving certificates are requested
(`serverTLSBootstrap`), client certificates are renewed (`rotateCertificates`), images are pulled in parallel
(`serializeImagePulls` is false), a pod has at most 4,096 processes (`podPidsLimit`), and on a node with Tarmac's own
pod network system calls are filtered (`seccompDefault`).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tarmac.base.duration import parse_duration
from tarmac.base.quantity import Quantity

Enforcement = Literal[
    "pods", "none", "system-reserved", "kube-reserved", "system-reserved-compressible", "kube-reserved-compressible"
]
"""Values of `enforceNodeAllocatable`."""


class Seconds(float):
    """A duration, written `10s` or `5m0s`."""


class Bytes(int):
    """An amount of memory or disk, written `10Mi`."""


class _Section(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A section of the file. Unknown fields are rejected."""


class Anonymous(_Section, frozen=True):
    """Requests without credentials."""

    enabled: bool = False


class WebhookAuthentication(_Section, frozen=True):
    """Bearer tokens, verified by the API server (TokenReview)."""

    enabled: bool = True
    cache_ttl: Seconds = msgspec.field(name="cacheTTL", default=Seconds(120))


class X509(_Section, frozen=True):
    """Client certificates signed by a CA in this file."""

    client_ca_file: str = msgspec.field(name="clientCAFile", default="")


class KubeletAuthentication(_Section, frozen=True):
    """Authentication at the node's HTTP API."""

    anonymous: Anonymous = Anonymous()
    webhook: WebhookAuthentication = WebhookAuthentication()
    x509: X509 = X509()


class WebhookAuthorization(_Section, frozen=True):
    """Cache durations of the API server's access reviews."""

    cache_authorized_ttl: Seconds = msgspec.field(name="cacheAuthorizedTTL", default=Seconds(300))
    cache_unauthorized_ttl: Seconds = msgspec.field(name="cacheUnauthorizedTTL", default=Seconds(30))


class KubeletAuthorization(_Section, frozen=True):
    """Authorization at the node's HTTP API."""

    mode: Literal["Webhook"] = "Webhook"
    webhook: WebhookAuthorization = WebhookAuthorization()


class CrashLoopBackOff(_Section, frozen=True):
    """The maximum back-off of a crashing container."""

    max_container_restart_period: Seconds = Seconds(300)


class KubeletTaint(_Section, frozen=True, kw_only=True):
    """A taint the node is registered with."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class OfferedClass(_Section, frozen=True):
    """A class to offer; without `capacity` to any number of pods."""

    capacity: int | None = None


class OfferedClassType(_Section, frozen=True):
    """A type of classes: only `classes`, or all that are found; for `blockio`, those in a file of the agent."""

    config_file: str = ""
    classes: dict[str, OfferedClass] | None = None


class KubeletClassResources(_Section, frozen=True):
    """QoS-class resources, and the handling of pods that request classes not offered."""

    unavailable: Literal["reject", "ignore"] = "reject"
    types: dict[str, OfferedClassType] = msgspec.field(default_factory=dict[str, OfferedClassType])


class KubeletConfiguration(_Section, frozen=True):
    """The file: the source of all settings of the node's parts."""

    # HTTP API
    address: str = "0.0.0.0"
    port: int = 10250
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    server_tls_bootstrap: bool = msgspec.field(name="serverTLSBootstrap", default=True)
    rotate_certificates: bool = True
    authentication: KubeletAuthentication = KubeletAuthentication()
    authorization: KubeletAuthorization = KubeletAuthorization()
    enable_debugging_handlers: bool = True
    streaming_connection_idle_timeout: Seconds = Seconds(4 * 3600)
    # registration and status
    register_node: bool = True
    register_with_taints: tuple[KubeletTaint, ...] = ()
    provider_id: str = msgspec.field(name="providerID", default="")
    node_status_update_frequency: Seconds = Seconds(10)
    node_status_report_frequency: Seconds | None = None
    node_lease_duration_seconds: int = 40
    node_status_max_images: int = 50
    # pods
    static_pod_path: str = ""
    file_check_frequency: Seconds = Seconds(20)
    crash_loop_back_off: CrashLoopBackOff = CrashLoopBackOff()
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    pod_logs_dir: str = "/var/log/pods"
    max_pods: int = 110
    pods_per_core: int = 0
    pod_pids_limit: int = 4096
    cluster_domain: str = "cluster.local"
    cluster_dns: tuple[str, ...] = msgspec.field(name="clusterDNS", default=())
    resolv_conf: str = "/etc/resolv.conf"
    seccomp_default: bool | None = None  # resolved once the pod network is known
    serialize_image_pulls: bool = False
    max_parallel_image_pulls: int | None = None
    container_runtime_endpoint: str = "unix:///run/containerd/containerd.sock"
    # cgroups and reservations
    cgroup_root: str = ""
    cgroup_driver: str = "cgroupfs"
    cpu_cfs_quota: bool = msgspec.field(name="cpuCFSQuota", default=True)
    cpu_cfs_quota_period: Seconds = msgspec.field(name="cpuCFSQuotaPeriod", default=Seconds(0.1))
    system_reserved: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    kube_reserved: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    reserved_system_cpus: str = msgspec.field(name="reservedSystemCPUs", default="")
    topology_manager_policy: str = "none"
    memory_manager_policy: str = "None"
    reserved_memory: list[Any] = []
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    enforce_node_allocatable: tuple[Enforcement, ...] = ("pods",)
    cpu_manager_policy: Literal["none", "static"] = "none"
    cpu_manager_policy_options: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    cpu_manager_reconcile_period: Seconds = Seconds(10)
    cpu_over_subscription_capacity: str | float = msgspec.field(name="cpuOverSubscriptionCapacity", default=0)
    sizing_provider_period: Seconds = Seconds(0)
    # eviction and garbage collection
    eviction_hard: dict[str, str] | None = None
    eviction_soft: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    eviction_soft_grace_period: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    eviction_minimum_reclaim: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    eviction_pressure_transition_period: Seconds = Seconds(300)
    eviction_max_pod_grace_period: int = 0
    merge_default_eviction_settings: bool = False
    image_minimum_gc_age: Seconds = msgspec.field(name="imageMinimumGCAge", default=Seconds(120))
    image_maximum_gc_age: Seconds = msgspec.field(name="imageMaximumGCAge", default=Seconds(0))
    image_gc_high_threshold_percent: int = msgspec.field(name="imageGCHighThresholdPercent", default=85)
    image_gc_low_threshold_percent: int = msgspec.field(name="imageGCLowThresholdPercent", default=80)
    container_log_max_size: Bytes = Bytes(10 << 20)
    container_log_max_files: int = 5
    container_log_monitor_interval: Seconds = Seconds(10)
    # shutdown
    shutdown_grace_period: Seconds = Seconds(0)
    shutdown_grace_period_critical_pods: Seconds = Seconds(0)
    class_resources: KubeletClassResources = KubeletClassResources()
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict[str, bool])

    @property
    def report_frequency(self) -> float:
        """Interval of unchanged status reports: the update frequency if only that is set, as in kubelets."""
        if self.node_status_report_frequency is not None:
            return self.node_status_report_frequency
        return 300.0 if self.node_status_update_frequency == 10 else self.node_status_update_frequency


def special(type: type, value: Any) -> Any:
    """Parse durations and amounts."""
    if not isinstance(value, str | int):
        raise ValueError(f"{value!r} is not text")  # noqa: TRY004 - an error in the file, not in the program
    if type is Seconds:
        return Seconds(parse_duration(str(value)))
    if type is Bytes:
        return Bytes(Quantity.parse(value).value())
    raise NotImplementedError(type)
