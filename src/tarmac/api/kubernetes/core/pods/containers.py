"""Validation of one container: rules common to regular, init and ephemeral containers, and their differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tarmac.api import checks
from tarmac.api.kubernetes.core.pods import environment, mounts, probes, requirements, security
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_RESTART_POLICIES = ("Always", "Never", "OnFailure")
# fields that an ephemeral container may not have, in the order of Go's struct
_NOT_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_NO_SIDECAR = "may not be set for init containers without restartPolicy=Always"


class PodContext(NamedTuple):
    """The facts about a pod that the rules of its containers need."""

    volumes: dict[str, JsonObject]
    claims: frozenset[str]
    grace: int | None
    restart_policy: str
    host_users: bool


def validate_containers(containers: Sequence[JsonObject], path: str, pod: PodContext, errors: FieldErrors) -> None:
    """Check `spec.containers`."""
    if not containers:
        errors.required(path)
        return
    seen: set[str] = set()
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        _validate_common(container, at, pod, errors)
        _unique_name(container, seen, at, errors)
        probes.validate_lifecycle_and_probes(container, at, pod.grace, errors)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            _restart_rules(container, at, errors)
    _host_ports(containers, path, errors)


def validate_init_containers(
    containers: Sequence[JsonObject], regular: Sequence[JsonObject], path: str, pod: PodContext, errors: FieldErrors
) -> None:
    """Check `spec.initContainers`, which share a name space with the regular ones."""
    seen = {container.get("name", "") for container in regular}
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        _validate_common(container, at, pod, errors)
        _init_restart_policy(container, at, errors)
        _unique_name(container, seen, at, errors)
        # each runs alone, so host ports only clash within one; Kubernetes reports them all at the first index
        _host_ports((container,), path, errors)
        if container.get("restartPolicy") == "Always":
            probes.validate_lifecycle_and_probes(container, at, pod.grace, errors)
        else:
            for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                if container.get(field) is not None:
                    errors.forbidden(f"{at}.{field}", _NO_SIDECAR)


def validate_ephemeral_containers(
    containers: Sequence[JsonObject], others: Sequence[JsonObject], path: str, pod: PodContext, errors: FieldErrors
) -> None:
    """Check `spec.ephemeralContainers`."""
    known = {container.get("name", "") for container in others}
    seen = set(known)
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        _validate_common(container, at, pod, errors)
        image_whitespace(container, at, errors)
        _unique_name(container, seen, at, errors)
        target = container.get("targetContainerName")
        if target and target not in known:
            errors.not_found(f"{at}.targetContainerName", target)
        for field in _NOT_EPHEMERAL:
            if container.get(field):
                errors.forbidden(f"{at}.{field}", "cannot be set for an Ephemeral Container")
        for position, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    errors.forbidden(
                        f"{at}.volumeMounts[{position}].{field}", "cannot be set for an Ephemeral Container"
                    )


def image_whitespace(container: JsonObject, path: str, errors: FieldErrors) -> None:
    """Reject an image with surrounding whitespace: Pods do, unlike templates."""
    image = container.get("image", "")
    if image != image.strip():
        errors.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")


def _unique_name(container: JsonObject, seen: set[str], path: str, errors: FieldErrors) -> None:
    name = container.get("name", "")
    if name in seen:
        errors.duplicate(f"{path}.name", name)
    elif name:
        seen.add(name)


def _validate_common(container: JsonObject, path: str, pod: PodContext, errors: FieldErrors) -> None:
    name = container.get("name")
    if not name:
        errors.required(f"{path}.name")
    elif messages := names.dns1123_label(name):
        checks.report(messages, name, f"{path}.name", errors)
    if not container.get("image"):
        errors.required(f"{path}.image")
    policy = container.get("terminationMessagePolicy", "")
    if policy not in ("File", "FallbackToLogsOnError"):
        checks.one_of(policy, ("File", "FallbackToLogsOnError"), f"{path}.terminationMessagePolicy", errors)
    if ports := container.get("ports"):
        _validate_ports(ports, f"{path}.ports", errors)
    if variables := container.get("env"):
        environment.validate_env(variables, f"{path}.env", errors)
    if sources := container.get("envFrom"):
        environment.validate_env_from(sources, f"{path}.envFrom", errors)
    if container.get("volumeMounts") or container.get("volumeDevices"):
        mounts.validate_mounts_and_devices(container, path, pod.volumes, errors)
    pull = container.get("imagePullPolicy", "")
    if pull not in checks.PULL_POLICIES:
        checks.one_of(pull, checks.PULL_POLICIES, f"{path}.imagePullPolicy", errors)
    if resources := container.get("resources"):
        requirements.validate_container_resources(resources, f"{path}.resources", pod.claims, errors)
    if policies := container.get("resizePolicy"):
        requirements.validate_resize_policy(policies, f"{path}.resizePolicy", pod.restart_policy, errors)
    if context := container.get("securityContext"):
        security.validate_security_context(context, f"{path}.securityContext", pod.host_users, errors)


def _validate_ports(ports: Sequence[JsonObject], path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        if name := port.get("name"):
            if messages := names.port_name(name):
                checks.report(messages, name, f"{path}[{index}].name", errors)
            elif name in seen:
                errors.duplicate(f"{path}[{index}].name", name)
            else:
                seen.add(name)
        number = port.get("containerPort", 0)
        if not number:
            errors.required(f"{path}[{index}].containerPort")
        elif not 1 <= number <= 65535:
            errors.invalid(f"{path}[{index}].containerPort", number, checks.PORT_RANGE)
        host = port.get("hostPort", 0)
        if not 0 <= host <= 65535:
            errors.invalid(f"{path}[{index}].hostPort", host, checks.PORT_RANGE)
        protocol = port.get("protocol", "")
        if protocol not in checks.PROTOCOLS:
            checks.one_of(protocol, checks.PROTOCOLS, f"{path}[{index}].protocol", errors)


def _host_ports(containers: Sequence[JsonObject], path: str, errors: FieldErrors) -> None:
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in taken:
                errors.duplicate(f"{path}[{index}].ports[{position}].hostPort", key)
            taken.add(key)


def _init_restart_policy(container: JsonObject, path: str, errors: FieldErrors) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules")
    if policy is None:
        if rules:
            errors.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy != "Always":
        _restart_rules(container, path, errors)
    elif rules:
        errors.forbidden(
            f"{path}.restartPolicyRules",
            "restartPolicyRules are not allowed for init containers with restart policy Always",
        )


def _restart_rules(container: JsonObject, path: str, errors: FieldErrors) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if rules:
            errors.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy not in _RESTART_POLICIES:
        errors.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    if len(rules) > 20:
        errors.too_long(f"{path}.restartPolicyRules", rules, 20)
    for index, rule in enumerate(rules):
        at = f"{path}.restartPolicyRules[{index}]"
        if rule.get("action") != "Restart":
            errors.not_supported(f"{at}.action", rule.get("action", ""), ("Restart",))
        codes = rule.get("exitCodes")
        if codes is None:
            errors.required(f"{at}.exitCodes", "must be specified")
            continue
        if codes.get("operator") not in ("In", "NotIn"):
            errors.not_supported(f"{at}.exitCodes.operator", codes.get("operator", ""), ("In", "NotIn"))
        if len(codes.get("values") or ()) > 255:
            errors.too_long(f"{at}.exitCodes.values", codes["values"], 255)
