"""PartialObjectMetadata: an object reduced to its metadata, cut out of the stored bytes."""

from __future__ import annotations

import msgspec


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_decode = msgspec.json.Decoder(_Metadata).decode
_HEAD = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'
_BEFORE = len(b'{"metadata":')  # what every stored object begins with


def partial_metadata(raw: bytes) -> bytes:
    """The object's metadata as an object of its own."""
    return b"%b%b}" % (_HEAD, bytes(_decode(raw).metadata))


def metadata_end(raw: bytes) -> int:
    """Where the metadata of a stored object ends."""
    return _BEFORE + len(bytes(_decode(raw).metadata))


def cut_metadata(raw: bytes, end: int) -> bytes:
    """As `partial_metadata`, of a stored object whose metadata is known to end there."""
    return b"%b%b}" % (_HEAD, raw[_BEFORE:end])


def partial_metadata_list_head(list_metadata: bytes) -> bytes:
    """What comes before the items of a list of them; `list_metadata` is encoded ListMeta."""
    return b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":%b,"items":' % list_metadata
