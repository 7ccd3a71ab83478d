"""The hostname of a pod and its `/etc/hosts`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject

MAX_HOSTNAME = 63
_HEADER = "# Kubernetes-managed hosts file.\n"
_HOST_HEADER = "# Kubernetes-managed hosts file (host network).\n"
_LOOPBACK = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


class HostnameTooLong(ValueError):
    """The requested hostname exceeds the kernel's limit."""


def hostname_and_domain(pod: AgentPod, cluster_domain: str) -> tuple[str, str]:
    """Return the short hostname, truncated to the kernel's limit, and its domain, if any."""
    if override := pod.spec.get("hostnameOverride"):
        return _cut(override), ""
    domain = ""
    if subdomain := pod.spec.get("subdomain"):
        domain = f"{subdomain}.{pod.namespace}.svc.{cluster_domain}"
    return _cut(pod.spec.get("hostname") or pod.name), domain


def kernel_hostname(pod: AgentPod, cluster_domain: str) -> str:
    """Return the hostname inside the pod. Raises HostnameTooLong."""
    name, domain = hostname_and_domain(pod, cluster_domain)
    if not (domain and pod.spec.get("setHostnameAsFQDN")):
        return name
    full = f"{name}.{domain}"
    if len(full) > MAX_HOSTNAME + 1:
        raise HostnameTooLong(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long "
            f"(64 characters is the max, {len(full)} characters requested)"
        )
    return full


def _cut(name: str) -> str:
    # A hostname must not end in a dot or a hyphen, which the cut may expose.
    return name if len(name) <= MAX_HOSTNAME else name[:MAX_HOSTNAME].rstrip("-.")


def hosts_file(pod: AgentPod, addresses: Sequence[str], cluster_domain: str) -> str:
    """Return the content of the hosts file that all containers of the pod share."""
    if pod.host_network:
        content = _HOST_HEADER + Path("/etc/hosts").read_text(errors="replace")
    else:
        name, domain = hostname_and_domain(pod, cluster_domain)
        names = f"{name}.{domain}\t{name}" if domain else name
        content = _HEADER + _LOOPBACK + "".join(f"{address}\t{names}\n" for address in addresses)
    return content + _aliases(pod.spec.get("hostAliases") or [])


def _aliases(aliases: list[JsonObject]) -> str:
    if not aliases:
        return ""
    lines = (f"{each['ip']}\t" + "\t".join(each.get("hostnames") or ()) + "\n" for each in aliases)
    return "\n# Entries added by HostAliases.\n" + "".join(lines)


def write_hosts_file(path: Path, content: str) -> None:
    """Write in place: running containers have this inode mounted."""
    # Not atomic: a process that reads the file at this moment may see a part of it.
    path.write_text(content)
    os.chmod(path, 0o644)
