"""A server of files on loopback that can be made to misbehave."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FileServer:
    """Serves `content` at any path. `breaks_after` disconnects once after so many bytes; `redirects` come first."""

    content: bytes
    breaks_after: int | None = None
    redirects: list[str] = field(default_factory=list[str])
    status: int = 200
    ranges: bool = True
    length: bool = True
    asked: list[str] = field(default_factory=list[str])
    url: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """One request."""
        asked = handler.headers.get("Range", "")
        self.asked.append(asked)
        if self.redirects:
            handler.send_response(302)
            handler.send_header("Location", self.redirects.pop(0))
            handler.end_headers()
            return
        first = int(asked[6:].partition("-")[0]) if asked and self.ranges else 0
        if self.status != 200:
            handler.send_error(self.status, "the secret of the server")
            return
        if first and first >= len(self.content):
            handler.send_error(416)
            return
        handler.send_response(206 if first else 200)
        if first:
            handler.send_header("Content-Range", f"bytes {first}-{len(self.content) - 1}/{len(self.content)}")
        if self.length:
            handler.send_header("Content-Length", str(len(self.content) - first))
        handler.end_headers()
        part = self.content[first:]
        if self.breaks_after is not None:
            part, self.breaks_after = part[: self.breaks_after], None
        handler.wfile.write(part)
        handler.close_connection = True


@contextmanager
def serving(content: bytes) -> Generator[FileServer]:
    """A server while the context lasts."""
    files = FileServer(content)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            files.answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    files.url = f"http://127.0.0.1:{server.server_address[1]}/image"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield files
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
