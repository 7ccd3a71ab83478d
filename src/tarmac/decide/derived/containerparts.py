"""Parts of a Pod's containers that sandboxes and machines have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tarmac.api.compute.instance import Container, Port, SecurityContext, VirtualMachine
from tarmac.api.declare import encode
from tarmac.api.schema import JsonObject

DEFAULT_FILTER: Final = {"type": "RuntimeDefault"}
_RAW_SOCKETS = "NET_RAW"


def probes_of(watched: Container | VirtualMachine) -> JsonObject:
    """Return the probes and hooks as written."""
    fields = {
        "readinessProbe": watched.readiness_probe,
        "livenessProbe": watched.liveness_probe,
        "startupProbe": watched.startup_probe,
        "lifecycle": watched.lifecycle if isinstance(watched, Container) else None,
    }
    return {name: encode(value) for name, value in fields.items() if value is not None}


def pod_port(port: Port) -> JsonObject:
    """Return a port of a Pod's container."""
    return {"name": port.name, "containerPort": port.port, "protocol": port.protocol}


def security_of(context: SecurityContext | None) -> JsonObject:
    """Return the platform's security rules, except for permissions that the manifest explicitly requests."""
    context = context or SecurityContext()
    wanted = context.capabilities
    add, drop = (wanted.add, wanted.drop) if wanted else ([], [])
    if _RAW_SOCKETS not in add and "ALL" not in drop:
        drop = [*(each for each in drop if each != _RAW_SOCKETS), _RAW_SOCKETS]
    found: JsonObject = {
        "allowPrivilegeEscalation": bool(context.allow_privilege_escalation),
        "capabilities": stated({"add": add, "drop": drop}),
    }
    if context.seccomp_profile is not None:
        found["seccompProfile"] = encode(context.seccomp_profile)
    return found


def stated(fields: Mapping[str, Any]) -> JsonObject:
    """Return the fields without empty values."""
    return {name: value for name, value in fields.items() if value not in ({}, [], "")}
