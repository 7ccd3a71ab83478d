"""The hash that identifies a container's definition, and ids in messages."""

from __future__ import annotations

import re
import zlib
from typing import Final

from tarmac.api.schema import JsonObject

_ID: Final = re.compile(r"(?<![0-9a-z:@])[0-9a-f]{64}(?![0-9a-z])")  # does not match image digests: sha256:…


def without_ids(text: str, name: str, keep: str = "") -> str:
    """Replace the random id of a new container by its name, so that a repeated message has the same text.

    `keep` is an id that stays: it belongs to the sandbox and does not change between attempts.
    """
    return _ID.sub(lambda found: found[0] if found[0] == keep else name, text)


def container_hash(container: JsonObject) -> str:
    """Hash the fields whose change requires a new container: its name and its image."""
    return format(zlib.crc32("\0".join((container["name"], container.get("image", ""))).encode()), "x")
