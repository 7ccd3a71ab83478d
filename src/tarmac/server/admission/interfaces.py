"""InterfaceHolding: which networks a Pod is on, and with which addresses, is for the controllers to say, once.

The annotation is what a node makes of a Pod's interfaces. Whoever could write it could join any network under any
address; so nobody may but the controllers that give out addresses or pass them on.
"""

from __future__ import annotations

from tarmac.api.identities import POD_SCHEDULER, controller_user
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.server.admission.heldannotations import HeldAnnotations
from tarmac.server.admission.pods import BUCKET as PODS


class InterfaceHolding(HeldAnnotations):
    """Looks at Pods, Instances and bindings."""

    name = "InterfaceHolding"
    annotations = (ANNOTATION_INTERFACES,)
    buckets = frozenset({PODS, "compute.datumapis.com/instances"})
    writers = frozenset(controller_user(each) for each in ("deployment", "instance", POD_SCHEDULER))
