"""The whole template, and the kinds that contain one."""

from __future__ import annotations

from tarmac.api.compute.validation.context import Context
from tarmac.api.compute.validation.interfaces import check_interfaces
from tarmac.api.compute.validation.metadata import check_template_metadata
from tarmac.api.compute.validation.placements import check_placements
from tarmac.api.compute.validation.rollout import check_rollout
from tarmac.api.compute.validation.runtime import check_runtime
from tarmac.api.compute.validation.volumes import check_volumes
from tarmac.api.kubernetes.checks import dns_subdomain
from tarmac.api.schema import JsonObject


def check_workload(spec: JsonObject, context: Context) -> None:
    """Check the spec of a Workload; causes are in the order of the catalogue."""
    check_template(spec, context)
    check_placements(spec, "spec", context)
    check_rollout(spec, "spec", context.errors)


def check_template(spec: JsonObject, context: Context) -> None:
    """Check the template of a Workload's or a deployment's spec."""
    template = spec.get("template")
    if template is None:
        context.errors.required("spec.template")
        return
    check_template_metadata(template, "spec.template", context.errors)
    check_instance(template.get("spec") or {}, "spec.template.spec", context)


def check_instance(spec: JsonObject, path: str, context: Context) -> None:
    """Check the spec of an instance: volumes, runtime, interfaces, priority."""
    check_volumes(spec, path, context)
    check_runtime(spec, path, context)
    check_interfaces(spec, path, context.errors)
    if spec.get("priorityClassName"):
        dns_subdomain(spec["priorityClassName"], f"{path}.priorityClassName", context.errors)
