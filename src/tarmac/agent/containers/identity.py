"""What makes a container the one its spec asks for, and what it is called in texts."""

from __future__ import annotations

import re
import zlib
from typing import Final

from tarmac.api.schema import JsonObject

_ID: Final = re.compile(r"(?<![0-9a-z:@])[0-9a-f]{64}(?![0-9a-z])")  # but no digest of an image: sha256:…


def without_ids(text: str, name: str, keep: str = "") -> str:
    """A runtime's text with the random id of a new container as its name: said again, it is the same text.

    `keep` is an id that stays: it is not the container's, and the same each time.
    """
    return _ID.sub(lambda found: found[0] if found[0] == keep else name, text)


def container_hash(container: JsonObject) -> str:
    """Changes when a running container has to be replaced: only its name and its image do that."""
    return format(zlib.crc32("\0".join((container["name"], container.get("image", ""))).encode()), "x")
