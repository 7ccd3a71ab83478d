"""Implements the `Sources` of volumes: objects of the API, and the files of images."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from tarmac.agent.sources.apisources import ApiSources
from tarmac.api.schema import JsonObject
from tarmac.volumes.interface import SourceUnavailable

ImageRoot = Callable[[str, JsonObject], AbstractAsyncContextManager[str]]
"""Context manager of a directory with an image's files, for a pod. Raises SourceUnavailable."""


@asynccontextmanager
async def no_machine_images(image: str, pod: JsonObject) -> AsyncGenerator[str]:
    """Refuse the disk of a machine's image: no machines run on this node."""
    raise SourceUnavailable(f"image {image} is a virtual machine's, and none run on this node")
    yield


class VolumeSources:
    """Implements `tarmac.volumes.interface.Sources`. `machine_image` opens the raw disk of a machine's image."""

    def __init__(
        self, objects: ApiSources, image_root: ImageRoot, machine_image: ImageRoot = no_machine_images
    ) -> None:
        self.config_map = objects.config_map
        self.secret = objects.secret
        self.claim = objects.claim
        self.persistent_volume = objects.persistent_volume
        self.token = objects.token
        self.resized = objects.resized
        self.image_root = image_root
        self.machine_image = machine_image
