"""Variables of device plugins in a container's environment. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

SEARCH_PATHS: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LD_LIBRARY_PATH": "",
}
"""Variables that are lists of folders, with the runtime's default."""


def with_devices(given: Mapping[str, str], stated: Mapping[str, str], of_image: Iterable[str]) -> dict[str, str]:
    """Return the variables of a container: the pod's own override the plugins', which override the image's.

    Search paths are completed instead: a plugin's folders come after those of the pod or image.
    """
    image = dict(each.split("=", 1) for each in of_image if "=" in each)
    known = {**given, **stated}
    for name, default in SEARCH_PATHS.items():
        if name in given:
            known[name] = _joined(stated.get(name, image.get(name, default)), given[name])
    return known


def _joined(before: str, more: str) -> str:
    folders = before.split(":") if before else []
    return ":".join((*folders, *(each for each in more.split(":") if each not in folders)))
