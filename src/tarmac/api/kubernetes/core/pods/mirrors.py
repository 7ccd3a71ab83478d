"""Mirror pods: they show in the API the pods that a node runs from its own manifests.

A node creates them with this annotation. The server, controllers and agents treat them specially: a drain does not end
them, and they get no objects of the server (accounts, Secrets, tokens).
"""

from __future__ import annotations

from typing import Final

MIRROR: Final = "kubernetes.io/config.mirror"
