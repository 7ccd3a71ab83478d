"""Finds the route to a node's API: its tunnel, else the address and port in its Node object.

On a direct connection the server presents its client certificate, and the node must present a certificate of the
cluster's authority.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from tarmac.base.clock import Clock
from tarmac.http.clientrequest import Dial, tcp
from tarmac.http.tls import present
from tarmac.server.nodes.tunnels import NodeTunnels
from tarmac.server.reader import Reader
from tarmac.server.security.certificates.issuing import KeyPair

_DAY = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class NodeRoute:
    """A route to a node. `host` is the Host header for its API."""

    dial: Dial
    host: str


class NodeTls:
    """The server's side of TLS to nodes.

    Its client certificate is reissued daily, long before it expires, and whenever the trusted authorities change.
    """

    def __init__(self, ca: Callable[[], str], issue: Callable[[], KeyPair], clock: Clock) -> None:
        self._ca = ca
        self._issue = issue
        self._clock = clock
        self._issued_at = -_DAY
        self._trusted = ""
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        trusted = self._ca()
        if self._context is None or trusted != self._trusted or self._clock.monotonic() > self._issued_at + _DAY:
            self._context, self._issued_at = self._new_context(trusted), self._clock.monotonic()
            self._trusted = trusted
        return self._context

    def _new_context(self, trusted: str) -> ssl.SSLContext:
        # Verifies certificate and host name: a node whose address went to another host must not get exec sessions.
        context = ssl.create_default_context(cadata=trusted)
        pair = self._issue()
        present(context, pair.certificate, pair.key)
        return context


class NodeRoutes:
    """Finds routes to nodes."""

    def __init__(self, reader: Reader, tunnels: NodeTunnels, tls: NodeTls) -> None:
        self._reader = reader
        self._tunnels = tunnels
        self._tls = tls

    def find(self, node: str) -> NodeRoute | None:
        """Return the tunnel if there is one, else the address, or None if the Node has none."""
        dial = self._tunnels.dial(node)
        # The tunnel first: its node has authenticated itself, while the address in the Node is the node's word.
        if dial is not None:
            return NodeRoute(dial, node)
        known = self._reader.get("core/nodes", node)
        status = known.get("status", {}) if known is not None else {}
        port = status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port")
        address = next((each["address"] for each in status.get("addresses") or () if each["type"] == "InternalIP"), "")
        if not port or not address:
            return None
        host = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        return NodeRoute(tcp(address, port, self._tls.context()), host)
