"""Images: what containers run.

Which driver of a node keeps an image follows from the handler of the pod that needs it; a runtime of one driver does
not look at the handler. `Image.handler` says whose an image is: give it back to remove the image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

Progress = Callable[[int, int], None]  # bytes that are here, of bytes that are known to be needed


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is here."""

    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    size: int
    user: int | None = None
    username: str = ""
    pinned: bool = False
    handler: str = ""  # whose it is, among the drivers of a node; empty: the one that runs most pods


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a registry wants to see. Never logged.

    They do not say for which registry they are: whoever hands them over has looked. containerd compares such a word
    with the host that it talks to, which behind a mirror is another, and then shows nothing.
    """

    username: str = ""
    password: str = ""
    identity_token: str = ""

    def __repr__(self) -> str:
        """Without the secret."""
        return f"Credentials({self.username!r})"


class Images(Protocol):
    """Gets, shows and removes images. Each call raises RuntimeFault."""

    async def pull(
        self, image: str, credentials: Credentials | None, progress: Progress | None = None, handler: str = ""
    ) -> str:
        """The id of the image, once it is here. Raises ImageRefused.

        `progress` is told about once a second how far it is, if the runtime can tell.
        """
        ...

    async def image(self, name: str, handler: str = "") -> Image | None:
        """An image by name or id, if it is here."""
        ...

    async def images(self) -> Sequence[Image]:
        """All that are here."""
        ...

    async def remove_image(self, name: str, handler: str = "") -> None:
        """Forget an image by name or id, under all its names."""
        ...

    async def image_space(self) -> tuple[str, int, int]:
        """The mount point images are under, the bytes and the inodes they take."""
        ...
