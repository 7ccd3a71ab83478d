"""The disks that machines' disks begin with: raw images of operating systems, as the pod says they are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from tarmac.agent.sources.sources import ImageRoot
from tarmac.api.compute.names import ANNOTATION_MACHINE_IMAGES
from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import RuntimeFault
from tarmac.volumes.interface import SourceUnavailable

RawDisks = Callable[[str, str], AbstractAsyncContextManager[Path]]
"""The raw disk of an image, by its name and by what the pod's annotation says of images; raises RuntimeFault."""


def machine_image(disks: RawDisks) -> ImageRoot:
    """How volumes see them."""

    @asynccontextmanager
    async def image_of(image: str, pod: JsonObject) -> AsyncGenerator[str]:
        said = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_MACHINE_IMAGES, "{}")
        async with _telling(disks(image, said)) as path:
            yield str(path)

    return image_of


@asynccontextmanager
async def _telling(disk: AbstractAsyncContextManager[Path]) -> AsyncGenerator[Path]:
    try:
        path = await disk.__aenter__()
    except RuntimeFault as error:
        raise SourceUnavailable(str(error)) from error
    try:
        yield path
    finally:
        await disk.__aexit__(None, None, None)
