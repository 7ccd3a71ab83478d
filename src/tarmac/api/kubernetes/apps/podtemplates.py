"""PodTemplate of core: a stored template, which nothing runs by itself."""

from __future__ import annotations

from tarmac.api.kubernetes.apps.templates import default_template, validate_template
from tarmac.api.kubernetes.core.pods.warnings import template_warnings
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors


class PodTemplateStrategy(KubernetesStrategy):
    """PodTemplate."""

    generation = True
    generation_fields = ("template",)

    def default(self, obj: JsonObject) -> None:
        default_template(obj.setdefault("template", {}))

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        validate_template(obj["template"], "template", errors)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        return template_warnings(obj["template"], "template") if old is None else []
