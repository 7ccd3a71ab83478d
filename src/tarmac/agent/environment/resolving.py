"""DNS configuration of a pod: its DNS policy, the cluster's resolver and the node's settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tarmac.agent.model.pod import AgentPod
from tarmac.api.networking.names import RESOLVERS
from tarmac.api.schema import JsonObject

MAX_SERVERS = 3
MAX_SEARCHES = 32
MAX_SEARCH_LINE = 2048
MAX_SEARCH = 253
_CLUSTER_OPTIONS = ("ndots:5",)


@dataclass(frozen=True, slots=True)
class Resolving:
    """The lines of a resolv.conf. `warnings` report omitted entries."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_resolv_conf(path: Path | None) -> Resolving:
    """Read the node's settings. Raises OSError."""
    if path is None:
        return Resolving()
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    for line in path.read_text(errors="replace").splitlines():
        word, *rest = line.split() or [""]
        if word == "nameserver" and rest:
            servers.append(rest[0])
        elif word == "search":
            # The last line wins, as in resolv.conf(5).
            searches = [each.removesuffix(".") for each in rest if each != "."]
        elif word == "options":
            options |= {each.partition(":")[0]: each for each in rest}
    return Resolving(tuple(servers), tuple(searches), tuple(options.values()))


def resolving(pod: AgentPod, node: Resolving, cluster_dns: tuple[str, ...], cluster_domain: str) -> Resolving:
    """Return the pod's resolv.conf."""
    policy = pod.spec.get("dnsPolicy") or "ClusterFirst"
    cluster = policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not pod.host_network)
    if policy == "None":
        base = Resolving()
    elif cluster and cluster_dns:
        domains = (f"{pod.namespace}.svc.{cluster_domain}", f"svc.{cluster_domain}", cluster_domain)
        if cluster_dns == RESOLVERS:  # Tarmac's resolver also knows instances
            domains = (domains[0], f"{pod.namespace}.inst.{cluster_domain}", *domains[1:])
        base = Resolving(cluster_dns, (*(domains if cluster_domain else ()), *node.searches), _CLUSTER_OPTIONS)
    else:
        base = node
    return _limited(_extended(base, pod.spec.get("dnsConfig") or {}))


def _extended(base: Resolving, stated: JsonObject) -> Resolving:
    options = {each.partition(":")[0]: each for each in base.options}
    for each in stated.get("options") or ():
        value = each.get("value")
        options[each["name"]] = f"{each['name']}:{value}" if value else each["name"]
    return Resolving(
        _unique((*base.servers, *(stated.get("nameservers") or ()))),
        _unique((*base.searches, *(stated.get("searches") or ()))),
        tuple(options.values()),
    )


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _limited(asked: Resolving) -> Resolving:
    """Apply the limits of C libraries, which would silently ignore more."""
    warnings: list[str] = []
    servers = asked.servers[:MAX_SERVERS]
    if servers != asked.servers:
        warnings.append(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "
            + " ".join(servers)
        )
    searches = [each for each in asked.searches[:MAX_SEARCHES] if len(each) <= MAX_SEARCH]
    while len(" ".join(searches)) > MAX_SEARCH_LINE:
        searches.pop()
    if len(searches) != len(asked.searches):
        warnings.append(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "
            + " ".join(searches)
        )
    return Resolving(servers, tuple(searches), asked.options, tuple(warnings))
