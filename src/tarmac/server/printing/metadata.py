"""PartialObjectMetadata: an object reduced to its metadata, cut out of the stored bytes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_decode = msgspec.json.Decoder(_Metadata).decode
_HEAD = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'


def partial_metadata(raw: bytes) -> bytes:
    """The object's metadata as an object of its own."""
    return b"%b%b}" % (_HEAD, bytes(_decode(raw).metadata))


def partial_metadata_list(list_metadata: bytes, items: Iterable[bytes]) -> bytes:
    """A list of them; `list_metadata` is encoded ListMeta."""
    body = b",".join(map(partial_metadata, items))
    head = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":'
    return b'%b%b,"items":%b}' % (head, list_metadata, b"[%b]" % body if body else b"null")
