"""JSON for eyes and YAML, made from encoded JSON only when asked for."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tarmac.server.encoding import decode_json

_MOST_VALUES = 2000
_LONGEST = 64 * 1024  # bytes


def as_yaml(body: bytes) -> bytes:
    """The same document as YAML, keys sorted as Kubernetes sorts them. A large one stays as it is: JSON is YAML too."""
    if len(body) > _LONGEST or body.count(b",") + body.count(b"{") > _MOST_VALUES:
        return body
    import yaml  # most servers are never asked for it

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump(decode_json(body), Dumper=dumper, allow_unicode=True, default_flow_style=False).encode()


class ListFrame(NamedTuple):
    """What stands around and between the items of a list that is written piece by piece."""

    begin: bytes
    between: bytes
    end: bytes


def indented_frame(head: bytes) -> ListFrame:
    """The frame of a list whose items are indented one by one; `head` is everything before them."""
    begin = indented(b"%b[]}" % head).removesuffix(b"[]\n}\n")
    return ListFrame(b"%b[\n    " % begin, b",\n    ", b"\n  ]\n}\n")


def indented_item(item: bytes) -> bytes:
    """An item of such a list. No text in JSON has a line break of its own."""
    return msgspec.json.format(item, indent=2).replace(b"\n", b"\n    ")


def indented(body: bytes) -> bytes:
    """The same document with line breaks."""
    return msgspec.json.format(body, indent=2) + b"\n"
