"""MirrorPods: only nodes may mark a Pod as the mirror of a static pod.

Drains and decommissioning skip mirror pods, so a tenant could keep a node from being drained with one. Administrators
may create them, as in Kubernetes; NodeRestriction checks those that nodes create.
"""

from __future__ import annotations

from tarmac.api.mirrorpods import MIRROR
from tarmac.server.admission.chain import Attributes
from tarmac.server.admission.pods.podplugin import PodCreation, is_of_a_node, mirrors, pod_of
from tarmac.server.admission.refusal import refuse

_ADMINISTRATORS = "system:masters"


class MirrorPods(PodCreation):
    """Checks new Pods."""

    name = "MirrorPods"

    def admit(self, attributes: Attributes) -> None:
        user = attributes.user
        # Nodes pass: NodeRestriction, later in the chain, checks that the mirror is on the node itself.
        if mirrors(pod_of(attributes)) and not is_of_a_node(user) and _ADMINISTRATORS not in user.groups:
            why = f"metadata.annotations[{MIRROR}]: only nodes create mirror pods; leave the annotation out"
            raise refuse(attributes, why)
