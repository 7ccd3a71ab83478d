"""The runtime: exactly one kind, its resources and its content."""

from __future__ import annotations

from tarmac.api.compute.validation.attachments import volumes_by_name
from tarmac.api.compute.validation.containers import check_sandbox
from tarmac.api.compute.validation.context import Context
from tarmac.api.compute.validation.machines import check_machine
from tarmac.api.compute.validation.resources import check_runtime_resources, check_shares
from tarmac.api.kubernetes.checks import mapping
from tarmac.api.schema import JsonObject


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
