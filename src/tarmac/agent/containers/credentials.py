"""Selects the pull secrets of a pod that match an image's registry. Secrets are read when needed and never stored.

Secrets are written by tenants: at most `MAX_SERVERS` servers of one Secret are read, and malformed entries are skipped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import Credentials
from tarmac.volumes.interface import ObjectSources

DEFAULT_REGISTRY = "docker.io"
MAX_SERVERS = 1000  # per Secret
_MAX_SERVER_NAME = 512  # characters of a server name
_ALIASES = ("index.docker.io", "registry-1.docker.io")


class _Entry(msgspec.Struct):
    """Credentials of one server."""

    username: str = ""
    password: str = ""
    auth: str = ""
    identitytoken: str = ""


def with_tag(image: str) -> str:
    """Return the image name with a tag: without tag and digest it means `latest`."""
    return image if "@" in image or ":" in image.rpartition("/")[2] else f"{image}:latest"


def repository(image: str) -> str:
    """Return the registry and path, without tag and digest."""
    name = image.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    name = f"{head}{slash}{tail.partition(':')[0]}"
    first, slash, rest = name.partition("/")
    if not slash:
        return f"{DEFAULT_REGISTRY}/library/{name}"
    if "." not in first and ":" not in first and first != "localhost":
        return f"{DEFAULT_REGISTRY}/{name}"
    return f"{DEFAULT_REGISTRY}/{rest}" if first in _ALIASES else name


async def credentials_for(image: str, pod: AgentPod, sources: ObjectSources) -> list[Credentials]:
    """Return the matching credentials, the most specific first."""
    wanted = repository(image)
    found: list[tuple[int, Credentials]] = []
    for reference in pod.spec.get("imagePullSecrets") or ():
        secret = await sources.secret(pod.namespace, reference["name"])
        for server, entry in islice(_entries(secret or {}), MAX_SERVERS):
            if _fits(server, wanted):
                found.append((len(server), _credentials(entry)))
    return [each for _, each in sorted(found, key=lambda item: -item[0])]


def _entries(secret: JsonObject) -> Iterator[tuple[str, _Entry]]:
    for server, entry in _servers(secret.get("data") or {}).items():
        try:
            if len(server) <= _MAX_SERVER_NAME:
                yield server, msgspec.convert(entry, _Entry)
        except msgspec.ValidationError:
            continue


def _servers(data: JsonObject) -> dict[str, Any]:
    try:
        if text := data.get(".dockerconfigjson"):
            found = msgspec.json.decode(base64.b64decode(text), type=dict[str, Any]).get("auths")
        elif text := data.get(".dockercfg"):
            found = msgspec.json.decode(base64.b64decode(text))
        else:
            return {}
    # Deeply nested JSON, which a tenant may write, raises RecursionError.
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _plain(server: str) -> str:
    name = server.partition("://")[2] or server
    name = name.removesuffix("/").removesuffix("/v1").removesuffix("/v2")
    host, slash, path = name.partition("/")
    return f"{DEFAULT_REGISTRY if host in _ALIASES else host}{slash}{path}"


def _fits(server: str, wanted: str) -> bool:
    """Compare hosts label by label, with `*` inside a label; compare paths by prefix."""
    host, _, path = _plain(server).partition("/")
    actual, _, rest = wanted.partition("/")
    parts, others = host.split("."), actual.split(".")
    if len(parts) != len(others) or not all(map(_matches, others, parts)):
        return False
    return not path or rest == path or rest.startswith(f"{path.removesuffix('/')}/")


def _matches(text: str, pattern: str) -> bool:
    # No regular expression: a tenant writes the pattern, and one with many stars could backtrack for minutes.
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if not text.startswith(first) or len(text) < len(first) + len(last) or not text.endswith(last):
        return False
    place, end = len(first), len(text) - len(last)
    for each in middle:
        place = text.find(each, place, end)
        if place < 0:
            return False
        place += len(each)
    return True


def _credentials(entry: _Entry) -> Credentials:
    username, password = entry.username, entry.password
    if not username and entry.auth:
        username, password = _pair(entry.auth)
    return Credentials(username, password, entry.identitytoken)


def _pair(auth: str) -> tuple[str, str]:
    try:
        username, _, password = base64.b64decode(auth).decode(errors="replace").partition(":")
    except ValueError:
        return "", ""
    return username, password
