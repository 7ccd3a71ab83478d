"""`KIND/NAME` as kubectl reads it, for the kinds that can be explained."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api.schema import JsonObject
from tarmac.client.targets.target import Target
from tarmac.client.targets.untyped import (
    ADDRESS_POOLS,
    BGP_PEERS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EXTERNAL_SERVICES,
    INSTANCES,
    JOBS,
    KUBERNETES_DEPLOYMENTS,
    NODES,
    PODS,
    PUBLIC_ADDRESSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    SOURCE_IP_CLAIMS,
    SOURCE_IP_CLASSES,
    SOURCE_IPS,
    STATEFUL_SETS,
    WORKLOADS,
)

Json = Target[JsonObject]

_KINDS: tuple[tuple[Json, tuple[str, ...]], ...] = (
    (WORKLOADS, ("workload", "workloads", "wl")),
    (DEPLOYMENTS, ("workloaddeployment", "workloaddeployments", "wd")),
    (INSTANCES, ("instance", "instances", "inst")),
    (PODS, ("pod", "pods", "po")),
    (EXTERNAL_SERVICES, ("externalservice", "externalservices", "extsvc")),
    (SOURCE_IP_CLAIMS, ("sourceipclaim", "sourceipclaims", "sipc")),
    (SOURCE_IP_CLASSES, ("sourceipclass", "sourceipclasses")),
    (SOURCE_IPS, ("sourceip", "sourceips")),
    (KUBERNETES_DEPLOYMENTS, ("deployment", "deployments", "deploy")),
    (STATEFUL_SETS, ("statefulset", "statefulsets", "sts")),
    (DAEMON_SETS, ("daemonset", "daemonsets", "ds")),
    (REPLICA_SETS, ("replicaset", "replicasets", "rs")),
    (JOBS, ("job", "jobs")),
    (CRON_JOBS, ("cronjob", "cronjobs", "cj")),
    (REPLICATION_CONTROLLERS, ("replicationcontroller", "replicationcontrollers", "rc")),
    (SERVICES, ("service", "services", "svc")),
    (PUBLIC_ADDRESSES, ("publicaddress", "publicaddresses", "pubip")),
    (ADDRESS_POOLS, ("addresspool", "addresspools", "apool")),
    (BGP_PEERS, ("bgppeer", "bgppeers")),
    (NODES, ("node", "nodes", "no")),
)
EXPLAINED = tuple(target for target, _ in _KINDS if target.namespaced)
"""The kinds of a bare name, in the order of lookup.

Cluster-scoped kinds are visible to few, so they must be written.
"""
_BY_WORD = {word: target for target, words in _KINDS for word in words}


class BadObject(Exception):
    """The command line names no object."""


def bare_name(words: Sequence[str]) -> str:
    """Return the name if only a name was written; else empty."""
    return words[0] if len(words) == 1 and words[0] and "/" not in words[0] else ""


def parse_object(words: Sequence[str], kind: str = "") -> tuple[Json, str]:
    """Parse `KIND/NAME`, `KIND NAME`, or, when a kind is given, just `NAME`."""
    text = "/".join(words)
    written, slash, name = text.partition("/")
    if not slash and kind:
        written, name = kind, text
    if not written or not name or "/" in name:
        raise BadObject(f"{text!r} names no object; write KIND/NAME, such as workload/web")
    word, _, group = written.lower().partition(".")
    target = _BY_WORD.get(word)
    if target is None or group not in ("", target.group, f"{target.version}.{target.group}"):
        known = ", ".join(words[0] for _, words in _KINDS)
        raise BadObject(f"{written!r} cannot be explained; it can be one of {known}")
    if kind and _BY_WORD[kind] is not target:
        raise BadObject(f"{written!r} has no rollout; only a {kind} has")
    return target, name
