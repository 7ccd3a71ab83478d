"""Files that namespaces have uploaded to the platform's registry: where it is, and how a node asks for them.

Nodes find the registry as their containerd does, by its hosts.toml, which may appear later: it is read at each fetch.
The node has no rights of its own there; it fetches as the service account of a pod:

    node → registry: blob                    401, with the URL of the tokens
    node → tokens: the account's token       a token for this repository, valid for minutes
    node → registry: blob, token             the file
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tarmac.api.repositories import PULL, REGISTRY, Repository
from tarmac.runtimes.interface.errors import ImageRefused
from tarmac.runtimes.interface.images import Credentials

if TYPE_CHECKING:
    from urllib.error import HTTPError
    from urllib.request import OpenerDirector

_SECONDS = 30.0
_MAX_RESPONSE = 1 << 20
_fields = re.compile(r'(\w+)="([^"]*)"').findall


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file to fetch: the name of its place for messages, URL, opener, and headers with credentials."""

    name: str
    url: str
    opener: OpenerDirector
    headers: dict[str, str]


def find_uploaded(
    hosts: Path | None, repository: Repository, checksum: str, credentials: Credentials | None
) -> RemoteFile:
    """Find a file of the registry. `hosts`: a directory per registry, each with a hosts.toml. Raises ImageRefused."""
    url, ca = _registry(hosts)
    opener = _opener(ca)
    blob = f"{url}/v2/{repository}/blobs/{checksum}"
    if credentials is None:
        raise ImageRefused(f"{REGISTRY}/{repository} is fetched as the service account of a pod, and none is known")
    token = _token(opener, _challenge(opener, blob), repository, credentials)
    return RemoteFile(f"{REGISTRY}/{repository}", blob, opener, {"Authorization": f"Bearer {token}"})


def _registry(hosts: Path | None) -> tuple[str, str]:
    """Return the URL of the registry and the file of its CA. Raises ImageRefused."""
    try:
        if hosts is None:
            raise FileNotFoundError
        found = tomllib.loads((hosts / REGISTRY / "hosts.toml").read_text())
        return str(found["server"]).rstrip("/"), str(found["ca"])
    except FileNotFoundError:
        known = "nodes of `tarmac up --registry` do"
        raise ImageRefused(f"this node does not know the registry {REGISTRY}, which has the image: {known}") from None
    except (OSError, ValueError, KeyError) as error:
        raise ImageRefused(f"hosts.toml of {REGISTRY} cannot be read: {error}") from error


def _opener(ca: str) -> OpenerDirector:
    """Return an opener that follows no redirect and uses no proxy: a token must not reach another host."""
    from urllib import request

    opener = request.OpenerDirector()
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ImageRefused(f"the CA of {REGISTRY} cannot be read: {error}") from error
    for handler in (
        request.HTTPSHandler(context=context),
        request.HTTPErrorProcessor(),
        request.HTTPDefaultErrorHandler(),
        request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _challenge(opener: OpenerDirector, blob: str) -> dict[str, str]:
    """Return where the registry sends its clients for a token. Raises ImageRefused."""
    from urllib.error import HTTPError

    try:
        _read(opener, blob, {})
    except HTTPError as error:
        error.close()
        found = dict(_fields(error.headers.get("WWW-Authenticate", "")))
        if error.code == 401 and found.get("realm", "").startswith("https://"):
            return found
        raise ImageRefused(f"{REGISTRY} answered {error.code}") from error
    raise ImageRefused(f"{REGISTRY} asks for no token: it is not the platform's registry")


def _token(opener: OpenerDirector, challenge: dict[str, str], repository: Repository, credentials: Credentials) -> str:
    from urllib.error import HTTPError

    query = urlencode({"service": challenge.get("service", ""), "scope": f"repository:{repository}:{PULL}"})
    pair = base64.b64encode(f"{credentials.username}:{credentials.password}".encode()).decode()
    try:
        answer = _read(opener, f"{challenge['realm']}?{query}", {"Authorization": f"Basic {pair}"})
        return str(json.loads(answer)["token"])
    except HTTPError as error:
        raise ImageRefused(_message(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ImageRefused(f"the server gave no token for {REGISTRY}/{repository}") from error


def _read(opener: OpenerDirector, url: str, headers: dict[str, str]) -> bytes:
    """GET a small document; an error response is an HTTPError. Raises ImageRefused if the host cannot be reached."""
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    try:
        with opener.open(Request(url, headers=headers), timeout=_SECONDS) as answer:
            return answer.read(_MAX_RESPONSE)
    except HTTPError:
        raise
    except (URLError, OSError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise ImageRefused(f"{REGISTRY} cannot be reached: {reason}") from error


def _message(error: HTTPError) -> str:
    """Return the reason of a rejection, which our own server wrote for the user."""
    with error:
        try:
            body: Any = json.loads(error.read(_MAX_RESPONSE))
            return str(body["errors"][0]["message"])
        except (ValueError, KeyError, IndexError, TypeError, OSError):
            return f"the server gave no token for {REGISTRY}: it answered {error.code}"
