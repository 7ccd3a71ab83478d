"""MachineHolding: only the Instance controller sets the image of a virtual machine, once.

A node fetches the image that the annotation names with the node's own rights: from a local file, or from an address
that the Pod's author cannot reach. A user able to write it could read any of these into a machine. The controller
copies it from the catalogue, which administrators write. So a Pod of the class `vm` by any other user names no image,
and the node rejects it.
"""

from __future__ import annotations

from tarmac.api.compute.names import MACHINE_ANNOTATIONS
from tarmac.api.identities import controller_user
from tarmac.server.admission.controllers.heldannotations import HeldAnnotations
from tarmac.server.admission.pods.podplugin import BUCKET as PODS


class MachineHolding(HeldAnnotations):
    """Checks Pods and bindings. An Instance's annotations of these names are never passed on."""

    name = "MachineHolding"
    annotations = MACHINE_ANNOTATIONS
    buckets = frozenset({PODS})
    writers = frozenset({controller_user("instance")})
