"""The pull policy that an image reference implies.

A reference without tag and digest means `latest`, and `latest` is pulled every time. All other images, including
references that cannot be parsed, are pulled when they are not present.
"""

from __future__ import annotations

import re

from tarmac.base.boundedcache import bounded_cache

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[a-fA-F0-9:]+\])"
_REFERENCE = re.compile(
    rf"(?:{_HOST}(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?P<tag>:[\w][\w.-]{0,127})?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_MAX_REFERENCE = 4096  # characters; no registry has longer names, and matching takes time


@bounded_cache(2048)
def pull_policy(image: str) -> str:
    """Return `Always` or `IfNotPresent`."""
    match = _REFERENCE.fullmatch(image) if len(image) <= _MAX_REFERENCE else None
    if match is None:
        return "IfNotPresent"
    tag, digest = match["tag"], match["digest"]
    latest = tag == ":latest" or (tag is None and digest is None)
    return "Always" if latest else "IfNotPresent"
