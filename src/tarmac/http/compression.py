"""gzip for large responses, by Intel's library: a list of some megabytes takes a few milliseconds."""

from __future__ import annotations

from collections.abc import Mapping

from isal import isal_zlib

_GZIP = 31  # window bits: largest window, gzip container


def accepts_gzip(headers: Mapping[str, str]) -> bool:
    """True if the client accepts gzip."""
    accepted = headers.get("accept-encoding")
    if not accepted or "gzip" not in accepted:
        return False
    return any(_names_gzip(part) for part in accepted.split(","))


def _names_gzip(part: str) -> bool:
    name, _, parameter = part.partition(";")
    return name.strip() == "gzip" and parameter.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}


def gzip(body: bytes | list[bytes]) -> bytes:
    """Return the compressed body. Safe to call in a thread; the interpreter lock is released meanwhile."""
    data = body if isinstance(body, bytes) else b"".join(body)
    return isal_zlib.compress(data, 0, _GZIP)
