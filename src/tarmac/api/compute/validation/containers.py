"""The sandbox and its containers."""

from __future__ import annotations

from tarmac.api.compute.validation.attachments import Volumes, check_attachments
from tarmac.api.compute.validation.context import Context
from tarmac.api.compute.validation.environment import check_environment
from tarmac.api.compute.validation.grace import check_grace
from tarmac.api.compute.validation.images import check_image
from tarmac.api.compute.validation.ports import Ports
from tarmac.api.compute.validation.probes import DEFAULT_GRACE, check_probes, forbid_probes
from tarmac.api.kubernetes import checks
from tarmac.api.kubernetes.checks import mapping, objects
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_SECCOMP_TYPES = ("RuntimeDefault", "Unconfined", "Localhost")


def check_sandbox(sandbox: JsonObject, volumes: Volumes, path: str, context: Context) -> None:
    """Check a sandbox except its containers' shares of the resources."""
    errors = context.errors
    if not objects(sandbox, "containers"):
        errors.required(f"{path}.containers")
    grace = check_grace(sandbox, DEFAULT_GRACE, path, context)
    names: set[str] = set()
    ports = Ports()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(objects(sandbox, field)):
            where = f"{path}.{field}[{index}]"
            checks.unique_name(container.get("name", ""), names, f"{where}.name", errors)
            _image(container, f"{where}.image", context)
            check_environment(container, where, errors)
            check_attachments(container, volumes, where, errors, container=True)
            ports.check(container, where, errors)
            _security(mapping(container, "securityContext"), f"{where}.securityContext", errors)
            if (policy := container.get("imagePullPolicy")) is not None:
                checks.one_of(policy, checks.PULL_POLICIES, f"{where}.imagePullPolicy", errors)
            if field == "containers":
                check_probes(container, grace, where, errors)
            else:
                forbid_probes(container, where, errors)
    for index, secret in enumerate(objects(sandbox, "imagePullSecrets")):
        if not secret.get("name"):
            errors.required(f"{path}.imagePullSecrets[{index}].name")
    _sysctls(sandbox, f"{path}.sysctls", errors)


def _image(container: JsonObject, path: str, context: Context) -> None:
    image = container.get("image", "")
    if not image:
        context.errors.required(path)
    elif (container.get("name", ""), image) not in context.stored.images:
        check_image(image, path, context.errors)


def _security(security: JsonObject, path: str, errors: FieldErrors) -> None:
    capabilities = mapping(security, "capabilities")
    for field in ("add", "drop"):
        for index, name in enumerate(capabilities.get(field) or ()):
            where = f"{path}.capabilities.{field}[{index}]"
            if field == "add" and name == "ALL":
                errors.forbidden(where, "ALL may not be added")
            elif name.startswith("CAP_"):
                errors.invalid(where, name, f"must be named without the prefix: {name.removeprefix('CAP_')}")
    profile = security.get("seccompProfile")
    if profile is not None:
        _seccomp(profile, f"{path}.seccompProfile", errors)


def _seccomp(profile: JsonObject, path: str, errors: FieldErrors) -> None:
    kind = profile.get("type", "")
    checks.one_of(kind, _SECCOMP_TYPES, f"{path}.type", errors)
    if kind == "Localhost" and not profile.get("localhostProfile"):
        errors.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost ")
    elif kind != "Localhost" and profile.get("localhostProfile"):
        errors.invalid(
            f"{path}.localhostProfile", profile["localhostProfile"], "can only be set when seccomp type is Localhost"
        )


def _sysctls(sandbox: JsonObject, path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(objects(sandbox, "sysctls")):
        name = sysctl.get("name", "")
        if not name:
            errors.required(f"{path}[{index}].name")
        elif name in seen:
            errors.duplicate(f"{path}[{index}].name", name)
        seen.add(name)
