"""Which of a pod's pull secrets a registry is shown. Secrets are read when needed and kept nowhere."""

from __future__ import annotations

import base64
import binascii
from fnmatch import fnmatchcase

import msgspec

from tarmac.agent.pods.pod import Pod
from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import Credentials
from tarmac.volumes.interface import Sources

DEFAULT_REGISTRY = "docker.io"
_ALIASES = ("index.docker.io", "registry-1.docker.io")


def with_tag(image: str) -> str:
    """The name as registries know it: without tag and digest it means `latest`."""
    return image if "@" in image or ":" in image.rpartition("/")[2] else f"{image}:latest"


def repository(image: str) -> str:
    """Registry and path, without tag and digest."""
    name = image.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    name = f"{head}{slash}{tail.partition(':')[0]}"
    first, slash, rest = name.partition("/")
    if not slash:
        return f"{DEFAULT_REGISTRY}/library/{name}"
    if "." not in first and ":" not in first and first != "localhost":
        return f"{DEFAULT_REGISTRY}/{name}"
    return f"{DEFAULT_REGISTRY}/{rest}" if first in _ALIASES else name


async def credentials_for(image: str, pod: Pod, sources: Sources) -> list[Credentials]:
    """Those that fit, the most specific first."""
    wanted = repository(image)
    found: list[tuple[int, Credentials]] = []
    for reference in pod.spec.get("imagePullSecrets") or ():
        secret = await sources.secret(pod.namespace, reference["name"])
        for server, entry in _entries(secret or {}):
            if _fits(server, wanted):
                found.append((len(server), _credentials(server, entry)))
    return [each for _, each in sorted(found, key=lambda item: -item[0])]


def _entries(secret: JsonObject) -> list[tuple[str, JsonObject]]:
    data = secret.get("data") or {}
    try:
        if text := data.get(".dockerconfigjson"):
            auths = msgspec.json.decode(base64.b64decode(text)).get("auths") or {}
        elif text := data.get(".dockercfg"):
            auths = msgspec.json.decode(base64.b64decode(text))
        else:
            return []
    except (msgspec.DecodeError, binascii.Error, AttributeError):
        return []
    return list(auths.items())


def _plain(server: str) -> str:
    name = server.partition("://")[2] or server
    name = name.removesuffix("/").removesuffix("/v1").removesuffix("/v2")
    host, slash, path = name.partition("/")
    return f"{DEFAULT_REGISTRY if host in _ALIASES else host}{slash}{path}"


def _fits(server: str, wanted: str) -> bool:
    """Hosts are compared part by part, with `*` within a part; paths by their beginning."""
    host, _, path = _plain(server).partition("/")
    actual, _, rest = wanted.partition("/")
    parts, others = host.split("."), actual.split(".")
    if len(parts) != len(others) or not all(map(fnmatchcase, others, parts)):
        return False
    return not path or rest == path or rest.startswith(f"{path.removesuffix('/')}/")


def _credentials(server: str, entry: JsonObject) -> Credentials:
    username, password = entry.get("username") or "", entry.get("password") or ""
    if not username and entry.get("auth"):
        username, _, password = base64.b64decode(entry["auth"]).decode(errors="replace").partition(":")
    return Credentials(username, password, server, entry.get("identitytoken") or "")
