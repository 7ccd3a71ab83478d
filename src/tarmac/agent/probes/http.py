"""GET requests of probes and hooks: one connection each, no certificate checks, redirects on the same host followed.

A body is read only as far as it is reported. The socket is made in the pod's network.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from urllib.parse import urljoin, urlsplit

from tarmac.agent.model.poddependencies import Connector
from tarmac.agent.probes.dialing import attach, dial, join, port_of, wording
from tarmac.agent.probes.outcome import SUCCESS, ProbeFault, ProbeResult, failure
from tarmac.api.schema import JsonObject
from tarmac.http.clientrequest import StreamedReply, send_request
from tarmac.http.responseprotocol import ConnectionBroken, PeerClosed

MAX_BODY = 10 * 1024
MAX_REDIRECTS = 10
VERSION = "1.35"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """Status, location header, and the beginning of the body."""

    status: int
    location: str
    body: bytes


async def probe_http(
    connect: Connector, pod: JsonObject, container: JsonObject, action: JsonObject, address: str, timeout: float
) -> ProbeResult:
    """Return success for 200 to 399; a redirect to a different host is a warning. Raises ProbeFault."""
    url, headers = request_of(action, container, address, "probe")
    try:
        async with asyncio.timeout(timeout):
            answer = await get(connect, pod, url, headers, timeout)
    except TimeoutError:
        return failure(f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)')
    except (OSError, ValueError, EOFError) as error:
        return failure(f'Get "{url}": {wording(error)}')
    if 300 <= answer.status < 400:
        body = answer.body.decode(errors="replace")
        return ProbeResult("warning", f"Probe terminated redirects, Response body: {body}")
    if 200 <= answer.status < 300:
        return SUCCESS
    return failure(f"HTTP probe failed with statuscode: {answer.status}")


def request_of(
    action: JsonObject, container: JsonObject, address: str, purpose: str
) -> tuple[str, list[tuple[str, str]]]:
    """Return the URL and headers of an `httpGet`. Raises ProbeFault."""
    try:
        port = port_of(action["port"], container)
    except ValueError as error:
        raise ProbeFault(str(error)) from error
    scheme = (action.get("scheme") or "HTTP").lower()
    path = action.get("path") or "/"
    url = f"{scheme}://{join(action.get('host') or address, port)}{path if path.startswith('/') else '/' + path}"
    headers = [(each["name"], each.get("value") or "") for each in action.get("httpHeaders") or ()]
    given = {name.lower() for name, _ in headers}
    if "user-agent" not in given:
        headers.append(("User-Agent", f"kube-{purpose}/{VERSION}"))
    if "accept" not in given:
        headers.append(("Accept", "*/*"))
    return url, [(name, value) for name, value in headers if value or name.lower() != "accept"]


async def get(
    connect: Connector, pod: JsonObject, url: str, headers: Iterable[tuple[str, str]], timeout: float
) -> ProbeAnswer:
    """Send the request, following redirects on the same host. Raises OSError, EOFError and ValueError.

    `timeout` is that of each step; a caller that limits the whole adds its own.
    """
    headers = list(headers)
    host = urlsplit(url).hostname
    for _ in range(MAX_REDIRECTS):
        answer = await _once(connect, pod, url, headers, timeout)
        if not (300 <= answer.status < 400 and answer.location):
            return answer
        target = urljoin(url, answer.location)
        # Only on the same host: a container could otherwise send requests of the node to any address.
        if urlsplit(target).hostname != host:
            return answer
        url = target
    raise ValueError("stopped after 10 redirects")


@cache
def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    # As with kubelet: the certificate of a pod rarely names its address.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _once(
    connect: Connector, pod: JsonObject, url: str, headers: list[tuple[str, str]], timeout: float
) -> ProbeAnswer:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    host = parts.hostname or ""

    async def over_the_network_of_the_pod(factory: Callable[[], asyncio.Protocol]) -> None:
        sock = await dial(connect, pod, host, parts.port or (443 if secure else 80), timeout)
        await attach(sock, factory, _trusting() if secure else None, host)

    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    request = _request(target, parts.netloc, headers)
    try:
        reply = await send_request(over_the_network_of_the_pod, request, timeout, lenient=True)
        try:
            body = await _beginning(reply) if reply.status >= 300 else b""
            return ProbeAnswer(reply.status, reply.header("location"), body)
        finally:
            # Aborted, not read to its end: a container may send without end.
            reply.abort()
    except PeerClosed as error:
        raise EOFError("EOF") from error
    except ConnectionBroken as error:
        raise ValueError(f"net/http: HTTP/1.x transport connection broken: {error}") from error


async def _beginning(reply: StreamedReply) -> bytes:
    """Return the first bytes of the body. A body that breaks off is as long as it is."""
    body = b""
    try:
        while len(body) < MAX_BODY and (chunk := await reply.next_chunk()):
            body += chunk
    except ConnectionBroken:
        pass
    return body[:MAX_BODY]


def _request(target: str, host: str, headers: list[tuple[str, str]]) -> bytes:
    named = next((value for name, value in headers if name.lower() == "host"), host)
    rest = "".join(f"{name}: {value}\r\n" for name, value in headers if name.lower() not in ("host", "connection"))
    return f"GET {target} HTTP/1.1\r\nHost: {named}\r\n{rest}Connection: close\r\n\r\n".encode("latin-1", "replace")
