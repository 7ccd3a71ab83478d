"""Minimal objects for the tests of ExternalServices."""

from __future__ import annotations

from typing import Any

from tarmac.api.declare import decode
from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.api.schema import JsonObject


def _metadata(name: str, namespace: str = "", **more: Any) -> JsonObject:
    uid = f"uid-{namespace}-{name}"
    made = {"name": name, "uid": uid, "creationTimestamp": "2026-11-16T10:00:00Z", "generation": 1, **more}
    return {**made, "namespace": namespace} if namespace else made


def address_class(
    name: str = "partner", *, ranges: Any = "192.0.2.0/28", status: Any = None, **spec: Any
) -> SourceIPClass:
    """Return a class for the namespace `team`."""
    written = [{"cidr": ranges}] if isinstance(ranges, str) else ranges
    full = {"ranges": written, "allowedNamespaces": {"names": ["team"]}, **spec}
    return decode(SourceIPClass, {"metadata": _metadata(name), "spec": full, "status": status or {}})


def claim(
    name: str = "c", namespace: str = "team", *, status: Any = None, created: str = "", **spec: Any
) -> SourceIPClaim:
    """Return a claim of the class `partner`."""
    metadata = _metadata(name, namespace, **({"creationTimestamp": created} if created else {}))
    full = {"className": "partner", **spec}
    return decode(SourceIPClaim, {"metadata": metadata, "spec": full, "status": status or {}})


def bound(name: str, address: str, namespace: str = "team", **spec: Any) -> SourceIPClaim:
    """Return a claim that holds an address."""
    names = [address] if "." in address else []
    return claim(name, namespace, status={"phase": "Bound", "addresses": [address], "sourceIPNames": names}, **spec)


def source_ip(address: str, holder: SourceIPClaim | None = None, *, status: Any = None, **spec: Any) -> SourceIP:
    """Return a SourceIP of the class `partner`."""
    full: JsonObject = {"address": address, "className": "partner", **spec}
    if holder is not None:
        own = holder.metadata
        full["claimRef"] = {"namespace": own.namespace, "name": own.name, "uid": own.uid}
    said = status if status is not None else {"phase": "Bound", "id": 7} if holder is not None else {}
    return decode(SourceIP, {"metadata": _metadata(address), "spec": full, "status": said})


def service(name: str = "db", namespace: str = "team", *, created: str = "", **spec: Any) -> ExternalService:
    """Return an ExternalService with one source, the Service `web` under the claim `c`."""
    source = {"service": {"name": "web"}, "sourceIPClaim": {"name": "c"}}
    full = {"targetIP": "203.0.113.9", "sources": [source], "ports": [{"port": 5432, "targetPort": 8000}], **spec}
    metadata = _metadata(name, namespace, **({"creationTimestamp": created} if created else {}))
    return decode(ExternalService, {"metadata": metadata, "spec": full})
