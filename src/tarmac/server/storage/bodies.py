"""Request bodies: decoding, checking and defaulting of an object of the kind that the URL names."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api.decode import check_object, decode_delete_options, decode_object
from tarmac.api.schema import JsonObject
from tarmac.http.messages import Request
from tarmac.server.storage.resourcestorage import WriteCall


def read_object(call: WriteCall) -> JsonObject:
    """Return the object in the body of a POST or PUT. Raises BadRequest, UnsupportedMediaType, Invalid."""
    request, storage = call.request, call.storage
    content_type = request.headers.get("content-type", "")
    obj, warnings = decode_object(storage.resource, request.body, content_type, call.options.field_validation)
    call.warnings += warnings
    obj.setdefault("metadata", {})
    storage.strategy.default(obj)
    return obj


def adopt(call: WriteCall, obj: JsonObject, old: JsonObject | None = None, notes: Sequence[str] = ()) -> JsonObject:
    """Check and default in place an object that a patch produced, as if a client had sent it.

    A spec that is identical (`is`) to that of the `old` object is not checked again. `notes` are warnings about the
    text of the patch.
    """
    spec = old.get("spec") if old is not None else None
    call.warnings += check_object(call.storage.resource, obj, call.options.field_validation, notes, spec)
    obj.setdefault("metadata", {})
    call.storage.strategy.default(obj)
    return obj


def read_delete_options(request: Request) -> JsonObject:
    """Return the DeleteOptions in the body of a DELETE."""
    return decode_delete_options(request.body, request.headers.get("content-type", ""))
