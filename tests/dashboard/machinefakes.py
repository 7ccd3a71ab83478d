"""Fake responses of a node for a virtual machine: a test cannot choose those of simulated nodes."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Page, Route, WebSocketRoute

from tests.dashboard.logfakes import GREETING, FakeLog

OUTPUT, NOTICE, STATUS = b"\x01", b"\x02", b"\x03"
COLOUR = (10, 200, 30)
WIDTH, HEIGHT = 64, 48
# noVNC looks for the properties of a socket in its own class, but a fake one inherits them.
_FLATTEN = """() => {
  const own = WebSocket.prototype;
  for (let from = Object.getPrototypeOf(own); from && from !== Object.prototype; from = Object.getPrototypeOf(from)) {
    for (const [name, made] of Object.entries(Object.getOwnPropertyDescriptors(from))) {
      if (!Object.hasOwn(own, name)) Object.defineProperty(own, name, made);
    }
  }
}"""


@dataclass
class FakeConsole:
    """Sessions at a console, one after the other; each begins with the greeting, if there is one."""

    greeting: bytes = b""
    opened: list[str] = field(default_factory=list[str])
    typed: bytes = b""
    sockets: list[WebSocketRoute] = field(default_factory=list[WebSocketRoute])

    def serve(self, page: Page) -> None:
        """Serve the console of every machine."""
        page.route_web_socket(lambda url: "/console?" in url, self._begin)

    def _begin(self, socket: WebSocketRoute) -> None:
        self.opened.append(socket.url.partition("?")[2])
        self.sockets.append(socket)
        socket.on_message(self._heard)
        if self.greeting:
            self.notice(session="s", attempt=1, offset=0, recorded=True, keyboard=True, writer=None)
            self.output(self.greeting)

    def _heard(self, message: str | bytes) -> None:
        data = message if isinstance(message, bytes) else message.encode()
        if data[:1] == b"\x00":
            self.typed += data[1:]

    def notice(self, **said: Any) -> None:
        self.sockets[-1].send(NOTICE + json.dumps(said).encode())

    def output(self, data: bytes) -> None:
        self.sockets[-1].send(OUTPUT + data)


class FakeScreen:
    """An RFB server of one colour that knows the raw encoding only, and draws once."""

    def __init__(self) -> None:
        self.keys: list[int] = []
        self._said = 0
        self._drawn = False

    def serve(self, page: Page) -> None:
        """Serve the screen of every machine."""
        page.route_web_socket(lambda url: "/vnc?" in url, self._begin)
        page.evaluate(_FLATTEN)

    def _begin(self, socket: WebSocketRoute) -> None:
        self._said, self._drawn = 0, False
        socket.on_message(lambda message: self._heard(socket, message))
        socket.send(b"RFB 003.008\n")

    def _heard(self, socket: WebSocketRoute, message: str | bytes) -> None:
        """Handle messages: three of the handshake, then a request for a picture."""
        data = message if isinstance(message, bytes) else message.encode()
        self._said += 1
        if self._said == 1:
            socket.send(b"\x01\x01")  # one authentication: none
        elif self._said == 2:
            socket.send(b"\0\0\0\0")
        elif self._said == 3:
            pixels = struct.pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 0, 8, 16)
            name = b"<b>vm</b>"
            socket.send(struct.pack(">HH", WIDTH, HEIGHT) + pixels + struct.pack(">I", len(name)) + name)
        elif data[0] == 3 and not self._drawn:
            self._drawn = True
            header = struct.pack(">BxHHHHHi", 0, 1, 0, 0, WIDTH, HEIGHT, 0)
            socket.send(header + bytes((*COLOUR, 0)) * (WIDTH * HEIGHT))
        elif data[0] in (4, 255):
            self.keys.append(struct.unpack(">I", data[4:8])[0])


def serve_recordings(page: Page, text: str, **facts: Any) -> None:
    """One recording, of a session called `abc`."""
    shown = {"session": "abc", "user": "jane", "kind": "console", "keyboard": True, "bytes": len(text)}
    shown |= {"began": "2026-11-17T06:00:00Z", "ended": "2026-11-17T06:01:00Z", **facts}

    def answer(route: Route) -> None:
        asked = "session=" in route.request.url
        route.fulfill(body=text if asked else json.dumps({"recordings": [shown]}), content_type="application/json")

    page.route(lambda url: "/instances/vm-" in url and "/recordings?" in url, answer)


RECORDING = "\n".join(
    json.dumps(each)
    for each in (
        {
            "version": 2,
            "width": 80,
            "height": 24,
            "title": "default/vm-0",
            "tarmac": {"user": "jane", "kind": "console"},
        },
        [0, "o", "Debian GNU/Linux 12 vm-0 ttyS0\r\n\r\nvm-0 login: "],
        [1.5, "m", "has the keyboard"],
        [4, "o", "root\r\n# uptime\r\n 06:00:00 up 3 days\r\n# "],
        [9, "m", "end"],
    )
)


def serve_machine(page: Page) -> None:
    """Serve a machine with all its views, and a log of all requests."""
    FakeLog(GREETING).serve(page)
    FakeConsole(b"Debian GNU/Linux 12 vm-0 ttyS0\r\n\r\nvm-0 login: ").serve(page)
    FakeScreen().serve(page)
    serve_recordings(page, RECORDING)
