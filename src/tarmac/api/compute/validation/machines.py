"""The virtual machine: its disks, first-boot configuration, probes from outside, and warnings about likely mistakes.

The slots of QEMU's bus and the size of cloud-init's seed are known in advance, so violations are rejected here, with
the field, and not by a node hours later.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.checks import mapping, objects
from tarmac.api.compute.instancetype import is_custom
from tarmac.api.compute.lookup import Lookup, find_image
from tarmac.api.compute.names import ANNOTATION_SSH_KEYS
from tarmac.api.compute.validation.attachments import (
    Volumes,
    boot_image,
    check_attachments,
    check_boot_disk,
    volumes_by_name,
)
from tarmac.api.compute.validation.cloudinit import check_cloud_init, has_own_users
from tarmac.api.compute.validation.context import Context
from tarmac.api.compute.validation.grace import check_grace
from tarmac.api.compute.validation.metadata import ssh_users
from tarmac.api.compute.validation.namedports import PortChecks
from tarmac.api.compute.validation.probes import PROBES, check_probes
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import Quantity

_KEYS = f"spec.template.annotations[{ANNOTATION_SSH_KEYS}]"
_CLOUD_INIT = "spec.template.spec.runtime.virtualMachine.cloudInit"
MACHINE_GRACE = 60
"""Default seconds for the operating system to shut down."""

CLOUD_INIT_VOLUME = "tarmac-cloud-init"
"""The volume of a machine's Pod that holds `cloudInit.secretRef`."""

OWN_MOUNTS = "/.tarmac"
"""Mount point in a machine's Pod for volumes that the guest does not mount by itself."""

MAX_ATTACHMENTS = 24
MAX_INTERFACES = 8
MIN_MEMORY = Quantity.parse("128Mi")
_MIB = 1 << 20


def check_machine(machine: JsonObject, spec: JsonObject, path: str, context: Context) -> None:
    """Check the virtual machine in the runtime of a template's spec at `path`."""
    errors = context.errors
    where, volumes = f"{path}.runtime.virtualMachine", volumes_by_name(spec)
    check_attachments(machine, volumes, where, errors, container=False)
    check_boot_disk(machine, volumes, where, errors)
    _attached(machine, volumes, where, errors)
    PortChecks().check(machine, where, errors)
    check_cloud_init(mapping(machine, "cloudInit"), f"{where}.cloudInit", errors)
    _probes(machine, check_grace(machine, MACHINE_GRACE, where, context), where, errors)
    _memory(mapping(spec, "runtime", "resources"), f"{path}.runtime.resources.requests[memory]", errors)
    _around(spec, path, errors)


def _attached(machine: JsonObject, volumes: Volumes, path: str, errors: FieldErrors) -> None:
    attachments = objects(machine, "volumeAttachments")
    if len(attachments) > MAX_ATTACHMENTS:
        errors.too_many(f"{path}.volumeAttachments", len(attachments), MAX_ATTACHMENTS)
    seen: set[str] = set()
    for index, attachment in enumerate(attachments[:MAX_ATTACHMENTS]):
        name, where = attachment.get("name", ""), f"{path}.volumeAttachments[{index}].name"
        if volumes.get(name, {}).get("memory") is not None:
            errors.forbidden(where, "a virtual machine has memory of its own: mount a tmpfs in it, or use a disk")
        mount_path = attachment.get("mountPath") or ""
        if f"{mount_path}/".startswith(f"{OWN_MOUNTS}/"):
            errors.invalid(f"{path}.volumeAttachments[{index}].mountPath", mount_path, f"{OWN_MOUNTS} is reserved")
        elif not mount_path.isprintable() or " " in mount_path:  # it becomes a line of the guest's fstab
            detail = "must have no spaces and no control characters in a virtual machine"
            errors.invalid(f"{path}.volumeAttachments[{index}].mountPath", mount_path, detail)
        if name and name in seen:
            errors.duplicate(where, name)  # two writers to one disk would corrupt it
        seen.add(name)


def _probes(machine: JsonObject, grace: int, path: str, errors: FieldErrors) -> None:
    asked = dict(machine)
    for name in PROBES:
        if mapping(machine, name).get("exec") is not None:
            detail = "nothing can be run inside a virtual machine: use tcpSocket, httpGet or grpc"
            errors.forbidden(f"{path}.{name}.exec", detail)
            del asked[name]
    check_probes(asked, grace, path, errors)


def _memory(resources: JsonObject, path: str, errors: FieldErrors) -> None:
    written = mapping(resources, "requests").get("memory")
    if written is None or not is_custom(resources.get("instanceType", "")):
        return
    try:
        memory = Quantity.parse(written)
    except ValueError:
        return  # reported with the other amounts
    if memory < MIN_MEMORY or not memory.is_integer() or memory.value() % _MIB:
        errors.invalid(path, written, f"a virtual machine needs whole Mi, and at least {MIN_MEMORY}")


def _around(spec: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check the interfaces and volumes beside the machine in the template."""
    interfaces = objects(spec, "networkInterfaces")
    if len(interfaces) > MAX_INTERFACES:
        errors.too_many(f"{path}.networkInterfaces", len(interfaces), MAX_INTERFACES)
    for index, volume in enumerate(objects(spec, "volumes")):
        if volume.get("name") == CLOUD_INIT_VOLUME:
            errors.invalid(f"{path}.volumes[{index}].name", CLOUD_INIT_VOLUME, "is reserved: choose another name")


def machine_warnings(template: JsonObject, lookup: Lookup) -> Iterator[str]:
    """Yield the warnings about a template with a virtual machine."""
    keys = mapping(template, "metadata", "annotations").get(ANNOTATION_SSH_KEYS)
    cloud_init = mapping(template, "spec", "runtime", "virtualMachine", "cloudInit")
    if not keys:
        yield f"{_KEYS}: not set, so nobody can log in to the virtual machines"
    elif has_own_users(cloud_init.get("userData") or ""):
        users = ", ".join(ssh_users(keys))
        yield f"{_CLOUD_INIT}.userData: has users of its own, so the annotation's keys for {users} are not installed"
    if cloud_init.get("networkData"):
        yield f"{_CLOUD_INIT}.networkData: replaces the platform's, so the instance's addresses must be set by it"
    image = boot_image(mapping(template, "spec"))
    facts = find_image(lookup, image) if image else None
    if facts is not None and not facts.configurable and (keys or cloud_init):
        yield f"{_CLOUD_INIT}: image {image} accepts none, so neither keys nor user data reach the virtual machines"
