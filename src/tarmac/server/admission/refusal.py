"""How plugins say no, worded as Kubernetes words it."""

from __future__ import annotations

from tarmac.api.status import Forbidden, forbidden
from tarmac.server.admission.chain import Attributes


def refuse(attributes: Attributes, why: str) -> Forbidden:
    """403 about the object at hand. A name that is still to be generated is shown by its prefix."""
    name = attributes.name
    if not name and attributes.obj is not None:
        metadata = attributes.obj.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    return forbidden(attributes.resource.group, attributes.resource.plural, name, why)
