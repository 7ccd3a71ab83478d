"""Builds rejections of plugins with Kubernetes' wording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tarmac.api.status import Forbidden, forbidden
from tarmac.server.admission.chain import Attributes


class RefusalCause(NamedTuple):
    """A machine-readable reason, a message and a field."""

    reason: str
    message: str
    field: str


def refuse(attributes: Attributes, why: str, causes: Sequence[RefusalCause] = ()) -> Forbidden:
    """Return a 403 about the object. A name still to be generated is shown as its prefix.

    `causes` let programs distinguish rejections; the text is for people.
    """
    name = attributes.name
    if not name and attributes.obj is not None:
        metadata = attributes.obj.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    error = forbidden(attributes.resource.group, attributes.resource.plural, name, why)
    if causes:
        named = [{"reason": each.reason, "message": each.message, "field": each.field} for each in causes]
        error.details = {**(error.details or {}), "causes": named}
    return error
