"""Translates a Pod into the configuration of its sandbox."""

from __future__ import annotations

from tarmac.agent.containers.paths import PodPaths
from tarmac.agent.containers.security import sandbox_security
from tarmac.agent.environment.hosts import kernel_hostname
from tarmac.agent.environment.resolving import Resolving
from tarmac.agent.model.pod import AgentPod
from tarmac.runtimes.interface import PodIdentity, PortMapping, SandboxConfig


def sandbox_config(
    pod: AgentPod, attempt: int, paths: PodPaths, cgroup: str, dns: Resolving, cluster_domain: str
) -> SandboxConfig:
    """Return the runtime configuration. Raises HostnameTooLong."""
    sysctls = (pod.spec.get("securityContext") or {}).get("sysctls") or ()
    return SandboxConfig(
        pod=PodIdentity(pod.namespace, pod.name, pod.uid, attempt),
        hostname="" if pod.host_network else kernel_hostname(pod, cluster_domain),
        log_directory=str(paths.pod_logs(pod)),
        cgroup_parent=cgroup,
        dns_servers=dns.servers,
        dns_searches=dns.searches,
        dns_options=dns.options,
        ports=_ports(pod),
        labels=pod.labels,
        annotations=pod.annotations,
        sysctls={each["name"].replace("/", "."): each["value"] for each in sysctls},
        security=sandbox_security(pod),
    )


def _ports(pod: AgentPod) -> tuple[PortMapping, ...]:
    if pod.host_network:
        return ()
    return tuple(
        PortMapping(
            port.get("protocol") or "TCP", port["containerPort"], port.get("hostPort") or 0, port.get("hostIP") or ""
        )
        for container in pod.containers
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )
