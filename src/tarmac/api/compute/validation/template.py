"""The whole template, and the kinds that contain one."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.checks import dns_subdomain, mapping, objects
from tarmac.api.compute.validation.attachments import volumes_by_name
from tarmac.api.compute.validation.containers import check_sandbox
from tarmac.api.compute.validation.context import Context
from tarmac.api.compute.validation.instanceresources import check_runtime_resources, check_shares
from tarmac.api.compute.validation.machines import check_machine
from tarmac.api.compute.validation.metadata import check_template_metadata
from tarmac.api.compute.validation.placements import check_placements
from tarmac.api.compute.validation.rollout import check_rollout
from tarmac.api.compute.validation.volumes import check_volumes
from tarmac.api.networking.validation.trafficrules import check_ingress
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

FAMILIES = ("IPv4", "IPv6")
_RECLAIM_POLICIES = ("Delete", "Retain")
_MAX_NAME = 15  # the limit of Linux


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


# Network interfaces of an instance.


def check_interfaces(spec: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check the network interfaces of a template's spec."""
    interfaces = objects(spec, "networkInterfaces")
    if not interfaces:
        errors.required(f"{path}.networkInterfaces")
    names: set[str] = set()
    for index, interface in enumerate(interfaces):
        where = f"{path}.networkInterfaces[{index}]"
        _network(interface, where, errors)
        _name(interface.get("name", ""), names, f"{where}.name", errors)
        check_families(interface.get("ipFamilies") or [], f"{where}.ipFamilies", errors)
        _addresses(interface, f"{where}.addresses", errors)
        checks.one_of(interface.get("reclaimPolicy", "Delete"), _RECLAIM_POLICIES, f"{where}.reclaimPolicy", errors)
        policy = mapping(interface, "networkPolicy")
        check_ingress(objects(policy, "ingress"), f"{where}.networkPolicy.ingress", errors)


def _network(interface: JsonObject, path: str, errors: FieldErrors) -> None:
    network = mapping(interface, "network")
    if not network.get("name"):
        errors.required(f"{path}.network.name")
    else:
        checks.dns_label(network["name"], f"{path}.network.name", errors)
    if network.get("namespace"):
        checks.dns_label(network["namespace"], f"{path}.network.namespace", errors)


def _name(name: str, seen: set[str], path: str, errors: FieldErrors) -> None:
    checks.dns_label(name, path, errors)
    if len(name) > _MAX_NAME:
        errors.too_long(path, name, _MAX_NAME)
    if name in seen:
        errors.duplicate(path, name)
    seen.add(name)


def check_families(families: list[str], path: str, errors: FieldErrors) -> None:
    """Check address families; each may occur once."""
    for index, family in enumerate(families):
        checks.one_of(family, FAMILIES, f"{path}[{index}]", errors)
        if family in families[:index]:
            errors.duplicate(f"{path}[{index}]", family)


def _addresses(interface: JsonObject, path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, address in enumerate(objects(interface, "addresses")):
        checks.unique_name(address.get("class", ""), seen, f"{path}[{index}].class", errors)


def check_runtime(spec: JsonObject, path: str, context: Context) -> None:
    """Check the runtime of a template's spec at `path`.runtime."""
    errors = context.errors
    runtime, where = mapping(spec, "runtime"), f"{path}.runtime"
    sandbox, machine = runtime.get("sandbox"), runtime.get("virtualMachine")
    if sandbox is None and machine is None:
        errors.required(where, "must specify a runtime type")
    elif sandbox is not None and machine is not None:
        errors.forbidden(f"{where}.virtualMachine", "may not specify more than 1 runtime type")
    whole = check_runtime_resources(runtime, where, context)
    if sandbox is not None:
        check_sandbox(sandbox, volumes_by_name(spec), f"{where}.sandbox", context)
        check_shares(sandbox, whole, f"{where}.sandbox", f"{where}.resources.requests", errors)
    elif machine is not None:
        check_machine(machine, spec, path, context)
