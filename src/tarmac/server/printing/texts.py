"""Indented JSON and YAML, made from encoded JSON on request."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tarmac.server.encoding import decode_json

_MAX_VALUES = 2000
_MAX_CONVERTIBLE = 64 * 1024  # bytes


def is_convertible(length: int) -> bool:
    """Return True if a document of so many bytes is small enough to become YAML."""
    return length <= _MAX_CONVERTIBLE


def as_yaml(body: bytes) -> bytes:
    """Convert a document to YAML, keys sorted as in Kubernetes. A large one stays JSON, which is valid YAML."""
    if not is_convertible(len(body)) or body.count(b",") + body.count(b"{") > _MAX_VALUES:
        return body
    import yaml  # imported on first use: rarely needed

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump(decode_json(body), Dumper=dumper, allow_unicode=True, default_flow_style=False).encode()


class ListFrame(NamedTuple):
    """The bytes around and between the items of a list that is rendered in chunks."""

    begin: bytes
    between: bytes
    end: bytes


def indented_frame(head: bytes) -> ListFrame:
    """Return the frame of a list with individually indented items; `head` is everything before them."""
    begin = indented(b"%b[]}" % head).removesuffix(b"[]\n}\n")
    return ListFrame(b"%b[\n    " % begin, b",\n    ", b"\n  ]\n}\n")


def indented_item(item: bytes) -> bytes:
    """Indent an item of such a list. JSON strings contain no raw line breaks, so replacing them is safe."""
    return msgspec.json.format(item, indent=2).replace(b"\n", b"\n    ")


def indented(body: bytes) -> bytes:
    """Return the document with line breaks and indentation."""
    return msgspec.json.format(body, indent=2) + b"\n"
