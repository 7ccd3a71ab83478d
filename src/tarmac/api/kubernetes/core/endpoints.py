"""Endpoints: the older list of a Service's addresses."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.kubernetes.core.services.validation import address_warnings, validate_endpoint_address
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_MANAGED_BY = "endpoints.kubernetes.io/managed-by"


class EndpointsStrategy(KubernetesStrategy):
    """Addresses for traffic to a Service; with several ports, each port has a name."""

    allow_create_on_update = True
    deprecation = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"

    def default(self, obj: JsonObject) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                if not port.get("protocol"):
                    port["protocol"] = "TCP"

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        for index, subset in enumerate(obj.get("subsets") or ()):
            path, ports = f"subsets[{index}]", subset.get("ports") or []
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                errors.required(path, "must specify `addresses` or `notReadyAddresses`")
            for field in ("addresses", "notReadyAddresses"):
                for position, address in enumerate(subset.get(field) or ()):
                    if len(address) > 1 or not names.is_ordinary_ipv4(address.get("ip", "")):
                        _validate_address(address, f"{path}.{field}[{position}]", errors)
            for position, port in enumerate(ports):
                _validate_port(port, len(ports) > 1, f"{path}.ports[{position}]", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        if new.get("subsets") != old.get("subsets"):
            self.validate(new, errors)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        if (obj["metadata"].get("labels") or {}).get(_MANAGED_BY) == "endpoint-controller":
            return []  # it writes no unusual addresses, and its lists are long
        return [
            warning
            for index, subset in enumerate(obj.get("subsets") or ())
            for field in ("addresses", "notReadyAddresses")
            for position, address in enumerate(subset.get(field) or ())
            if not names.is_ordinary_ipv4(address.get("ip", ""))
            for warning in address_warnings(address.get("ip", ""), f"subsets[{index}].{field}[{position}].ip")
        ]


def _validate_address(address: JsonObject, path: str, errors: FieldErrors) -> None:
    ip = address.get("ip", "")
    validate_endpoint_address(ip, f"{path}.ip", errors)
    if names.ip_address(ip):
        errors.invalid(f"{path}.ip", ip, "must be a valid IP address")  # Kubernetes reports it twice
    if name := address.get("hostname"):
        checks.dns_label(name, f"{path}.hostname", errors)
    if (node := address.get("nodeName")) is not None:
        checks.dns_subdomain(node, f"{path}.nodeName", errors)


def _validate_port(port: JsonObject, named: bool, path: str, errors: FieldErrors) -> None:
    name = port.get("name", "")
    if name:
        checks.dns_label(name, f"{path}.name", errors)
    elif named:
        errors.required(f"{path}.name")
    checks.port_number(port.get("port", 0), f"{path}.port", errors)
    checks.one_of(port.get("protocol", ""), checks.PROTOCOLS, f"{path}.protocol", errors)
    if (protocol := port.get("appProtocol")) is not None:
        checks.qualified_name(protocol, f"{path}.appProtocol", errors)
