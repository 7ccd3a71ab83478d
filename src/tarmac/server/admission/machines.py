"""MachineHolding: what a virtual machine is made from is said by the controller of Instances, once.

A node fetches the image that the annotation names, with the node's own rights: from a file of its own, or from an
address that the Pod's author may not reach. Whoever could write it could have any of that read into a machine. The
controller copies it from the catalogue, which administrators write. A Pod of the class `vm` that anybody else makes
therefore names no image, and the node refuses it.
"""

from __future__ import annotations

from tarmac.api.compute.names import MACHINE_ANNOTATIONS
from tarmac.api.identities import controller_user
from tarmac.server.admission.heldannotations import HeldAnnotations
from tarmac.server.admission.pods import BUCKET as PODS


class MachineHolding(HeldAnnotations):
    """Looks at Pods and bindings. An Instance's annotations of these names are never passed on."""

    name = "MachineHolding"
    annotations = MACHINE_ANNOTATIONS
    buckets = frozenset({PODS})
    writers = frozenset({controller_user("instance")})
