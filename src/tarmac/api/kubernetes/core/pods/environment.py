"""Validation of environment variables and the sources of their values, shared with downward API volumes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tarmac.api import checks
from tarmac.api.kubernetes.resourcenames import ZERO, quantity
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_KNOWN_FIELDS = frozenset({*_ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"})
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_SIZES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def validate_env(variables: Sequence[JsonObject], path: str, errors: FieldErrors) -> None:
    """Check `env` of a container."""
    for index, variable in enumerate(variables):
        name = variable.get("name")
        if not name:
            errors.required(f"{path}[{index}].name")
        else:
            checks.env_var_name(name, f"{path}[{index}].name", errors)
        source = variable.get("valueFrom")
        if source is not None:
            _validate_source(source, variable, f"{path}[{index}].valueFrom", errors)


def validate_env_from(sources: Sequence[JsonObject], path: str, errors: FieldErrors) -> None:
    """Check `envFrom` of a container."""
    for index, source in enumerate(sources):
        if prefix := source.get("prefix"):
            checks.env_var_name(prefix, f"{path}[{index}].prefix", errors)
        given = [key for key in ("configMapRef", "secretRef") if source.get(key) is not None]
        for key in given:
            name = source[key].get("name")
            if not name:
                errors.required(f"{path}[{index}].{key}.name")
            else:
                checks.dns_subdomain(name, f"{path}[{index}].{key}.name", errors)
        if not given:
            errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            errors.invalid(path, "", "may not have more than one field specified at a time")


def _validate_source(source: JsonObject, variable: JsonObject, path: str, errors: FieldErrors) -> None:
    given = 0
    if (reference := source.get("fieldRef")) is not None:
        given += 1
        validate_field_ref(reference, _ENV_FIELDS, f"{path}.fieldRef", errors)
    if (reference := source.get("resourceFieldRef")) is not None:
        given += 1
        validate_resource_ref(reference, f"{path}.resourceFieldRef", errors, in_volume=False)
    for key in ("configMapKeyRef", "secretKeyRef"):
        if (reference := source.get(key)) is not None:
            given += 1
            _validate_key_ref(reference, f"{path}.{key}", errors)
    if (reference := source.get("fileKeyRef")) is not None:
        given += 1
        _validate_file_ref(reference, f"{path}.fileKeyRef", errors)
    if given == 0:
        errors.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        )
    elif variable.get("value"):
        errors.invalid(path, "", "may not be specified when `value` is not empty")
    elif given > 1:
        errors.invalid(path, "", "may not have more than one field specified at a time")


def validate_field_ref(reference: JsonObject, allowed: Collection[str], path: str, errors: FieldErrors) -> None:
    """Check a reference to a field of the pod, such as `metadata.labels['app']`."""
    if not reference.get("apiVersion"):
        errors.required(f"{path}.apiVersion")
        return
    field = reference.get("fieldPath")
    if not field:
        errors.required(f"{path}.fieldPath")
        return
    base, _, rest = field.partition("['")
    subscript = rest[:-2] if rest.endswith("']") else None
    if reference["apiVersion"] != "v1":
        detail = f"error converting fieldPath: unsupported pod version: {reference['apiVersion']}"
        errors.invalid(f"{path}.fieldPath", field, detail)
    elif subscript is not None and base in ("metadata.annotations", "metadata.labels"):
        key = subscript.lower() if base == "metadata.annotations" else subscript
        checks.qualified_name(key, path, errors)
    elif subscript is not None:
        detail = f"error converting fieldPath: field label does not support subscript: {field}"
        errors.invalid(f"{path}.fieldPath", field, detail)
    elif field not in _KNOWN_FIELDS:
        detail = f"error converting fieldPath: field label not supported: {field}"
        errors.invalid(f"{path}.fieldPath", field, detail)
    elif field not in allowed:
        errors.not_supported(f"{path}.fieldPath", field, allowed)


def validate_resource_ref(reference: JsonObject, path: str, errors: FieldErrors, *, in_volume: bool) -> None:
    """Check a reference to a container's request or limit."""
    resource = reference.get("resource", "")
    if in_volume and not reference.get("containerName"):
        errors.required(f"{path}.containerName")
    elif not resource:
        errors.required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.not_supported(f"{path}.resource", resource, _RESOURCES)
    _validate_divisor(resource, reference.get("divisor", "0"), path, errors)


def _validate_divisor(resource: str, divisor: str, path: str, errors: FieldErrors) -> None:
    amount = quantity(divisor)
    if amount == ZERO:
        return
    kind = resource.partition(".")[2]
    if kind == "cpu":
        if str(amount) not in ("1m", "1"):
            errors.invalid(
                f"{path}.divisor", resource, "only divisor's values 1m and 1 are supported with the cpu resource"
            )
    elif str(amount) not in _SIZES:
        noun = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(kind)
        if noun is None and kind.startswith("hugepages-"):
            noun = "hugepages"
        if noun:
            detail = f"only divisor's values {', '.join(_SIZES)} are supported with the {noun} resource"
            errors.invalid(f"{path}.divisor", resource, detail)


def _validate_key_ref(reference: JsonObject, path: str, errors: FieldErrors) -> None:
    checks.dns_subdomain(reference.get("name", ""), f"{path}.name", errors)
    key = reference.get("key")
    if not key:
        errors.required(f"{path}.key")
    else:
        checks.report(names.config_map_key(key), key, f"{path}.key", errors)


def _validate_file_ref(reference: JsonObject, path: str, errors: FieldErrors) -> None:
    for field, check in (
        ("key", checks.env_var_name),
        ("volumeName", checks.dns_label),
        ("path", checks.no_backsteps),
    ):
        value = reference.get(field)
        if not value:
            errors.required(f"{path}.{field}")
        else:
            check(value, f"{path}.{field}", errors)
