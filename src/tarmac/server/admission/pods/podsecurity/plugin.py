"""PodSecurity plugin: enforces the levels that namespaces set by labels.

A namespace without labels is `baseline`; the system's own (`kube-*`) are `privileged`. Pods of Instances are checked
too: controllers create them from users' specs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.pods.podplugin import BUCKET, pod_of
from tarmac.server.admission.pods.podsecurity.standards import LEVELS, violations
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader

_NAMESPACES = "core/namespaces"
_PREFIX = "pod-security.kubernetes.io/"
_MODES = ("enforce", "audit", "warn")
_ORDER = ("privileged", "baseline", "restricted")
_MAX_CHECKED = 3000
_INVALID_LEVEL = "must be one of privileged, baseline, restricted"
_INVALID_VERSION = 'must be "latest" or "v1.x"'


class NamespacePolicy(NamedTuple):
    """A level, and the version it was written for (the newest version is always checked)."""

    level: str
    version: str

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


class PodSecurity(AdmissionPlugin):
    """Enforces `enforce` and warns for `warn`; for `audit`, read the requests in the audit log."""

    name = "PodSecurity"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        if operation not in ("CREATE", "UPDATE"):
            return False
        if resource.bucket == _NAMESPACES:
            return subresource == ""
        return resource.bucket == BUCKET and subresource in ("", "ephemeralcontainers")

    def validate(self, attributes: Attributes) -> None:
        if attributes.resource.bucket == _NAMESPACES:
            self._validate_namespace(attributes)
        elif attributes.operation == "CREATE" or _is_significant(attributes):
            self._validate_pod(attributes)

    def _validate_pod(self, attributes: Attributes) -> None:
        namespace = self._reader.get(_NAMESPACES, attributes.namespace) or {}
        policies = {mode: policy_of(namespace, mode, attributes.namespace) for mode in _MODES}
        pod, enforced = pod_of(attributes), policies["enforce"]
        if found := violations(pod, enforced.level):
            raise refuse(attributes, f'violates PodSecurity "{enforced}": {", ".join(map(str, found))}')
        warned = policies["warn"]
        if warned.level != enforced.level and (found := violations(pod, warned.level)):
            attributes.warnings.append(f'would violate PodSecurity "{warned}": {", ".join(map(str, found))}')

    def _validate_namespace(self, attributes: Attributes) -> None:
        namespace = attributes.obj
        assert namespace is not None
        errors = FieldErrors()
        labels, old = _labels(namespace), _labels(attributes.old or {})
        for mode in _MODES:
            for key, valid, detail in (
                (f"{_PREFIX}{mode}", lambda value: value in LEVELS, _INVALID_LEVEL),
                (f"{_PREFIX}{mode}-version", _is_version, _INVALID_VERSION),
            ):
                value = labels.get(key)
                if value is not None and value != old.get(key) and not valid(value):
                    errors.invalid(f"metadata.labels[{key}]", value, detail)
        if errors:
            raise invalid("", "Namespace", attributes.name, errors)
        if attributes.operation == "UPDATE":
            self._warn_of_violators(attributes, namespace)

    def _warn_of_violators(self, attributes: Attributes, namespace: JsonObject) -> None:
        """Warn about existing Pods that violate a raised level. They keep running."""
        policy = policy_of(namespace, "enforce", attributes.name)
        before = policy_of(attributes.old or {}, "enforce", attributes.name)
        relaxed = policy.version == before.version and _ORDER.index(policy.level) <= _ORDER.index(before.level)
        if relaxed or policy.level == "privileged":
            return
        pods = list(self._reader.list(BUCKET, f"{attributes.name}/"))
        # Bounded, since admission runs on the event loop in one step; kube-apiserver has the same limit of 3000.
        checked = pods[:_MAX_CHECKED]
        if len(checked) < len(pods):
            attributes.warnings.append(
                f"new PodSecurity enforce level only checked against the first {len(checked)} of {len(pods)} existing "
                "pods"
            )
        if lines := _violators(checked, policy.level):
            attributes.warnings.append(
                f'existing pods in namespace "{attributes.name}" violate the new PodSecurity enforce level "{policy}"'
            )
            attributes.warnings += lines


def _violators(pods: Sequence[JsonObject], level: str) -> list[str]:
    """Return one line per combination of violations: the first pod and the number of further pods."""
    names: dict[str, list[str]] = {}
    for pod in pods:
        if found := violations(pod, level):
            names.setdefault(", ".join(each.reason for each in found), []).append(pod["metadata"]["name"])
    return sorted(f"{min(those)}{_and_others(len(those) - 1)}: {why}" for why, those in names.items())


def _and_others(count: int) -> str:
    return f" (and {count} other pod{'s' if count > 1 else ''})" if count else ""


def policy_of(namespace: JsonObject, mode: str, name: str) -> NamespacePolicy:
    """Return a namespace's policy for one mode."""
    labels = _labels(namespace)
    level = labels.get(f"{_PREFIX}{mode}")
    if level is None:
        level = "privileged" if name.startswith("kube-") or mode != "enforce" else "baseline"
    # an invalid level counts as the strictest one for enforce, and as no restriction for the other modes
    elif level not in LEVELS:
        level = "restricted" if mode == "enforce" else "privileged"
    version = labels.get(f"{_PREFIX}{mode}-version", "latest")
    return NamespacePolicy(level, version if _is_version(version) else "latest")


def _labels(namespace: JsonObject) -> dict[str, str]:
    return (namespace.get("metadata") or {}).get("labels") or {}


def _is_version(text: str) -> bool:
    return text == "latest" or (text.startswith("v1.") and text[3:].isascii() and text[3:].isdigit())


def _is_significant(attributes: Attributes) -> bool:
    """Return True if an update changes images or the set of containers, which the standards depend on."""
    new, old = pod_of(attributes)["spec"], (attributes.old or {})["spec"]
    for field in ("containers", "initContainers"):
        if _images(new, field) != _images(old, field):
            return True
    known = {each["name"]: each.get("image") for each in old.get("ephemeralContainers") or ()}
    return any(known.get(each["name"]) != each.get("image") for each in new.get("ephemeralContainers") or ())


def _images(spec: JsonObject, field: str) -> list[str | None]:
    return [each.get("image") for each in spec.get(field) or ()]
