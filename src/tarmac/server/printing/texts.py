"""JSON for eyes and YAML, made from encoded JSON only when asked for."""

from __future__ import annotations

import msgspec
import yaml

from tarmac.server.storage.encoding import decode_json

_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def as_yaml(body: bytes) -> bytes:
    """The same document as YAML, keys sorted as Kubernetes sorts them."""
    return yaml.dump(decode_json(body), Dumper=_Dumper, allow_unicode=True, default_flow_style=False).encode()


def indented(body: bytes) -> bytes:
    """The same document with line breaks."""
    return msgspec.json.format(body, indent=2) + b"\n"
