"""The platform's own registry, and who may do what there: `repositories.images.tarmac.dev`.

Repositories are no objects; the resource exists for RBAC. A repository is called `NAMESPACE/NAME`, where the name may
have further slashes, and whoever has the verb `pull` or `push` on `repositories` in that namespace may do so.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

GROUP: Final = "images.tarmac.dev"
RESOURCE: Final = "repositories"
PULL: Final = "pull"
PUSH: Final = "push"
REGISTRY: Final = "registry.tarmac.local"
"""The registry's host in names of images, and the audience of tokens that are meant for it alone."""

TOKEN_ISSUER: Final = "tarmac"
TOKENS_PATH: Final = "/registry/token"
"""Where the server gives out what the registry asks its clients for."""

_LONGEST: Final = 255
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
# No two ways to match the same text, so that a long name costs its length.
_COMPONENT: Final = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*", re.ASCII)


class Repository(NamedTuple):
    """Where images of one name are kept."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def parse_repository(text: str) -> Repository | None:
    """`NAMESPACE/NAME` as registries spell names; None for anything else."""
    namespace, _, name = text.partition("/")
    if len(text) > _LONGEST or not _NAMESPACE.fullmatch(namespace):
        return None
    return Repository(namespace, name) if all(map(_COMPONENT.fullmatch, name.split("/"))) else None


def is_own(host: str) -> bool:
    """Whether the host of an image's name, with or without a port, is the platform's registry."""
    return host.partition(":")[0].lower() == REGISTRY
