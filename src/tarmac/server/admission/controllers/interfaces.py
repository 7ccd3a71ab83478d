"""InterfaceHolding: only controllers set the networks and addresses of a Pod, once.

A node configures a Pod's interfaces from the annotation. A user able to write it could join any network under any
address, so only the controllers that allocate addresses or pass them on may write it.
"""

from __future__ import annotations

from tarmac.api.identities import POD_SCHEDULER, controller_user
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.server.admission.controllers.heldannotations import HeldAnnotations
from tarmac.server.admission.pods.podplugin import BUCKET as PODS


class InterfaceHolding(HeldAnnotations):
    """Checks Pods, Instances and bindings."""

    name = "InterfaceHolding"
    annotations = (ANNOTATION_INTERFACES,)
    buckets = frozenset({PODS, "compute.datumapis.com/instances"})
    writers = frozenset(controller_user(each) for each in ("deployment", "instance", POD_SCHEDULER))
