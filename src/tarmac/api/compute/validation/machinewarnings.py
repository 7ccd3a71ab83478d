"""Warnings about accepted settings of a virtual machine that are probably mistakes."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.checks import mapping
from tarmac.api.compute.lookup import Lookup, find_image
from tarmac.api.compute.names import ANNOTATION_SSH_KEYS
from tarmac.api.compute.validation.attachments import boot_image
from tarmac.api.compute.validation.cloudinit import has_own_users
from tarmac.api.compute.validation.metadata import ssh_users
from tarmac.api.schema import JsonObject

_KEYS = f"spec.template.annotations[{ANNOTATION_SSH_KEYS}]"
_CLOUD_INIT = "spec.template.spec.runtime.virtualMachine.cloudInit"


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
    if facts is not None and not facts.told and (keys or cloud_init):
        yield f"{_CLOUD_INIT}: image {image} accepts none, so neither keys nor user data reach the virtual machines"
