"""Table cells that a single path cannot compute."""

from __future__ import annotations

from tarmac.api.compute.validation.attachments import boot_image
from tarmac.api.kubernetes.checks import mapping, objects
from tarmac.api.schema import JsonObject


def images_of(workload: JsonObject) -> str | None:
    """Return the container images of a Workload, or the image of the machine's boot disk."""
    spec = mapping(workload, "spec", "template", "spec")
    images = [each.get("image", "") for each in objects(spec, "runtime", "sandbox", "containers")]
    return ",".join(images) or boot_image(spec) or None


def runtime_of(instance: JsonObject) -> str:
    """Return the runtime of an Instance: sandbox or machine."""
    return "machine" if mapping(instance, "spec", "runtime").get("virtualMachine") is not None else "sandbox"


def source_of(image: JsonObject) -> str:
    """Return the kind of a MachineImage's source: file, url, or none."""
    source = mapping(image, "spec", "source")
    return next((name for name in ("file", "url") if source.get(name)), "<none>")
