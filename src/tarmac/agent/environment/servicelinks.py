"""Environment variables with the addresses of a namespace's Services, in Docker's link format."""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.api.schema import JsonObject


def service_links(services: Iterable[JsonObject], namespace: str, every: bool) -> dict[str, str]:
    """Return variables for `default/kubernetes` and, with `every`, for all Services of the namespace."""
    found: dict[str, str] = {}
    for service in services:
        metadata, spec = service["metadata"], service.get("spec") or {}
        address = spec.get("clusterIP")
        master = metadata["namespace"] == "default" and metadata["name"] == "kubernetes"
        if address in (None, "", "None") or not spec.get("ports"):
            continue
        if master or (every and metadata["namespace"] == namespace):
            found.update(_variables(metadata["name"], address, spec["ports"]))
    return found


def _variables(service: str, address: str, ports: list[JsonObject]) -> dict[str, str]:
    prefix = _name(service)
    found = {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(ports[0]["port"])}
    host = f"[{address}]" if ":" in address else address
    for index, port in enumerate(ports):
        number, protocol = port["port"], port.get("protocol") or "TCP"
        url = f"{protocol.lower()}://{host}:{number}"
        each = f"{prefix}_PORT_{number}_{protocol.upper()}"
        if port.get("name"):
            found[f"{prefix}_SERVICE_PORT_{_name(port['name'])}"] = str(number)
        if index == 0:
            found[f"{prefix}_PORT"] = url
        found |= {each: url, f"{each}_PROTO": protocol.lower(), f"{each}_PORT": str(number), f"{each}_ADDR": address}
    return found


def _name(text: str) -> str:
    return text.replace("-", "_").upper()
