"""How plugins say no, worded as Kubernetes words it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tarmac.api.status import Forbidden, forbidden
from tarmac.server.admission.chain import Attributes


class Cause(NamedTuple):
    """Why, as a word for programs; where, as a field."""

    reason: str
    message: str
    field: str


def refuse(attributes: Attributes, why: str, causes: Sequence[Cause] = ()) -> Forbidden:
    """403 about the object at hand. A name that is still to be generated is shown by its prefix.

    `causes` are for programs that have to tell one refusal from another; the text is for people.
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
