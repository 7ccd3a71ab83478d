"""The resource of a call, and the type of its objects.

A `Target` names group, version and plural and carries the Python type of its objects: a msgspec Struct for typed
access, or `dict` for decoded JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, cast, get_origin
from urllib.parse import quote

import msgspec

from tarmac.api.declare import decoder
from tarmac.api.schema import JsonObject

T = TypeVar("T")
U = TypeVar("U")

encode = msgspec.json.Encoder(enc_hook=str).encode
"""Encodes JSON; values with a canonical text, such as quantities, as that text."""


@dataclass(frozen=True)
class Target(Generic[T]):
    """One resource of one API version, with the type its objects are decoded to."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[T]

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def decode(self) -> Callable[[bytes | msgspec.Raw], T]:
        """Bytes to object."""
        if self.type is bytes:
            return cast("Callable[[bytes | msgspec.Raw], T]", bytes)
        if issubclass(get_origin(self.type) or self.type, msgspec.Struct):
            return cast("Callable[[bytes | msgspec.Raw], T]", decoder(cast("type[msgspec.Struct]", self.type)))
        return msgspec.json.Decoder(self.type).decode

    def encode(self, obj: T | JsonObject | msgspec.Struct) -> bytes:
        """Object to bytes. Declared kinds do not carry their own type, so it is prepended."""
        body = encode(obj)
        if isinstance(obj, msgspec.Struct) and "api_version" not in obj.__struct_fields__:
            return self.stamped(body)
        return body

    def stamped(self, body: bytes) -> bytes:
        """Return an encoded object with its apiVersion and kind prepended."""
        return b'{"apiVersion":"%b","kind":"%b",%b' % (self.api_version.encode(), self.kind.encode(), body.lstrip()[1:])

    @cached_property
    def _root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of a collection, an object, or a subresource of it."""
        parts = [self._root]
        if self.namespaced and namespace:
            parts += ("namespaces", namespace)
        parts.append(self.plural)
        if name:
            plain = name.isascii() and name.replace("-", "").replace(".", "").isalnum()  # nearly every name is
            parts.append(name if plain else quote(name, safe=":@$&+=,"))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    @property
    def unread(self) -> Target[bytes]:
        """The same resource for writers that ignore the response."""
        return self.typed(bytes)

    def typed(self, type: type[U]) -> Target[U]:
        """The same resource, decoded to a different type."""
        return Target(self.group, self.version, self.plural, self.kind, self.namespaced, type)


def declared(type: type[T], api_version: str, plural: str, namespaced: bool = True) -> Target[T]:
    """Return the target of a declared kind; the kind's name is the class's."""
    group, _, version = api_version.rpartition("/")
    return Target(group, version, plural, type.__name__, namespaced, type)


def dynamic(api_version: str, plural: str, kind: str, namespaced: bool = True) -> Target[JsonObject]:
    """Return a target whose objects are decoded JSON."""
    group, _, version = api_version.rpartition("/")
    return Target(group, version, plural, kind, namespaced, dict[str, Any])
