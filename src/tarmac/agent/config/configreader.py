"""Reads flags and the configuration file, strictly; errors name accepted values.

The first of three steps from the command line to a node: it reads only flags and file, not the host. An unknown field
prevents the start, since a typo in a reservation must not result in a node without one. A kubelet field without effect
here is a warning that names it. Contradictions between fields are detected here too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from tarmac.agent.config.flags import Flags
from tarmac.agent.config.kubelet import KubeletClassResources, KubeletConfiguration, OfferedClassType, special
from tarmac.api.kubernetes.core.pods.podclasses import BLOCKIO, POD_QOS, stored_type
from tarmac.base import names
from tarmac.base.gates import BadGate, FeatureGates, merge_gates
from tarmac.base.log import log

API_VERSION, KIND = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"
_MAX_LEASE_SECONDS = 600
_AT = re.compile(r"(?P<what>.*) - at `\$\.?(?P<where>[^`]*)`", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`")
_log = log("agent")

# Fields of a real KubeletConfiguration that have no effect here. A file with one gets a warning that names it.
#
# Policies that pods rely on are not among them: a node that does not implement them refuses to start
# (`stated`).
_NAMES = """
enableServer syncFrequency httpCheckFrequency staticPodURL staticPodURLHeader readOnlyPort
tlsCipherSuites tlsMinVersion registryPullQPS registryBurst imagePullCredentialsVerificationPolicy
preloadedImagesVerificationAllowlist eventRecordQPS eventBurst enableContentionProfiling healthzPort
healthzBindAddress oomScoreAdj volumeStatsAggPeriod kubeletCgroups systemCgroups
cgroupsPerQOS singleProcessOOMKill
topologyManagerScope topologyManagerPolicyOptions qosReserved
runtimeRequestTimeout hairpinMode podCIDR runOnce maxOpenFiles contentType kubeAPIQPS kubeAPIBurst
enableControllerAttachDetach protectKernelDefaults makeIPTablesUtilChains iptablesMasqueradeBit iptablesDropBit
failSwapOn memorySwap containerLogMaxWorkers configMapAndSecretChangeDetectionStrategy
showHiddenMetricsForVersion volumePluginDir
kernelMemcgNotification logging enableSystemLogHandler enableSystemLogQuery shutdownGracePeriodByPodPriority
enableProfilingHandler enableDebugFlagsHandler memoryThrottlingFactor tracing
localStorageCapacityIsolation imageServiceEndpoint failCgroupV1 userNamespaces
"""
IGNORED: Final = frozenset(_NAMES.split())


class BadConfig(Exception):
    """The configuration is invalid. The message names the field and accepted values."""


@dataclass(frozen=True, slots=True)
class StatedConfig:
    """The settings of flags and file, unmerged."""

    flags: Flags
    kubelet: KubeletConfiguration
    gates: FeatureGates


def stated(flags: Flags, kubelet: KubeletConfiguration) -> StatedConfig:
    """Combine flags and file; a feature gate of the flag overrides the file's. Raises BadConfig."""
    if unsupported := list(_unsupported(kubelet)):
        if not flags.ignore_unsupported_policies:
            raise BadConfig("; ".join(unsupported) + "; or start with --ignore-unsupported-policies")
        _log.warning("policies of the configuration are not implemented", fields=unsupported)
    try:
        return StatedConfig(
            flags, kubelet, FeatureGates("agent", merge_gates(kubelet.feature_gates, flags.feature_gates))
        )
    except BadGate as error:
        raise BadConfig(f"--feature-gates: {error}") from error


def _unsupported(config: KubeletConfiguration) -> Iterator[str]:
    """Yield policies that pods rely on and this agent does not implement."""
    if config.topology_manager_policy not in ("", "none"):
        yield f"topologyManagerPolicy: {config.topology_manager_policy!r} is not carried out here; write none"
    if config.memory_manager_policy not in ("", "None"):
        yield f"memoryManagerPolicy: {config.memory_manager_policy!r} is not carried out here; write None"
    if config.reserved_memory:
        yield "reservedMemory: memory of single NUMA nodes is not held back here; leave it out, and use systemReserved"


def read(path: Path) -> KubeletConfiguration:
    """Read the file. Raises BadConfig."""
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise BadConfig(f"{path}: {error}") from error
    try:
        return decode(document)
    except BadConfig as error:
        raise BadConfig(f"{path}: {error}") from error


def decode(document: Any) -> KubeletConfiguration:
    """Convert a parsed document. Raises BadConfig."""
    if not isinstance(document, dict):
        raise BadConfig("not a mapping of fields")
    found = (document.get("apiVersion"), document.get("kind"))
    if found != (API_VERSION, KIND):
        raise BadConfig(f"apiVersion and kind are {found[0]!r} and {found[1]!r}; write {API_VERSION} and {KIND}")
    for name in sorted(IGNORED & document.keys()):
        _log.warning("configuration field has no effect", field=name)
    used = {name: value for name, value in document.items() if name not in IGNORED | {"apiVersion", "kind"}}
    try:
        config = msgspec.convert(used, KubeletConfiguration, dec_hook=special)
    except msgspec.ValidationError as error:
        raise BadConfig(_worded(str(error))) from error
    findings = list(_findings(config))
    if findings:
        raise BadConfig("; ".join(findings))
    return config


def _worded(message: str) -> str:
    at = _AT.fullmatch(message)
    what, where = (at["what"], at["where"]) if at else (message, "")
    unknown = _UNKNOWN.fullmatch(what)
    if unknown is None:
        return f"{where}: {what}" if where else what
    name = unknown["name"]
    path = f"{where}.{name}" if where else name
    known = {field.encode_name for field in msgspec.structs.fields(KubeletConfiguration)} | IGNORED
    near = difflib.get_close_matches(name, known, 1) if not where else []
    return f"{path}: there is no such field" + (f"; did you mean {near[0]}?" if near else "")


def _offered(config: KubeletConfiguration) -> Iterator[str]:
    """Yield settings that would make the node's API less safe, or only seem to make it safer."""
    if config.authentication.anonymous.enabled:
        yield "authentication.anonymous.enabled: nobody is answered unknown; write false"
    if not config.authentication.webhook.enabled:
        yield "authentication.webhook.enabled: tokens are always asked of the server; write true"
    if not config.enable_debugging_handlers:
        yield "enableDebuggingHandlers: logs and commands cannot be switched off here; write true, and use RBAC"


def _enforced(config: KubeletConfiguration) -> Iterator[str]:
    """Yield errors of node allocatable enforcement: kubelet's checks."""
    listed = config.enforce_node_allocatable
    for pool, group in (("system", config.system_reserved_cgroup), ("kube", config.kube_reserved_cgroup)):
        whole, shares = f"{pool}-reserved", f"{pool}-reserved-compressible"
        if whole in listed and shares in listed:
            yield f"enforceNodeAllocatable: both {whole!r} and {shares!r} cannot be specified together"
        if not group and (whole in listed or shares in listed):
            yield f"{pool}ReservedCgroup: must be specified when {whole!r} or {shares!r} is in enforceNodeAllocatable"
    if "none" in listed and len(listed) > 1:
        yield "enforceNodeAllocatable: may not contain additional enforcements when 'none' is specified"
    if len(set(listed)) < len(listed):
        yield "enforceNodeAllocatable: each enforcement may be listed once"
    if config.cpu_manager_reconcile_period <= 0:
        yield "cpuManagerReconcilePeriod: must be positive, for example 10s"


def _findings(config: KubeletConfiguration) -> Iterator[str]:
    if not 1 <= config.port <= 65535:
        yield f"port: {config.port} is not between 1 and 65535"
    if config.cgroup_driver != "cgroupfs":
        yield (
            f"cgroupDriver: {config.cgroup_driver!r} is not offered; write cgroupfs here "
            "and SystemdCgroup = false in the container runtime's configuration"
        )
    yield from _offered(config)
    yield from _enforced(config)
    if bool(config.tls_cert_file) != bool(config.tls_private_key_file):
        yield "tlsCertFile: needs tlsPrivateKeyFile, and the other way round"
    if config.streaming_connection_idle_timeout <= 0:
        yield "streamingConnectionIdleTimeout: must be positive"
    if config.pod_pids_limit < -1:
        yield f"podPidsLimit: {config.pod_pids_limit} makes no sense; write -1 for no limit"
    if config.max_pods < 0:
        yield f"maxPods: {config.max_pods} must not be negative"
    if config.node_lease_duration_seconds <= 0:
        yield "nodeLeaseDurationSeconds: must be positive"
    if config.node_lease_duration_seconds > _MAX_LEASE_SECONDS:  # controllers count a longer one as this
        yield f"nodeLeaseDurationSeconds: {config.node_lease_duration_seconds} is too long; write at most 600"
    if config.node_status_update_frequency <= 0:
        yield "nodeStatusUpdateFrequency: must be positive"
    low, high = config.image_gc_low_threshold_percent, config.image_gc_high_threshold_percent
    if not 0 <= low < high <= 100:
        yield f"imageGCLowThresholdPercent: {low} must be less than imageGCHighThresholdPercent, {high}, both 0 to 100"
    if config.container_log_max_files < 2:
        yield f"containerLogMaxFiles: {config.container_log_max_files} is too few; write 2 or more"
    if config.container_log_monitor_interval < 3:
        yield "containerLogMonitorInterval: must be 3s or more"
    if config.max_parallel_image_pulls is not None and config.max_parallel_image_pulls < 1:
        yield f"maxParallelImagePulls: {config.max_parallel_image_pulls} must be positive"
    if not 1 <= config.crash_loop_back_off.max_container_restart_period <= 300:
        yield "crashLoopBackOff.maxContainerRestartPeriod: must be between 1s and 300s"
    if not 0.001 <= config.cpu_cfs_quota_period <= 1:
        yield "cpuCFSQuotaPeriod: must be between 1ms and 1s"
    if config.sizing_provider_period and config.sizing_provider_period < 10:
        yield "sizingProviderPeriod: must be 0s, for never again, or 10s or more"
    if config.shutdown_grace_period_critical_pods > config.shutdown_grace_period:
        yield "shutdownGracePeriodCriticalPods: must not be longer than shutdownGracePeriod"
    yield from class_findings(config.class_resources)
    if not Path(config.pod_logs_dir).is_absolute():
        yield f"podLogsDir: {config.pod_logs_dir!r} must be an absolute path"


def class_findings(stated: KubeletClassResources) -> Iterator[str]:
    """Yield the errors."""
    for name, each in stated.types.items():
        path = f"classResources.types.{name}"
        if problems := names.label_key(name):
            yield f"{path}: {problems[0]}"
        elif name == POD_QOS or stored_type(name) != name:
            yield f"{path}: {'cannot be offered' if name == POD_QOS else f'write {stored_type(name)}'}"
        yield from _type_findings(path, name, each)


def _type_findings(path: str, name: str, stated: OfferedClassType) -> Iterator[str]:
    if stated.config_file and name != BLOCKIO:
        yield f"{path}.configFile: only classes of type {BLOCKIO} are defined by a file of the agent's"
    elif stated.config_file and not Path(stated.config_file).is_absolute():
        yield f"{path}.configFile: {stated.config_file!r} must be an absolute path"
    for each, offered in (stated.classes or {}).items():
        if not each or names.label_value(each):
            yield f"{path}.classes.{each}: a name has 1 to 63 letters, digits and, inside, '-', '_', '.'"
        if offered.capacity is not None and offered.capacity < 1:
            yield f"{path}.classes.{each}.capacity: {offered.capacity} must be 1 or more; without it there is no limit"
