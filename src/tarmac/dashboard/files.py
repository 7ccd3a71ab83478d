"""Serves the built page by file name.

Files are looked up in the build's manifest, never by path, so no request can reach other files on the disk. File names
carry a hash and may be cached for ever; the page itself is rendered for each request with a fresh nonce. If the page
was not built, its address explains how to build it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from tarmac.base.randomness import Randomness
from tarmac.dashboard.answers import HTML, page
from tarmac.dashboard.headers import file_headers, page_headers
from tarmac.http.compression import accepts_gzip
from tarmac.http.messages import Request, Response

BELOW = "/dashboard/"
SIGN_IN = BELOW + "sign-in"
GENERATED = Path(__file__).parent / "_generated"
_NONCE = b"{{nonce}}"
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
    ".txt": "text/plain",
    ".woff2": "font/woff2",
}


class _Manifest(msgspec.Struct):
    files: frozenset[str] = frozenset()


class DashboardFiles:
    """Serves everything below `/dashboard/`."""

    def __init__(
        self,
        randomness: Randomness,
        folder: Path = GENERATED,
        sign_in: Callable[[Request], Response | Awaitable[Response]] | None = None,
    ) -> None:
        """`sign_in` handles `/dashboard/sign-in`, where the server has one."""
        self._randomness = randomness
        self._sign_in = sign_in
        self._folder = folder
        self._files = _files_of(folder)

    @property
    def built(self) -> bool:
        """True if the page was built."""
        return bool(self._files)

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        """Serve one request, without authentication: the files are public."""
        if request.path == BELOW.rstrip("/"):
            return Response(301, b"", "", [("Location", BELOW)])
        if request.path == SIGN_IN and self._sign_in is not None:
            return self._sign_in(request)
        if request.method not in ("GET", "HEAD"):
            return page(405, "Only GET", "The page is read, nothing is sent to it.", [("Allow", "GET, HEAD")])
        if not self._files:
            return page(503, "The dashboard is not built", "Run make setup where Tarmac was cloned, with a network.")
        name = request.path.removeprefix(BELOW)
        if name in ("", "index.html"):
            return asyncio.to_thread(self._index)
        if name not in self._files:
            return page(404, "No such page", f"The dashboard is at {BELOW}; its views come after a #.")
        return asyncio.to_thread(self._file, name, accepts_gzip(request.headers))

    def _index(self) -> Response:
        nonce = self._randomness.token(16)
        text = (self._folder / "index.html").read_bytes().replace(_NONCE, nonce.encode())
        return Response(200, text, HTML, page_headers(nonce))

    def _file(self, name: str, packed: bool) -> Response:
        path, headers = self._folder / name, [*file_headers(), ("Vary", "Accept-Encoding")]
        if packed:
            path, headers = path.with_name(path.name + ".gz"), [*headers, ("Content-Encoding", "gzip")]
        return Response(200, path.read_bytes(), _TYPES.get(Path(name).suffix, "application/octet-stream"), headers)


def _files_of(folder: Path) -> frozenset[str]:
    try:
        return msgspec.json.decode((folder / "manifest.json").read_bytes(), type=_Manifest).files
    except OSError:
        return frozenset()
