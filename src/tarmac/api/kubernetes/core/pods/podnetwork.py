"""Validation of a pod's network settings: DNS, host namespaces, host names and aliases."""

from __future__ import annotations

import re

from tarmac.api import checks
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_CHARACTERS = 2048
_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_SEARCH_MESSAGE = names.regex_message(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    "start and end with an alphanumeric character",
    _SEARCH.pattern,
    "example.com",
)


def validate_network(spec: JsonObject, errors: FieldErrors) -> None:
    """Check names, addresses and host namespaces."""
    if spec.get("hostNetwork"):
        _validate_host_ports(spec, errors)
    policy = spec.get("dnsPolicy", "")
    if policy not in _DNS_POLICIES:
        checks.one_of(policy, _DNS_POLICIES, "spec.dnsPolicy", errors)
    _validate_dns_config(spec.get("dnsConfig"), policy, errors)
    if spec.get("hostUsers") is False:
        _validate_user_namespace(spec, errors)
    if spec.get("hostnameOverride") is not None:
        _validate_hostname_override(spec, errors)
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        checks.ip_address(alias.get("ip", ""), f"spec.hostAliases[{index}].ip", errors)
        for position, name in enumerate(alias.get("hostnames") or ()):
            checks.dns_subdomain(name, f"spec.hostAliases[{index}].hostnames[{position}]", errors)


def _validate_host_ports(spec: JsonObject, errors: FieldErrors) -> None:
    for index, container in enumerate(spec.get("containers") or ()):
        for position, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort", 0) != port.get("containerPort", 0):
                errors.invalid(
                    f"spec.containers[{index}].ports[{position}].hostPort",
                    port.get("hostPort", 0),
                    "must match `containerPort` when `hostNetwork` is true",
                )


def _validate_user_namespace(spec: JsonObject, errors: FieldErrors) -> None:
    for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            errors.forbidden(f"spec.{shown}", "when `hostUsers` is false")
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            if container.get("volumeDevices"):
                errors.forbidden(f"spec.{field}[{index}].volumeDevices", "when `hostUsers` is false")


def _validate_hostname_override(spec: JsonObject, errors: FieldErrors) -> None:
    path, name = "spec.hostnameOverride", spec["hostnameOverride"]
    if spec.get("setHostnameAsFQDN"):
        errors.forbidden(path, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        errors.forbidden(path, "may not be specified when hostNetwork is true")
    if len(name) > 64:
        errors.too_long(path, name, 64)
    checks.dns_subdomain(name, path, errors)


def _validate_dns_config(config: JsonObject | None, policy: str, errors: FieldErrors) -> None:
    path = "spec.dnsConfig"
    if policy == "None":
        if config is None:
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.required(f"{path}.nameservers", detail)
            return
    if not config:
        return
    servers, searches = config.get("nameservers") or (), config.get("searches") or ()
    if len(servers) > _MAX_NAMESERVERS:
        errors.invalid(f"{path}.nameservers", servers, f"must not have more than {_MAX_NAMESERVERS} nameservers")
    for index, server in enumerate(servers):
        checks.ip_address(server, f"{path}.nameservers[{index}]", errors)
    if len(searches) > _MAX_SEARCHES:
        errors.invalid(f"{path}.searches", searches, f"must not have more than {_MAX_SEARCHES} search paths")
    if len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        limit = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        errors.invalid(f"{path}.searches", searches, limit)
    for index, search in enumerate(searches):
        _validate_search(search, f"{path}.searches[{index}]", errors)
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.required(f"{path}.options[{index}]", "must not be empty")


def _validate_search(search: str, path: str, errors: FieldErrors) -> None:
    """Check a search domain; unlike other names it may have underscores."""
    name = search.removesuffix(".")
    if search != "." and not _SEARCH.fullmatch(name):
        errors.invalid(path, name, _SEARCH_MESSAGE)
