"""Images of containers and virtual machines.

The handler of the pod determines the driver that keeps its image; a runtime with one driver ignores the handler.
`Image.handler` names the driver of an image: pass it on to remove the image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

Progress = Callable[[int, int], None]  # bytes present, and bytes known to be needed


@dataclass(frozen=True, slots=True)
class Image:
    """An image present on this node."""

    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    size: int
    user: int | None = None
    username: str = ""
    pinned: bool = False
    handler: str = ""  # of the driver that has it; empty: the main driver
    variables: tuple[str, ...] = ()  # NAME=VALUE, which containers have by default; of a single image only


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials for a registry. Never logged.

    They do not name their registry: the caller has selected them for it. containerd would compare such a name with the
    host that it connects to, which differs behind a mirror, and would then send no credentials.
    """

    username: str = ""
    password: str = ""
    identity_token: str = ""

    def __repr__(self) -> str:
        """Omits the secret."""
        return f"Credentials({self.username!r})"


class Images(Protocol):
    """Pulls, lists and removes images. Each call raises RuntimeFault."""

    async def pull(
        self, image: str, credentials: Credentials | None, progress: Progress | None = None, handler: str = ""
    ) -> str:
        """Pull an image; return its id. Raises ImageRefused.

        `progress` is called about once a second, if the runtime reports progress.
        """
        ...

    async def image(self, name: str, handler: str = "") -> Image | None:
        """Return a present image by name or id, or None."""
        ...

    async def images(self) -> Sequence[Image]:
        """Return all present images."""
        ...

    async def remove_image(self, name: str, handler: str = "") -> None:
        """Remove an image by name or id, under all its names."""
        ...

    async def image_space(self) -> tuple[str, int, int]:
        """Return the mount point of the images, and the bytes and inodes they use."""
        ...
