"""Metadata of an object, decoded without the rest of it.

The client moves whole objects as the bytes the server sent. To route them it needs a few fields of the metadata, which
these structs pick out in a microsecond or two; everything else is skipped by the decoder.
"""

from __future__ import annotations

from sys import intern
from typing import Any

import msgspec

from tarmac.base.digits import whole_number
from tarmac.client.errors import GarbledReply

_MAX_REVISION = (1 << 64) - 1


class EnvelopeOwner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of metadata.ownerReferences."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class EnvelopeMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The part of ObjectMeta that routing, indexing and ownership need."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[EnvelopeOwner] | None = None

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone for cluster-scoped objects.

        Interned, so that all holders share one string.
        """
        return intern(f"{self.namespace}/{self.name}" if self.namespace else self.name)

    @property
    def controller(self) -> EnvelopeOwner | None:
        """The owner that controls the object, if any."""
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class Envelope(msgspec.Struct, frozen=True, rename="camel"):
    """Any object, reduced to its metadata."""

    metadata: EnvelopeMetadata
    kind: str = ""
    api_version: str = ""


class ListMetadata(
    msgspec.Struct, frozen=True, rename={"continue_": "continue", "resource_version": "resourceVersion"}
):
    """Version and continue token of a list."""

    resource_version: str = ""
    continue_: str = ""


class RawList(msgspec.Struct, frozen=True):
    """A list whose items are left undecoded."""

    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


decode_list = msgspec.json.Decoder(RawList).decode
decode_event = msgspec.json.Decoder(WatchEvent).decode
decode_envelope = msgspec.json.Decoder(Envelope).decode


def envelope_of(raw: bytes | msgspec.Raw) -> Envelope:
    """Return kind and metadata of an encoded object. Raises GarbledReply when it has none."""
    try:
        return decode_envelope(raw)
    except (UnicodeError, msgspec.MsgspecError) as error:
        raise GarbledReply(f"not an object: {error}") from error


def metadata_of(raw: bytes | msgspec.Raw) -> EnvelopeMetadata:
    """Return the metadata of an encoded object. Raises GarbledReply when it has none."""
    return envelope_of(raw).metadata


def is_newer(version: str, than: str) -> bool:
    """True if a resource version comes after `than`. They are decimal numbers; anything else counts as new."""
    number, previous = whole_number(version, _MAX_REVISION), whole_number(than, _MAX_REVISION)
    return number is None or previous is None or number > previous


def split_key(key: str) -> tuple[str, str]:
    """Return (namespace, name) of a key; the namespace of a cluster-scoped object is empty."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


def reference_to(api_version: str, kind: str, metadata: EnvelopeMetadata) -> dict[str, Any]:
    """Return the ownerReferences entry by which a controller marks the objects it creates."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
