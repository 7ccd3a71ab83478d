"""The two servers of a comparison, called by the standard library's HTTP client only."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

TIMEOUT = 10.0  # seconds to wait for bytes that should come at once


@dataclass(frozen=True)
class Answer:
    """A whole HTTP response."""

    status: int
    headers: Mapping[str, str]  # lower-case names
    warnings: tuple[str, ...]
    body: bytes


class Server:
    """One server under comparison. `token` or the certificate inside `admin` makes the administrator."""

    def __init__(self, name: str, url: str, ca: str, admin: ssl.SSLContext | None = None, token: str = "") -> None:
        self.name = name
        self._authority = urlsplit(url).netloc
        self._plain = ssl.create_default_context(cadata=ca)
        self._admin = admin or self._plain
        self._admin_headers = {"Authorization": f"Bearer {token}"} if token else {}

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, as_admin: bool) -> Answer:
        """One request on a connection of its own."""
        with self._connection(as_admin) as connection:
            answer = self._ask(connection, method, path, headers, body, as_admin)
            return _whole(answer, answer.read())

    @contextmanager
    def stream(
        self, path: str, headers: Mapping[str, str], as_admin: bool
    ) -> Generator[tuple[Answer, Iterator[bytes]]]:
        """Open a watch: the head of the response, and its lines as they arrive until the end or `TIMEOUT`."""
        with self._connection(as_admin) as connection:
            answer = self._ask(connection, "GET", path, headers, None, as_admin)
            failed = answer.status >= 400
            yield _whole(answer, answer.read() if failed else b""), iter(()) if failed else _lines(answer)

    def _ask(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        as_admin: bool,
    ) -> http.client.HTTPResponse:
        identity = self._admin_headers if as_admin else {}
        connection.request(method, path, body, {"User-Agent": "tester", **identity, **headers})
        return connection.getresponse()

    @contextmanager
    def _connection(self, as_admin: bool) -> Generator[http.client.HTTPSConnection]:
        context = self._admin if as_admin else self._plain
        connection = http.client.HTTPSConnection(self._authority, timeout=TIMEOUT, context=context)
        try:
            yield connection
        finally:
            connection.close()


def _whole(answer: http.client.HTTPResponse, body: bytes) -> Answer:
    headers = {name.lower(): value for name, value in answer.getheaders()}
    return Answer(answer.status, headers, tuple(answer.headers.get_all("Warning") or ()), body)


def _lines(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            line = answer.readline()
        except TimeoutError:
            return
        if not line:
            return
        yield line
