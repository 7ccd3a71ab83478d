"""Mirror pods: they show in the API the pods that a node runs from its own manifests.

A node creates them with this annotation, in any namespace. The server, controllers and agents treat them specially: a
drain does not end them, and they get no objects of the server (accounts, Secrets, tokens). A stolen node must harm no
namespace with them, so they count for no Service, policy, quota or disruption budget, nor for the affinity and spread
of other pods, and their deletion waits for no node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MIRROR: Final = "kubernetes.io/config.mirror"


def is_mirror(annotations: Mapping[str, str] | None) -> bool:
    """Return True if a Pod with these annotations mirrors a static pod."""
    return annotations is not None and MIRROR in annotations
