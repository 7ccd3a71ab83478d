"""The power state of a machine. It is not part of the template's revision, so changing it replaces no instance."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tarmac.api.compute.instance import InstanceTemplate, InstanceTemplateSpec

STOPPED_TEXT: Final = "The machine is stopped; its disks and addresses are kept."


def is_stopped(spec: InstanceTemplateSpec) -> bool:
    """Return True if a virtual machine should be stopped. Sandboxes always run."""
    machine = spec.runtime.virtual_machine
    return machine is not None and not machine.running


def with_running(template: InstanceTemplate, *, running: bool) -> InstanceTemplate:
    """Return the template with its machine running or stopped; the same template when it has no machine."""
    runtime = template.spec.runtime
    machine = runtime.virtual_machine
    if machine is None or machine.running == running:
        return template
    runtime = replace(runtime, virtual_machine=replace(machine, running=running))
    return replace(template, spec=replace(template.spec, runtime=runtime))
