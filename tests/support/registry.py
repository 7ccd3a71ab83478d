"""A real registry for tests: Debian's docker-registry on loopback, with or without a password, filled from OCI tars.

`mirror` makes it a containerd's mirror of every registry, so that pulls with any name work offline.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

from tarmac.runtimes.parts import find_program
from tests.support.ports import free_ports

USERNAME = "pilot"
PASSWORD = "correct horse"
_HTPASSWD = f"{USERNAME}:$2b$04$HG3WO3pbxNhsL/7ZHWOEXO3LC93rnQV8ZspvoK83qyogp9pybKd/u\n"
_START_SECONDS = 10.0


class Registry:
    """One registry process and its folder."""

    def __init__(self, folder: Path, *, private: bool = False) -> None:
        [self._port] = free_ports(1)
        self._folder = folder
        self._private = private
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start, and wait until it accepts connections."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "htpasswd").write_text(_HTPASSWD)
        (self._folder / "config.yml").write_text(json.dumps(self._config()))  # JSON is YAML
        command = [str(find_program("docker-registry", path="")), "serve", str(self._folder / "config.yml")]
        with (self._folder / "log").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        deadline = time.monotonic() + _START_SECONDS
        while not _listens(self._port):
            assert time.monotonic() < deadline, (self._folder / "log").read_text()[-2000:]
            time.sleep(0.02)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def push(self, tar: Path, name: str, tag: str) -> str:
        """Put the image of an OCI layout tar there; the manifest's digest."""
        with tarfile.open(tar) as archive:
            files = {member.name: content(archive, member) for member in archive.getmembers()}
        descriptor = json.loads(files["index.json"])["manifests"][0]
        manifest = files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        document = json.loads(manifest)
        for blob in (document["config"], *document["layers"]):
            self._push_blob(name, blob["digest"], files[f"blobs/{blob['digest'].replace(':', '/')}"])
        self._call("PUT", f"/v2/{name}/manifests/{tag}", manifest, descriptor["mediaType"])
        return descriptor["digest"]

    def mirror(self, certs: Path) -> None:
        """Make a containerd use this registry as the mirror of every registry."""
        mirror(certs, self.address)

    def _push_blob(self, name: str, digest: str, content: bytes) -> None:
        place = self._call("POST", f"/v2/{name}/blobs/uploads/", b"")
        path = place.removeprefix(f"http://{self.address}")
        self._call("PUT", f"{path}{'&' if '?' in path else '?'}digest={digest}", content, "application/octet-stream")

    def _call(self, method: str, path: str, body: bytes, content_type: str = "") -> str:
        """Send a request that must succeed; return its Location."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        headers = {"Content-Type": content_type} if content_type else {}
        if self._private:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            said = answer.read()
            assert answer.status < 300, (method, path, answer.status, said)
            return answer.headers.get("Location", "")
        finally:
            connection.close()

    def _config(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "version": 0.1,
            "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": str(self._folder / "data")}},
            "http": {"addr": self.address},
        }
        if self._private:
            config["auth"] = {"htpasswd": {"realm": "tests", "path": str(self._folder / "htpasswd")}}
        return config


def mirror(certs: Path, address: str) -> None:
    """Make a containerd that reads this folder pull every image from one address only."""
    (certs / "_default").mkdir(parents=True, exist_ok=True)
    lines = [f'server = "http://{address}"', f'[host."http://{address}"]', '  capabilities = ["pull", "resolve"]', ""]
    (certs / "_default" / "hosts.toml").write_text("\n".join(lines))


def content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """A file of an archive."""
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
