"""The columns of `kubectl get` for the kinds of `networking.k8s.io`."""

from __future__ import annotations

from typing import Final

from tarmac.api.checks import mapping, objects
from tarmac.api.kubernetes.apps.appscolumns import selector_text
from tarmac.api.kubernetes.cells import AGE, NAME, NONE, cell, field
from tarmac.api.resource import Column
from tarmac.api.schema import JsonObject

_MAX_HOSTS: Final = 3  # shown by name; the rest is counted


def _hosts(ingress: JsonObject) -> str:
    hosts = [rule["host"] for rule in objects(ingress, "spec", "rules") if rule.get("host")]
    shown = ",".join(hosts[:_MAX_HOSTS]) or "*"
    return f"{shown} + {len(hosts) - _MAX_HOSTS} more..." if len(hosts) > _MAX_HOSTS else shown


def _addresses(ingress: JsonObject) -> str:
    found = objects(ingress, "status", "loadBalancer", "ingress")
    return ",".join(sorted({each.get("ip") or each.get("hostname") or "" for each in found} - {""}))


def _class(ingress: JsonObject) -> str:
    annotation = mapping(ingress, "metadata", "annotations").get("kubernetes.io/ingress.class")
    return mapping(ingress, "spec").get("ingressClassName") or annotation or NONE


def _parameters(ingress_class: JsonObject) -> str:
    found = mapping(ingress_class, "spec", "parameters")
    if not found:
        return NONE
    group = f".{found['apiGroup']}" if found.get("apiGroup") else ""
    return f"{found.get('kind', '')}{group}/{found.get('name', '')}"


def _parent(address: JsonObject) -> str:
    parent = mapping(address, "spec", "parentRef")
    if not parent:
        return NONE
    group = f".{parent['group']}" if parent.get("group") else ""
    words = (f"{parent.get('resource', '')}{group}".lower(), parent.get("namespace"), parent.get("name", ""))
    return "/".join(word for word in words if word)


COLUMNS: Final[dict[tuple[str, str], tuple[Column, ...]]] = {
    ("networking.k8s.io", "Ingress"): (
        NAME,
        cell("Class", _class, "The name of the IngressClass resource that should be used for additional configuration"),
        cell("Hosts", _hosts, "Hosts that incoming requests are matched against before the ingress rule"),
        cell("Address", _addresses, "Address is a list containing ingress points for the load-balancer"),
        cell(
            "Ports",
            lambda obj: "80, 443" if objects(obj, "spec", "tls") else "80",
            "Ports of TLS configurations that open",
        ),
        AGE,
    ),
    ("networking.k8s.io", "IngressClass"): (
        NAME,
        field("Controller", ".spec.controller"),
        cell("Parameters", _parameters, ".spec.parameters"),
        AGE,
    ),
    # Kubernetes prints the age of an address below no heading, which no client shows
    ("networking.k8s.io", "IPAddress"): (NAME, cell("ParentRef", _parent, ".spec.parentRef")),
    ("networking.k8s.io", "ServiceCIDR"): (
        NAME,
        cell("CIDRs", lambda obj: ",".join(mapping(obj, "spec").get("cidrs") or ()), ".spec.cidrs"),
        AGE,
    ),
    ("networking.k8s.io", "NetworkPolicy"): (
        NAME,
        cell("Pod-Selector", lambda obj: selector_text(mapping(obj, "spec", "podSelector")), ".spec.podSelector"),
        AGE,
    ),
}
