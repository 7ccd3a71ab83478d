"""Fake responses of a node for a container: a test cannot choose those of simulated nodes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from playwright.sync_api import Page, Route, WebSocketRoute

GREETING = b"2026-11-17T06:00:00.5Z listening on 8080\n2026-11-17T06:00:01Z GET / 200\n"


@dataclass
class FakeLog:
    """Followed logs over WebSockets, one after the other, and logs that are read once."""

    greeting: bytes = b""
    once: str = ""
    followed: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    read: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    sockets: list[WebSocketRoute] = field(default_factory=list[WebSocketRoute])

    def serve(self, page: Page) -> None:
        """Serve the log of every container."""
        page.route_web_socket(lambda url: "/log?" in url, self._begin)
        page.route(lambda url: "/log?" in url, self._answer)

    def write(self, text: str) -> None:
        """Write to the followed log."""
        self.sockets[-1].send(text.encode())

    def _begin(self, socket: WebSocketRoute) -> None:
        self.followed.append(_query(socket.url))
        self.sockets.append(socket)
        if self.greeting:
            socket.send(self.greeting)

    def _answer(self, route: Route) -> None:
        self.read.append(_query(route.request.url))
        route.fulfill(body=self.once, content_type="text/plain")


@dataclass
class FakeShell:
    """Shells of containers, one after the other: they record input and the size of the terminal."""

    prompt: str = "$ "
    typed: bytes = b""
    sizes: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    sockets: list[WebSocketRoute] = field(default_factory=list[WebSocketRoute])

    def serve(self, page: Page) -> None:
        """Serve the shell of every container."""
        page.route_web_socket(lambda url: "/exec?" in url, self._begin)

    def _begin(self, socket: WebSocketRoute) -> None:
        self.sockets.append(socket)
        socket.on_message(self._heard)
        socket.send(b"\x01" + self.prompt.encode())

    def _heard(self, message: str | bytes) -> None:
        data = message if isinstance(message, bytes) else message.encode()
        if data[:1] == b"\x00":
            self.typed += data[1:]
            self.sockets[-1].send(b"\x01" + data[1:])
        elif data[:1] == b"\x04":
            self.sizes.append(json.loads(data[1:]))


def _query(url: str) -> dict[str, str]:
    return {name: value for name, value in parse_qsl(urlsplit(url).query) if name != "pretty"}
