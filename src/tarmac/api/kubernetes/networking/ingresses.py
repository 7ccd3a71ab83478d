"""Ingress and IngressClass. Tarmac stores them; an ingress controller of the user's choice carries them out."""

from __future__ import annotations

from typing import Final

from tarmac.api import checks
from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_UNCLEAN: Final = ("//", "/./", "/../", "%2f", "%2F")
_UNCLEAN_ENDS: Final = ("/..", "/.")
_MAX_CONTROLLER: Final = 250
_WILDCARD: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    r"regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


class IngressStrategy(KubernetesStrategy):
    """Ingress."""

    has_status = True
    generation = True

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = {"loadBalancer": {}}

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj.get("spec") or {}
        default, rules = spec.get("defaultBackend"), spec.get("rules")
        if default is None and not rules:
            errors.invalid("spec", rules, "either `defaultBackend` or `rules` must be specified")
        if default is not None:
            _validate_backend(default, "spec.defaultBackend", errors)
        for index, rule in enumerate(rules or ()):
            _validate_rule(rule, f"spec.rules[{index}]", errors)
        for index, entry in enumerate(spec.get("tls") or ()):
            for position, host in enumerate(entry.get("hosts") or ()):
                _validate_host(host, f"spec.tls[{index}].hosts[{position}]", errors)
        if (name := spec.get("ingressClassName")) is not None:
            checks.dns_subdomain(name, "spec.ingressClassName", errors)


def _validate_rule(rule: JsonObject, path: str, errors: FieldErrors) -> None:
    if host := rule.get("host"):
        if not names.ip_address(host):
            errors.invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
        else:
            _validate_host(host, f"{path}.host", errors)
    http = rule.get("http")
    if http is None:
        return
    paths = http.get("paths") or []
    if not paths:
        errors.required(f"{path}.http.paths")
    for index, each in enumerate(paths):
        _validate_path(each, f"{path}.http.paths[{index}]", errors)


def _validate_host(host: str, path: str, errors: FieldErrors) -> None:
    if "*" in host:
        rest = host.removeprefix("*.")
        if rest == host or "*" in rest or names.dns1123_subdomain(rest):
            errors.invalid(path, host, _WILDCARD)
    else:
        checks.dns_subdomain(host, path, errors)


def _validate_path(each: JsonObject, path: str, errors: FieldErrors) -> None:
    kind, text = each.get("pathType"), each.get("path", "")
    if kind is None:
        errors.required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        errors.not_supported(f"{path}.pathType", kind, _PATH_TYPES)
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            errors.invalid(f"{path}.path", text, "must be an absolute path")
    else:
        _validate_clean_path(text, f"{path}.path", errors)
    _validate_backend(each.get("backend") or {}, f"{path}.backend", errors)


def _validate_clean_path(text: str, path: str, errors: FieldErrors) -> None:
    if not text.startswith("/"):
        errors.invalid(path, text, "must be an absolute path")
    for part in _UNCLEAN:
        if part in text:
            errors.invalid(path, text, f"must not contain '{part}'")
    for end in _UNCLEAN_ENDS:
        if text.endswith(end):
            errors.invalid(path, text, f"cannot end with '{end}'")


def _validate_backend(backend: JsonObject, path: str, errors: FieldErrors) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        errors.invalid(path, "", "cannot set both resource and service backends")
    elif service is None and resource is None:
        errors.required(path, "resource or service backend is required")
    elif service is not None:
        _validate_service(service, path, errors)


def _validate_service(service: JsonObject, path: str, errors: FieldErrors) -> None:
    name, port = service.get("name", ""), service.get("port") or {}
    if not name:
        errors.required(f"{path}.service.name")
    else:
        checks.report(names.dns1035_label(name), name, f"{path}.service.name", errors)
    named, number = port.get("name", ""), port.get("number", 0)
    if named and number:
        errors.invalid(path, "", "cannot set both port name & port number")
    elif named:
        checks.report(names.port_name(named), named, f"{path}.service.port.name", errors)
    elif number:
        checks.port_number(number, f"{path}.service.port.number", errors)
    else:
        errors.required(path, "port name or number is required")


class IngressClassStrategy(KubernetesStrategy):
    """IngressClass."""

    generation = True

    def default(self, obj: JsonObject) -> None:
        parameters = (obj.get("spec") or {}).get("parameters")
        if parameters is not None:
            parameters["scope"] = parameters.get("scope") or "Cluster"

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj.get("spec") or {}
        controller = spec.get("controller", "")
        if len(controller) > _MAX_CONTROLLER:
            errors.add("TooLong", "spec.controller", None, f"may not be more than {_MAX_CONTROLLER} bytes")
        domain, slash, rest = controller.partition("/")
        if not slash or not domain or not rest:
            errors.invalid("spec.controller", controller, 'must be a domain-prefixed path (such as "acme.io/foo")')
        else:
            checks.dns_subdomain(domain, "spec.controller", errors)
        parameters = spec.get("parameters")
        if parameters is not None:
            _validate_parameters(parameters, "spec.parameters", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        before, now = (checks.mapping(each, "spec").get("controller") for each in (old, new))
        checks.immutable(now, before, "spec.controller", errors)


def _validate_parameters(parameters: JsonObject, path: str, errors: FieldErrors) -> None:
    for field in ("kind", "name"):
        if not parameters.get(field):
            errors.required(f"{path}.{field}", f"{field} is required")
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope not in ("Cluster", "Namespace"):
        errors.not_supported(f"{path}.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Namespace" and not namespace:
        errors.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif scope == "Cluster" and namespace is not None:
        errors.forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")
