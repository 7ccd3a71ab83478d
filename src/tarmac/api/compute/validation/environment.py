"""Environment variables of a container."""

from __future__ import annotations

from tarmac.api.kubernetes import checks
from tarmac.api.kubernetes.checks import objects
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_VALUE_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")


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
