"""PartialObjectMetadata: an object reduced to its metadata, cut out of the stored bytes."""

from __future__ import annotations

import msgspec


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_decode = msgspec.json.Decoder(_Metadata).decode
_HEAD = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'
_BEFORE = len(b'{"metadata":')  # the first bytes of every stored object


def partial_metadata(raw: bytes) -> bytes:
    """Return the object's metadata as a PartialObjectMetadata."""
    return b"%b%b}" % (_HEAD, bytes(_decode(raw).metadata))


def metadata_end(raw: bytes) -> int:
    """Return the offset at which the metadata of a stored object ends."""
    return _BEFORE + len(bytes(_decode(raw).metadata))


def cut_metadata(raw: bytes, end: int) -> bytes:
    """Like `partial_metadata`, for a stored object with a known end of its metadata."""
    return b"%b%b}" % (_HEAD, raw[_BEFORE:end])


def partial_metadata_list_head(list_metadata: bytes) -> bytes:
    """Return the bytes before the items of a PartialObjectMetadataList; `list_metadata` is encoded ListMeta."""
    return b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":%b,"items":' % list_metadata
