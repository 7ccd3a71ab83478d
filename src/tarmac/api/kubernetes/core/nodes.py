"""Node: taints, capacity, and the few immutable fields."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api import checks
from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.core.nodeclasses import CONTAINER_LEVEL, POD_LEVEL, RESERVATIONS
from tarmac.api.kubernetes.core.nodeselection import validate_taints
from tarmac.api.kubernetes.core.pods import classrules
from tarmac.api.kubernetes.resourcenames import ZERO, quantity, resource_quantity, round_up
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_RESERVED_FOR = ("system", "kube", "eviction")
_MAX_RESERVATIONS = 256
_ONCE = 'except from "" to valid'


def _both_forms_of_blocks(spec: JsonObject) -> None:
    """Make `podCIDR` the first of `podCIDRs`; if they differ, the older field takes precedence."""
    block, blocks = spec.get("podCIDR"), spec.get("podCIDRs")
    if block and (not blocks or blocks[0] != block):
        spec["podCIDRs"] = [block]
    elif blocks and not block:
        spec["podCIDR"] = blocks[0]


class NodeStrategy(KubernetesStrategy):
    """Node. Unlike other kinds it may be created with a status, since a node registers itself."""

    has_status = True

    def default(self, obj: JsonObject) -> None:
        _both_forms_of_blocks(obj.setdefault("spec", {}))
        status = obj.get("status") or {}
        round_up(status.get("capacity"))
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])
        round_up(status.get("allocatable"))
        for field in (POD_LEVEL, CONTAINER_LEVEL):
            classrules.store_list(status, field)

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["spec"].pop("configSource", None)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        if taints := spec.get("taints"):
            # Kubernetes reports taints under metadata
            validate_taints(taints, "metadata.taints", errors)
        _validate_resources(obj, errors)
        blocks = spec.get("podCIDRs") or ()
        for index, block in enumerate(blocks):
            checks.report(names.cidr(block), block, f"spec.podCIDRs[{index}]", errors)
        if len(blocks) > 1 and (len(blocks) > 2 or len({":" in block for block in blocks}) < 2):
            errors.invalid("spec.podCIDRs", blocks, "may specify no more than one CIDR for each IP family")

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        _validate_unchanged(new["spec"], old["spec"], errors)

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        _validate_resources(new, errors)
        seen: list[JsonObject] = []
        for index, address in enumerate(checks.objects(new, "status", "addresses")):
            if address in seen:
                shown = checks.go_struct(address, ("Type", ""), ("Address", ""))
                errors.duplicate(f"status.addresses[{index}]", shown)
            seen.append(address)

    def selectable_fields(self, obj: JsonObject) -> dict[str, str]:
        return {"spec.unschedulable": "true" if checks.mapping(obj, "spec").get("unschedulable") else "false"}


def _validate_resources(node: JsonObject, errors: FieldErrors) -> None:
    for side in ("capacity", "allocatable"):
        for name, text in checks.mapping(node, "status", side).items():
            resource_quantity(name, text, f"status.{side}.{name}", errors)
    status = checks.mapping(node, "status")
    for field in (POD_LEVEL, CONTAINER_LEVEL):
        if types := status.get(field):
            classrules.type_list(types, f"status.{field}", 1, errors)
    if reservations := status.get(RESERVATIONS):
        _validate_reservations(reservations, f"status.{RESERVATIONS}", errors)


def _validate_reservations(reservations: Sequence[JsonObject], path: str, errors: FieldErrors) -> None:
    if len(reservations) > _MAX_RESERVATIONS:
        errors.too_many(path, len(reservations), _MAX_RESERVATIONS)
        return
    for index, item in enumerate(reservations):
        at, name = f"{path}[{index}]", item.get("resource", "")
        if not name:
            errors.required(f"{at}.resource")
        checks.one_of(item.get("for", ""), _RESERVED_FOR, f"{at}.for", errors)
        if quantity(item.get("amount", "0")) <= ZERO:
            errors.invalid(f"{at}.amount", item.get("amount", "0"), "must be greater than 0")


def _validate_unchanged(spec: JsonObject, before: JsonObject, errors: FieldErrors) -> None:
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        errors.forbidden("spec.podCIDRs", f"node updates may not change podCIDR {_ONCE}")
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        errors.forbidden("spec.providerID", f"node updates may not change providerID {_ONCE}")
    if spec.get("externalID", "") != before.get("externalID", ""):
        errors.forbidden("spec.externalID", "may not be updated")
