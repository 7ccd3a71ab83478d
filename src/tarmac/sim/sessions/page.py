"""The page that a simulated container serves on each declared TCP port, over a connection within this process."""

from __future__ import annotations

import asyncio
import html
import re
import socket
from typing import cast

from tarmac.api.schema import JsonObject
from tarmac.sim.sessions.instance import RELEASE, interfaces_of

_MAX_HEAD = 16 * 1024
_TIMEOUT = 30.0
_REQUEST = re.compile(rb"([A-Z]{3,7}) (/[^ \r\n]{0,2048}) HTTP/1\.[01]\r?\n")
_HTML = re.compile(rb"\r?\naccept:[^\r\n]*text/html", re.IGNORECASE)


def declared_ports(pod: JsonObject) -> list[int]:
    """Return the TCP ports that the pod's containers declare."""
    ports = [
        each
        for container in pod["spec"].get("containers") or ()
        for each in container.get("ports") or ()
        if each.get("protocol", "TCP") == "TCP"
    ]
    return sorted({each["containerPort"] for each in ports})


def refusal(pod: JsonObject, port: int) -> str:
    """Return the reason why nothing listens on a port; empty if something does."""
    ports = declared_ports(pod)
    if port in ports:
        return ""
    declared = (
        f"only on its declared ports: {', '.join(map(str, ports))}" if ports else "on declared ports, and has none"
    )
    return f"connection refused: a simulated instance listens {declared}"


def words(pod: JsonObject, node: str, city: str, port: int) -> str:
    """Return the page as text."""
    lines = [
        f"host: {pod['metadata']['name']}",
        f"city: {city}",
        f"node: {node} (simulated: no program runs behind this page)",
        f"port: {port}",
        f"kernel: {RELEASE}",
        *(f"eth0: {address} of {network}" for address, network in interfaces_of(pod)),
    ]
    return "\n".join(lines) + "\n"


def _document(title: str, text: str) -> str:
    shown = html.escape(text)
    style = "body{font:16px/1.5 system-ui;max-width:40em;margin:4em auto;padding:0 1em}"
    return (
        f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title><style>{style}</style>"
        f"<h1>{html.escape(title)}</h1><pre>{shown}</pre>\n"
    )


class _Page(asyncio.Protocol):
    """Answers one request and closes."""

    def __init__(self, title: str, text: str) -> None:
        self._title = title
        self._text = text
        self._head = b""
        self._transport = cast("asyncio.Transport", None)
        self._timer = cast("asyncio.TimerHandle", None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._timer = asyncio.get_running_loop().call_later(_TIMEOUT, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        self._head += data
        if len(self._head) > _MAX_HEAD:
            self._transport.abort()
        elif b"\r\n\r\n" in self._head or b"\n\n" in self._head:
            self._answer()

    def _answer(self) -> None:
        request = _REQUEST.match(self._head)
        if request is None:
            self._send(b"400 Bad Request", b"text/plain; charset=utf-8", b"not an HTTP request\n", body=True)
            return
        rich = _HTML.search(self._head) is not None
        body = _document(self._title, self._text) if rich else self._text
        kind = b"text/html; charset=utf-8" if rich else b"text/plain; charset=utf-8"
        self._send(b"200 OK", kind, body.encode(), body=request[1] != b"HEAD")

    def _send(self, status: bytes, kind: bytes, content: bytes, *, body: bool) -> None:
        head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        self._transport.write(head % (status, kind, len(content)) + (content if body else b""))
        self._transport.close()


async def connect(pod: JsonObject, node: str, city: str, port: int) -> socket.socket:
    """Return a socket that is connected with the pod's page. Raises ConnectionRefusedError."""
    refused = refusal(pod, port)
    if refused:
        raise ConnectionRefusedError(refused)
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
    page = _Page(f"{pod['metadata']['name']} in {city}", words(pod, node, city, port))
    try:
        await asyncio.get_running_loop().create_connection(lambda: page, sock=ours)
    except BaseException:
        ours.close()
        theirs.close()
        raise
    return theirs
