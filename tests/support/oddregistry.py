"""A registry that misbehaves, for tests: it serves an image slowly, or with a layer that does not match its digest."""

from __future__ import annotations

import contextlib
import http.server
import json
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

_CHUNK = 64 * 1024


class OddRegistry:
    """Serves the image of an OCI layout tar under every name, on loopback."""

    def __init__(self, tar: Path, *, seconds: float = 0.0, corrupt: bool = False) -> None:
        """`seconds`: how long a layer takes."""
        with tarfile.open(tar) as archive:
            self.blobs = {_digest(member.name): _read(archive, member) for member in archive.getmembers()}
        index = json.loads(self.blobs.pop("index.json"))
        self.manifest = index["manifests"][0]
        document = json.loads(self.blobs[self.manifest["digest"]])
        self.layers = {layer["digest"] for layer in document["layers"]}
        self.seconds = seconds
        self.corrupt = corrupt
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> OddRegistry:
        """Serve."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str) -> tuple[bytes, str, float] | None:
        """Content, type, and the seconds that it takes."""
        path = path.partition("?")[0]
        wanted = path.rpartition("/")[2]
        if "/manifests/" in path:
            return self.blobs[self.manifest["digest"]], self.manifest["mediaType"], 0.0
        content = self.blobs.get(wanted)
        if content is None:
            return None
        if wanted in self.layers and self.corrupt:
            content = content[:-1] + bytes([content[-1] ^ 1])
        return content, "application/octet-stream", self.seconds if wanted in self.layers else 0.0


def _handler(registry: OddRegistry) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._head()

        def do_GET(self) -> None:
            found = self._head()
            if found is None:
                return
            content, _, seconds = found
            with contextlib.suppress(ConnectionError):  # the client may have gone
                for start in range(0, len(content), _CHUNK):
                    self.wfile.write(content[start : start + _CHUNK])
                    time.sleep(seconds * _CHUNK / len(content))

        def _head(self) -> tuple[bytes, str, float] | None:
            found = registry.answer(self.path)
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(found[0])) if found else "0")
            if found:
                self.send_header("Content-Type", found[1])
            if "/manifests/" in self.path:
                self.send_header("Docker-Content-Digest", registry.manifest["digest"])
            self.end_headers()
            return found

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    return Handler


def _digest(name: str) -> str:
    return name.removeprefix("blobs/").replace("/", ":", 1) if name.startswith("blobs/") else name


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file else b""
