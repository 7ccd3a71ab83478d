"""A client of the registry in plain HTTP calls, as docker makes them: 401, a token from its realm, once more."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import ssl
import tarfile
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from tests.support.registry import content

HOST = "registry.tarmac.local"
_RESTART_SECONDS = 10.0


class Answer(NamedTuple):
    """Status, headers and body of a response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """The error message, as a client would print it."""
        return self.json["errors"][0]["message"]


class Image(NamedTuple):
    """An image to push: blobs by digest, and the manifest with its type."""

    blobs: dict[str, bytes]
    manifest: bytes
    media_type: str
    digest: str


def image_of(tar: Path) -> Image:
    """The image of an OCI layout tar."""
    with tarfile.open(tar) as archive:
        files = {member.name: content(archive, member) for member in archive.getmembers()}
    descriptor = json.loads(files["index.json"])["manifests"][0]
    manifest = files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
    document = json.loads(manifest)
    wanted = [each["digest"] for each in (document["config"], *document["layers"])]
    blobs = {digest: files[f"blobs/{digest.replace(':', '/')}"] for digest in wanted}
    return Image(blobs, manifest, descriptor["mediaType"], descriptor["digest"])


class Client:
    """A client of the registry. Without a password it is anonymous."""

    def __init__(self, port: int, ca: Path, password: str = "") -> None:
        self._port = port
        self._tls = ssl.create_default_context(cafile=str(ca))
        self.password = password
        self.token = ""

    def call(self, method: str, path: str, body: bytes = b"", media_type: str = "") -> Answer:
        """Send a request, and once more with a token when the registry wants one; a rejected token is the response."""
        answer = self.send(method, path, body, media_type)
        if answer.status != 401:
            return answer
        given = self.ask(answer.headers["www-authenticate"])
        if given.status != 200:
            return given
        self.token = given.json["token"]
        return self.send(method, path, body, media_type)

    def send(self, method: str, path: str, body: bytes = b"", media_type: str = "") -> Answer:
        """Send one request with the current token."""
        connection = http.client.HTTPSConnection(HOST, self._port, context=self._tls, timeout=20)
        connection._create_connection = _to_loopback  # type: ignore[attr-defined]
        headers = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
        headers |= {"Content-Type": media_type} if media_type else {}
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return _answered(connection, method, path, body, headers)

    def ask(self, challenge: str) -> Answer:
        """Request a token from the realm in a challenge."""
        fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        return self.tokens(fields["realm"], fields.get("service", ""), fields.get("scope", ""))

    def tokens(self, realm: str, service: str, *scopes: str) -> Answer:
        """Request a token."""
        url = urlsplit(realm)
        connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=self._tls, timeout=20)
        query = "&".join([f"service={quote(service)}", *(f"scope={quote(scope)}" for scope in scopes if scope)])
        headers: dict[str, str] = {}
        if self.password:
            headers["Authorization"] = "Basic " + base64.b64encode(f"anybody:{self.password}".encode()).decode()
        return _answered(connection, "GET", f"{url.path}?{query}", b"", headers)

    def as_bearer(self, server: str, path: str) -> Answer:
        """Use the password in place of an API token."""
        url = urlsplit(server)
        connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=self._tls, timeout=20)
        return _answered(connection, "GET", path, b"", {"Authorization": f"Bearer {self.password}"})

    def push(self, image: Image, name: str, tag: str) -> Answer:
        """Push the blobs, then the manifest; return the first error."""
        for digest, blob in image.blobs.items():
            begun = self.call("POST", f"/v2/{name}/blobs/uploads/")
            if begun.status != 202:
                return begun
            done = self.call("PUT", _with(begun.headers["location"], digest), blob, "application/octet-stream")
            if done.status != 201:
                return done
        return self.call("PUT", f"/v2/{name}/manifests/{tag}", image.manifest, image.media_type)

    def pull(self, name: str, tag: str) -> Answer:
        """Pull the manifest; check its blobs, too."""
        manifest = self.call("GET", f"/v2/{name}/manifests/{tag}")
        if manifest.status == 200:
            for blob in (manifest.json["config"], *manifest.json["layers"]):
                assert self.call("GET", f"/v2/{name}/blobs/{blob['digest']}").status == 200
        return manifest


def _with(location: str, digest: str) -> str:
    url = urlsplit(location)
    return f"{url.path}?{url.query}&digest={digest}"


def _to_loopback(address: tuple[str, int], *rest: Any, **options: Any) -> Any:
    """Resolve the name to loopback. The registry restarts for a moment to remove images of deleted namespaces."""
    end = time.monotonic() + _RESTART_SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", address[1]), *rest, **options)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _answered(
    connection: http.client.HTTPSConnection, method: str, path: str, body: bytes, headers: dict[str, str]
) -> Answer:
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return Answer(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()
