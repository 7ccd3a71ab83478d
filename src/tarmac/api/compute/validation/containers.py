"""The sandbox and its containers."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.checks import mapping, objects
from tarmac.api.compute.validation.attachments import Volumes, check_attachments
from tarmac.api.compute.validation.context import Context
from tarmac.api.compute.validation.grace import check_grace
from tarmac.api.compute.validation.imagereferences import check_image
from tarmac.api.compute.validation.namedports import PortChecks
from tarmac.api.compute.validation.probes import DEFAULT_GRACE, check_probes, forbid_probes
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_SECCOMP_TYPES = ("RuntimeDefault", "Unconfined", "Localhost")

_VALUE_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")


def check_sandbox(sandbox: JsonObject, volumes: Volumes, path: str, context: Context) -> None:
    """Check a sandbox except its containers' shares of the resources."""
    errors = context.errors
    if not objects(sandbox, "containers"):
        errors.required(f"{path}.containers")
    grace = check_grace(sandbox, DEFAULT_GRACE, path, context)
    names: set[str] = set()
    ports = PortChecks()
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


def check_environment(container: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check `env` and `envFrom`."""
    seen: set[str] = set()
    for index, variable in enumerate(objects(container, "env")):
        _variable(variable, seen, f"{path}.env[{index}]", errors)
    for index, source in enumerate(objects(container, "envFrom")):
        _whole_source(source, f"{path}.envFrom[{index}]", errors)


def _variable(variable: JsonObject, seen: set[str], path: str, errors: FieldErrors) -> None:
    name = variable.get("name", "")
    if not name:
        errors.required(f"{path}.name")
    else:
        checks.env_var_name(name, f"{path}.name", errors)
        if name in seen:
            errors.duplicate(f"{path}.name", name)
        seen.add(name)
    source = variable.get("valueFrom")
    if source is None:
        return
    if variable.get("value"):
        errors.invalid(f"{path}.valueFrom", "", "may not be specified when `value` is not empty")
    _value_source(source, f"{path}.valueFrom", errors)


def _value_source(source: JsonObject, path: str, errors: FieldErrors) -> None:
    chosen = [name for name in _VALUE_SOURCES if source.get(name) is not None]
    if not chosen:
        options = ", ".join(f"`{name}`" for name in _VALUE_SOURCES[:-1])
        errors.invalid(path, "", f"must specify one of: {options} or `{_VALUE_SOURCES[-1]}`")
    elif len(chosen) > 1:
        errors.invalid(path, "", "may not have more than one field specified at a time")
    for name in chosen:
        _reference(name, source[name], f"{path}.{name}", errors)


def _reference(kind: str, reference: JsonObject, path: str, errors: FieldErrors) -> None:
    required = {"fieldRef": ("fieldPath",), "resourceFieldRef": ("resource",)}.get(kind, ("name", "key"))
    for field in required:
        if not reference.get(field):
            errors.required(f"{path}.{field}")
    if reference.get("key"):
        checks.report(names.config_map_key(reference["key"]), reference["key"], f"{path}.key", errors)


def _whole_source(source: JsonObject, path: str, errors: FieldErrors) -> None:
    prefix = source.get("prefix")
    if prefix:
        checks.report(names.c_identifier(prefix), prefix, f"{path}.prefix", errors)
    config_map, secret = source.get("configMapRef"), source.get("secretRef")
    if config_map is None and secret is None:
        errors.required(path, "must specify one of: `configMapRef` or `secretRef`")
    elif config_map is not None and secret is not None:
        errors.forbidden(f"{path}.secretRef", "may not be specified beside `configMapRef`")
    for kind, reference in (("configMapRef", config_map), ("secretRef", secret)):
        if reference is not None and not reference.get("name"):
            errors.required(f"{path}.{kind}.name")
