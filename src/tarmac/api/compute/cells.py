"""Cells of tables that one path cannot give."""

from __future__ import annotations

from tarmac.api.compute.validation.attachments import boot_image
from tarmac.api.kubernetes.checks import mapping, objects
from tarmac.api.schema import JsonObject


def images_of(workload: JsonObject) -> str | None:
    """What the instances of a Workload are made from."""
    spec = mapping(workload, "spec", "template", "spec")
    images = [each.get("image", "") for each in objects(spec, "runtime", "sandbox", "containers")]
    return ",".join(images) or boot_image(spec) or None


def runtime_of(instance: JsonObject) -> str:
    """Whether an Instance is a sandbox or a machine."""
    return "machine" if mapping(instance, "spec", "runtime").get("virtualMachine") is not None else "sandbox"


def source_of(image: JsonObject) -> str:
    """How the file of a MachineImage is to be had."""
    source = mapping(image, "spec", "source")
    return next((name for name in ("file", "url") if source.get(name)), "<none>")
