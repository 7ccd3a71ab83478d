"""The platform's own registry and its access rules: `repositories.images.tarmac.dev`.

Repositories are not objects; the resource exists for RBAC. A repository is called `NAMESPACE/NAME`, where the name may
contain further slashes. A user with the verb `pull` or `push` on `repositories` in that namespace may pull or push.
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
"""Path where the server issues the bearer tokens that the registry demands from its clients."""

BYTES: Final = "bytes"
"""Parameter of a request for a token: the number of bytes that the client is about to push."""

_MAX_NAME: Final = 255
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
# Every text has at most one match, so that matching a long name takes linear time.
_COMPONENT: Final = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*", re.ASCII)


class Repository(NamedTuple):
    """A repository: namespace and image name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def parse_repository(text: str) -> Repository | None:
    """Parse `NAMESPACE/NAME` by the rules of registries; return None for any other text."""
    namespace, _, name = text.partition("/")
    if len(text) > _MAX_NAME or not _NAMESPACE.fullmatch(namespace):
        return None
    return Repository(namespace, name) if all(map(_COMPONENT.fullmatch, name.split("/"))) else None


def is_own(host: str) -> bool:
    """Return True if the host of an image name, with or without a port, is the platform's registry."""
    return host.partition(":")[0].lower() == REGISTRY
