"""Encoding of objects to stored bytes.

A value starts with its metadata, so that the store can splice the resource version in, and ends with a tail that is the
same for every object of a kind: `,"kind":"Pod","apiVersion":"v1"}`. List items of native kinds carry no kind; with a
constant tail the server cuts off the last bytes without parsing the object.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject

encode_json = msgspec.json.Encoder().encode
decode_json = msgspec.json.Decoder(dict[str, Any]).decode


def tail_of(resource: Resource) -> bytes:
    """Return the bytes at the end of every stored value of the resource."""
    return b',"kind":"%b","apiVersion":"%b"}' % (resource.kind.encode(), resource.api_version.encode())


def encode_object(obj: JsonObject, resource: Resource, *, keep_version: bool = False) -> bytes:
    """Encode with metadata first, kind and apiVersion last.

    A value to store has no resource version; the store splices it in.
    """
    metadata = obj["metadata"]
    if not keep_version:
        metadata.pop("resourceVersion", None)
    ordered: JsonObject = {"metadata": metadata}
    ordered.update(obj)
    ordered.pop("kind", None)
    ordered.pop("apiVersion", None)
    ordered["kind"] = resource.kind
    ordered["apiVersion"] = resource.api_version
    return encode_json(ordered)
