"""Validation of writes to a Pod's status."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api import checks
from tarmac.api.kubernetes.core.pods import classrules
from tarmac.api.kubernetes.core.pods.classfields import validate_annotations_unchanged
from tarmac.api.kubernetes.core.pods.podresources import is_sidecar
from tarmac.api.kubernetes.core.pods.validation import validate_mirror_unchanged
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_NO_RESTART = "may not be transitioned to non-terminated state"


def validate_status(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """Check a status reported by a node agent or scheduler."""
    validate_mirror_unchanged(new, old, errors)
    validate_annotations_unchanged(new, old, errors)
    status, before, spec = new.get("status") or {}, old.get("status") or {}, old["spec"]
    for index, condition in enumerate(status.get("conditions") or ()):
        if condition.get("type") not in _SYSTEM_CONDITIONS:
            checks.qualified_name(condition.get("type", ""), f"status.conditions[{index}].Type", errors)
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName", ""):
        checks.dns_subdomain(nominated, "status.nominatedNodeName", errors)
        if spec.get("nodeName"):
            errors.forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
    if status.get("observedGeneration", 0) < 0:
        errors.invalid("status.observedGeneration", status["observedGeneration"], "must be a non-negative integer")
    checks.immutable(status.get("qosClass", ""), before.get("qosClass", ""), "status.qosClass", errors)
    _validate_transitions(status, before, spec, errors)
    _validate_addresses(status, "podIPs", errors)
    _validate_addresses(status, "hostIPs", errors)
    hosts = status.get("hostIPs")
    if hosts and hosts[0].get("ip") != status.get("hostIP"):
        errors.invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), "must be equal to `hostIP`")
    _validate_classes(status, "status", errors)
    for field in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for index, entry in enumerate(status.get(field) or ()):
            _validate_classes(entry, f"status.{field}[{index}]", errors)


def _validate_classes(owner: JsonObject, path: str, errors: FieldErrors) -> None:
    if classes := (owner.get("resources") or {}).get("classes"):
        classrules.effective_map(classes, f"{path}.resources.classes", errors)


def _validate_transitions(status: JsonObject, before: JsonObject, spec: JsonObject, errors: FieldErrors) -> None:
    for field, containers in (
        ("containerStatuses", spec.get("containers")),
        ("initContainerStatuses", spec.get("initContainers")),
        ("ephemeralContainerStatuses", None),
    ):
        by_name = {container.get("name"): container for container in containers or ()}
        current = {entry.get("name"): entry for entry in status.get(field) or ()}
        for index, was in enumerate(before.get(field) or ()):
            ended = (was.get("state") or {}).get("terminated")
            now = current.get(was.get("name"))
            if ended is None or now is None or (now.get("state") or {}).get("terminated") is not None:
                continue
            container = by_name.get(was.get("name"))
            if container is None or not _may_restart(container, spec, ended.get("exitCode", 0)):
                errors.forbidden(f"status.{field}[{index}].state", _NO_RESTART)


def _may_restart(container: JsonObject, spec: JsonObject, code: int) -> bool:
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if (code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy") or spec.get("restartPolicy")
    return is_sidecar(container) or policy == "Always" or (policy == "OnFailure" and code != 0)


def _validate_addresses(status: JsonObject, field: str, errors: FieldErrors) -> None:
    entries: Sequence[JsonObject] = status.get(field) or ()
    families: set[int] = set()
    for index, entry in enumerate(entries):
        address = entry.get("ip", "")
        checks.ip_address(address, f"status.{field}[{index}]", errors)
        family = names.address_family(address)
        if not family:
            return
        families.add(family)
    if len(entries) > 1 and (len(entries) > 2 or len(families) < 2):
        shown = [checks.go_struct(entry, ("IP", "")) for entry in entries]
        errors.invalid(f"status.{field}", shown, "may specify no more than one IP for each IP family")
