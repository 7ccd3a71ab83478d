"""Creates mount points for volumes mounted inside a volume.

A projected volume is read-only to containers, so a runtime could not create them. They come before the files, and are
left out where the volume has a file of that name.
"""

from __future__ import annotations

import os
import posixpath
from contextlib import suppress

from tarmac.api.schema import JsonObject

_MODE = 0o755


def make_nested(pod: JsonObject, volume: str, path: str) -> None:
    """Create the folders where a container mounts a second volume inside this one."""
    spec = pod["spec"]
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        mounts = container.get("volumeMounts") or ()
        places = {posixpath.normpath(each["mountPath"]) for each in mounts if _whole(each, volume)}
        for inner in (posixpath.normpath(each["mountPath"]) for each in mounts):
            for place in places - {inner}:
                if inner.startswith(place.rstrip("/") + "/"):
                    with suppress(FileExistsError, NotADirectoryError):  # the volume has a file there
                        os.makedirs(os.path.join(path, posixpath.relpath(inner, place)), _MODE, exist_ok=True)


def _whole(mount: JsonObject, volume: str) -> bool:
    return mount["name"] == volume and not mount.get("subPath") and not mount.get("subPathExpr")
