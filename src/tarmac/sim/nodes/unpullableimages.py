"""Images that cannot be pulled: the name is not a valid reference, or its registry host cannot exist.

No registry is contacted, so all other images count as existing.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from tarmac.api.compute.validation.imagereferences import is_reference
from tarmac.api.partial import image_sources
from tarmac.sim.nodes.settings import HOST_THAT_NEVER_ANSWERS


def pull_faults(containers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the names of containers with an unavailable image, and the runtime's message."""
    return {name: fault for name, image in containers if (fault := _fault(image))}


def machine_faults(containers: Iterable[tuple[str, str]], annotation: str) -> dict[str, str]:
    """Return the same for a virtual machine, with its images from the pod's annotation."""
    try:
        known = image_sources(annotation)
    except msgspec.MsgspecError:
        return {}
    found: dict[str, str] = {}
    for name, image in containers:
        source = known[image].source if image in known else None
        host = urlsplit(source.url).hostname or "" if source is not None else ""
        if host.endswith(HOST_THAT_NEVER_ANSWERS):
            found[name] = f"{host} cannot be reached: [Errno -2] Name or service not known"
    return found


def _fault(image: str) -> str:
    if not is_reference(image):
        return f'failed to pull and unpack image "{image}": invalid reference format'
    host = image.partition("/")[0].partition(":")[0]
    if host.endswith(HOST_THAT_NEVER_ANSWERS):
        return f'failed to pull and unpack image "{image}": dial tcp: lookup {host}: no such host'
    return ""
