"""Address families, cluster addresses and ports that a Service needs, before any are allocated.

All functions are pure; the server's allocator chooses the free addresses. Both families are configured, IPv4 first.
"""

from __future__ import annotations

from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

IPV4, IPV6 = "IPv4", "IPv6"
_DUAL = ("RequireDualStack", "PreferDualStack")
_OTHER = {IPV4: IPV6, IPV6: IPV4}


def is_headless(spec: JsonObject) -> bool:
    """Return True for a Service without a cluster address of its own."""
    return spec.get("clusterIPs") == ["None"] or (not spec.get("clusterIPs") and spec.get("clusterIP") == "None")


def needs_cluster_address(spec: JsonObject) -> bool:
    """Return True for all types but ExternalName, including headless Services: they have families."""
    return spec.get("type") != "ExternalName"


def needs_node_ports(spec: JsonObject) -> bool:
    """Return True for NodePort, and for LoadBalancer unless it disables them."""
    kind = spec.get("type")
    return kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False)


def needs_health_check_port(spec: JsonObject) -> bool:
    """Return True for load balancers that must find the nodes with endpoints."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def externally_accessible(spec: JsonObject) -> bool:
    """Return True if the Service is reachable from outside."""
    kind = spec.get("type")
    return kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def family_of(address: str) -> str:
    """Return the family of a textual address; an unparsable one counts as IPv4 and fails validation."""
    try:
        return IPV6 if names.plain_address(address).version == 6 else IPV4
    except ValueError:
        return IPV4


def patch_allocated(spec: JsonObject, old: JsonObject) -> None:
    """Keep allocated values that an update omits."""
    if needs_cluster_address(old) and needs_cluster_address(spec):
        if not spec.get("clusterIP") and old.get("clusterIP"):
            spec["clusterIP"] = old["clusterIP"]
        if not spec.get("clusterIPs") and old.get("clusterIPs"):
            spec["clusterIPs"] = list(old["clusterIPs"])
    if needs_node_ports(old) and needs_node_ports(spec):
        _patch_node_ports(spec.get("ports") or [], old.get("ports") or [])
    checked = needs_health_check_port(old) and needs_health_check_port(spec)
    if checked and not spec.get("healthCheckNodePort") and old.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = old["healthCheckNodePort"]


def _patch_node_ports(ports: list[JsonObject], old: list[JsonObject]) -> None:
    known = {port.get("name"): port.get("nodePort", 0) for port in old}
    used = {port.get("nodePort") for port in ports}
    for port in ports:
        kept = known.get(port.get("name"))
        if not port.get("nodePort") and kept and kept not in used:
            port["nodePort"] = kept


def normalise_addresses(spec: JsonObject, old: JsonObject | None) -> None:
    """Update `clusterIPs` where the client set or changed only `clusterIP`, which is its first value."""
    single, several = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if old is None:
        if single and not several:
            spec["clusterIPs"] = [single]
        return
    old_single, old_several = old.get("clusterIP", ""), old.get("clusterIPs") or []
    if old_several and not several and single == old_single:
        spec["clusterIPs"] = list(old_several)
    elif single != old_single and several == old_several:
        spec["clusterIPs"] = [single] if single else []


def init_policy(spec: JsonObject, old: JsonObject | None) -> None:
    """Fill in `ipFamilyPolicy` from the new and the old Service."""
    if needs_cluster_address(spec) and spec.get("ipFamilyPolicy") is None:
        selectorless = spec.get("clusterIP") == "None" and not spec.get("selector")
        before = (old or {}).get("ipFamilyPolicy")
        spec["ipFamilyPolicy"] = before or ("RequireDualStack" if selectorless else "SingleStack")


def init_families(spec: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
    """Fill in `ipFamilies`, after the policy."""
    if not needs_cluster_address(spec):
        return
    policy = spec["ipFamilyPolicy"]
    if old is not None:
        _release_secondary(spec, old, policy, errors)
    addresses, families = spec.get("clusterIPs") or [], list(spec.get("ipFamilies") or [])
    if policy == "SingleStack":
        for count, noun in ((len(addresses), "cluster IPs"), (len(families), "IP families")):
            if count == 2:
                detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {noun} are specified"
                errors.invalid("spec.ipFamilyPolicy", policy, detail)
    if addresses[:1] != ["None"]:
        families += [family_of(address) for address in addresses[len(families) :]]
    if not families:
        families = [IPV4]
    if policy in _DUAL and len(families) == 1:
        families.append(_OTHER.get(families[0], IPV4))
    spec["ipFamilies"] = families


def _release_secondary(spec: JsonObject, old: JsonObject, policy: str, errors: FieldErrors) -> None:
    for field, noun in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        now, before = spec.get(field) or [], old.get(field) or []
        if policy == "SingleStack":
            if now == before and len(now) > 1:
                spec[field] = now[:1]
        elif len(now) == 1 and len(before) == 2 and now[0] == before[0]:
            errors.invalid("spec.ipFamilyPolicy", policy, f"must be 'SingleStack' to release the secondary {noun}")


def drop_type_dependent_fields(spec: JsonObject, old: JsonObject) -> None:
    """Drop values that only the old type needed, if the client did not change them."""
    if needs_cluster_address(old) and not needs_cluster_address(spec):
        _drop_unchanged(spec, old, "internalTrafficPolicy")
        for fields in (("clusterIP", "clusterIPs"), ("ipFamilies",), ("ipFamilyPolicy",)):
            if all(spec.get(field) == old.get(field) for field in fields):
                for field in fields:
                    spec.pop(field, None)
    if needs_node_ports(old) and not needs_node_ports(spec) and _node_ports(spec) == _node_ports(old):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    if needs_health_check_port(old) and not needs_health_check_port(spec):
        _drop_unchanged(spec, old, "healthCheckNodePort")
    if old.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        _drop_unchanged(spec, old, "allocateLoadBalancerNodePorts")
        _drop_unchanged(spec, old, "loadBalancerClass")
    if externally_accessible(old) and not externally_accessible(spec):
        _drop_unchanged(spec, old, "externalTrafficPolicy")


def _drop_unchanged(spec: JsonObject, old: JsonObject, field: str) -> None:
    if spec.get(field) == old.get(field):
        spec.pop(field, None)


def _node_ports(spec: JsonObject) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
