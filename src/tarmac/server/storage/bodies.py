"""Request bodies: what a client sent, decoded, checked and defaulted as an object of the kind the URL names."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api.decode import check_object, decode_delete_options, decode_object
from tarmac.api.schema import JsonObject
from tarmac.http.messages import Request
from tarmac.server.storage.resourcestorage import Call


def read_object(call: Call) -> JsonObject:
    """The object in the body of a POST or PUT. Raises BadRequest, UnsupportedMediaType, Invalid."""
    request, served = call.request, call.served
    content_type = request.headers.get("content-type", "")
    obj, warnings = decode_object(served.resource, request.body, content_type, call.options.field_validation)
    call.warnings += warnings
    obj.setdefault("metadata", {})
    served.strategy.default(obj)
    return obj


def adopt(call: Call, obj: JsonObject, old: JsonObject | None = None, notes: Sequence[str] = ()) -> JsonObject:
    """An object that a patch made, checked and defaulted in place like one that a client sent.

    A spec that is still that of the `old` object, and not only equal to it, is not looked at again. `notes` are on the
    text of the patch.
    """
    spec = old.get("spec") if old is not None else None
    call.warnings += check_object(call.served.resource, obj, call.options.field_validation, notes, spec)
    obj.setdefault("metadata", {})
    call.served.strategy.default(obj)
    return obj


def read_delete_options(request: Request) -> JsonObject:
    """The DeleteOptions in the body of a DELETE."""
    return decode_delete_options(request.body, request.headers.get("content-type", ""))
