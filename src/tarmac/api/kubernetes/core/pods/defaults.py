"""Defaults of a Pod, field by field as the Go defaulting functions set them.

`default_pod` is for Pods only; `default_pod_spec` is shared by all objects with a pod template. Both are idempotent.
Fields that Go always prints (`resources`, `securityContext`) are filled in too, so that an object reads the same from
either server.
"""

from __future__ import annotations

import re

from tarmac.api.kubernetes.core.pods.podresources import aggregate
from tarmac.api.kubernetes.resourcenames import is_huge_pages, is_overcommittable, round_up
from tarmac.api.schema import JsonObject
from tarmac.base.boundedcache import bounded_cache

# volume types with a default permission in their source
_MODES = ("secret", "configMap", "downwardAPI", "projected")
# plain defaults of other volume types' sources
_SOURCES: dict[str, dict[str, str | bool]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "hostPath": {"type": ""},
}

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[a-fA-F0-9:]+\])"
_REFERENCE = re.compile(
    rf"(?:{_HOST}(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?P<tag>:[\w][\w.-]{0,127})?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_MAX_REFERENCE = 4096  # characters; no registry has longer names, and matching takes time


def default_pod(pod: JsonObject) -> None:
    """Fill in all defaults of a Pod."""
    spec = pod.setdefault("spec", {})
    for container in _workload_containers(spec):
        _requests_from_limits(container)
    if spec.get("resources"):
        _pod_level_resources(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if spec.get("hostNetwork"):
        for container in _workload_containers(spec):
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)
    default_pod_spec(spec)
    _both_forms_of_address(pod.get("status") or {})


def _both_forms_of_address(status: JsonObject) -> None:
    """Make `podIP` the first of `podIPs`; if they differ, the older field takes precedence."""
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and not address:
        status["podIP"] = addresses[0].get("ip", "")


def default_pod_spec(spec: JsonObject) -> None:
    """Fill in defaults that pods and pod templates share."""
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    _service_account_alias(spec)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    for container in _workload_containers(spec):
        default_container(container)
    for container in spec.get("ephemeralContainers") or ():
        default_container(container)
    round_up(spec.get("overhead"))


def _workload_containers(spec: JsonObject) -> list[JsonObject]:
    init = spec.get("initContainers")
    containers = spec.get("containers") or []
    return [*init, *containers] if init else containers


def _service_account_alias(spec: JsonObject) -> None:
    """Make `serviceAccount`, the older name, equal to `serviceAccountName`; both are always printed."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _requests_from_limits(container: JsonObject) -> None:
    resources = container.get("resources")
    if not resources:
        return
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, amount in limits.items():
            requests.setdefault(name, amount)


def _pod_level_resources(spec: JsonObject) -> None:
    resources = spec["resources"]
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if limits or requests:
        for name, amount in aggregate(spec, "limits").items():
            if is_huge_pages(name) and name not in requests:
                limits.setdefault(name, str(amount))
    if limits:
        for name, amount in aggregate(spec, "requests").items():
            if name in ("cpu", "memory") and is_overcommittable(name):
                requests.setdefault(name, str(amount))
        for name, amount in limits.items():
            if name in ("cpu", "memory") or is_huge_pages(name):
                requests.setdefault(name, amount)
        resources["limits"] = limits
        resources["requests"] = requests
    round_up(resources.get("limits"))
    round_up(resources.get("requests"))


def default_container(container: JsonObject) -> None:
    """Fill in defaults of one container of any kind."""
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    resources = container.setdefault("resources", {})
    if resources:
        round_up(resources.get("limits"))
        round_up(resources.get("requests"))
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        source = variable.get("valueFrom")
        if source:
            _default_env_source(source)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is not None:
            _default_probe(probe)
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _default_http(handler)


def _default_env_source(source: JsonObject) -> None:
    if (reference := source.get("fieldRef")) is not None and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"
    if (reference := source.get("resourceFieldRef")) is not None:
        reference.setdefault("divisor", "0")
    if (reference := source.get("fileKeyRef")) is not None:
        reference.setdefault("optional", False)


def _default_probe(probe: JsonObject) -> None:
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(key):
            probe[key] = value
    if (grpc := probe.get("grpc")) is not None and grpc.get("service") is None:
        grpc["service"] = ""
    _default_http(probe)


def _default_http(handler: JsonObject) -> None:
    http = handler.get("httpGet")
    if http is not None:
        if not http.get("path"):
            http["path"] = "/"
        if not http.get("scheme"):
            http["scheme"] = "HTTP"


def _default_volume(volume: JsonObject) -> None:
    if len(volume) < 2:
        volume["emptyDir"] = {}
        return
    for kind in _MODES:
        source = volume.get(kind)
        if source is not None:
            source.setdefault("defaultMode", 0o644)
            _default_projections(kind, source)
            return
    for kind, values in _SOURCES.items():
        if (source := volume.get(kind)) is not None:
            for key, value in values.items():
                source.setdefault(key, value)
            return
    if (source := volume.get("ephemeral")) is not None and "volumeClaimTemplate" in source:
        claim = source["volumeClaimTemplate"].setdefault("spec", {})
        claim.setdefault("volumeMode", "Filesystem")
    elif (source := volume.get("image")) is not None and not source.get("pullPolicy"):
        source["pullPolicy"] = pull_policy(source.get("reference", ""))


def _default_projections(kind: str, source: JsonObject) -> None:
    if kind == "downwardAPI":
        _default_files(source)
    elif kind == "projected":
        for projection in source.get("sources") or ():
            if (token := projection.get("serviceAccountToken")) is not None:
                token.setdefault("expirationSeconds", 3600)
            elif (files := projection.get("downwardAPI")) is not None:
                _default_files(files)


def _default_files(source: JsonObject) -> None:
    for item in source.get("items") or ():
        _default_env_source(item)


# The pull policy that an image reference implies.
#
# A reference without tag and digest means `latest`, and `latest` is pulled every time. All other images, including
# references that cannot be parsed, are pulled when they are not present.


@bounded_cache(2048)
def pull_policy(image: str) -> str:
    """Return `Always` or `IfNotPresent`."""
    match = _REFERENCE.fullmatch(image) if len(image) <= _MAX_REFERENCE else None
    if match is None:
        return "IfNotPresent"
    tag, digest = match["tag"], match["digest"]
    latest = tag == ":latest" or (tag is None and digest is None)
    return "Always" if latest else "IfNotPresent"
