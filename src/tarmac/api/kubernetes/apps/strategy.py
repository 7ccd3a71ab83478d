"""The strategy of kinds with `spec`, `status` and a pod template."""

from __future__ import annotations

from typing import Any, ClassVar

from tarmac.api.kubernetes.apps.templates import default_template, template_of
from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.core.pods.warnings import template_warnings
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject


class ControllerStrategy(KubernetesStrategy):
    """Clients write `spec`, the controller writes `status` and sees each change of `spec` as a new generation."""

    has_status = True
    generation = True
    empty_status: ClassVar[dict[str, Any]] = {}

    def default(self, obj: JsonObject) -> None:
        default_template(template_of(obj))

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = dict(self.empty_status)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        return template_warnings(obj["spec"].get("template") or {}, "spec.template") if old is None else []
