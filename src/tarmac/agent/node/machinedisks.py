"""Source images of virtual machines' disks: raw operating system images, as configured in the pod's annotation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from tarmac.agent.containers.repositories import RepositoryAccess
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.sources.volumesources import ImageRoot
from tarmac.api.compute.names import ANNOTATION_MACHINE_IMAGES
from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import Credentials, RuntimeFault
from tarmac.volumes.interface import SourceUnavailable

RawDisks = Callable[[str, str, Credentials | None], AbstractAsyncContextManager[Path]]
"""Opens the raw disk of an image, given its name, the pod's annotation about images, and credentials for one that was
uploaded. Raises RuntimeFault."""


def machine_image(disks: RawDisks, access: RepositoryAccess) -> ImageRoot:
    """Return the function that opens them for volumes.

    An uploaded image that is present may have been fetched for a different pod: each time, the pod's right is checked.
    """

    @asynccontextmanager
    async def image_of(image: str, pod: JsonObject) -> AsyncGenerator[str]:
        annotation = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_MACHINE_IMAGES, "{}")
        try:
            credentials = await access.for_machine(image, AgentPod(pod))
        except RuntimeFault as error:
            raise SourceUnavailable(str(error)) from error
        async with _telling(disks(image, annotation, credentials)) as path:
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
