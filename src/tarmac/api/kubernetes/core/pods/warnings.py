"""Warnings for pods that are accepted but probably do not behave as intended."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api import checks
from tarmac.api.kubernetes.core.pods.validationcache import PassedSpecs, text_of
from tarmac.api.kubernetes.resourcenames import quantity
from tarmac.api.schema import JsonObject
from tarmac.base import names

DEPRECATED_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_DEPRECATED_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_NULL_SELECTOR = "a null labelSelector results in matching no pod"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_silent = PassedSpecs()


def pod_warnings(pod: JsonObject) -> list[str]:
    """Return all warnings, in Kubernetes' order."""
    spec, metadata = pod["spec"], pod["metadata"]
    found: list[str] = []
    if messages := names.dns1123_label(metadata.get("name", "")):
        found.append(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
            f"a DNS label is recommended: [{' '.join(messages)}]"
        )
    annotations = metadata.get("annotations") or {}
    known, before = text_of(spec) if _DEPRECATED_ANNOTATIONS.keys().isdisjoint(annotations) else None, len(found)
    if _silent.has(known):
        return found
    found.extend(_spec_warnings(annotations, spec))
    if len(found) == before:
        _silent.add(known)
    return found


def template_warnings(template: JsonObject, path: str) -> list[str]:
    """Return the warnings of a pod template at a path."""
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return [f"{path}.{warning}" for warning in _spec_warnings(annotations, template.get("spec") or {})]


def _spec_warnings(annotations: dict[str, str], spec: JsonObject) -> Iterator[str]:
    yield from _placement(spec)
    yield from _metadata_and_volumes(annotations, spec)
    yield from _repeated_references(spec)
    for path, container in _containers(spec):
        yield from _container(path, container)
    yield from _ports(spec)
    yield from _pod_affinity(spec.get("affinity") or {})


def _containers(spec: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield f"spec.{field}[{index}]", container


def _placement(spec: JsonObject) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in DEPRECATED_NODE_LABELS:
            yield f"spec.nodeSelector[{key}]: {DEPRECATED_NODE_LABELS[key]}"
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        path, key = f"spec.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        if key in DEPRECATED_NODE_LABELS:
            yield f"{path}.topologyKey: {key} is {DEPRECATED_NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{path}.labelSelector: {_NULL_SELECTOR}"


def _metadata_and_volumes(annotations: dict[str, str], spec: JsonObject) -> Iterator[str]:
    for key, message in _DEPRECATED_ANNOTATIONS.items():
        if key in annotations:
            yield f"metadata.annotations[{key}]: {message}"
    for index, volume in enumerate(checks.objects(spec, "volumes")):
        for kind in volume:
            if kind in _DEPRECATED_VOLUMES:
                shown = "storageOS" if kind == "storageos" else kind
                yield f"spec.volumes[{index}].{shown}: {_DEPRECATED_VOLUMES[kind]}"


def _repeated_references(spec: JsonObject) -> Iterator[str]:
    for field, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for index, item in enumerate(spec.get(field) or ()):
            value = item.get(key, "")
            if value in seen:
                yield f'spec.{field}[{index}].{key}: duplicate {key} "{value}"'
            seen.add(value)
            if field == "imagePullSecrets" and not value:
                yield f'spec.{field}[{index}].{key}: invalid empty name ""'


def _container(path: str, container: JsonObject) -> Iterator[str]:
    resources = container.get("resources") or {}
    for name in ("memory", "ephemeral-storage"):
        for side in ("limits", "requests"):
            text = (resources.get(side) or {}).get(name)
            if text is not None and not quantity(text).is_integer():
                yield (
                    f'{path}.resources.{side}[{name}]: fractional byte value "{text}" is invalid, must be an integer'
                )
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        if name in seen and (variable.get("valueFrom") is not None or value == reference or reference not in value):
            yield (f'{path}.env[{index}]: hides previous definition of "{name}", which may be dropped when using apply')
        seen.add(name)


def _ports(spec: JsonObject) -> Iterator[str]:
    placed: dict[tuple[int, str], list[tuple[str, str, int]]] = {}
    named: dict[str, str] = {}
    duplicates: list[str] = []
    for path, container in _containers(spec):
        for index, port in enumerate(container.get("ports") or ()):
            at, host_ip, host = f"{path}.ports[{index}]", port.get("hostIP", ""), port.get("hostPort", 0)
            others = placed.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
            for other, other_ip, other_host in others:
                if (host_ip, host) == (other_ip, other_host):
                    yield f"{at}: duplicate port definition with {other}"
                elif not host or not other_host:
                    yield f"{at}: overlapping port definition with {other}"
                elif host == other_host and bool(host_ip) != bool(other_ip):
                    yield f"{at}: dangerously ambiguous port definition with {other}"
            others.append((at, host_ip, host))
            if name := port.get("name"):
                first = named.setdefault(name, at)
                if first != at:
                    duplicates.append(
                        f'{at}: duplicate port name "{name}" with {first}, services and probes that select ports by '
                        f"name will use {first}"
                    )
    yield from duplicates


def _pod_affinity(affinity: JsonObject) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        for index, term in enumerate(pods.get(_REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"spec.affinity.{kind}.{_REQUIRED}[{index}].labelSelector: {_NULL_SELECTOR}"
        for index, term in enumerate(pods.get(_PREFERRED) or ()):
            if (term.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"spec.affinity.{kind}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NULL_SELECTOR}"
