"""Validation of a Service on create, update and status writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tarmac.api import checks
from tarmac.api.kubernetes.core.services import families
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_MAX_AFFINITY = 86400
_FIXED = "may not change once set"
SOURCE_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
"""The older form of `loadBalancerSourceRanges`, an annotation, which counts without the field."""
_BALANCED = "may only be used when `type` is 'LoadBalancer'"


def validate_service(service: JsonObject, errors: FieldErrors, old: JsonObject | None = None) -> None:
    """Check the rules for every version of a Service."""
    spec = service["spec"]
    kind, ports = spec.get("type", ""), spec.get("ports") or []
    headless = families.is_headless(spec)
    if not ports and not headless and kind != "ExternalName":
        errors.required("spec.ports")
    if headless and kind in ("LoadBalancer", "NodePort"):
        errors.invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        _validate_external_name(spec, errors)
    _validate_ports(ports, kind, errors)
    if selector := spec.get("selector"):
        checks.labels(selector, "spec.selector", errors)
    _validate_affinity(spec, errors)
    if kind != "ExternalName":
        validate_addresses(spec, errors)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        validate_endpoint_address(address, f"spec.externalIPs[{index}]", errors)
    if kind not in _TYPES:
        checks.one_of(kind, _TYPES, "spec.type", errors)
    _validate_load_balancer(spec, kind, errors)
    _validate_annotated_ranges(service, old, errors)
    _validate_traffic(spec, kind, errors)


def _validate_external_name(spec: JsonObject, errors: FieldErrors) -> None:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            errors.forbidden(f"spec.{field}", "may not be set for ExternalName services")
    name = spec.get("externalName", "").removesuffix(".")
    if name:
        checks.dns_subdomain(name, "spec.externalName", errors)
    else:
        errors.required("spec.externalName")


def _validate_ports(ports: Sequence[JsonObject], kind: str, errors: FieldErrors) -> None:
    seen_names: set[str] = set()
    seen_ports: set[tuple[str, int]] = set()
    node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        _validate_port(port, len(ports) > 1, seen_names, path, errors)
        protocol, number, node_port = port.get("protocol", ""), port.get("port", 0), port.get("nodePort", 0)
        if node_port and kind == "ClusterIP":
            errors.forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")
        if node_port and (protocol, node_port) in node_ports:
            errors.duplicate(f"{path}.nodePort", node_port)
        if (protocol, number) in seen_ports:
            key = {
                "Name": "",
                "Protocol": protocol,
                "AppProtocol": None,
                "Port": number,
                "TargetPort": 0,
                "NodePort": 0,
            }
            errors.duplicate(path, key)
        node_ports.add((protocol, node_port))
        seen_ports.add((protocol, number))


def _validate_port(port: JsonObject, named: bool, seen: set[str], path: str, errors: FieldErrors) -> None:
    if named or port.get("name"):
        checks.unique_name(port.get("name", ""), seen, f"{path}.name", errors)
    checks.port_number(port.get("port", 0), f"{path}.port", errors)
    checks.one_of(port.get("protocol", ""), checks.PROTOCOLS, f"{path}.protocol", errors)
    checks.port_number_or_name(port.get("targetPort", 0), f"{path}.targetPort", errors)
    if (protocol := port.get("appProtocol")) is not None:
        checks.qualified_name(protocol, f"{path}.appProtocol", errors)


def _validate_affinity(spec: JsonObject, errors: FieldErrors) -> None:
    affinity = spec.get("sessionAffinity", "")
    checks.one_of(affinity, ("ClientIP", "None"), "spec.sessionAffinity", errors)
    if affinity != "ClientIP":
        return
    seconds = checks.mapping(spec, "sessionAffinityConfig", "clientIP").get("timeoutSeconds", 0)
    if not 0 < seconds <= _MAX_AFFINITY:
        path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        errors.invalid(path, seconds, f"must be greater than 0 and less than {_MAX_AFFINITY}")


def validate_addresses(spec: JsonObject, errors: FieldErrors) -> None:
    """Check cluster addresses and families, before any address is allocated."""
    single, several = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if single and not several:
        errors.required("spec.clusterIPs")
    elif single and several[0] != single:
        errors.invalid("spec.clusterIPs", several, "first value must match `clusterIP`")
    elif several and not single:
        errors.invalid("spec.clusterIPs", several, "must be empty when `clusterIP` is not specified")
    _validate_families(spec, errors)
    before = len(errors)
    for index, address in enumerate(several):
        if index == 0 and address == "None":
            if len(several) > 1:
                errors.invalid("spec.clusterIPs", several, "'None' must be the first and only value")
            continue
        checks.ip_address(address, f"spec.clusterIPs[{index}]", errors)
    if len(several) > 2:
        errors.invalid("spec.clusterIPs", several, "may only hold up to 2 values")
    if len(errors) == before:
        _validate_dual(spec, several, errors)


def _validate_families(spec: JsonObject, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in (families.IPV4, families.IPV6):
            errors.not_supported(f"spec.ipFamilies[{index}]", family, (families.IPV4, families.IPV6))
        if family in seen:
            errors.duplicate(f"spec.ipFamilies[{index}]", family)
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _POLICIES:
        errors.not_supported("spec.ipFamilyPolicy", policy, _POLICIES)


def _validate_dual(spec: JsonObject, several: list[str], errors: FieldErrors) -> None:
    if len(several) > 1 and len({families.family_of(address) for address in several}) < 2:
        errors.invalid("spec.clusterIPs", several, "may specify no more than one IP for each IP family")
    if several[:1] == ["None"]:
        return
    for index, (address, family) in enumerate(zip(several, spec.get("ipFamilies") or (), strict=False)):
        if families.family_of(address) != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.invalid(f"spec.clusterIPs[{index}]", address, detail)


def validate_endpoint_address(address: str, path: str, errors: FieldErrors) -> None:
    """Check an address for traffic: no special address, in any notation."""
    if names.is_ordinary_ipv4(address):
        return
    if messages := names.ip_address(address):
        checks.report(messages, address, path, errors)
        return
    parsed = names.plain_address(address)
    if parsed.is_unspecified:
        errors.invalid(path, address, f"may not be unspecified ({address})")
    if parsed.is_loopback:
        errors.invalid(path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if parsed.is_link_local:
        errors.invalid(path, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if parsed.is_multicast and (str(parsed).startswith("224.0.0.") or parsed.exploded.startswith("ff02")):
        errors.invalid(path, address, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


def address_warnings(address: str, path: str) -> list[str]:
    """Return Kubernetes' warnings about an address in unusual notation."""
    if names.address_family(address) == 4 or names.ip_address(address):
        return []  # the usual case, or already rejected
    usual = str(names.plain_address(address))
    if ":" not in usual:
        why = "will be considered invalid in a future Kubernetes release"
        return [f'{path}: non-standard IP address "{address}" {why}: use "{usual}"']
    if usual != address:
        return [f'{path}: IPv6 address "{address}" should be in RFC 5952 canonical format ("{usual}")']
    return []


def _validate_load_balancer(spec: JsonObject, kind: str, errors: FieldErrors) -> None:
    ranges = spec.get("loadBalancerSourceRanges") or ()
    if ranges and kind != "LoadBalancer":
        errors.forbidden("spec.LoadBalancerSourceRanges", _BALANCED)
    for index, block in enumerate(ranges):
        block = block.strip()
        checks.report(names.cidr(block), block, f"spec.LoadBalancerSourceRanges[{index}]", errors)
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        errors.forbidden("spec.allocateLoadBalancerNodePorts", _BALANCED)
    name = spec.get("loadBalancerClass")
    if name is not None:
        if kind == "LoadBalancer":
            checks.qualified_name(name, "spec.loadBalancerClass", errors)
        else:
            errors.forbidden("spec.loadBalancerClass", _BALANCED)


def _validate_annotated_ranges(service: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
    """Check the annotation of source ranges. An unchanged value of an earlier version is left alone."""
    written, spec = checks.annotations_of(service).get(SOURCE_RANGES), service["spec"]
    if written is None or spec.get("loadBalancerSourceRanges"):
        return
    path = f"metadata.annotations[{SOURCE_RANGES}]"
    if spec.get("type") != "LoadBalancer":
        errors.forbidden(path, _BALANCED)
    if old is None or checks.annotations_of(old).get(SOURCE_RANGES) != written:
        for block in map(str.strip, written.strip().split(",")):
            checks.report(names.cidr(block), block, path, errors)


def _validate_traffic(spec: JsonObject, kind: str, errors: FieldErrors) -> None:
    policy = spec.get("externalTrafficPolicy", "")
    if families.externally_accessible(spec):
        checks.one_of(policy, ("Cluster", "Local"), "spec.externalTrafficPolicy", errors)
    elif policy:
        detail = "may only be set for externally-accessible services"
        errors.invalid("spec.externalTrafficPolicy", policy, detail)
    port = spec.get("healthCheckNodePort", 0)
    if families.needs_health_check_port(spec):
        if not port:
            errors.required("spec.healthCheckNodePort")
        else:
            checks.port_number(port, "spec.healthCheckNodePort", errors)
    elif port:
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.invalid("spec.healthCheckNodePort", port, detail)
    internal = spec.get("internalTrafficPolicy")
    if internal is not None and internal not in ("Cluster", "Local"):
        errors.not_supported("spec.internalTrafficPolicy", internal, ("Cluster", "Local"))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS)


def validate_update(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """Check immutable values: the primary address and family, and a load balancer's class."""
    spec, before = new["spec"], old["spec"]
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        _validate_same_addresses(spec, before, errors)
        if not families.is_headless(spec) and not families.is_headless(before):
            _validate_same_families(spec, before, errors)
    balanced = spec.get("type") == before.get("type") == "LoadBalancer"
    if balanced and spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
        errors.invalid("spec.loadBalancerClass", spec.get("loadBalancerClass"), _FIXED)
    checked = families.needs_health_check_port(spec) and families.needs_health_check_port(before)
    if checked and spec.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
        errors.forbidden("spec.healthCheckNodePort", checks.IMMUTABLE)


def _validate_same_addresses(spec: JsonObject, before: JsonObject, errors: FieldErrors) -> None:
    now, was = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if families.is_headless(spec) and families.is_headless(before):
        return
    if len(now) == len(was):
        for index, (address, old) in enumerate(zip(now, was, strict=True)):
            if address != old:
                errors.invalid(f"spec.clusterIPs[{index}]", now, _FIXED)
        return
    if was and not now:
        errors.invalid("spec.clusterIPs[0]", now, "primary clusterIP can not be unset")
    elif was and now[0] != was[0]:
        errors.invalid("spec.clusterIPs[0]", now, _FIXED)
    if len(was) > len(now) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        detail = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        errors.invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), detail)


def _validate_same_families(spec: JsonObject, before: JsonObject, errors: FieldErrors) -> None:
    now, was = spec.get("ipFamilies") or [], before.get("ipFamilies") or []
    changed = any(a != b for a, b in zip(now, was, strict=False)) if len(now) == len(was) else now[:1] != was[:1]
    if changed and was and now:
        errors.invalid("spec.ipFamilies[0]", now, _FIXED)
    if len(was) > len(now) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        detail = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        errors.invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), detail)


def validate_status(service: JsonObject, errors: FieldErrors) -> None:
    """Check a status reported by a load balancer's controller."""
    path = "status.loadBalancer.ingress"
    ingress = checks.objects(service, "status", "loadBalancer", "ingress")
    if ingress and service["spec"].get("type") != "LoadBalancer":
        errors.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    for index, entry in enumerate(ingress):
        at, address, mode = f"{path}[{index}]", entry.get("ip", ""), entry.get("ipMode")
        if address:
            checks.ip_address(address, f"{at}.ip", errors)
        if mode is None and address:
            errors.required(f"{at}.ipMode", "must be specified when `ip` is set")
        elif mode is not None and not address:
            errors.forbidden(f"{at}.ipMode", "may not be specified when `ip` is not set")
        elif mode is not None and mode not in ("Proxy", "VIP"):
            errors.not_supported(f"{at}.ipMode", mode, ("Proxy", "VIP"))
        if host := entry.get("hostname"):
            checks.dns_subdomain(host, f"{at}.hostname", errors)
            if not names.ip_address(host):
                errors.invalid(f"{at}.hostname", host, "must be a DNS name, not an IP address")
