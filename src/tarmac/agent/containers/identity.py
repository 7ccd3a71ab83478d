"""What makes a container the one its spec asks for."""

from __future__ import annotations

import zlib

from tarmac.api.schema import JsonObject


def container_hash(container: JsonObject) -> str:
    """Changes when a running container has to be replaced: only its name and its image do that."""
    return format(zlib.crc32("\0".join((container["name"], container.get("image", ""))).encode()), "x")
